"""The number of lags of known inputs, chosen on held-out rollouts."""

import numpy as np
import pytest
from forcing import delayed
from forecasters import forced_data

from lln.data.series import Dataset, Series
from lln.fit.choice.representation import choose_input_lags
from lln.fit.fitter import fit_many
from lln.fit.options import Recipe

LINEAR = Recipe(parts=("linear",))


def data(lag, *, rows=300, noise=0.02, seed=1, **changes):
    states, inputs = delayed(rows, lag, noise=noise, seed=seed)
    return Dataset((Series(states, inputs),), **changes)


@pytest.mark.parametrize("lag", [1, 3])
def test_as_many_lags_as_the_system_has_are_chosen(lag):
    assert choose_input_lags(data(lag), LINEAR)[0] == lag


def test_inputs_that_act_at_once_get_no_lags():
    assert choose_input_lags(data(0), LINEAR)[0] == 0
    assert choose_input_lags(data(0, noise=0.0), LINEAR)[0] == 0  # rounding is all that is left


def test_there_are_no_lags_to_choose():
    with_lag = data(3)
    one = with_lag.series[0]
    assert choose_input_lags(Dataset((Series(one.states, np.ones_like(one.inputs)),)), LINEAR)[0] == 0
    assert choose_input_lags(Dataset((Series(one.states),)), LINEAR)[0] == 0
    assert choose_input_lags(with_lag.cut(0, 30), LINEAR)[0] == 0
    assert choose_input_lags(data(3, space=(1,)), LINEAR)[0] == 0


def test_a_fit_uses_the_lags_and_says_so():
    given = data(3)
    fit = fit_many(given, LINEAR, [0])[0]
    assert fit.report.input_lags == 3
    assert fit.surrogate.frame.inputs == 4
    assert fit.report.dataset == given.digest()
    assert any("up to 3 steps before" in note for note in fit.report.notes)
    # One step errs by the noise; what acted three steps ago is found.
    columns = fit.surrogate.frame.inputs
    weights = fit.surrogate.frame.matrix[0, -columns:] / fit.surrogate.frame.input_scale * fit.surrogate.frame.scale[0]
    np.testing.assert_allclose(weights, [0.0, 0.0, 0.0, 0.5], atol=0.01)


def test_a_fit_without_lags_is_the_same_as_before():
    fit = fit_many(data(0), LINEAR, [0])[0]
    assert fit.report.input_lags == 0
    assert not any("steps before" in note for note in fit.report.notes)


def test_lags_do_not_stand_in_for_a_nonlinear_part():
    """A linear map gains by lags where a product of state and input is missing; the whole model does not."""
    given = forced_data()
    recipe = Recipe(parts=("linear", "polynomial"))
    assert choose_input_lags(given, recipe)[0] > 0
    fit = fit_many(given, recipe, [0])[0]
    assert fit.report.input_lags == 0
    assert fit.report.held_out_nmse < 1e-12
