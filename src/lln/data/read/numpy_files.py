"""npy and npz files as stores; each header is checked before memory is taken, and nothing is unpickled."""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lln.core.errors import InputError
from lln.data.read import store as lazy
from lln.data.read.store import CLAIMED_ALWAYS, CLAIMED_RATIO, Store, Variable, open_store, size_of

HEADER = 10_000  # bytes of an npy header at most; it is parsed as Python text
ZIP_MAGIC, NPY_MAGIC = b"PK", b"\x93NUMPY"


@dataclass(frozen=True, eq=False)
class FileRows:
    """A C-ordered array in a file, read by rows.

    It is not memory-mapped: a file that is truncated while it is in use would end the process.

    Attributes:
        path: the file.
        offset: byte at which the array begins.
        shape: of the array.
        dtype: of the array.
    """

    path: Path
    offset: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def __getitem__(self, key: Any, /) -> NDArray[Any]:
        """Return the part that slices and integers select; rows along the first sliced axis are read at once."""
        keys = key if isinstance(key, tuple) else () if key is ... else (key,)
        lead = 0
        while lead < len(keys) and not isinstance(keys[lead], slice):
            lead += 1
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
    if size > lazy.LAZY_BYTES and dtype.kind in "fiu" and not fortran:
        return open_store(str(path), {"states": Variable(FileRows(path, begin, shape, dtype))})
    lazy.check_memory(size, str(path))
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
            lazy.check_memory(total, str(path))
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
