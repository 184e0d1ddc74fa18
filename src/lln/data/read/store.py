"""What readers return: variables with axes and attributes, or a table; rows that stay on disk; npy and npz files."""

from __future__ import annotations

import io
import math
import os
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lln.core.errors import InputError, available, reason

CLAIMED_RATIO = 2000  # largest ratio of claimed to stored bytes that is accepted
CLAIMED_ALWAYS = 1 << 24  # bytes that any file may claim
LAZY_BYTES = 1 << 28  # arrays beyond this stay on the disk


@dataclass(frozen=True, eq=False)
class Variable:
    """An array in a file."""

    array: Any  #: object with shape, dtype and slicing
    dims: tuple[str, ...] | None = None  #: names of its axes, None where the file does not name them
    attrs: Mapping[str, Any] = field(default_factory=dict)  #: attributes, such as units
    coordinate: bool = False  #: True for a variable that only locates the others

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each axis."""
        return tuple(map(int, self.array.shape))

    @property
    def sizes(self) -> dict[str, int]:
        """Length of each axis by its name; empty where the file does not name them."""
        return dict(zip(self.dims or (), self.shape, strict=False))

    @property
    def numeric(self) -> bool:
        """Whether it holds real numbers."""
        return np.dtype(self.array.dtype).kind in "fiu"


@dataclass(frozen=True, eq=False)
class Store:
    """The variables of one file or xarray object, by name."""

    source: str  #: name for messages
    variables: Mapping[str, Variable]  #: by name
    attrs: Mapping[str, Any]  #: attributes of the file
    #: function that opens the file again and returns its arrays by name, for rows that are read later
    reopen: Callable[[], Mapping[str, Any]]
    notes: tuple[str, ...] = ()  #: sentences for the user

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
    """A table before its columns have roles."""

    frame: Any  #: a DataFrame, or a Series of pandas
    source: str = "frame"  #: name for messages
    headed: bool = True  #: whether the columns have names of their own
    first_row: int = 0  #: number of the first row in messages
    row_numbers: str | None = None  #: name of a column that only counts the rows
    notes: tuple[str, ...] = ()  #: sentences for the user
    point: str = ""  #: decimal mark of numbers in text; empty where it is not known


def held(arrays: Mapping[str, Any]) -> Callable[[], Mapping[str, Any]]:
    """The `reopen` of a store that needs none: its arrays are in memory, or open in this process."""
    return partial(dict, arrays)


def open_store(source: str, variables: Mapping[str, Variable], attrs: Mapping[str, Any] | None = None) -> Store:
    """Make a store of arrays that are in memory or open in this process."""
    return Store(source, variables, attrs or {}, held({name: one.array for name, one in variables.items()}))


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
    """States (time, n) made of one or more variables of a file, a block of rows at a time."""

    #: returns the variables by name; called again in another process, since handles do not travel
    reopen: Callable[[], Mapping[str, Any]]
    variables: tuple[str, ...]  #: names of the variables in the order of the columns
    axes: tuple[int, ...]  #: axes of a variable that remain, time first, then those of the columns in their order
    fixed: Mapping[int, int]  #: index to hold on the other axis, as in the trajectory's number, by axis
    shape: tuple[int, int]  #: (time, n)
    dtype: np.dtype[Any]  #: kind of number of what is returned
    _handles: dict[int, Mapping[str, Any]] = field(default_factory=dict, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_handles": {}}

    def __getitem__(self, rows: slice, /) -> NDArray[Any]:
        begin, end, _ = rows.indices(self.shape[0])
        here, remaining = os.getpid(), sorted(self.axes)
        if here not in self._handles:  # a handle that a parent process opened shares its file position
            self._handles = {here: self.reopen()}
        parts = []
        for name in self.variables:
            array = self._handles[here][name]
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


HEADER = 10_000  # bytes of an npy header at most; it is parsed as Python text
ZIP_MAGIC, NPY_MAGIC = b"PK", b"\x93NUMPY"


@dataclass(frozen=True, eq=False)
class FileRows:
    """A C-ordered array in a file, read by rows.

    It is not memory-mapped: a file that is truncated while it is in use would end the process.
    """

    path: Path  #: the file
    offset: int  #: byte at which the array begins
    shape: tuple[int, ...]  #: of the array
    dtype: np.dtype[Any]  #: of the array

    def __getitem__(self, key: Any, /) -> NDArray[Any]:
        """Return the part that slices and integers select; rows along the first sliced axis are read at once."""
        keys = key if isinstance(key, tuple) else () if key is ... else (key,)
        lead = next((i for i, one in enumerate(keys) if isinstance(one, slice)), len(keys))
        shape = self.shape[lead:]
        index = int(np.ravel_multi_index(keys[:lead], self.shape[:lead])) if lead else 0
        first, last, _ = (keys[lead] if lead < len(keys) else slice(None)).indices(shape[0])
        row = int(np.prod(shape[1:], dtype=np.int64))
        count = max(0, last - first) * row
        begin = self.offset + (index * shape[0] + first) * row * self.dtype.itemsize
        values = np.fromfile(self.path, self.dtype, count, offset=begin) if count else np.empty(0, self.dtype)
        if len(values) != count:
            raise InputError(f"{self.path}: was cut short while it was in use; write or copy it again")
        return values.reshape(-1, *shape[1:])[(slice(None), *keys[lead + 1 :])]


def open_npy(path: Path) -> Store:
    """Open one array; a large one stays in the file."""
    with path.open("rb") as file:
        shape, dtype, fortran, begin = _header(file, str(path))
    size = size_of(shape, dtype)
    if begin + size > path.stat().st_size:
        raise InputError(
            f"{path}: its header says {shape} of {dtype}, {size:,} bytes, but only {path.stat().st_size - begin:,} "
            "follow; it was cut short or is damaged, so write it again"
        )
    if size > LAZY_BYTES and dtype.kind in "fiu" and not fortran:
        return open_store(str(path), {"states": Variable(FileRows(path, begin, shape, dtype))})
    check_memory(size, str(path))
    with path.open("rb") as file:
        return open_store(str(path), {"states": Variable(np.lib.format.read_array(file, allow_pickle=False))})


def open_npz(path: Path) -> Store:
    """Open every array of a zip of npy files."""
    arrays: dict[str, Variable] = {}
    with zipfile.ZipFile(path) as archive:
        members = [one for one in archive.infolist() if one.filename.endswith(".npy")]
        total = 0
        for member in members:  # counted before the first is read
            name = member.filename.removesuffix(".npy")
            with archive.open(member) as file:
                shape, dtype, _, _ = _header(file, f"{path}: array {name!r}")
            size = size_of(shape, dtype)
            total += size
            check_memory(total, str(path))
            if size > member.file_size or size > CLAIMED_RATIO * path.stat().st_size + CLAIMED_ALWAYS:
                raise InputError(
                    f"{path}: the header of array {name!r} says {shape} of {dtype}, more than the file holds; it is "
                    "damaged, so write it again"
                )
        for member in members:
            with archive.open(member) as file:
                values = np.lib.format.read_array(file, allow_pickle=False)
                arrays[member.filename.removesuffix(".npy")] = Variable(values)
    return open_store(str(path), arrays)


def _header(file: Any, source: str) -> tuple[tuple[int, ...], np.dtype[Any], bool, int]:
    """Shape, dtype, whether columns come first, and the byte at which the numbers begin."""
    # Parsed in memory: a file object would allocate whatever length the header claims.
    start = io.BytesIO(file.read(HEADER + 16))
    version = np.lib.format.read_magic(start)
    if version not in ((1, 0), (2, 0), (3, 0)):
        raise InputError(f"{source}: npy data of the unknown version {version}; it is damaged, so write it again")
    reader = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = reader(start, max_header_size=HEADER)
    if dtype.hasobject:
        raise InputError(f"{source}: holds Python objects, which could run code when read; save numbers instead")
    if dtype.names:
        raise InputError(f"{source}: holds records with fields {list(dtype.names)}; save a plain array (time, n)")
    if any(length < 0 for length in shape):
        raise InputError(f"{source}: its header gives the shape {shape}; it is damaged, so write it again")
    return shape, dtype, bool(fortran), start.tell()
