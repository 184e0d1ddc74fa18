import io
import struct
import zipfile

import h5py
import numpy as np
import pytest
import xarray as xr

from lln.core.errors import InputError
from lln.data import Dataset, Series, as_dataset
from lln.data.formats import FORMATS, read, write

STATES = np.random.default_rng(0).standard_normal((30, 3)).cumsum(axis=0)
WHOLE = [".npz", ".npy", ".csv", ".h5", ".nc"]


@pytest.fixture(params=WHOLE)
def written(request, tmp_path):
    path = tmp_path / f"data{request.param}"
    write(path, Dataset((Series(STATES),), 0.01, ("a", "b", "c")))
    return path


def refusal(path, **options):
    with pytest.raises(InputError) as caught:
        read(path, **options)
    message = str(caught.value)
    assert "\n" not in message
    assert path.name in message
    return message


def test_truncated(written):
    content = written.read_bytes()
    cut = len(content) - 30 if written.suffix != ".csv" else content.rindex(b",")
    written.write_bytes(content[:cut])
    assert any(word in refusal(written) for word in ("cut short", "damaged"))


def test_empty(written):
    written.write_bytes(b"")
    assert "empty, 0 bytes" in refusal(written)


def test_missing_names_the_nearest(written):
    wrong = written.with_name("date" + written.suffix)
    assert f"no such file; did you mean '{written.name}'?" in refusal(wrong)


@pytest.mark.parametrize("suffix", [".npz", ".npy", ".h5", ".nc"])
def test_not_what_its_suffix_says(tmp_path, suffix):
    path = tmp_path / f"data{suffix}"
    path.write_text("time,x\n0,1\n1,2\n")
    assert "give it the suffix of what it is" in refusal(path)


def test_another_format_is_recognised(tmp_path):
    write(tmp_path / "a.h5", Dataset((Series(STATES),), 0.01))
    (tmp_path / "a.h5").rename(tmp_path / "a.npz")
    assert "not npz but HDF5 or NetCDF" in refusal(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", states=STATES)
    (tmp_path / "b.npz").rename(tmp_path / "b.csv")
    assert "not a text file" in refusal(tmp_path / "b.csv")


@pytest.mark.parametrize("name", ["data.xlsx", "data"])
def test_unknown_suffix_lists_the_known(tmp_path, name):
    (tmp_path / name).write_text("x")
    message = refusal(tmp_path / name)
    assert all(suffix in message for suffix in FORMATS)


def header(shape, descr="'<f8'"):
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}"
    text += " " * (-(len(text) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


def test_absurd_npy_headers_are_refused_before_memory_is_taken(tmp_path):
    path = tmp_path / "a.npy"
    path.write_bytes(header((10**6, 10**6)) + b"\0" * 80)
    assert "its header says (1000000, 1000000)" in refusal(path)
    path.write_bytes(header((10**12, 10**12)) + b"\0" * 80)
    assert "only 80 follow" in refusal(path)
    path.write_bytes(header((-3, 2)) + b"\0" * 80)
    assert "the shape (-3, 2)" in refusal(path)


def test_absurd_npz_headers(tmp_path):
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("states.npy", header((10**4, 10**4)) + b"\0" * 80)
    assert "more than the file holds" in refusal(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("states.npy", header((10**7, 10**7)) + b"\0" * 80)
    assert "more than the memory of this machine" in refusal(path)


def test_absurd_hdf5_shapes(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("states", shape=(10**12, 10**3), chunks=(100, 10), dtype="f8")
    assert "claims the shape (1000000000000, 1000)" in refusal(tmp_path / "a.h5")


def test_a_heap_without_end_in_hdf5(tmp_path):
    path = tmp_path / "a.nc"
    write(path, Dataset((Series(STATES),), 0.01, ("a", "b", "c")))
    content = bytearray(path.read_bytes())
    first = content.index(b"GCOL") + 16
    content[first : first + 16] = bytes(16)
    path.write_bytes(content)
    assert "damaged at byte" in refusal(path)


def test_objects_are_never_unpickled(tmp_path):
    class Trap:
        def __reduce__(self):
            return print, ("code was run",)

    np.save(tmp_path / "a.npy", np.array([Trap()], dtype=object), allow_pickle=True)
    assert "holds Python objects, which could run code" in refusal(tmp_path / "a.npy")
    np.savez(tmp_path / "a.npz", states=np.array([Trap()], dtype=object))
    assert "holds Python objects, which could run code" in refusal(tmp_path / "a.npz")


def test_a_damaged_zarr_chunk(tmp_path):
    write(tmp_path / "a.zarr", Dataset((Series(STATES),), 0.01))
    chunk = next(path for path in (tmp_path / "a.zarr" / "states").iterdir() if path.name[0].isdigit())
    chunk.write_bytes(chunk.read_bytes()[:40])
    assert "cannot be read" in refusal(tmp_path / "a.zarr")


@pytest.mark.parametrize("suffix", [".npz", ".h5", ".nc", ".zarr"])
def test_unknown_variables_name_the_nearest(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    write(path, Dataset((Series(STATES),), 0.01))
    assert "no variable 'stats' for states; did you mean 'states'?" in refusal(path, states="stats")
    assert "no variable 'tine' for time; did you mean 'time'?" in refusal(path, time="tine")
    assert "no variable 'imputs' for inputs" in refusal(path, inputs="imputs")
    assert "no dimension 'trajektory'" in refusal(path, trajectory="trajektory")


def csv(tmp_path, text, **options):
    path = tmp_path / "own.csv"
    path.write_text(text)
    return read(path, **options)


ROWS = [f"{k},{k * k / 7},{(-1) ** k * 1.5}" for k in range(6)]


def test_csv_without_a_header(tmp_path):
    found = csv(tmp_path, "\n".join(ROWS))
    assert (found.size, found.dt, found.rows) == (2, 1.0, 6)
    assert "rises evenly and is taken as time" in found.notes[0]
    everything = csv(tmp_path, "\n".join(ROWS), time="0")
    assert everything.size == 3


@pytest.mark.parametrize("mark", [",", ";", "\t", " "])
@pytest.mark.parametrize("title", ["time", "Time [s]", "t", "T (ms)"])
def test_csv_with_a_header(tmp_path, mark, title):
    title = title if mark != " " else title.split()[0]
    rows = [f"{0.5 * k},{k * k / 7},{(-1) ** k * 1.5}" for k in range(6)]
    found = csv(tmp_path, "\n".join([f"{title},a,b", *rows]).replace(",", mark))
    assert (found.names, found.dt) == (("a", "b"), 0.5)
    np.testing.assert_array_equal(found.series[0].states[:, 0], np.arange(6) ** 2 / 7)


def test_csv_of_three_columns_and_no_time(tmp_path):
    text = io.StringIO()
    np.savetxt(text, STATES, delimiter=",", header="x,y,z", comments="")
    found = csv(tmp_path, text.getvalue(), dt=0.01)
    assert (found.names, found.dt, found.notes) == (("x", "y", "z"), 0.01, ())


def test_csv_as_a_spreadsheet_writes_it_in_europe(tmp_path):
    found = csv(tmp_path, "time;x\n0,0;1,5\n0,1;2,5\n0,2;3,0\n")
    assert (found.dt, found.series[0].states[:, 0].tolist()) == (0.1, [1.5, 2.5, 3.0])


def test_csv_with_dates_gaps_and_an_index(tmp_path):
    found = csv(tmp_path, "date,x\n2020-01-01,1\n2020-01-02,\n2020-01-03,4\n2020-01-04,3\n")
    assert (found.dt, found.transitions()) == (86400.0, 1)
    frame = csv(tmp_path, ",x,y\n0,1,2\n1,3,5\n2,1,7\n")  # as pandas writes it
    assert (frame.names, frame.dt) == (("x", "y"), 1.0)


def test_time_that_starts_again_is_a_new_trajectory(tmp_path):
    found = csv(tmp_path, "time,x\n0,1\n1,3\n2,4\n0,5\n1,7\n")
    assert found.lengths == (3, 2)
    assert "taken as new trajectories" in found.notes[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("time,x\n0,1\n1,abc\n2,3\n", "row 3, column 'x': 'abc' is not a number"),
        ("1,2\n3,oops\n4,5\n", "row 2, column 'x1': 'oops' is not a number"),
        ("time,x\n0,1\n1,2,3\n2,3\n", "rows have different numbers of cells"),
        ("time,x\n", "no rows of data in it"),
        ("# nothing\n", "no line of data in it"),
        ("time,x\n0,1\n1,2\n1,3\n2,4\n", "rows 1 and 2 have the same time 1; drop one of them"),
        ("time,x\n0,1\n5,2\n3,3\n4,4\n1,4\n", "sort the rows"),
        ("time,x\n0,1\n,2\n2,3\n", "the time of row 1 is missing"),
        ("time,x\n0,1\n1,2\n2.5,3\n3.1,3\n", "unevenly sampled, .* resample it with --resample"),
        ("time,x\n0,1\n1,inf\n2,3\n", "inf at row 1, column 0"),
        ("time,x,y\n0,1,\n1,2,\n2,3,\n", "column 'y' holds no number at all"),
    ],
)
def test_bad_csv_gets_a_sentence(tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        csv(tmp_path, text)


def test_unknown_column(tmp_path):
    with pytest.raises(InputError, match=r"no column 'hight' for states; did you mean 'height'\?"):
        csv(tmp_path, "time,height\n0,1\n1,2\n", states="hight")


def test_inputs_by_name(tmp_path):
    found = csv(tmp_path, "time,x,force\n0,1,9\n1,2,8\n2,4,7\n", inputs="force")
    assert (found.names, found.input_names) == (("x",), ("force",))
    np.testing.assert_array_equal(found.series[0].inputs[:, 0], [9, 8, 7])


def test_xarray_without_time_says_so():
    with pytest.raises(InputError, match=r"none of its dimensions \('a', 'b'\) is called time; name it with time="):
        as_dataset(xr.DataArray(STATES, dims=("a", "b")))
    assert as_dataset(xr.DataArray(STATES, dims=("a", "b")), time="a").lengths == (30,)
