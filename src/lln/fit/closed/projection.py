"""Drawn lenses trained by variable projection: the readout is solved, what comes before it follows a gradient.

What is trained are factors that all rays share, so that what some rays teach holds for other draws too: of the
embedding of each feature, in positions and in angles, of the angles' biases, of the flight, and of the width and the
strength of the lenses. With the readout W eliminated, the loss of a coordinate is the logarithm of
``min_W |Z W - y|^2 + r |W|^2``, whose gradient needs no derivative of W. There are about as many rays as rows, and
nearly any lenses could fit them, so the logarithm of the volume that the columns Z span is added: together the
evidence of a Gaussian process.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from lln.fit.closed.rows import Pairs
from lln.models.lens import LensNetwork
from lln.ops import reference
from lln.step.frame import Array

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

    def __init__(self, network: LensNetwork, pairs: Pairs, ridge: float) -> None:
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
