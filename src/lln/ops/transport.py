"""The public operator: checks its input once, then hands over to a backend."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from lln.core.errors import InputError, choice
from lln.core.shapes import finite, positive
from lln.ops import reference

BACKENDS = ("auto", "reference")
BACKWARDS = ("recompute", "inverse")


def lens_transport(
    y: Tensor,
    theta: Tensor,
    coefficients: Tensor,
    centers: Tensor | Sequence[float],
    sigma: float,
    length: float,
    scale: float = 1.0,
    *,
    backend: str = "auto",
    backward: str = "recompute",
) -> tuple[Tensor, Tensor]:
    """Carry rays through D propagate-refract layers (eq. 5-7, with the scaled update of the appendix).

    Args:
        y: positions, (..., h), floating point.
        theta: angles, the shape, dtype and device of `y`.
        coefficients: lens coefficients, (D, h, K).
        centers: control points, (K,); a sequence of floats is best, since it is known without reading a device.
        sigma: width of every Gaussian, above zero.
        length: propagation distance L of one layer.
        scale: lens scale s.
        backend: "auto" or the name of a backend.
        backward: how gradients are computed without stored activations: "recompute" or "inverse".

    Returns:
        Positions and angles after the last layer, each (..., h).
    """
    choice("backend", backend, BACKENDS)
    choice("backward", backward, BACKWARDS)
    check_transport(y, theta, coefficients, centers)
    sigma, length, scale = positive("sigma", sigma), finite("length", length), finite("scale", scale)
    return reference.lens_transport(y, theta, coefficients, centers, sigma, length, scale)


def check_transport(y: Tensor, theta: Tensor, coefficients: Tensor, centers: Tensor | Sequence[float]) -> None:
    """Refuse operands that do not fit together, with one sentence each."""
    for name, value in (("y", y), ("theta", theta), ("coefficients", coefficients)):
        if not isinstance(value, Tensor):
            raise InputError(f"{name} must be a torch tensor, got {type(value).__name__}")
        if not value.dtype.is_floating_point:
            raise InputError(f"{name} must be floating point, got {value.dtype}; convert it with .float()")
        if value.device != y.device:
            raise InputError(f"{name} is on {value.device} but y is on {y.device}; move all operands to one device")
    if coefficients.ndim != 3:
        raise InputError(f"coefficients must have shape (D, h, K), got {tuple(coefficients.shape)}")
    _, width, basis = coefficients.shape
    if y.ndim < 1 or y.shape[-1] != width:
        raise InputError(f"y must have shape (..., {width}) to fit coefficients (D, h, K), got {tuple(y.shape)}")
    if theta.shape != y.shape:
        raise InputError(f"theta must have the shape of y, {tuple(y.shape)}, got {tuple(theta.shape)}")
    if basis < 1:
        raise InputError("coefficients must have at least one basis function (K >= 1), got K = 0")
    shape = tuple(centers.shape) if isinstance(centers, Tensor) else (len(centers),)
    if shape != (basis,):
        raise InputError(f"centers must have shape ({basis},) to fit coefficients (D, h, K), got {shape}")
