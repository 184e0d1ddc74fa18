"""What readers return: named variables with axes and attributes, or a table; rows that stay on disk until needed."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lln.core.errors import InputError, available, reason

CLAIMED_RATIO = 2000  # largest ratio of claimed to stored bytes that is believed
CLAIMED_ALWAYS = 1 << 24  # bytes that any file may claim
LAZY_BYTES = 1 << 28  # arrays beyond this stay on the disk


@dataclass(frozen=True, eq=False)
class Variable:
    """An array in a file.

    Attributes:
        array: object with shape, dtype and slicing.
        dims: names of its axes, None where the file does not name them.
        attrs: attributes, such as units.
        coordinate: True for a variable that only locates the others.
    """

    array: Any
    dims: tuple[str, ...] | None = None
    attrs: Mapping[str, Any] = field(default_factory=dict)
    coordinate: bool = False

    @property
    def numeric(self) -> bool:
        """Whether it holds real numbers."""
        return np.dtype(self.array.dtype).kind in "fiu"


@dataclass(frozen=True, eq=False)
class Store:
    """The variables of one file or xarray object, by name.

    Attributes:
        source: name for messages.
        variables: by name.
        attrs: attributes of the file.
        reopen: function that opens the file again and returns its arrays by name, for rows that are read later.
        notes: sentences for the user.
    """

    source: str
    variables: Mapping[str, Variable]
    attrs: Mapping[str, Any]
    reopen: Callable[[], Mapping[str, Any]]
    notes: tuple[str, ...] = ()

    def read(self, name: str) -> NDArray[Any]:
        """Read a variable completely."""
        try:
            return np.asarray(self.variables[name].array[...])
        except Exception as error:  # each library raises its own errors for a damaged chunk
            raise InputError(
                f"{self.source}: variable {name!r} cannot be read ({reason(error)}); the file was cut short or "
                "is damaged"
            ) from error


@dataclass(frozen=True, eq=False)
class ReadTable:
    """A table before its columns have roles.

    Attributes:
        frame: a DataFrame, or a Series of pandas.
        source: name for messages.
        headed: whether the columns have names of their own.
        first_row: number of the first row in messages.
        row_numbers: name of a column that only counts the rows.
        notes: sentences for the user.
    """

    frame: Any
    source: str = "frame"
    headed: bool = True
    first_row: int = 0
    row_numbers: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Held:
    """Arrays in memory or open arrays of the caller, by name; the `reopen` of a store that needs none."""

    arrays: Mapping[str, Any]

    def __call__(self) -> Mapping[str, Any]:
        """Return the arrays."""
        return self.arrays


def open_store(source: str, variables: Mapping[str, Variable], attrs: Mapping[str, Any] | None = None) -> Store:
    """Make a store of arrays that are in memory or open in this process."""
    return Store(source, variables, attrs or {}, Held({name: one.array for name, one in variables.items()}))


def xarray_store(data: Any, source: str) -> Store:
    """Make a store of an xarray.Dataset; arrays of Dask stay lazy."""
    variables = {
        str(name): Variable(one, tuple(map(str, one.dims)), dict(one.attrs), name in data.coords)
        for name, one in data.variables.items()
    }
    return open_store(source, variables, dict(data.attrs))


def size_of(shape: Sequence[int], dtype: Any) -> int:
    """Count the bytes of an array as a Python integer, which a shape from a damaged header cannot overflow."""
    return math.prod(int(length) for length in shape) * int(np.dtype(dtype).itemsize)


def check_claimed_size(arrays: Mapping[str, Any], stored: int, source: str) -> None:
    """Refuse shapes that a file of `stored` bytes cannot fill: reading them would take unlimited time and memory."""
    for name, array in arrays.items():
        if np.dtype(array.dtype).hasobject:
            continue
        if size_of(array.shape, array.dtype) > CLAIMED_RATIO * stored + CLAIMED_ALWAYS:
            raise InputError(
                f"{source}: array {name!r} claims the shape {tuple(array.shape)}, which a file of {stored:,} bytes "
                "cannot hold; it is damaged or was never filled, so write it again"
            )


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
                    f"{name}: rows {begin} to {end - 1} cannot be read ({reason(error)}); is the file complete?"
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
