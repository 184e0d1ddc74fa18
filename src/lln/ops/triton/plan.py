"""The launches of one shape of stack: sizes of tiles and scratch, worked out once and kept."""

from __future__ import annotations

import math
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from lln.ops.grid import Grid
from lln.ops.triton.launch import Launch, Room

LANES = 32
WARPS = 1056  # programs of one warp with 16 samples a lane that a large card holds at once
SUMS_BYTES = 128 << 20  # partial sums of coefficient gradients kept at most
_TILE = 16  # rows of the largest tile, to which kept positions are padded


class Sweep(NamedTuple):
    """A backward sweep."""

    launch: Launch  #: of `backward_kernel`.
    finish: Launch  #: of `finish_kernel`, which adds the partial sums.
    sums: Room  #: for the partial sums.
    zeroed: bool  #: whether the partial sums start at zero.
    scratch: Room | None  #: for positions that are computed again, or None.


class Plan:
    """The launches for stacks of D lenses of h units, S members and B rows each, and the memory that they fill.

    Attributes:
        rays: for positions or angles behind the stack.
        lenses: for gradients of coefficients.
        packed: for the packed coefficients, (S, C, D, K, 32).
        kept: for the packed coefficients and behind them the positions in all layers, (D, S, padded B, padded h).
        count: numbers in packed coefficients.
        kept_count: numbers in `kept`.
        numbers: the scalars of the stack.
        weights: w_i with the lens scale multiplied in.
    """

    def __init__(
        self,
        rays: tuple[int, ...],
        lenses: tuple[int, ...],
        optics: tuple[Grid, float, float],
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        *members, self.depth, self.width, basis = lenses
        self.members = members[0] if members else 1
        self.batch = math.prod(rays) // (self.members * self.width)
        self.columns = -(-self.width // LANES)
        self.grid, length, scale = optics
        self._shapes, self._optics, self._memory = (rays, lenses), optics, (device, dtype)
        self.rays, self.lenses = Room(rays, device, dtype), Room(lenses, device, dtype)
        packed = (self.members, self.columns, self.depth, basis, LANES)
        self.count = math.prod(packed)
        self.kept_count = self.count + self.depth * self._layer
        self.packed, self.kept = Room(packed, device, dtype), Room((self.kept_count,), device, dtype)
        self.numbers = numbers(self.grid, length, device, dtype)
        self.weights = _weights(self.grid, device, dtype, scale)

    def of_depth(self, depth: int) -> Plan:
        """The plan for as many rays through `depth` of the lenses."""
        rays, lenses = self._shapes
        return plan(rays, (*lenses[:-3], depth, *lenses[-2:]), self._optics, *self._memory)

    @cached_property
    def pack(self) -> Launch:
        """From coefficients, weights to packed coefficients."""
        from lln.ops.triton.kernels import pack_kernel

        programs = (self.depth, self.columns, self.members)
        return Launch(pack_kernel, programs, (self.width, self.depth), _padded_basis(self.grid), warps=4)

    @cached_property
    def forward(self) -> Launch:
        """From rays, packed coefficients to the rays behind the stack."""
        return self._forward(keep=False)

    @cached_property
    def forward_kept(self) -> Launch:
        """The same, and the positions in all layers."""
        return self._forward(keep=True)

    @cached_property
    def from_kept(self) -> Sweep:
        """The sweep over positions that `forward_kept` left."""
        return self._sweep("kept")

    @cached_property
    def from_inputs(self) -> Sweep:
        """The sweep that computes the positions again."""
        return self._sweep("scratch")

    @cached_property
    def from_outputs(self) -> Sweep:
        """The sweep from the rays behind the stack."""
        return self._sweep("inverse")

    @property
    def _layer(self) -> int:
        """Kept positions of one layer."""
        return self.members * _padded(self.batch) * self.columns * LANES

    def _forward(self, *, keep: bool) -> Launch:
        from lln.ops.triton.kernels import forward_kernel

        rows = self._rows((4, 8, 16))
        tiles = _padded(self.batch) // rows if keep else -(-self.batch // rows)
        sizes = (self.batch, self.width, self.depth, self.columns * LANES, self._layer if keep else 0)
        constants = (*_shape(self.grid), rows, keep)
        return Launch(forward_kernel, (tiles, self.columns, self.members), sizes, constants, warps=1)

    def _sweep(self, source: str) -> Sweep:
        from lln.ops.triton.kernels import backward_kernel, finish_kernel

        programs = (self.columns, self.members)
        rows, kept = self._rows((8, 16)), source == "kept"
        tiles = _padded(self.batch) // rows if kept else -(-self.batch // rows)
        parts = max(
            1, min(tiles, WARPS // (self.columns * self.members), SUMS_BYTES // (self.numbers.itemsize * self.count))
        )
        parts = -(-tiles // -(-tiles // parts))  # every program sweeps as many tiles as the others, or one less
        single = parts == tiles
        stride, layer = (self.columns * LANES, self._layer) if kept else (LANES, rows * LANES)
        sizes = (tiles, self.batch, self.width, self.depth, stride, layer)
        constants = (*_shape(self.grid), rows, source, single)
        launch = Launch(backward_kernel, (parts, *programs), sizes, constants, warps=1)
        sums, at_once = (parts, self.width, self.depth, self.count), 8
        constants = (*_padded_basis(self.grid), at_once)
        finish = Launch(finish_kernel, (self.depth, *programs), sums, constants, warps=4)
        scratch = parts * self.members * self.columns * self.depth * layer
        return Sweep(
            launch,
            finish,
            Room((parts, self.count), *self._memory),
            not single,
            Room((scratch,), *self._memory) if source == "scratch" else None,
        )

    def _rows(self, choices: tuple[int, ...]) -> int:
        """Samples a lane carries: many where that still leaves enough programs to fill the card."""
        columns = self.columns * self.members
        return max((rows for rows in choices if -(-self.batch // rows) * columns >= WARPS), default=choices[0])


@lru_cache(maxsize=256)
def plan(
    rays: tuple[int, ...],
    lenses: tuple[int, ...],
    optics: tuple[Grid, float, float],
    device: torch.device,
    dtype: torch.dtype,
) -> Plan:
    """The plan for rays (..., h), coefficients (D, h, K), or (S, ..., h), (S, D, h, K); and (grid, length, scale)."""
    return Plan(rays, lenses, optics, device, dtype)


def _padded(batch: int) -> int:
    """The rows of kept positions."""
    return batch + -batch % _TILE


def _padded_basis(grid: Grid) -> tuple[int, int]:
    """K, and the power of two that holds it."""
    return grid.basis, 1 << (grid.basis - 1).bit_length()


@lru_cache(maxsize=64)
def _weights(grid: Grid, device: torch.device, dtype: torch.dtype, scale: float) -> Tensor:
    return torch.tensor([w * scale for group in grid.groups for w in group.weights], device=device, dtype=dtype)


@lru_cache(maxsize=256)
def numbers(grid: Grid, length: float, device: torch.device, dtype: torch.dtype) -> Tensor:
    """The scalars of a stack where the kernels read them: as arguments Triton would round them to float32."""
    values = [length, grid.kappa, grid.gamma, grid.gamma_low, float(grid.offset), grid.clamp]
    return torch.tensor(values, device=device, dtype=dtype)


def _shape(grid: Grid) -> tuple[Any, ...]:
    """K, anchors, and how many centres lie below and above each: what is compiled in."""
    groups = grid.groups
    return (
        grid.basis,
        tuple(group.anchor for group in groups),
        tuple(group.below for group in groups),
        tuple(group.above for group in groups),
    )
