import numpy as np
import pytest

from lln.data.series import Dataset, Series
from lln.data.stream import moments, pairs
from lln.fit.closed.linear import (
    allowed_features,
    neighbours,
    regression_of_moments,
    spectral_radius,
    units_of_moments,
    units_of_pairs,
)
from lln.fit.prepare import prepare
from lln.step.frame import Frame
from lln.step.step import DenseStep


def noise(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def frame(n=3, history=2, inputs=1):
    rng = np.random.default_rng(1)
    features = n * history + inputs
    return Frame(
        rng.standard_normal(n), rng.uniform(1, 2, n), history, rng.uniform(1, 2, (history - 1, n)),
        rng.standard_normal(inputs), rng.uniform(1, 2, inputs), 0.1 * rng.standard_normal((n, features)),
        0.1 * rng.standard_normal(n), rng.uniform(1, 2, n),
    )  # fmt: skip


def test_features_are_the_present_the_differences_and_the_inputs():
    one = frame()
    window, known = noise(2, 3), noise(1)
    z = (window - one.mean) / one.scale
    expected = np.concatenate(
        [z[1], (z[1] - z[0]) / one.difference_scale[0], (known - one.input_mean) / one.input_scale]
    )
    np.testing.assert_allclose(one.feature_rows(window, known), expected, rtol=1e-14)
    assert one.features == len(expected)


def _linear_system(n=4, steps=200, seed=0):
    rng = np.random.default_rng(seed)
    step = np.linalg.qr(rng.standard_normal((n, n)))[0] * 0.99
    states = [rng.standard_normal(n) * [1, 10, 0.1, 3]]
    for _ in range(steps):
        states.append(step @ states[-1] + 0.01 * rng.standard_normal(n))
    return np.array(states)


@pytest.mark.parametrize("history", [1, 2, 3])
def test_rows_and_sums_lead_to_the_same_units_and_the_same_map(history):
    known = noise(201, 2)
    data = Dataset((Series(_linear_system(), known, np.linspace(0.5, 2, 201)),))
    held = pairs(data, history)
    by_rows, by_sums = units_of_pairs(held), units_of_moments(moments(data, history))
    for name in ("mean", "scale", "difference_scale", "input_mean", "input_scale"):
        np.testing.assert_allclose(getattr(by_rows, name), getattr(by_sums, name), rtol=1e-9, err_msg=name)
    one = prepare(data, history).regression
    two = regression_of_moments(by_sums, moments(data, history))
    for ridge in (1e-8, 1e-3):
        for a, b in zip(one.solve(ridge), two.solve(ridge), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-8)


def test_without_a_ridge_it_is_least_squares():
    ready = prepare(Dataset((Series(_linear_system()),)), 1)
    held, units = ready.held, ready.units
    rows = units.frame().feature_rows(held.window)
    matrix, offset = ready.regression.solve(0.0)
    tall = np.column_stack([rows, np.ones(len(rows))])
    expected = np.linalg.lstsq(tall, held.increments / units.scale, rcond=None)[0].T
    np.testing.assert_allclose(np.column_stack([matrix, offset]), expected, atol=1e-11)


def test_a_constant_column_has_the_unit_one_and_no_increment():
    states = np.column_stack([_linear_system()[:, 0], np.full(201, 5.0)])
    ready = prepare(Dataset((Series(states),)), 2)
    units = ready.units
    assert units.scale[1] == 1.0
    assert units.difference_scale[0, 1] == 1.0
    matrix, offset = ready.regression.solve(1e-10)
    assert np.abs(matrix[1]).max() < 1e-12
    assert abs(offset[1]) < 1e-12


def test_a_local_map_uses_neighbours_alone_and_all_of_them_give_the_dense_one():
    data = Dataset((Series(noise(300, 8).cumsum(axis=0)),), space=(8,))
    near = neighbours(data, 1)
    assert near.sum(axis=1).tolist() == [3] * 8
    assert near[0, 7]  # around the edge
    fit = prepare(data, 2).regression
    allowed = allowed_features(near, 2, 0)
    assert not fit.solve(1e-6, allowed)[0][~allowed].any()
    everything = allowed_features(neighbours(data, 4), 2, 0)
    np.testing.assert_allclose(fit.solve(1e-3, everything)[0], fit.solve(1e-3)[0], atol=1e-9)


def test_fields_share_their_neighbours():
    data = Dataset((Series(noise(10, 24)),), space=(3, 4), channels=("a", "b"))
    near = neighbours(data, 1)
    assert near.shape == (24, 24)
    np.testing.assert_array_equal(near[:12, :12], near[:12, 12:])


@pytest.mark.parametrize("history", [1, 2, 3])
def test_spectral_radius_is_the_growth_of_a_long_rollout(history):
    n = 2
    rng = np.random.default_rng(3)
    one = Frame(
        np.zeros(n), np.ones(n), history, rng.uniform(0.5, 2, (history - 1, n)), np.zeros(0), np.ones(0),
        0.3 * rng.standard_normal((n, n * history)), np.zeros(n), np.zeros(n),
    )  # fmt: skip
    past, logs, step = [rng.standard_normal(n) for _ in range(history)], [], DenseStep(one)
    for _ in range(4000):
        after = step.rollout(np.stack(past), 1)[0]
        size = np.linalg.norm(after)
        logs.append(np.log(size))
        past = [state / size for state in (*past[1:], after)]
    # The mean log growth settles as one over the number of steps, times a transient of a few units.
    assert np.mean(logs[1000:]) == pytest.approx(np.log(spectral_radius(one)), abs=5e-3)
