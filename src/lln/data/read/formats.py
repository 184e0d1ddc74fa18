"""Trajectories in files: npz, npy, CSV, HDF5, NetCDF and Zarr, in and out, known by their suffix."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from lln.core.atomic import whole_file
from lln.core.errors import InputError, reason
from lln.data import write as writers
from lln.data.interpret.assemble import from_store
from lln.data.read import sandbox as contained
from lln.data.read import stores
from lln.data.read.csv import read_csv
from lln.data.series import Dataset

__all__ = ["FORMATS", "Format", "read", "write"]


@dataclass(frozen=True)
class Format:
    """One kind of file.

    Attributes:
        name: as people call it.
        write: to a path that does not exist yet.
        opened: as named variables; None where it is read as a table.
        folder: whether it is a folder.
    """

    name: str
    write: Callable[[Path, Dataset], None]
    opened: Callable[[Path], stores.Store] | None = None
    folder: bool = False


_CSV = Format("CSV", writers.write_csv)
_HDF5 = Format("HDF5", writers.write_netcdf, partial(contained.opened, "HDF5"))
FORMATS: dict[str, Format] = {
    ".npz": Format("npz", writers.write_npz, stores.open_npz),
    ".npy": Format("npy", writers.write_npy, stores.open_npy),
    ".csv": _CSV,
    ".h5": _HDF5,
    ".hdf5": _HDF5,
    ".nc": Format("NetCDF", writers.write_netcdf, partial(contained.opened, "NetCDF")),
    ".zarr": Format("Zarr", writers.write_zarr, partial(contained.opened, "Zarr"), folder=True),
}
"""Every format by its suffix."""


def read(
    path: str | os.PathLike[str],
    *,
    dt: float | None = None,
    inputs: str | Sequence[str] | None = None,
    weights: str | None = None,
    names: Sequence[str] | None = None,
    grid: Any = None,
    time: Any = None,
    states: str | Sequence[str] | None = None,
    trajectory: str | None = None,
    resample: bool = False,
) -> Dataset:
    """The trajectories in the file at `path`.

    Which array, variable or column is time, state or trajectory is found by its name and shape, or asked for by name;
    the arguments are those of `as_dataset`. Large HDF5, NetCDF, Zarr and npy files are not read but opened: their
    rows come when they are asked for.
    """
    target = Path(path)
    form = _format(target)
    stores.refuse_missing(target)
    if target.is_dir() != form.folder:
        kind = "a folder" if target.is_dir() else "a file"
        raise InputError(f"{target}: is {kind}, but {form.name} data is {'a folder' if form.folder else 'a file'}")
    options = {"dt": dt, "inputs": inputs, "weights": weights, "names": names, "grid": grid, "time": time}
    options |= {"states": states, "trajectory": trajectory, "resample": resample}
    try:
        return _read(target, form, options)
    except InputError:
        raise
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        # A hostile file can combine its parts in more ways than there are checks.
        said = f"{type(error).__name__}: {reason(error)}"
        raise InputError(f"{target}: its parts do not fit together ({said}); check its names and shapes") from error


def _read(target: Path, form: Format, options: dict[str, Any]) -> Dataset:
    if form.opened is None:
        return read_csv(target, **options)
    try:
        store = form.opened(target)
    except InputError:
        raise
    except Exception as error:  # every library has its own for a file that it cannot read
        raise InputError(_unreadable(target, form, error)) from error
    if not store.variables:
        raise InputError(f"{target}: no array in it; expected arrays 'time' and 'states'")
    return from_store(store, **options)


def write(path: str | os.PathLike[str], dataset: Dataset) -> None:
    """Write `dataset` to `path` in the format of its suffix; the file appears whole or not at all."""
    target = Path(path)
    form = _format(target)
    if target.is_dir() and not (form.folder and _is_zarr(target)):
        raise InputError(f"{target}: is a folder, and not of {form.name} data; choose another name")
    with whole_file(target) as partial:
        try:
            form.write(partial, dataset)
        except OSError as error:
            # Some libraries tell no number and no file; a full disk or a broken one it is, and not the caller's input.
            raise OSError(error.errno or errno.EIO, error.strerror or str(error), os.fspath(target)) from error


def _is_zarr(path: Path) -> bool:
    return any((path / name).is_file() for name in (".zgroup", ".zarray", "zarr.json"))


def _format(path: Path) -> Format:
    suffix = path.suffix.lower()
    if suffix in FORMATS:
        return FORMATS[suffix]
    listing = ", ".join(FORMATS)
    if suffix == ".lln":
        raise InputError(f"{path}: a model, where data is expected; data files end in {listing}", topic="no-suffix")
    said = f"the suffix {path.suffix!r} is not known" if path.suffix else "a suffix must say what it is"
    raise InputError(f"{path}: {said}; data files end in {listing}", topic="no-suffix")


def _unreadable(path: Path, form: Format, error: Exception) -> str:
    """What is wrong with a file that its own library refused."""
    said = reason(error)
    start = b""
    if path.is_file():
        with path.open("rb") as file:
            start = file.read(16)
    kinds = {
        "HDF5 or NetCDF": (stores.HDF5_MAGIC, ("HDF5", "NetCDF")),
        "NetCDF": (stores.NETCDF3_MAGIC, ("NetCDF",)),
        "npz": (stores.ZIP_MAGIC, ("npz",)),
        "npy": (stores.NPY_MAGIC, ("npy",)),
    }
    found = next((name for name, (magic, _) in kinds.items() if start.startswith(magic)), None)
    own = found is not None and form.name in kinds[found][1]
    if found is not None and not own:
        return f"{path}: not {form.name} but {found}; give it the suffix of what it is"
    if own or form.folder:
        return f"{path}: {form.name} data that was cut short or is damaged ({said}); write or copy it again"
    return f"{path}: not {form.name} data ({said}); give it the suffix of what it is, or write it again"
