import warnings

import numpy as np
import pandas as pd
import pytest

from lln import InputError, LensForecaster

WAVE = np.sin(0.3 * np.arange(120))
NOISE = np.random.default_rng(0).normal(size=300)

ODD = {
    "constant": np.full(100, 3.0),
    "constant column": np.c_[WAVE, np.full(120, 2.0)],
    "spike": np.where(np.arange(120) == 60, 1.0, 0.0),
    "large spike": np.where(np.arange(120) == 60, 1e12, NOISE[:120]),
    "jump": np.repeat([0.0, 1.0], 60),
    "straight line": 2.0 * np.arange(100) + 1.0,
    "every row three times": np.repeat(NOISE[:40], 3),
    "twelve rows": NOISE[:12],
    "far from zero": WAVE + 1e15,
    "integers": np.round(9 * WAVE).astype(int),
    "booleans": WAVE > 0,
    "objects": WAVE.astype(object),
    "table of kinds": pd.DataFrame({
        "a": WAVE, "b": WAVE > 0, "c": WAVE.astype(object),
        "d": pd.array([None, *np.round(9 * WAVE[1:]).astype(int)], dtype="Int64"),
    }),
}  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_odd_data_is_fitted_without_warnings(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = LensForecaster(parts="linear").fit(ODD[name])
        assert np.isfinite(model.rollout(steps=5, level=0.9).array).all()
        assert "LensForecaster" in model.summary()
        assert "scored on" in str(model.evaluate(ODD[name]))


@pytest.mark.parametrize("grid", [None, [12]])
@pytest.mark.parametrize(
    ("factor", "words"), [(1e300, "beyond 1e\\+140"), (1e-300, "varies by only .*, and below 1e-140")]
)
def test_numbers_that_cannot_be_squared_are_refused_without_warnings(grid, factor, words):
    data = np.sin(0.3 * np.arange(60)[:, None] + np.arange(12)) * factor
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InputError, match=words):
            LensForecaster().fit(data, grid=grid)


@pytest.mark.parametrize(
    ("series", "simple"), [(NOISE, "mean"), (NOISE.cumsum(), "persistence"), (ODD["jump"], "persistence")]
)
def test_a_summary_says_if_a_simple_method_does_as_well(series, simple):
    notes = LensForecaster(parts="linear").fit(series).report_.notes
    assert f"On held-out rows {simple!r}, which is simpler, does as well as this model." in notes


def test_a_model_that_foresees_more_is_not_called_as_good_as_a_simple_method():
    assert not any("does as well" in note for note in LensForecaster(parts="linear").fit(WAVE).report_.notes)


def test_persistence_is_not_said_to_do_as_well_as_itself():
    report = LensForecaster(parts="linear").fit(ODD["spike"]).report_
    assert report.part == "persistence"
    assert report.parameters == 0
    assert not any("does as well" in note for note in report.notes)


def test_a_constant_and_a_straight_line_have_no_weights_of_the_state():
    assert LensForecaster().fit(ODD["constant"]).report_.parameters == 0
    assert LensForecaster().fit(ODD["straight line"]).report_.parameters == 1  # the change of one step


def test_errors_on_very_few_rollouts_are_called_uncertain():
    few = [LensForecaster(parts="linear").fit(NOISE[:rows]).report_.notes for rows in (12, 60)]
    assert [any(note.startswith("Only 2 rollouts could be held out") for note in notes) for notes in few] == [
        True,
        False,
    ]


def test_a_mean_of_maps_is_called_one():
    model = LensForecaster(parts="linear").fit(NOISE.cumsum())
    count = len(model.report_.structure["members"])
    assert count > 1
    said = " ".join(model.summary().split())
    assert f"the weighted mean of {count} linear maps in float64" in said
    assert "A weighted mean of linear maps did best" in said
    assert model.parameters_ == model.history_ + 1


@pytest.mark.parametrize(("method", "own"), [("evaluate", "windows"), ("update", "progress"), ("lyapunov", "count")])
def test_options_of_the_data_that_do_not_exist_are_refused(method, own):
    model = LensForecaster(parts="linear").fit(WAVE)
    with pytest.raises(InputError, match=f"unknown option 'columns'; .*'{own}'.*'resample'"):
        getattr(model, method)(WAVE, columns="a")
    with pytest.raises(InputError, match=f"did you mean '{own}'"):
        getattr(model, method)(WAVE, **{own[:-1]: 3})


def test_an_input_that_does_not_vary_is_named():
    model = LensForecaster(parts="linear").fit(NOISE, inputs={"u": np.ones(300), "v": NOISE[::-1]})
    said = [note for note in model.report_.notes if "known input" in note]
    assert said == ["The known input 'u' does not vary, so what it does is not learned."]
    model = LensForecaster(parts="linear").fit([NOISE[:150], NOISE[150:]], inputs=[np.ones(1), np.zeros(1)])
    assert not any("known input" in note for note in model.report_.notes)  # it tells two trajectories apart
