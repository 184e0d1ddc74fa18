import numpy as np
import pytest

from lln.core.errors import InputError
from lln.evaluate import invariant_drift
from lln.systems import preset, simulate


def energy(states):
    return 0.5 * np.square(states).sum(axis=-1)


def test_drift_is_relative_to_the_start():
    states = np.array([[[2.0, 0.0], [0.0, 2.0], [0.0, 3.0]], [[1.0, 1.0], [1.0, 1.0], [1.0, 0.0]]])
    found = invariant_drift(states, energy)
    np.testing.assert_allclose(found.values, [[2.0, 2.0, 4.5], [1.0, 1.0, 0.5]])
    assert found.scale == 1.5
    np.testing.assert_allclose(found.drift, [[0.0, 0.0, 2.5 / 1.5], [0.0, 0.0, -0.5 / 1.5]])
    assert found.largest == found.last == pytest.approx(2.5 / 1.5)
    assert invariant_drift(states, energy, scale=0.5).largest == pytest.approx(5.0)


def test_what_a_system_declares_can_be_followed_along_its_own_trajectory():
    chain = preset("springchain-32")
    states = simulate(chain, 200, dtype="float64")
    for invariant in chain.invariants().values():
        # RK4 loses energy like dt^5 a step in the fastest mode (frequency 2): 200 * (0.04)^6 / 72 is 1e-8.
        assert invariant_drift(states, invariant).largest < 1e-7
        assert invariant_drift(1.01 ** np.arange(201)[:, None] * states, invariant).largest > 1


def test_a_diverged_rollout_drifts_without_bound():
    states = np.array([[1.0], [np.nan], [2.0]])
    found = invariant_drift(states, lambda x: np.ones(x.shape[:-1]))
    np.testing.assert_array_equal(found.drift, [0.0, np.inf, 0.0])
    assert found.largest == np.inf


def test_an_invariant_of_zero_has_no_relative_drift():
    assert invariant_drift([[0.0], [0.5]], lambda x: x[..., 0]).largest == 0.5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0, 2.0], energy), r"states must be \(\.\.\., time, n\)"),
        (([[1.0], [2.0]], lambda x: x), r"the invariant must map \(2, 1\) to \(2,\), got \(2, 1\)"),
        (([[np.nan], [2.0]], energy), "first row of the states must be finite"),
    ],
)
def test_bad_input_gets_a_sentence(arguments, message):
    with pytest.raises(InputError, match=message):
        invariant_drift(*arguments)


def test_a_row_that_is_lost_is_lost_in_its_own_trajectory_alone():
    states = np.ones((2, 3, 5))
    states[1, 2, 0] = np.nan
    found = invariant_drift(states, lambda x: np.ones(x.shape[:-1]))
    assert found.drift.tolist() == [[0.0, 0.0, 0.0], [0.0, 0.0, np.inf]]
