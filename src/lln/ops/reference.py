"""The transport as the paper writes it: readable, any dtype, differentiable any number of times.

Everything faster is compared with this file. One layer lets the rays fly and then refracts them (eq. 5, 6 and the
scaled update of the appendix):

    y     <- y + L * theta
    theta <- theta + s * phi_l(y),      phi_l(y)_j = sum_k a[l, j, k] * exp(-((y_j - c_k) / sigma)^2)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

Centers = Tensor | Sequence[float]
Number = float | Tensor


def lens_transport(
    y: Tensor,
    theta: Tensor,
    coefficients: Tensor,
    centers: Centers,
    sigma: Number,
    length: Number,
    scale: Number = 1.0,
    *,
    backend: str = "reference",
    backward: str = "autograd",
) -> tuple[Tensor, Tensor]:
    """Carry rays y, theta (..., h) through D propagate-refract layers with coefficients a (D, h, K).

    The arguments are those of `lln.lens_transport`; `backend` and `backward` are ignored.
    """
    del backend, backward
    for layer in coefficients.unbind(0):
        y = y + length * theta
        theta = theta + scale * lens_field(y, layer, centers, sigma)
    return y, theta


def ensemble_transport(y: Tensor, theta: Tensor, coefficients: Tensor, *optics: Any) -> tuple[Tensor, Tensor]:
    """`lens_transport` member by member: rays (S, ..., h) with coefficients (S, D, h, K)."""
    members = zip(y, theta, coefficients, strict=True)
    ends = [lens_transport(*operands, *optics) for operands in members]
    return torch.stack([y for y, _ in ends]), torch.stack([theta for _, theta in ends])


def inverse_transport(
    y: Tensor, theta: Tensor, coefficients: Tensor, centers: Centers, sigma: Number, length: Number, scale: Number = 1.0
) -> tuple[Tensor, Tensor]:
    """Undo `lens_transport` layer by layer: take the refraction back, then fly back (eq. 10)."""
    for layer in coefficients.flip(0).unbind(0):
        theta = theta - scale * lens_field(y, layer, centers, sigma)
        y = y - length * theta
    return y, theta


def lens_field(y: Tensor, layer: Tensor, centers: Centers, sigma: Number) -> Tensor:
    """phi(y) of one lens: y (..., h), layer (h, K) -> (..., h) (eq. 7)."""
    return (_basis(y, centers, sigma) * layer).sum(-1)


def lens_slope(y: Tensor, layer: Tensor, centers: Centers, sigma: Number) -> Tensor:
    """phi'(y), the diagonal of the lens Jacobian H: y (..., h), layer (h, K) -> (..., h)."""
    offset = (y.unsqueeze(-1) - _as_tensor(centers, y)) / sigma
    return (-2.0 / sigma * offset * torch.exp(-offset.square()) * layer).sum(-1)


def _basis(y: Tensor, centers: Centers, sigma: Number) -> Tensor:
    return torch.exp(-((y.unsqueeze(-1) - _as_tensor(centers, y)) / sigma).square())


def _as_tensor(centers: Centers, like: Tensor) -> Tensor:
    return torch.as_tensor(centers, dtype=like.dtype, device=like.device)
