"""Closed-loop rollouts on the CPU: all steps of all starts and members in one call."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from lln.ops.cpu.backend import THREAD_WORK, Array, constants, forced_level, padded_units, run, scratch
from lln.ops.grid import Grid

if TYPE_CHECKING:
    from lln.ops.cpu.loop import Loop
    from lln.ops.rollout import Networks, Scaling


def rollout(
    networks: Networks,
    starts: Tensor,
    steps: int,
    grid: Grid,
    increments: bool = False,
    scaling: Scaling | None = None,
    threads: int = 1,
) -> Tensor:
    """As `lln.ops.rollout`, on at most so many threads, with the constants of the centres in `grid`."""
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
    from lln.ops.cpu.kernels import TALL, WIDE
    from lln.ops.cpu.lens import Shape
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
