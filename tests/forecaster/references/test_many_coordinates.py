"""References of fields with many points: exact, within bounded memory, and a sentence where one is left out."""

import tracemalloc

import numpy as np
import pytest

import lln
from lln.data.read.formats import as_dataset
from lln.data.stream import moments
from lln.fit.closed.linear import units_of, units_of_moments
from lln.forecaster.comparison.competitors import DENSE_COORDINATES, LINEAR_COORDINATES, fit_reference, too_large
from lln.forecaster.references import simple
from lln.forecaster.references.reservoir import EchoSetting, EchoState

RNG = np.random.default_rng(0)


def waves(points, rows=60):
    """Two waves of a line of points, each at its own speed."""
    x, t = np.arange(points) * 2 * np.pi / points, np.arange(rows)[:, None]
    return np.sin(x - 0.1 * t) + 0.5 * np.cos(2 * x + 0.07 * t)


@pytest.fixture(scope="module")
def line():
    return as_dataset(waves(1200), dt=0.1, grid=1200)


@pytest.mark.parametrize("name", ["mean", "linear", "analog", "kernel", "esn"])
def test_no_reference_holds_products_of_all_pairs_of_coordinates(name, line):
    fit_reference(name, as_dataset(waves(8), dt=0.1))  # imports
    tracemalloc.start()
    try:
        fit_reference(name, line)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # What a reference keeps, such as the readout of `esn`, is about one square; products of two histories are nine.
    assert peak < 5 * 8 * line.size**2


def test_units_need_no_products():
    dataset = as_dataset(RNG.normal(size=(300, 4)).cumsum(axis=0), dt=0.1)
    for history in (1, 3):
        plain, whole = units_of(dataset, history), units_of_moments(moments(dataset, history, rows=70))
        for name in ("mean", "scale", "difference_scale"):
            np.testing.assert_allclose(getattr(plain, name), getattr(whole, name), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("most_axes", [2000, 0])
def test_the_nearest_of_few_points_with_many_columns(most_axes, monkeypatch):
    monkeypatch.setattr(simple, "_AXES", most_axes)
    points, queries = RNG.normal(size=(30, 200)), RNG.normal(size=(5, 7, 200))
    found = simple.Nearest(points)(queries)
    np.testing.assert_array_equal(found, np.linalg.norm(queries[..., None, :] - points, axis=-1).argmin(axis=-1))


def test_the_readout_of_a_wide_reservoir_is_the_ridge_regression():
    dataset = as_dataset(waves(40, 90), dt=0.1)
    reservoir = EchoState().solve(dataset, EchoSetting(0.9, 0.1, 1e-4), 5, 1000)
    columns, targets = reservoir._columns(dataset, 1000)
    assert columns.shape[0] < columns.shape[1]
    gram = columns.T @ columns
    ridge = 1e-4 * np.trace(gram) / len(gram)
    expected = np.linalg.solve(gram + ridge * np.eye(len(gram)), columns.T @ targets)
    np.testing.assert_allclose(reservoir.readout, expected, rtol=0, atol=1e-9 * np.abs(expected).max())


def test_what_is_too_large_is_left_out_with_a_reason():
    field, table = (
        as_dataset(waves(LINEAR_COORDINATES + 1, 20), dt=0.1, **one) for one in ({"grid": 1025}, {"time": 0})
    )
    assert "all 1,025 coordinates at once" in too_large("polynomial", field)
    assert too_large("mlp", field)
    assert not too_large("lens", field)
    assert not too_large("linear", field)
    assert "the limit is 1,024" in too_large("linear", table)
    assert not too_large("linear", as_dataset(waves(LINEAR_COORDINATES, 20), dt=0.1, time=0))
    assert not too_large("polynomial", as_dataset(waves(DENSE_COORDINATES, 20), dt=0.1, time=0))


def test_an_evaluation_says_which_baseline_is_too_large():
    states = waves(DENSE_COORDINATES + 8, 80)
    grid = {"dt": 0.1, "grid": DENSE_COORDINATES + 8}
    model = lln.LensForecaster(parts=("linear",)).fit(states[:60], **grid)
    found = model.evaluate(as_dataset(states, **grid), baselines="all")
    assert set(found.skill.errors) >= {"model", "persistence", "linear", "analog", "kernel"}
    assert "coordinates at once" in found.skill.left_out["polynomial"]


def test_a_baseline_that_is_named_is_fitted_however_large(monkeypatch):
    monkeypatch.setattr("lln.forecaster.comparison.competitors.DENSE_COORDINATES", 2)
    monkeypatch.setattr("lln.forecaster.comparison.competitors.LINEAR_COORDINATES", 2)
    states = waves(4, 80) + 0.01 * RNG.normal(size=(80, 4))
    model = lln.LensForecaster(parts=("linear",), history=1).fit(states[:60], dt=0.1)
    assert set(model.evaluate(states, baselines="all").skill.left_out) == {"linear", "polynomial"}
    found = model.evaluate(states, baselines=("linear", "polynomial"))
    assert set(found.skill.errors) == {"model", "linear", "polynomial"}
    assert not found.skill.left_out
    assert set(model.evaluate(states, baselines="linear").skill.errors) == {"model", "linear"}
