"""What figures, films and pages show of the data: no value that was filled in as the truth, and which trajectory."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from browser import drive, needs_browser

from lln import LensForecaster, as_dataset, load
from lln.forecaster.results import rollout_data
from lln.view.page import forecaster_page
from lln.view.scenes import data_scene, model_scene

GAPS = (40, 77, 130, 150, 151, 165)


@pytest.fixture(scope="module")
def gappy():
    """A noisy season with gaps that are filled in, and its model; the last 60 rows are unseen."""
    x = 20 + 5 * np.sin(np.arange(180) * np.pi / 6) + np.random.default_rng(0).normal(size=180)
    x[list(GAPS)] = np.nan
    model = LensForecaster(parts=("linear",)).fit(x[:120, None], dt=1.0)
    assert model.layout_.filling is not None
    return x[:, None], model


@pytest.fixture(scope="module")
def panel():
    """Two trajectories and a model of both."""
    angle = 0.1 * np.arange(120)
    data = as_dataset([np.stack([np.cos(angle), k * np.sin(angle)], axis=1) for k in (1, 2)], dt=0.1)
    return data, LensForecaster(parts=("linear",)).fit(data)


def truth_of(figure):
    return next(line for line in figure.axes[0].lines if line.get_label() == "truth").get_ydata()


def past_of(figure):
    return next(line for line in figure.axes[0].lines if line.get_label() == "past").get_ydata()


def missing(values):
    return np.flatnonzero(np.isnan(np.asarray(values, dtype=float))).tolist()


def test_a_figure_draws_no_filled_value_as_the_truth(gappy):
    x, model = gappy
    drawn = truth_of(model.rollout(steps=59).plot(as_dataset(x, dt=1.0)))
    assert missing(drawn) == [gap - 119 for gap in GAPS if gap > 119]
    np.testing.assert_array_equal(drawn[1:4], x[120:123, 0])


def test_a_film_is_of_the_longest_unseen_stretch_without_a_gap(gappy):
    x, model = gappy
    scene = model_scene(model, model.layout_.read(as_dataset(x, dt=1.0)), 500, "m")
    assert (scene.title, scene.start) == ("m: 18 steps of unseen rows", 131)
    np.testing.assert_array_equal(scene.arrays["truth"][1:], x[132:150])
    assert np.isfinite(scene.arrays["forecast"]).all()


@needs_browser
def test_a_page_draws_no_filled_value_as_the_truth_and_scores_none(gappy, tmp_path):
    x, model = gappy
    text = forecaster_page(model, model.layout_.read(as_dataset(x, dt=1.0)))
    payload = json.loads(re.search('id="payload">(.*?)</script>', text, re.DOTALL)[1])
    assert payload["series"][0]["filled"] == [gap - payload["series"][0]["firstRow"] for gap in GAPS]
    assert "Missing values in 6 rows were filled in" in payload["notes"][-1]
    (tmp_path / "page.html").write_text(text)
    told = drive(tmp_path, "gaps", {"page": str(tmp_path / "page.html")})
    assert told["faults"] == []
    unknown = [gap - told["row"] for gap in GAPS if gap > told["row"]]
    assert len(unknown) >= 4
    assert missing(told["truth"]) == missing(told["errors"]) == unknown
    assert "NaN" not in told["status"]
    bad = [k for k, error in enumerate(told["errors"]) if error is not None and error > 0.4]
    assert told["valid"] == bad[0] - 1


def test_a_title_says_which_of_several_trajectories_is_shown(panel):
    data, model = panel
    ahead = model.rollout(steps=10)
    assert ahead.plot().get_suptitle() == "x0, x1: forecast of trajectory 1"
    assert "x0, x1, trajectory 1, time" in repr(ahead)
    assert model.plot(data, steps=10).get_suptitle().startswith("x0, x1, trajectory 0: 10 steps of")
    starts = np.stack([one.states[-model.history_ :] for one in data.series])
    assert model.rollout(starts, steps=10).plot(start=1).get_suptitle() == "x0, x1: forecast from start 1"
    assert model_scene(model, None, 5, "m").title == "m, trajectory 1"
    assert data_scene(data, 5, "d").title == "d, trajectory 0"


def test_the_truth_beside_a_forecast_is_that_of_its_trajectory(panel):
    data, model = panel
    drawn = truth_of(model.rollout(steps=5).plot(data, coordinates=["x1"]))
    assert drawn[0] == data.series[1].states[-1, 1] != data.series[0].states[-1, 1]
    starts = np.stack([one.states[: model.history_] for one in data.series])
    drawn = truth_of(model.rollout(starts, steps=5).plot(data, start=1, coordinates=["x1"]))
    np.testing.assert_array_equal(drawn[:3], data.series[1].states[:3, 1])


def test_one_trajectory_alone_has_no_name(gappy):
    _, model = gappy
    assert model.rollout(steps=3).plot().get_suptitle() == "x0: forecast"
    assert model_scene(model, None, 3, "m").title == "m"


def test_a_forecast_from_a_file_has_the_dates_and_names_of_the_file():
    days = pd.date_range("2024-03-01", periods=60, name="day")
    levels = {name: np.sin(0.3 * np.arange(60) + k) for k, name in enumerate("ab")}
    table = pd.concat(
        [pd.DataFrame({"site": name, "level": level}, days) for name, level in levels.items()]
    ).reset_index()
    model = LensForecaster(parts=("linear",), history=3).fit(table, trajectory="site")
    later = model.layout_.read(table[table["day"] >= "2024-04-01"], trajectory="site")
    _, _, run = rollout_data(model, later, 10)
    figure = run.plot(start=1)
    assert figure.get_suptitle() == "frame: forecast of site b"
    drawn = next(line for line in figure.axes[0].lines if line.get_label() == "forecast")
    np.testing.assert_array_equal(drawn.get_xdata(), days[33:42].values)


def test_the_past_has_gaps_where_its_values_were_filled_in(gappy, tmp_path):
    x, model = gappy
    longer = LensForecaster(parts=("linear",)).fit(x[:154], dt=1.0)
    longer.save(tmp_path / "model.lln")
    history = longer.history_
    gaps = [gap for gap in GAPS if 154 - history <= gap < 154]
    assert 151 in gaps
    for one in (longer, load(tmp_path / "model.lln")):
        assert missing(past_of(one.rollout(steps=history).plot())) == [gap - 154 + history for gap in gaps]
    given = model.rollout(x[154 - model.history_ : 154], steps=model.history_)
    assert missing(past_of(given.plot())) == [
        gap - 154 + model.history_ for gap in GAPS if 154 - model.history_ <= gap < 154
    ]
    assert np.isfinite(given.array).all()
