import numpy as np
import pytest

from lln.core.errors import InputError
from lln.data import Trajectory, increments, one_step_pairs, split


def counting(length):
    """A trajectory whose states are their own index."""
    return Trajectory(np.arange(length, dtype=float)[:, None], dt=0.5, name="count")


def test_the_paper_s_split():
    part = split(counting(4001))
    np.testing.assert_array_equal(part.inputs[:, 0], np.arange(500, 3500))
    np.testing.assert_array_equal(part.targets[:, 0], np.arange(501, 3501))
    assert part.start[0] == 3500
    np.testing.assert_array_equal(part.truth[:, 0], np.arange(3501, 4001))
    np.testing.assert_array_equal(part.increments, np.ones((3000, 1)))
    assert part.dt == 0.5


def test_a_trajectory_one_state_too_short_is_refused():
    message = r"count: the split needs 4001 states \(burn-in 500, 3000 pairs, 500 test steps\), got 4000"
    with pytest.raises(InputError, match=message):
        split(counting(4000))


def test_a_split_needs_pairs():
    with pytest.raises(InputError, match="pairs must be an integer of at least 1, got 0"):
        split(counting(10), pairs=0)


def test_increments_of_float32_states_are_exact_differences():
    inputs, targets = one_step_pairs(np.array([[1.0], [1.0 + 2**-20], [1.0]], dtype=np.float32))
    got = increments(inputs, targets)
    assert got.dtype == np.float64
    np.testing.assert_array_equal(got[:, 0], [2**-20, -(2**-20)])


def test_unequal_pairs_are_refused():
    with pytest.raises(InputError, match=r"must have one shape, got \(3, 1\) and \(2, 1\)"):
        increments(np.ones((3, 1)), np.ones((2, 1)))


def test_one_state_makes_no_pair():
    with pytest.raises(InputError, match=r"at least 2 times, got \(1, 4\)"):
        one_step_pairs(np.ones((1, 4)))
