"""The operator as torch sees it: schema, fake kernels, vmap rules, autograd.

Two operators without autograd, `lln::transport` and `lln::transport_backward`, are opaque to tracing; one
`autograd.Function` joins them. Operands are always (S, B, h) with coefficients (S, D, h, K), S ensemble members; a vmap
dimension becomes members where the coefficients carry it and batch rows where they do not. The control points travel as
plain floats, known without reading a device; a caller who has only a tensor while tracing passes it as `points`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx

from lln.core.errors import InputError
from lln.ops import dispatch as backends

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
    operands = (*_folded(y, theta, coefficients), inverse, *optics)
    # torch.func transforms need the class (and hide `requires_grad`); tracing is content with the operator.
    wrapped = torch.is_grad_enabled() and not torch.compiler.is_compiling()
    out: tuple[Tensor, Tensor] = _Transport.apply(*operands) if wrapped else torch.ops.lln.transport(*operands)
    return out[0].reshape(y.shape), out[1].reshape(y.shape)


def _folded(y: Tensor, theta: Tensor, coefficients: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The operands as (S, B, h), (S, B, h), (S, D, h, K)."""
    members = coefficients.shape[0] if coefficients.ndim == 4 else 1
    shape = (members, -1, y.shape[-1])
    return y.reshape(shape), theta.reshape(shape), coefficients.reshape(members, *coefficients.shape[-3:])


def _points(points: Tensor | None, centers: list[float]) -> tuple[float, ...]:
    return tuple(centers) if points is None else tuple(points.tolist())


def _transport(
    y: Tensor, theta: Tensor, coefficients: Tensor, inverse: bool, points: Tensor | None, centers: list[float],
    sigma: float, length: float, scale: float, backend: str,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    del inverse  # the gradient's business
    return backends.forward(y, theta, coefficients, _points(points, centers), sigma, length, scale, backend)


def _transport_backward(
    y: Tensor, theta: Tensor, grad_y: Tensor, grad_theta: Tensor, coefficients: Tensor, from_outputs: bool,
    points: Tensor | None, centers: list[float], sigma: float, length: float, scale: float, backend: str,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    return backends.backward(
        y,
        theta,
        grad_y,
        grad_theta,
        coefficients,
        _points(points, centers),
        sigma,
        length,
        scale,
        backend,
        from_outputs,
    )


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


def _from_rows(operand: Tensor, size: int) -> Tensor:
    """(S, V * B, h) -> (V, S, B, h)."""
    members, rows, width = operand.shape
    return operand.reshape(members, size, rows // size, width).transpose(0, 1)


@torch.library.register_vmap("lln::transport", lib=_library)
def _vmap_transport(
    info: Any, dims: tuple[int | None, ...], y: Tensor, theta: Tensor, coefficients: Tensor, *optics: Any
) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
    size = info.batch_size
    if dims[2] is None:
        rays = [_as_rows(t, d, size) for t, d in zip((y, theta), dims, strict=False)]
        out = torch.ops.lln.transport(*rays, coefficients, *optics)
        return (_from_rows(out[0], size), _from_rows(out[1], size)), (0, 0)
    operands = [_as_members(t, d, size) for t, d in zip((y, theta, coefficients), dims, strict=False)]
    out = torch.ops.lln.transport(*operands, *optics)
    return (out[0].unflatten(0, (size, -1)), out[1].unflatten(0, (size, -1))), (0, 0)


@torch.library.register_vmap("lln::transport_backward", lib=_library)
def _vmap_backward(
    info: Any, dims: tuple[int | None, ...], *operands: Any
) -> tuple[tuple[Tensor, Tensor, Tensor], tuple[int, int, int]]:
    # Every vmapped call wants coefficient gradients of its own, so the dimension always becomes members.
    size = info.batch_size
    tensors, optics = operands[:5], operands[5:]
    members = [_as_members(t, d, size) for t, d in zip(tensors, dims, strict=False)]
    out = torch.ops.lln.transport_backward(*members, *optics)
    grad_y, grad_theta, grad_coefficients = (t.unflatten(0, (size, -1)) for t in out)
    return (grad_y, grad_theta, grad_coefficients), (0, 0, 0)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    """Keep the stack's inputs (or, for the exact inverse, its outputs) and nothing in between."""
    y, theta, coefficients, ctx.inverse, *ctx.optics = inputs
    ends = output if ctx.inverse else (y, theta)
    ctx.save_for_backward(*ends, coefficients)


def _gradients(ctx: Any, grad_y: Tensor, grad_theta: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    y, theta, coefficients = ctx.saved_tensors
    operands = (y, theta, grad_y, grad_theta, coefficients, ctx.inverse, *ctx.optics)
    wrapped = torch.is_grad_enabled() and not torch.compiler.is_compiling()
    run = _Once.apply if wrapped else torch.ops.lln.transport_backward
    grads: tuple[Tensor, Tensor, Tensor] = run(*operands)
    return grads


def _all_gradients(ctx: Any, grad_y: Tensor, grad_theta: Tensor) -> tuple[Tensor | None, ...]:
    return (*_gradients(ctx, grad_y, grad_theta), None, *(None for _ in ctx.optics))


def _refuse(ctx: Any, *grads: Any) -> NoReturn:
    del ctx, grads
    raise InputError(
        "the fused lens transport is differentiable once only; for second derivatives use "
        "lens_transport(..., backend='reference'), or set network.backend = 'reference'"
    )


class _Transport(torch.autograd.Function):
    """The transport with its gradient, for eager code and every torch.func transform."""

    generate_vmap_rule = True
    setup_context = staticmethod(_save)

    @staticmethod
    def forward(*operands: Any) -> tuple[Tensor, Tensor]:
        out: tuple[Tensor, Tensor] = torch.ops.lln.transport(*operands)
        return out

    @staticmethod
    def backward(ctx: Any, grad_y: Tensor, grad_theta: Tensor) -> tuple[Tensor | None, ...]:
        return _all_gradients(ctx, grad_y, grad_theta)


class _Once(torch.autograd.Function):
    """The backward, with its own gradient refused in words."""

    generate_vmap_rule = True
    backward = staticmethod(_refuse)

    @staticmethod
    def forward(*operands: Any) -> tuple[Tensor, Tensor, Tensor]:
        out: tuple[Tensor, Tensor, Tensor] = torch.ops.lln.transport_backward(*operands)
        return out

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple[Any, ...], output: Any) -> None:
        """Nothing is kept: there is no second derivative."""


class _PlainTransport(torch.autograd.Function):
    """The same without the operator: half the cost per call, for eager code on ordinary tensors."""

    @staticmethod
    def forward(
        ctx: Any, y: Tensor, theta: Tensor, coefficients: Tensor, inverse: bool, *optics: Any
    ) -> tuple[Tensor, Tensor]:
        """Positions and angles behind the stack."""
        folded = _folded(y, theta, coefficients)
        ends = backends.forward(*folded, *optics)
        ctx.save_for_backward(*(ends if inverse else folded[:2]), folded[2])
        ctx.inverse, ctx.optics, ctx.shapes = inverse, optics, (y.shape, theta.shape, coefficients.shape)
        return ends[0].view(y.shape), ends[1].view(y.shape)

    @staticmethod
    def backward(ctx: Any, grad_y: Tensor, grad_theta: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of positions, angles and coefficients."""
        y, theta, coefficients = ctx.saved_tensors
        incoming = (grad_y.reshape(y.shape), grad_theta.reshape(y.shape))
        if torch.is_grad_enabled():
            grads = _Once.apply(y, theta, *incoming, coefficients, ctx.inverse, None, *ctx.optics)
        else:
            centers, sigma, length, scale, backend = ctx.optics
            optics = (centers, sigma, length, scale, backend)
            grads = backends.backward(y, theta, *incoming, coefficients, *optics, ctx.inverse)
        shaped = (grad.reshape(shape) for grad, shape in zip(grads, ctx.shapes, strict=True))
        return (*shaped, None, *(None for _ in ctx.optics))


def plain_transport(
    y: Tensor, theta: Tensor, coefficients: Tensor, inverse: bool, *optics: Any
) -> tuple[Tensor, Tensor]:
    """The transport of ordinary tensors in eager code; shapes as in `transport`."""
    if not (torch.is_grad_enabled() and (y.requires_grad or theta.requires_grad or coefficients.requires_grad)):
        ends = backends.forward(*_folded(y, theta, coefficients), *optics)
        return ends[0].view(y.shape), ends[1].view(y.shape)
    out: tuple[Tensor, Tensor] = _PlainTransport.apply(y, theta, coefficients, inverse, *optics)
    return out


def plain(*tensors: Tensor) -> bool:
    """Whether nothing but eager autograd looks at these tensors: no tracing, no transform, no subclass."""
    return (
        all(type(tensor) in _ORDINARY for tensor in tensors)
        and not torch.compiler.is_compiling()
        and not _transforms_active()
        and not _modes_active()
    )


_ORDINARY = (Tensor, torch.nn.Parameter)
# torch's own classes ask these; if a release drops one, the operator is taken, which is always right.
_transforms_active: Callable[[], bool] = getattr(torch._C, "_are_functorch_transforms_active", lambda: True)
_modes_active: Callable[[], int] = getattr(torch._C, "_len_torch_dispatch_stack", lambda: 1)


# The operators carry gradients of their own as well: traced and exported programs call them without the classes above.
torch.library.register_autograd("lln::transport", _all_gradients, setup_context=_save, lib=_library)
torch.library.register_autograd("lln::transport_backward", _refuse, lib=_library)
