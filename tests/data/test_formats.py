import warnings

import h5py
import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr

from lln.core.errors import InputError
from lln.data import Dataset, Series, as_dataset, simulated
from lln.data.read.formats import FORMATS, read, to_xarray, write
from lln.systems import preset

STRUCTURED = [".npz", ".csv", ".h5", ".hdf5", ".nc", ".zarr"]


def plain(rows=30, n=3, seed=0, dtype=np.float64):
    return np.random.default_rng(seed).standard_normal((rows, n)).cumsum(axis=0).astype(dtype)


def grid_data():
    states = plain(12, 2 * 3 * 4)
    coords = {"lat": np.array([-1.0, 0.5, 7.25]), "lon": np.array([0.0, 0.1, 0.2, 0.3])}
    return Dataset((Series(states),), 0.1, space=(3, 4), channels=("u", "v"), coords=coords)


DATASETS = {
    "one trajectory": lambda: Dataset((Series(plain(), start=2.5),), 0.01, ("x", "y", "z")),
    "float32": lambda: Dataset((Series(plain(dtype=np.float32)),), 0.3, ("x", "y", "z")),
    "one column": lambda: Dataset((Series(plain(n=1)),), 0.5, ("height",)),
    "gaps": lambda: Dataset((Series(np.where(plain(seed=3) > 2, np.nan, plain())),), 0.01, ("x", "y", "z")),
    "two of one length": lambda: Dataset((Series(plain()), Series(plain(seed=1))), 1 / 3),
    "unequal lengths and starts": lambda: Dataset((Series(plain(9)), Series(plain(20, seed=1), start=1.5)), 0.25),
    "inputs and weights": lambda: Dataset(
        (Series(plain(9), plain(9, 2, 4), np.arange(9.0)), Series(plain(7, seed=2), plain(7, 2, 5), np.ones(7))),
        0.1,
        ("a", "b", "c"),
        ("force", "heat"),
    ),
    "two fields on a grid": grid_data,
    "a preset": lambda: as_dataset(simulated(preset("burgers-32"), 20)),
}


def assert_same(found, expected, exact_dtype=True):
    assert found.dt == expected.dt
    assert found.names == expected.names
    assert found.input_names == expected.input_names
    assert (found.space, found.channels, list(found.coords)) == (
        expected.space,
        expected.channels,
        list(expected.coords),
    )
    for name, values in expected.coords.items():
        np.testing.assert_array_equal(found.coords[name], values)
    assert found.lengths == expected.lengths
    for one, other in zip(found.series, expected.series, strict=True):
        np.testing.assert_array_equal(one.states, other.states)
        assert one.start == pytest.approx(other.start, abs=1e-12)
        if exact_dtype:
            assert one.states.dtype == other.states.dtype
        for what in ("inputs", "weights"):
            mine, theirs = getattr(one, what), getattr(other, what)
            assert (mine is None) == (theirs is None)
            if theirs is not None:
                np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("suffix", STRUCTURED)
@pytest.mark.parametrize("kind", DATASETS)
def test_what_we_write_we_read(tmp_path, suffix, kind):
    expected, path = DATASETS[kind](), tmp_path / f"data{suffix}"
    write(path, expected)
    assert_same(read(path), expected, exact_dtype=suffix != ".csv")
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("kind", ["one trajectory", "float32", "two of one length"])
def test_npy_keeps_the_states(tmp_path, kind):
    expected, path = DATASETS[kind](), tmp_path / "data.npy"
    write(path, expected)
    found = read(path, dt=expected.dt, names=expected.names)
    assert found.lengths == expected.lengths
    for one, other in zip(found.series, expected.series, strict=True):
        np.testing.assert_array_equal(one.states, other.states)


def test_npy_refuses_what_it_cannot_hold(tmp_path):
    path = tmp_path / "data.npy"
    with pytest.raises(InputError, match=r"different lengths; write \.npz instead"):
        write(path, DATASETS["unequal lengths and starts"]())
    assert not list(tmp_path.iterdir())


def test_npz_has_arrays_time_and_states(tmp_path):
    write(tmp_path / "b.npz", as_dataset(simulated(preset("burgers-32"), 20)))
    with np.load(tmp_path / "b.npz", allow_pickle=False) as file:
        np.testing.assert_allclose(file["time"], np.arange(21) * 0.001)
        assert file["states"].shape == (21, 32)
    found = read(tmp_path / "b.npz")
    assert found.space == (32,)
    np.testing.assert_allclose(found.coords["x"], preset("burgers-32").grid)


def test_fields_in_netcdf_are_what_xarray_users_expect(tmp_path):
    write(tmp_path / "b.nc", grid_data())
    with xr.open_dataset(tmp_path / "b.nc", engine="h5netcdf") as data:
        assert data["u"].dims == ("time", "lat", "lon")
        assert data["v"].shape == (12, 3, 4)


@pytest.mark.parametrize("suffix", STRUCTURED)
def test_writing_again_replaces(tmp_path, suffix):
    path = tmp_path / f"data{suffix}"
    write(path, DATASETS["one trajectory"]())
    write(path, DATASETS["two fields on a grid"]())
    assert_same(read(path), grid_data())
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "data.npz"
    write(path, DATASETS["one trajectory"]())

    class Broken:
        shape, dtype = (4, 3), np.dtype(np.float64)

        def __getitem__(self, rows):
            raise InputError("the disk is gone")

    with pytest.raises(InputError, match="the disk is gone"):
        write(path, Dataset((Series(Broken()),), 0.01))
    assert_same(read(path), DATASETS["one trajectory"]())
    assert [entry.name for entry in tmp_path.iterdir()] == ["data.npz"]


def test_a_folder_that_is_no_zarr_data_is_not_replaced(tmp_path):
    (tmp_path / "mine.zarr").mkdir()
    (tmp_path / "mine.zarr" / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError, match="is a folder, and not of Zarr data"):
        write(tmp_path / "mine.zarr", DATASETS["one trajectory"]())
    assert (tmp_path / "mine.zarr" / "thesis.txt").exists()


@pytest.mark.parametrize("version", [2, 3])
def test_zarr_data_of_either_version_is_replaced(tmp_path, version):
    zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=version).create_array("old", data=np.zeros(3))
    write(tmp_path / "a.zarr", DATASETS["one trajectory"]())
    assert not (tmp_path / "a.zarr" / "old").exists()


def test_npz_of_one_s_own(tmp_path):
    states, times = plain(), np.arange(30) * 0.02 + 5
    np.savez(tmp_path / "a.npz", t=times, X=states)
    found = read(tmp_path / "a.npz")
    assert (found.dt, found.series[0].start) == (0.02, 5.0)
    np.testing.assert_array_equal(found.series[0].states, states)
    np.savez(tmp_path / "b.npz", t=times, X=states.T)
    turned = read(tmp_path / "b.npz")
    np.testing.assert_array_equal(turned.series[0].states, states)
    assert "was transposed" in turned.notes[0]
    np.savez(tmp_path / "c.npz", first=states, second=states[:, :2], clock=times)
    with pytest.raises(InputError, match=r"several variables could be the state .* name one or more with --states"):
        read(tmp_path / "c.npz", time="clock")
    chosen = read(tmp_path / "c.npz", time="clock", states="second")
    assert (chosen.size, chosen.dt) == (2, 0.02)


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".h5"])
def test_the_axis_of_time_of_a_single_array(tmp_path, suffix):
    states, path = simulated(preset("lorenz-28"), 60).states.T, tmp_path / f"a{suffix}"
    if suffix == ".h5":
        with h5py.File(path, "w") as file:
            file["X"] = states
    else:
        np.save(path, states) if suffix == ".npy" else np.savez(path, X=states)
    with pytest.raises(InputError, match=r"looks transposed, .* say --time 1, or --time 0 .*time=1, time=0"):
        read(path)
    for axis in (1, "1"):
        found = as_dataset(path, time=axis, dt=0.1)
        assert (found.dt, found.source) == (0.1, str(path))
        np.testing.assert_array_equal(found.series[0].states, states.T)
    assert as_dataset(path, time=0).size == as_dataset(path, time="0").size == 61


def test_the_axis_of_time_where_there_are_more_arrays_and_trajectories(tmp_path):
    states = np.stack([plain(), plain(seed=1)])
    np.savez(tmp_path / "a.npz", states=states.swapaxes(1, 2), force=np.ones((2, 1, 30)), mass=[1.0, 2.0])
    found = read(tmp_path / "a.npz", time="1", states="states", inputs="force")
    assert (found.lengths, found.inputs) == ((30, 30), 1)
    np.testing.assert_array_equal(found.series[1].states, states[1])
    np.save(tmp_path / "b.npy", states)
    assert read(tmp_path / "b.npy", time=0).lengths == (30, 30)
    turned = xr.DataArray(plain().T, dims=("a", "b"))
    assert as_dataset(turned, time=1).lengths == (30,)
    write(tmp_path / "c.npz", DATASETS["one trajectory"]())
    with pytest.raises(InputError, match="no variable '1' for time"):
        read(tmp_path / "c.npz", time="1")


def test_stacked_npz_and_its_inputs(tmp_path):
    states = np.stack([plain(), plain(seed=1)])
    np.savez(tmp_path / "a.npz", states=states, time=np.arange(30) * 0.5, force=np.ones((2, 30, 1)), mass=[1.0, 2.0])
    found = read(tmp_path / "a.npz", states="states", inputs="force")
    assert (found.lengths, found.inputs, found.input_names) == ((30, 30), 1, ("force0",))


def test_hdf5_of_one_s_own_with_a_group_for_each_trajectory(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for index in range(3):
            file[f"run{index}/time"] = np.arange(10 + index) * 0.1
            file[f"run{index}/positions"] = plain(10 + index, seed=index)
    found = read(tmp_path / "a.h5")
    assert found.lengths == (10, 11, 12)
    assert found.dt == 0.1
    np.testing.assert_array_equal(found.series[2].states, plain(12, seed=2))


def test_hdf5_of_one_s_own_with_space_behind_time(tmp_path):
    values = np.random.default_rng(0).standard_normal((2, 9, 4, 5))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["t"], file["density"] = np.arange(9) * 0.1, values
    found = read(tmp_path / "a.h5")
    assert (found.lengths, found.space, found.channels, list(found.coords)) == (
        (9, 9),
        (4, 5),
        ("density",),
        ["x", "y"],
    )
    np.testing.assert_array_equal(found.series[1].states, values[1].reshape(9, 20))


def ragged(file):
    file.create_dataset("notes", (2,), dtype=h5py.vlen_dtype(np.float64))[0] = [1.0, 2.0]


def references(file):
    file.create_dataset("notes", (1,), dtype=h5py.ref_dtype)[0] = file["time"].ref


def odd_class(file):
    file["states"].attrs["CLASS"] = [b"a", b"b"]


def odd_list_of_scales(file):
    file["states"].attrs["DIMENSION_LIST"] = [1.0, 2.0]


@pytest.mark.parametrize("odd", [ragged, references, odd_class, odd_list_of_scales])
def test_what_lln_cannot_use_does_not_stop_an_hdf5_file(tmp_path, odd):
    with h5py.File(tmp_path / "d.h5", "w") as file:
        file["time"], file["states"] = np.arange(30) * 0.1, np.arange(60.0).reshape(30, 2)
        odd(file)
    dataset = read(tmp_path / "d.h5")
    np.testing.assert_array_equal(dataset.series[0].rows(0, 30), np.arange(60.0).reshape(30, 2))


def test_links_out_of_an_hdf5_file_are_not_followed(tmp_path):
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["secret"] = np.ones((5, 2))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["states"] = plain()
        file["x"] = h5py.ExternalLink("other.h5", "/secret")
    assert read(tmp_path / "a.h5").size == 3


def test_netcdf_of_a_climate_kind(tmp_path):
    time = np.arange(8) * 6.0
    packed = np.arange(8 * 2 * 3).reshape(8, 3, 2)
    packed[2] = -99
    data = xr.Dataset(
        {
            "t2m": (
                ("time", "lon", "lat"),
                packed.astype(np.int16),
                {"scale_factor": 0.5, "_FillValue": np.int16(-99)},
            ),
            "mask": (("lat", "lon"), np.ones((2, 3))),
        },
        {"time": ("time", time, {"units": "hours since 2000-01-01"}), "lat": [10.0, 20.0], "lon": [1.0, 2.0, 3.0]},
    )
    data.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    found = read(tmp_path / "a.nc")
    assert (found.dt, found.space, found.channels) == (6.0, (3, 2), ("t2m",))
    assert found.units["time"] == "hours since 2000-01-01"
    np.testing.assert_array_equal(found.series[0].states[1], packed[1].reshape(-1) * 0.5)
    assert np.isnan(found.series[0].states[2]).all()
    assert found.transitions() == 5


def test_netcdf_3(tmp_path):
    data = to_xarray(DATASETS["one trajectory"]()).drop_vars("state")
    data.to_netcdf(tmp_path / "a.nc", engine="scipy")
    np.testing.assert_array_equal(read(tmp_path / "a.nc").series[0].states, plain())


@pytest.mark.parametrize("version", [2, 3])
def test_zarr_of_one_s_own(tmp_path, version):
    group = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=version)
    for name, values in {"states": plain(), "time": np.arange(30) * 0.1}.items():
        group.create_array(name, shape=values.shape, dtype=values.dtype)[...] = values
    found = read(tmp_path / "a.zarr")
    assert found.dt == 0.1
    np.testing.assert_array_equal(found.series[0].states, plain())
    array = zarr.open_array(tmp_path / "b.zarr", mode="w", shape=(30, 3), dtype="f8", zarr_format=version)
    array[...] = plain()
    np.testing.assert_array_equal(read(tmp_path / "b.zarr").series[0].states, plain())


def test_a_list_of_files(tmp_path):
    one, two = tmp_path / "a.npz", tmp_path / "b.csv"
    write(one, Dataset((Series(plain(9)),), 0.1, ("a", "b", "c")))
    write(two, Dataset((Series(plain(8, seed=1)),), 0.1, ("a", "b", "c")))
    assert as_dataset([one, str(two)]).lengths == (9, 8)
    write(two, Dataset((Series(plain(8)),), 0.2, ("a", "b", "c")))
    with pytest.raises(InputError, match=r"has dt = 0\.1 but .* has dt = 0\.2; bring them to one step"):
        as_dataset([one, two])


def test_a_handle_is_not_left_open_for_what_was_read(tmp_path):
    path = tmp_path / "a.h5"
    write(path, DATASETS["one trajectory"]())
    read(path)
    with warnings.catch_warnings(), h5py.File(path, "a") as file:
        assert "states" in file


def test_a_dataframe_of_dates():
    index = pd.date_range("2020-01-01", periods=6, freq="h", name="when")
    frame = pd.DataFrame({"a": np.arange(6.0) ** 2, "b": 1.5 ** np.arange(6.0)}, index=index)
    found = as_dataset(frame)
    assert (found.dt, found.names) == (3600.0, ("a", "b"))
    assert found.units["time"] == "seconds since 2020-01-01T00:00:00"
    assert as_dataset(frame.drop(index[2])).transitions() == 3


def test_a_dataframe_in_long_form():
    frame = pd.DataFrame({"run": [7, 7, 7, 5, 5], "time": [0, 1, 2, 0, 1], "x": [1.0, 2.0, 4.0, 3.0, 5.0]})
    found = as_dataset(frame)
    assert (found.lengths, found.names, found.dt) == ((3, 2), ("x",), 1.0)
    assert as_dataset(frame.rename(columns={"run": "seed"}), trajectory="seed").lengths == (3, 2)
    with pytest.raises(InputError, match=r"no column 'sead' for trajectory; did you mean 'seed'\?"):
        as_dataset(frame.rename(columns={"run": "seed"}), trajectory="sead")


def test_every_suffix_has_a_name():
    assert set(FORMATS) >= {".npz", ".npy", ".csv", ".h5", ".hdf5", ".nc", ".zarr"}


def test_two_trajectories_in_csv_are_numbered(tmp_path):
    write(tmp_path / "a.csv", as_dataset([plain(), plain()]))
    assert (tmp_path / "a.csv").read_text().startswith("trajectory,time,")
