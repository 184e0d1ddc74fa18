"""The public operator: checks its input once, then hands over to a backend.

`explain` says which backend serves a call and why, `drift` how far the exact inverse drifts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lln.core.errors import InputError, choice, finite, positive
from lln.ops import backends, library, reference
from lln.ops.backends import check_backend, known, served
from lln.ops.grid import even_grid
from lln.ops.reference import Centers, Number

BACKWARDS = ("recompute", "inverse")
_HALVES = (torch.float16, torch.bfloat16)
_FLOATS = (*_HALVES, torch.float32, torch.float64)

_NUMBERS, _FLOAT = frozenset((float, int)), {float}


def lens_transport(
    y: Tensor,
    theta: Tensor,
    coefficients: Tensor,
    centers: Centers,
    sigma: Number,
    length: Number,
    scale: Number = 1.0,
    *,
    backend: str = "auto",
    backward: str = "recompute",
) -> tuple[Tensor, Tensor]:
    """Carry rays through D propagate-refract layers (eq. 5-7, with the scaled update of the appendix).

    An ensemble of S members goes through in one call: give coefficients (S, D, h, K) and rays (S, ..., h).

    Args:
        y: positions, (..., h), floating point.
        theta: angles, the shape, dtype and device of `y`.
        coefficients: lens coefficients, (D, h, K).
        centers: control points, (K,); a sequence of floats is best, since it is known without reading a device.
        sigma: width of every Gaussian, above zero.
        length: propagation distance L of one layer.
        scale: lens scale s.
        backend: "auto" takes the fastest that serves the call (`lln.ops.explain` says which); or one by name:
            "triton", "cpu", "eager", "reference", or one that another package registered. The reference serves
            whenever `centers`, `sigma`, `length` or `scale` is a tensor that is differentiated.
        backward: gradients without stored activations, from the inputs run forward again ("recompute", the exact
            gradient of what was computed; a GPU keeps the positions of small stacks instead), or from the outputs
            carried back by the inverse map ("inverse", with the rounding drift that `lln.ops.drift` measures).

    Returns:
        Positions and angles after the last layer, each (..., h).
    """
    if backward not in BACKWARDS:
        choice("backward", backward, BACKWARDS)
    if backend != "reference" and library.plain(y, theta, coefficients) and _fits(y, theta, coefficients, centers):
        # A stack that was checked before needs no further check; a tensor among its numbers is never found here.
        serves = known.get((backend, y.device, y.dtype, centers, sigma, length, scale))
        if serves is not None:
            return library.plain_transport(y, theta, coefficients, serves, backward == "inverse")
    check_backend(backend)
    _check_transport(y, theta, coefficients, centers)
    dtype = _common_dtype(y, theta, coefficients)
    work = torch.float32 if dtype in _HALVES and backend != "reference" else dtype
    y, theta, lenses = _as(y, work), _as(theta, work), _as(coefficients, work)
    numbers = (sigma, length, scale)
    traced = any(map(_differentiated, (centers, *numbers))) if _any_tensor(centers, numbers) else False
    if backend == "reference" or traced or library.compiles_tangents():
        checks = (("sigma", positive), ("length", finite), ("scale", finite))
        checked = [
            n if _differentiated(n) else check(name, n) for n, (name, check) in zip(numbers, checks, strict=True)
        ]
        formula = reference.lens_transport if lenses.ndim == 3 else reference.ensemble_transport
        ends = formula(y, theta, lenses, _tensor_or_floats(centers), *checked)
    else:
        optics = (positive("sigma", sigma), finite("length", length), finite("scale", scale), backend)
        ends = _fused(y, theta, lenses, centers, optics, backward == "inverse")
    return ends if work == dtype else (ends[0].to(dtype), ends[1].to(dtype))


def _fused(
    y: Tensor,
    theta: Tensor,
    coefficients: Tensor,
    centers: Centers,
    optics: tuple[float, float, float, str],
    inverse: bool,
) -> tuple[Tensor, Tensor]:
    if library.plain(y, theta, coefficients):
        *numbers, backend = optics
        serves = served(backend, y.device, y.dtype, _floats(centers), *numbers)
        return library.plain_transport(y, theta, coefficients, serves, inverse)
    if isinstance(centers, Tensor) and torch.compiler.is_compiling():  # its values cannot be read while tracing
        return library.transport(y, theta, coefficients, (centers, (), *optics), inverse)
    return library.transport(y, theta, coefficients, (None, _floats(centers), *optics), inverse)


def _check_transport(y: Tensor, theta: Tensor, coefficients: Tensor, centers: Centers) -> None:
    """Refuse operands that do not fit together, with one sentence each."""
    if _fits(y, theta, coefficients, centers):
        return
    for name, value in (("y", y), ("theta", theta), ("coefficients", coefficients)):
        if not isinstance(value, Tensor):
            raise InputError(f"{name} must be a torch tensor, got {type(value).__name__}")
        if value.dtype not in _FLOATS:
            raise InputError(f"{name} must be floating point, got {value.dtype}; convert it with .float()")
        if value.layout != torch.strided or value.is_nested or value.is_quantized:
            raise InputError(f"{name} must be an ordinary dense tensor, got layout {value.layout}; use .to_dense()")
        if value.device != y.device:
            raise InputError(f"{name} is on {value.device} but y is on {y.device}; move all operands to one device")
    if coefficients.ndim not in (3, 4):
        raise InputError(
            f"coefficients must have shape (D, h, K), or (S, D, h, K) for an ensemble, got {tuple(coefficients.shape)}"
        )
    *members, _, width, basis = coefficients.shape
    if y.ndim < 1 + len(members) or y.shape[-1] != width or list(y.shape[: len(members)]) != members:
        lead = "".join(f"{count}, " for count in members)
        raise InputError(f"y must have shape ({lead}..., {width}) to fit coefficients, got {tuple(y.shape)}")
    if theta.shape != y.shape:
        raise InputError(f"theta must have the shape of y, {tuple(y.shape)}, got {tuple(theta.shape)}")
    if min(members, default=1) < 1 or width < 1:
        raise InputError(f"coefficients must have at least one member and one unit, got {tuple(coefficients.shape)}")
    if basis < 1:
        raise InputError("coefficients must have at least one basis function (K >= 1), got K = 0")
    if isinstance(centers, str) or not isinstance(centers, (Tensor, Sequence)):
        raise InputError(f"centers must be a tensor or a sequence of numbers, got {type(centers).__name__}")
    shape = tuple(centers.shape) if isinstance(centers, Tensor) else (len(centers),)
    if shape != (basis,):
        raise InputError(f"centers must have shape ({basis},) to fit coefficients (D, h, K), got {shape}")


def _fits(y: Tensor, theta: Tensor, coefficients: Tensor, centers: Centers) -> bool:
    """Whether these are plainly (B, h), (B, h), (D, h, K) and K numbers: the common case, at a fraction of the cost."""
    try:
        shape, dtype, device = y.shape, y.dtype, y.device
        (_, width), (_, units, basis) = shape, coefficients.shape
        return (
            type(centers) is tuple
            and len(centers) == basis
            and width == units
            and theta.shape == shape
            and theta.dtype == coefficients.dtype == dtype
            and dtype in _FLOATS
            and theta.device == device
            and coefficients.device == device
            and y.layout == theta.layout == coefficients.layout == torch.strided
            and units > 0 < basis
        )
    except (AttributeError, ValueError, TypeError, RuntimeError):
        return False


def _as(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    return tensor if tensor.dtype == dtype else tensor.to(dtype)


def _common_dtype(*tensors: Tensor) -> torch.dtype:
    """The type that arithmetic between the tensors would have."""
    dtype = tensors[0].dtype
    for tensor in tensors[1:]:
        dtype = dtype if tensor.dtype == dtype else torch.promote_types(dtype, tensor.dtype)
    return dtype


def _any_tensor(centers: Centers, numbers: tuple[Number, Number, Number]) -> bool:
    """Whether a value beside the rays and lenses might be a tensor."""
    return (
        not _NUMBERS.issuperset(map(type, numbers)) or type(centers) is not tuple or set(map(type, centers)) != _FLOAT
    )


def _differentiated(value: object) -> bool:
    """Whether gradients, tangents or a transform may follow this value: plain torch operations must then serve."""
    if isinstance(value, Tensor):
        traced = torch.compiler.is_compiling() and not value.ndim  # a number that must not be read while tracing
        return value.requires_grad or traced or library.transformed(value)
    return isinstance(value, (tuple, list)) and any(isinstance(v, Tensor) and _differentiated(v) for v in value)


def _tensor_or_floats(centers: Centers) -> Centers:
    """A sequence that holds differentiated tensors as one tensor."""
    if isinstance(centers, Tensor):
        return centers
    return torch.stack([torch.as_tensor(c) for c in centers]) if _differentiated(centers) else _floats(centers)


def _floats(centers: Centers) -> tuple[float, ...]:
    if isinstance(centers, Tensor):
        return tuple(centers.tolist())
    if type(centers) is tuple and set(map(type, centers)) == _FLOAT:
        return centers
    try:
        return tuple(map(float, centers))
    except (TypeError, ValueError):
        raise InputError(f"centers must be numbers, got {centers!r:.80}") from None


@dataclass(frozen=True)
class Explanation:
    """Which backend serves a call, and what each of the others says."""

    serves: str  #: the backend that "auto" takes.
    reasons: dict[str, str]  #: for every backend, "serves", "could serve" or why it cannot.

    def __str__(self) -> str:
        """One line a backend."""
        return "\n".join(f"{name:<9} {reason}" for name, reason in self.reasons.items())


def explain(y: Tensor, theta: Tensor, coefficients: Tensor, centers: Centers, sigma: float) -> Explanation:
    """Which backend `lens_transport` takes for these operands, and why the others do not serve."""
    _check_transport(y, theta, coefficients, centers)
    members = coefficients.shape[0] if coefficients.ndim == 4 else 1
    dtype = _common_dtype(y, theta, coefficients)
    work = torch.float32 if dtype in _HALVES else dtype
    grid = even_grid(_floats(centers), float(sigma), backends.grid_precision(work))
    batch = y.numel() // max(1, members * y.shape[-1])
    call = backends.Call(y.device, work, members, batch, coefficients.shape[-3], y.shape[-1], grid)
    serves = backends.choose(call)
    reasons = {name: backends.refusal(name, call) or "could serve" for name in backends.registry}
    return Explanation(serves, {**reasons, serves: "serves"})


def drift(
    y: Tensor,
    theta: Tensor,
    coefficients: Tensor,
    centers: Centers,
    sigma: float,
    length: float,
    scale: float = 1.0,
) -> float:
    """How far the exact inverse, in working precision, misses the inputs it started from.

    The largest |difference| over y and theta, relative to their largest magnitude. Gradients with
    `backward="inverse"` are off by about as much; it grows with path length and lens strength, not with depth as such.
    """
    with torch.no_grad():
        ends = lens_transport(y, theta, coefficients, centers, sigma, length, scale)
        back = reference.inverse_transport(*ends, coefficients, centers, sigma, length, scale)
        size = max(float(t.abs().max()) for t in (y, theta))
        missed = max(float((a - b).abs().max()) for a, b in zip(back, (y, theta), strict=True))
    return missed / size if size else missed
