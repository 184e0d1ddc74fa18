"""Files of trajectories, by suffix: the registry of formats, and reading and writing with them.

A package outside adds a format with an entry point in the group `lln.formats`, named by its suffix, or in a running
program with `FORMATS.register(".parquet", Format("Parquet", read_parquet, write_parquet))`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from lln.core.errors import InputError, reason
from lln.core.registry import Registry
from lln.core.safe_files import refuse_missing, whole_file
from lln.data import write as writers
from lln.data.interpret.description import Choices
from lln.data.interpret.interpret import interpret
from lln.data.read import sandbox
from lln.data.read.csv import read_csv
from lln.data.read.hdf5 import HDF5_MAGIC, NETCDF3_MAGIC
from lln.data.read.store import NPY_MAGIC, ZIP_MAGIC, ReadTable, Store, open_npy, open_npz, xarray_store
from lln.data.series import Dataset

__all__ = ["FORMATS", "Format", "read", "write"]


@dataclass(frozen=True)
class Format:
    """One file format.

    Attributes:
        name: for messages.
        read: function of a path that returns a `Store` of named variables, a `ReadTable`, a pandas DataFrame or an
            xarray.Dataset; which part of it is what is found afterwards, for every format in the same way. It may
            raise any exception for a file that it cannot read.
        write: function of a path, which does not exist yet, and a `Dataset`.
        folder: whether the data are a folder.
    """

    name: str
    read: Callable[[Path], Any]
    write: Callable[[Path, Dataset], None]
    folder: bool = False


_HDF5 = Format("HDF5", partial(sandbox.open_store, "HDF5"), writers.write_netcdf)
FORMATS: Registry[Format] = Registry(
    "format",
    "lln.formats",
    {
        ".npz": Format("npz", open_npz, writers.write_npz),
        ".npy": Format("npy", open_npy, writers.write_npy),
        ".csv": Format("CSV", read_csv, writers.write_csv),
        ".h5": _HDF5,
        ".hdf5": _HDF5,
        ".nc": Format("NetCDF", partial(sandbox.open_store, "NetCDF"), writers.write_netcdf),
        ".zarr": Format("Zarr", partial(sandbox.open_store, "Zarr"), writers.write_zarr, folder=True),
    },
)
"""Every format by its suffix."""


def read(path: str | os.PathLike[str], **options: Any) -> Dataset:
    """Read the trajectories in the file at `path`.

    Which array, variable or column is time, state or trajectory is found by its name and shape, or asked for by name;
    `options` are those of `as_dataset`. Large HDF5, NetCDF, Zarr and npy files are opened, and their rows are read when
    they are needed.
    """
    target = Path(path)
    form = _format(target)
    refuse_missing(target)
    if target.is_dir() != form.folder:
        kind = "a folder" if target.is_dir() else "a file"
        raise InputError(f"{target}: is {kind}, but {form.name} data is {'a folder' if form.folder else 'a file'}")
    choices = Choices(**options)
    given = _opened(target, form)
    if isinstance(given, Store) and not given.variables:
        raise InputError(f"{target}: no array in it; expected arrays 'time' and 'states'")
    try:
        return interpret(given, choices)
    except InputError:
        raise
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        # A hostile file can combine its parts in more ways than there are checks.
        said = f"{type(error).__name__}: {reason(error)}"
        raise InputError(f"{target}: its parts do not fit together ({said}); check its names and shapes") from error


def _opened(target: Path, form: Format) -> Store | ReadTable:
    try:
        given = form.read(target)
    except InputError:
        raise
    except Exception as error:  # each library raises its own errors for a file that it cannot read
        raise InputError(_unreadable(target, form, error)) from error
    if isinstance(given, Store | ReadTable):
        return given
    return xarray_store(given, str(target)) if hasattr(given, "data_vars") else ReadTable(given, str(target))


def write(path: str | os.PathLike[str], dataset: Dataset) -> None:
    """Write `dataset` to `path` in the format of its suffix; the file appears whole or not at all."""
    target = Path(path)
    form = _format(target)
    if target.is_dir() and not (form.folder and _is_zarr(target)):
        raise InputError(f"{target}: is a folder, and not of {form.name} data; choose another name")
    with whole_file(target) as partial_file:
        try:
            form.write(partial_file, dataset)
        except OSError as error:
            # Some libraries give no number and no file name; the disk is full or broken.
            raise OSError(error.errno or errno.EIO, error.strerror or str(error), os.fspath(target)) from error


def _is_zarr(path: Path) -> bool:
    return any((path / name).is_file() for name in (".zgroup", ".zarray", "zarr.json"))


def _format(path: Path) -> Format:
    suffix = path.suffix.lower()
    if suffix in FORMATS:
        return FORMATS.get(suffix)
    listing = ", ".join(FORMATS)
    if suffix == ".lln":
        raise InputError(f"{path}: a model, where data is expected; data files end in {listing}", topic="no-suffix")
    said = f"the suffix {path.suffix!r} is not known" if path.suffix else "a suffix must say what it is"
    raise InputError(f"{path}: {said}; data files end in {listing}", topic="no-suffix")


def _unreadable(path: Path, form: Format, error: Exception) -> str:
    """Say what is wrong with a file that its own library refused."""
    said = reason(error)
    start = b""
    if path.is_file():
        with path.open("rb") as file:
            start = file.read(16)
    kinds = {
        "HDF5 or NetCDF": (HDF5_MAGIC, ("HDF5", "NetCDF")),
        "NetCDF": (NETCDF3_MAGIC, ("NetCDF",)),
        "npz": (ZIP_MAGIC, ("npz",)),
        "npy": (NPY_MAGIC, ("npy",)),
    }
    found = next((name for name, (magic, _) in kinds.items() if start.startswith(magic)), None)
    own = found is not None and form.name in kinds[found][1]
    if found is not None and not own:
        return f"{path}: not {form.name} but {found}; give it the suffix of what it is"
    if own or form.folder:
        return f"{path}: {form.name} data that was cut short or is damaged ({said}); write or copy it again"
    return f"{path}: not {form.name} data ({said}); give it the suffix of what it is, or write it again"
