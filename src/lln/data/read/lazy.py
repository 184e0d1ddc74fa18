"""Rows that stay on the disk until they are asked for, whatever file they are in and however its axes are ordered."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lln.core.errors import InputError, reason
from lln.data.interpret.resample import JITTER, REMEDY, nice
from lln.data.series import Rows, Series
from lln.data.trajectory import Array

LAZY_BYTES = 1 << 28  # arrays beyond this stay on the disk
TIMES = 1 << 20  # looked at together


def size_of(shape: Sequence[int], dtype: Any) -> int:
    """Bytes of an array; a Python integer, which a shape out of a damaged header cannot overflow."""
    return math.prod(int(length) for length in shape) * int(np.dtype(dtype).itemsize)


def stays_on_disk(array: Any) -> bool:
    """Whether `array` is too large to be read at once."""
    return size_of(array.shape, array.dtype) > LAZY_BYTES


def refuse_beyond_memory(size: int, source: str) -> None:
    """Refuse to read `size` bytes at once where the machine has not got them."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if size > memory:
        raise InputError(
            f"{source}: says it holds {size / 1e9:.3g} GB, more than the memory of this machine; if that is true, "
            "convert it to HDF5 or Zarr, which are read a part at a time"
        )


@dataclass(eq=False)
class LazyRows:
    """States (time, n) made of one or more variables of a file, a block of rows at a time.

    Attributes:
        opened: returns the variables by name; called again in another process, since handles do not travel.
        variables: names of the variables in the order of the columns.
        axes: axes of a variable that remain, time first, then those of the columns in their order.
        fixed: index to hold on the other axis, as in the trajectory's number, by axis.
        shape: (time, n).
        dtype: kind of number of what is returned.
    """

    opened: Callable[[], Mapping[str, Any]]
    variables: tuple[str, ...]
    axes: tuple[int, ...]
    fixed: Mapping[int, int]
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    _handles: dict[int, Mapping[str, Any]] = field(default_factory=dict, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_handles": {}}

    def __getitem__(self, rows: slice, /) -> NDArray[Any]:
        begin, end, _ = rows.indices(self.shape[0])
        source = self._source()
        remaining = sorted(self.axes)
        parts = []
        for name in self.variables:
            array = source[name]
            key: list[Any] = [slice(None)] * len(array.shape)
            for axis, index in self.fixed.items():
                key[axis] = index
            key[self.axes[0]] = slice(begin, end)
            try:
                block = np.asarray(array[tuple(key)])
            except Exception as error:  # every library has its own for a damaged chunk
                raise InputError(
                    f"{name}: rows {begin} to {end - 1} cannot be read ({reason(error)}); is it whole?"
                ) from error
            order = [remaining.index(axis) for axis in self.axes]
            parts.append(block.transpose(order).reshape(end - begin, -1))
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)

    def _source(self) -> Mapping[str, Any]:
        # A handle that a parent process opened shares its file position, so each process opens its own.
        here = os.getpid()
        if here not in self._handles:
            self._handles = {here: self.opened()}
        return self._handles[here]


@dataclass(frozen=True, eq=False)
class Held:
    """Open arrays that the caller handed over, by name."""

    arrays: Mapping[str, Any]

    def __call__(self) -> Mapping[str, Any]:
        """The arrays."""
        return self.arrays


def stacked_rows(x: Any, source: str) -> tuple[list[Any], int]:
    """Each trajectory of an array on the disk, (time, n) or (trajectories, time, n)."""
    if isinstance(x, LazyRows):
        return [x], 2
    shape = tuple(int(length) for length in x.shape)
    if len(shape) not in (2, 3):
        raise InputError(f"{source}: states must have shape (time, n) or (trajectories, time, n), got {shape}")
    held, kind, rows = Held({"states": x}), np.dtype(x.dtype), (shape[-2], shape[-1])
    if len(shape) == 2:
        return [LazyRows(held, ("states",), (0, 1), {}, rows, kind)], 2
    return [LazyRows(held, ("states",), (1, 2), {0: i}, rows, kind) for i in range(shape[0])], 3


def timed_rows(
    times: Any,
    states: Array | Rows,
    inputs: Array | Rows | None,
    weights: Array | None,
    name: str,
    dt: float | None,
) -> tuple[list[Series], float, list[str]]:
    """Rows on the disk cut where time jumps or goes back; the times are read a part at a time.

    Returns:
        The stretches, their step, and notes.
    """
    rows = int(states.shape[0])
    head = np.asarray(times[: min(rows, TIMES)], dtype=np.float64)
    precision = float(np.finfo(times.dtype).eps) if np.dtype(times.dtype).kind == "f" else 0.0
    if rows == 1:
        return [Series(states, inputs, weights, name, float(head[0]))], dt or 1.0, []
    middle = float(np.median(np.diff(head)))
    end = float(np.asarray(times[rows - 1 : rows], dtype=np.float64)[0])
    slack = 4 * precision * max(abs(float(head[0])), abs(end))
    mean = (end - float(head[0])) / (rows - 1)
    step = mean if abs(mean - middle) <= JITTER * middle + slack else middle
    if not step > 0:
        raise InputError(f"{name}: times do not rise; name the variable that is time with time=")
    edges, before = [0], float(head[0]) - step
    for first in range(0, rows, TIMES):
        part = np.asarray(times[first : min(first + TIMES, rows)], dtype=np.float64)
        steps = np.diff(part, prepend=before)
        jumps = np.abs(steps - step) > JITTER * step + slack
        holes = steps[jumps & (steps > 0)]
        if not np.isfinite(part).all() or (np.abs(holes / step - np.round(holes / step)) > JITTER + slack / step).any():
            raise InputError(
                f"{name}: unevenly sampled, or times are missing, between rows {first} and "
                f"{first + len(part) - 1}; {REMEDY}",
                topic="uneven",
            )
        edges += (np.flatnonzero(jumps) + first).tolist()
        before = float(part[-1])
    edges = [*dict.fromkeys(edges), rows]
    if len(edges) > 2 + rows // 2:
        raise InputError(f"{name}: time jumps at {len(edges) - 2} of {rows} rows; {REMEDY}", topic="uneven")
    whole = Series(states, inputs, weights, name)
    parts = []
    for a, b in pairwise(edges):
        piece = whole if (a, b) == (0, rows) else whole.cut(a, b)
        begin = float(np.asarray(times[a : a + 1], dtype=np.float64)[0])
        parts.append(Series(piece.states, piece.inputs, piece.weights, name, begin))
    notes = [f"{name}: cut at {len(parts) - 1} jumps in time"] if len(parts) > 1 else []
    found = nice(step, max(slack / rows, 1e-9 * step), float(head[1] - head[0]))
    if dt is not None and abs(dt - found) > 1e-3 * found:
        raise InputError(f"{name}: dt = {dt:g} was given but the times are {found:g} apart; leave dt out")
    return parts, dt or found, notes
