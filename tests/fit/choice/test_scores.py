import numpy as np
import pytest

from lln.fit.choice.holdout import RolloutErrors, better_by, horizon_of, lead_times, squares

RNG = np.random.default_rng(0)


def errors(values):
    values = np.asarray(values, dtype=float)
    return RolloutErrors(lead_times(2 ** (values.shape[1] - 1)), values)


@pytest.mark.parametrize(("steps", "leads"), [(1, (1,)), (8, (1, 2, 4, 8)), (11, (1, 2, 4, 8, 11))])
def test_lead_times_double_and_end_with_the_last_step(steps, leads):
    assert lead_times(steps) == leads


def test_errors_are_means_over_the_first_steps():
    truth = np.zeros((1, 4, 1))
    predicted = np.array([[[1.0], [1.0], [3.0], [3.0]]])
    found = RolloutErrors.of(predicted, truth, np.array([2.0]), (1, 2, 4))
    np.testing.assert_allclose(found.values, [[0.25, 0.25, 1.25]])


def test_what_is_not_finite_is_lost():
    predicted = np.array([[[0.0], [np.nan]]])
    found = RolloutErrors.of(predicted, np.zeros((1, 2, 1)), np.ones(1), (1, 2))
    assert found.values[0, 0] == pytest.approx(1e-24)
    assert found.values[0, 1] == pytest.approx(500.0)


def test_a_model_that_is_right_for_a_while_beats_the_mean_although_both_end_lost():
    # After many steps of a chaotic system every model errs by about one; a constant does so from the start.
    good = errors([[1e-6, 1e-5, 1e-3, 0.2, 0.9, 1.4]] * 4)
    mean = errors([[1.0, 1.0, 1.0, 1.0, 1.0, 1.0]] * 4)
    horizon = horizon_of([good, mean])
    assert horizon == 16
    assert good.until(horizon).score() < mean.until(horizon).score()
    assert good.valid_steps() == 8
    assert mean.valid_steps() == 0


def test_late_errors_prefer_what_keeps_the_truth_to_what_is_exact_in_one_step():
    exact = errors([[1e-9, 1e-8, 1e-6, 1e-4, 1e-2, 0.2, 2.0]] * 4)
    keeps = errors([[1e-5, 1e-5, 1e-4, 1e-3, 5e-3, 2e-2, 0.1]] * 4)
    assert exact.score() < keeps.score()
    assert keeps.late(64).leads == (8, 16, 32, 64)
    assert keeps.late(64).score() < exact.late(64).score()


def test_better_by_is_paired_by_window():
    # Windows differ a thousandfold in difficulty, the models by two in every window: that is certain.
    hard = 10.0 ** RNG.uniform(-3, 0, (16, 1))
    one, other = errors(np.tile(hard, (1, 3))), errors(np.tile(2 * hard, (1, 3)))
    gain, error = better_by(one, other)
    assert gain == pytest.approx(np.log(2))
    assert error < 1e-12


def test_arithmetic_means_count_with_noise():
    steady, lucky = errors([[0.5], [0.5]]), errors([[1e-6], [1.2]])
    assert lucky.score() < steady.score()
    assert lucky.score(noisy=True) > steady.score(noisy=True)
    gain, error = better_by(steady, lucky, noisy=True)
    assert gain == pytest.approx(np.log(1.2), rel=1e-5)
    assert error > 0


@pytest.mark.filterwarnings("error")
def test_squares_whose_mean_overflows_are_infinite_without_a_warning():
    assert squares(np.full((1, 2), 1e154), np.zeros((1, 2)), np.ones(2)).tolist() == [np.inf]
