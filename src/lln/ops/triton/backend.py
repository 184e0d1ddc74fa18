"""The transport on a GPU: what a forward pass keeps, and deep stacks in segments.

Rays are (..., h) with coefficients (D, h, K), or (S, ..., h) with (S, D, h, K) for S members, all contiguous.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from lln.ops.grid import Grid
from lln.ops.triton.plan import Plan, Sweep, plan

SEGMENT = 128  # layers of one backward sweep; deeper stacks keep the rays at every segment's start
# A forward pass whose gradient will be asked for keeps the positions in every layer up to this size, and up to this
# part of the card's memory; the backward pass then need not compute them again.
KEPT_BYTES, KEPT_PART = 1 << 30, 64


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
    """Positions and angles behind the last layer."""
    made = plan(y.shape, coefficients.shape, (grid, length, scale), y.device, y.dtype)
    return _forward(made, y, theta, _pack(made, coefficients), None)


def forward_kept(
    y: Tensor, theta: Tensor, coefficients: Tensor, grid: Grid, length: float, scale: float
) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, ...]]:
    """The same, and what `backward` takes as `kept`: packed coefficients, and the positions in all layers if small."""
    made = plan(y.shape, coefficients.shape, (grid, length, scale), y.device, y.dtype)
    packed = _pack(made, coefficients)
    if made.depth > SEGMENT or made.positions * y.itemsize > _most_kept(y.device):
        return _forward(made, y, theta, packed, None), (packed,)
    path = made.path()
    return _forward(made, y, theta, packed, path), (packed, path)


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
    made = plan(y.shape, coefficients.shape, (grid, length, scale), y.device, y.dtype)
    packed = kept[0] if kept else _pack(made, coefficients)
    if made.depth > SEGMENT and not from_outputs:
        return _in_segments(made, (y, theta), (grad_y, grad_theta), packed)
    grad, path = made.lenses(), None
    if from_outputs:
        sweep = made.inverse
    elif len(kept) > 1:
        sweep, path = made.kept, kept[1]
    else:
        sweep = made.scratch
    ends = _backward(made, sweep, (y, theta), (grad_y, grad_theta), packed, path, grad)
    return *ends, grad


def _in_segments(
    made: Plan, rays: tuple[Tensor, Tensor], grads: tuple[Tensor, Tensor], packed: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The backward pass of a deep stack: forward to every segment's start, then back, segment by segment."""
    starts = []
    for first in range(0, made.depth, SEGMENT):
        part = packed[:, :, first : first + SEGMENT].contiguous()
        step = made.of_depth(part.shape[2])
        starts.append((step, part, rays))
        if first + SEGMENT < made.depth:
            rays = _forward(step, *rays, part, None)
    pieces = []
    for step, part, start in reversed(starts):
        grad = step.lenses()
        grads = _backward(step, step.scratch, start, grads, part, None, grad)
        pieces.append(grad)
    return *grads, torch.cat(pieces[::-1], dim=-3)


def _forward(made: Plan, y: Tensor, theta: Tensor, packed: Tensor, path: Tensor | None) -> tuple[Tensor, Tensor]:
    out_y, out_theta = made.rays(), made.rays()
    if path is None:
        made.forward(y, theta, packed, out_y, out_theta, y, made.numbers)
    else:
        made.forward_kept(y, theta, packed, out_y, out_theta, path, made.numbers)
    return out_y, out_theta


def _backward(
    made: Plan,
    sweep: Sweep,
    rays: tuple[Tensor, Tensor],
    grads: tuple[Tensor, Tensor],
    packed: Tensor,
    path: Tensor | None,
    grad: Tensor,
) -> tuple[Tensor, Tensor]:
    """One sweep: gradients of the rays; those of the coefficients are written to `grad`."""
    y, theta = rays
    sums = sweep.sums()
    if sweep.zeroed:
        sums.zero_()
    if path is None:
        path = sweep.scratch() if sweep.scratch else y
    out_y, out_theta = made.rays(), made.rays()
    sweep.launch(y, theta, *grads, packed, out_y, out_theta, sums, path, made.numbers)
    sweep.finish(sums, made.weights, grad)
    return out_y, out_theta


def _pack(made: Plan, coefficients: Tensor) -> Tensor:
    """(S, D, h, K) -> (S, C, D, K, 32), the weights w_i and the lens scale multiplied in, units padded by zeros."""
    packed = made.packed()
    made.pack(coefficients, made.weights, packed)
    return packed


@lru_cache(maxsize=16)
def _most_kept(device: torch.device) -> int:
    return min(KEPT_BYTES, int(torch.cuda.get_device_properties(device).total_memory) // KEPT_PART)
