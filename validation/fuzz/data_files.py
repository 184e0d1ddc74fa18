"""Data files that are almost right: npy, npz, CSV, HDF5, NetCDF and Zarr."""

from __future__ import annotations

import io
import json
import shutil
import struct
import warnings
import zipfile
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from validation.fuzz.mutate import NUMBERS, TEXTS, altered, as_json, damaged, retyped

NAMES = (
    "time",
    "states",
    "inputs",
    "weights",
    "u",
    "v",
    "x",
    "y",
    "lln",
    "length",
    "start",
    "t",
    "trajectory",
    "state",
)
KINDS = (
    "<f8",
    "<f4",
    "<i8",
    "<i4",
    "<u2",
    "|u1",
    ">f8",
    ">i2",
    "<f2",
    "|b1",
    "<c16",
    "|S3",
    "<U2",
    "<M8[ns]",
    "<m8[s]",
)
ATTRIBUTES = (
    "units",
    "standard_name",
    "scale_factor",
    "add_offset",
    "_FillValue",
    "missing_value",
    "_Unsigned",
    "calendar",
    "coordinates",
    "lln",
    "CLASS",
    "NAME",
    "DIMENSION_LABELS",
    "DIMENSION_LIST",
    "_ARRAY_DIMENSIONS",
    "long_name",
)
HINTS = {
    "dt": 0.1,
    "dims": {"states": ["trajectory", "time", "state"]},
    "coords": ["x"],
    "channels": ["u"],
    "names": ["a", "b"],
    "input_names": ["f"],
    "frequency": "MS",
    "units": {"time": "months since 2000-01-01"},
}


def write_seeds(folder: Path) -> None:
    """Valid files of every format, as lln and others write them."""
    from lln.data.read.formats import write
    from lln.data.series import Dataset, Series

    rng = np.random.default_rng(0)
    states = rng.standard_normal((12, 3)).cumsum(axis=0)
    plain = Dataset((Series(states),), 0.1, ("a", "b", "c"))
    several = Dataset((Series(states, states[:, :1]), Series(states[:9] + 1, states[:9, 1:2])), 0.5, input_names=("f",))
    field = Dataset(
        (Series(rng.standard_normal((8, 6)).cumsum(axis=0)),),
        0.25,
        space=(2, 3),
        channels=("u",),
        units={"time": "s", "u": "m"},
    )
    for suffix in (".npz", ".npy", ".csv", ".h5", ".nc", ".zarr"):
        for name, data in (("plain", plain), ("several", several), ("field", field)):
            if suffix != ".npy" or name == "plain":
                write(folder / f"{name}{suffix}", data)
    np.save(folder / "stacked.npy", np.stack([states, states]).astype(np.float32))
    np.save(folder / "fortran.npy", np.asfortranarray(states))
    (folder / "europe.csv").write_text("time;x\n0,0;1,5\n0,1;2,5\n0,2;3,0\n")
    (folder / "dates.csv").write_text("date,x,run\n2020-01-01,1,a\n2020-01-02,,a\n2020-01-01,4,b\n2020-01-02,3,b\n")
    (folder / "hash.csv").write_text("# of May\n#time,a #1,b\n0,1,2\n1,3,5\n2,1,7\n")
    (folder / "r.csv").write_text('"time","a"\n' + "".join(f'"{k + 1}",{k / 10},{k * k / 7}\n' for k in range(6)))
    (folder / "series.csv").write_text(",0\n" + "".join(f"{k},{k * k / 7}\n" for k in range(6)))
    (folder / "months.csv").write_text("when,a,note\n" + "".join(f"{k + 1:02d}/2020,{k * k},ok\n" for k in range(9)))
    (folder / "quarters.csv").write_text(
        "year,quarter,a\n" + "".join(f"{k // 4 + 2000},{k % 4 + 1},{k * k}\n" for k in range(9))
    )
    (folder / "bare.csv").write_text("\n".join(f"{k} {k * k / 7} {(-1) ** k * 1.5}" for k in range(6)))
    (folder / "netcdf3.nc").write_bytes(_netcdf3(Random(1), usual=True))
    _zarr3(folder / "format3.zarr", states)


def _zarr3(path: Path, states: Any) -> None:
    import zarr

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        group = zarr.open_group(path, mode="w", zarr_format=3)
        group.create_array("states", data=states, chunks=(6, 3), dimension_names=("time", "state"))
        group.create_array("time", data=np.arange(12) * 0.1, dimension_names=("time",))


def _shape(rng: Random) -> tuple[int, ...]:
    usual = ((12,), (12, 3), (2, 12, 3), (2, 12), (12, 2, 3), (3, 12), (1, 1))
    odd = ((), (0,), (0, 3), (12, 0), (1,), (5,), (2, 2, 2, 2), (12, 3, 1, 1, 1, 1, 1))
    return rng.choice(usual if rng.random() < 0.8 else odd)


def _array(rng: Random, shape: tuple[int, ...] | None = None) -> Any:
    kind = np.dtype(rng.choice(KINDS[:3] if rng.random() < 0.7 else KINDS))
    shape = _shape(rng) if shape is None else shape
    count = int(np.prod(shape))
    with np.errstate(all="ignore"):
        values = np.cumsum(np.random.default_rng(rng.randrange(1 << 30)).standard_normal(count)).reshape(shape)
        array = (np.round(values * 9).astype("<i8") if kind.kind in "mMSU" else values).astype(kind)
    if kind.kind == "f" and array.size and rng.random() < 0.2:
        array.reshape(-1)[rng.randrange(array.size)] = rng.choice((np.nan, np.inf, -np.inf, 0, 1e300))
    return array


def variables(rng: Random) -> dict[str, Any]:
    """Named arrays, mostly such that they are data."""
    rows = rng.choice((1, 2, 12, 12, 12))
    found: dict[str, Any] = {}
    if rng.random() < 0.7:
        found["time"] = np.arange(rows) * rng.choice((0.1, 1.0, 1e-9, 1e9, -1.0, 0.0))
    if rng.random() < 0.85:
        found["states"] = _array(rng, rng.choice(((rows, 3), (2, rows, 3), (rows, 2, 3), (3, rows), (rows,))))
    for _ in range(rng.choice((0, 0, 1, 2, 3))):
        found[rng.choice(NAMES)] = _array(rng)
    if rng.random() < 0.2:
        found["lln"] = np.array(hints(rng))
    return found or {"states": _array(rng)}


def hints(rng: Random) -> str:
    """What lln writes beside its variables, changed."""
    return as_json(altered(rng, HINTS)) if rng.random() < 0.8 else rng.choice(TEXTS)


def npy(rng: Random) -> bytes:
    """One array with a header that may lie."""
    array = _array(rng)
    if rng.random() < 0.4:
        return _saved(array)
    shape: Any = array.shape
    if rng.random() < 0.6:
        shape = tuple(rng.choice((*NUMBERS[:-1], -3)) if rng.random() < 0.5 else length for length in (*shape, 1))
    descr = rng.choice(
        (
            f"'{array.dtype.str}'",
            "'|O'",
            "'<f8'",
            "[('a', '<f8'), ('b', '|O')]",
            "'<f8:3'",
            "('<f8', (1000000, 1000000))",
            "__import__('os')",
            "'|V8'",
            "'|S999999999'",
            "'M8[10ns]'",
            "'x'",
        )
    )
    text = f"{{'descr': {descr}, 'fortran_order': {rng.choice(('False', 'True', '0', 'None'))}, 'shape': {shape}, }}"
    text = retyped(rng, text) if rng.random() < 0.3 else text
    text = rng.choice((text, text, text, "(" * 90 + text, text + " " * 20_000))
    version = rng.choice((1, 1, 1, 2, 3, 9))
    coded = text.encode("utf-8", "replace") + b"\n"
    length = struct.pack("<H", len(coded) % 65536) if version == 1 else struct.pack("<I", len(coded))
    return b"\x93NUMPY" + bytes([version, 0]) + length + coded + array.tobytes()


def _saved(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def npz(rng: Random) -> bytes:
    """A zip of arrays, some of which lie about their size or are no arrays."""
    buffer = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w") as archive:
        warnings.simplefilter("ignore")
        for name, array in variables(rng).items():
            kind = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA))
            content = _saved(array) if rng.random() < 0.8 else npy(rng)
            content += bytes(rng.choice((0, 0, 0, 0, 1 << 17)))
            stem = name if rng.random() < 0.9 else rng.choice(TEXTS[:-2]).replace("\ud7ff", "")[:99]
            archive.writestr(
                zipfile.ZipInfo(f"{stem}{rng.choice(('.npy', '.npy', '.npy', '', '.txt'))}"), content, kind
            )
    return buffer.getvalue()


def csv(rng: Random) -> bytes:
    """A table with cells, marks and line ends as people and damaged programs write them."""
    mark = rng.choice((",", ",", ";", "\t", " ", "|"))
    width = rng.choice((1, 2, 3, 4, 20))
    names = [rng.choice((*NAMES, "Time [s]", '"q"', "", "date", "a,b")) for _ in range(width)]
    lines = [mark.join(names)] if rng.random() < 0.8 else []
    step = rng.choice(("1", "0.5", "1e-3", "1e300", "0"))
    for row in range(rng.choice((0, 1, 2, 8, 8, 8))):
        cells = [str(row * float(step))] + [_cell(rng, row) for _ in range(width - 1)]
        if rng.random() < 0.03:
            cells = cells[: rng.randrange(width + 1)] + rng.choice(([], [""], ["1"] * 5, ["2"] * 3000))
        lines.append(mark.join(cells))
        if rng.random() < 0.03:
            lines.append(rng.choice(("", "# said", '"', "\0", "\ufeff", "''", "\x1a", "\u2028" * 3)))
    text = rng.choice(("\n", "\n", "\r\n", "\r")).join(lines) + rng.choice(("\n", ""))
    code = rng.choice(("utf-8", "utf-8", "utf-8", "utf-8-sig", "utf-16", "latin-1", "utf-32"))
    return text.encode(code, "replace")


def _cell(rng: Random, row: int) -> str:
    if rng.random() < 0.9:
        return rng.choice((f"{row * row / 7:.6f}", f"{rng.random():.17g}", str(row), f"-{row}", f"{row}e-3"))
    odd = (
        "nan",
        "NaN",
        "",
        "-",
        "inf",
        "-inf",
        "1e999",
        "1,5",
        "abc",
        '"1"',
        '"a\nb"',
        "2020-01-01",
        "01/02/2020",
        "31.12.2020",
        "2020Q3",
        "Jan 2020",
        "0.5#",
        "-999",
        "2020-13-45T99:99",
        "0x10",
        "1_000",
        "True",
        "9" * 400,
        "１２",
        "99999999999999999999",
        "1+2j",
        "NaT",
        "12:30",
        "1e-400",
    )
    return rng.choice(odd)


def hdf5(rng: Random) -> bytes:
    """A file of datasets with odd types, shapes, attributes, links and storage."""
    import h5py

    buffer = io.BytesIO()
    with h5py.File(buffer, "w", libver=rng.choice((None, None, "latest"))) as file:
        group: Any = file
        for name, array in variables(rng).items():
            if rng.random() < 0.1:
                group = group.require_group(rng.choice(("run0", "run1", "a/b/c", "deep" + "/d" * 12)))
            try:
                _dataset(rng, group, name, array)
            except (TypeError, ValueError, RuntimeError, OSError, NotImplementedError):
                continue  # what the library itself will not write
        if rng.random() < 0.3:
            file.attrs["lln"] = rng.choice((hints(rng).replace("\0", ""), 3, np.arange(3), b"\xff"))
        if rng.random() < 0.1:
            target = rng.choice(
                (h5py.SoftLink("/states"), h5py.SoftLink("/loop"), h5py.ExternalLink("/etc/passwd", "/"))
            )
            file["loop"] = target
    return buffer.getvalue()


def _dataset(rng: Random, group: Any, name: str, array: Any) -> None:
    import h5py

    options: dict[str, Any] = {}
    if array.ndim and array.size and rng.random() < 0.4:
        options = {
            "chunks": True,
            "compression": rng.choice((None, "gzip", "lzf")),
            "shuffle": rng.random() < 0.3,
            "fletcher32": rng.random() < 0.2,
        }
        options |= {"scaleoffset": 2} if rng.random() < 0.1 else {}
        options |= {"maxshape": (None,) * array.ndim} if rng.random() < 0.3 else {}
    pick = rng.random()
    if pick < 0.04:
        shape = tuple(rng.choice(NUMBERS[:12]) for _ in range(rng.choice((1, 2, 3))))
        made = group.create_dataset(
            name, shape=tuple(map(abs, shape)), dtype=rng.choice(("f8", "i1")), chunks=rng.choice((None, True))
        )
    elif pick < 0.06:
        made = group.create_dataset(name, data=h5py.Empty("f8"))
    elif pick < 0.08:
        made = group.create_dataset(name, shape=(12, 3), dtype="f8", external=[("/etc/passwd", 0, h5py.h5f.UNLIMITED)])
    elif pick < 0.1:
        layout = h5py.VirtualLayout((12, 3), "f8")
        layout[...] = h5py.VirtualSource(rng.choice((".", "/etc/passwd")), name, (12, 3))
        made = group.create_virtual_dataset(name, layout)
    elif pick < 0.14:
        kind = rng.choice(
            (
                h5py.string_dtype(),
                h5py.vlen_dtype("f8"),
                h5py.ref_dtype,
                np.dtype([("a", "f8"), ("b", "i4")]),
                h5py.enum_dtype({"A": 1}),
            )
        )
        made = group.create_dataset(name, shape=rng.choice(((3,), (), (2, 2))), dtype=kind)
    else:
        if array.dtype.kind in "MmU":
            array = array.astype("S3") if array.dtype.kind == "U" else array.astype("i8")
        made = group.create_dataset(name, data=array, **options)
    # The library itself crashes when it attaches a scale whose attributes are not its own.
    clean = name != "time" and "time" in group and set(group["time"].attrs) <= {"CLASS", "NAME", "REFERENCE_LIST"}
    if clean and made.ndim and rng.random() < 0.2:
        if rng.random() < 0.7:
            group["time"].make_scale(
                rng.choice(("time", "", "This is a netCDF dimension but not a netCDF variable. 12"))
            )
        made.dims[rng.randrange(made.ndim)].attach_scale(group["time"])
    for _ in range(rng.choice((0, 0, 1, 2))):
        made.attrs[rng.choice(ATTRIBUTES)] = attribute(rng)


def attribute(rng: Random) -> Any:
    """A value that a reader of attributes may not expect."""
    return rng.choice(
        (
            "s",
            b"\xff\xfe",
            0,
            -9999,
            1.5,
            0.0,
            np.nan,
            np.inf,
            1e308,
            np.arange(4.0),
            np.array([], "f8"),
            np.array(["a", "b"], "S1"),
            np.int8(-1),
            np.uint64(2**64 - 1),
            "time x",
            "DIMENSION_SCALE",
            "days since 2000-01-01",
            "months since 2000-01-01",
            "true",
            "0.1",
            np.array([-999, -998]),
            np.int64(-(2**63)),
            "time",
            np.complex128(1j),
            np.array([[1]]),
            True,
        )
    )


def _netcdf3(rng: Random, usual: bool = False) -> bytes:
    from scipy.io import netcdf_file

    buffer = io.BytesIO()
    buffer.close = lambda: None  # type: ignore[method-assign]  # the library closes what it wrote to
    file = netcdf_file(buffer, "w", version=1 if usual else rng.choice((1, 2)))
    file.createDimension("time", None if rng.random() < 0.3 else 12)
    file.createDimension("x", 3)
    file.createVariable("time", "d", ("time",))[:] = np.arange(12) * 0.1
    for name in ("u", "v") if usual else [rng.choice(NAMES) for _ in range(rng.choice((1, 2, 3)))]:
        if name in file.variables or name in file.dimensions:
            continue
        dims = ("time", "x") if usual else rng.choice((("time", "x"), ("time", "x"), ("time",), ("x", "x")))
        kind = "d" if usual else rng.choice("dfihbc")
        made = file.createVariable(name, kind, dims)
        shape = tuple({"time": 12, "x": 3}[dim] for dim in dims)
        values = np.cumsum(np.random.default_rng(rng.randrange(9)).standard_normal(shape), axis=0).reshape(shape)
        if kind != "c":
            made[:] = values.astype(kind)
        for _ in range(0 if usual else rng.choice((0, 0, 1, 2))):
            value = rng.choice(
                ("s", b"\xff", -9999, 1.5, 0.0, np.nan, 1e308, [1.0, 2.0], "time x", "days since 2000-01-01")
            )
            name = rng.choice(ATTRIBUTES[:8])
            if name != "_FillValue" or isinstance(value, (int, float)):  # the library writes with that one
                setattr(made, name, value)
    file.flush()
    return buffer.getvalue()


def netcdf(rng: Random) -> bytes:
    """NetCDF-4, which is HDF5, or NetCDF-3."""
    if rng.random() < 0.5:
        return hdf5(rng)
    try:
        return _netcdf3(rng)
    except Exception:  # what the library itself will not write
        return _netcdf3(rng, usual=True)


def zarr(rng: Random, seeds: list[dict[str, bytes]], target: Path) -> None:
    """A folder of metadata and chunks, a part of them changed."""
    files = dict(rng.choice(seeds))
    for _ in range(rng.choice((1, 1, 2, 3))):
        name = rng.choice(sorted(files) or ["zarr.json"])
        text = Path(name).name in ("zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata")
        action = rng.random()
        if action < 0.06:
            files.pop(name, None)
        elif action < 0.1:
            files[rng.choice((f"states/{rng.randrange(99)}.0", "junk", "a/b/c/.zarray", "states/c/0/7"))] = files[name]
        elif text and action < 0.9:
            files[name] = _metadata(rng, files[name])
        else:
            files[name] = damaged(rng, files[name], [rng.choice(list(files.values()))])
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    for name, content in files.items():
        place = target / name
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
        except OSError:
            continue  # one name is a file and a folder


def _metadata(rng: Random, content: bytes) -> bytes:
    try:
        value = json.loads(content)
    except ValueError:
        return content
    if rng.random() < 0.4 and isinstance(value, dict):
        shape, huge = rng.choice(NUMBERS[:14]), rng.choice(((12, 3), (10**6, 10**6), (10**12,), (1, 1), (0, 3)))
        change = rng.choice(
            (
                {"shape": [shape, 3]},
                {"shape": list(huge)},
                {"chunks": list(huge)},
                {
                    "dtype": rng.choice(KINDS),
                    "data_type": rng.choice(("float32", "int8", "string", "bool", "complex64")),
                },
                {"fill_value": rng.choice((0, "NaN", None, 1e300, "x", "AAAA"))},
                {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(huge)}}},
                {
                    "compressor": rng.choice(
                        (
                            None,
                            {"id": "zlib", "level": 1},
                            {"id": "pickle"},
                            {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1},
                        )
                    )
                },
                {
                    "filters": rng.choice(
                        (
                            [{"id": "pickle"}],
                            [{"id": "delta", "dtype": "<f8"}],
                            [{"id": "json2"}],
                            [{"id": "vlen-utf8"}],
                        )
                    )
                },
                {"order": "F"},
                {"attributes": {"_ARRAY_DIMENSIONS": ["time", "x"], "scale_factor": "a"}},
            )
        )
        value.update({key: one for key, one in change.items() if key in value or rng.random() < 0.3})
        return as_json(value).encode("utf-8", "replace")
    return as_json(altered(rng, value)).encode("utf-8", "replace")
