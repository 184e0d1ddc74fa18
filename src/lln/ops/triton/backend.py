"""Launches the Triton kernels: sizes of tiles and scratch, what a forward pass keeps, deep stacks in segments."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from lln.ops.grid import Grid
from lln.ops.triton.launch import launch

LANES = 32
WARPS = 1056  # programs of one warp with 16 samples a lane that a large card holds at once
SUMS_BYTES = 128 << 20  # partial sums of coefficient gradients kept at most
SEGMENT = 128  # layers of one backward sweep; deeper stacks keep the rays at every segment's start
# A forward pass whose gradient will be asked for keeps the positions in every layer up to this size, and up to this
# part of the card's memory; the backward pass then need not compute them again.
KEPT_BYTES, KEPT_PART = 1 << 30, 64
_TILE = 16  # rows of the largest tile, to which kept positions are padded


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
    return _forward(y, theta, _pack(coefficients, grid, scale), grid, length, None)


def forward_kept(
    y: Tensor, theta: Tensor, coefficients: Tensor, grid: Grid, length: float, scale: float
) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, ...]]:
    """The same, and what `backward` takes as `kept`: packed coefficients, and the positions in all layers if small."""
    packed = _pack(coefficients, grid, scale)
    path = _path(y, packed)
    ends = _forward(y, theta, packed, grid, length, path)
    return ends, (packed,) if path is None else (packed, path)


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
    kept: tuple[Tensor, ...] = (),
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients for positions, angles and coefficients, from the stack's inputs (or its outputs, by the inverse)."""
    packed = kept[0] if kept else _pack(coefficients, grid, scale)
    optics = (grid, length, scale)
    if len(kept) > 1 and not from_outputs:
        return _backward((y, theta), (grad_y, grad_theta), packed, optics, "kept", kept[1])
    depth = packed.shape[2]
    step = depth if from_outputs else SEGMENT
    starts = []
    for first in range(0, depth, step):
        part = packed if depth <= step else packed[:, :, first : first + step].contiguous()
        starts.append((part, y, theta))
        if first + step < depth:
            y, theta = _forward(y, theta, part, grid, length, None)
    grads = []
    source = "inverse" if from_outputs else "scratch"
    for part, y, theta in reversed(starts):
        grad_y, grad_theta, grad = _backward((y, theta), (grad_y, grad_theta), part, optics, source, None)
        grads.append(grad)
    return grad_y, grad_theta, grads[0] if len(grads) == 1 else torch.cat(grads[::-1], dim=1)


def _forward(
    y: Tensor, theta: Tensor, packed: Tensor, grid: Grid, length: float, path: Tensor | None
) -> tuple[Tensor, Tensor]:
    from lln.ops.triton.kernels import forward_kernel

    members, batch, width = y.shape
    out_y, out_theta = torch.empty_like(y), torch.empty_like(theta)
    columns, depth = packed.shape[1], packed.shape[2]
    rows = _rows(batch, columns * members, (4, 8, 16))
    kept = path is not None
    padded = _padded(batch) if kept else batch + -batch % rows
    launch(
        forward_kernel,
        (padded // rows, columns, members),
        (y, theta, packed, out_y, out_theta, y if path is None else path, numbers(grid, length, y.device, y.dtype)),
        (batch, width, depth, columns * LANES, members * padded * columns * LANES if kept else 0),
        (*_shape(grid), rows, kept),
        warps=1,
    )
    return out_y, out_theta


def _backward(
    rays: tuple[Tensor, Tensor],
    grads: tuple[Tensor, Tensor],
    packed: Tensor,
    optics: tuple[Grid, float, float],
    source: str,
    path: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """One sweep; `source` and `path` as for `backward_kernel`."""
    from lln.ops.triton.kernels import backward_kernel, finish_kernel

    (y, theta), (grid, length, scale) = rays, optics
    members, batch, width = y.shape
    columns, depth, basis = packed.shape[1:4]
    rows = _rows(batch, columns * members, (8, 16))
    tiles = _padded(batch) // rows if source == "kept" else -(-batch // rows)
    parts = max(1, min(tiles, WARPS // (columns * members), SUMS_BYTES // (packed.itemsize * packed.numel())))
    parts = -(-tiles // -(-tiles // parts))  # every program sweeps as many tiles as the others, or one less
    single = parts == tiles
    sums = (torch.empty if single else torch.zeros)((parts, *packed.shape), device=y.device, dtype=y.dtype)
    stride, layer = LANES, rows * LANES
    if source == "kept":
        stride, layer = columns * LANES, members * tiles * rows * columns * LANES
    elif source == "scratch":
        path = y.new_empty(parts * members * columns * depth * layer)
    out_y, out_theta = torch.empty_like(y), torch.empty_like(theta)
    launch(
        backward_kernel,
        (parts, columns, members),
        (
            y, theta, *grads, packed, out_y, out_theta, sums, y if path is None else path,
            numbers(grid, length, y.device, y.dtype),
        ),
        (tiles, batch, width, depth, stride, layer),
        (*_shape(grid), rows, source, single),
        warps=1,
    )  # fmt: skip
    grad = y.new_empty(members, depth, width, basis)
    launch(
        finish_kernel,
        (depth, columns, members),
        (sums, _weights(grid, y.device, y.dtype, scale), grad),
        (parts, width, depth, packed.numel()),
        (basis, 1 << (basis - 1).bit_length(), 8),
        warps=4,
    )
    return out_y, out_theta, grad


def _rows(batch: int, columns: int, choices: tuple[int, ...]) -> int:
    """Samples a lane carries: many where that still leaves enough programs to fill the card."""
    return max((rows for rows in choices if -(-batch // rows) * columns >= WARPS), default=choices[0])


def _padded(batch: int) -> int:
    """The rows of kept positions."""
    return batch + -batch % _TILE


def _path(y: Tensor, packed: Tensor) -> Tensor | None:
    """Room for the positions in all layers, (D, S, padded B, padded h); None where it is too much."""
    members, batch, _ = y.shape
    columns, depth = packed.shape[1:3]
    count = depth * members * _padded(batch) * columns * LANES
    if depth > SEGMENT or count * y.itemsize > _most_kept(y.device):
        return None
    return y.new_empty(count)


@lru_cache(maxsize=16)
def _most_kept(device: torch.device) -> int:
    return min(KEPT_BYTES, int(torch.cuda.get_device_properties(device).total_memory) // KEPT_PART)


def _pack(coefficients: Tensor, grid: Grid, scale: float) -> Tensor:
    """(S, D, h, K) -> (S, C, D, K, 32), the weights w_i and the lens scale multiplied in, units padded by zeros."""
    members, depth, width, basis = coefficients.shape
    columns = -(-width // LANES)
    if width % LANES:
        coefficients = torch.nn.functional.pad(coefficients, (0, 0, 0, columns * LANES - width))
    packed = coefficients.new_empty(members, columns, depth, basis, LANES)
    lanes = coefficients.view(members, depth, columns, LANES, basis).permute(0, 2, 1, 4, 3)
    return torch.mul(lanes, _weights(grid, coefficients.device, coefficients.dtype, scale), out=packed)


@lru_cache(maxsize=64)
def _weights(grid: Grid, device: torch.device, dtype: torch.dtype, scale: float) -> Tensor:
    weights = [w * scale for group in grid.groups for w in group.weights]
    return torch.tensor(weights, device=device, dtype=dtype).unsqueeze(-1)


@lru_cache(maxsize=256)
def numbers(grid: Grid, length: float, device: torch.device, dtype: torch.dtype) -> Tensor:
    """The scalars of a stack where the kernels read them: as arguments Triton would round them to float32."""
    values = [length, grid.kappa, grid.gamma, grid.gamma_low, float(grid.offset), grid.clamp]
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
