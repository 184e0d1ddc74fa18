"""Trajectories from any source as a `Dataset`: arrays, lists of them, frames, xarray objects, and files by suffix.

A package outside adds a format with an entry point in the group `lln.formats`, named by its suffix, or in a running
program with ``FORMATS.register(".parquet", Format("Parquet", read_parquet, write_parquet))``.
"""

from __future__ import annotations

import errno
import json
import math
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from importlib.util import find_spec
from inspect import signature
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lln.core.errors import InputError, ask_for_memory, choice, reason
from lln.core.registry import Registry
from lln.core.safe_files import refuse_missing, whole_file
from lln.core.table import cell
from lln.data.interpret.arrays import as_array, nested_numbers, shares
from lln.data.interpret.calendar import dates_of
from lln.data.interpret.description import Choices
from lln.data.interpret.interpret import interpret, join
from lln.data.interpret.tables import INPUT, WEIGHT
from lln.data.interpret.variables import ATTRIBUTE
from lln.data.read import sandbox
from lln.data.read.csv import read_csv
from lln.data.read.hdf5 import HDF5_MAGIC, NETCDF3_MAGIC
from lln.data.read.store import NPY_MAGIC, ZIP_MAGIC, ReadTable, Store, check_memory, open_npy, open_npz, xarray_store
from lln.data.series import Dataset, Series
from lln.data.trajectory import Trajectory

__all__ = ["FORMATS", "Format", "as_dataset", "read", "write"]

CHUNK = 1 << 20  # bytes
LONGEST = 30_000  # characters of names that fit beside a file's data; HDF5 has room for 64 kB


def as_dataset(
    x: Any,
    *,
    dt: float | None = None,
    inputs: Any = None,
    weights: Any = None,
    names: Sequence[str] | None = None,
    grid: Any = None,
    time: Any = None,
    states: str | Sequence[str] | None = None,
    trajectory: str | None = None,
    resample: bool = False,
) -> Dataset:
    """Convert trajectories from any source to a `Dataset`.

    Args:
        x: an array (time, n), (time,) for one column, or (trajectories, time, n), a list of arrays (time, n) of any
            lengths, an xarray object, a DataFrame, a `Trajectory`, a path or a list of paths, or a list of these. A
            `Dataset` is returned as it is.
        dt: time between rows; found from the times if there are any (seconds for dates, 1 for calendar steps), else 1.
        inputs: known forcing or parameters. For arrays: (time, m), or (m,) if constant, for one trajectory, a list of
            these for several, or a mapping from names to such. For files, frames and xarray: names of variables.
        weights: how much each row counts: (time,), a list of these for several trajectories, or a variable's name.
        names: a name for each column.
        grid: for states that are fields: lengths of the grid, or positions along each dimension, or a mapping from
            names of dimensions to positions. Columns run through the fields, then through space in C order.
        time: for arrays: the times of the rows, or the axis of time (0 or 1) where rows and columns could be mistaken.
            For files, frames and xarray: the name of time, or the axis where a file has no names for axes and no times.
        states: name or names of the variables or columns that are the state.
        trajectory: name of the dimension or column that separates trajectories.
        resample: interpolate uneven times onto an even grid instead of refusing them.
    """
    if isinstance(x, Dataset):
        return x
    choices = Choices(dt, inputs, weights, names, grid, time, states, trajectory, resample)
    if isinstance(x, (str, os.PathLike)):
        return read(x, **vars(choices))
    if isinstance(x, Trajectory):
        return _of_trajectory(x)
    kind = type(x).__module__.partition(".")[0]
    if kind == "xarray":
        return interpret(_of_xarray(x), choices)
    if kind == "pandas":
        return interpret(ReadTable(x), choices)
    if hasattr(x, "to_pandas"):  # tables of other libraries, such as Polars and Arrow
        try:
            table = x.to_pandas()
        except ImportError as error:  # Polars needs PyArrow for it
            raise InputError(
                f"the {type(x).__name__} cannot be converted to pandas ({error}); install what is missing, or give an "
                "array"
            ) from error
        return interpret(ReadTable(table), choices)
    if isinstance(x, Mapping):
        raise InputError(
            "a mapping is not read as trajectories; give pandas.DataFrame(...) of it for named columns, or an array"
        )
    if isinstance(x, (list, tuple)) and x and not nested_numbers(x):
        return _of_list(list(x), vars(choices))
    if states is not None or trajectory is not None:
        raise InputError(
            "states= and trajectory= name variables of files, frames and xarray objects; an array has none"
        )
    return interpret(as_array(x), choices)


def check_options(given: Iterable[str], function: Callable[..., Any]) -> None:
    """Refuse names that are neither parameters of `function`, which passes them on, nor options of `as_dataset`."""
    own = [name for name in signature(function).parameters if name not in ("y", "data")]
    for name in given:
        choice("option", name, dict.fromkeys([*own, *(one.name for one in fields(Choices))]))


def _of_xarray(x: Any) -> Store:
    if hasattr(x, "to_dataset") and not hasattr(x, "data_vars"):
        x = x.to_dataset(name=str(x.name or "states"))
    if not hasattr(x, "data_vars"):
        raise InputError(f"{type(x).__name__} of xarray is not read as trajectories; give a DataArray or a Dataset")
    return xarray_store(x, "xarray")


def _of_trajectory(x: Trajectory) -> Dataset:
    plain = Dataset((Series(x.states, name=x.name),), x.dt, x.names, source=x.name)
    if x.grid is None:
        return plain
    channel = x.names[0].rstrip("0123456789") or "states"
    return replace(plain, space=(x.size,), channels=(channel,), coords={"x": np.asarray(x.grid)})


def _of_list(items: list[Any], options: dict[str, Any]) -> Dataset:
    """A list of trajectories, each with its own part of what was given for all."""
    split = {key: shares(key, options[key], len(items)) for key in ("inputs", "weights", "time")}
    parts = []
    for index, item in enumerate(items):
        mine = options | {key: share[index] for key, share in split.items()}
        plain = not isinstance(item, (str, os.PathLike, Trajectory, Dataset))
        part = as_dataset(_list_item(item, index, mine["grid"]) if plain else item, **mine)
        if part.source == "array":
            part = replace(part, series=tuple(replace(one, name=f"trajectory {index}") for one in part.series))
        parts.append(part)
    return join(parts)


def _list_item(item: Any, index: int, grid: Any) -> Any:
    if type(item).__module__.partition(".")[0] in ("xarray", "pandas"):
        return item
    array = as_array(item)
    if grid is None and len(array.shape) not in (1, 2):
        raise InputError(
            f"trajectory {index} of the list must have shape (time, n) or (time,), got {array.shape}; fields need grid="
        )
    # One more axis in front says that this is one trajectory, so that (time, channels, x) is not misread.
    return array[None] if isinstance(array, np.ndarray) and len(array.shape) > 2 else array


def to_xarray(dataset: Dataset) -> Any:
    """`dataset` as an xarray.Dataset.

    Plain states are one variable `states` (time, state); fields one variable each, (time, *space). Several
    trajectories have the dimension `trajectory` in front, the shorter ones padded with NaN, with their lengths beside.
    """
    import xarray

    time = dataset.time_name
    lead = ("trajectory", time) if len(dataset.series) > 1 else (time,)
    states = _padded(dataset, "states")
    variables: dict[str, Any] = {}
    coords: dict[str, Any] = {time: (time, _clock(dataset), _unit(dataset, "time"))}
    if dataset.space:
        fields = states.reshape(*states.shape[:-1], len(dataset.channels), *dataset.space)
        for index, channel in enumerate(dataset.channels):
            name = f"{channel}_field" if channel in (*lead, *dataset.coords) else channel
            variables[name] = ((*lead, *dataset.coords), fields.take(index, axis=len(lead)), _unit(dataset, channel))
        coords |= {name: (name, np.asarray(value), _unit(dataset, name)) for name, value in dataset.coords.items()}
    else:
        variables["states"] = ((*lead, "state"), states)
        coords["state"] = ("state", np.array(dataset.names, dtype=object))
    variables |= _extras(dataset, time)
    if dataset.inputs:
        coords["input"] = ("input", np.array(dataset.input_names, dtype=object))
    attributes = {ATTRIBUTE: _reader_hints(dataset), "source": dataset.source}
    return xarray.Dataset(variables, coords, attributes)


def write_netcdf(path: Path, dataset: Dataset) -> None:
    """NetCDF-4, which is HDF5 with named dimensions; in chunks of rows, since only chunks can have a checksum."""
    data = to_xarray(dataset)
    encoding = {
        name: {"fletcher32": True, "chunksizes": _chunks(one.shape, one.dtype.itemsize)}
        for name, one in data.variables.items()
        if one.size and one.ndim and one.dtype.kind in "fiu"
    }
    # In memory first: the HDF5 library survives neither a disk that is full nor memory that it does not get.
    ask_for_memory((1 << 24) + 3 * data.nbytes)
    path.write_bytes(data.to_netcdf(engine="h5netcdf", encoding=encoding))


def _chunks(shape: tuple[int, ...], size: int) -> tuple[int, ...]:
    """As many neighbouring rows as make about `CHUNK` bytes; of several trajectories, one at a time."""
    rest = [math.prod(shape[axis + 1 :]) * size for axis in range(len(shape))]
    return tuple(min(length, max(1, CHUNK // behind)) for length, behind in zip(shape, rest, strict=True))


def write_zarr(path: Path, dataset: Dataset) -> None:
    """Zarr in format 2, which every reader knows."""
    ask_for_memory()
    from numcodecs import Zstd  # type: ignore[import-untyped]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = to_xarray(dataset)
        # Texts of one width: those of any width need a codec that other readers may lack.
        data = data.assign_coords({name: one.astype("U") for name, one in data.coords.items() if one.dtype == object})
        # The usual codec takes a chunk that was cut short for whole; this one has a checksum.
        encoding = {name: {"compressors": [Zstd(level=1, checksum=True)]} for name in data.variables}
        data.to_zarr(path, mode="w", zarr_format=2, consolidated=True, encoding=encoding)


def write_npz(path: Path, dataset: Dataset) -> None:
    """Arrays `time` and `states`, with columns as they are, and what else is known beside them."""
    lead = ["trajectory", "time"] if len(dataset.series) > 1 else ["time"]
    extras = _extras(dataset, "time")
    dims = {"time": ["time"], "states": [*lead, "state"], **{name: list(one) for name, (one, _) in extras.items()}}
    dims |= {name: [name] for name in dataset.coords}
    arrays: dict[str, Any] = {"time": _clock(dataset), "states": _padded(dataset, "states")}
    arrays |= {name: values for name, (_, values) in extras.items()}
    arrays |= {name: np.asarray(value) for name, value in dataset.coords.items() if name not in arrays}
    said = json.loads(_reader_hints(dataset, always=True))
    said |= {"dims": dims, "coords": list(dataset.coords)}
    arrays |= {"dt": np.float64(dataset.dt), "names": np.array(dataset.names), ATTRIBUTE: np.array(json.dumps(said))}
    with path.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)


def write_npy(path: Path, dataset: Dataset) -> None:
    """The states alone, (time, n) or (trajectories, time, n); the time step and the names are not kept."""
    if len(set(dataset.lengths)) > 1:
        raise InputError(f"{path}: npy holds one array and the trajectories have different lengths; write .npz instead")
    with path.open("wb") as file:
        np.save(file, _padded(dataset, "states"), allow_pickle=False)


def write_csv(path: Path, dataset: Dataset, mark: str = ",") -> None:
    """A row for each time: time, the state, inputs and weights; a column `trajectory` in front if there are several."""
    several = len(dataset.series) > 1
    weighted = any(one.weights is not None for one in dataset.series)
    heading = ["trajectory"] * several + [dataset.time_name, *_headings(dataset)]
    heading += [INPUT + name for name in dataset.input_names] + [WEIGHT] * weighted
    with path.open("w", encoding="utf-8", newline="") as file:
        import csv

        out = csv.writer(file, lineterminator="\n", delimiter=mark)
        out.writerow([cell(name) for name in heading])
        for index, one in enumerate(dataset.series):
            times = dataset.times(index)
            dates = _dates(times, dataset)
            for first, block in one.blocks():
                parts = [times[first : first + len(block), None], block]
                known = one.input_rows(first, first + len(block))
                parts += [] if known is None else [known]
                if weighted:
                    heavy = np.ones(len(one)) if one.weights is None else one.weights
                    parts.append(heavy[first : first + len(block), None])
                rows = np.concatenate([np.asarray(part, dtype=np.float64) for part in parts], axis=1)
                lines = [["" if value != value else repr(value) for value in row] for row in rows.tolist()]
                if dates is not None:
                    lines = [[date, *line[1:]] for date, line in zip(dates[first:], lines, strict=False)]
                out.writerows([[index] * several + line for line in lines])


def _dates(times: NDArray[Any], dataset: Dataset) -> list[str] | None:
    """Times that count from a date as dates, which a table has no other place for."""
    exact = dates_of(times, dataset.units.get("time", ""), dataset.frequency)
    if exact is None:
        return None
    if (exact == exact.astype("M8[D]")).all():
        return [str(date) for date in np.datetime_as_string(exact, unit="D")]
    whole = bool((exact == exact.astype("M8[s]")).all())
    return [str(date) for date in np.datetime_as_string(exact, unit="s" if whole else "ns")]


def _headings(dataset: Dataset) -> list[str]:
    if not dataset.space:
        return list(dataset.names)
    places = [[f"{name}={float(at)!r}" for at in values] for name, values in dataset.coords.items()]
    return [f"{channel}[{' '.join(point)}]" for channel in dataset.channels for point in product(*places)]


def _clock(dataset: Dataset) -> NDArray[Any]:
    """Times of the longest trajectory, from the common start, or from zero if they have none in common."""
    starts = {one.start for one in dataset.series}
    first = starts.pop() if len(starts) == 1 else 0.0
    clock: NDArray[Any] = first + np.arange(max(dataset.lengths)) * dataset.dt
    return clock


def _extras(dataset: Dataset, time: str) -> dict[str, tuple[tuple[str, ...], NDArray[Any]]]:
    """Inputs, weights, lengths and starts, where the dataset has them."""
    lead = ("trajectory", time) if len(dataset.series) > 1 else (time,)
    found: dict[str, tuple[tuple[str, ...], NDArray[Any]]] = {}
    if dataset.inputs:
        found["inputs"] = ((*lead, "input"), _padded(dataset, "inputs"))
    if any(one.weights is not None for one in dataset.series):
        found["weights"] = (lead, _padded(dataset, "weights")[..., 0])
    if len(set(dataset.lengths)) > 1:
        found["length"] = (("trajectory",), np.array(dataset.lengths))
    if len({one.start for one in dataset.series}) > 1:
        found["start"] = (("trajectory",), np.array([one.start for one in dataset.series]))
    return found


def _padded(dataset: Dataset, what: str) -> NDArray[Any]:
    """States, inputs or weights of all trajectories, (trajectories, time, columns), NaN behind the shorter ones."""
    longest = max(dataset.lengths)
    of: dict[str, Callable[[Series], NDArray[Any]]] = {
        "states": lambda one: one.rows(0, len(one)),
        "inputs": lambda one: np.asarray(one.input_rows(0, len(one))),
        "weights": lambda one: np.ones((len(one), 1)) if one.weights is None else one.weights[:, None],
    }
    parts = [of[what](one) for one in dataset.series]
    if len(parts) == 1:
        return parts[0]
    check_memory(8 * len(parts) * longest * parts[0].shape[1], dataset.source)
    out = np.full((len(parts), longest, parts[0].shape[1]), np.nan, dtype=np.result_type(*parts))
    for row, part in zip(out, parts, strict=True):
        row[: len(part)] = part
    return out


def _reader_hints(dataset: Dataset, *, always: bool = False) -> str:
    """Hints for our own reader that variables cannot hold, as JSON."""
    short = sum(len(name) + 4 for name in dataset.names) < LONGEST
    said = {
        "format": 1,
        "dt": dataset.dt,
        "system": dataset.system,
        "frequency": dataset.frequency,
        "units": dict(dataset.units) if always else {},
        "channels": dataset.channels,
        "input_names": dataset.input_names,
        "names": dataset.names if (always or dataset.space) and short else (),
    }
    return json.dumps({key: value for key, value in said.items() if value})


def _unit(dataset: Dataset, name: str) -> dict[str, str]:
    return {"units": dataset.units[name]} if name in dataset.units else {}


@dataclass(frozen=True)
class Format:
    """One file format."""

    name: str  #: for messages
    #: function of a path that returns a `Store` of named variables, a `ReadTable`, a pandas DataFrame or an
    #: xarray.Dataset; which part of it is what is found afterwards, for every format in the same way. It may raise any
    #: exception for a file that it cannot read.
    read: Callable[[Path], Any]
    write: Callable[[Path, Dataset], None]  #: function of a path, which does not exist yet, and a `Dataset`
    folder: bool = False  #: whether the data are a folder
    package: str = ""  #: that `write` imports and lln does not bring; empty if there is none


_TEXT = Format("CSV", read_csv, partial(write_csv, mark="\t"))
_HDF5 = Format("HDF5", partial(sandbox.open_store, "HDF5"), write_netcdf)
FORMATS: Registry[Format] = Registry(
    "format",
    "lln.formats",
    {
        ".npz": Format("npz", open_npz, write_npz),
        ".npy": Format("npy", open_npy, write_npy),
        ".csv": Format("CSV", read_csv, write_csv),
        **dict.fromkeys((".tsv", ".txt", ".dat"), _TEXT),
        ".h5": _HDF5,
        ".hdf5": _HDF5,
        ".nc": Format("NetCDF", partial(sandbox.open_store, "NetCDF"), write_netcdf),
        ".zarr": Format("Zarr", partial(sandbox.open_store, "Zarr"), write_zarr, folder=True, package="zarr"),
    },
)
"""Every format by its suffix."""

# What to do with files of other formats, by suffix.
_REMEDIES = {
    ".gz .zip .bz2 .xz .zst .7z .tar .tgz": "unpack it first",
    ".xlsx .xls .xlsm .ods": "save the sheet as CSV, or give pandas.read_excel({!r}) in Python",
    ".parquet .feather .json .orc": "save it as CSV, or give the table that pandas reads from it in Python",
    ".dta .sav .sas7bdat": "save it as CSV, or give the table that pandas reads from it in Python",
    ".pkl .pickle": "a pickle can run code, so write the data as .npz or CSV",
    ".rds .rdata .rda": "write the table as CSV in R, with write.csv",
    ".grib .grib2 .grb": "give xarray.open_dataset({!r}, engine='cfgrib') in Python",
    ".pt .pth": "give the tensor of torch.load({!r}) in Python",
    ".mat": "give an array of scipy.io.loadmat({!r}) in Python; a file of version 7.3 is HDF5, so rename it to .h5",
}


def read(path: str | os.PathLike[str], **options: Any) -> Dataset:
    """Read the trajectories in the file at `path`.

    Which array, variable or column is time, state or trajectory is found by its name and shape, or asked for by name;
    `options` are those of `as_dataset`. Large HDF5, NetCDF, Zarr and npy files are opened, and their rows are read when
    they are needed.
    """
    target = Path(path)
    for suffixes, remedy in _REMEDIES.items():
        suffix = target.suffix.lower()
        if suffix in suffixes.split() and suffix not in FORMATS:
            raise InputError(f"{target}: {suffix} files are not read; {remedy.format(target.name)}", topic="no-suffix")
    form = _format(target)
    refuse_missing(target)
    if target.is_dir() != form.folder:
        kind = "a folder" if target.is_dir() else "a file"
        raise InputError(f"{target}: is {kind}, but {form.name} data is {'a folder' if form.folder else 'a file'}")
    choices, given = Choices(**options), _opened(target, form)
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
    form = check_written(target)
    own = form.folder and any((target / name).is_file() for name in (".zgroup", ".zarray", "zarr.json"))
    if target.is_dir() and not own:
        raise InputError(f"{target}: is a folder, and not of {form.name} data; choose another name")
    with whole_file(target) as partial_file:
        try:
            form.write(partial_file, dataset)
        except OSError as error:
            # Some libraries give no number and no file name; the disk is full or broken.
            raise OSError(error.errno or errno.EIO, error.strerror or str(error), os.fspath(target)) from error


def check_written(path: Path) -> Format:
    """The format in which `path` would be written; InputError if there is none, or its package is not installed."""
    form = _format(path)
    if form.package and find_spec(form.package) is None:
        raise InputError(
            f"{path}: writing {form.name} needs the package {form.package}; install it with `pip install 'lln[data]'`, "
            "or choose another suffix"
        )
    return form


def _format(path: Path) -> Format:
    suffix = path.suffix.lower()
    if suffix in FORMATS:
        return FORMATS.get(suffix)
    listing = ", ".join(FORMATS)
    if suffix == ".lln":
        raise InputError(f"{path}: a model, where data is expected; data files end in {listing}", topic="no-suffix")
    said = f"the suffix {path.suffix!r} is not known" if path.suffix else "no suffix names its format"
    raise InputError(f"{path}: {said}; data files end in {listing}", topic="no-suffix")


def _unreadable(path: Path, form: Format, error: Exception) -> str:
    """Say what is wrong with a file that its own library refused."""
    said, start = reason(error), b""
    if path.is_file():
        with path.open("rb") as file:
            start = file.read(16)
    kinds = {"HDF5 or NetCDF": HDF5_MAGIC, "NetCDF": NETCDF3_MAGIC, "npz": ZIP_MAGIC, "npy": NPY_MAGIC}
    found = next((name for name, magic in kinds.items() if start.startswith(magic)), "")
    if found and form.name not in found.split(" or "):
        return f"{path}: not {form.name} but {found}; give it the suffix of what it is"
    if found or form.folder:
        return f"{path}: {form.name} data that was cut short or is damaged ({said}); write or copy it again"
    return f"{path}: not {form.name} data ({said}); give it the suffix of what it is, or write it again"
