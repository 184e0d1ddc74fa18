"""Derivatives of the transport in plain torch: the tangent map, and the derivative of the gradient.

Every function takes rays (S, B, h) and coefficients (S, D, h, K) and is made of torch operations alone, so its results
can be differentiated again. With the stack T, incoming gradients g and the scalar <g, T(x)> of x = (y, theta, a), the
gradient is J(x)^T g. Its derivative along v = (v_y, v_theta, v_a) is H v, with the Hessian H of that scalar. H is
symmetric, so H v serves forward mode and backward mode alike.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lln.ops.reference import Centers

Triple = tuple[Tensor, Tensor, Tensor]
Optics = tuple[Centers, float, float, float]  # centers, sigma, length, scale


def tangent(x: Triple, v: Triple, optics: Optics) -> tuple[Tensor, Tensor]:
    """J v: how positions and angles behind the stack change along v."""
    return _tangent_sweep(x, v, optics)[1]


def hessian_product(
    x: Triple, g: tuple[Tensor, Tensor], v: Triple, optics: Optics
) -> tuple[Triple, tuple[Tensor, Tensor]]:
    """H v, like x, and J v."""
    _, _, length, scale = optics
    path, ends = _tangent_sweep(x, v, optics)
    (g_y, g_theta), coefficients, change = g, x[2], v[2]
    h_y, h_theta = torch.zeros_like(g_y), torch.zeros_like(g_theta)
    h_lenses: list[Tensor] = []
    layers = zip(path, coefficients.unbind(1), change.unbind(1), strict=True)
    for (y, v_y), lens, v_lens in reversed(list(layers)):
        basis, first, second = _gaussians(y, optics)
        moved = v_y.unsqueeze(-1)
        lens, v_lens = lens.unsqueeze(1), v_lens.unsqueeze(1)
        h_lenses.append(scale * (h_theta.unsqueeze(-1) * basis + g_theta.unsqueeze(-1) * first * moved).sum(1))
        slope = (lens * first).sum(-1)
        v_slope = (v_lens * first + lens * second * moved).sum(-1)
        h_y = h_y + scale * (slope * h_theta + v_slope * g_theta)
        g_y = g_y + scale * slope * g_theta
        h_theta, g_theta = h_theta + length * h_y, g_theta + length * g_y
    lenses = torch.stack(h_lenses[::-1], dim=1) if h_lenses else torch.zeros_like(coefficients)
    return (h_y, h_theta, lenses), ends


def _tangent_sweep(x: Triple, v: Triple, optics: Optics) -> tuple[list[tuple[Tensor, Tensor]], tuple[Tensor, Tensor]]:
    """The positions of every layer with their tangents, and J v."""
    _, _, length, scale = optics
    (y, theta, coefficients), (v_y, v_theta, v_coefficients) = x, v
    path = []
    for lens, v_lens in zip(coefficients.unbind(1), v_coefficients.unbind(1), strict=True):
        y, v_y = y + length * theta, v_y + length * v_theta
        path.append((y, v_y))
        basis, first, _ = _gaussians(y, optics)
        lens, v_lens = lens.unsqueeze(1), v_lens.unsqueeze(1)
        theta = theta + scale * (lens * basis).sum(-1)
        v_theta = v_theta + scale * (lens * first * v_y.unsqueeze(-1) + v_lens * basis).sum(-1)
    return path, (v_y, v_theta)


def _gaussians(y: Tensor, optics: Optics) -> Triple:
    """Basis functions (S, B, h, K) with their first and second derivatives."""
    centers, sigma, *_ = optics
    offset = (y.unsqueeze(-1) - torch.as_tensor(centers, dtype=y.dtype, device=y.device)) / sigma
    basis = torch.exp(-offset.square())
    return basis, -2.0 / sigma * offset * basis, (4.0 * offset.square() - 2.0) / sigma**2 * basis
