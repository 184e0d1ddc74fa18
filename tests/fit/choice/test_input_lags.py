"""The number of lags of known inputs, chosen on held-out rollouts."""

import numpy as np
import pytest
from forcing import delayed
from forecasters import forced_data

from lln import LensForecaster
from lln.data.series import Dataset, Series
from lln.fit.choice.representation import choose_input_lags
from lln.fit.fitter import fit_many
from lln.fit.options import Recipe
from lln.fit.prepare import FrameChoice, Preparer

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


def test_inputs_and_a_season_that_is_averaged_are_used_together():
    rng, time = np.random.default_rng(1), np.arange(160)
    inputs = rng.normal(size=160)
    states = 0.3 * time + 5 * np.sin(2 * np.pi * time / 12) + rng.normal(size=160)
    states[1:] += 4 * inputs[:-1]
    model = LensForecaster().fit(states[:120], dt=1.0, inputs=inputs[:120])
    origins, lags = range(120, 149), model.input_lags_
    start = np.stack([states[k - model.history_ : k, None] for k in origins])
    known = np.stack([inputs[k - 1 - lags : k + 11, None] for k in origins])
    error = model.rollout(start, steps=12, inputs=known).array[:, 1:, 0]
    error = error - np.stack([states[k : k + 12] for k in origins])
    assert np.mean(error**2) < 2.0  # of which one is noise; the inputs move the states by 16
    members = [one for one, _ in model.report_.structure["members"]] or [model.report_.structure]
    assert any(one["inputs_alone"] for one in members)


def test_beside_a_naive_forecast_the_weights_of_inputs_alone_are_fitted():
    rng = np.random.default_rng(0)
    inputs, walk = rng.normal(size=(200, 2)), np.cumsum(rng.normal(size=200))
    walk[1:] += np.cumsum(inputs[:-1] @ [3.0, 0.0])
    data = Dataset((Series(walk[:, None], inputs),), dt=1.0)
    frame = Preparer(data).linear(None, FrameChoice(1, None, 1e-9, level=False, inputs_alone=True))
    found = frame.matrix * frame.scale[:, None] / np.array([1.0, *frame.input_scale])
    expected = np.linalg.lstsq(np.column_stack([inputs[:-1], np.ones(199)]), np.diff(walk))[0]
    np.testing.assert_allclose(found[0], [0.0, *expected[:2]], atol=1e-6)
