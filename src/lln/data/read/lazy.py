"""Rows that stay on the disk until they are needed, for every file and every order of axes."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lln.core.errors import InputError, reason
from lln.core.memory import available
from lln.data.read.store import CLAIMED_ALWAYS, Held, size_of

LAZY_BYTES = 1 << 28  # arrays beyond this stay on the disk


def stays_on_disk(*arrays: Any) -> bool:
    """Whether arrays are too large to be read at once."""
    return sum(size_of(array.shape, array.dtype) for array in arrays) > LAZY_BYTES


def check_memory(size: int, source: str) -> None:
    """Refuse to read `size` bytes at once where less memory is free."""
    if size > CLAIMED_ALWAYS and size > available():
        raise InputError(
            f"{source}: holds {size / 1e9:.3g} GB, more than the free memory of this machine; if that is right, "
            "convert it to HDF5 or Zarr, which are read a part at a time"
        )


@dataclass(eq=False)
class LazyRows:
    """States (time, n) made of one or more variables of a file, a block of rows at a time.

    Attributes:
        reopen: returns the variables by name; called again in another process, since handles do not travel.
        variables: names of the variables in the order of the columns.
        axes: axes of a variable that remain, time first, then those of the columns in their order.
        fixed: index to hold on the other axis, as in the trajectory's number, by axis.
        shape: (time, n).
        dtype: kind of number of what is returned.
    """

    reopen: Callable[[], Mapping[str, Any]]
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
            except InputError:
                raise
            except Exception as error:  # each library raises its own errors for a damaged chunk
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
            self._handles = {here: self.reopen()}
        return self._handles[here]


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
