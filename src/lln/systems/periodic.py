"""Fields on a circle: what the three partial differential equations share."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from lln.core.errors import check_int, finite, positive
from lln.systems.base import Array, System, constants

LENGTH = 2.0 * math.pi


class PeriodicField(System):
    """One field u(x, t) on the circle [0, 2 pi), held at n equal points; state (u_0 .. u_{n-1}).

    Space is discretised by central differences of second order, so that what is solved is an ordinary differential
    equation whose own exact solution differs from the field's by O(dx^2).

    Attributes:
        points: number of points n.
    """

    points: int

    def __post_init__(self) -> None:
        """Check the grid, the step and the constants."""
        check_int("points", self.points, 3)
        positive("dt", self.dt)
        for name, value in self.symbols.items():
            finite(name, value)

    @property
    def size(self) -> int:
        """Number of points n."""
        return self.points

    @property
    def spacing(self) -> float:
        """Distance dx of neighbouring points."""
        return LENGTH / self.points

    @property
    def grid(self) -> Array:
        """The points x_j = j dx."""
        return np.arange(self.points) * self.spacing

    @property
    def coordinates(self) -> tuple[str, ...]:
        """u0, u1, ..."""
        return tuple(f"u{i}" for i in range(self.points))

    @property
    def symbols(self) -> Mapping[str, float]:
        """Size n and the constants."""
        return {"n": self.points, **constants(self)}


def neighbours(u: Array) -> tuple[Array, Array]:
    """u_{j-1} and u_{j+1} at every point of the circle."""
    left: np.ndarray[Any, Any] = np.empty_like(u)
    right: np.ndarray[Any, Any] = np.empty_like(u)
    left[..., 1:], left[..., :1] = u[..., :-1], u[..., -1:]
    right[..., :-1], right[..., -1:] = u[..., 1:], u[..., :1]
    return left, right
