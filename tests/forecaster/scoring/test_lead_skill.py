"""Evaluations: errors by lead time beside simple methods, rows that trained, chose or are unseen, and human units."""

import json

import numpy as np
import pandas as pd
import pytest
from forecasters import QUICK, fitted, lorenz

import lln
from lln import InputError, LensForecaster
from lln.core.table import human_time
from lln.data.series import Dataset, Series
from lln.forecaster.scoring.evaluation import MODEL, lead_skill
from lln.forecaster.scoring.lyapunov import growth_rate
from lln.forecaster.scoring.scored_rows import rolling_origins, unmarked
from lln.systems import preset, rk4_step

LINEAR = {"parts": ["linear"]}


def oscillation(rows, noise=0.0):
    angle = 0.3 * np.arange(rows)
    states = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return states + noise * np.random.default_rng(0).standard_normal(states.shape)


def test_origins_are_spread_over_unseen_rows_and_may_overlap():
    dataset = Dataset((Series(np.arange(100.0)[:, None]),))
    marks = np.zeros(100, dtype=bool)
    marks[:60] = True
    assert unmarked([marks]) == ((0, 60, 100),)
    fold = rolling_origins(dataset, unmarked([marks]), 5, steps=10, count=None)
    assert fold.windows == tuple((0, row) for row in range(59, 90))  # from the last row that is known
    assert len(rolling_origins(dataset, ((0, 60, 100),), 5, steps=10, count=4).windows) == 4
    assert rolling_origins(dataset, ((0, 60, 100),), 5).steps == 24  # six tenths
    assert rolling_origins(dataset, ((0, 0, 4),), 5).windows == ()


def test_errors_by_lead_time_are_those_of_rollouts():
    states = oscillation(300, 0.01)
    model = LensForecaster(**LINEAR).fit(states[:240], dt=1.0)
    found = model.evaluate(states, steps=16)
    skill = found.skill
    assert skill.leads == (1, 2, 4, 8, 16)
    assert next(iter(skill.errors)) == MODEL
    rows = np.arange(239, 284)
    assert skill.origins == len(rows)
    scale = model.surrogate_.frame.scale
    square = np.square((states[rows] - states[rows + 1]) / scale).mean(axis=-1)
    expected = square.mean() if skill.noisy else np.exp(np.log(square).mean())
    assert skill.by_lead("persistence")[0] == pytest.approx(expected)
    assert (skill.by_lead() < skill.by_lead("persistence")).all()
    assert 0.5 < found.interval_coverage <= 1.0
    text = str(found)
    assert "90 % intervals" in text
    assert "persistence" in text
    assert "steps ahead" in text
    record = json.loads(json.dumps(found.record(), allow_nan=False))
    assert record["lead_times"] == [1, 2, 4, 8, 16]
    assert set(record["skill"]) >= {"model", "persistence", "mean"}
    assert "persistence" in found._repr_html_()
    assert model.evaluate(states, baselines=None).skill is None


def test_a_better_baseline_is_named_in_one_sentence():
    states = oscillation(400, 0.02)
    model = LensForecaster(history=1, ridge=1e3, **LINEAR).fit(states[:300], dt=1.0)  # far too much ridge
    found = model.evaluate(states, steps=12, baselines=["persistence", "linear"])
    assert found.skill.better[0][0] == "linear"
    assert "A linear map (autoregression) has an error" in str(found)
    assert "times smaller on these rows" in str(found)
    good = LensForecaster(**LINEAR).fit(states[:300], dt=1.0).evaluate(states, steps=12, baselines=["mean"])
    assert good.skill.better == []
    assert "times less" not in str(good)
    with pytest.raises(InputError, match="did you mean 'linear'"):
        model.evaluate(states, baselines=["linaer"])


def test_baselines_that_need_training_rows_are_left_out_of_new_data():
    model = LensForecaster(**LINEAR).fit(oscillation(200), dt=1.0)
    found = model.evaluate(oscillation(260)[200:] + 1e-9, baselines="all", steps=8)
    assert found.scored == "new data"
    assert {"linear", "analog", "kernel", "polynomial"} <= set(found.skill.left_out)
    assert set(found.skill.errors) >= {"model", "persistence", "mean"}


def test_a_polynomial_that_is_the_model_is_no_baseline():
    states = oscillation(400, 0.05)
    model = LensForecaster(**LINEAR).fit(states[:300], dt=1.0)
    found = model.evaluate(states, steps=12, baselines=["polynomial", "mean"])
    assert list(found.skill.errors) == ["model", "mean"]
    assert found.skill.left_out == {"polynomial": "the same forecasts as LensForecaster"}


def test_with_noise_the_valid_time_on_average_is_shown_too():
    states = oscillation(400, 0.05)
    model = LensForecaster(**LINEAR).fit(states[:300], dt=1.0)
    assert model.report_.noisy
    found = model.evaluate(states, steps=12)
    assert "valid on average              at least 12 steps (12 time units), NMSE below 0.3, 64 rolling origins" in str(
        found
    )
    poor = model.evaluate(np.random.default_rng(1).standard_normal((120, 2)), steps=12)
    assert "valid on average              not even one step, " in str(poor)
    clean = LensForecaster(**LINEAR).fit(oscillation(300), dt=1.0).evaluate(oscillation(400), steps=12)
    assert "valid on average" not in str(clean)


def test_a_linear_map_that_grows_is_not_chaotic(monkeypatch):
    monkeypatch.setattr("lln.forecaster.forecaster.growth_rate", lambda *_: 0.5)
    assert LensForecaster(**LINEAR, ridge=1e-6).fit(oscillation(100), dt=1.0).report_.exponent is None
    assert LensForecaster(**QUICK).fit(lorenz()[:300], dt=0.01).report_.exponent == 0.5


def test_rows_that_chose_are_scored_apart_and_never_mixed(tmp_path):
    states = lorenz()
    model = LensForecaster(**QUICK).fit(states[:600], dt=0.01)
    ((_, _, trained),) = model.training_.rows
    assert trained < 600
    found = model.evaluate(states)
    assert found.scored == "unseen rows"
    assert min(window.first for window in found.windows) >= 600
    assert found.choosing.scored == "choice rows"
    assert all(trained <= one.first and one.first + one.steps <= 600 for one in found.choosing.windows)
    assert "separately, on" in str(found)
    assert "choosing" in found.record()
    only = model.evaluate(states[:600])
    assert only.scored == "choice rows"
    assert "helped to choose" in str(only)
    model.save(tmp_path / "m.lln")
    again = lln.load(tmp_path / "m.lln").evaluate(states)
    assert again.windows == found.windows
    assert again.choosing.nmse == found.choosing.nmse


def test_times_are_in_units_that_people_use():
    hours = pd.date_range("2024-01-01", periods=240, freq="h")
    table = pd.DataFrame({"a": np.sin(0.2 * np.arange(240)), "b": np.cos(0.2 * np.arange(240))}, index=hours)
    found = LensForecaster(**LINEAR).fit(table.iloc[:200]).evaluate(table)
    assert f"({human_time(found.valid_prediction_time, 'seconds')})" in str(found)
    assert "days" in found.facts()["valid prediction time"]
    assert (
        "hours"
        in LensForecaster(**LINEAR).fit(table.iloc[:200]).evaluate(table, steps=8).facts()["valid prediction time"]
    )
    assert "time units" not in str(found)


def test_the_exponent_of_a_chaotic_step_is_found_and_of_others_not():
    model = fitted()
    windows = lorenz()[::50][:, None]
    states = lorenz()

    class Flow:
        class frame:  # noqa: N801
            inputs, size, scale = 0, 3, states.std(axis=0)

        def rollout(self, window, steps):
            system, x = preset("lorenz-28"), window[:, -1]
            out = []
            for _ in range(steps):
                x = rk4_step(system.rhs, x, system.dt)
                out.append(x)
            return np.stack(out, axis=1)

    assert growth_rate(Flow(), windows, 0.01) == pytest.approx(0.906, rel=0.1)
    circle = LensForecaster(**LINEAR).fit(oscillation(200), dt=1.0)
    assert circle.report_.exponent is None
    assert circle.evaluate(oscillation(200)).valid_lyapunov_times is None
    assert model.report_.exponent is None  # assembled by hand, not fitted


def test_skill_needs_room():
    model = LensForecaster(**LINEAR).fit(oscillation(100), dt=1.0)
    dataset = model.layout_.read(oscillation(100))
    assert lead_skill(model.surrogate_, dataset, ((0, 0, 1),)) is None


def test_an_unknown_baseline_is_refused():
    model = LensForecaster(**LINEAR).fit(oscillation(100), dt=1.0)
    with pytest.raises(ValueError, match="unknown baseline 'kernle'; did you mean 'kernel'"):
        model.evaluate(oscillation(100), baselines=["persistence", "kernle"])
    with pytest.raises(ValueError, match="unknown baseline 3; expected one of 'persistence'"):
        model.evaluate(oscillation(100), baselines=3)
