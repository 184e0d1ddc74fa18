"""Lags of known inputs as further input columns."""

import numpy as np

from lln.data.series import Dataset, Series
from lln.data.stream import lagged_names, lagged_rows, with_input_lags


class OnDisk:
    """Rows that are read when asked for."""

    def __init__(self, values):
        self.values, self.shape, self.dtype = values, values.shape, values.dtype

    def __getitem__(self, rows):
        return self.values[rows]


def test_earlier_rows_stand_beside_the_present_one():
    found = lagged_rows(np.arange(12.0).reshape(6, 2), 2)
    assert found.shape == (4, 6)
    np.testing.assert_array_equal(found[0], [4, 5, 2, 3, 0, 1])
    np.testing.assert_array_equal(found[-1], [10, 11, 8, 9, 6, 7])
    assert lagged_names(["a", "b"], 1) == ("a", "b", "a 1 step before", "b 1 step before")


def test_rows_without_earlier_inputs_are_gaps():
    data = Dataset((Series(np.zeros((5, 1)), np.arange(5.0)[:, None]),), input_names=("u",))
    found = with_input_lags(data, 2)
    assert found.input_lags == 2
    assert found.inputs == 3
    assert found.input_names == ("u", "u 1 step before", "u 2 steps before")
    np.testing.assert_array_equal(found.series[0].inputs[2:], [[2, 1, 0], [3, 2, 1], [4, 3, 2]])
    assert found.stretches(1) == [(0, 2, 5)]
    held = with_input_lags(data, 2, hold=True)
    np.testing.assert_array_equal(held.series[0].inputs[:2], [[0, 0, 0], [1, 0, 0]])
    assert with_input_lags(data, 0) is data


def test_inputs_on_the_disk_stay_there():
    states, inputs = np.zeros((9, 1)), np.arange(18.0).reshape(9, 2)
    here = with_input_lags(Dataset((Series(states, inputs),)), 3)
    there = with_input_lags(Dataset((Series(OnDisk(states), OnDisk(inputs)),)), 3)
    assert not isinstance(there.series[0].inputs, np.ndarray)
    for first, last in ((0, 9), (1, 2), (2, 5), (5, 9)):
        np.testing.assert_array_equal(there.series[0].input_rows(first, last), here.series[0].inputs[first:last])
    cut = there.select([(0, 4, 9)])
    np.testing.assert_array_equal(cut.series[0].input_rows(0, 5), here.series[0].inputs[4:])
