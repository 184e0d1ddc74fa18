"""The public operator `lens_transport`, and the operator as torch sees it: schema, fake kernels, vmap rules, autograd.

The public operator checks its input once, then hands over to a backend. `explain` says which backend serves a call and
why, `drift` how far the exact inverse drifts.

Two operators without autograd, `lln::transport` and `lln::transport_backward`, are opaque to tracing; one
`autograd.Function` joins them. Operands are always (S, B, h) with coefficients (S, D, h, K), S ensemble members; a vmap
dimension becomes members where the coefficients carry it and batch rows where they do not. The control points travel as
plain floats, known without reading a device; a caller who has only a tensor while tracing passes it as `points`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.autograd import forward_ad

from lln.core.errors import InputError, choice, finite, positive
from lln.ops import backends, derivatives, reference
from lln.ops.backends import check_backend, known, served
from lln.ops.grid import even_grid
from lln.ops.reference import Centers, Number

_OPTICS = "Tensor? points, float[] centers, float sigma, float length, float scale, str backend"
_library = torch.library.Library("lln", "DEF")
_library.define(f"transport(Tensor y, Tensor theta, Tensor coefficients, bool inverse, {_OPTICS}) -> (Tensor, Tensor)")
_library.define(
    "transport_backward(Tensor y, Tensor theta, Tensor grad_y, Tensor grad_theta, Tensor coefficients, "
    f"bool from_outputs, {_OPTICS}) -> (Tensor, Tensor, Tensor)"
)

Optics = tuple[Tensor | None, tuple[float, ...], float, float, float, str]


def transport(y: Tensor, theta: Tensor, coefficients: Tensor, optics: Optics, inverse: bool) -> tuple[Tensor, Tensor]:
    """The operator on (..., h) rays and (D, h, K) lenses, or on (S, ..., h) and (S, D, h, K)."""
    operands = backends.folded(y, theta, coefficients)
    if torch.compiler.is_compiling() or _is_tracing():
        out = torch.ops.lln.transport(*operands, inverse, *optics)
    else:  # torch.func transforms and dual tensors need the class
        out = _Transport.apply(*operands, _Rest(inverse, _Stack(*optics)))
    return out[0].reshape(y.shape), out[1].reshape(y.shape)


def _points(points: Tensor | None, centers: list[float]) -> tuple[float, ...]:
    return tuple(centers) if points is None else tuple(points.tolist())


def _transport(
    y: Tensor, theta: Tensor, coefficients: Tensor, inverse: bool, points: Tensor | None, centers: list[float],
    sigma: float, length: float, scale: float, backend: str,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    del inverse  # used by the gradient only
    serves = backends.served(backend, y.device, y.dtype, _points(points, centers), sigma, length, scale)
    return serves.forward(y, theta, coefficients)[0]


def _transport_backward(
    y: Tensor, theta: Tensor, grad_y: Tensor, grad_theta: Tensor, coefficients: Tensor, from_outputs: bool,
    points: Tensor | None, centers: list[float], sigma: float, length: float, scale: float, backend: str,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    serves = backends.served(backend, y.device, y.dtype, _points(points, centers), sigma, length, scale)
    return serves.backward((y, theta), (grad_y, grad_theta), coefficients, from_outputs)


for _key in ("CPU", "CUDA"):
    _library.impl("transport", _transport, _key)
    _library.impl("transport_backward", _transport_backward, _key)


@torch.library.register_fake("lln::transport", lib=_library)
def _fake_transport(y: Tensor, theta: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return y.new_empty(y.shape), theta.new_empty(theta.shape)


@torch.library.register_fake("lln::transport_backward", lib=_library)
def _fake_backward(
    y: Tensor, theta: Tensor, grad_y: Tensor, grad_theta: Tensor, coefficients: Tensor, *_: Any
) -> tuple[Tensor, Tensor, Tensor]:
    del grad_y, grad_theta
    return y.new_empty(y.shape), theta.new_empty(theta.shape), coefficients.new_empty(coefficients.shape)


def _front(operand: Tensor, dim: int | None, size: int) -> Tensor:
    """The vmap dimension first; an operand without one is repeated."""
    return operand.expand(size, *operand.shape) if dim is None else operand.movedim(dim, 0)


def _as_members(operand: Tensor, dim: int | None, size: int) -> Tensor:
    """(V, S, ...) -> (V * S, ...)."""
    return _front(operand, dim, size).flatten(0, 1)


def _as_rows(operand: Tensor, dim: int | None, size: int) -> Tensor:
    """(V, S, B, h) -> (S, V * B, h)."""
    return _front(operand, dim, size).transpose(0, 1).flatten(1, 2)


def _from_rows(operand: Tensor, size: int, rows: int) -> Tensor:
    """(S, V * B, h) -> (V, S, B, h)."""
    members, _, width = operand.shape
    return operand.reshape(members, size, rows, width).transpose(0, 1)


@torch.library.register_vmap("lln::transport", lib=_library)
def _vmap_transport(
    info: Any, dims: tuple[int | None, ...], y: Tensor, theta: Tensor, coefficients: Tensor, *optics: Any
) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
    size = info.batch_size
    if dims[2] is None:
        rays = [_as_rows(t, d, size) for t, d in zip((y, theta), dims, strict=False)]
        out = torch.ops.lln.transport(*rays, coefficients, *optics)
        rows = _front(y, dims[0], size).shape[2]
        return (_from_rows(out[0], size, rows), _from_rows(out[1], size, rows)), (0, 0)
    operands = [_as_members(t, d, size) for t, d in zip((y, theta, coefficients), dims, strict=False)]
    out = torch.ops.lln.transport(*operands, *optics)
    members = _front(coefficients, dims[2], size).shape[1]
    return (out[0].unflatten(0, (size, members)), out[1].unflatten(0, (size, members))), (0, 0)


@torch.library.register_vmap("lln::transport_backward", lib=_library)
def _vmap_backward(
    info: Any, dims: tuple[int | None, ...], *operands: Any
) -> tuple[tuple[Tensor, Tensor, Tensor], tuple[int, int, int]]:
    # Every vmapped call has coefficient gradients of its own, so the dimension always becomes members.
    size = info.batch_size
    tensors, optics = operands[:5], operands[5:]
    members = [_as_members(t, d, size) for t, d in zip(tensors, dims, strict=False)]
    out = torch.ops.lln.transport_backward(*members, *optics)
    count = _front(tensors[4], dims[4], size).shape[1]
    grad_y, grad_theta, grad_coefficients = (t.unflatten(0, (size, count)) for t in out)
    return (grad_y, grad_theta, grad_coefficients), (0, 0, 0)


class _Stack(NamedTuple):
    """What a stack has beside its coefficients; `points` is None unless only a tensor of the centres is known."""

    points: Tensor | None
    centers: tuple[float, ...]
    sigma: float
    length: float
    scale: float
    backend: str

    def optics(self) -> derivatives.Optics:
        """The same without the backend."""
        return (self.centers if self.points is None else self.points), self.sigma, self.length, self.scale


@dataclass(frozen=True)
class _Rest:
    """The arguments of the classes below that are no tensors, opaque to torch's tree functions."""

    inverse: bool
    stack: _Stack


def _save(ctx: Any, tensors: Sequence[Tensor], output: tuple[Tensor, Tensor], rest: _Rest) -> None:
    """Keep the stack's inputs (for the exact inverse also its outputs) and nothing in between."""
    ctx.rest = rest
    ctx.save_for_backward(*tensors, *(output if rest.inverse else ()))


def _gradients(ctx: Any, grad_y: Tensor, grad_theta: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    y, theta, coefficients, *ends = ctx.saved_tensors
    # A gradient that may be differentiated again starts from the inputs, which its graph leads to.
    again = torch.is_grad_enabled()
    inverse = bool(ends) and not again
    operands = (*(ends if inverse else (y, theta)), grad_y, grad_theta, coefficients)
    if again and not torch.compiler.is_compiling():
        grads = _Gradient.apply(*operands, _Rest(False, ctx.rest.stack))
    else:
        grads = torch.ops.lln.transport_backward(*operands, inverse, *ctx.rest.stack)
    return cast("tuple[Tensor, Tensor, Tensor]", grads)


def _second(ctx: Any, *cotangents: Tensor | None) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Backward of the gradient."""
    if ctx.rest.inverse:
        raise InputError(
            "gradients by the inverse map are differentiable once only; use lens_transport(..., backward='recompute')"
        )
    y, theta, grad_y, grad_theta, coefficients = ctx.saved_tensors
    given = (y, theta, coefficients)
    (h_y, h_theta, h_lenses), (v_y, v_theta) = derivatives.hessian_product(
        given, (grad_y, grad_theta), _filled(cotangents, given), ctx.rest.stack.optics()
    )
    return h_y, h_theta, v_y, v_theta, h_lenses


def _filled(directions: Sequence[Tensor | None], like: Sequence[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """Directions with zeros in place of those that are missing."""
    first, second, third = (torch.zeros_like(t) if v is None else v for v, t in zip(directions, like, strict=True))
    return first, second, third


class _Transport(torch.autograd.Function):
    """The transport with its gradient and tangent, for eager code and every torch.func transform."""

    generate_vmap_rule = True

    @staticmethod
    def forward(y: Tensor, theta: Tensor, coefficients: Tensor, rest: _Rest) -> tuple[Tensor, Tensor]:
        out: tuple[Tensor, Tensor] = torch.ops.lln.transport(y, theta, coefficients, rest.inverse, *rest.stack)
        return out

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        _save(ctx, inputs[:3], output, inputs[3])
        ctx.save_for_forward(*inputs[:3])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, ...]:
        return (*_gradients(ctx, *grads), None)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> tuple[Tensor, Tensor]:
        given = ctx.saved_tensors[:3]
        return derivatives.tangent(given, _filled(tangents[:3], given), ctx.rest.stack.optics())


class _Gradient(torch.autograd.Function):
    """The gradient of the transport as a function of its own, which has derivatives of any order."""

    generate_vmap_rule = True

    @staticmethod
    def forward(*operands: Any) -> tuple[Tensor, Tensor, Tensor]:
        *tensors, rest = operands
        out: tuple[Tensor, Tensor, Tensor] = torch.ops.lln.transport_backward(*tensors, rest.inverse, *rest.stack)
        return out

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        del output
        *tensors, ctx.rest = inputs
        ctx.save_for_backward(*tensors)
        ctx.save_for_forward(*tensors)

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> tuple[Tensor | None, ...]:
        return (*_second(ctx, *cotangents), None)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> tuple[Tensor, Tensor, Tensor]:
        y, theta, grad_y, grad_theta, coefficients = ctx.saved_tensors
        given, incoming = (y, theta, coefficients), (grad_y, grad_theta)
        along = _filled((tangents[0], tangents[1], tangents[4]), given)
        first, _ = derivatives.hessian_product(given, incoming, along, ctx.rest.stack.optics())
        changes = [torch.zeros_like(y) if t is None else t for t in tangents[2:4]]
        second = _Gradient.apply(y, theta, *changes, coefficients, ctx.rest)
        h_y, h_theta, h_lenses = (a + b for a, b in zip(first, second, strict=True))
        return h_y, h_theta, h_lenses


class _PlainTransport(torch.autograd.Function):
    """The same without the operator, for eager code on ordinary tensors.

    A GPU's backward runs in another thread than the forward, on a processor that has none of its data at hand: what
    `backward` does in Python costs several times what it costs in `forward`.
    """

    @staticmethod
    def forward(
        ctx: Any, y: Tensor, theta: Tensor, coefficients: Tensor, served: backends.Served, inverse: bool
    ) -> tuple[Tensor, Tensor]:
        """Positions and angles behind the stack."""
        ends, kept = served.forward(y, theta, coefficients, keep=not inverse)
        ctx.save_for_backward(y, theta, coefficients, *(ends if inverse else kept))
        ctx.served, ctx.inverse = served, inverse
        return ends

    @staticmethod
    def backward(ctx: Any, *incoming: Any) -> tuple[Tensor | None, ...]:
        """Gradients of positions, angles and coefficients."""
        y, theta, coefficients, *more = ctx.saved_tensors
        if torch.is_grad_enabled():
            return (*_again(y, theta, coefficients, incoming, ctx.served), None, None)
        if ctx.inverse:
            return (*ctx.served.backward(tuple(more), incoming, coefficients, True), None, None)
        return (*ctx.served.backward((y, theta), incoming, coefficients, False, tuple(more)), None, None)


def _again(
    y: Tensor, theta: Tensor, coefficients: Tensor, incoming: tuple[Tensor, Tensor], served: backends.Served
) -> list[Tensor]:
    """Gradients that may be differentiated again; they start from the inputs, which their graph leads to."""
    first, second, lenses = backends.folded(y, theta, coefficients)
    stack = _Stack(None, *served.optics[:4], served.name)
    grads = _Gradient.apply(first, second, *(g.reshape(first.shape) for g in incoming), lenses, _Rest(False, stack))
    return [grad.view(t.shape) for grad, t in zip(grads, (y, theta, coefficients), strict=True)]


def plain_transport(
    y: Tensor, theta: Tensor, coefficients: Tensor, served: backends.Served, inverse: bool
) -> tuple[Tensor, Tensor]:
    """The transport of ordinary tensors in eager code; shapes as in `transport`."""
    if not (torch.is_grad_enabled() and (y.requires_grad or theta.requires_grad or coefficients.requires_grad)):
        return served.forward(y, theta, coefficients)[0]
    out: tuple[Tensor, Tensor] = _apply(y, theta, coefficients, served, inverse)
    return out


# `apply` without its care for torch.func transforms, none of which `plain` lets through.
_apply: Callable[..., Any] = super(torch.autograd.Function, _PlainTransport).apply


def plain(*tensors: Tensor) -> bool:
    """Whether only eager autograd uses these tensors: no tracing, transform, dual number or subclass."""
    return (
        _ORDINARY.issuperset(map(type, tensors))
        and not torch.compiler.is_compiling()
        and not _transforms_active()
        and not _modes_active()
        and not _is_tracing()
        and forward_ad._current_level < 0
        and not any(map(_wrapped, tensors))  # by a transform that has ended
    )


def compiles_tangents() -> bool:
    """Whether torch.compile is tracing forward-mode derivatives, which an opaque operator would lose."""
    return torch.compiler.is_compiling() and forward_ad._current_level >= 0


def transformed(tensor: Tensor) -> bool:
    """Whether `tensor` is a dual number or is wrapped by a torch.func transform."""
    if torch.compiler.is_compiling():
        return False
    if _wrapped(tensor):
        return True
    return forward_ad._current_level >= 0 and forward_ad.unpack_dual(tensor).tangent is not None


_ORDINARY = frozenset((Tensor, torch.nn.Parameter))
# torch's own classes ask these; if a release drops one, the operator is taken, which is always right.
_transforms_active: Callable[[], bool] = getattr(torch._C, "_are_functorch_transforms_active", lambda: True)
_modes_active: Callable[[], int] = getattr(torch._C, "_len_torch_dispatch_stack", lambda: 1)
_wrapped: Callable[[Tensor], bool] = torch._C._functorch.is_functorch_wrapped_tensor
_is_tracing: Callable[[], bool] = getattr(torch._C, "_is_tracing", lambda: False)  # by torch.jit.trace


# The operators carry gradients of their own as well: traced and exported programs call them without the classes above.
def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    _save(ctx, inputs[:3], output, _Rest(inputs[3], _Stack(*inputs[4:])))


def _setup_gradient(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    del output
    ctx.rest = _Rest(inputs[5], _Stack(*inputs[6:]))
    ctx.save_for_backward(*inputs[:5])


def _for_operator(rule: Callable[..., tuple[Tensor, ...]]) -> Callable[..., tuple[Tensor | None, ...]]:
    """The rule of an operator, which has seven arguments that are no tensors."""
    return lambda ctx, *grads: (*rule(ctx, *grads), *[None] * 7)


_register = partial(torch.library.register_autograd, lib=_library)
_register("lln::transport", _for_operator(_gradients), setup_context=_setup)
_register("lln::transport_backward", _for_operator(_second), setup_context=_setup_gradient)


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
    """Carry rays through D propagate-refract layers (equations 5-7 of the paper, with its appendix's scaled update).

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
    if backend != "reference" and plain(y, theta, coefficients) and _fits(y, theta, coefficients, centers):
        # A stack that was checked before needs no further check; a tensor among its numbers is never found here.
        serves = known.get((backend, y.device, y.dtype, centers, sigma, length, scale))
        if serves is not None:
            return plain_transport(y, theta, coefficients, serves, backward == "inverse")
    check_backend(backend)
    _check_transport(y, theta, coefficients, centers)
    dtype = _common_dtype(y, theta, coefficients)
    work = torch.float32 if dtype in _HALVES and backend != "reference" else dtype
    y, theta, lenses = _as(y, work), _as(theta, work), _as(coefficients, work)
    numbers = (sigma, length, scale)
    traced = any(map(_differentiated, (centers, *numbers))) if _any_tensor(centers, numbers) else False
    if backend == "reference" or traced or compiles_tangents():
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
    if plain(y, theta, coefficients):
        *numbers, backend = optics
        serves = served(backend, y.device, y.dtype, _floats(centers), *numbers)
        return plain_transport(y, theta, coefficients, serves, inverse)
    if isinstance(centers, Tensor) and torch.compiler.is_compiling():  # its values cannot be read while tracing
        return transport(y, theta, coefficients, (centers, (), *optics), inverse)
    return transport(y, theta, coefficients, (None, _floats(centers), *optics), inverse)


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
        return value.requires_grad or traced or transformed(value)
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
    """Which backend serves a call, and why each of the others does not."""

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
    y: Tensor, theta: Tensor, coefficients: Tensor, centers: Centers, sigma: float, length: float, scale: float = 1.0
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
