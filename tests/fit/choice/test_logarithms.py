"""Series whose season grows with their level are learned in logarithms."""

import numpy as np
import pytest

import lln
from lln.core.errors import InputError
from lln.data.series import Dataset, Series
from lln.fit.choice import representation
from lln.fit.choice.representation import grow_with_level


def seasonal(rows=144, *, grows=True, seed=0):
    """A trend with a season of twelve steps, whose swing grows with the level or stays the same."""
    source, place = np.random.default_rng(seed), np.arange(rows)
    season = 0.25 * np.sin(2 * np.pi * place / 12) + 0.1 * np.cos(4 * np.pi * place / 12)
    noise = 0.02 * source.standard_normal(rows)
    level = 100 * np.exp(0.012 * place)
    return (level * np.exp(season + noise) if grows else level + 60 * (season + noise))[:, None]


def spikes(rows=200):
    """An oscillation that comes near zero, with peaks of any height."""
    source, place = np.random.default_rng(3), np.arange(rows)
    height = np.repeat(np.exp(source.standard_normal(rows // 10)), 10)
    return (100 * height * np.exp(2.5 * np.cos(2 * np.pi * place / 10) + 0.1 * source.standard_normal(rows)))[:, None]


def dataset(states):
    return Dataset((Series(states),))


def test_a_swing_in_proportion_to_the_level_is_found():
    assert grow_with_level(dataset(seasonal()))
    assert grow_with_level(dataset(np.concatenate([seasonal(), 5 * seasonal(seed=1)], axis=1)))


@pytest.mark.parametrize(
    "states",
    [
        seasonal(grows=False),
        np.concatenate([seasonal(), seasonal(grows=False, seed=1)], axis=1),
        seasonal() - 90.0,
        seasonal(60),
        spikes(),
        np.exp(np.random.default_rng(0).standard_normal((144, 1))),
    ],
    ids=["the same swing", "one of two", "below zero", "few seasons", "spikes", "no season"],
)
def test_other_series_are_learned_as_they_are(states):
    assert not grow_with_level(dataset(states))


def test_clean_data_and_fields_are_learned_as_they_are():
    place = np.arange(144)
    clean = 100 * np.exp(0.012 * place + 0.25 * np.sin(2 * np.pi * place / 12))
    assert not grow_with_level(dataset(clean[:, None]))
    assert not grow_with_level(Dataset((Series(seasonal()),), space=(1,)))


@pytest.fixture(scope="module")
def model():
    return lln.LensForecaster().fit(seasonal(120), dt=1.0)


def test_forecasts_are_better_and_the_report_says_why(model, monkeypatch):
    states = seasonal()
    assert model.report_.logarithms
    assert representation.NOTE in model.report_.notes
    assert "logarithms of the last" in str(model.summary())
    monkeypatch.setattr(representation, "grow_with_level", lambda _: False)
    plain = lln.LensForecaster().fit(states[:120], dt=1.0)
    assert not plain.report_.logarithms
    errors = [np.mean((one.rollout(steps=24).array[1:] - states[120:]) ** 2) for one in (model, plain)]
    assert errors[0] < 0.8 * errors[1]


def test_errors_and_region_are_those_of_states(model):
    report, states = model.report_, seasonal(120)
    np.testing.assert_allclose(
        [model.region_.low, model.region_.high], [states.min(axis=0), states.max(axis=0)], rtol=0.2
    )
    first = report.skill["model"][0] * states.var()
    assert 0.01 < np.sqrt(first) / states[-30:].mean() < 0.1  # noise of 2 % of the level
    assert report.held_out_nmse < report.skill["persistence"][-1]


def test_intervals_cover_what_comes(model):
    states = seasonal()
    found = model.rollout(steps=24, level=0.9)
    inside = (found.lower[1:] <= states[120:]) & (states[120:] <= found.upper[1:])
    assert inside.mean() > 0.7
    assert (found.lower > 0).all()


def test_a_file_keeps_them(model, tmp_path):
    model.save(tmp_path / "m.lln")
    again = lln.load(tmp_path / "m.lln")
    assert again.report_.logarithms
    np.testing.assert_array_equal(again.rollout(steps=24).array, model.rollout(steps=24).array)


def test_a_fit_goes_on_in_logarithms(tmp_path, model):
    model.save(tmp_path / "m.lln")
    again, states = lln.load(tmp_path / "m.lln"), seasonal()
    again.update(states)
    assert again.report_.logarithms
    assert again.report_.notes.count(representation.NOTE) == 1
    before = again.rollout(steps=12).array
    assert before[0] == pytest.approx(states[-1])
    with pytest.raises(InputError, match="needs states above zero"):
        again.update(np.concatenate([states, [[0.0]]]))
    np.testing.assert_array_equal(again.rollout(steps=12).array, before)


def test_a_state_below_zero_counts_as_the_least_that_is_known(model):
    start = seasonal(120)[-model.history_ :]
    start[0] = -5.0
    low = start.copy()
    low[0] = seasonal(120).min() / 2
    np.testing.assert_allclose(
        model.rollout(start, steps=5).array[1:], model.rollout(low, steps=5).array[1:], rtol=1e-9
    )


def test_growth_over_decades_of_size_is_learned_from_logarithms():
    rows, rng = np.arange(100), np.random.default_rng(0)
    x = np.exp(0.08 * rows) * rng.lognormal(0, 0.05, 100)
    model = lln.LensForecaster(parts=("linear",)).fit(x[:80], dt=1.0)
    assert model.report_.logarithms
    assert np.abs(np.log(model.rollout(steps=10).predicted[:, 0] / x[80:90])).max() < 0.4
    additive = np.exp(0.08 * rows) + rng.normal(size=100) / 10 + 1
    assert not lln.LensForecaster(parts=("linear",)).fit(additive[:80], dt=1.0).report_.logarithms


def growth(rows=140, seed=0):
    """What grows by about one per cent a step, two- to fourfold in all."""
    return np.exp(3 + np.cumsum(0.01 + 0.01 * np.random.default_rng(seed).standard_normal(rows)))[:, None]


@pytest.mark.parametrize("seed", [4, 5])
def test_growth_below_a_decade_is_learned_from_logarithms_if_changes_grow_with_the_level(seed):
    grown = growth(seed=seed)
    assert grown.max() < 10 * grown.min()
    assert grow_with_level(dataset(grown))


@pytest.mark.parametrize("seed", range(6))
def test_growth_by_changes_of_one_size_is_learned_as_it_is(seed):
    steps = np.cumsum(0.3 + np.random.default_rng(seed).standard_normal(140))
    assert not grow_with_level(dataset((steps - steps.min() + 0.2 * np.ptp(steps))[:, None]))
