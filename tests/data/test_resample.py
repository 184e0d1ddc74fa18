"""Times brought to one even step."""

import numpy as np
import pytest
import xarray as xr

from lln.core.errors import InputError
from lln.data import as_dataset


def walk(rows=40, n=3, seed=0):
    return np.random.default_rng(seed).standard_normal((rows, n)).cumsum(axis=0)


def test_times_belong_to_all_trajectories_or_to_each():
    assert as_dataset([walk(5)], time=[np.arange(5) * 0.2]).dt == pytest.approx(0.2)
    assert as_dataset(np.stack([walk(5)]), time=[np.arange(5) * 0.2]).dt == pytest.approx(0.2)
    assert as_dataset(walk(1)[None], time=[3.0]).series[0].start == 3.0


def test_a_step_that_the_caller_gives_holds_where_no_times_are_known():
    assert as_dataset(xr.DataArray(walk(), dims=("time", "state")), dt=0.5).dt == 0.5


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


def test_short_steps_that_differ_between_trajectories_are_refused():
    times = [np.arange(5) * 1e-3, np.arange(5) * 1.1e-3]
    with pytest.raises(InputError, match=r"different time steps, from 0\.001 to 0\.0011"):
        as_dataset(np.stack([walk(5), walk(5)]), time=times)


def test_uneven_times_are_resampled_to_the_middle_one_of_all_steps():
    assert as_dataset(walk(4), time=[0.0, 2.0, 3.1, 7.3], resample=True).dt == 2.0
