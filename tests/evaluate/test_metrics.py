import numpy as np
import pytest

from lln.core.errors import InputError
from lln.evaluate import (
    mse_by_step,
    normalized_mse,
    normalized_rmse,
    rmse_by_step,
    rollout,
    valid_prediction_steps,
)
from lln.evaluate.metrics import METRICS, named_metrics


def test_errors_are_in_units_of_the_scale():
    truth = np.zeros((2, 2))
    predicted = np.array([[1.0, 20.0], [3.0, 0.0]])
    np.testing.assert_allclose(mse_by_step(predicted, truth, scale=[1.0, 10.0]), [(1 + 4) / 2, 9 / 2])
    assert normalized_mse(predicted, truth, scale=[1.0, 10.0]) == pytest.approx((2.5 + 4.5) / 2)


def test_many_rollouts_against_one_truth():
    truth = np.random.default_rng(0).random((5, 3))
    predicted = truth + np.array([0.0, 1.0, 2.0, 3.0])[:, None, None]
    np.testing.assert_allclose(mse_by_step(predicted, truth), np.array([[0], [1], [4], [9]]) * np.ones(5), atol=1e-12)
    np.testing.assert_array_equal(valid_prediction_steps(predicted, truth), [5, 0, 0, 0])


def test_a_diverged_rollout_cannot_hide():
    run = rollout(lambda x: x**2, np.array([10.0]), 20)
    truth = np.zeros((20, 1))
    errors = mse_by_step(run.predicted, truth)
    assert np.isinf(errors[8:]).all()
    assert np.isinf(normalized_mse(run.predicted, truth))
    assert np.isinf(mse_by_step([[1e200]], [[0.0]])).all()


def test_valid_steps_end_at_the_first_crossing():
    errors = np.array([0.1, 0.39, 0.41, 0.1, 5.0])
    assert valid_prediction_steps(errors[:, None], np.zeros((5, 1))) == 2
    assert valid_prediction_steps(errors[:, None], np.zeros((5, 1)), threshold=1.0) == 4
    assert valid_prediction_steps(errors[:, None], np.zeros((5, 1)), threshold=9.0) == 5
    assert valid_prediction_steps([[np.nan]], [[0.0]]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.ones((3, 2)), np.ones((4, 2))), r"must both be \(\.\.\., steps, n\), got \(3, 2\) and \(4, 2\)"),
        ((np.ones(3), np.ones(3)), r"must both be \(\.\.\., steps, n\)"),
        ((np.ones((1, 1)), [[np.nan]]), "truth must be finite"),
        ((np.ones((3, 2)), np.ones((3, 2)), [1.0]), r"scale must be 2 numbers above zero, got shape \(1,\)"),
        ((np.ones((3, 2)), np.ones((3, 2)), [1.0, 0.0]), "scale must be 2 numbers above zero"),
    ],
)
def test_bad_input_gets_a_sentence(arguments, message):
    with pytest.raises(InputError, match=message):
        mse_by_step(*arguments)


def test_a_threshold_of_zero_is_refused():
    with pytest.raises(InputError, match="threshold must be above zero"):
        valid_prediction_steps(np.ones((3, 2)), np.ones((3, 2)), threshold=0)


def test_root_mean_squares_are_roots_of_the_means():
    truth, predicted = np.zeros((2, 2)), np.array([[1.0, 20.0], [3.0, 0.0]])
    np.testing.assert_allclose(rmse_by_step(predicted, truth, scale=[1.0, 10.0]), np.sqrt([2.5, 4.5]))
    assert normalized_rmse(predicted, truth, scale=[1.0, 10.0]) == pytest.approx(np.sqrt(3.5))


def test_metrics_are_found_by_name_and_functions_keep_theirs():
    def worst(predicted, truth, *_):
        return float(abs(predicted - truth).max())

    assert named_metrics(None) == {}
    assert list(named_metrics("rmse")) == ["rmse"]
    assert named_metrics(["rmse", worst]) == {"rmse": METRICS.get("rmse"), "worst": worst}
    for wrong in (3, [3]):
        with pytest.raises(
            InputError, match=r"a metric is a registered name \('nmse', .*'spectrum'\) or a function, got 3"
        ):
            named_metrics(wrong)
    with pytest.raises(InputError, match="did you mean 'rmse'"):
        named_metrics("RMSE")
