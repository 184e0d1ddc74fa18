"""Closed-form parts: their settings, their columns, and the step that the solved weights make.

Every part is linear in its weights. Increments are regressed on ``[f, columns(f)]`` in float64; the weights of f become
the linear part of the step, those of the columns a polynomial or the readout of a lens network with drawn lenses.

Drawn lenses are trained by variable projection: the readout is solved, what comes before it follows a gradient. What is
trained are factors that all rays share, so that factors learned with some rays hold for other draws too: of the
embedding of each feature, in positions and in angles, of the angles' biases, of the flight, and of the width and the
strength of the lenses. With the readout W eliminated, the loss of a coordinate is the logarithm of ``min_W |Z W - y|^2
+ r |W|^2``, whose gradient needs no derivative of W. There are about as many rays as rows, and nearly any lenses could
fit them, so the logarithm of the volume that the columns Z span is added: together the evidence of a Gaussian process.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from lln.data.stream import pair_batches
from lln.fit.choice.holdout import RolloutErrors
from lln.fit.closed.flow_search import FlowChoice
from lln.fit.closed.linear import Units
from lln.fit.closed.vector_fields import monomial_count
from lln.fit.prepare import PreparedData
from lln.models.lens import LensNetwork
from lln.ops import reference
from lln.step.frame import Array, Frame, Polynomial, monomial_table
from lln.step.step import DenseStep

WIDEST = 1200  # rays of a lens network
MOST_ROWS = 24_000  # pairs that a closed form is solved from at most
_STREAMED_ROWS = 6000  # of data that does not fit into memory


@dataclass(frozen=True)
class ClosedChoice:
    """One closed form with all that is needed to solve it again."""

    kind: str  #: "polynomial", "flow", "lens", or the name of a part of another package.
    history: int  #: states that it looks at.
    ridge: float  #: relative to the largest squared singular value.
    degree: int = 0  #: of a polynomial or of a vector field.
    scale: float = 0.0  #: of the embedding of a lens network.
    width: int = 0  #: rays of a lens network.
    lags: bool = False  #: whether the embedding is drawn for past states rather than for differences between them.
    factors: tuple[float, ...] = ()  #: of trained lenses (see `projection`); none where lenses are as drawn.
    flow: FlowChoice | None = None  #: the other settings of a vector field, also of one that lenses stand beside.

    def record(self) -> dict[str, Any]:
        """As plain values, for the report."""
        common: dict[str, Any] = {"part": self.kind, "history": self.history, "ridge": self.ridge}
        if self.kind == "lens":
            lens = {**common, "scale": self.scale, "width": self.width, "lags": self.lags}
            lens |= {} if self.flow is None else {"field": self.flow.record()}
            return {**lens, "trained": True} if self.factors else lens
        if self.flow is not None:
            return {**common, **self.flow.record()}
        return {**common, "degree": self.degree} if self.degree else common

    @property
    def size(self) -> int:
        """A rough order of complexity: polynomials, lens networks, parts of other packages; then the history."""
        fewer = 0 if self.flow is None else 2 * bool(self.flow.radius) + bool(self.flow.threshold)
        return (self.width or 10 * self.degree or 10 * WIDEST) + self.history - fewer


@dataclass(frozen=True, eq=False)
class Scored:
    """A closed form and its held-out rollouts."""

    choice: ClosedChoice
    errors: RolloutErrors


class Basis(Protocol):
    """One closed-form part with all its settings but the ridge."""

    def columns(self, features: Array) -> Array:
        """(P, F) -> (P, M)."""

    def step(self, frame: Frame, weights: Array) -> DenseStep:
        """The step of `frame`, which has the linear part, with the columns weighted by (n, M)."""


@dataclass(frozen=True, eq=False)
class FeatureRows:
    """Features and standardised increments of some pairs."""

    features: Array
    increments: Array
    weights: Array | None

    @classmethod
    def of(cls, ready: PreparedData, units: Units) -> FeatureRows:
        """Up to 24,000 pairs, evenly spread where there are more."""
        if ready.in_memory:
            features, increments, weights = ready.some(units, MOST_ROWS)
            return cls(features, increments / units.scale, weights)
        pairs = next(pair_batches(ready.dataset, units.history, rows=_STREAMED_ROWS, shuffle=0))
        features = units.frame().feature_rows(pairs.window, pairs.inputs)
        return cls(features, pairs.increments / units.scale, pairs.weights)

    def columns(self, basis: Basis) -> Array:
        """Features with the columns of `basis`, (P, F + M)."""
        return np.concatenate([self.features, basis.columns(self.features)], axis=1)

    def blocks(self, basis: Basis, rows: int = 4096) -> Iterator[tuple[Array, Array, Array | None]]:
        """Features with the columns of `basis`, increments and weights, some rows at a time."""
        for first in range(0, len(self.features), rows):
            part = slice(first, first + rows)
            features = self.features[part]
            columns = np.concatenate([features, basis.columns(features)], axis=1)
            yield columns, self.increments[part], None if self.weights is None else self.weights[part]

    def some(self, count: int) -> FeatureRows:
        """Evenly spread rows."""
        if len(self.features) <= count:
            return self
        return self.at(np.linspace(0, len(self.features) - 1, count).round().astype(int))

    def at(self, rows: Any) -> FeatureRows:
        """The rows of these numbers, or where a mask is true."""
        weights = None if self.weights is None else self.weights[rows]
        return FeatureRows(self.features[rows], self.increments[rows], weights)


@dataclass(frozen=True, eq=False)
class PolynomialBasis:
    """All monomials of degree 2 to `degree` in some features."""

    factors: tuple[int, ...]  #: the features that are multiplied.
    degree: int  #: the highest.

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


@dataclass(frozen=True, eq=False)
class LensBasis:
    """The positions of rays behind drawn lenses: a lens network whose readout is solved, not trained."""

    network: LensNetwork  #: F -> n, in float64, drawn.

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
        scale: standard deviation of the embedding's entries, for three features; it falls with the root of their
            number.
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
    return LensBasis(network.requires_grad_(False))


def lag_space(units: Units) -> Array:
    """The matrix (F, F) from features to standardised past states [z_k, z_{k-1}, ..., u]."""
    n, history, m = len(units.mean), units.history, len(units.input_mean)
    matrix = np.eye(n * history + m)
    for j in range(1, history):
        rows = slice(j * n, (j + 1) * n)
        matrix[rows, :] = matrix[(j - 1) * n : j * n, :]
        matrix[rows, j * n : (j + 1) * n] -= np.diag(units.difference_scale[j - 1])
    return matrix


RAYS, ROWS = 256, 512  # that factors are learned from at most
_LEAST_RIDGE = 1e-11  # Cholesky's method fails with smaller ones
_STEPS, _CALLS = 12, 16  # of the search, and evaluations of the loss
_FARTHEST = 3.0  # natural logarithm of a factor
_STILL = 1e-9  # deviation of a column, against its size, below which it is taken for constant


class _LateError(Exception):
    """The time is over."""


class Projection:
    """The loss of the factors of a drawn lens network, with its readout eliminated.

    Args:
        network: F -> n, drawn, in float64.
        pairs: rows that train.
        ridge: relative to the largest squared singular value of the normalised columns.
    """

    def __init__(self, network: LensNetwork, pairs: FeatureRows, ridge: float) -> None:
        pairs = pairs.some(ROWS)
        self.network, self.rows = network, torch.from_numpy(np.ascontiguousarray(pairs.features))
        count = len(self.rows)
        weights = np.ones(count) if pairs.weights is None else np.asarray(pairs.weights, dtype=np.float64)
        self.share = torch.from_numpy(weights / weights.sum())[:, None]
        targets = self._normalised(torch.from_numpy(pairs.increments))
        self.targets = targets[:, targets.any(dim=0)]
        with torch.no_grad():
            gram = self._gram(torch.zeros(factor_count(network), dtype=torch.float64))[1]
        self.ridge = max(ridge, _LEAST_RIDGE) * float(torch.linalg.eigvalsh(gram)[-1])

    @torch.enable_grad()
    def value(self, logs: Array) -> tuple[float, Array]:
        """The loss at logarithms of factors, and its gradient."""
        free = torch.from_numpy(np.array(logs, dtype=np.float64)).requires_grad_()
        columns, gram = self._gram(free)
        count, n = self.targets.shape
        with torch.no_grad():
            gram.diagonal().add_(self.ridge)
            factor, failed = torch.linalg.cholesky_ex(gram)
            if failed:
                return math.inf, np.zeros(len(logs))
            inverse = torch.cholesky_inverse(factor)
            along = inverse @ self.targets
            left = (self.targets * along).sum(dim=0)  # of each coordinate, the least loss divided by the ridge
            value = 0.5 * left.log().sum() + n / count * factor.diagonal().log().sum()
            slope = (n / count) * inverse - (along / left) @ along.T
        columns.backward(slope @ columns.detach())
        assert free.grad is not None
        return float(value), free.grad.numpy()

    def trained(self, late: Callable[[], bool] = lambda: False) -> tuple[float, ...] | None:
        """The factors after a short search; None where no better ones were found.

        Args:
            late: whether the search should end.
        """
        from scipy.optimize import minimize

        start = np.zeros(factor_count(self.network))
        tried: list[tuple[float, Array]] = []

        def value(logs: Array) -> tuple[float, Array]:
            if late():
                raise _LateError
            loss, slope = self.value(logs)
            if math.isfinite(loss):
                tried.append((loss, np.array(logs)))
            return loss, slope

        try:
            bounds = [(-_FARTHEST, _FARTHEST)] * len(start)
            options = {"maxiter": _STEPS, "maxfun": _CALLS}
            minimize(value, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        except _LateError:
            pass  # the best so far serves
        if not tried:
            return None
        loss, logs = min(tried, key=lambda one: one[0])
        return tuple(np.exp(logs).tolist()) if loss < tried[0][0] else None

    def _gram(self, logs: Tensor) -> tuple[Tensor, Tensor]:
        """The normalised columns Z, (P, M), with their gradient, and the products of rows without one."""
        columns = self._normalised(torch.cat([self.rows, rays(self.network, self.rows, logs.exp())], dim=1))
        held = columns.detach()
        return columns, held @ held.T

    def _normalised(self, columns: Tensor) -> Tensor:
        """Weighted columns of mean zero and norm one; those that do not vary become zero."""
        centred = (columns - (self.share * columns).sum(dim=0)) * self.share.sqrt()
        size, whole = centred.norm(dim=0), (self.share.sqrt() * columns).norm(dim=0)
        return centred / torch.where(size > _STILL * whole, size, math.inf)


def factor_count(network: LensNetwork) -> int:
    """How many factors a network has."""
    return 2 * network.n_in + 4


def rays(network: LensNetwork, rows: Tensor, factors: Tensor) -> Tensor:
    """The positions behind the last lens of a network with factors: (P, F) -> (P, h)."""
    position, angle, (tilt, length, width, strength) = factors.split((network.n_in, network.n_in, 4))
    assert network.embed_angle is not None
    y = network.embed_position(rows * position)
    theta = torch.tanh((rows * angle) @ network.embed_angle.weight.T + tilt * network.embed_angle.bias)
    flight, lenses = length * network.length, strength * network.coefficients[:-1]  # the last lens is not seen
    y, theta = reference.lens_transport(
        y, theta, lenses, network.centers, width * network.sigma, flight, network.lens_scale
    )
    behind: Tensor = y + flight * theta
    return behind


def with_factors(network: LensNetwork, factors: tuple[float, ...]) -> LensNetwork:
    """A network of the same kind whose rays are those of `network` with factors."""
    position, angle, (tilt, length, width, strength) = torch.tensor(factors, dtype=torch.float64).split(
        (network.n_in, network.n_in, 4)
    )
    optics = {
        "sigma": float(width) * network.sigma,
        "optical_length": float(length) * network.optical_length,
        "propagation": float(length) * network.length,
    }
    made = LensNetwork(**{**network.config(), **optics}, generator=torch.Generator()).double()
    made.load_state_dict(network.state_dict())
    assert made.embed_angle is not None
    with torch.no_grad():
        made.embed_position.weight.mul_(position)
        made.embed_angle.weight.mul_(angle)
        made.embed_angle.bias.mul_(tilt)
        made.coefficients.mul_(strength)
    return made.requires_grad_(False)
