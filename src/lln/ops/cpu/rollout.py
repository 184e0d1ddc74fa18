"""Closed-loop rollouts on the CPU, for NumPy arrays: all steps of all starts and members in one call."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from lln.ops.cpu.backend import Array, constants, forced_level
from lln.ops.cpu.threads import run, scratch
from lln.ops.grid import Grid

if TYPE_CHECKING:
    from lln.ops.cpu.loop import Loop

# Below this many (element, layer) pairs a second thread costs more than it saves.
_THREAD_WORK = 100_000


@dataclass(frozen=True)
class Network:
    """The parameters of S lens networks from n components to n, stacked along the first dimension.

    Attributes:
        position_weight: W_y, (S, h, n).
        position_bias: b_y, (S, h).
        angle_weight: W_theta, (S, h, n); None starts all angles at zero.
        angle_bias: b_theta, (S, h); None with `angle_weight`.
        coefficients: (S, D, h, K).
        readout_weight: W_o, (S, n, h).
        readout_bias: b_o, (S, n).
    """

    position_weight: Array
    position_bias: Array
    angle_weight: Array | None
    angle_bias: Array | None
    coefficients: Array
    readout_weight: Array
    readout_bias: Array


@dataclass(frozen=True)
class Scaling:
    """What surrounds the network: it sees (x - mean) / deviation and its output counts as out * factor + shift.

    Each is (n,) or (S, n).
    """

    mean: Array
    deviation: Array
    factor: Array
    shift: Array


def rollout(
    network: Network,
    starts: Array,
    steps: int,
    grid: Grid,
    length: float,
    scale: float,
    *,
    increments: bool = False,
    scaling: Scaling | None = None,
    threads: int = 1,
) -> Array:
    """Feed every output back as the next input.

    Args:
        network: the parameters.
        starts: (S, B, n).
        steps: how many.
        grid: constants of the centres.
        length: propagation distance L of one layer.
        scale: lens scale s.
        increments: whether the output is added to the state instead of replacing it.
        scaling: units of input and output; None leaves them alone.
        threads: at most this many.

    Returns:
        The states after every step, (S, steps, B, n).
    """
    members, batch, size = starts.shape
    depth, width = network.coefficients.shape[1:3]
    states = np.empty((members, steps, batch, size), starts.dtype)
    if not states.size:
        return states
    loop, function = _compiled(
        grid, batch, network.angle_weight is not None, increments, str(starts.dtype), forced_level()
    )
    units = width + -width % loop.width
    padded = size + -size % loop.lanes
    position = _embedding(network.position_weight, network.position_bias, units)
    angle = position
    if network.angle_weight is not None and network.angle_bias is not None:
        angle = _embedding(network.angle_weight, network.angle_bias, units)
    lenses = _padded(network.coefficients, 2, units)
    readout = _padded(network.readout_weight, 2, units)
    arrays = (np.ascontiguousarray(starts), states, position, angle, lenses, readout)
    table = _table(network.readout_bias, scaling, padded)
    numbers = constants(grid, length, scale, loop.precision)
    pointers = [array.ctypes.data for array in (*arrays, table, numbers)]
    sizes = (batch, size, padded, units, depth, steps)
    room = starts.itemsize * loop.scratch(units, depth, padded)

    def call(member: int, first: int, last: int) -> None:
        address, _owner = scratch(room)
        function(*pointers, address, *sizes, member, first, last)

    threads = max(1, min(threads, members * batch * width * depth * steps // _THREAD_WORK))
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
    from lln.ops.cpu.compile import target
    from lln.ops.cpu.kernels import TALL, WIDE
    from lln.ops.cpu.lens import Shape
    from lln.ops.cpu.loop import Loop

    form = TALL if batch >= TALL.rows else WIDE
    loop = Loop(Shape.of(grid), form, target(level), angles, increments, precision)
    return loop, _function(loop)


@lru_cache(maxsize=64)
def _function(loop: Loop) -> Any:
    from lln.ops.cpu.compile import compiled, signature
    from lln.ops.cpu.loop import POINTERS, SIZES, emit

    return compiled(emit(loop, "lln_rollout"), "lln_rollout", loop.target, signature(len(POINTERS), len(SIZES)))


def _embedding(weight: Array, bias: Array, units: int) -> Array:
    """(S, 1 + n, units): bias, then the columns of the weight; zeros behind the last unit."""
    members, width, size = weight.shape
    out = np.zeros((members, 1 + size, units), weight.dtype)
    out[:, 0, :width] = bias
    out[:, 1:, :width] = weight.transpose(0, 2, 1)
    return out


def _padded(array: Array, axis: int, units: int) -> Array:
    if array.shape[axis] == units:
        return np.ascontiguousarray(array)
    out = np.zeros((*array.shape[:axis], units, *array.shape[axis + 1 :]), array.dtype)
    out[(slice(None),) * axis + (slice(array.shape[axis]),)] = array
    return out


def _table(bias: Array, scaling: Scaling | None, padded: int) -> Array:
    """The rows of `cpu_loop`'s scaling; padding is scaled by one."""
    members, size = bias.shape
    out = np.zeros((members, 5, padded), bias.dtype)
    out[:, 2:4] = 1.0
    out[:, 0, :size] = bias
    if scaling is not None:
        for k, values in enumerate((scaling.mean, scaling.deviation, scaling.factor, scaling.shift), start=1):
            out[:, k, :size] = values
    return out
