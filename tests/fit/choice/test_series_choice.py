"""Forecasts of short, noisy series: naive forecasts are candidates, and few held-out rows do not mislead the choice."""

import numpy as np
import pytest

from lln import LensForecaster
from lln.data.series import Dataset, Series
from lln.fit.choice.histories import seasons
from lln.fit.choice.holdout import folds
from lln.fit.choice.parsimony import criterion
from lln.fit.closed.linear import spectral_radius
from lln.fit.prepare import FrameChoice, Preparer
from lln.step.dense import DenseStep


def dataset(values):
    return Dataset((Series(np.asarray(values, dtype=float).reshape(len(values), -1)),), dt=1.0)


def noise(count, seed=0):
    return np.random.default_rng(seed).normal(size=count)


def rolled(values, candidate, steps=6):
    frame = Preparer(dataset(values)).prepare(None, candidate.history).linear(candidate)
    return DenseStep(frame).rollout(np.asarray(values)[-candidate.history :, None], steps)[:, 0]


def test_naive_forecasts_are_what_their_names_say():
    x = np.cumsum(noise(60))
    season = FrameChoice(5, None, None, naive="season", season=4)
    np.testing.assert_allclose(rolled(x, season), np.tile(x[-4:], 2)[:6], atol=1e-9)
    change = FrameChoice(5, None, None, naive="change", season=4)
    expected = list(x)
    for _ in range(6):
        expected.append(expected[-1] + expected[-4] - expected[-5])
    np.testing.assert_allclose(rolled(x, change), expected[-6:], atol=1e-9)
    np.testing.assert_allclose(rolled(x, FrameChoice(1, None, None)), np.full(6, x[-1]))


@pytest.mark.parametrize("naive", [{}, {"naive": "season", "season": 4}, {"naive": "change", "season": 1}])
def test_a_growing_ridge_leads_to_the_naive_forecast(naive):
    x = np.cumsum(noise(80))
    drift = rolled(x, FrameChoice(5, None, np.inf, **naive))
    apart = [np.abs(rolled(x, FrameChoice(5, None, ridge, **naive)) - drift).max() for ridge in (1e-6, 1e2, 1e9)]
    assert apart[2] < 1e-6 < apart[1] < apart[0]


def test_without_a_ridge_the_naive_forecast_makes_no_difference():
    x = np.cumsum(noise(200))
    plain, season = FrameChoice(5, None, 1e-14), FrameChoice(5, None, 1e-14, naive="season", season=4)
    np.testing.assert_allclose(rolled(x, plain), rolled(x, season), rtol=1e-6)


def test_the_criterion_prefers_the_true_number_of_lags():
    x = np.zeros(400)
    for k, e in enumerate(noise(398), start=2):
        x[k] = 1.4 * x[k - 1] - 0.7 * x[k - 2] + e
    preparer = Preparer(dataset(x))
    found = {history: criterion(preparer, FrameChoice(history, None, 1e-8), 380) for history in (1, 2, 13)}
    assert min(found, key=found.__getitem__) == 2


def test_short_series_are_held_out_in_earlier_blocks_too():
    data = dataset(noise(100))
    late, more = folds(data, 0.2), folds(data, 0.2, earlier=True)
    assert more[-len(late) :] == late
    assert [fold.held_out[0][1:] for fold in more[: -len(late)]] == [(40, 60), (60, 80)]
    for fold in more:
        assert fold.train[0][2] == fold.held_out[0][1]


def test_a_day_within_a_week_is_found():
    hours = np.arange(24 * 7 * 8)
    day, week = np.sin(2 * np.pi * hours / 24), np.repeat(noise(7), 24)
    x = day * (1 + 0.3 * week[hours % 168]) + week[hours % 168] + 0.01 * noise(len(hours), 1)
    assert sorted(seasons(dataset(x))) == [24, 168]


def held_out_error(x, steps, **options):
    """The error of forecasts over the last quarter, beside that of the last state and of the last season of 12."""
    cut = round(0.75 * len(x))
    model = LensForecaster(**options).fit(x[:cut], dt=1.0)
    starts = range(cut, len(x) - steps + 1)
    truth = np.stack([x[i : i + steps] for i in starts])
    windows = np.stack([x[i - model.history_ : i, None] for i in starts])
    run = model.rollout(windows if model.history_ > 1 else windows[:, 0], steps=steps, level=0.9)
    inside = (truth >= run.lower[:, 1:, 0]) & (truth <= run.upper[:, 1:, 0])
    mean = {
        "model": run.array[:, 1:, 0],
        "last": np.stack([np.full(steps, x[i - 1]) for i in starts]),
        "season": np.stack([x[i - 12 : i][np.arange(steps) % 12] for i in starts]),
    }
    return {name: float(np.mean((one - truth) ** 2)) for name, one in mean.items()}, float(inside.mean())


@pytest.mark.slow
def test_a_random_walk_is_forecast_about_as_well_as_by_its_last_state():
    found = [held_out_error(np.cumsum(noise(200, seed)), 10, parts=("linear",))[0] for seed in range(3)]
    assert np.mean([np.log(one["model"] / one["last"]) for one in found]) < np.log(1.15)


def test_a_map_of_changes_ignores_the_level():
    x = np.cumsum(noise(80))
    one, other = (rolled(x + shift, FrameChoice(4, None, 1e-3, level=False)) for shift in (0.0, 50.0))
    np.testing.assert_allclose(one + 50.0, other, atol=1e-8)


def test_growing_seasons_of_few_years_are_forecast_better_than_by_the_last_season():
    months = np.arange(120)
    season = np.exp(0.15 * noise(12, 5))[months % 12]
    x = 100 * np.exp(0.01 * months + 0.02 * noise(120, 6)) * season
    errors, _ = held_out_error(x, 12, parts=("linear",))
    assert errors["model"] < 0.5 * errors["season"]


@pytest.mark.slow
def test_intervals_of_short_series_cover_as_often_as_they_say():
    covered = []
    for seed in range(6):
        x = np.zeros(160)
        for k, e in enumerate(noise(158, seed), start=2):
            x[k] = 1.2 * x[k - 1] - 0.5 * x[k - 2] + e
        covered.append(held_out_error(x, 8, parts=("linear",))[1])
    assert 0.85 <= np.mean(covered) <= 0.97


def test_noise_does_not_make_a_map_that_explodes():
    x = np.sin(0.3 * np.arange(300)) + 0.5 * noise(300)
    model = LensForecaster(parts=("linear",)).fit(x, dt=1.0)
    assert spectral_radius(model.surrogate_.frame) <= 1 + 2 / 250
