import numpy as np
import pytest
from scipy import stats

from lln.core.errors import InputError
from lln.evaluate import distribution_distance, sliced_distance

RNG = np.random.default_rng(0)
TRUTH = RNG.standard_normal((2000, 3)) * [1.0, 10.0, 0.1]


def test_it_is_wassersteins_distance_of_each_coordinate_in_units_of_its_spread():
    guess = RNG.exponential(size=(700, 3))
    unit = TRUTH.std(axis=0)
    right = [stats.wasserstein_distance(guess[:, j] / unit[j], TRUTH[:, j] / unit[j]) for j in range(3)]
    assert distribution_distance(guess, TRUTH) == pytest.approx(np.mean(right), rel=1e-12)


def test_a_shift_costs_its_size_and_the_order_of_rows_nothing():
    unit = np.array([1.0, 10.0, 0.1])
    assert distribution_distance(TRUTH[::-1] + 0.3 * unit, TRUTH, unit) == pytest.approx(0.3)
    assert distribution_distance(TRUTH.reshape(4, 500, 3), TRUTH) == 0.0


def test_slices_see_that_coordinates_hang_together():
    x = RNG.standard_normal((4000, 1))
    together, opposite = np.concatenate([x, x], axis=1), np.concatenate([x, -x], axis=1)
    assert distribution_distance(opposite, together) < 0.05
    # Along (cos a, sin a) both are normal with spreads |cos a + sin a| and |cos a - sin a|, and Wasserstein's distance
    # of two normal variables is the difference of their spreads times the mean size sqrt(2 / pi) of a standard one.
    angles = np.linspace(0, 2 * np.pi, 10_001)
    gap = np.abs(np.abs(np.cos(angles) - np.sin(angles)) - np.abs(np.cos(angles) + np.sin(angles))).mean()
    expected = np.sqrt(2 / np.pi) * gap
    assert sliced_distance(opposite, together, [1.0, 1.0], directions=256) == pytest.approx(expected, rel=0.1)
    assert sliced_distance(together, together) == 0.0


def test_a_column_that_does_not_vary_keeps_its_units():
    assert distribution_distance(np.full((5, 1), 3.0), np.full((9, 1), 1.0)) == pytest.approx(2.0)


def test_a_diverged_rollout_cannot_hide():
    lost = TRUTH.copy()
    lost[7, 1] = np.nan
    assert distribution_distance(lost, TRUTH) == np.inf
    assert sliced_distance(lost, TRUTH) == np.inf


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((TRUTH[:, :2], TRUTH), "with one n"),
        ((TRUTH, np.full((4, 3), np.nan)), "truth must be finite"),
        ((TRUTH, TRUTH, [1.0, 0.0, 1.0]), "scale must be 3 numbers above zero"),
    ],
)
def test_bad_input_gets_a_sentence(arguments, message):
    for distance in (distribution_distance, sliced_distance):
        with pytest.raises(InputError, match=message):
            distance(*arguments)
