"""Files as named variables: npz, npy, HDF5, NetCDF and Zarr opened so that nothing is read before it is asked for."""

from __future__ import annotations

import io
import os
import warnings
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lln.core.errors import InputError, reason
from lln.data.read.lazy import LAZY_BYTES, Held, refuse_beyond_memory, size_of

HEADER = 10_000  # bytes of an npy header at most; it is parsed as Python text
PACKED = 2000  # times smaller than its content that a file may be, beyond which its header is not believed
ALLOWED = 1 << 24  # bytes that any file may claim
HEAPS = 1 << 26  # bytes at the start of an HDF5 file in which its texts are looked for
MISSING_CHUNKS = 100  # times more chunks than files that Zarr data may claim
KEPT = ("units", "standard_name")  # what is looked at of the attributes of a variable
HDF5_MAGIC, NETCDF3_MAGIC, ZIP_MAGIC, NPY_MAGIC = b"\x89HDF\r\n\x1a\n", b"CDF", b"PK", b"\x93NUMPY"


@dataclass(frozen=True, eq=False)
class Variable:
    """An array in a file.

    Attributes:
        array: has shape, dtype and slicing.
        dims: names of its axes where the file tells them.
        attrs: what the file says of it.
        coordinate: whether it only says where the others are.
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
    """The variables of one file, by name.

    Attributes:
        source: for messages.
        variables: by name.
        attrs: of the file.
        opened: opens the file again and returns its arrays by name, for rows that are read later.
    """

    source: str
    variables: Mapping[str, Variable]
    attrs: Mapping[str, Any]
    opened: Callable[[], Mapping[str, Any]]

    def read(self, name: str) -> NDArray[Any]:
        """The whole of a variable."""
        try:
            return np.asarray(self.variables[name].array[...])
        except Exception as error:  # every library has its own for a damaged chunk
            raise InputError(
                f"{self.source}: variable {name!r} cannot be read ({reason(error)}); the file was cut short or "
                "is damaged"
            ) from error


def open_npy(path: Path) -> Store:
    """One array; large ones are mapped rather than read."""
    with path.open("rb") as file:
        shape, dtype, fortran, begin = _npy_header(file, str(path))
    size = size_of(shape, dtype)
    if begin + size > path.stat().st_size:
        raise InputError(
            f"{path}: its header says {shape} of {dtype}, {size:,} bytes, but only {path.stat().st_size - begin:,} "
            "follow; it was cut short or is damaged, so write it again"
        )
    if size > LAZY_BYTES and dtype.kind in "fiu" and not fortran:
        opened = partial(_mapped, path)
        return Store(str(path), {"states": Variable(opened()["states"])}, {}, opened)
    with path.open("rb") as file:
        array = np.lib.format.read_array(file, allow_pickle=False)
    return _held(path, {"states": array})


def _mapped(path: Path) -> Mapping[str, Any]:
    return {"states": np.load(path, mmap_mode="r", allow_pickle=False)}


def open_npz(path: Path) -> Store:
    """Every array of a zip of npy files, each checked against its header before memory is taken."""
    arrays: dict[str, NDArray[Any]] = {}
    total = 0
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            name = member.filename.removesuffix(".npy")
            if name == member.filename:
                continue
            with archive.open(member) as file:
                shape, dtype, _, _ = _npy_header(file, f"{path}: array {name!r}")
            size = size_of(shape, dtype)
            total += size
            refuse_beyond_memory(total, str(path))
            if size > member.file_size or size > PACKED * path.stat().st_size + ALLOWED:
                raise InputError(
                    f"{path}: the header of array {name!r} says {shape} of {dtype}, more than the file holds; it is "
                    "damaged, so write it again"
                )
            with archive.open(member) as file:
                arrays[name] = np.lib.format.read_array(file, allow_pickle=False)
    return _held(path, arrays)


def _npy_header(file: Any, source: str) -> tuple[tuple[int, ...], np.dtype[Any], bool, int]:
    """Shape, dtype, whether columns come first, and where the numbers begin."""
    # From memory: asked for a header of gigabytes, a file would first make room for them.
    start = io.BytesIO(file.read(HEADER + 16))
    version = np.lib.format.read_magic(start)
    if version not in ((1, 0), (2, 0), (3, 0)):
        raise InputError(
            f"{source}: npy data of version {version}, which is not known; it is damaged, so write it again"
        )
    reader = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = reader(start, max_header_size=HEADER)
    if dtype.hasobject:
        raise InputError(f"{source}: holds Python objects, which could run code when read; save numbers instead")
    if dtype.names:
        raise InputError(f"{source}: holds records with fields {list(dtype.names)}; save a plain array (time, n)")
    if any(length < 0 for length in shape):
        raise InputError(f"{source}: its header gives the shape {shape}; it is damaged, so write it again")
    return shape, dtype, bool(fortran), start.tell()


def _held(path: Path, arrays: Mapping[str, NDArray[Any]]) -> Store:
    return Store(str(path), {name: Variable(array) for name, array in arrays.items()}, {}, Held(arrays))


def open_hdf5(path: Path) -> Store:
    """Every dataset of an HDF5 or NetCDF-4 file, in groups by path; masked and scaled where the file says so.

    Times stay numbers in the file's units.
    """
    import h5py

    _refuse_endless(path)
    file = h5py.File(path, "r")
    arrays = _hdf5_arrays(file)
    variables = {name: _hdf5_variable(array) for name, array in arrays.items()}
    _believable({name: one.array for name, one in variables.items()}, path.stat().st_size, str(path))
    said = " ".join(str(plain(array.attrs.get("coordinates", ""))) for array in arrays.values()).split()
    variables = {name: replace(one, coordinate=one.coordinate or name in said) for name, one in variables.items()}
    attrs = {key: plain(file.attrs[key]) for key in file.attrs}
    return Store(str(path), variables, attrs, partial(_hdf5_opened, path))


def _refuse_endless(path: Path) -> None:
    """Refuse a heap of texts whose free space has no length: the HDF5 library would go round it for ever."""
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


def _hdf5_opened(path: Path) -> Mapping[str, Any]:
    import h5py

    arrays = _hdf5_arrays(h5py.File(path, "r"))
    return {name: _decoded(array) for name, array in arrays.items() if not array.dtype.hasobject}


def _hdf5_arrays(group: Any, prefix: str = "", depth: int = 8) -> dict[str, Any]:
    import h5py

    found: dict[str, Any] = {}
    for key in group:
        # Only what is in the file itself: links may lead elsewhere or in circles.
        if not isinstance(group.get(key, getlink=True), h5py.HardLink):
            continue
        item = group[key]
        if isinstance(item, h5py.Dataset) and item.shape is not None and not (item.external or item.is_virtual):
            if not str(plain(item.attrs.get("NAME", ""))).startswith("This is a netCDF dimension but not"):
                found[prefix + key] = item
        elif isinstance(item, h5py.Group) and depth:
            found |= _hdf5_arrays(item, f"{prefix}{key}/", depth - 1)
    return found


def _hdf5_variable(array: Any) -> Variable:
    scale = plain(array.attrs.get("CLASS")) == "DIMENSION_SCALE"
    dims = [str(array.name).rpartition("/")[2]] if scale and len(array.shape) == 1 else _hdf5_dims(array)
    known = tuple(dims) if dims and all(dims) and len(dims) == len(array.shape) else None
    if not array.dtype.hasobject:
        attrs = {key: str(plain(array.attrs[key])) for key in KEPT if key in array.attrs}
        return Variable(_decoded(array), known, attrs, scale)
    texts = array.asstr()[...] if array.dtype.kind == "O" and array.size < 100_000 else np.empty(0, dtype=object)
    return Variable(np.asarray(texts), known, {}, True)


def _hdf5_dims(array: Any) -> list[str]:
    """Names of the axes: the labels, or the scales that belong to them.

    Read from the attributes themselves, which is quicker than through the library's own functions for scales.
    """
    if "DIMENSION_LABELS" in array.attrs:
        labels = [str(plain(label)) for label in np.asarray(array.attrs["DIMENSION_LABELS"]).reshape(-1)]
        if all(labels):
            return labels
    lists = array.attrs.get("DIMENSION_LIST")
    if lists is None:
        return []
    first = [refs[0] if len(refs) else None for refs in lists]
    return ["" if ref is None else str(array.file[ref].name).rpartition("/")[2] for ref in first]


def plain(value: Any) -> Any:
    """Text where the file has bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _decoded(array: Any) -> Any:
    """`array` as the attributes that NetCDF and Zarr share say it is to be read, or itself if they say nothing."""
    attrs = {
        key: array.attrs[key]
        for key in ("scale_factor", "add_offset", "_FillValue", "missing_value")
        if key in array.attrs
    }
    numbers = {key: np.asarray(value).reshape(-1)[:1] for key, value in attrs.items() if array.dtype.kind in "fiu"}
    numbers = {key: value for key, value in numbers.items() if value.size and value.dtype.kind in "fiu"}
    blank = [
        value for key, value in numbers.items() if key in ("_FillValue", "missing_value") and np.isfinite(value).all()
    ]
    scale, offset = (float(numbers[key][0]) if key in numbers else None for key in ("scale_factor", "add_offset"))
    if not blank and scale is None and offset is None:
        return array
    return Decoded(array, tuple(float(value[0]) for value in blank), 1.0 if scale is None else scale, offset or 0.0)


@dataclass(frozen=True, eq=False)
class Decoded:
    """An array whose stored numbers stand for others: ``stored * scale + offset``, NaN where nothing was stored."""

    array: Any
    blank: tuple[float, ...]
    scale: float
    offset: float

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the array."""
        return tuple(self.array.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 is kept where nothing is scaled; the rest needs float64."""
        plain = (self.scale, self.offset) == (1.0, 0.0) and self.array.dtype == np.float32
        return np.dtype(np.float32 if plain else np.float64)

    def __getitem__(self, key: Any, /) -> NDArray[Any]:
        stored = np.asarray(self.array[key])
        values = stored.astype(self.dtype)
        if (self.scale, self.offset) != (1.0, 0.0):
            values = values * self.scale + self.offset
        return np.where(np.isin(stored, np.array(self.blank, dtype=stored.dtype)), np.nan, values).astype(self.dtype)


def open_netcdf(path: Path) -> Store:
    """The variables of a NetCDF-4 file, which is HDF5, or of a NetCDF-3 file."""
    with path.open("rb") as file:
        start = file.read(8)
    if start.startswith(HDF5_MAGIC):
        return open_hdf5(path)
    if not start.startswith(NETCDF3_MAGIC):
        raise InputError(f"{path}: not a NetCDF file; give it the suffix of what it is, or write it again")
    data = _xarray_file(path)
    _believable(data.variables, path.stat().st_size, str(path))
    return xarray_store(data, str(path), partial(_netcdf_opened, path))


def _xarray_file(path: Path) -> Any:
    import xarray

    # From memory where it is small: asked for a name of gigabytes, a file would first make room for it.
    small = path.stat().st_size <= LAZY_BYTES
    source = io.BytesIO(path.read_bytes()) if small else path
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return xarray.open_dataset(source, engine="scipy", decode_times=False, decode_timedelta=False)


def _netcdf_opened(path: Path) -> Mapping[str, Any]:
    return dict(_xarray_file(path).variables)


def open_zarr(path: Path) -> Store:
    """The arrays of a Zarr group (format 2 or 3), or one array; masked and scaled where it says so."""
    try:
        arrays, attrs = _zarr_arrays(path)
    except ImportError:
        raise InputError(f"{path}: reading Zarr needs the package zarr; install it: pip install 'lln[data]'") from None
    entries = [entry for entry in path.rglob("*") if entry.is_file()]
    stored = sum(entry.stat().st_size for entry in entries)
    _believable(arrays, stored, str(path))
    for name, array in arrays.items():
        _believable({f"{name}, one chunk": _Chunk(array)}, stored, str(path))
        if array.nchunks > MISSING_CHUNKS * (len(entries) + 100):
            raise InputError(
                f"{path}: array {name!r} claims {array.nchunks:,} chunks, but the folder has {len(entries)} files; it "
                "is damaged or was never filled, so write it again"
            )
    variables = {name: _zarr_variable(array) for name, array in arrays.items()}
    return Store(str(path), variables, attrs, partial(_zarr_opened, path))


class _Chunk:
    """Shape of one chunk of a Zarr array, all of which is taken into memory to read any of it."""

    def __init__(self, array: Any) -> None:
        self.shape, self.dtype = array.shards or array.chunks, array.dtype


def _zarr_arrays(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    import zarr

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        node = zarr.open(str(path), mode="r")
        return {"states": node} if isinstance(node, zarr.Array) else _zarr_walk(node), dict(node.attrs)


def _zarr_walk(group: Any, prefix: str = "", depth: int = 8) -> dict[str, Any]:
    found = {prefix + name: array for name, array in group.arrays()}
    if depth:
        for name, inner in group.groups():
            found |= _zarr_walk(inner, f"{prefix}{name}/", depth - 1)
    return found


def _zarr_opened(path: Path) -> Mapping[str, Any]:
    return {name: _decoded(array) for name, array in _zarr_arrays(path)[0].items() if array.dtype.kind in "fiu"}


def _zarr_variable(array: Any) -> Variable:
    attrs = dict(array.attrs)
    dims = attrs.get("_ARRAY_DIMENSIONS") or getattr(array.metadata, "dimension_names", None)
    known = tuple(map(str, dims)) if dims and len(dims) == len(array.shape) and all(dims) else None
    name = str(array.name or "").rpartition("/")[2]
    if array.dtype.kind not in "fiubUSmM":
        # A damaged chunk of texts of any length can ask for all memory there is, so they are left alone.
        return Variable(np.empty(0, dtype=object), None, attrs, True)
    return Variable(_decoded(array), known, attrs, known == (name,))


def xarray_store(data: Any, source: str, opened: Callable[[], Mapping[str, Any]] | None = None) -> Store:
    """An xarray.Dataset as a store."""
    variables = {
        str(name): Variable(one, tuple(map(str, one.dims)), dict(one.attrs), name in data.coords)
        for name, one in data.variables.items()
    }
    return Store(source, variables, dict(data.attrs), opened or Held(dict(data.variables)))


def _believable(arrays: Mapping[str, Any], stored: int, source: str) -> None:
    """Refuse shapes that no file of this size can fill; a few bytes could else keep a reader busy for years."""
    for name, array in arrays.items():
        if np.dtype(array.dtype).hasobject:
            continue
        if size_of(array.shape, array.dtype) > PACKED * stored + ALLOWED:
            raise InputError(
                f"{source}: array {name!r} claims the shape {tuple(array.shape)}, which a file of {stored:,} bytes "
                "cannot hold; it is damaged or was never filled, so write it again"
            )


def refuse_missing(path: Path) -> None:
    """Say that a file is not there, or has nothing in it."""
    if not path.exists():
        near = f", and no folder {path.parent}; check the path"
        if path.parent.is_dir():
            import difflib

            others = sorted(entry.name for entry in path.parent.iterdir())
            match = difflib.get_close_matches(path.name, others, n=1, cutoff=0.8)
            near = f"; did you mean {match[0]!r}?" if match else "; check the path"
        raise InputError(f"{path}: no such file{near}")
    if not os.access(path, os.R_OK):
        raise InputError(f"{path}: cannot be read; change its permissions")
    if not path.is_file() and not path.is_dir():
        raise InputError(f"{path}: neither a file nor a folder, so it might never end; copy it to a file first")
    if path.is_file() and path.stat().st_size == 0:
        raise InputError(f"{path}: empty, 0 bytes; write it again")
