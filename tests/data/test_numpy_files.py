"""npy and npz files that are large, change while they are in use, or claim more than there is."""

import subprocess
import sys
import tracemalloc
import zipfile

import numpy as np
import pytest

from lln.core.errors import InputError
from lln.data import as_dataset, moments
from lln.data.read import store as lazy
from lln.data.read.formats import read
from lln.data.read.store import FileRows

STATES = np.random.default_rng(0).standard_normal((2, 300, 4)).cumsum(axis=1)

TRUNCATED = """
import os, sys
import numpy as np
from lln.core.errors import InputError
from lln.data import as_dataset
from lln.data.read import store as lazy
lazy.LAZY_BYTES = 1000
path, how = sys.argv[1:]
data = as_dataset(path if how == "path" else np.load(path, mmap_mode="r"))
assert data.lazy
data.series[0].rows(0, 2)
os.truncate(path, 4096)
try:
    data.series[0].rows(20000, 20002)
except InputError as error:
    print(error)
"""


@pytest.mark.parametrize("how", ["path", "map"])
def test_a_file_that_is_truncated_in_use_is_a_sentence_and_no_crash(tmp_path, how):
    np.save(tmp_path / "a.npy", np.random.default_rng(0).standard_normal((30000, 2)).cumsum(axis=0))
    words = [sys.executable, "-c", TRUNCATED, str(tmp_path / "a.npy"), how]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert "was cut short while it was in use" in done.stdout


@pytest.mark.parametrize(
    "key", [np.s_[3:9], np.s_[1], np.s_[1, 5:8], np.s_[0, 5:8, 2], np.s_[:, 5:8], np.s_[...], np.s_[1:1]]
)
def test_rows_in_a_file_are_indexed_as_arrays_are(tmp_path, key):
    np.save(tmp_path / "a.npy", STATES)
    with (tmp_path / "a.npy").open("rb") as file:
        begin = len(file.read()) - STATES.nbytes
    np.testing.assert_array_equal(FileRows(tmp_path / "a.npy", begin, STATES.shape, STATES.dtype)[key], STATES[key])


def test_large_files_give_the_same_moments(tmp_path, monkeypatch):
    np.save(tmp_path / "a.npy", STATES)
    whole = moments(as_dataset(STATES), 2)
    monkeypatch.setattr(lazy, "LAZY_BYTES", 1000)
    found = read(tmp_path / "a.npy")
    assert found.lazy
    np.testing.assert_allclose(moments(found, 2).scatter, whole.scatter, rtol=1e-12, atol=1e-9)


def test_arrays_are_counted_together_before_the_first_is_read(tmp_path, monkeypatch):
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("states", "inputs", "weights"):
            with archive.open(f"{name}.npy", "w") as file:
                np.lib.format.write_array(file, np.zeros((1_000_000, 2)))
    monkeypatch.setattr(lazy, "available", lambda: 40_000_000)
    tracemalloc.start()
    with pytest.raises(InputError, match=r"holds 0\.048 GB, more than the free memory of this machine"):
        read(tmp_path / "a.npz")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5_000_000
