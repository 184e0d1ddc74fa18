import numpy as np
import pytest

from lln.core.errors import InputError
from lln.evaluate import spread_skill

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("size", [2, 5])
def test_an_honest_ensemble_is_as_wide_as_it_is_wrong(size):
    draws = RNG.standard_normal((size + 1, 200, 10, 20))
    found = spread_skill(draws[1:], draws[0])
    # 4000 draws a step: a standard deviation is known to 1 / sqrt(2 * 4000) = 1.1 %, a ratio of two to 1.6 %.
    np.testing.assert_allclose(found.ratio, 1.0, atol=0.08)
    assert found.overall == pytest.approx(1.0, abs=0.03)
    np.testing.assert_allclose(found.ranks, 1 / (size + 1), atol=0.01)
    # Of a normal variable against its own distribution the score is 1 / sqrt(pi), whatever the number of members.
    np.testing.assert_allclose(found.crps, 1 / np.sqrt(np.pi), atol=0.06)


def test_an_ensemble_that_is_too_sure_shows():
    draws = RNG.standard_normal((6, 200, 10, 20))
    found = spread_skill(0.1 * draws[1:], draws[0])
    assert found.overall < 0.15
    assert found.ranks[0] > 0.4
    assert found.ranks[-1] > 0.4
    assert found.ranks.sum() == pytest.approx(1.0)


def test_by_hand():
    members = np.array([0.0, 1.0])[:, None, None] * np.ones((2, 1, 1))
    found = spread_skill(members, [[0.25]])
    assert found.spread[0] == pytest.approx(np.sqrt(1.5 * 0.5))
    assert found.error[0] == pytest.approx(0.25)
    assert found.crps[0] == pytest.approx((0.25 + 0.75) / 2 - 0.5 * 1.0)
    np.testing.assert_allclose(found.ranks, [0, 1, 0])
    assert spread_skill(members, [[0.25]], scale=[0.5]).error[0] == pytest.approx(0.5)


def test_ties_are_shared_and_agreement_is_a_ratio_of_one():
    found = spread_skill(np.ones((3, 4, 2)), np.ones((4, 2)))
    np.testing.assert_allclose(found.ranks, 0.25)
    np.testing.assert_array_equal(found.ratio, 1.0)
    assert found.overall == 1.0
    assert spread_skill(np.array([-1.0, 1.0]).reshape(2, 1, 1), [[0.0]]).overall == np.inf


def test_a_lost_member_makes_the_ensemble_infinitely_wrong():
    members = np.zeros((2, 3, 1))
    members[1, 2] = np.nan
    found = spread_skill(members, np.zeros((3, 1)))
    np.testing.assert_array_equal(found.error, [0, 0, np.inf])
    np.testing.assert_array_equal(found.crps, [0, 0, np.inf])
    np.testing.assert_array_equal(found.ratio, [1, 1, 0])
    assert found.overall == 0.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.ones((1, 3, 2)), np.ones((3, 2))), r"at least 2 members"),
        ((np.ones((2, 3, 2)), np.ones((4, 2))), r"got \(2, 3, 2\) and \(4, 2\)"),
        ((np.ones((2, 3, 2)), np.full((3, 2), np.nan)), "truth must be finite"),
        ((np.ones((2, 3, 2)), np.ones((3, 2)), [1.0]), "scale must be 2 numbers"),
    ],
)
def test_bad_input_gets_a_sentence(arguments, message):
    with pytest.raises(InputError, match=message):
        spread_skill(*arguments)
