"""Details of reading and writing that larger tests pass by."""

import json

import numpy as np
import pytest

from lln import InputError
from lln.data.interpret.description import Part
from lln.data.interpret.interpret import FAR, _even_rows, _interpolated, _resampled, _spread
from lln.data.read.formats import _extras, _reader_hints, as_dataset, write_npz
from lln.data.series import Dataset, Series
from lln.data.stream import Standardizer, moments
from lln.data.trajectory import Trajectory

ROWS = np.arange(12.0).reshape(6, 2)


def test_a_cut_trajectory_ends_before_its_last_row():
    assert Trajectory(ROWS, 0.1).cut(1, 4).states.tolist() == ROWS[1:4].tolist()


@pytest.mark.parametrize(("given", "kept"), [("float32", "float32"), ("int32", "float64")])
def test_gaps_and_new_times_keep_the_precision_of_floats(given, kept):
    part = np.arange(4, dtype=given)[:, None]
    assert _spread(part, np.array([0, 1, 3, 4]), 5).dtype == kept
    assert _interpolated(np.arange(4.0), part, np.array([0.5, 1.5])).dtype == kept


def test_a_hole_of_exactly_the_longest_length_is_interpolated():
    clock = np.array([0.0, 1.0, 2.1, 3.1, 4.1, 4.1 + FAR])
    clock[-1] = clock[-2] + FAR * np.median(np.diff(clock))
    assert np.diff(clock)[-1] == FAR * np.median(np.diff(clock))
    assert len(_resampled(clock, [ROWS], [(0, 6)], None, "here", []).segments) == 1


def test_times_of_few_digits_on_the_disk_are_even():
    times = (1e5 + 0.01 * np.arange(400)).astype(np.float32)
    parts, dt, notes = _even_rows(Part("here", times, np.zeros((400, 1))), None)
    assert (len(parts), notes) == (1, [])
    assert dt == pytest.approx(0.01, rel=0.01)


def test_one_jump_of_times_on_the_disk_is_told():
    times = np.concatenate([np.arange(5.0), 9.0 + np.arange(5.0)])
    parts, _, notes = _even_rows(Part("here", times, np.zeros((10, 1))), None)
    assert [one.start for one in parts] == [0.0, 9.0]
    assert notes == ["here: cut at 1 jumps in time"]


def test_what_is_written_beside_the_states(tmp_path):
    one = Dataset((Series(ROWS, ROWS[:, :1]),), dt=0.1)
    assert _extras(one, "time")["inputs"][0] == ("time", "input")
    assert "names" not in json.loads(_reader_hints(one))
    two = Dataset((Series(ROWS), Series(ROWS[:4])), dt=0.1)
    write_npz(tmp_path / "two.npz", two)
    with np.load(tmp_path / "two.npz") as file:
        said = next(
            json.loads(str(file[name]))
            for name in file.files
            if file[name].dtype.kind == "U" and "{" in str(file[name])
        )
    assert said["dims"]["states"] == ["trajectory", "time", "state"]


@pytest.mark.parametrize(("suffix", "said"), [("npy", "npy data that was cut short"), ("h5", "not HDF5 but npy")])
def test_broken_numpy_files_are_named(suffix, said, tmp_path):
    np.save(tmp_path / "x.npy", ROWS)
    path = tmp_path / f"y.{suffix}"
    path.write_bytes((tmp_path / "x.npy").read_bytes()[:100])
    with pytest.raises(InputError, match=said):
        as_dataset(path)


def test_moments_of_many_columns_are_the_diagonal_of_all():
    data = Dataset((Series(np.random.default_rng(0).normal(3.0, 2.0, (50, 3))),), dt=1.0)
    whole, few = moments(data, 2, rows=7), moments(data, 2, rows=7, products=False)
    np.testing.assert_allclose(few.scatter, np.diag(whole.scatter))


@pytest.mark.parametrize("shape", [(4,), (1, 3), (4, 0), (2, 2, 2)])
def test_standardising_needs_rows_and_columns(shape):
    with pytest.raises(InputError, match="needs values of shape"):
        Standardizer.fit(np.ones(shape))
