from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import lln
from lln.fit.report.intervals import Intervals, may_differ, spread_along

RNG = np.random.default_rng(4)


def stepping(advance: Any, history: int = 1, members: tuple[Any, ...] = ()) -> Any:
    """A model whose next state is advance(window)."""

    def rollout(window: np.ndarray, steps: int, inputs: np.ndarray | None = None) -> np.ndarray:
        states = []
        for k in range(steps):
            after = advance(window) if inputs is None else advance(window) + inputs[..., k, :]
            window = np.concatenate([window[..., 1:, :], after[..., None, :]], axis=-2)
            states.append(after)
        return np.stack(states, axis=-2)

    return SimpleNamespace(
        rollout=rollout, members=members, frame=SimpleNamespace(history=history, scale=np.ones(1), mean=np.zeros(1))
    )


LOGISTIC = stepping(lambda window: 3.9 * window[..., -1, :] * (1 - window[..., -1, :]))


def test_the_spread_of_an_autoregression_is_the_one_of_theory() -> None:
    found = spread_along(stepping(lambda w: 0.5 * w[..., -1, :]), RNG.standard_normal((4, 1, 1)), 6, None, np.ones(1))
    assert found.shape == (4, 6, 1)
    assert found[2, :, 0] == pytest.approx(np.sqrt(np.cumsum(0.25 ** np.arange(6))), rel=1e-6)
    second = stepping(lambda w: 1.2 * w[..., -1, :] - 0.5 * w[..., -2, :], history=2)
    found = spread_along(second, RNG.standard_normal((2, 1)), 3, RNG.standard_normal((3, 1)), np.full(1, 0.1))
    assert found[:, 0] == pytest.approx(0.1 * np.sqrt([1, 1 + 1.2**2, 1 + 1.2**2 + 0.94**2]), rel=1e-6)


def test_the_spread_ends_at_the_size_of_the_data_also_where_the_model_diverges() -> None:
    found = spread_along(stepping(lambda w: w[..., -1, :] ** 3), np.full((1, 1, 1), 5.0), 30, None, np.full(1, 0.1))
    assert (found[0, 5:, 0] == 2.0).all()


def test_only_models_that_bend_and_are_quick_have_a_spread_of_their_own() -> None:
    start = RNG.uniform(0.1, 0.9, (20, 1, 1))
    advance = LOGISTIC.rollout
    assert may_differ(LOGISTIC, start, None, np.full(1, 1e-6))
    assert not may_differ(stepping(lambda w: 0.9 * w[..., -1, :]), start, None, np.full(1, 1e-6))
    assert not may_differ(stepping(advance, members=(object(),)), start, None, np.full(1, 1e-6))
    assert not may_differ(LOGISTIC, RNG.uniform(0.1, 0.9, (20, 1, 17)), None, np.full(17, 1e-6))


def noisy_rollouts(windows: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Starts, rollouts, and what comes where each step also errs a little."""
    rng = np.random.default_rng(seed)
    start = rng.uniform(0.1, 0.9, (windows, 1, 1))
    state, truth = start, []
    for _ in range(8):
        state = LOGISTIC.rollout(state, 1) + 1e-6 * rng.standard_normal(state.shape)
        truth.append(state[:, 0])
    return start, LOGISTIC.rollout(start, 8), np.stack(truth, axis=1)


def test_intervals_follow_the_spread_and_cover_calm_and_wild_starts_alike() -> None:
    step_error = np.full(1, 1e-6)
    start, predicted, truth = noisy_rollouts(150, 1)
    spread = spread_along(LOGISTIC, start, 8, None, step_error)
    intervals = Intervals.of(predicted, truth, np.ones(1), spread=spread, step_error=step_error)
    intervals = Intervals.from_record(intervals.record())
    start, predicted, truth = noisy_rollouts(600, 2)
    grown = intervals.spread(LOGISTIC, start, predicted, None)
    assert grown is not None
    wild = grown[:, -1, 0] > np.median(grown[:, -1, 0])
    for some in (wild, ~wild):
        assert intervals.covered(predicted[some], truth[some], 0.9, grown[some]) == pytest.approx(0.9, abs=0.04)
    lower, upper = Intervals.of(predicted, truth, np.ones(1)).bounds(predicted, 0.9)
    inside = (truth >= lower) & (truth <= upper)
    assert inside[wild, -1].mean() < 0.85  # without the spread
    assert inside[~wild, -1].mean() > 0.95


def test_errors_that_do_not_follow_the_spread_have_widths_of_their_own() -> None:
    start, predicted, truth = noisy_rollouts(150, 1)
    spread = spread_along(LOGISTIC, start, 8, None, np.full(1, 1e-6))
    truth = predicted + np.random.default_rng(3).standard_normal(truth.shape)
    intervals = Intervals.of(predicted, truth, np.ones(1), spread=spread, step_error=np.full(1, 1e-6))
    assert intervals.step_error is None
    assert intervals.spread(LOGISTIC, start, predicted, None) is None


def test_a_kick_of_another_size_is_refused() -> None:
    record = {"leads": [1], "levels": [0.9], "widths": [[[2.0]]], "scale": [1.0], "kick": [1.0, 2.0]}
    with pytest.raises(ValueError, match="a step error of shape"):
        Intervals.from_record(record)


def test_a_chaotic_forecast_has_wide_intervals_where_errors_grow_fast(tmp_path: Any) -> None:
    states = np.asarray(lln.simulate(lln.preset("lorenz-28"), steps=3500).states)
    model = lln.LensForecaster(parts=["flow"]).fit(states[:2000], dt=0.01)
    starts = states[2000:3300:13]
    found = model.rollout(starts, steps=200, level=0.9)
    truth = np.stack([states[row : row + 201] for row in range(2000, 3300, 13)])
    inside = (truth >= found.lower) & (truth <= found.upper)
    assert 0.85 < inside[:, 1:].mean() < 0.96
    width = found.upper[:, -1, 0] - found.lower[:, -1, 0]
    assert width.max() > 3 * width.min()
    model.save(tmp_path / "model.lln")
    again = lln.load(tmp_path / "model.lln").rollout(starts, steps=200, level=0.9)
    np.testing.assert_array_equal(again.upper, found.upper)
