"""The classical Runge-Kutta method with a fixed step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def rk4_step(rhs: Callable[[Any], Any], state: Any, dt: float) -> Any:
    """One step of order four, on whatever type `rhs` works on, one state or many at once.

    The form is fixed: in float32 on a chaotic system another order of the same operations is another trajectory.
    """
    k1 = rhs(state)
    k2 = rhs(state + dt / 2 * k1)
    k3 = rhs(state + dt / 2 * k2)
    k4 = rhs(state + dt * k3)
    return state + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
