"""Which backend serves a call, and the call itself."""

from __future__ import annotations

import math
import os
from typing import Any, NamedTuple

import torch
from torch import Tensor

from lln.core.errors import InputError, choice
from lln.core.registry import Registry
from lln.ops.backends import Backend, Call, Cpu, Eager, Gradients, Optics, Pair, Reference, Triton, grid_precision
from lln.ops.grid import even_grid

Kept = tuple[Tensor, ...]


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
    """What serves a call that is not empty: remembered in `known`, since the next call is mostly like the last."""
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
