"""The implementations of the transport: what a backend must offer, the four that ship with lln, and which one serves.

A package outside adds one by an entry point in the group `lln.backends`, or by `lln.ops.backends.registry.register`.
"""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from lln.core.errors import InputError, choice
from lln.core.registry import Registry
from lln.ops import factored, reference
from lln.ops.cpu import backend as cpu_backend
from lln.ops.cpu import networks as cpu_networks
from lln.ops.grid import Grid, even_grid
from lln.ops.triton import backend as triton_backend

# Every control point is written out in the machine code, which takes long to compile: 12 s for 200 of them.
MOST_BASIS = 128

Pair = tuple[Tensor, Tensor]
Gradients = tuple[Tensor, Tensor, Tensor]
Kept = tuple[Tensor, ...]


class Optics(NamedTuple):
    """The rest of a stack beside its coefficients: control points, sigma, length L, scale s, and the factored grid.

    `grid` is a sentence where the control points cannot be factored.
    """

    centers: tuple[float, ...]
    sigma: float
    length: float
    scale: float
    grid: Grid | str

    def factored(self) -> tuple[Grid, float, float]:
        """What the factored algebra needs."""
        if isinstance(self.grid, str):
            raise TypeError(self.grid)  # `refusal` has checked this
        return self.grid, self.length, self.scale


@dataclass(frozen=True)
class Call:
    """What the choice of a backend depends on: device, type and sizes of the operands, and the grid."""

    device: torch.device
    dtype: torch.dtype
    members: int
    batch: int
    depth: int
    width: int
    grid: Grid | str

    @classmethod
    def of(cls, y: Tensor, coefficients: Tensor, centers: tuple[float, ...], sigma: float) -> Call:
        """The call with operands y (S, B, h) and coefficients (S, D, h, K)."""
        members, batch, width = y.shape
        grid = even_grid(centers, sigma, grid_precision(y.dtype))
        return cls(y.device, y.dtype, members, batch, coefficients.shape[1], width, grid)


def grid_precision(dtype: torch.dtype) -> str:
    """The precision of the factored grid for operands of type `dtype`."""
    return "float64" if dtype == torch.float64 else "float32"


class Backend(ABC):
    """An implementation of the transport for contiguous rays (S, B, h) and coefficients (S, D, h, K).

    S, B, h, D and K are at least one. Results are new tensors.
    """

    #: "auto" takes the backend of lowest rank that serves; lln's own have 10 (triton) to 40 (reference).
    rank: ClassVar[int]
    #: whether the backend also takes rays (..., h) with coefficients (D, h, K), and rays (S, ..., h) with coefficients
    #: (S, D, h, K), and returns these shapes; it is then called without the views that fold them.
    any_shape: ClassVar[bool] = False

    @abstractmethod
    def refusal(self, call: Call) -> str | None:
        """Why this backend cannot serve `call`, in one sentence; None if it can."""

    @abstractmethod
    def forward(self, rays: Pair, coefficients: Tensor, optics: Optics) -> Pair:
        """Positions and angles behind the last layer."""

    def forward_kept(self, rays: Pair, coefficients: Tensor, optics: Optics) -> tuple[Pair, Kept]:
        """The same, and tensors that `backward_kept` can use in place of computing them again; none by default."""
        return self.forward(rays, coefficients, optics), ()

    def backward_kept(self, rays: Pair, grads: Pair, coefficients: Tensor, optics: Optics, kept: Kept) -> Gradients:
        """As `backward` from the rays in front of the stack, with what `forward_kept` returned."""
        del kept
        return self.backward(rays, grads, coefficients, optics, False)

    @abstractmethod
    def backward(self, rays: Pair, grads: Pair, coefficients: Tensor, optics: Optics, from_outputs: bool) -> Gradients:
        """Gradients of positions, angles and coefficients.

        Args:
            rays: positions and angles in front of the stack, or behind it if `from_outputs`.
            grads: gradients of positions and angles behind the stack.
            coefficients: (S, D, h, K).
            optics: the rest of the stack.
            from_outputs: whether `rays` are to be carried back by the inverse map.
        """


class Reference(Backend):
    """The formula as the paper writes it, member by member."""

    rank: ClassVar[int] = 40

    def refusal(self, call: Call) -> str | None:
        """See `Backend.refusal`."""
        del call
        return None

    def forward(self, rays: Pair, coefficients: Tensor, optics: Optics) -> Pair:
        """See `Backend.forward`."""
        return reference.ensemble_transport(*rays, coefficients, *optics[:4])

    def backward(self, rays: Pair, grads: Pair, coefficients: Tensor, optics: Optics, from_outputs: bool) -> Gradients:
        """See `Backend.backward`."""
        centers, sigma, length, scale, _ = optics
        members = []
        for y, theta, grad_y, grad_theta, lenses in zip(*rays, *grads, coefficients, strict=True):
            start = (y, theta)
            if from_outputs:
                start = reference.inverse_transport(y, theta, lenses, centers, sigma, length, scale)
            with torch.enable_grad():
                leaves = [t.detach().requires_grad_() for t in (*start, lenses)]
                ends = reference.lens_transport(leaves[0], leaves[1], leaves[2], centers, sigma, length, scale)
                members.append(torch.autograd.grad(ends, leaves, (grad_y, grad_theta), materialize_grads=True))
        first, second, third = (torch.stack(list(column)) for column in zip(*members, strict=True))
        return first, second, third


class Factored(Backend):
    """The factored algebra: a module whose `forward` and `backward` take grid, L and s behind their tensors."""

    module: ClassVar[Any]
    device: ClassVar[str | None] = None  #: the kind that it runs on; None for any.

    def refusal(self, call: Call) -> str | None:
        """See `Backend.refusal`."""
        if isinstance(call.grid, str):
            return call.grid
        if call.dtype not in (torch.float32, torch.float64):
            return f"it computes in float32 or float64, not {call.dtype}"
        return None if self.device in (None, call.device.type) else f"the operands are on {call.device}"

    def forward(self, rays: Pair, coefficients: Tensor, optics: Optics) -> Pair:
        """See `Backend.forward`."""
        ends: Pair = self.module.forward(*rays, coefficients, *optics.factored())
        return ends

    def backward(self, rays: Pair, grads: Pair, coefficients: Tensor, optics: Optics, from_outputs: bool) -> Gradients:
        """See `Backend.backward`."""
        found: Gradients = self.module.backward(rays, grads, coefficients, *optics.factored(), from_outputs)
        return found


class Eager(Factored):
    """The factored algebra in torch operations."""

    rank: ClassVar[int] = 30
    module: ClassVar[Any] = factored


class Cpu(Factored):
    """The machine code of `lln.ops.cpu`."""

    rank: ClassVar[int] = 20
    device: ClassVar[str | None] = "cpu"

    def refusal(self, call: Call) -> str | None:
        """See `Backend.refusal`."""
        if reason := super().refusal(call):
            return reason
        if isinstance(call.grid, Grid) and call.grid.basis > MOST_BASIS:
            return f"it is compiled for up to {MOST_BASIS} control points, not {call.grid.basis}"
        return cpu_backend.unavailable()

    def forward(self, rays: Pair, coefficients: Tensor, optics: Optics) -> Pair:
        """See `Backend.forward`."""
        out = (torch.empty_like(rays[0]), torch.empty_like(rays[1]))
        cpu_networks.transport("forward", (*rays, coefficients), out, *optics.factored(), torch.get_num_threads())
        return out

    def backward(self, rays: Pair, grads: Pair, coefficients: Tensor, optics: Optics, from_outputs: bool) -> Gradients:
        """See `Backend.backward`."""
        out = (torch.empty_like(rays[0]), torch.empty_like(rays[1]), torch.empty_like(coefficients))
        kind, given = "inverse" if from_outputs else "backward", (*rays, *grads, coefficients)
        cpu_networks.transport(kind, given, out, *optics.factored(), torch.get_num_threads())
        return out


class Triton(Factored):
    """The GPU kernels of `lln.ops.triton`."""

    rank: ClassVar[int] = 10
    any_shape: ClassVar[bool] = True
    module: ClassVar[Any] = triton_backend
    device: ClassVar[str | None] = "cuda"

    def refusal(self, call: Call) -> str | None:
        """See `Backend.refusal`."""
        return super().refusal(call) or triton_backend.unavailable()

    def forward_kept(self, rays: Pair, coefficients: Tensor, optics: Optics) -> tuple[Pair, Kept]:
        """See `Backend.forward_kept`: packed coefficients and positions."""
        grid, length, scale = optics.factored()
        return triton_backend.forward_kept(*rays, coefficients, grid, length, scale)

    def backward_kept(self, rays: Pair, grads: Pair, coefficients: Tensor, optics: Optics, kept: Kept) -> Gradients:
        """See `Backend.backward_kept`."""
        return triton_backend.backward(rays, grads, coefficients, *optics.factored(), kept=kept)


class Backends(Registry[Backend]):
    """The backends by name; a new one takes effect at once."""

    def register(self, name: str, item: Backend) -> Backend:
        """Add a backend, or replace one of the same name."""
        if name == "auto" or not isinstance(item, Backend):
            raise InputError(
                f"backend {name!r} cannot be registered: it needs a name other than 'auto' and must be an instance of "
                "lln.ops.backends.Backend"
            )
        known.clear()
        return super().register(name, item)

    def ranked(self) -> list[tuple[str, Backend]]:
        """Names and backends, the one to try first in front."""
        return sorted(((name, self.get(name)) for name in self), key=lambda item: item[1].rank)


registry = Backends(
    "backend", "lln.backends", {"triton": Triton(), "cpu": Cpu(), "eager": Eager(), "reference": Reference()}
)


def refusal(backend: str, call: Call) -> str | None:
    """Why `backend` cannot serve `call`, in one sentence; None if it can."""
    return registry.get(backend).refusal(call)


def choose(call: Call) -> str:
    """The first backend that serves `call`; the reference where there is nothing to compute."""
    if call.batch * call.width * call.depth * call.members == 0:
        return "reference"
    # In float64 the eager form rounds exponents of a hundred bits and more, which the reference does not.
    skipped = ("eager",) if call.dtype == torch.float64 else ()
    fit = (name for name, backend in registry.ranked() if name not in skipped and backend.refusal(call) is None)
    return next(fit)


def check_backend(backend: str) -> None:
    """Refuse a name that is neither "auto" nor a known backend."""
    if backend != "auto" and backend not in registry:
        choice("backend", backend, ("auto", *registry.names()))


def resolve(backend: str, call: Call) -> str:
    """`backend` if it serves `call`, the choice for "auto"; else say why not."""
    if backend == "auto":
        return choose(call)
    reason = refusal(backend, call)
    if reason is not None:
        raise InputError(f"backend {backend!r} cannot serve this call: {reason}; use backend='auto'")
    return backend


known: dict[tuple[Any, ...], Served] = {}  # the arguments of `served`, all of them checked, and its result
_MOST_KNOWN = 1024


class Served(NamedTuple):
    """The backend that serves a call, and the rest of the stack.

    Its methods take rays (..., h) with coefficients (D, h, K), or rays (S, ..., h) with coefficients (S, D, h, K).
    """

    name: str  #: the backend as it was asked for; "auto" is one.
    backend: Backend  #: the one that was chosen.
    optics: Optics  #: what the stack has beside its coefficients.

    def forward(self, y: Tensor, theta: Tensor, coefficients: Tensor, keep: bool = False) -> tuple[Pair, Kept]:
        """The stack's outputs, new tensors; and with `keep` the tensors that `backward` takes as `kept`."""
        if not coefficients.numel() or not y.numel():
            return (y.clone(), theta.clone()), ()
        backend, shape = self.backend, y.shape
        y, theta, coefficients = y.contiguous(), theta.contiguous(), coefficients.contiguous()
        if not backend.any_shape:
            y, theta, coefficients = folded(y, theta, coefficients)
        kept: Kept = ()
        if keep:
            ends, kept = backend.forward_kept((y, theta), coefficients, self.optics)
        else:
            ends = backend.forward((y, theta), coefficients, self.optics)
        return (ends if backend.any_shape else (ends[0].view(shape), ends[1].view(shape))), kept

    def backward(self, rays: Pair, grads: Pair, coefficients: Tensor, from_outputs: bool, kept: Kept = ()) -> Gradients:
        """Gradients for y, theta, coefficients; `rays` are the stack's outputs if `from_outputs`, else its inputs."""
        y, theta, grad_y, grad_theta = *rays, *grads
        if not coefficients.numel() or not y.numel():
            return grad_y.clone(), grad_theta.clone(), torch.zeros_like(coefficients)
        backend, shapes = self.backend, (y.shape, coefficients.shape)
        y, theta, coefficients = y.contiguous(), theta.contiguous(), coefficients.contiguous()
        grad_y, grad_theta = grad_y.contiguous(), grad_theta.contiguous()
        if not backend.any_shape:
            y, theta, coefficients = folded(y, theta, coefficients)
            grad_y, grad_theta = grad_y.view(y.shape), grad_theta.view(y.shape)
        rays, grads = (y, theta), (grad_y, grad_theta)
        if kept:
            found = backend.backward_kept(rays, grads, coefficients, self.optics, kept)
        else:
            found = backend.backward(rays, grads, coefficients, self.optics, from_outputs)
        if backend.any_shape:
            return found
        return found[0].view(shapes[0]), found[1].view(shapes[0]), found[2].view(shapes[1])


def served(
    backend: str,
    device: torch.device,
    dtype: torch.dtype,
    centers: tuple[float, ...],
    sigma: float,
    length: float,
    scale: float,
) -> Served:
    """The backend of a call that is not empty; cached in `known`, since calls usually repeat."""
    key = (backend, device, dtype, centers, sigma, length, scale)
    found = known.get(key)
    if found is None:
        grid = even_grid(centers, sigma, grid_precision(dtype))
        name = resolve(backend, Call(device, dtype, 1, 1, 1, 1, grid))
        found = Served(backend, registry.get(name), Optics(centers, sigma, length, scale, grid))
        if len(known) >= _MOST_KNOWN:
            known.clear()
        known[key] = found
    return found


def folded(y: Tensor, theta: Tensor, coefficients: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The operands as (S, B, h), (S, B, h), (S, D, h, K)."""
    if coefficients.ndim == 3 and y.ndim == 2:  # as mostly, and the cheapest view there is
        return y.unsqueeze(0), theta.unsqueeze(0), coefficients.unsqueeze(0)
    if coefficients.ndim == 4 and y.ndim == 3:
        return y, theta, coefficients
    members, lead = (coefficients.shape[0], y.shape[1:-1]) if coefficients.ndim == 4 else (1, y.shape[:-1])
    shape = (members, math.prod(lead), y.shape[-1])
    return y.reshape(shape), theta.reshape(shape), coefficients.reshape(members, *coefficients.shape[-3:])


def _alone() -> None:
    """A forked child does not have the OpenMP threads of its parent and would wait for them forever."""
    if torch.get_num_threads() > 1:
        torch.set_num_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_alone)
