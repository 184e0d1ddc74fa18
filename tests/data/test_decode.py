"""CF attributes of HDF5, NetCDF and Zarr files, decoded by xarray."""

import h5py
import numpy as np
import pytest
import scipy.io
import zarr

from lln.core.errors import InputError
from lln.data.read import store as lazy
from lln.data.read.formats import read

BASE = np.stack([np.sin(np.arange(60) * 0.1), np.cos(np.arange(60) * 0.1)], axis=1) * 100 + 110


def stored(path, data, **attrs):
    if path.suffix == ".h5":
        with h5py.File(path, "w") as file:
            file["time"] = np.arange(60) * 0.1
            file["states"] = data
            file["states"].attrs.update(attrs)
    else:
        group = zarr.open_group(path, mode="w", zarr_format=2)
        group.create_array("time", data=np.arange(60) * 0.1)
        array = group.create_array("states", data=data)
        array.attrs.update({key: np.asarray(value).tolist() for key, value in attrs.items()})
    return read(path).series[0].states


@pytest.mark.parametrize(
    ("kind", "fill"),
    [
        *[("i8", 2**63 - 1), ("i8", -(2**63)), ("i8", 2**53 + 1), ("u8", 2**64 - 1), ("i4", 2**31 - 1), ("u1", 255)],
        *[("f4", 9.96921e36), ("f4", 1e20), ("f8", 1e20), (">i2", -999), ("f4", -999.9)],
    ],
)
@pytest.mark.parametrize("wide", [False, True])
def test_fill_values_are_gaps(tmp_path, kind, fill, wide):
    data = BASE.astype(kind)
    data[5] = np.array(fill, dtype=kind)
    given = np.float64(fill) if wide and np.dtype(kind).kind == "f" else np.array(fill, dtype=kind)[()]
    for key in ("_FillValue", "missing_value"):
        states = stored(tmp_path / f"{key}.h5", data, **{key: given})
        assert np.isnan(states[5]).all()
        assert np.isnan(states).sum() == 2
        np.testing.assert_array_equal(np.delete(states, 5, 0), np.delete(data, 5, 0).astype(float))


@pytest.mark.parametrize("suffix", [".h5", ".zarr"])
def test_several_missing_values(tmp_path, suffix):
    data = BASE.astype("i2")
    data[5], data[6] = -999, -998
    states = stored(tmp_path / f"a{suffix}", data, missing_value=np.array([-999, -998], "i2"))
    assert np.flatnonzero(np.isnan(states[:, 0])).tolist() == [5, 6]


def test_a_fill_value_that_cannot_occur_changes_nothing(tmp_path):
    data = BASE.astype("i2")
    for fill in (70000, 1.5, np.nan, 2**63, "text"):
        np.testing.assert_array_equal(stored(tmp_path / "a.h5", data, _FillValue=fill), data)


def test_a_missing_value_that_only_unsigned_bytes_can_hold_marks_no_signed_one(tmp_path):
    data = np.arange(-60, 60, dtype="i1").reshape(60, 2)
    states = stored(tmp_path / "a.h5", data, missing_value=np.int16(256 - 56))
    np.testing.assert_array_equal(states, data)


@pytest.mark.parametrize("suffix", [".h5", ".zarr"])
def test_unsigned_bytes(tmp_path, suffix):
    unsigned = BASE.astype("u1")
    unsigned[5] = 255
    states = stored(tmp_path / f"a{suffix}", unsigned.view("i1"), _Unsigned="true", _FillValue=np.int8(-1))
    assert np.isnan(states[5]).all()
    np.testing.assert_array_equal(np.delete(states, 5, 0), np.delete(unsigned, 5, 0))


@pytest.mark.parametrize("suffix", [".h5", ".zarr"])
@pytest.mark.parametrize("scale", [0.5, "0.5", np.array([0.5])])
def test_scale_and_offset_also_as_text(tmp_path, suffix, scale):
    data = BASE.astype("i2")
    states = stored(tmp_path / f"a{suffix}", data, scale_factor=scale, add_offset=3)
    np.testing.assert_allclose(states, data * 0.5 + 3)


@pytest.mark.parametrize("scale", ["half", np.array([0.1, 0.2]), np.complex128(1)])
def test_a_scale_that_is_no_number_is_refused(tmp_path, scale):
    with pytest.raises(InputError, match="the attributes scale_factor of 'states' cannot be applied"):
        stored(tmp_path / "a.h5", BASE.astype("i2"), scale_factor=scale)


def test_rows_on_the_disk_are_decoded_when_they_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(lazy, "LAZY_BYTES", 100)
    data = BASE.astype("i2")
    data[5] = -999
    stored_states = stored(tmp_path / "a.h5", data, scale_factor=0.5, _FillValue=np.int16(-999))
    assert not isinstance(stored_states, np.ndarray)
    np.testing.assert_allclose(stored_states[6:20], data[6:20] * 0.5)
    assert np.isnan(stored_states[5:6]).all()


def test_a_netcdf_file_with_two_marks_for_gaps_is_read_without_a_warning(tmp_path):
    with scipy.io.netcdf_file(tmp_path / "a.nc", "w") as file:
        file.createDimension("time", 5)
        height = file.createVariable("height", "f8", ("time",))
        height[:] = [1.0, -999.0, 2.0, -888.0, 4.0]
        height._FillValue, height.missing_value = -999.0, -888.0
    np.testing.assert_array_equal(read(tmp_path / "a.nc").series[0].states[:, 0], [1, np.nan, 2, np.nan, 4])
