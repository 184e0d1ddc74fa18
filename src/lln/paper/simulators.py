"""The simulators behind the paper's ten systems, as far as its printed numbers determine them.

Lorenz is identified. For the other four families the paper prints no constants; what stands here is the best setting
that a search found (see `lln.paper.identify`), and not the paper's own. `lln.systems.PRESETS` keep the package's own
constants under the same names; the first reproduction used those.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from lln.core.errors import choice
from lln.systems import AdvectionDiffusion, Burgers, Lorenz, ReactionDiffusion, SpringChain, UserSystem
from lln.systems.base import Array, System

# A term of a start: amplitude, "sin" or "cos", number of waves on the unit interval (halves are allowed).
Terms = tuple[tuple[float, str, float], ...]


def waves(terms: Terms, u: Array) -> Array:
    """The sum of `terms` at the points `u` of the unit interval, (n,)."""
    shapes = {"sin": np.sin, "cos": np.cos}
    parts = [amplitude * shapes[kind](2.0 * math.pi * number * u) for amplitude, kind, number in terms]
    total: Array = np.sum(parts, axis=0)
    return total


def restarted(base: System, terms: Terms, *, closed: bool = False) -> System:
    """A field of the package with another start, a sum of waves.

    A `closed` start is taken on ``linspace(0, L, n)``, end point included, as a script may do it, while the equation is
    periodic with spacing L / n.
    """
    start = waves(terms, np.arange(base.size) / (base.size - 1 if closed else base.size))
    return UserSystem(base.rhs, start, base.dt, name=base.name, coordinates=base.coordinates, symbols=base.symbols)


@dataclass(frozen=True)
class PinnedChain(SpringChain):
    """Unit masses in a row with unit springs between neighbours and to their own places, both ends free.

    Equation: ``q_i' = p_i``, ``p_i' = q_{i+1} - 2 q_i + q_{i-1} - q_i`` with ``q_{-1} = q_0`` and ``q_n = q_{n-1}``.

    State: ``(q_0 .. q_{n-1}, p_0 .. p_{n-1})``, 2n numbers.

    What the solution does: from a start of one sign all masses swing almost in phase, with a slow beat. It is linear.

    When it breaks: RK4 is stable for dt below 1.26 (2.83 over the highest frequency, sqrt(5)).

    Args:
        masses: number of masses n.
        dt: time step.
    """

    dt: float = 0.014142

    def rhs(self, state: Array) -> Array:
        """f(q, p): (..., 2n) -> (..., 2n)."""
        q, p = state[..., : self.masses], state[..., self.masses :]
        left = np.concatenate([q[..., :1], q[..., :-1]], axis=-1)
        right = np.concatenate([q[..., 1:], q[..., -1:]], axis=-1)
        return np.concatenate([p, right - 3.0 * q + left], axis=-1)

    def start(self) -> Array:
        """Displacements sin(pi u), momenta cos(3 pi u) / 10, with u = (i + 1) / (n + 1)."""
        u = np.arange(1, self.masses + 1) / (self.masses + 1)
        return np.concatenate([waves(((1.0, "sin", 0.5),), u), waves(((0.1, "cos", 1.5),), u)])

    def energy(self, state: Array) -> Array:
        """Kinetic and elastic energy, (..., 2n) -> (...)."""
        q, p = state[..., : self.masses], state[..., self.masses :]
        total: Array = 0.5 * (p**2 + q**2).sum(-1) + 0.5 * (np.diff(q, axis=-1) ** 2).sum(-1)
        return total


_WAVE = ((0.1885, "sin", 1.0), (0.09425, "sin", 2.0), (0.02356, "cos", 4.0))
_PHASES = ((0.6, "sin", 1.0), (0.45, "cos", 2.0), (0.06, "sin", 4.0))
_EVERY: tuple[System, ...] = (
    Lorenz(rho=24.0),
    Lorenz(rho=28.0),
    *(PinnedChain(n) for n in (32, 48)),
    *(restarted(Burgers(points=n, nu=0.0316, dt=0.003), _WAVE, closed=True) for n in (32, 48)),
    *(restarted(AdvectionDiffusion(n, 0.7, 0.05, 0.002), ((1.0, "sin", 1.0), (0.6, "cos", 3.0))) for n in (32, 48)),
    *(restarted(ReactionDiffusion(points=n, nu=0.001, dt=0.002), _PHASES) for n in (32, 48)),
)
SIMULATORS = {system.name: system for system in _EVERY}


def simulator(name: str) -> System:
    """The simulator of one of the paper's systems."""
    return SIMULATORS[choice("system", name, SIMULATORS)]


def perturbed(start: Array, seed: int, relative: float) -> Array:
    """A start with noise: ``x0 + relative * RMS(x0) * N(0, 1)``, drawn from a torch generator with `seed`."""
    noise = torch.randn(len(start), generator=torch.Generator().manual_seed(seed)).double().numpy()
    moved: Array = start + relative * np.sqrt(np.mean(start**2)) * noise
    return moved
