from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from lln import LensForecaster, load
from lln.data.series import Dataset, Series
from lln.fit.choice.holdout import RolloutErrors
from lln.fit.closed.bases import (
    ClosedChoice,
    FeatureRows,
    LensBasis,
    Projection,
    Scored,
    drawn_lenses,
    factor_count,
    rays,
    with_factors,
)
from lln.fit.closed.forms import ClosedForms
from lln.fit.closed.ridge import RidgePath
from lln.fit.fitter import Recipe, fit_surrogate
from lln.fit.learn import continue_fit
from lln.fit.options import TimeLimit


def bends_along_one_feature(rows, seed=0):
    """Features of which the first alone bends the increments, and sharply."""
    features = np.random.default_rng(seed).standard_normal((rows, 3))
    bent = np.tanh(3 * features[:, 0])
    return FeatureRows(features, np.stack([bent, features[:, 1] - bent**2], axis=1), None)


def lenses(width=40, features=3, seed=3):
    return drawn_lenses(range(features), features, 2, width, 0.4, seed=seed).network


def chua(rows):
    """Chua's circuit: chaotic, and no polynomial is its law."""
    x, states = np.array([0.1, 0.0, 0.0]), []

    def slope(s):
        bent = -0.714 * s[0] - 0.2145 * (abs(s[0] + 1) - abs(s[0] - 1))
        return np.array([15.6 * (s[1] - s[0] - bent), s[0] - s[1] + s[2], -28 * s[1]])

    for _ in range(rows + 300):
        for _ in range(6):
            h = 0.01
            k1 = slope(x)
            k2 = slope(x + h / 2 * k1)
            k3 = slope(x + h / 2 * k2)
            x = x + h / 6 * (k1 + 2 * k2 + 2 * k3 + slope(x + h * k3))
        states.append(x)
    return np.array(states[300:])


@pytest.mark.parametrize("weights", [None, np.linspace(0.5, 2.0, 60)])
def test_the_gradient_of_the_loss_is_that_of_finite_differences(weights):
    projection = Projection(lenses(), replace(bends_along_one_feature(60), weights=weights), 1e-4)
    logs = 0.2 * np.random.default_rng(1).standard_normal(factor_count(projection.network))
    _, slope = projection.value(logs)
    for place in range(len(logs)):
        side = 1e-5 * np.eye(len(logs))[place]
        (after, _), (before, _) = projection.value(logs + side), projection.value(logs - side)
        assert slope[place] == pytest.approx((after - before) / 2e-5, rel=1e-5, abs=1e-7)


def test_the_loss_is_that_of_the_solved_readout_and_the_volume():
    pairs, ridge = bends_along_one_feature(60), 1e-4
    projection = Projection(lenses(), pairs, ridge)
    loss, _ = projection.value(np.zeros(factor_count(projection.network)))
    columns = np.concatenate([pairs.features, LensBasis(lenses()).columns(pairs.features)], axis=1)
    weights, offset = RidgePath([(columns, pairs.increments, None)]).solve(ridge)
    left = pairs.increments - columns @ weights.T - offset
    size = pairs.increments.std(axis=0)
    least = (left**2).mean(axis=0) + projection.ridge * ((weights * columns.std(axis=0)) ** 2).sum(axis=1)
    z = (columns - columns.mean(axis=0)) / columns.std(axis=0) / np.sqrt(60)
    volume = np.linalg.slogdet(z @ z.T + projection.ridge * np.eye(60))[1]
    expected = 0.5 * np.log(least / size**2 / projection.ridge).sum() + 2 / 60 * 0.5 * volume
    assert loss == pytest.approx(expected, rel=1e-9)


def test_a_network_with_factors_has_the_rays_that_were_trained():
    network, rows = lenses(), np.random.default_rng(2).standard_normal((7, 3))
    factors = tuple(np.linspace(0.5, 1.8, factor_count(network)).tolist())
    expected = rays(network, torch.from_numpy(rows), torch.tensor(factors, dtype=torch.float64))
    np.testing.assert_allclose(LensBasis(with_factors(network, factors)).columns(rows), expected, rtol=1e-12)
    assert with_factors(network, factors).config()["optical_length"] != network.config()["optical_length"]


def test_training_lowers_the_error_on_other_rows_and_for_other_draws():
    train, held = bends_along_one_feature(150), bends_along_one_feature(400, seed=1)
    factors = Projection(lenses(), train, 1e-8).trained()
    assert factors is not None

    def error(network):
        basis = LensBasis(network)
        columns = np.concatenate([held.features, basis.columns(held.features)], axis=1)
        return RidgePath(train.blocks(basis)).one_step(columns, held.increments, (1e-10, 1e-8, 1e-6, 1e-4)).min()

    for seed in (3, 4):
        drawn = lenses(width=300, seed=seed)
        assert error(with_factors(drawn, factors)) < 0.2 * error(drawn)


def test_training_is_the_same_every_time_and_ends_when_it_is_late():
    first, second = (Projection(lenses(), bends_along_one_feature(80), 1e-6).trained() for _ in range(2))
    assert first == second
    assert Projection(lenses(), bends_along_one_feature(80), 1e-6).trained(lambda: True) is None
    calls = iter([False, False, False, True])
    stopped = Projection(lenses(), bends_along_one_feature(80), 1e-6).trained(lambda: next(calls))
    assert stopped not in (None, first)


def test_columns_that_never_change_teach_nothing():
    pairs = bends_along_one_feature(50)
    constant = replace(pairs, features=np.concatenate([pairs.features, np.full((50, 1), 0.1)], axis=1))
    with torch.no_grad():
        _, slope = Projection(lenses(), pairs, 1e-6).value(np.zeros(10))
        _, other = Projection(lenses(features=4), constant, 1e-6).value(np.zeros(12))
    assert np.isfinite(other).all()
    assert slope.any()
    assert Projection(lenses(), replace(pairs, increments=np.ones((50, 2))), 1e-6).trained() is None


@pytest.fixture(scope="module")
def model():
    return LensForecaster(parts=("linear", "lens")).fit(chua(300), dt=0.06)


def test_a_fit_uses_trained_lenses_where_held_out_rollouts_are_better(model):
    rows = [row for row in model.report_.candidates if row.get("part") == "lens"]
    drawn = min(row["nmse"] for row in rows if "trained" not in row)
    assert min(row["nmse"] for row in rows if "trained" in row) < drawn
    assert len(model.report_.structure["factors"]) == 6 * model.history_ + 4
    truth = chua(400)
    predicted = model.rollout(truth[300 - model.history_ : 300].squeeze(), steps=60).predicted
    assert (np.abs(predicted[-60:] - truth[300:360]) / truth.std(axis=0)).max() < 0.2


def test_trained_lenses_are_stored_and_solved_again_like_drawn_ones(model, tmp_path):
    start = chua(300)[300 - model.history_ :].squeeze()
    model.save(tmp_path / "model.lln")
    again = load(tmp_path / "model.lln")
    expected = model.rollout(start, steps=50).predicted
    np.testing.assert_array_equal(again.rollout(start, steps=50).predicted, expected)
    data = Dataset((Series(chua(300)),), dt=0.06)
    solved = continue_fit(data, again.recipe_, again.report_).surrogate
    np.testing.assert_allclose(solved.rollout(start.reshape(-1, 3), 50), expected[-50:], atol=1e-9)


class Begun(Exception):  # noqa: N818
    """Training has begun."""


class Gate(ClosedForms):
    """Forms that prepare no rows."""

    def __init__(self, *, at_noise=False, learns=False, limit=None):
        self.noisy, self._at_noise, self.learns, self.limit = at_noise, at_noise, learns, limit or TimeLimit()

    def learns_with_more_rows(self):
        return self.learns

    def _basis(self, *_):
        raise Begun

    def trains(self, error):
        self.preparer, self.fold = SimpleNamespace(prepare=lambda *_: None), SimpleNamespace(train=None)
        errors = RolloutErrors((1, 2, 4), np.full((2, 3), error))
        try:
            return bool(self._trained([Scored(ClosedChoice("lens", 1, 1e-6, scale=0.4, width=10), errors)], 4))
        except Begun:
            return True


def test_nothing_is_trained_for_noise_rounding_or_out_of_time():
    assert Gate().trains(1e-6)
    assert Gate(at_noise=True, learns=True).trains(1e-6)
    assert not Gate(at_noise=True).trains(1e-6)
    assert not Gate().trains(1e-15)
    assert not Gate(limit=TimeLimit(0.0)).trains(1e-6)


def test_a_fit_of_white_noise_trains_no_lenses():
    states = np.random.default_rng(5).standard_normal((300, 2))
    report = fit_surrogate(Dataset((Series(states),), dt=1.0), Recipe(parts=("linear", "lens"))).report
    assert not any(row.get("trained") for row in report.candidates)
