"""Equations of the problems of `benchmarks.accuracy.problems`, integrated to ten digits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import solve_ivp

Array = NDArray[np.float64]
RightSide = Callable[[float, Array], Array]


@dataclass(frozen=True)
class Problem:
    """One trajectory to learn from, and how far its forecasts are scored.

    Attributes:
        make: from a number of rows and a random generator to states (rows, n).
        rows: that train.
        steps: of the forecasts that are scored, about one Lyapunov time.
    """

    make: Callable[[int, np.random.Generator], Array]
    rows: int
    steps: int


def integrated(right: RightSide, start: Array, dt: float, rows: int, before: float) -> Array:
    """States (rows, n) at steps of `dt`, from the time `before` on."""
    times = before + dt * np.arange(rows)
    found = solve_ivp(right, (0.0, times[-1] + dt), start, t_eval=times, method="DOP853", rtol=1e-11, atol=1e-12)
    return np.asarray(found.y.T)


def flow(right: RightSide, centre: list[float], spread: float, dt: float, before: float) -> Callable[..., Array]:
    """A maker of trajectories from starts around `centre`."""

    def make(rows: int, rng: np.random.Generator) -> Array:
        start = np.asarray(centre) + spread * rng.normal(size=len(centre))
        return integrated(right, start, dt, rows, before)

    return make


def lorenz(_: float, s: Array) -> Array:
    """Lorenz 1963."""
    x, y, z = s
    return np.array([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z])


def roessler(_: float, s: Array) -> Array:
    """Roessler 1976."""
    x, y, z = s
    return np.array([-y - z, x + 0.2 * y, 0.2 + z * (x - 5.7)])


def halvorsen(_: float, s: Array) -> Array:
    """Halvorsen's cyclic system."""
    x, y, z = s
    return np.array([
        -1.4 * x - 4 * y - 4 * z - y * y, -1.4 * y - 4 * z - 4 * x - z * z, -1.4 * z - 4 * x - 4 * y - x * x,
    ])  # fmt: skip


def lorenz96(_: float, s: Array) -> Array:
    """Lorenz 1996 with forcing 8."""
    return (np.roll(s, -1) - np.roll(s, 2)) * np.roll(s, 1) - s + 8.0


def double_pendulum(_: float, s: Array) -> Array:
    """Two equal masses on rods of length one: angles and angular velocities."""
    a, b, u, v = s
    d, g = a - b, 9.81
    below = 3 - np.cos(2 * d)
    first = -3 * g * np.sin(a) - g * np.sin(a - 2 * b) - 2 * np.sin(d) * (v * v + u * u * np.cos(d))
    second = 2 * np.sin(d) * (2 * u * u + 2 * g * np.cos(a) + v * v * np.cos(d))
    return np.array([u, v, first / below, second / below])


def van_der_pol(rows: int, rng: np.random.Generator) -> Array:
    """The forced oscillator with the phase of its forcing as sine and cosine, (rows, 4)."""
    mu, size, omega, dt, before = 8.53, 1.2, 0.63, 0.1, 200.0
    phase = rng.uniform(0, 2 * np.pi)

    def right(time: float, s: Array) -> Array:
        x, y = s
        return np.array([y, mu * (1 - x * x) * y - x + size * np.sin(omega * time + phase)])

    states = integrated(right, rng.normal(size=2), dt, rows, before)
    angle = omega * (before + dt * np.arange(rows)) + phase
    return np.column_stack([states, np.sin(angle), np.cos(angle)])


def pendula(rows: int, rng: np.random.Generator) -> Array:
    """The double pendulum with sines and cosines of its angles, (rows, 6)."""
    start = np.array([2.0, 2.0, 0.0, 0.0]) + 0.1 * rng.normal(size=4)
    a, b, u, v = integrated(double_pendulum, start, 0.02, rows, 10.0).T
    return np.column_stack([np.sin(a), np.cos(a), np.sin(b), np.cos(b), u, v])


def mackey_glass(rows: int, rng: np.random.Generator) -> Array:
    """The delay equation with delay 17 at steps of one, by Runge-Kutta steps of a tenth, (rows, 1)."""
    delay, inner, skipped = 170, 10, 1000
    x = np.empty((rows + skipped) * inner + delay + 1)
    x[: delay + 1] = 1.2 + 0.1 * rng.normal()

    def right(now: float, past: float) -> float:
        return 0.2 * past / (1 + past**10) - 0.1 * now

    for k in range(delay, len(x) - 1):
        first, last = x[k - delay], x[k - delay + 1]
        middle, now, step = (first + last) / 2, x[k], 0.1
        a = right(now, first)
        b = right(now + step / 2 * a, middle)
        c = right(now + step / 2 * b, middle)
        d = right(now + step * c, last)
        x[k + 1] = now + step / 6 * (a + 2 * b + 2 * c + d)
    return x[delay + skipped * inner :: inner][:rows, None].copy()


PROBLEMS = {
    "Lorenz, dt 0.01": Problem(flow(lorenz, [1.0, 1.0, 20.0], 1.0, 0.01, 20.0), 3000, 110),
    "Lorenz, dt 0.025, 400 rows": Problem(flow(lorenz, [1.0, 1.0, 20.0], 1.0, 0.025, 20.0), 400, 44),
    "Roessler": Problem(flow(roessler, [1.0, 1.0, 1.0], 0.5, 0.2, 100.0), 1500, 70),
    "forced Van der Pol": Problem(van_der_pol, 1500, 50),
    "double pendulum": Problem(pendula, 3000, 50),
    "Mackey-Glass": Problem(mackey_glass, 2000, 100),
    "Lorenz-96, 10 sites": Problem(flow(lorenz96, [8.0] * 10, 1.0, 0.05, 20.0), 3000, 17),
    "Halvorsen": Problem(flow(halvorsen, [-5.0, 0.0, 0.0], 0.3, 0.03, 20.0), 2000, 48),
}
# Lorenz-96 with 36 sites and forcing 8, whose largest Lyapunov exponent is about 1.69: 240 steps are 20 Lyapunov times.
RING_DT, RING_EXPONENT = 0.05, 1.69
RING = Problem(flow(lorenz96, [8.0] * 36, 1.0, RING_DT, 20.0), 5000, 240)


def pendulum(_: float, s: Array) -> Array:
    """Angle and angular velocity."""
    return np.array([s[1], -np.sin(s[0])])


def pendulum_energy(states: Array) -> Array:
    """Energy of states (..., 2)."""
    return np.asarray(states[..., 1] ** 2 / 2 + 1 - np.cos(states[..., 0]))


def henon_heiles(_: float, s: Array) -> Array:
    """Positions and momenta."""
    x, y, u, v = s
    return np.array([u, v, -x - 2 * x * y, -y - x * x + y * y])


def henon_heiles_energy(states: Array) -> Array:
    """Energy of states (..., 4)."""
    x, y, u, v = np.moveaxis(states, -1, 0)
    return np.asarray((u * u + v * v + x * x + y * y) / 2 + x * x * y - y**3 / 3)


@dataclass(frozen=True)
class Conserved:
    """A system with an energy.

    Attributes:
        right: side of the equation.
        energy: of states.
        start: of the trajectory.
        dt: step.
        rows: that train.
    """

    right: RightSide
    energy: Callable[[Array], Array]
    start: tuple[float, ...]
    dt: float
    rows: int


CONSERVED = {
    "pendulum": Conserved(pendulum, pendulum_energy, (2.0, 0.0), 0.1, 2000),
    "Henon-Heiles": Conserved(henon_heiles, henon_heiles_energy, (0.1, 0.1, 0.3, 0.2), 0.1, 3000),
}
