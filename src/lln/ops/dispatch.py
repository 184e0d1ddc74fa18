"""Which backend serves a call, and the call itself."""

from __future__ import annotations

import os
from functools import lru_cache

import torch
from torch import Tensor

from lln.core.errors import InputError, choice
from lln.core.registry import Registry
from lln.ops.backends import Backend, Call, Cpu, Eager, Gradients, Optics, Reference, Triton, grid_precision
from lln.ops.grid import even_grid


class Backends(Registry[Backend]):
    """The backends by name; a new one takes effect at once."""

    def register(self, name: str, item: Backend) -> Backend:
        """Add a backend, or replace one of the same name."""
        if name == "auto" or not isinstance(item, Backend):
            raise InputError(
                f"backend {name!r} cannot be registered: it needs a name other than 'auto' and must be an instance of "
                "lln.ops.backends.Backend"
            )
        _served.cache_clear()
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


@lru_cache(maxsize=1024)
def _served(
    backend: str,
    device: torch.device,
    dtype: torch.dtype,
    centers: tuple[float, ...],
    sigma: float,
    length: float,
    scale: float,
) -> tuple[Backend, Optics]:
    """Backend and optics of a call that is not empty: remembered, since the next call is mostly like the last."""
    grid = even_grid(centers, sigma, grid_precision(dtype))
    name = resolve(backend, Call(device, dtype, 1, 1, 1, 1, grid))
    return registry.get(name), Optics(centers, sigma, length, scale, grid)


def forward(
    y: Tensor,
    theta: Tensor,
    coefficients: Tensor,
    centers: tuple[float, ...],
    sigma: float,
    length: float,
    scale: float,
    backend: str,
) -> tuple[Tensor, Tensor]:
    """The stack's outputs for (S, B, h) rays and (S, D, h, K) lenses, new tensors."""
    serves, optics = _served(backend, y.device, y.dtype, centers, sigma, length, scale)
    if not coefficients.numel() or not y.numel():
        return y.clone(), theta.clone()
    return serves.forward((y.contiguous(), theta.contiguous()), coefficients.contiguous(), optics)


def forward_kept(
    y: Tensor,
    theta: Tensor,
    coefficients: Tensor,
    centers: tuple[float, ...],
    sigma: float,
    length: float,
    scale: float,
    backend: str,
) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, ...]]:
    """As `forward`, and the tensors that `backward` takes as `kept`."""
    serves, optics = _served(backend, y.device, y.dtype, centers, sigma, length, scale)
    if not coefficients.numel() or not y.numel():
        return (y.clone(), theta.clone()), ()
    return serves.forward_kept((y.contiguous(), theta.contiguous()), coefficients.contiguous(), optics)


def backward(
    y: Tensor,
    theta: Tensor,
    grad_y: Tensor,
    grad_theta: Tensor,
    coefficients: Tensor,
    centers: tuple[float, ...],
    sigma: float,
    length: float,
    scale: float,
    backend: str,
    from_outputs: bool,
    kept: tuple[Tensor, ...] = (),
) -> Gradients:
    """Gradients for y, theta, coefficients; y and theta are the stack's outputs if `from_outputs`, else its inputs."""
    serves, optics = _served(backend, y.device, y.dtype, centers, sigma, length, scale)
    if not coefficients.numel() or not y.numel():
        return grad_y.clone(), grad_theta.clone(), torch.zeros_like(coefficients)
    rays, grads = (y.contiguous(), theta.contiguous()), (grad_y.contiguous(), grad_theta.contiguous())
    if kept:
        return serves.backward_kept(rays, grads, coefficients.contiguous(), optics, kept)
    return serves.backward(rays, grads, coefficients.contiguous(), optics, from_outputs)


def _alone() -> None:
    """A forked child does not have the OpenMP threads of its parent and would wait for them forever."""
    if torch.get_num_threads() > 1:
        torch.set_num_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_alone)
