"""The transport on a GPU: what a forward pass keeps, and deep stacks in segments.

Rays are (..., h) with coefficients (D, h, K), or (S, ..., h) with (S, D, h, K) for S members, all contiguous.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from lln.ops.grid import Grid
from lln.ops.triton.launch import Launch
from lln.ops.triton.plan import Plan, Sweep, plan

Pair = tuple[Tensor, Tensor]

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


def forward(y: Tensor, theta: Tensor, coefficients: Tensor, grid: Grid, length: float, scale: float) -> Pair:
    """Positions and angles behind the last layer."""
    made = plan(y.shape, coefficients.shape, (grid, length, scale), y.device, y.dtype)
    packed = made.packed()
    made.pack(coefficients, made.weights, packed)
    return _forward(made, made.forward, y, theta, packed)


def forward_kept(
    y: Tensor, theta: Tensor, coefficients: Tensor, grid: Grid, length: float, scale: float
) -> tuple[Pair, tuple[Tensor, ...]]:
    """The same, and what `backward` takes as `kept`.

    That is one tensor: packed coefficients, and behind them the positions in all layers where these are few.
    """
    made = plan(y.shape, coefficients.shape, (grid, length, scale), y.device, y.dtype)
    few = made.depth <= SEGMENT and (made.kept_count - made.count) * y.itemsize <= _most_kept(y.device)
    kept = made.kept() if few else made.packed()
    made.pack(coefficients, made.weights, kept)
    return _forward(made, made.forward_kept if few else made.forward, y, theta, kept), (kept,)


def backward(
    rays: Pair,
    grads: Pair,
    coefficients: Tensor,
    grid: Grid,
    length: float,
    scale: float,
    from_outputs: bool = False,
    kept: tuple[Tensor, ...] = (),
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients for positions, angles and coefficients, from the stack's inputs (or its outputs, by the inverse)."""
    y = rays[0]
    made = plan(y.shape, coefficients.shape, (grid, length, scale), y.device, y.dtype)
    if kept:
        packed = kept[0]
    else:
        packed = made.packed()
        made.pack(coefficients, made.weights, packed)
    if from_outputs:
        sweep = made.from_outputs
    elif made.depth > SEGMENT:
        return _in_segments(made, rays, grads, packed)
    else:
        sweep = made.from_kept if packed.numel() == made.kept_count else made.from_inputs
    return _backward(made, sweep, rays, grads, packed)


def _in_segments(made: Plan, rays: Pair, grads: Pair, packed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The backward pass of a deep stack: forward to every segment's start, then back, segment by segment."""
    starts = []
    for first in range(0, made.depth, SEGMENT):
        part = packed[:, :, first : first + SEGMENT].contiguous()
        step = made.of_depth(part.shape[2])
        starts.append((step, part, rays))
        if first + SEGMENT < made.depth:
            rays = _forward(step, step.forward, *rays, part)
    pieces = []
    for step, part, start in reversed(starts):
        grad_y, grad_theta, piece = _backward(step, step.from_inputs, start, grads, part)
        grads = grad_y, grad_theta
        pieces.append(piece)
    return *grads, torch.cat(pieces[::-1], dim=-3)


def _forward(made: Plan, launch: Launch, y: Tensor, theta: Tensor, packed: Tensor) -> Pair:
    out_y, out_theta = made.rays(), made.rays()
    launch(y, theta, packed, out_y, out_theta, made.numbers)
    return out_y, out_theta


def _backward(made: Plan, sweep: Sweep, rays: Pair, grads: Pair, packed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """One sweep."""
    sums = sweep.sums()
    if sweep.zeroed:
        sums.zero_()
    path = rays[0] if sweep.scratch is None else sweep.scratch()
    grad_y, grad_theta, grad = made.rays(), made.rays(), made.lenses()
    sweep.launch(*rays, *grads, packed, grad_y, grad_theta, sums, path, made.numbers)
    sweep.finish(sums, made.weights, grad)
    return grad_y, grad_theta, grad


@lru_cache(maxsize=16)
def _most_kept(device: torch.device) -> int:
    return min(KEPT_BYTES, int(torch.cuda.get_device_properties(device).total_memory) // KEPT_PART)
