import json
import os
import time
from dataclasses import replace

import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.io
import xarray as xr
import zarr

from lln.core.errors import InputError
from lln.data import Series, as_dataset, cache, simulated
from lln.data.read import lazy, sandbox
from lln.data.read.formats import read, write
from lln.systems import preset, simulate


def walk(rows=40, n=3, seed=0):
    return np.random.default_rng(seed).standard_normal((rows, n)).cumsum(axis=0)


def test_times_belong_to_all_trajectories_or_to_each():
    assert as_dataset([walk(5)], time=[np.arange(5) * 0.2]).dt == pytest.approx(0.2)
    assert as_dataset(np.stack([walk(5)]), time=[np.arange(5) * 0.2]).dt == pytest.approx(0.2)
    assert as_dataset(walk(1)[None], time=[3.0]).series[0].start == 3.0


def test_a_step_that_the_caller_gives_holds_where_no_times_are_known():
    assert as_dataset(xr.DataArray(walk(), dims=("time", "state")), dt=0.5).dt == 0.5


def test_inputs_of_a_file_may_be_one_number_for_each_trajectory():
    states = np.stack([walk(6), walk(6, seed=1)])
    stored = xr.Dataset({"states": (("run", "time", "state"), states), "mass": ("run", [2.0, 5.0]), "g": 9.8})
    data = as_dataset(stored, states="states", inputs=["mass", "g"])
    assert data.input_names == ("mass", "g")
    np.testing.assert_array_equal(data.series[1].inputs, np.tile([5.0, 9.8], (6, 1)))


def test_numbers_along_the_columns_do_not_make_them_a_grid():
    numbered = xr.DataArray(walk(5), dims=("time", "state"), coords={"state": [1, 2, 3]})
    assert as_dataset(numbered).space == ()
    placed = xr.DataArray(walk(5), dims=("time", "s"), coords={"s": [1, 2, 3]})
    assert as_dataset(placed).space == (3,)


@pytest.mark.parametrize("name", ["trajectory", "traj", "run", "realization", "member", "sim", "episode", "batch"])
def test_the_usual_names_of_trajectories_are_known(name):
    stacked = xr.DataArray(np.stack([walk(6), walk(6, seed=1)]), dims=(name, "time", "state"))
    assert as_dataset(stacked).lengths == (6, 6)


def test_two_rows_are_too_few_to_tell_time_from_a_state():
    data = as_dataset(pd.DataFrame({"a": [1.0, 2.0], "b": [7.0, 3.0]}))
    assert data.names == ("a", "b")


@pytest.fixture
def small_limit(monkeypatch):
    monkeypatch.setattr(lazy, "LAZY_BYTES", 500)


@pytest.mark.usefixtures("small_limit")
def test_a_group_for_each_trajectory_stays_on_the_disk_too(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for k in range(2):
            file[f"run{k}/states"] = walk(seed=k)
    data = read(tmp_path / "a.h5")
    assert data.lazy
    for k in range(2):
        np.testing.assert_array_equal(data.series[k].rows(3, 9), walk(seed=k)[3:9])


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cache._held.clear()
    yield tmp_path / "lln" / "trajectories"
    cache._held.clear()


@pytest.mark.usefixtures("own_cache")
def test_the_cache_in_memory_forgets_what_was_used_longest_ago(monkeypatch):
    system, made = preset("lorenz-28"), []
    monkeypatch.setattr(cache, "cache_folder", lambda: None)
    monkeypatch.setattr(cache, "MEMORY", int(1.5 * simulate(system, 50).nbytes))
    monkeypatch.setattr(cache, "simulate", lambda *args, **options: made.append(args) or simulate(*args, **options))
    for steps in (50, 49, 49, 50):
        simulated(system, steps)
    assert [args[1] for args in made] == [50, 49, 50]


class Trap:
    def __reduce__(self):
        return print, ("code in a cache file was run",)


def test_the_cache_on_disk_never_unpickles(own_cache, capsys):
    import hashlib
    import io

    expected = simulated(preset("lorenz-28"), 50).states
    (kept,) = own_cache.iterdir()
    content = io.BytesIO()
    np.lib.format.write_array(content, np.array([Trap()], dtype=object), allow_pickle=True)
    kept.write_bytes(hashlib.sha256(content.getvalue()).digest() + content.getvalue())
    cache._held.clear()
    np.testing.assert_array_equal(simulated(preset("lorenz-28"), 50).states, expected)
    assert capsys.readouterr().out == ""


def stored(tmp_path, **arrays):
    path = tmp_path / "named.h5"
    with h5py.File(path, "w") as file:
        for name, values in arrays.items():
            file[name] = values
    return path


def test_times_of_a_file_may_differ_from_trajectory_to_trajectory(tmp_path):
    times = np.arange(9) * 0.5 + np.array([[0.0], [100.0]])
    data = read(stored(tmp_path, states=np.stack([walk(9), walk(9, seed=1)]), time=times))
    assert data.lengths == (9, 9)
    assert [one.start for one in data.series] == [0.0, 100.0]


def test_time_along_the_last_of_three_axes_is_not_guessed(tmp_path):
    with pytest.raises(InputError, match="no axis of 'states'"):
        read(stored(tmp_path, states=np.ones((2, 3, 9)), time=np.arange(9.0)))


def test_a_file_with_more_than_the_state_is_read_by_the_usual_name(tmp_path):
    path = stored(tmp_path, energy=np.ones(9), states=walk(9), time=np.arange(9.0))
    np.testing.assert_array_equal(read(path).series[0].states, walk(9))


def test_weights_of_a_file_are_those_that_the_caller_names(tmp_path):
    path = stored(tmp_path, states=walk(9), trust=np.arange(9.0), time=np.arange(9.0))
    np.testing.assert_array_equal(read(path, states="states", weights="trust").series[0].weights, np.arange(9.0))


def test_channels_come_before_space_wherever_the_file_has_them():
    values = np.random.default_rng(0).standard_normal((5, 4, 2))
    data = as_dataset(xr.DataArray(values, dims=("time", "x", "channel"), coords={"channel": ["u", "v"]}))
    assert (data.space, data.channels) == ((4,), ("u", "v"))
    np.testing.assert_array_equal(data.shaped(data.series[0].states), values.transpose(0, 2, 1))
    both = as_dataset(xr.Dataset(dict.fromkeys("ab", (("time", "x", "field"), values))))
    assert (both.space, both.channels) == ((4, 2), ("a", "b"))


@pytest.mark.usefixtures("small_limit")
def test_rows_on_the_disk_are_one_trajectory(tmp_path):
    rows = read(stored(tmp_path, states=walk())).series[0].states
    data = as_dataset(rows, inputs=np.arange(40.0), dt=0.5)
    assert data.lazy
    assert data.series[0].inputs.shape == (40, 1)


@pytest.mark.usefixtures("small_limit")
def test_even_times_on_the_disk_have_their_step_to_the_last_digit(tmp_path):
    data = read(stored(tmp_path, states=walk(300), time=np.arange(300) * 0.1))
    assert data.lazy
    assert (data.dt, data.lengths) == (0.1, (300,))
    with h5py.File(tmp_path / "named.h5") as file:
        assert as_dataset(file["states"], time=file["time"]).dt == 0.1


@pytest.mark.parametrize("gap", ["", "nan", "NA", "n/a", "null", "none", "-", "?"])
def test_a_first_row_with_a_gap_is_no_header(tmp_path, gap):
    (tmp_path / "a.csv").write_text(f"1.5,{gap},2.0\n2.5,3.0,1.0\n4.0,1.0,7.0\n")
    data = read(tmp_path / "a.csv")
    assert (data.rows, data.size) == (3, 3)
    assert np.isnan(data.series[0].states[0, 1])


def test_a_single_line_shows_how_it_is_separated(tmp_path):
    (tmp_path / "a.csv").write_text("1.5;2.5;4.5\n")
    assert read(tmp_path / "a.csv").series[0].states.tolist() == [[1.5, 2.5, 4.5]]


def test_text_beyond_the_memory_of_the_machine_is_refused(tmp_path, monkeypatch):
    (tmp_path / "a.csv").write_text("a,b\n" + "1.5,2.5\n" * 50)
    monkeypatch.setattr(lazy, "available", lambda: 576)
    monkeypatch.setattr(lazy, "CLAIMED_ALWAYS", 0)
    with pytest.raises(InputError, match="more than the free memory"):
        read(tmp_path / "a.csv")


def test_a_given_step_may_differ_from_the_times_by_half_a_step_over_all_of_them():
    times = np.arange(100) * 0.1
    assert as_dataset(walk(100), time=times, dt=0.1004).dt == 0.1004
    with pytest.raises(InputError, match="was given but the times are"):
        as_dataset(walk(100), time=times, dt=0.1008)


def test_resampling_leaves_holes_of_many_steps_open_whatever_the_unit_of_time():
    times = np.cumsum(np.tile([0.009, 0.011], 20))
    times[25:] += 0.08
    assert len(as_dataset(walk(), time=times, resample=True).series) == 2
    assert len(as_dataset(walk(), time=1000 * times, resample=True).series) == 2


def test_resampling_reaches_the_last_time_though_three_tenths_are_rounded():
    values = np.array([[0.0], [0.7], [1.9], [3.0]])
    data = as_dataset(values, time=[0.0, 0.07, 0.19, 0.3], dt=0.1, resample=True)
    np.testing.assert_allclose(data.series[0].states, [[0.0], [1.0], [2.0], [3.0]], atol=1e-12)


def test_whole_numbers_are_resampled_to_numbers_in_between():
    data = as_dataset(np.array([[0], [1], [5], [6], [9]]), time=[0.0, 1.0, 5.0, 6.0, 9.0], dt=0.5, resample=True)
    np.testing.assert_allclose(data.series[0].states[:, 0], np.arange(19) * 0.5, atol=1e-12)


def test_inputs_are_numbers_and_have_names_even_if_nobody_names_them():
    data = as_dataset(walk(), inputs=np.arange(80).reshape(40, 2))
    assert data.input_names == ("input0", "input1")
    assert Series(walk(5), np.arange(5)[:, None]).inputs.dtype == np.float64
    with pytest.raises(InputError, match="inputs are complex"):
        Series(walk(5), np.ones((5, 1), complex))


def test_a_zarr_chunk_that_no_memory_holds_is_refused_before_it_is_read(tmp_path):
    group = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=2)
    group.create_array("states", shape=(40, 3), dtype="f8", chunks=(40, 3))[...] = walk()
    said = tmp_path / "a.zarr" / "states" / ".zarray"
    said.write_text(json.dumps(json.loads(said.read_text()) | {"chunks": [10**8, 10**4]}))
    with pytest.raises(InputError, match="states, one chunk"):
        read(tmp_path / "a.zarr")


def test_a_netcdf_file_with_two_marks_for_gaps_is_read_without_a_warning(tmp_path):
    with scipy.io.netcdf_file(tmp_path / "a.nc", "w") as file:
        file.createDimension("time", 5)
        height = file.createVariable("height", "f8", ("time",))
        height[:] = [1.0, -999.0, 2.0, -888.0, 4.0]
        height._FillValue, height.missing_value = -999.0, -888.0
    np.testing.assert_array_equal(read(tmp_path / "a.nc").series[0].states[:, 0], [1, np.nan, 2, np.nan, 4])


def test_an_axis_called_time_without_times_has_a_step_of_one(tmp_path):
    xr.Dataset({"states": (("time", "state"), walk())}).to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    data = read(tmp_path / "a.nc")
    assert (data.dt, data.lengths) == (1.0, (40,))


def test_a_wide_complex_array_is_refused_for_being_complex():
    with pytest.raises(InputError, match="states are complex"):
        as_dataset(np.exp(1j * np.arange(15.0)).reshape(3, 5))


def test_what_a_killed_writer_left_in_the_cache_goes_and_what_another_is_writing_stays(own_cache):
    own_cache.mkdir(parents=True, mode=0o700)
    left, fresh = own_cache / ".a.partial", own_cache / ".b.partial"
    for path in (left, fresh):
        path.write_bytes(b"half")
    os.utime(left, (time.time() - 7200,) * 2)
    simulated(preset("lorenz-28"), 50)
    assert not left.exists()
    assert fresh.exists()


@pytest.mark.parametrize("fields", [2, 1])
def test_the_caller_may_say_that_the_first_axis_of_fields_is_time(fields):
    data = as_dataset(np.random.default_rng(0).standard_normal((9, fields, 3, 4)), grid=(3, 4), time=0)
    assert (data.lengths, len(data.channels)) == ((9,), fields)


def test_a_file_remembers_which_system_was_simulated(tmp_path):
    write(tmp_path / "a.npz", replace(as_dataset(simulated(preset("burgers-32"), 5)), system="burgers-32"))
    assert read(tmp_path / "a.npz").system == "burgers-32"


def test_a_forked_process_leaves_the_reader_of_files_to_its_parent(tmp_path):
    read(stored(tmp_path, states=walk()))
    reader = sandbox._access.child._process
    child = os.fork()
    if child == 0:
        os._exit(0 if reader.returncode == 0 and sandbox._access.child is None else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert reader.poll() is None


def test_labels_of_axes_in_an_hdf5_file_are_believed(tmp_path):
    values = np.random.default_rng(0).standard_normal((3, 9, 2))
    path = stored(tmp_path, states=values)
    with h5py.File(path, "a") as file:
        for axis, label in enumerate(("state", "time", "run")):
            file["states"].dims[axis].label = label
    data = read(path)
    assert data.lengths == (9, 9)
    np.testing.assert_array_equal(data.series[1].states, values[:, :, 1].T)
