"""Which backend serves a call, and why the others do not."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from lln.core.errors import InputError
from lln.ops import factored, reference
from lln.ops.cpu import backend as cpu_backend
from lln.ops.grid import Grid, even_grid
from lln.ops.triton import backend as triton_backend

BACKENDS = ("triton", "cpu", "eager", "reference")
# Every control point is written out in the machine code, which takes long to compile: 12 s for 200 of them.
MOST_BASIS = 128


@dataclass(frozen=True)
class Call:
    """What the choice depends on: where the operands live, their type, and their sizes."""

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
        precision = "float64" if y.dtype == torch.float64 else "float32"
        members, batch, width = y.shape
        grid = even_grid(centers, sigma, precision)
        return cls(y.device, y.dtype, members, batch, coefficients.shape[1], width, grid)


def refusal(backend: str, call: Call) -> str | None:
    """Why `backend` cannot serve `call`, in one sentence; None if it can."""
    if backend == "reference":
        return None
    if isinstance(call.grid, str):
        return call.grid
    if backend == "eager":
        return (
            None
            if call.dtype in (torch.float32, torch.float64)
            else f"it computes in float32 or float64, not {call.dtype}"
        )
    if call.dtype != torch.float32:
        return f"it computes in float32, not {call.dtype}"
    if backend == "triton":
        return f"the operands are on {call.device}" if call.device.type != "cuda" else triton_backend.unavailable()
    if call.device.type != "cpu":
        return f"the operands are on {call.device}"
    if call.grid.basis > MOST_BASIS:
        return f"it is compiled for up to {MOST_BASIS} control points, not {call.grid.basis}"
    return cpu_backend.unavailable()


def choose(call: Call) -> str:
    """The fastest backend that serves `call`."""
    if call.dtype == torch.float64 or call.batch * call.width * call.depth * call.members == 0:
        return "reference"
    return next(backend for backend in BACKENDS if refusal(backend, call) is None)


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
    backend: str, device: torch.device, dtype: torch.dtype, empty: bool, centers: tuple[float, ...], sigma: float
) -> tuple[str, Grid | str]:
    """Backend and grid of a call: remembered, since the next call is mostly like the last."""
    grid = even_grid(centers, sigma, "float64" if dtype == torch.float64 else "float32")
    size = 0 if empty else 1
    return resolve(backend, Call(device, dtype, size, size, size, size, grid)), grid


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
    if not y.numel():
        return torch.empty_like(y), torch.empty_like(theta)
    serves, grid = _served(backend, y.device, y.dtype, not coefficients.numel() * y.numel(), centers, sigma)
    if serves == "reference" or isinstance(grid, str):
        pairs = [
            reference.lens_transport(*operands, centers, sigma, length, scale)
            for operands in zip(y, theta, coefficients, strict=True)
        ]
        return _stacked([y for y, _ in pairs], y), _stacked([theta for _, theta in pairs], theta)
    y, theta, coefficients = y.contiguous(), theta.contiguous(), coefficients.contiguous()
    if serves == "cpu":
        out = (torch.empty_like(y), torch.empty_like(theta))
        rays = (y, theta, coefficients)
        cpu_backend.transport("forward", rays, out, grid, length, scale, torch.get_num_threads())
        return out
    run = triton_backend.forward if serves == "triton" else factored.forward
    return run(y, theta, coefficients, grid, length, scale)


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
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients for y, theta, coefficients; y and theta are the stack's outputs if `from_outputs`, else its inputs."""
    if not y.numel():
        return torch.empty_like(y), torch.empty_like(theta), torch.zeros_like(coefficients)
    serves, grid = _served(backend, y.device, y.dtype, not coefficients.numel() * y.numel(), centers, sigma)
    if serves == "reference" or isinstance(grid, str):
        return _reference_backward(
            y, theta, grad_y, grad_theta, coefficients, centers, sigma, length, scale, from_outputs
        )
    y, theta, grad_y, grad_theta = y.contiguous(), theta.contiguous(), grad_y.contiguous(), grad_theta.contiguous()
    coefficients = coefficients.contiguous()
    if serves == "cpu":
        out = (torch.empty_like(y), torch.empty_like(theta), torch.empty_like(coefficients))
        kind, given = "inverse" if from_outputs else "backward", (y, theta, grad_y, grad_theta, coefficients)
        cpu_backend.transport(kind, given, out, grid, length, scale, torch.get_num_threads())
        return out
    run = triton_backend.backward if serves == "triton" else factored.backward
    return run(y, theta, grad_y, grad_theta, coefficients, grid, length, scale, from_outputs=from_outputs)


def _reference_backward(
    y: Tensor,
    theta: Tensor,
    grad_y: Tensor,
    grad_theta: Tensor,
    coefficients: Tensor,
    centers: tuple[float, ...],
    sigma: float,
    length: float,
    scale: float,
    from_outputs: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    columns: list[tuple[Tensor, ...]] = []
    for start_y, start_theta, g_y, g_theta, lenses in zip(y, theta, grad_y, grad_theta, coefficients, strict=True):
        rays = (start_y, start_theta)
        if from_outputs:
            rays = reference.inverse_transport(*rays, lenses, centers, sigma, length, scale)
        with torch.enable_grad():
            leaves = [t.detach().requires_grad_() for t in (*rays, lenses)]
            ends = reference.lens_transport(leaves[0], leaves[1], leaves[2], centers, sigma, length, scale)
            grads = torch.autograd.grad(ends, leaves, (g_y, g_theta), materialize_grads=True)
        columns.append(grads)
    grads_y, grads_theta, grads_lenses = (
        (list(column) for column in zip(*columns, strict=True)) if columns else ([], [], [])
    )
    return _stacked(grads_y, y), _stacked(grads_theta, theta), _stacked(grads_lenses, coefficients)


def _stacked(parts: list[Tensor], like: Tensor) -> Tensor:
    return torch.stack(parts) if parts else torch.empty_like(like)


def _alone() -> None:
    """A forked child has none of the threads that OpenMP keeps for its parent, and would wait for them for ever."""
    if torch.get_num_threads() > 1:
        torch.set_num_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_alone)
