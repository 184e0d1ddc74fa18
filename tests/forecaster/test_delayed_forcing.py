"""A forecaster whose steps look at earlier inputs: rollouts, files, exports, pages, comparisons."""

import re
import warnings

import numpy as np
import pytest
from forcing import delayed

import lln
from lln import LensForecaster
from lln.core.errors import InputError
from lln.data.read.formats import as_dataset
from lln.data.stream import lagged_rows
from lln.export.c.export import compiler
from lln.export.parts import Probe
from lln.forecaster.results import rollout_data

LAG, NOISE, TRAINED = 3, 0.02, 400


@pytest.fixture(scope="module")
def data():
    return delayed(560, LAG, noise=NOISE)


@pytest.fixture(scope="module")
def model(data):
    states, inputs = data
    return LensForecaster(parts="linear").fit(states[:TRAINED], inputs=inputs[:TRAINED], dt=1.0)


def window_at(model, states, row):
    return states[row - model.history_ + 1 : row + 1] if model.history_ > 1 else states[row]


def arx(states, inputs, rows):
    """Least squares of an expert who knows the lags, rolled out from `rows`: (W, 20, 1)."""
    now = np.arange(LAG, TRAINED - 1)
    columns = [states[now], *(inputs[now - lag] for lag in range(LAG + 1)), np.ones((len(now), 1))]
    weights = np.linalg.lstsq(np.concatenate(columns, axis=1), states[now + 1], rcond=None)[0][:, 0]
    runs = np.empty((len(rows), 20, 1))
    for run, first in zip(runs, rows, strict=True):
        y = states[first, 0]
        for k in range(20):
            seen = inputs[first + k - np.arange(LAG + 1), 0]
            run[k] = y = float(np.concatenate([[y], seen, [1.0]]) @ weights)
    return runs


def test_rollouts_err_as_little_as_an_experts_map(data, model):
    states, inputs = data
    assert model.input_lags_ == LAG
    rows = range(TRAINED, 540, 7)
    truth = np.stack([states[row + 1 : row + 21] for row in rows])
    runs = [model.rollout(window_at(model, states, row), 20, inputs[row - LAG : row + 20]).predicted for row in rows]
    error, expert = (np.mean((one - truth) ** 2) for one in (np.stack(runs), arx(states, inputs, rows)))
    assert error < 1.1 * expert
    assert error < 4 * NOISE**2  # of 20 steps; the stationary variance of the noise is 2.8 of its square
    assert model.evaluate(states[TRAINED:], inputs=inputs[TRAINED:]).nmse < 4 * NOISE**2 / states.var()


def test_a_forecast_knows_the_inputs_before_it(data, model):
    states, inputs = data
    last = TRAINED - 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ahead = model.rollout(steps=10, inputs=inputs[last : last + 10])
        given = model.rollout(window_at(model, states, last), 10, inputs[last - LAG : last + 10])
    np.testing.assert_allclose(ahead.predicted, given.predicted, rtol=1e-12)
    assert np.abs(ahead.predicted - states[last + 1 : last + 11]).max() < 10 * NOISE


def test_missing_inputs_before_the_start_are_held_with_a_warning(data, model):
    states, inputs = data
    start = window_at(model, states, 450)
    with pytest.warns(UserWarning, match="give 8 rows that begin with the 3 before the start"):
        found = model.rollout(start, 5, inputs[450:455])
    held = np.concatenate([np.repeat(inputs[450:451], LAG, axis=0), inputs[450:455]])
    np.testing.assert_array_equal(found.predicted, model.rollout(start, 5, held).predicted)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        constant = model.rollout(start, 5, [0.4])
    np.testing.assert_array_equal(constant.predicted, model.rollout(start, 5, np.full((8, 1), 0.4)).predicted)


def test_inputs_of_several_starts_and_by_name(data, model):
    states, inputs = data
    starts = np.stack([window_at(model, states, row) for row in (420, 450)])
    known = np.stack([inputs[row - LAG : row + 5] for row in (420, 450)])
    many = model.rollout(starts, 5, known).predicted
    for one, row, given in zip(many, (420, 450), known, strict=True):
        alone = model.rollout(window_at(model, states, row), 5, given).predicted
        np.testing.assert_allclose(one, alone, rtol=1e-12)
        named = model.rollout(window_at(model, states, row), 5, {"input0": given[:, 0]}).predicted
        np.testing.assert_array_equal(named, alone)
    next_states = model.predict(starts, inputs=known[:, : LAG + 1])
    np.testing.assert_allclose(next_states, many[:, 0], rtol=1e-12)
    with pytest.raises(InputError, match=re.escape("(5, 1) or (2, 5, 1) or (8, 1) or (2, 8, 1)")):
        model.rollout(starts, 5, inputs[:6])
    with pytest.raises(InputError, match="begin with the 3 before the start"):
        model.rollout(starts, 5)


def test_lags_survive_a_file(tmp_path, data, model):
    states, inputs = data
    model.save(tmp_path / "model.lln")
    again = lln.load(tmp_path / "model.lln")
    assert again.input_lags_ == LAG
    given = (window_at(model, states, 450), 9, inputs[450 - LAG : 459])
    np.testing.assert_array_equal(again.rollout(*given).array, model.rollout(*given).array)
    ahead = {"steps": 5, "inputs": inputs[TRAINED - 1 : TRAINED + 4]}
    np.testing.assert_array_equal(again.rollout(**ahead).array, model.rollout(**ahead).array)
    assert "3 earlier values of each known input" in again.summary(400)


def test_an_update_keeps_the_lags(data, model, tmp_path):
    states, inputs = data
    model.save(tmp_path / "model.lln")
    again = lln.load(tmp_path / "model.lln").update(states[:500], inputs=inputs[:500])
    assert again.input_lags_ == LAG
    run = again.rollout(steps=10, inputs=inputs[499:509])
    assert np.abs(run.predicted - states[500:510]).max() < 10 * NOISE


def test_intervals_and_figures(data, model):
    states, inputs = data
    run = model.rollout(steps=20, inputs=inputs[TRAINED - 1 : TRAINED + 19], level=0.9)
    inside = (run.lower[1:] <= states[TRAINED : TRAINED + 20]) & (states[TRAINED : TRAINED + 20] <= run.upper[1:])
    assert inside.mean() > 0.6
    assert (run.upper - run.lower)[-1].max() < 12 * NOISE
    pytest.importorskip("matplotlib").use("Agg")
    model.plot(as_dataset(states, inputs=inputs, dt=1.0), steps=20)


def test_rollouts_from_data_begin_where_earlier_inputs_are_known(data, model):
    states, inputs = data
    given = as_dataset(states[TRAINED:], inputs=inputs[TRAINED:], dt=1.0)
    found, _, _ = rollout_data(model, given, 40)
    rows = np.asarray(found.series[0].rows(0, 41))
    first = max(model.history_, LAG + 1)
    np.testing.assert_array_equal(rows[:first], states[TRAINED : TRAINED + first])
    assert np.abs(rows - states[TRAINED : TRAINED + 41]).max() < 10 * NOISE


def test_the_step_of_an_export_sees_a_wider_row(tmp_path, data, model):
    states, inputs = data
    assert model.input_columns_ == ("input0", *(f"input0 {lag} step{'s' * (lag > 1)} before" for lag in (1, 2, 3)))
    pytest.importorskip("onnxruntime")
    from lln.export.onnx import run as run_onnx

    model.export(tmp_path / "model.onnx", rollout=True)
    known = lagged_rows(inputs[450 - LAG : 470], LAG)
    start = states[450 - model.history_ + 1 : 451]
    probe = Probe(start[None], known[None], 20)
    found = run_onnx(tmp_path / "model.onnx", probe, rollout=True)[0]
    expected = model.rollout(window_at(model, states, 450), 20, inputs[450 - LAG : 470]).predicted
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.skipif(compiler() is None, reason="no C compiler")
def test_c_names_the_columns_of_its_inputs(tmp_path, model):
    done = model.export(tmp_path / "c", "c")
    assert done.difference.export < 1e-9
    header = (tmp_path / "c" / "model.h").read_text()
    assert "#define MODEL_INPUTS 4" in header
    assert "input0 3 steps before" in header


def test_pages_and_films_hold_the_lags(data, model):
    from lln.view.page.build import forecaster_page
    from lln.view.scenes import model_scene

    states, inputs = data
    truth = as_dataset(states, inputs=inputs, dt=1.0)
    text = forecaster_page(model, truth)
    assert '"inputs":4' in text
    assert "earlier values of each" in text
    forecaster_page(model)
    scene = model_scene(model, truth, 30, "")
    assert np.abs(np.asarray(scene.runs["truth"]) - np.asarray(scene.runs["forecast"])).max() < 10 * NOISE


def test_a_comparison_gives_each_model_its_lags(data):
    states, inputs = data
    given = as_dataset(states[:TRAINED], inputs=inputs[:TRAINED], dt=1.0)
    found = lln.compare(given, models={"ours": {"parts": "linear"}}, steps=10)
    assert found.scores[0].name == "ours"
    assert found.scores[0].errors.mean() < 4 * NOISE**2 / states.var()


@pytest.mark.slow
def test_lens_parts_stand_on_the_lags_too():
    states, inputs = delayed(700, 2, noise=0.0)
    bent = np.tanh(states) + 0.2 * states  # what is seen of it is a nonlinear function
    errors = {}
    for parts in ("auto", "linear"):
        model = LensForecaster(parts=parts).fit(bent[:560], inputs=inputs[:560], dt=1.0)
        assert model.input_lags_ == 2
        errors[parts] = model.evaluate(bent[560:], inputs=inputs[560:]).nmse
    assert errors["auto"] < 0.1 * errors["linear"]
