"""Field networks on the CPU: arrays and tables for the kernel of `field_kernel.py`, and calls of it.

`Layout` says where the points of a grid and their neighbours lie. `FieldRun` packs networks for it, holds the memory of
a rollout, and is called step after step.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lln.ops.cpu.backend import (
    MOST_BASIS,
    THREAD_WORK,
    Array,
    forced_level,
    lens_grid,
    lens_rows,
    padded_size,
    run,
    unavailable,
)
from lln.ops.grid import Grid, even_grid

if TYPE_CHECKING:
    from lln.ops.rollout import LensBlock

Sides = tuple[tuple[str, str], ...]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Layout:
    """How a field with room beyond its sides lies in memory."""

    space: tuple[int, ...]  #: points of the grid.
    padded: tuple[int, ...]  #: with the room.
    inside: tuple[slice, ...]  #: the points of the grid in a padded field.
    places: Integers  #: (points,), where they lie.
    offsets: Integers  #: (segments,), where runs of neighbours in memory begin, relative to a point.
    side: int  #: neighbours of such a run.
    filled: Integers  #: (fills, 3): what a place beyond a side is made of.

    @classmethod
    def of(cls, space: Sequence[int], kernel: Sequence[int], dilation: Sequence[int], boundary: Sides) -> Layout | None:
        """None where a kernel reaches beyond what is mirrored."""
        reach = [((k - 1) // 2 * d, k // 2 * d) for k, d in zip(kernel, dilation, strict=True)]
        for size, (before, after), pair in zip(space, reach, boundary, strict=True):
            mirrored = [count for count, side in zip((before, after), pair, strict=True) if side in _MIRRORS]
            if max(mirrored, default=0) > size - 1:
                return None
        padded = tuple(before + size + after for size, (before, after) in zip(space, reach, strict=True))
        inside = tuple(slice(before, before + size) for size, (before, _) in zip(space, reach, strict=True))
        grid = np.arange(math.prod(padded), dtype=np.int64).reshape(padded)
        steps = [math.prod(padded[axis + 1 :]) for axis in range(len(padded))]
        near = [
            [step * (k * d - before) for k in range(size)]
            for step, size, d, (before, _) in zip(steps, kernel, dilation, reach, strict=True)
        ]
        side = kernel[-1] if dilation[-1] == 1 else 1
        near[-1] = near[-1][::side]
        offsets = np.array([sum(each) for each in itertools.product(*near)], np.int64)
        filled = [_fills(grid, axis, inside, reach[axis], pair) for axis, pair in enumerate(boundary)]
        return cls(
            tuple(space), padded, inside, np.ascontiguousarray(grid[inside]).ravel(), offsets, side,
            np.ascontiguousarray(np.concatenate(filled)),
        )  # fmt: skip


_SLACK = 16  # numbers behind an array that the kernel may read: the rest of a vector
_MIRRORS = ("dirichlet", "neumann")


def _fills(
    grid: Integers, axis: int, inside: Sequence[slice], reach: tuple[int, int], pair: tuple[str, str]
) -> Integers:
    """Rows of `Layout.filled` for the two sides of an axis; those before it are filled already."""
    before, size = reach[0], inside[axis].stop - inside[axis].start
    lines = np.moveaxis(grid[(*[slice(None)] * (axis + 1), *inside[axis + 1 :])], axis, 0)
    rows = [np.zeros((0, 3), np.int64)]
    for at in (*range(-before, 0), *range(size, size + reach[1])):
        side, edge = (pair[0], 0) if at < 0 else (pair[1], size - 1)
        one = {"periodic": at % size, "neumann": 2 * edge - at}.get(side, edge)
        other = lines[before + 2 * edge - at] if side == "dirichlet" else np.full_like(lines[0], -1)
        rows.append(np.stack((lines[before + at], lines[before + one], other), axis=-1).reshape(-1, 3))
    return np.concatenate(rows)


@dataclass(frozen=True, eq=False)
class _Packed:
    """One block for its kernel."""

    function: Any
    arrays: tuple[NDArray[Any], ...]  #: embedding, lenses, readout and constants.
    channels: int
    units: int
    depth: int
    outputs: int
    work: int  #: multiply-adds of a point.

    @property
    def sizes(self) -> tuple[int, ...]:
        """As the kernel takes them."""
        return self.channels, self.units, self.depth, self.outputs

    @cached_property
    def addresses(self) -> tuple[int, ...]:
        """Where the arrays begin; finding out takes as long as ten points of a field."""
        return _addresses(self.arrays)


def _addresses(arrays: Sequence[NDArray[Any]]) -> tuple[int, ...]:
    return tuple(array.ctypes.data for array in arrays)


def serves(blocks: Sequence[LensBlock]) -> bool:
    """Whether the kernel can run these blocks here."""
    if unavailable() is not None:
        return False
    grids = [even_grid(block.centers, block.sigma, block.precision) for block in blocks]
    return all(isinstance(grid, Grid) and grid.basis <= MOST_BASIS for grid in grids)


def _pack(block: LensBlock, layout: Layout) -> _Packed:
    from lln.ops.cpu.field_kernel import FieldShape, function
    from lln.ops.cpu.kernels import Shape, constants
    from lln.ops.cpu.simd import target

    grid, goal, angles = lens_grid(block), target(forced_level()), block.angle_weight
    lanes, dtype = goal.width(block.precision), np.dtype(block.precision)
    depth, width, _ = block.coefficients.shape
    units, outputs, points = padded_size(width, lanes), len(block.bias), len(layout.offsets) * layout.side
    shape = FieldShape(Shape.of(grid), angles is not None, outputs if outputs >= lanes else 0, goal, block.precision)
    embedded = [(block.position_weight, block.position_bias)]
    if angles is not None and block.angle_bias is not None:
        embedded.append((angles, block.angle_bias))
    patch = block.position_weight.shape[1]
    embedding = np.zeros((1 + patch, len(embedded), units), dtype)
    for k, (weight, bias) in enumerate(embedded):
        embedding[0, k, :width], embedding[1:, k, :width] = bias, weight.T
    embedding = embedding.reshape(1 + patch, len(embedded), units // lanes, lanes).transpose(2, 0, 1, 3)
    wide = padded_size(outputs, lanes) if shape.outputs else outputs
    readout = np.zeros((1 + points * units, wide), dtype)
    readout[0, :outputs] = block.bias
    rows = readout[1:].reshape(points, units, wide)
    rows[:, :width, :outputs] = block.readout.reshape(outputs, points, width).transpose(1, 2, 0)
    ends = np.cumsum([0, *shape.groups]) * lanes
    groups = [readout[:, a:b].ravel() for a, b in itertools.pairwise(ends)] if shape.groups else [readout.T.ravel()]
    arrays = (
        np.ascontiguousarray(embedding), lens_rows(block, grid, lanes), np.concatenate(groups),
        constants(grid, block.length, block.strength, block.precision),
    )  # fmt: skip
    work = patch * len(embedded) * width + block.coefficients.size + points * width * outputs
    return _Packed(function(shape), arrays, patch // points, units, depth, outputs, work)


class FieldRun:
    """Networks of one shape with the memory for a batch of fields, called step after step.

    Args:
        members: the blocks of every network, with the features of a patch, and a readout of the rays of a patch; their
            gains are not used.
        layout: of the grid.
        batch: number of fields, one at least.
        threads: at most this many threads.
    """

    def __init__(self, members: Sequence[Sequence[LensBlock]], layout: Layout, batch: int, threads: int) -> None:
        self.layout, self.batch = layout, batch
        self.members = [[_pack(block, layout) for block in blocks] for blocks in members]
        blocks, dtype = self.members[0], np.dtype(members[0][0].precision)
        shapes = [(batch, *layout.padded, n) for n in (blocks[0].channels, *(block.outputs for block in blocks))]
        self.fields = [np.zeros(math.prod(shape) + _SLACK, dtype)[:-_SLACK].reshape(shape) for shape in shapes]
        work = batch * len(layout.places) * min(block.work for block in blocks)
        self.threads = max(1, min(threads, work // THREAD_WORK))
        self.apart = batch >= self.threads  # every thread has fields of its own
        size = math.prod(layout.padded) * max(block.units for block in blocks)
        self.rays = np.zeros((self.threads if self.apart else batch, size), dtype)
        self._addresses, self._tables = map(_addresses, (self.fields, (layout.places, layout.offsets, layout.filled)))
        kept = 0 if self.apart else size
        self._sizes = (math.prod(layout.padded), len(layout.offsets), layout.side, len(layout.filled), kept)

    def __call__(self, x: Array) -> Array:
        """The mean of all networks in float64: (B, *space, channels) -> (B, *space, outputs)."""
        inside = (slice(None), *self.layout.inside)
        with np.errstate(over="ignore"):  # what overflows has diverged
            self.fields[0][inside] = x
        total = np.zeros((self.batch, *self.layout.space, self.fields[-1].shape[-1]))
        for blocks in self.members:
            for index, block in enumerate(blocks):
                self._run(index, block)
                if 0 < index < len(blocks) - 1:
                    self.fields[index + 1] += self.fields[index]
            total += self.fields[-1][inside]
        return total / len(self.members)

    def _run(self, index: int, block: _Packed) -> None:
        from lln.ops.cpu.field_kernel import FILL_FIELD, FILL_RAYS, RAYS, READ

        whole, points = FILL_FIELD | RAYS | FILL_RAYS | READ, len(self.layout.places)
        every, call = (0, self.batch), partial(self._call, index, block)
        if self.apart:
            jobs = [partial(call, k, fields, (0, points), whole) for k, fields in enumerate(self._shares(self.batch))]
            run(jobs, self.threads)
            return
        for filling, stage in ((FILL_FIELD, RAYS), (FILL_RAYS, READ)):
            call(0, every, (0, points), filling)
            run([partial(call, 0, every, part, stage) for part in self._shares(points)], self.threads)

    def _shares(self, count: int) -> Iterator[tuple[int, int]]:
        """Every thread's range."""
        return itertools.pairwise(count * k // self.threads for k in range(self.threads + 1))

    def _call(
        self, index: int, block: _Packed, slot: int, fields: tuple[int, int], points: tuple[int, int], stages: int
    ) -> None:
        """Some stages of a block for some fields and points, with rays from `slot` on."""
        rays = self.rays.ctypes.data + slot * self.rays.strides[0]
        arrays = (self._addresses[index], rays, self._addresses[index + 1], *self._tables, *block.addresses)
        block.function(*arrays, *block.sizes, *self._sizes, *fields, *points, stages)
