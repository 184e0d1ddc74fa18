"""The classical Runge-Kutta method with a fixed step, one trajectory or many at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lln.core.errors import InputError, choice
from lln.core.shapes import positive, whole
from lln.systems.base import Array, System

DTYPES = ("float32", "float64")


def rk4_step(rhs: Callable[[Any], Any], state: Any, dt: float) -> Any:
    """One step of order four, on whatever type `rhs` works on.

    The form is fixed: in float32 on a chaotic system another order of the same operations is another trajectory.
    """
    k1 = rhs(state)
    k2 = rhs(state + dt / 2 * k1)
    k3 = rhs(state + dt / 2 * k2)
    k4 = rhs(state + dt * k3)
    return state + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def simulate(
    system: System,
    steps: int,
    *,
    starts: ArrayLike | None = None,
    dtype: str = "float32",
    dt: float | None = None,
) -> Array:
    """Advance `system` by `steps` steps and keep every state.

    Args:
        system: what to simulate.
        steps: number of steps.
        starts: the states at time zero, (..., n); one (n,) or many at once. None takes the system's own start.
        dtype: "float32", as in the paper, or "float64".
        dt: time step; None takes the system's own.

    Returns:
        The states, (..., steps + 1, n), the start first.
    """
    steps = whole("steps", steps, 1)
    kind = np.dtype(choice("dtype", dtype, DTYPES))
    dt = system.dt if dt is None else positive("dt", dt)
    state = np.asarray(system.start() if starts is None else starts).astype(kind)
    if state.ndim < 1 or state.shape[-1] != system.size:
        raise InputError(f"starts of {system.name} must have shape (..., {system.size}), got {state.shape}")
    if not np.isfinite(state).all():
        raise InputError(f"starts of {system.name} must be finite, got NaN or infinity")
    states = np.empty((*state.shape[:-1], steps + 1, system.size), dtype=kind)
    states[..., 0, :] = state
    with np.errstate(over="ignore", invalid="ignore"):
        for step in range(1, steps + 1):
            state = rk4_step(system.rhs, state, dt)
            states[..., step, :] = state
    _refuse_blow_up(system, states, dt)
    return states


def _refuse_blow_up(system: System, states: Array, dt: float) -> None:
    whole_states = np.isfinite(states).all(axis=-1)
    if not whole_states.all():
        step = int(np.argwhere(~whole_states)[:, -1].min())
        raise InputError(f"{system.name} left the finite numbers at step {step} with dt = {dt:g}; take a smaller dt")
