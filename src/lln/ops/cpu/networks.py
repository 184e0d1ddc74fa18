"""Lens networks on the CPU, for NumPy arrays: the fused transport, forward and both ways backward, and whole rollouts.

S ensemble members with their own coefficients go through one call. Work is cut into tasks (a block of units of one
member), and a thread owns whole tasks, so no two threads add to the same gradient and the bits do not depend on how
many threads there are. All arrays are C-contiguous, float32 or float64. Rollouts run the kernel of `loop.py`, which
takes all steps of all starts in one call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from lln.ops.cpu.backend import THREAD_WORK, Array, forced_level, run, scratch
from lln.ops.grid import Grid

if TYPE_CHECKING:
    from lln.ops.cpu.kernels import Kernel
    from lln.ops.cpu.loop import Loop
    from lln.ops.rollout import Networks, Scaling

# A wide tile packs four times the coefficients of a tall one; beyond this many bytes that no longer fits the cache.
_WIDE_SCRATCH = 2**22
# Very deep stacks run on fewer threads rather than hold more scratch than this many bytes in all.
_ALL_SCRATCH = 2**25
# The gradient keeps the factors of all lenses of a tile up to this depth, beyond it only the positions.
KEPT_DEPTH = 2048

_DOUBLES = (np.dtype(np.float64), torch.float64)


def transport(
    kind: str, inputs: Sequence[Any], outputs: Sequence[Any], grid: Grid, length: float, scale: float, threads: int
) -> None:
    """Run one kind of kernel, "forward", "backward" or "inverse".

    The third dimension of every operand is the units, and the last input is the coefficients. Operands are arrays, or
    tensors without gradients: reading the address of a tensor is ten times faster than that of an array.
    """
    members, batch, units = inputs[0].shape
    depth = inputs[-1].shape[1]
    if not members * batch * units:
        for operand in outputs:
            _array(operand).fill(0.0)
        return
    precision = "float64" if inputs[0].dtype in _DOUBLES else "float32"
    plan = _plan(kind, batch, units, depth, grid, length, scale, precision, forced_level())
    width = plan.kernel.width
    if units < width:
        narrow, outputs = outputs, [np.empty(_widened(a.shape, width), precision) for a in outputs]
        inputs = [padded_units(_array(a), width) for a in inputs]
    blocks = -(-max(units, width) // width)
    threads = min(threads, members * batch * units * depth // THREAD_WORK, _ALL_SCRATCH // plan.scratch)
    pointers = [*map(_pointer, inputs), *map(_pointer, outputs), plan.address]
    sizes = (batch, max(units, width), depth, blocks)
    if threads <= 1:
        plan.call(pointers, sizes, (0, members * blocks, 0, batch))
    else:
        parts = _split(members * blocks, batch, threads, kind)
        run([partial(plan.call, pointers, sizes, part) for part in parts], threads)
    if units < width:
        for small, wide in zip(narrow, outputs, strict=True):
            _array(small)[...] = wide[:, :, :units]


def _array(operand: Any) -> Array:
    array: Array = operand if isinstance(operand, np.ndarray) else operand.detach().numpy()
    return array


def _pointer(operand: Any) -> int:
    address: int = operand.ctypes.data if isinstance(operand, np.ndarray) else operand.data_ptr()
    return address


def _split(tasks: int, batch: int, threads: int, kind: str) -> list[tuple[int, int, int, int]]:
    """(first task, last task, first row, last row) of every thread; only the forward may share a task by rows."""
    pieces = max(1, min(threads, tasks))
    cuts = [tasks * k // pieces for k in range(pieces + 1)]
    if kind != "forward" or threads <= tasks:
        return [(a, b, 0, batch) for a, b in pairwise(cuts)]
    share = -(-batch // -(-threads // tasks))
    share += -share % 8
    return [(t, t + 1, row, min(row + share, batch)) for t in range(tasks) for row in range(0, batch, share)]


@dataclass(frozen=True)
class _Plan:
    """A compiled kernel with what it needs beside the arrays."""

    kernel: Kernel
    function: Any
    constants: Array
    address: int
    scratch: int

    def call(self, pointers: Sequence[int], sizes: Sequence[int], part: Sequence[int]) -> None:
        address, _owner = scratch(self.scratch)
        self.function(*pointers, address, *sizes, *part)


@lru_cache(maxsize=256)
def _plan(
    kind: str,
    batch: int,
    units: int,
    depth: int,
    grid: Grid,
    length: float,
    scale: float,
    precision: str,
    name: str | None,
) -> _Plan:
    from lln.ops.cpu.kernels import LONG, TALL, WIDE, Kernel, Shape, constants, function
    from lln.ops.cpu.simd import target

    goal, shape, size = target(name), Shape.of(grid), np.dtype(precision).itemsize
    wide = Kernel(kind, shape, WIDE, goal, False, precision)
    fits = batch < TALL.rows and units >= wide.width and size * wide.scratch(depth) <= _WIDE_SCRATCH
    keeps = kind == "backward" and not shape.far and depth <= KEPT_DEPTH
    tall = LONG if kind == "forward" and goal.lanes == 16 and batch >= LONG.rows else TALL
    kernel = Kernel(kind, shape, WIDE if fits else tall, goal, keeps, precision)
    numbers = constants(grid, length, scale, precision)
    return _Plan(kernel, function(kernel), numbers, numbers.ctypes.data, size * kernel.scratch(depth))


def _widened(shape: tuple[int, ...], width: int) -> tuple[int, ...]:
    return (*shape[:2], width, *shape[3:])


def padded_units(array: Array, width: int) -> Array:
    """Zeros behind the units, the third dimension, up to `width` of them; contiguous."""
    if array.shape[2] == width:
        return np.ascontiguousarray(array)
    out = np.zeros(_widened(array.shape, width), array.dtype)
    out[:, :, : array.shape[2]] = array
    return out


def rollout(
    networks: Networks,
    starts: Tensor,
    steps: int,
    grid: Grid,
    increments: bool = False,
    scaling: Scaling | None = None,
    threads: int = 1,
) -> Tensor:
    """As `lln.ops.rollout`, on at most `threads` threads, with the constants of the centres in `grid`."""
    from lln.ops.cpu.kernels import constants

    members, batch, size = starts.shape
    depth, width = networks.coefficients.shape[1:3]
    states = starts.new_empty(members, steps, batch, size)
    if not states.numel():
        return states
    precision = str(starts.dtype).removeprefix("torch.")
    loop, function = _compiled(grid, batch, networks.angle_weight is not None, increments, precision, forced_level())
    units = width + -width % loop.width
    padded = size + -size % loop.lanes

    def array(tensor: Tensor) -> Array:
        values: Array = tensor.detach().to(starts.dtype).contiguous().numpy()
        return values

    position = angle = _embedding(array(networks.position_weight), array(networks.position_bias), units)
    if networks.angle_weight is not None and networks.angle_bias is not None:
        angle = _embedding(array(networks.angle_weight), array(networks.angle_bias), units)
    lenses = padded_units(array(networks.coefficients), units)
    readout = padded_units(array(networks.readout_weight), units)
    rows = [] if scaling is None else [scaling.mean, scaling.deviation, scaling.factor, scaling.shift]
    table = _table(array(networks.readout_bias), [array(row) for row in rows], padded)
    numbers = constants(grid, networks.length, networks.scale, loop.precision)
    arrays = (array(starts), states.numpy(), position, angle, lenses, readout, table, numbers)
    pointers = [values.ctypes.data for values in arrays]
    sizes = (batch, size, padded, units, depth, steps)
    room = starts.itemsize * loop.scratch(units, depth, padded)

    def call(member: int, first: int, last: int) -> None:
        address, _owner = scratch(room)
        function(*pointers, address, *sizes, member, first, last)

    threads = max(1, min(threads, members * batch * width * depth * steps // THREAD_WORK))
    share = -(-batch // -(-threads // members))
    share += -share % loop.form.rows
    jobs = [
        partial(call, member, row, min(row + share, batch))
        for member in range(members)
        for row in range(0, batch, share)
    ]
    run(jobs, threads)
    return states


@lru_cache(maxsize=64)
def _compiled(
    grid: Grid, batch: int, angles: bool, increments: bool, precision: str, level: str | None
) -> tuple[Loop, Any]:
    from lln.ops.cpu.kernels import TALL, WIDE, Shape
    from lln.ops.cpu.loop import Loop, function
    from lln.ops.cpu.simd import target

    form = TALL if batch >= TALL.rows else WIDE
    loop = Loop(Shape.of(grid), form, target(level), angles, increments, precision)
    return loop, function(loop)


def _embedding(weight: Array, bias: Array, units: int) -> Array:
    """(S, 1 + n, units): bias, then the columns of the weight; zeros behind the last unit."""
    members, width, size = weight.shape
    out = np.zeros((members, 1 + size, units), weight.dtype)
    out[:, 0, :width] = bias
    out[:, 1:, :width] = weight.transpose(0, 2, 1)
    return out


def _table(bias: Array, scaling: list[Array], padded: int) -> Array:
    """The kernel's scaling, (S, 5, padded n): bias, mean, deviation, factor, shift; padding is scaled by one."""
    members, size = bias.shape
    out = np.zeros((members, 5, padded), bias.dtype)
    out[:, 2:4] = 1.0
    out[:, 0, :size] = bias
    for k, values in enumerate(scaling, start=1):
        out[:, k, :size] = values
    return out
