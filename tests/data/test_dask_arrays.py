"""Arrays of Dask, in xarray objects or alone, stream: only the rows that are needed are computed."""

import numpy as np
import pytest
import xarray as xr

from lln.data import as_dataset, pair_batches, pairs
from lln.data.read import store as lazy

da = pytest.importorskip("dask.array")
STATES = np.random.default_rng(0).standard_normal((1000, 4)).cumsum(axis=0)


@pytest.fixture
def counted(monkeypatch):
    """An array in chunks of 100 rows, and the rows whose chunks were computed."""
    monkeypatch.setattr(lazy, "LAZY_BYTES", 1000)
    seen = []

    def load(block_info=None):
        first = block_info[None]["array-location"][0][0]
        seen.append(first)
        return STATES[first : first + 100]

    return da.map_blocks(load, chunks=((100,) * 10, (4,)), dtype=float), seen


def forms(array):
    yield array
    yield xr.DataArray(array, dims=("time", "state"), name="u")
    yield xr.Dataset({"u": (("time", "state"), array)}, {"time": np.arange(1000) * 0.1})


@pytest.mark.parametrize("form", [0, 1, 2])
def test_only_the_chunks_of_the_rows_are_computed(counted, form):
    array, seen = counted
    seen.clear()
    data = as_dataset(list(forms(array))[form])
    assert data.lazy
    assert seen == []
    np.testing.assert_array_equal(data.series[0].rows(250, 320), STATES[250:320])
    assert set(seen) == {200, 300}


def test_batches_come_one_at_a_time(counted):
    array, seen = counted
    data = as_dataset(xr.Dataset({"u": (("time", "state"), array)}))
    data.stretches()
    seen.clear()
    first = next(pair_batches(data, 1, rows=50))
    np.testing.assert_array_equal(first.window[:, 0], STATES[:50])
    assert set(seen) == {0}
    found = np.concatenate([batch.target for batch in pair_batches(data, 1, rows=300)])
    np.testing.assert_array_equal(found, pairs(as_dataset(STATES)).target)


def test_an_array_beyond_all_memory_is_never_computed_whole():
    huge = da.random.default_rng(0).standard_normal((2 * 10**9, 3), chunks=(10**6, 3))  # 48 GB
    data = as_dataset(xr.DataArray(huge, dims=("time", "state")))
    assert (data.lazy, data.rows) == (True, 2 * 10**9)
    assert data.series[0].rows(0, 5).shape == (5, 3)


def test_a_zarr_store_opened_with_dask_streams(tmp_path, monkeypatch):
    pytest.importorskip("zarr")
    monkeypatch.setattr(lazy, "LAZY_BYTES", 1000)
    xr.Dataset({"u": (("time", "state"), STATES)}, {"time": np.arange(1000.0)}).to_zarr(
        tmp_path / "a.zarr", zarr_format=2, encoding={"u": {"chunks": (100, 4)}}
    )
    with xr.open_zarr(tmp_path / "a.zarr") as opened:
        data = as_dataset(opened)
        assert data.lazy
        np.testing.assert_array_equal(data.series[0].rows(250, 320), STATES[250:320])
