"""Trajectories of any system: spectral fields by their own method, everything else by Runge-Kutta."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lln.core.errors import InputError, check_int, choice, finite, positive
from lln.systems.base import Array, System
from lln.systems.fields.spectral import SpectralField

DTYPES = ("float32", "float64")


def rk4_step(rhs: Callable[[Any], Any], state: Any, dt: float) -> Any:
    """One step of order four, on whatever type `rhs` works on, one state or many at once.

    The form is fixed: in float32 on a chaotic system another order of the same operations is another trajectory.
    """
    k1 = rhs(state)
    k2 = rhs(state + dt / 2 * k1)
    k3 = rhs(state + dt / 2 * k2)
    k4 = rhs(state + dt * k3)
    return state + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def perturbed_start(system: System, seed: int, relative: float = 0.02) -> Array:
    """The system's start with noise: ``x0 + relative * RMS(x0) * N(0, 1)``, (n,); one seed gives one start."""
    start = system.start()
    noise = np.random.default_rng(check_int("seed", seed, 0)).standard_normal(system.size)
    perturbed: Array = start + finite("relative", relative) * np.sqrt(np.mean(start**2)) * noise
    return perturbed


def stepper(system: System, dt: float | None = None) -> Callable[[Array], Array]:
    """The map of `system` over one step of `dt`, by default its own, (..., n) -> (..., n)."""
    step = system.dt if dt is None else positive("dt", dt)
    if isinstance(system, SpectralField):
        return system.propagator(step)

    def advance(state: Array) -> Array:
        after: Array = rk4_step(system.rhs, state, step)
        return after

    return advance


def simulate(
    system: System, steps: int, *, starts: ArrayLike | None = None, dtype: str = "float32", dt: float | None = None
) -> Array:
    """Advance `system` by `steps` steps and keep every state.

    Args:
        system: what to simulate.
        steps: number of steps.
        starts: the states at time zero, (..., n); one (n,) or many at once. None takes the system's own start.
        dtype: of the states: "float32", as in the paper, or "float64". Runge-Kutta also computes in it; spectral fields
            are always computed in float64.
        dt: time step; None takes the system's own.

    Returns:
        The states, (..., steps + 1, n), the start first.
    """
    steps = check_int("steps", steps, 1)
    kind = np.dtype(choice("dtype", dtype, DTYPES))
    dt = system.dt if dt is None else positive("dt", dt)
    computed_in = np.float64 if isinstance(system, SpectralField) else kind
    state: Array = np.asarray(system.start() if starts is None else starts).astype(computed_in)
    if state.ndim < 1 or state.shape[-1] != system.size:
        raise InputError(f"starts of {system.name} must have shape (..., {system.size}), got {state.shape}")
    if not np.isfinite(state).all():
        raise InputError(f"starts of {system.name} must be finite, got NaN or infinity")
    states = np.empty((*state.shape[:-1], steps + 1, system.size), dtype=kind)
    states[..., 0, :] = state
    with np.errstate(over="ignore", invalid="ignore"):
        advance = stepper(system, dt)
        for step in range(1, steps + 1):
            state = advance(state)
            states[..., step, :] = state
    _refuse_blow_up(system, states, dt)
    return states


def _refuse_blow_up(system: System, states: Array, dt: float) -> None:
    good = np.isfinite(states).all(axis=-1)
    if not good.all():
        step = int(np.argwhere(~good)[:, -1].min())
        more = f", or more substeps than {system.substeps}" if isinstance(system, SpectralField) else ""
        raise InputError(f"{system.name} overflowed at step {step} with dt = {dt:g}; take a smaller dt{more}")


def seeded_start(system: System, seed: int) -> Array:
    """The start that `seed` stands for, (n,): a smooth random field of a spectral system, else a perturbed start.

    White noise on a field would be gone after a few steps, or ring where nothing damps it.
    """
    seed = check_int("seed", seed, 0)
    return system.random_start(seed) if isinstance(system, SpectralField) else perturbed_start(system, seed)
