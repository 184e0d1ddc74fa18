import io
import os
import struct
import subprocess
import sys
import tracemalloc
import zipfile

import h5py
import numpy as np
import pytest
import xarray as xr

from lln.core.errors import InputError
from lln.data import Dataset, Series, as_dataset
from lln.data.read.formats import FORMATS, read, write
from lln.data.read.hdf5 import _check_heaps

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


def test_a_folder_in_place_of_a_file_and_a_file_in_place_of_a_folder(tmp_path):
    (tmp_path / "a.csv").mkdir()
    with pytest.raises(InputError, match="is a folder, but CSV data is a file"):
        read(tmp_path / "a.csv")
    (tmp_path / "a.zarr").write_text("a")
    with pytest.raises(InputError, match="is a file, but Zarr data is a folder"):
        read(tmp_path / "a.zarr")


@pytest.mark.parametrize("name", ["data.xyz", "data"])
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
    assert "more than the free memory of this machine" in refusal(path)


def test_absurd_hdf5_shapes(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("states", shape=(10**12, 10**3), chunks=(100, 10), dtype="f8")
    assert "claims the shape (1000000000000, 1000)" in refusal(tmp_path / "a.h5")


def test_a_variable_with_the_name_of_our_own_notes(tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["states"] = STATES
        file.create_dataset("lln", data=np.zeros((10, 10)), chunks=(10, 10), compression="gzip")
        place = file["lln"].id.get_chunk_info(0)
    content = bytearray(path.read_bytes())
    content[place.byte_offset : place.byte_offset + place.size] = b"?" * place.size
    path.write_bytes(content)
    assert read(path, states="states").size == STATES.shape[1]


def test_a_heap_without_end_in_hdf5(tmp_path):
    path = tmp_path / "a.nc"
    write(path, Dataset((Series(STATES),), 0.01, ("a", "b", "c")))
    content = bytearray(path.read_bytes())
    first = content.index(b"GCOL") + 16
    content[first : first + 16] = bytes(16)
    path.write_bytes(content)
    assert "damaged at byte" in refusal(path)


def test_a_heap_is_looked_at_to_its_end(tmp_path):
    text = (1).to_bytes(8, "little") + (5).to_bytes(8, "little") + b"hello\0\0\0"
    free = bytes(16) + b"x" * 16
    heap = b"GCOL\1\0\0\0" + (16 + 2 * len(text) + len(free)).to_bytes(8, "little") + 2 * text + free
    (tmp_path / "a.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + heap)
    with pytest.raises(InputError, match="damaged at byte 72"):
        _check_heaps(tmp_path / "a.h5")


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
    assert "increases evenly and is taken as time" in found.notes[0]
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
        ("time,x\n0,1\n1,2\n1,3\n2,4\n", "rows 3 and 4 have the same time 1 in column 'time'; drop one of them"),
        ("time,x\n0,1\n5,2\n3,3\n0,4\n1,4\n", "sort the rows"),
        ("time,x\n0,1\n,2\n2,3\n", "the time of row 3 is missing in column 'time'"),
        ("time,x\n0,1\n1,2\n2.5,3\n3.1,3\n", "unevenly sampled, .* resample it with --resample"),
        ("time,x\n0,1\n1,inf\n2,3\n", "row 3, column 'x': 'inf' is not finite; leave the cell empty for a gap"),
        ("time,y\n0,\n1,\n2,\n", "column 'y' holds no number at all"),
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


def test_a_csv_whose_last_line_has_no_end_is_read_with_a_note(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("t,x\n" + "".join(f"{i * 0.1},{i}.125\n" for i in range(20)))
    assert not read(path).notes
    path.write_text(path.read_text()[:-3])
    assert "cut short" in read(path).notes[-1]


def test_inputs_of_one_column_without_an_axis_of_their_own(tmp_path):
    np.savez(tmp_path / "a.npz", states=STATES, time=np.arange(30.0), inputs=np.arange(30.0))
    found = read(tmp_path / "a.npz")
    assert (found.input_names, found.series[0].inputs.shape) == (("inputs",), (30, 1))


def test_what_a_library_says_is_cut_to_a_sentence(tmp_path):
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("s" * 3000 + ".npy", header((3, 3)) + b"\0" * 72)
    content = bytearray(path.read_bytes())
    content[40] ^= 1  # the name beside the array is no longer that of the directory
    path.write_bytes(content)
    assert len(refusal(path)) < 600


@pytest.mark.parametrize("text", ["time,x\r0,1\r1,2\r2,4\r", 'time,x\r0,1\r1,"2\r2,4'])
def test_csv_with_the_line_ends_of_old_macs(tmp_path, text):
    path = tmp_path / "own.csv"
    path.write_bytes(text.encode())
    if text.endswith("4\r"):
        assert read(path).names == ("x",)
    else:
        refusal(path)


def test_csv_with_a_whole_number_beyond_every_float(tmp_path):
    with pytest.raises(InputError, match=r"row 3, column 'x': '9999.*' is not a number"):
        csv(tmp_path, f"time,x\n0,1\n1,{'9' * 400}\n2,3\n")


def test_texts_are_not_scaled(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["states"] = STATES
        file["lln"] = np.array(b'{"dt": 0.5}')
        file["lln"].attrs["scale_factor"] = 2.0
    assert read(tmp_path / "a.h5").rows == 30


def test_attributes_that_are_arrays(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["u"] = STATES
        file["u"].attrs["standard_name"] = np.arange(4.0)
        file["u"].attrs["units"] = np.arange(2)
    assert "no variable 'v' for states" in refusal(tmp_path / "a.h5", states="v")
    found = read(tmp_path / "a.h5")
    assert (found.rows, found.units) == (30, {"u": "[0 1]"})


def test_a_pipe_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "a.csv")
    assert "neither a file nor a folder" in refusal(tmp_path / "a.csv")


@pytest.mark.parametrize("start", [b"\x93NUMPYYYYYYYYY", b"\x93NUMPY\x02\x00\xff\xff\xff\x7f"])
def test_the_length_of_an_npy_header_is_not_believed(tmp_path, start):
    path = tmp_path / "a.npy"
    path.write_bytes(start + header((3, 3)))
    tracemalloc.start()
    refusal(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5_000_000


def test_times_inputs_and_weights_for_other_trajectories(tmp_path):
    path = tmp_path / "a.npz"
    stacked = {"states": np.stack([STATES, STATES]), "time": np.arange(30.0)}
    np.savez(path, **{**stacked, "time": np.arange(30.0)[None]})
    assert "'time' has 1 trajectories, but 'states' has 2" in refusal(path)
    np.savez(path, **stacked, inputs=np.ones((3, 30, 1)))
    assert "'inputs' has 3 trajectories, but 'states' has 2" in refusal(path)


@pytest.mark.parametrize("name", ["inputs", "weights"])
def test_inputs_and_weights_are_numbers(tmp_path, name):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["states"], file["time"] = STATES, np.arange(30.0)
        file.create_dataset(name, shape=(30,), dtype=[("a", "f8"), ("b", "i4")])
    assert f"variable {name!r} holds" in refusal(tmp_path / "a.h5")


def test_an_axis_named_twice(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["u"] = np.ones((30, 30))
        for axis in (0, 1):
            file["u"].dims[axis].label = "time"
    assert "every axis needs its own name" in refusal(tmp_path / "a.h5")


def test_parts_that_no_check_foresaw_are_a_sentence_too(tmp_path, monkeypatch):
    def broken(*_, **__):
        raise IndexError("index 7 is out of bounds")

    write(tmp_path / "a.npz", Dataset((Series(STATES),), 0.01))
    monkeypatch.setattr("lln.data.read.formats.interpret", broken)
    message = refusal(tmp_path / "a.npz")
    assert "its parts do not fit together (IndexError: index 7 is out of bounds)" in message


def test_the_length_of_a_name_in_netcdf_3_is_not_believed(tmp_path):
    from lln.data.read.hdf5 import open_netcdf

    path = tmp_path / "a.nc"
    path.write_bytes(b"CDF\x01" + struct.pack(">iiii", 0, 10, 1, 2**31 - 1) + bytes(64))
    refusal(path)
    tracemalloc.start()
    with pytest.raises((ValueError, IndexError, TypeError)):  # the library's own, with memory measured
        open_netcdf(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 50_000_000


@pytest.mark.parametrize("suffix", [".npz", ".nc", ".zarr"])
def test_a_flipped_byte_among_the_numbers_is_noticed(tmp_path, suffix):
    states = np.random.default_rng(0).standard_normal((200, 3))
    path = tmp_path / f"a{suffix}"
    write(path, Dataset((Series(states),), 0.1, ("x", "y", "z")))
    file = path / "states" / "0.0" if path.is_dir() else path
    content = bytearray(file.read_bytes())
    place = len(content) // 2 if path.is_dir() else content.index(states[100:101].tobytes()) + 3
    content[place] ^= 16
    file.write_bytes(content)
    with pytest.raises(InputError):
        read(path).digest()


@pytest.mark.parametrize("suffix", [".npz", ".npy", ".csv", ".nc", ".zarr"])
def test_a_full_disk_is_told_in_words_and_leaves_nothing(tmp_path, suffix):
    code = """
import resource, signal, sys
import numpy as np
from lln.data import Dataset, Series
from lln.data.read.formats import write
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    write(sys.argv[1], Dataset((Series(np.random.default_rng(0).standard_normal((200, 3))),), 0.1, ("x", "y", "z")))
except OSError as error:
    sys.exit(f"told: {error}")
"""
    path = tmp_path / f"a{suffix}"
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=False)
    assert done.stderr.startswith("told: "), done.stderr
    assert str(path) in done.stderr
    assert not list(tmp_path.iterdir())
