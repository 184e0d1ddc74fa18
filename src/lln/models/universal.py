"""The universal-approximation theorem as a construction: a Gaussian ridge expansion, rebuilt as a lens network.

The theorem (Appendix A) approximates any continuous map on a compact set by

    F(x) = b + sum_i gamma_i exp(-(w_i . x + beta_i)^2)

and shows that two lens layers of width 2M hold any such F exactly. Term i takes two rays p and r that start together at
c + sigma (w_i . x + beta_i) with angle zero. The first lens bends p by the Gaussian at c and leaves r alone, the second
flight turns that bend into the displacement L * exp(...), and the readout takes the difference of the two positions.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lln.core.errors import InputError, check_int, finite
from lln.models.lens import LensNetwork


def ridge_expansion(x: Tensor, weights: Tensor, shifts: Tensor, coefficients: Tensor, bias: Tensor) -> Tensor:
    """F(x) itself: x (..., n) -> (..., q), with weights (M, n), shifts (M,), coefficients (M, q), bias (q,)."""
    return torch.exp(-(x @ weights.mT + shifts).square()) @ coefficients + bias


def ridge_network(
    weights: Tensor,
    shifts: Tensor,
    coefficients: Tensor,
    bias: Tensor,
    *,
    propagation: float = 1.0,
    basis: int = 1,
    control_range: tuple[float, float] = (-3.0, 3.0),
    sigma: float | None = None,
    center: int = 0,
    lens_scale: float = 1.0,
) -> LensNetwork:
    """The two-layer lens network that equals `ridge_expansion`, in the dtype and on the device of `weights`.

    In floating point the two differ by the cancellation in y_p - y_r: about sum|gamma| max|y| / |L| times the unit
    roundoff. A longer flight loses less.

    Args:
        weights: w, (M, n).
        shifts: beta, (M,).
        coefficients: gamma, (M, q).
        bias: b, (q,).
        propagation: distance L of one layer, not zero.
        basis: number of control points K in the dictionary.
        control_range: range of the control points.
        sigma: width of the Gaussians; None takes the spacing of the control points.
        center: which control point is used, counted from 0.
        lens_scale: fixed scale s of the lenses, not zero.
    """
    terms, n_in, n_out = _check(weights, shifts, coefficients, bias)
    for name, value in (("propagation", propagation), ("lens_scale", lens_scale)):
        if finite(name, value) == 0:
            raise InputError(f"{name} must not be zero: without it no lens can move a ray; use 1.0")
    network = LensNetwork(
        n_in,
        n_out,
        width=2 * terms,
        depth=2,
        basis=basis,
        propagation=propagation,
        control_range=control_range,
        sigma=sigma,
        lens_scale=lens_scale,
    ).to(weights)
    if check_int("center", center, 0) >= network.basis:
        raise InputError(f"center must be a control point's index in 0..{network.basis - 1}, got {center}")
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.zero_()
        network.embed_position.weight.copy_((network.sigma * weights).repeat(2, 1))
        network.embed_position.bias.copy_((network.centers[center] + network.sigma * shifts).repeat(2))
        network.coefficients[0, :terms, center] = 1.0 / network.lens_scale
        network.readout.weight.copy_(torch.cat((coefficients, -coefficients)).mT / network.length)
        network.readout.bias.copy_(bias)
    return network


def _check(weights: Tensor, shifts: Tensor, coefficients: Tensor, bias: Tensor) -> tuple[int, int, int]:
    if weights.ndim != 2 or coefficients.ndim != 2:
        raise InputError(
            "weights and coefficients must have shapes (M, n) and (M, q), "
            f"got {tuple(weights.shape)} and {tuple(coefficients.shape)}"
        )
    (terms, n_in), n_out = weights.shape, coefficients.shape[1]
    expected = {"shifts": (terms,), "coefficients": (terms, n_out), "bias": (n_out,)}
    for name, value in (("shifts", shifts), ("coefficients", coefficients), ("bias", bias)):
        if tuple(value.shape) != expected[name]:
            raise InputError(
                f"{name} must have shape {expected[name]} to fit weights {tuple(weights.shape)} "
                f"and coefficients {tuple(coefficients.shape)}, got {tuple(value.shape)}"
            )
        if value.dtype != weights.dtype or value.device != weights.device:
            raise InputError(
                f"{name} is {value.dtype} on {value.device} but weights is {weights.dtype} on {weights.device}; "
                "give all four one dtype and one device"
            )
    if not weights.dtype.is_floating_point:
        raise InputError(f"weights must be floating point, got {weights.dtype}; convert it with .double()")
    return terms, n_in, n_out
