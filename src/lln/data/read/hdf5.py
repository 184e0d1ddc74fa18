"""HDF5 and NetCDF files as stores. These functions run in the sandbox worker."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from lln.core.errors import InputError
from lln.data.read import store as lazy
from lln.data.read.decode import decode, plain
from lln.data.read.store import Store, Variable, check_claimed_size, open_store, xarray_store

HEAPS = 1 << 26  # bytes at the start of an HDF5 file in which its texts are looked for
KEPT = ("units", "standard_name", "calendar")  # attributes of a variable that are used
TEXTS = 100_000  # largest number of texts that is read
DEPTH = 8  # of nested groups
HDF5_MAGIC, NETCDF3_MAGIC = b"\x89HDF\r\n\x1a\n", b"CDF"


def open_hdf5(path: Path) -> Store:
    """Open every dataset of an HDF5 or NetCDF-4 file, in groups by path, decoded by its CF attributes."""
    import h5py

    _check_heaps(path)
    file = h5py.File(path, "r")
    arrays = _arrays(file)
    located = " ".join(str(plain(array.attrs.get("coordinates", ""))) for array in arrays.values()).split()
    variables = {name: _variable(name, array, located, str(path)) for name, array in arrays.items()}
    check_claimed_size({name: one.array for name, one in variables.items()}, path.stat().st_size, str(path))
    attrs = {key: plain(file.attrs[key]) for key in file.attrs}
    return open_store(str(path), variables, attrs)


def open_netcdf(path: Path) -> Store:
    """Open the variables of a NetCDF-4 file, which is HDF5, or of a NetCDF-3 file."""
    with path.open("rb") as file:
        start = file.read(8)
    if start.startswith(HDF5_MAGIC):
        return open_hdf5(path)
    if not start.startswith(NETCDF3_MAGIC):
        raise InputError(f"{path}: not a NetCDF file; give it the suffix of what it is, or write it again")
    data = _netcdf3(path)
    check_claimed_size(data.variables, path.stat().st_size, str(path))
    return xarray_store(data, str(path))


def _check_heaps(path: Path) -> None:
    """Refuse a heap of texts whose free space has length zero: the HDF5 library would loop over it forever."""
    with path.open("rb") as file:
        start = file.read(HEAPS)
    at = -1
    while (at := start.find(b"GCOL\1\0\0\0", at + 1)) >= 0:
        here, end = at + 16, min(at + int.from_bytes(start[at + 8 : at + 16], "little"), len(start))
        while here + 16 <= end:
            index, size = start[here : here + 2], int.from_bytes(start[here + 8 : here + 16], "little")
            if index == b"\0\0":
                if size == 0:
                    raise InputError(f"{path}: HDF5 data that is damaged at byte {here}; write or copy it again")
                break
            here += 16 + (size + 7) // 8 * 8


def _arrays(group: Any, prefix: str = "", seen: set[Any] | None = None) -> dict[str, Any]:
    """Datasets that are stored in the file itself: links may lead elsewhere or in circles."""
    import h5py

    seen = set() if seen is None else seen
    found: dict[str, Any] = {}
    for key in group:
        if not isinstance(group.get(key, getlink=True), h5py.HardLink):
            continue
        item = group[key]
        if isinstance(item, h5py.Dataset) and item.shape is not None and not (item.external or item.is_virtual):
            if not str(plain(item.attrs.get("NAME", ""))).startswith("This is a netCDF dimension but not"):
                found[prefix + key] = item
        elif isinstance(item, h5py.Group) and prefix.count("/") < DEPTH and item.id not in seen:
            seen.add(item.id)
            found |= _arrays(item, f"{prefix}{key}/", seen)
    return found


def _variable(name: str, array: Any, located: list[str], source: str) -> Variable:
    import h5py

    scale = str(plain(array.attrs.get("CLASS"))) == "DIMENSION_SCALE"
    dims = [str(array.name).rpartition("/")[2]] if scale and len(array.shape) == 1 else _dims(array)
    known = tuple(dims) if dims and all(dims) and len(dims) == len(array.shape) else None
    if array.dtype.hasobject:
        few = h5py.check_string_dtype(array.dtype) is not None and array.size < TEXTS  # others: ragged, or references
        return Variable(np.asarray(array.asstr()[...] if few else np.empty(0, dtype=object)), known, {}, True)
    attrs = {key: plain(array.attrs[key]) for key in array.attrs if key not in ("DIMENSION_LIST", "REFERENCE_LIST")}
    kept = {key: str(attrs[key]) for key in KEPT if key in attrs}
    return Variable(decode(name, array, attrs, source), known, kept, scale or name in located)


def _dims(array: Any) -> list[str]:
    """Names of the axes: the labels, or the scales that belong to them.

    They are read from the attributes, which is faster than the library's own functions for scales.
    """
    if "DIMENSION_LABELS" in array.attrs:
        labels = [str(plain(label)) for label in np.asarray(array.attrs["DIMENSION_LABELS"]).reshape(-1)]
        if all(labels):
            return labels
    lists = array.attrs.get("DIMENSION_LIST")
    if lists is None or np.asarray(lists).dtype != object:  # not the references that it should hold
        return []
    first = [refs[0] if len(refs) else None for refs in lists]
    return ["" if ref is None else str(array.file[ref].name).rpartition("/")[2] for ref in first]


def _netcdf3(path: Path) -> Any:
    import xarray

    # A small file is read first: the library would allocate whatever length the file claims for a name.
    small = path.stat().st_size <= lazy.LAZY_BYTES
    source = io.BytesIO(path.read_bytes()) if small else path
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return xarray.open_dataset(source, engine="scipy", decode_times=False, decode_timedelta=False)
