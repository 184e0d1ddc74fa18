"""Closed-form parts: columns that are computed from features, and the step that their solved weights make.

Every part is linear in its weights. Increments are regressed on ``[f, columns(f)]`` in float64; the weights of f become
the linear part of the step, those of the columns a polynomial or the readout of a lens network with drawn lenses.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import torch

from lln.fit.closed.linear import Units
from lln.models.lens import LensNetwork
from lln.step.dense import DenseStep
from lln.step.frame import Array, Frame, Polynomial, monomial_table


class Basis(Protocol):
    """One closed-form part with all its settings but the ridge."""

    @property
    def kind(self) -> str:
        """The name of the part, such as "polynomial"."""

    @property
    def size(self) -> int:
        """How many columns it adds."""

    def columns(self, features: Array) -> Array:
        """(P, F) -> (P, M)."""

    def step(self, frame: Frame, weights: Array) -> DenseStep:
        """The step of `frame`, which has the linear part, with the columns weighted by (n, M)."""

    def record(self) -> dict[str, Any]:
        """The settings as plain values."""


@dataclass(frozen=True, eq=False)
class PolynomialBasis:
    """All monomials of degree 2 to `degree` in some features.

    Attributes:
        factors: the features that are multiplied.
        degree: the highest.
    """

    factors: tuple[int, ...]
    degree: int
    kind: str = "polynomial"

    @property
    def size(self) -> int:
        """How many monomials."""
        return monomial_count(len(self.factors), self.degree) - len(self.factors)

    def columns(self, features: Array) -> Array:
        """The monomials."""
        return self._polynomial(np.zeros((1, self.size))).monomials(features)[:, len(self.factors) :]

    def step(self, frame: Frame, weights: Array) -> DenseStep:
        """With the polynomial in the frame; its monomials of degree one weigh nothing."""
        return DenseStep(replace(frame, polynomial=self._polynomial(weights)))

    def _polynomial(self, weights: Array) -> Polynomial:
        table = monomial_table(self.factors, self.degree)
        first = np.zeros((len(weights), len(self.factors)))
        return Polynomial(table, np.concatenate([first, weights], axis=1))

    def record(self) -> dict[str, Any]:
        """Degree and number of factors."""
        return {"degree": self.degree, "factors": len(self.factors)}


@dataclass(frozen=True, eq=False)
class LensBasis:
    """The positions of rays behind drawn lenses: a lens network whose readout is solved, not trained.

    Attributes:
        network: F -> n, in float64, drawn.
        scale: deviation of the embedding's entries, for features of deviation one.
    """

    network: LensNetwork
    scale: float
    kind: str = "lens"

    @property
    def size(self) -> int:
        """Number of rays."""
        return self.network.width

    @torch.no_grad()
    def columns(self, features: Array) -> Array:
        """The positions of the rays behind the last lens."""
        rows = torch.from_numpy(np.ascontiguousarray(features, dtype=np.float64))
        position: Array = self.network.transport(*self.network.embed(rows)).y.numpy()
        return position

    def step(self, frame: Frame, weights: Array) -> DenseStep:
        """With the network as a member that is added as it is."""
        network = LensNetwork(**self.network.config(), generator=torch.Generator()).double()
        network.load_state_dict(self.network.state_dict())
        with torch.no_grad():
            network.readout.weight.copy_(torch.from_numpy(np.ascontiguousarray(weights)))
            network.readout.bias.zero_()
        return DenseStep(replace(frame, gain=np.ones(frame.size)), (network.eval().requires_grad_(False),))

    def record(self) -> dict[str, Any]:
        """Sizes and the scale of the embedding."""
        return {"width": self.network.width, "depth": self.network.depth, "scale": self.scale}


# Of the lens networks that are drawn. Measured on systems of the package dysts with names from A to H.
DEPTH, CONTROL_POINTS, RANGE, SPACINGS, DEVIATION = 2, 8, 3.0, 2.0, 2.0


def drawn_lenses(
    active: Sequence[int], features: int, n: int, width: int, scale: float, seed: int, mixing: Array | None = None
) -> LensBasis:
    """A lens network with drawn embedding and lenses.

    Args:
        active: the features that it looks at.
        features: number of features F.
        n: number of coordinates.
        width: number of rays.
        scale: deviation of the embedding's entries, for three features; it falls with the root of their number.
        seed: of the draws.
        mixing: (F, F), the embedding is drawn for these combinations of features; None for the features themselves.
    """
    rng = np.random.default_rng(seed)
    spacing = 2 * RANGE / (CONTROL_POINTS - 1)
    network = LensNetwork(
        features, n, width=width, depth=DEPTH, basis=CONTROL_POINTS, control_range=(-RANGE, RANGE),
        sigma=SPACINGS * spacing, generator=torch.Generator(),
    ).double()  # fmt: skip
    deviation = scale / math.sqrt(max(len(active), 1) / 3)
    draws = [np.zeros((width, features)), np.zeros((width, features))]
    for draw in draws:
        draw[:, list(active)] = deviation * rng.normal(size=(width, len(active)))
    if mixing is not None:
        draws = [draw @ mixing for draw in draws]
    assert network.embed_angle is not None
    with torch.no_grad():
        network.embed_position.weight.copy_(torch.from_numpy(draws[0]))
        network.embed_position.bias.copy_(torch.from_numpy(rng.uniform(-0.8 * RANGE, 0.8 * RANGE, size=width)))
        network.embed_angle.weight.copy_(torch.from_numpy(draws[1]))
        network.embed_angle.bias.copy_(torch.from_numpy(rng.normal(size=width)))
        network.coefficients.copy_(torch.from_numpy(DEVIATION * rng.normal(size=(DEPTH, width, CONTROL_POINTS))))
    return LensBasis(network.requires_grad_(False), scale)


def monomial_count(factors: int, degree: int) -> int:
    """Monomials of degree 1 to `degree` in so many variables."""
    return math.comb(factors + degree, degree) - 1


def lag_space(units: Units) -> Array:
    """The matrix (F, F) from features to standardised past states [z_k, z_{k-1}, ..., u]."""
    n, history, m = len(units.mean), units.history, len(units.input_mean)
    matrix = np.eye(n * history + m)
    for j in range(1, history):
        rows = slice(j * n, (j + 1) * n)
        matrix[rows, :] = matrix[(j - 1) * n : j * n, :]
        matrix[rows, j * n : (j + 1) * n] -= np.diag(units.difference_scale[j - 1])
    return matrix
