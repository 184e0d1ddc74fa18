import json
import pickle
import subprocess
import sys

import h5py
import numpy as np
import pytest
import zarr

from lln.core.errors import InputError
from lln.data import Series, as_dataset, moments, pairs
from lln.data.read import store as lazy
from lln.data.read.formats import read, write

ROWS, N, BLOCK = 2_200_000, 32, 40_000  # 282 MB of float32, above what is read at once

CHILD = """
import json, resource, sys
import numpy as np
import h5py, zarr
from lln.data import as_dataset, moments, pair_batches
from lln.data.read.formats import read

path = sys.argv[1]
# What the libraries take once for themselves (threads, buffers for products) comes before the limit.
np.ones((500, 500)) @ np.ones((500, 500)), read(path).series[0].rows(0, 10)
used = int(next(line for line in open("/proc/self/status") if line.startswith("VmData")).split()[1]) * 1024
# Less than the file, let alone its numbers in float64; more than the blocks that are worked on.
resource.setrlimit(resource.RLIMIT_DATA, (used + 240_000_000, used + 240_000_000))
data = read(path)
assert data.lazy
found = moments(data, 2)
count = 0
for batch in pair_batches(data, 2, rows=20_000, shuffle=1):
    count += len(batch)
    if count > 100_000:
        break
assert len(data.digest()) == 32
try:
    np.ascontiguousarray(data.series[0].rows(0, len(data.series[0])))
    whole = "fits"
except Exception as error:
    whole = type(error).__name__
print(json.dumps({"pairs": found.pairs, "mean": found.mean.tolist(), "dt": data.dt, "whole": whole}))
"""


BASE = np.random.default_rng(7).standard_normal((BLOCK, N))


def block(index):
    return (BASE + 0.01 * index).astype(np.float32)


def write_large(path):
    if path.suffix == ".h5":
        with h5py.File(path, "w") as file:
            states = file.create_dataset("states", (ROWS, N), "f4", chunks=(BLOCK // 8, N))
            file["time"] = np.arange(ROWS) * 0.25
            for index in range(ROWS // BLOCK):
                states[index * BLOCK : (index + 1) * BLOCK] = block(index)
        return
    group = zarr.open_group(path, mode="w", zarr_format=2)
    options = {"dtype": "f4", "chunks": (BLOCK, N), "compressors": None}
    states = group.create_array("states", shape=(ROWS, N), **options)
    group.create_array("time", shape=(ROWS,), dtype="f8")[...] = np.arange(ROWS) * 0.25
    for index in range(ROWS // BLOCK):
        states[index * BLOCK : (index + 1) * BLOCK] = block(index)


@pytest.mark.parametrize("suffix", [".h5", pytest.param(".zarr", marks=pytest.mark.slow)])
def test_data_beyond_a_hard_memory_limit_streams(tmp_path, suffix):
    path = tmp_path / f"large{suffix}"
    write_large(path)
    # One heap for all of Zarr's threads: each would else keep what it was given once.
    environment = {
        "MALLOC_ARENA_MAX": "1",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "PATH": "/usr/bin:/bin",
    }
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(path)], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert (said["pairs"], said["dt"]) == (ROWS - 2, 0.25)
    assert said["whole"] in ("MemoryError", "InputError")
    expected = BASE.mean(axis=0) + 0.01 * (ROWS // BLOCK - 1) / 2
    # Two pairs in 2.5 million are not in the mean, and float32 rounds each value by up to 6e-8 of about 4.
    np.testing.assert_allclose(said["mean"][:N], expected, atol=1e-5)


@pytest.fixture
def small_limit(monkeypatch):
    monkeypatch.setattr(lazy, "LAZY_BYTES", 500)


STATES = np.random.default_rng(0).standard_normal((2, 300, 4)).cumsum(axis=1)


@pytest.mark.usefixtures("small_limit")
@pytest.mark.parametrize("kind", ["h5", "nc", "zarr", "npy"])
def test_rows_on_the_disk_are_the_rows_in_memory(tmp_path, kind):
    from lln.data import Dataset

    path = tmp_path / f"a.{kind}"
    write(path, Dataset(tuple(Series(one) for one in STATES), 0.1))
    data = read(path)
    assert data.lazy
    assert data.lengths == (300, 300)
    whole = as_dataset(STATES)
    np.testing.assert_array_equal(pairs(data, 2).window, pairs(whole, 2).window)
    np.testing.assert_allclose(moments(data, 2, rows=50).scatter, moments(whole, 2).scatter, rtol=1e-12, atol=1e-9)
    part = data.cut(10, 20)
    np.testing.assert_array_equal(part.series[1].rows(2, 5), STATES[1, 12:15])
    if kind != "npy":
        again = pickle.loads(pickle.dumps(data))
        np.testing.assert_array_equal(again.series[0].rows(0, 300), STATES[0])


@pytest.mark.usefixtures("small_limit")
def test_times_on_the_disk_are_looked_at_too(tmp_path):
    times = np.arange(300) * 0.1
    times[100:] += 2.0
    times[200:] -= 15.0

    def written(clock):
        with h5py.File(tmp_path / "a.h5", "w") as file:
            file["states"], file["time"] = STATES[0], clock
        return read(tmp_path / "a.h5")

    data = written(times)
    assert data.lengths == (100, 100, 100)
    assert data.dt == pytest.approx(0.1)
    assert data.series[1].start == pytest.approx(12.0)
    with pytest.raises(InputError, match="unevenly sampled"):
        written(np.sort(np.random.default_rng(0).uniform(0, 30, 300)))


@pytest.mark.usefixtures("small_limit")
def test_an_open_hdf5_array_is_data(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["states"] = STATES
        data = as_dataset(file["states"], dt=0.1)
        assert data.lazy
        np.testing.assert_array_equal(pairs(data).target, pairs(as_dataset(STATES)).target)


@pytest.mark.usefixtures("small_limit")
def test_infinity_on_the_disk_is_found_when_it_is_read(tmp_path):
    states = STATES[0].copy()
    states[250, 1] = np.inf
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["states"] = states
    with pytest.raises(InputError, match="inf at row 250, column 1"):
        moments(read(tmp_path / "a.h5"))


def walk(rows=40, n=3, seed=0):
    return np.random.default_rng(seed).standard_normal((rows, n)).cumsum(axis=0)


def stored(tmp_path, **arrays):
    path = tmp_path / "named.h5"
    with h5py.File(path, "w") as file:
        for name, values in arrays.items():
            file[name] = values
    return path


@pytest.mark.usefixtures("small_limit")
def test_a_group_for_each_trajectory_stays_on_the_disk_too(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for k in range(2):
            file[f"run{k}/states"] = walk(seed=k)
    data = read(tmp_path / "a.h5")
    assert data.lazy
    for k in range(2):
        np.testing.assert_array_equal(data.series[k].rows(3, 9), walk(seed=k)[3:9])


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


@pytest.mark.usefixtures("small_limit")
@pytest.mark.parametrize("jumps", [150, 151])
def test_times_on_the_disk_may_jump_at_half_of_the_rows(tmp_path, jumps):
    steps = np.ones(300)
    steps[1 : 1 + jumps] = np.where(np.arange(jumps) % 2, 5.0, -7.0)
    path = stored(tmp_path, states=walk(300), time=np.cumsum(steps))
    if jumps > 150:
        with pytest.raises(InputError, match="time jumps at 151 of 300 rows"):
            read(path)
    else:
        assert len(read(path).lengths) == 151
