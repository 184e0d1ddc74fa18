"""Fields on a circle: what the three partial differential equations share."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lln.core.errors import check_int, finite, positive
from lln.systems.base import Array, System, constants

LENGTH = 2.0 * math.pi


class PeriodicField(System):
    """One field u(x, t) on the circle [0, 2 pi), held at n equally spaced points; state (u_0 .. u_{n-1}).

    Space is discretised by central differences of second order, so that what is solved is an ordinary differential
    equation whose own exact solution differs from the field's by O(dx^2).
    """

    points: int  #: number of points n.

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


@dataclass(frozen=True)
class AdvectionDiffusion(PeriodicField):
    """A concentration that drifts and spreads.

    Equation: ``u_t = -c u_x + nu u_xx`` on the circle [0, 2 pi), by central differences:
    ``u_j' = -c (u_{j+1} - u_{j-1}) / (2 dx) + nu (u_{j+1} - 2 u_j + u_{j-1}) / dx^2``.

    State: u at n equally spaced points, dimensionless concentration.

    What the solution does: every Fourier mode k moves and decays on its own, as ``exp(lambda_k t)`` with
    ``lambda_k = -i c sin(k dx) / dx - 2 nu (1 - cos(k dx)) / dx^2``; from sin x + cos(2x)/2 the short mode dies out
    four times as fast as the long one. It is linear, and the mean of u is conserved.

    When it breaks: RK4 needs dt below about min(2.8 dx / c, 0.7 dx^2 / nu).
    """

    family = "advecdiff"
    conserves_mean = True
    linear = True

    points: int = 48
    c: float = 0.1  #: velocity.
    nu: float = 0.05  #: diffusivity.
    dt: float = 0.01

    def rhs(self, state: Array) -> Array:
        """f(u): (..., n) -> (..., n)."""
        left, right = neighbours(state)
        dx = self.spacing
        return (right - 2.0 * state + left) * (self.nu / dx**2) - (right - left) * (self.c / (2.0 * dx))

    def start(self) -> Array:
        """``sin x + cos(2x) / 2``."""
        x = self.grid
        return np.asarray(np.sin(x) + 0.5 * np.cos(2.0 * x))


@dataclass(frozen=True)
class ReactionDiffusion(PeriodicField):
    """Two phases, u = -1 and u = +1, with walls between them.

    Equation: ``u_t = nu u_xx + u - u^3`` on the circle [0, 2 pi), by central differences:
    ``u_j' = nu (u_{j+1} - 2 u_j + u_{j-1}) / dx^2 + u_j - u_j^3``.

    State: u at n equally spaced points, dimensionless order parameter.

    What the solution does: it descends the energy ``integral of nu u_x^2 / 2 + (1 - u^2)^2 / 4``. Within a few time
    units u is close to one of the two phases almost everywhere, with walls of width sqrt(2 nu) between; the walls
    then hardly move, and every state between -1 and 1 stays there.

    When it breaks: walls need a few points each, dx below sqrt(2 nu); RK4 needs dt below about 0.7 dx^2 / nu and 1.
    """

    family = "reactiondiff"

    points: int = 48
    nu: float = 0.05  #: diffusivity.
    dt: float = 0.002

    def rhs(self, state: Array) -> Array:
        """f(u): (..., n) -> (..., n)."""
        left, right = neighbours(state)
        return (right - 2.0 * state + left) * (self.nu / self.spacing**2) + state - state * state * state

    def start(self) -> Array:
        """``sin x + cos(2x) / 4``."""
        x = self.grid
        return np.asarray(np.sin(x) + 0.25 * np.cos(2.0 * x))

    def energy(self, state: Array) -> Array:
        """The free energy, which never grows, (..., n) -> (...)."""
        _, right = neighbours(state)
        slope = (right - state) / self.spacing
        total: Array = self.spacing * (0.5 * self.nu * slope**2 + 0.25 * (1.0 - state**2) ** 2).sum(-1)
        return total


@dataclass(frozen=True)
class Burgers(PeriodicField):
    """Steepening against viscosity: the simplest model of a shock.

    Equation: ``u_t = -(u^2 / 2)_x + nu u_xx`` on the circle [0, 2 pi), in conservative form:
    ``u_j' = -(u_{j+1}^2 - u_{j-1}^2) / (4 dx) + nu (u_{j+1} - 2 u_j + u_{j-1}) / dx^2``.

    State: u at n equally spaced points, dimensionless velocity.

    What the solution does: waves from sin x + cos(2x)/2 steepen until about t = 0.6, when fronts of width nu / |u|
    form, which then drift, merge and decay. The mean of u is conserved exactly, also by the discrete form.

    When it breaks: fronts thinner than dx (cell Reynolds number |u| dx / nu above 2) ring on the grid: at nu = 0.02 the
    presets with 32 and 48 points are under-resolved and the ringing is part of the system to be learned; the true
    front needs about 512 points. RK4 needs dt below about min(2.8 dx / |u|, 0.7 dx^2 / nu).
    """

    family = "burgers"
    conserves_mean = True

    points: int = 48
    nu: float = 0.02  #: viscosity.
    dt: float = 0.001

    def rhs(self, state: Array) -> Array:
        """f(u): (..., n) -> (..., n)."""
        left, right = neighbours(state)
        dx = self.spacing
        flux = (right * right - left * left) * (0.25 / dx)
        return (right - 2.0 * state + left) * (self.nu / dx**2) - flux

    def start(self) -> Array:
        """``sin x + cos(2x) / 2``."""
        x = self.grid
        return np.asarray(np.sin(x) + 0.5 * np.cos(2.0 * x))
