"""Gaps in noisy data are filled in before a fit, and never scored; those in clean data stay."""

from __future__ import annotations

import numpy as np
import pytest

import lln
from lln import LensForecaster
from lln.core.errors import InputError
from lln.data.gaps import Filling
from lln.data.read.formats import as_dataset
from lln.fit.choice.holdout import RolloutErrors, folds, load


def monthly(rows=200, missing=0.1, seed=0):
    rng = np.random.default_rng(seed)
    x = 20 + 5 * np.sin(np.arange(rows) * 2 * np.pi / 12) + rng.normal(size=rows)
    x[rng.choice(np.arange(2, rows - 40), round(missing * rows), replace=False)] = np.nan
    return x[:, None]


def test_a_season_is_found_through_gaps():
    x, steps = monthly(), 12
    model = LensForecaster(parts=("linear",)).fit(x[:164], dt=1.0)
    starts = range(164, 200 - steps)
    truth = np.stack([x[i : i + steps] for i in starts])
    run = model.rollout(np.stack([x[i - model.history_ : i] for i in starts]), steps=steps).array[:, 1:]
    assert np.mean((run - truth) ** 2) < 1.5  # the noise alone is 1, and the season 12.5
    note = f"{np.isnan(x[:164]).sum()} missing values were filled in before the fit"
    assert any(one.startswith(note) for one in model.report_.notes)


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
    assert data.transitions(3) == 60 - 3 - 2
    fold = folds(data, 0.25, 3)[-1]
    assert not {(0, 29), (0, 54)} & set(fold.windows)
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
