"""Gaps in noisy data are filled in before a fit, and never scored; those in clean data stay."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import lln
from lln import LensForecaster
from lln.core.errors import InputError
from lln.data.gaps import Filling
from lln.data.read.formats import as_dataset
from lln.fit import learn, options
from lln.fit.choice.holdout import Fold, RolloutErrors, folds, load, rolling
from lln.fit.choice.representation import Logarithms
from lln.fit.options import Phase, Recipe
from lln.forecaster.scoring.scored_rows import _cut, read_windows


def monthly(rows=200, missing=0.1, seed=0):
    rng = np.random.default_rng(seed)
    x = 20 + 5 * np.sin(np.arange(rows) * 2 * np.pi / 12) + rng.normal(size=rows)
    x[rng.choice(np.arange(2, rows - 40), round(missing * rows), replace=False)] = np.nan
    return x[:, None]


def test_a_season_is_found_through_gaps():
    steps, squares = 12, []
    for seed in range(3):
        x = monthly(seed=seed)
        model = LensForecaster(parts=("linear",)).fit(x[:164], dt=1.0)
        starts = range(164, 200 - steps)
        truth = np.stack([x[i : i + steps] for i in starts])
        run = model.rollout(np.stack([x[i - model.history_ : i] for i in starts]), steps=steps).array[:, 1:]
        squares.append(np.mean((run - truth) ** 2))
        note = f"{np.isnan(x[:164]).sum()} missing values were filled in before the fit"
        assert any(one.startswith(note) for one in model.report_.notes)
    assert np.mean(squares) < 1.5  # the noise alone is 1, and the season 12.5


def test_a_model_of_filled_gaps_is_saved_scored_and_started_with_gaps(tmp_path):
    x = monthly()
    model = LensForecaster(parts=("linear",)).fit(x[:120], dt=1.0)
    model.save(tmp_path / "model.lln")
    loaded = lln.load(tmp_path / "model.lln")
    window = x[200 - model.history_ :].copy()
    window[-4] = np.nan
    np.testing.assert_array_equal(loaded.rollout(window, steps=5).array, model.rollout(window, steps=5).array)
    window[-1] = np.nan
    with pytest.raises(InputError, match="must start at finite states"):
        model.rollout(window, steps=5)
    x[150] = np.nan
    scored = model.evaluate(x, dt=1.0)
    assert scored.scored == "unseen rows"
    assert np.isfinite(scored.nmse)
    assert not any(one.first <= 150 < one.first + one.steps for one in scored.windows)
    assert (model.training_.seen(as_dataset(x, dt=1.0).series[0])[:120]).all()


def test_a_filled_value_is_neither_a_target_nor_the_truth():
    x = np.arange(60.0)[:, None] % 7
    x[30], x[55] = np.nan, np.nan
    data = Filling.of(as_dataset(x, dt=1.0), 7)[0].of_dataset(as_dataset(x, dt=1.0))
    np.testing.assert_allclose(data.series[0].states[[30, 55], 0], [2, 6], atol=1e-9)
    assert data.transitions(3) == 60 - 3 - 4  # what was filled in is not the present state of a pair, either
    fold = folds(data, 0.25, 3)[-1]
    assert not {(0, 29), (0, 30), (0, 54), (0, 55)} & set(fold.windows)
    truth = load(data, fold, 3, np.ones(1)).truth
    assert np.isnan(truth).any()
    wrong = np.where(np.isnan(truth), 1e6, truth)
    np.testing.assert_array_equal(RolloutErrors.of(wrong, truth, np.ones(1), (1, 4)).values, 1e-24)


def test_gaps_in_clean_data_stay():
    x = [0.4]
    for _ in range(299):
        x.append(3.9 * x[-1] * (1 - x[-1]))
    x = np.asarray(x)[:, None]
    x[::20] = np.nan
    model = LensForecaster(parts=("linear", "polynomial")).fit(x, dt=1.0)
    assert model.layout_.filling is None
    assert model.report_.part == "polynomial"
    assert model.report_.held_out_nmse < 1e-15


@pytest.mark.parametrize("logs", [False, True])
def test_no_start_of_a_scored_rollout_knows_what_comes_after_it(logs):
    rng = np.random.default_rng(0)
    x = (np.exp if logs else np.asarray)(3 + 0.3 * np.sin(np.arange(120) * np.pi / 6) + 0.1 * rng.normal(size=120))
    x[rng.choice(np.arange(2, 118), 20, replace=False)] = np.nan
    given = as_dataset(x[:, None], dt=1.0)
    filling = Filling.of(given, 12)[0]
    later = np.where(np.arange(120) > 60, x + 1.0, x)

    def starts(values):
        """Those up to row 60, as the fit and the evaluation read them."""
        data = filling.of_dataset(as_dataset(values[:, None], dt=1.0))
        fold = Fold(((0, 0, 40),), ((0, 40, 120),), (), 1)
        fold = rolling(data, fold, 15, 1, 1000)
        fold = replace(fold, windows=tuple(one for one in fold.windows if one[1] <= 60))
        read = Logarithms(data).dataset if logs else data
        windows = [one for one in _cut(data, [np.arange(120) < 40], 15, 1) if one.first <= 61]
        return load(read, fold, 15, np.ones(1)).start, read_windows(data, windows, 15)[0][:, :15]

    for one, other in zip(starts(x), starts(later), strict=True):
        assert len(one) > 5
        assert np.isfinite(one).all()
        np.testing.assert_array_equal(one, other)


def test_both_fits_share_one_time_limit(monkeypatch):
    x, given = as_dataset(monthly()[:120], dt=1.0), []
    learned = learn.learn(x, Recipe(parts=("linear",)))

    def fit(_, recipe, **__):
        given.append(recipe.time_limit)
        report = replace(learned.report, seconds=seconds)
        return replace(learned, recipe=replace(learned.recipe, time_limit=recipe.time_limit), report=report)

    monkeypatch.setattr(learn, "learn", fit)
    seconds = 1.0
    found, data = learn.learn_with_gaps(x, Recipe(time_limit=100.0))
    assert data.filling is not None
    assert given[0] == 100.0
    assert given[1] < 100.0
    assert found.recipe.time_limit == 100.0
    seconds = 60.0
    time = iter([0.0, 60.0, 60.0])
    monkeypatch.setattr(options.time, "monotonic", lambda: next(time, 60.0))
    found, data = learn.learn_with_gaps(x, Recipe(time_limit=100.0))
    assert data is x
    assert found.report.notes[-1] == "The time limit left out: filling in gaps."


def test_a_fit_that_was_interrupted_after_gaps_were_filled_in_continues(tmp_path):
    kept, said = tmp_path / "fit.checkpoint", []

    def stop(event):
        said.append(event)
        if sum(one.phase is Phase.LINEAR and one.done == 1 for one in said) == 2:  # of the second fit
            raise KeyboardInterrupt

    x = monthly()[:120]
    with pytest.raises(KeyboardInterrupt):
        LensForecaster(parts=("linear",)).fit(x, dt=1.0, checkpoint=kept, progress=stop)
    model = LensForecaster(parts=("linear",)).fit(x, dt=1.0, checkpoint=kept)
    assert model.layout_.filling is not None
    assert not kept.exists()


def test_a_series_whose_end_is_mostly_gaps_is_fitted():
    x = np.sin(0.4 * np.arange(200.0))
    x[140::2] = np.nan
    model = LensForecaster().fit(x)
    assert model.report_.held_out_nmse < 1e-6


@pytest.mark.parametrize("every", [2, 3])
def test_gaps_stay_where_no_measured_row_follows_another_among_those_held_out(every):
    t = np.arange(120)
    x = np.sin(2 * np.pi * t / 12) + 0.3 * np.random.default_rng(0).normal(size=120)
    x[(t > 90) & (t % every > 0)] = np.nan
    model = LensForecaster(parts="linear").fit(x)
    assert model.layout_.filling is None
    assert model.report_.noisy
    assert min(model.report_.skill["model"]) > 0.05  # the noise alone has a sixth of the variance
