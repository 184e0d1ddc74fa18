"""Launches the Triton kernels: sizes of tiles and scratch, and deep stacks in segments."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from lln.ops.grid import Grid
from lln.ops.triton.launch import launch

LANES = 32
WARPS = 1056  # programs of one warp that a large card holds at once, at the backward's register use
SUMS_BYTES = 128 << 20  # partial sums of coefficient gradients kept at most
SEGMENT = 128  # layers of one backward sweep; deeper stacks keep the rays at every segment's start


@lru_cache(maxsize=1)
def unavailable() -> str | None:
    """Why the kernels cannot serve here, or None."""
    if not torch.cuda.is_available():
        return "no NVIDIA GPU is visible to torch"
    try:
        import triton  # noqa: F401
    except ImportError:
        return "Triton is not installed (it comes with CUDA builds of torch)"
    return None


def forward(
    y: Tensor, theta: Tensor, coefficients: Tensor, grid: Grid, length: float, scale: float
) -> tuple[Tensor, Tensor]:
    """Positions and angles behind the last layer: (S, B, h), coefficients (S, D, h, K)."""
    return _forward(y, theta, _pack(coefficients, grid), grid, length, scale)


def backward(
    y: Tensor,
    theta: Tensor,
    grad_y: Tensor,
    grad_theta: Tensor,
    coefficients: Tensor,
    grid: Grid,
    length: float,
    scale: float,
    *,
    from_outputs: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients for positions, angles and coefficients, from the stack's inputs (or its outputs, by the inverse)."""
    packed = _pack(coefficients, grid)
    depth = packed.shape[1]
    step = depth if from_outputs else SEGMENT
    starts = []
    for first in range(0, depth, step):
        part = packed if depth <= step else packed[:, first : first + step].contiguous()
        starts.append((part, y, theta))
        if first + step < depth:
            y, theta = _forward(y, theta, part, grid, length, scale)
    grads = []
    for part, y, theta in reversed(starts):
        grad_y, grad_theta, grad = _backward(y, theta, grad_y, grad_theta, part, grid, length, scale, from_outputs)
        grads.append(grad)
    return grad_y, grad_theta, grads[0] if len(grads) == 1 else torch.cat(grads[::-1], dim=1)


def _forward(
    y: Tensor, theta: Tensor, packed: Tensor, grid: Grid, length: float, scale: float
) -> tuple[Tensor, Tensor]:
    from lln.ops.triton.kernels import forward_kernel

    members, batch, width = y.shape
    out_y, out_theta = torch.empty_like(y), torch.empty_like(theta)
    columns = -(-width // LANES)
    rows = _rows(batch, columns * members, (4, 8, 16))
    programs = (-(-batch // rows), columns, members)
    launch(
        forward_kernel,
        programs,
        (y, theta, packed, out_y, out_theta, numbers(grid, length, scale, y.device, y.dtype)),
        (batch, width, packed.shape[1]),
        (*_shape(grid), rows),
        warps=1,
    )
    return out_y, out_theta


def _backward(
    y: Tensor,
    theta: Tensor,
    grad_y: Tensor,
    grad_theta: Tensor,
    packed: Tensor,
    grid: Grid,
    length: float,
    scale: float,
    inverse: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    from lln.ops.triton.kernels import backward_kernel, finish_kernel

    members, batch, width = y.shape
    depth, basis = packed.shape[1], packed.shape[2]
    columns = -(-width // LANES)
    rows = _rows(batch, columns * members, (8, 16))
    tiles = -(-batch // rows)
    parts = max(1, min(tiles, WARPS // (columns * members), SUMS_BYTES // (packed.itemsize * packed.numel())))
    parts = -(-tiles // -(-tiles // parts))  # every program sweeps as many tiles as the others, or one less
    single = parts == tiles
    sums = (torch.empty if single else torch.zeros)((parts, *packed.shape), device=y.device, dtype=y.dtype)
    path = y.new_empty(0 if inverse else parts * members * columns * depth * rows * LANES)
    out_y, out_theta = torch.empty_like(y), torch.empty_like(theta)
    launch(
        backward_kernel,
        (parts, columns, members),
        (
            y, theta, grad_y, grad_theta, packed, out_y, out_theta, sums, path,
            numbers(grid, length, scale, y.device, y.dtype),
        ),
        (tiles, batch, width, depth, LANES),
        (*_shape(grid), rows, inverse, single),
        warps=1,
    )  # fmt: skip
    grad = y.new_empty(members, depth, width, basis)
    launch(
        finish_kernel,
        (members * depth, columns, 1),
        (sums, _weights(grid, y.device, y.dtype, scale), grad),
        (parts, width, members * depth),
        (basis, 1 << (basis - 1).bit_length()),
        warps=4,
    )
    return out_y, out_theta, grad


def _rows(batch: int, columns: int, choices: tuple[int, ...]) -> int:
    """Samples a lane carries: many where that still leaves enough programs to fill the card."""
    return max((rows for rows in choices if -(-batch // rows) * columns >= WARPS), default=choices[0])


def _pack(coefficients: Tensor, grid: Grid) -> Tensor:
    """(S, D, h, K) -> (S, D, K, h), contiguous, the weights w_i multiplied in."""
    members, depth, width, basis = coefficients.shape
    packed = coefficients.new_empty(members, depth, basis, width)
    weights = _weights(grid, coefficients.device, coefficients.dtype, 1.0)
    return torch.mul(coefficients.transpose(-1, -2), weights, out=packed)


@lru_cache(maxsize=64)
def _weights(grid: Grid, device: torch.device, dtype: torch.dtype, scale: float) -> Tensor:
    weights = [w * scale for group in grid.groups for w in group.weights]
    return torch.tensor(weights, device=device, dtype=dtype).unsqueeze(-1)


@lru_cache(maxsize=256)
def numbers(grid: Grid, length: float, scale: float, device: torch.device, dtype: torch.dtype) -> Tensor:
    """The scalars of a stack where the kernels read them: as arguments Triton would round them to float32."""
    values = [length, scale, grid.kappa, grid.gamma, grid.gamma_low, float(grid.offset), grid.clamp]
    return torch.tensor(values, device=device, dtype=dtype)


@lru_cache(maxsize=256)
def _shape(grid: Grid) -> tuple[Any, ...]:
    """K, anchors, and how many centres lie below and above each: what is compiled in."""
    groups = grid.groups
    return (
        grid.basis,
        tuple(group.anchor for group in groups),
        tuple(group.below for group in groups),
        tuple(group.above for group in groups),
    )
