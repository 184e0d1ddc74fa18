"""Which variable, column or axis is time, state, input or trajectory."""

from dataclasses import replace

import h5py
import numpy as np
import pandas as pd
import pytest
import xarray as xr

from lln.core.errors import InputError
from lln.data import Series, as_dataset, simulated
from lln.data.read.formats import read, write
from lln.systems import preset


def walk(rows=40, n=3, seed=0):
    return np.random.default_rng(seed).standard_normal((rows, n)).cumsum(axis=0)


def stored(tmp_path, **arrays):
    path = tmp_path / "named.h5"
    with h5py.File(path, "w") as file:
        for name, values in arrays.items():
            file[name] = values
    return path


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


def test_the_usual_names_of_trajectories_are_known():
    for name in (
        *("trajectory", "trajectories", "traj", "run", "realization", "realisation", "ensemble", "member"),
        *("simulation", "sim", "case", "episode", "experiment", "sample", "batch"),
    ):
        stacked = xr.DataArray(np.stack([walk(6), walk(6, seed=1)]), dims=(name, "time", "state"))
        assert as_dataset(stacked).lengths == (6, 6), name


def test_two_rows_are_too_few_to_tell_time_from_a_state():
    data = as_dataset(pd.DataFrame({"a": [1.0, 2.0], "b": [7.0, 3.0]}))
    assert data.names == ("a", "b")


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


def test_inputs_are_numbers_and_have_names_even_if_nobody_names_them():
    data = as_dataset(walk(), inputs=np.arange(80).reshape(40, 2))
    assert data.input_names == ("input0", "input1")
    assert Series(walk(5), np.arange(5)[:, None]).inputs.dtype == np.float64
    with pytest.raises(InputError, match="inputs are complex"):
        Series(walk(5), np.ones((5, 1), complex))


def test_an_axis_called_time_without_times_has_a_step_of_one(tmp_path):
    xr.Dataset({"states": (("time", "state"), walk())}).to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    data = read(tmp_path / "a.nc")
    assert (data.dt, data.lengths) == (1.0, (40,))


def test_a_wide_complex_array_is_refused_for_being_complex():
    with pytest.raises(InputError, match="states are complex"):
        as_dataset(np.exp(1j * np.arange(15.0)).reshape(3, 5))


@pytest.mark.parametrize("fields", [2, 1])
def test_the_caller_may_say_that_the_first_axis_of_fields_is_time(fields):
    data = as_dataset(np.random.default_rng(0).standard_normal((9, fields, 3, 4)), grid=(3, 4), time=0)
    assert (data.lengths, len(data.channels)) == ((9,), fields)


def test_a_file_remembers_which_system_was_simulated(tmp_path):
    write(tmp_path / "a.npz", replace(as_dataset(simulated(preset("burgers-32"), 5)), system="burgers-32"))
    assert read(tmp_path / "a.npz").system == "burgers-32"


def test_labels_of_axes_in_an_hdf5_file_are_believed(tmp_path):
    values = np.random.default_rng(0).standard_normal((3, 9, 2))
    path = stored(tmp_path, states=values)
    with h5py.File(path, "a") as file:
        for axis, label in enumerate(("state", "time", "run")):
            file["states"].dims[axis].label = label
    data = read(path)
    assert data.lengths == (9, 9)
    np.testing.assert_array_equal(data.series[1].states, values[:, :, 1].T)


def test_the_usual_names_of_time_are_known(tmp_path):
    for name in ("time", "times", "t", "date", "datetime", "timestamp"):
        np.savez(tmp_path / "a.npz", states=walk(), **{name: np.arange(40) * 0.5})
        assert read(tmp_path / "a.npz").dt == 0.5, name


def test_times_of_a_file_win_over_the_step_that_it_states(tmp_path):
    write(tmp_path / "a.h5", as_dataset(walk(), dt=0.1))
    with h5py.File(tmp_path / "a.h5", "r+") as file:
        file["time"][...] *= 1.5
    assert read(tmp_path / "a.h5").dt == pytest.approx(0.15)


def test_trajectories_of_fields_without_times_end_in_the_grid(tmp_path):
    np.savez(tmp_path / "a.npz", states=walk(12, 12).reshape(2, 6, 3, 4))
    data = read(tmp_path / "a.npz", grid=(3, 4))
    assert (data.lengths, data.space) == ((6, 6), (3, 4))


def test_a_grid_of_two_axes_leaves_the_first_axis_to_time(tmp_path):
    np.savez(tmp_path / "a.npz", states=walk(6, 24).reshape(6, 6, 4), time=np.arange(6.0))
    data = read(tmp_path / "a.npz", grid=(6, 4))
    assert (data.lengths, data.space) == ((6,), (6, 4))


def test_no_time_means_that_rows_are_steps_whatever_the_file_says(tmp_path):
    np.savez(tmp_path / "a.npz", states=walk(), time=walk()[:, 0])
    assert read(tmp_path / "a.npz", time="none", dt=0.25).dt == 0.25
    smooth = np.sin(np.arange(60) * 0.1 + np.array([[0.0], [2.0], [4.0]]))
    np.savez(tmp_path / "b.npz", states=smooth)
    with pytest.raises(InputError, match="looks transposed"):
        read(tmp_path / "b.npz")
    assert read(tmp_path / "b.npz", time="none").size == 60


def test_a_trajectory_is_numbered_where_there_are_several(tmp_path):
    times = np.sort(np.random.default_rng(0).uniform(0, 30, 6))
    for name, states, where in (("one", walk(6), ""), ("two", np.stack([walk(6)] * 2), ", trajectory 0")):
        path = tmp_path / f"{name}.npz"
        np.savez(path, states=states, time=times)
        with pytest.raises(InputError, match=f"{name}.npz{where}: unevenly sampled"):
            read(path)


def test_an_axis_called_channel_needs_no_labels():
    values = np.random.default_rng(0).standard_normal((5, 4, 2))
    data = as_dataset(xr.DataArray(values, dims=("time", "x", "channel")))
    assert (data.space, len(data.channels)) == ((4,), 2)
    np.testing.assert_array_equal(data.shaped(data.series[0].states), values.transpose(0, 2, 1))
