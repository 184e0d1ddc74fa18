from typing import Any

import numpy as np
import pytest

import lln
from lln.core.errors import InputError
from lln.data.series import Dataset, Series
from lln.fit.report.intervals import Intervals, as_elsewhere, change_along, measured_coverage
from lln.systems import perturbed_start, simulate
from lln.systems.periodic import AdvectionDiffusion

STEPS = 12


def settling(windows: int, seed: int, n: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Starts, rollouts that decay from them, and what came: errors in proportion to the change, above a floor."""
    rng = np.random.default_rng(seed)
    start = np.geomspace(0.03, 1.0, windows)[:, None, None] * rng.choice([-1.0, 1.0], (windows, 1, n))
    states = start * 0.9 ** np.arange(1, STEPS + 1)[:, None]
    size = np.hypot(0.01 * np.abs(start), 5e-4)
    return start, states, states + size * rng.standard_normal(states.shape)


def intervals_of(windows: int, rows: float = np.inf, n: int = 3) -> Intervals:
    start, states, truth = settling(windows, 1, n)
    return Intervals.of(states, truth, np.ones(n), rows, change=change_along(start, states, np.ones(n)))


def test_the_change_is_a_root_mean_square_over_coordinates_and_steps() -> None:
    start, states = np.zeros((2, 5, 2)), np.array([[[3.0, 0.0], [3.0, 8.0]], [[np.nan, 0.0], [np.inf, 0.0]]])
    found = change_along(start, states, np.array([3.0, 4.0]))
    assert found.shape == (2, 2, 1)
    assert found[0, :, 0] == pytest.approx(np.sqrt([0.5, (0.5 + 2.0) / 2]))
    assert found[1, :, 0] == pytest.approx([2.0, 2.0])  # a rollout that diverged


@pytest.mark.parametrize("n", [3, 70])
def test_fast_and_slow_rollouts_are_covered_alike(n: int) -> None:
    intervals = Intervals.from_record(intervals_of(300, n=n).record())
    assert intervals.error_size is not None
    assert intervals.follow
    assert intervals.widths.shape[2] == (3 if n == 3 else 1)
    start, states, truth = settling(600, 2, n)
    lower, upper = intervals.bounds(states, 0.9, intervals.spread(None, start, states, None))  # type: ignore[arg-type]
    inside = ((truth >= lower) & (truth <= upper)).mean(axis=(1, 2))
    for part in np.split(inside, 4):
        assert part.mean() == pytest.approx(0.9, abs=0.05)
    plain = Intervals.of(states, truth, np.ones(n)).bounds(states, 0.9)
    inside = ((truth >= plain[0]) & (truth <= plain[1])).mean(axis=(1, 2))
    assert inside[:300].mean() > 0.99
    assert inside[-100:].mean() < 0.75


def test_few_windows_or_errors_of_one_size_have_no_pace() -> None:
    assert intervals_of(300, rows=3 * STEPS).error_size is None
    assert intervals_of(300, rows=5 * STEPS).error_size is not None
    start, states, _ = settling(300, 1)
    truth = states + np.random.default_rng(3).standard_normal(states.shape)
    change = change_along(start, states, np.ones(3))
    assert Intervals.of(states, truth, np.ones(3), change=change).error_size is None
    rest = np.zeros_like(states)
    assert Intervals.of(rest, truth - states, np.ones(3), change=np.zeros_like(change)).error_size is None


def test_the_coverage_that_is_reported_is_that_of_the_pace() -> None:
    start, states, truth = settling(400, 1)
    change = change_along(start, states, np.ones(3))
    with_pace, without = (measured_coverage(states, truth, np.ones(3), change=one) for one in (change, None))
    assert with_pace == pytest.approx(0.9, abs=0.02)
    assert without is not None
    assert abs(without - 0.9) > 0.03


def test_a_field_that_decays_is_covered_early_and_late(tmp_path: Any) -> None:
    system = AdvectionDiffusion(points=16, nu=0.1)
    starts = np.stack([perturbed_start(system, seed) for seed in range(6)])
    states = np.asarray(simulate(system, 1800, starts=starts, dtype="float32"), dtype=np.float64)[:, 300:]
    data = Dataset(tuple(map(Series, states[:4])), dt=system.dt, space=(16,))
    model = lln.LensForecaster(parts=["linear"]).fit(data)
    assert "pace" in model.report_.intervals
    model.save(tmp_path / "model.lln")
    for one in (model, lln.load(tmp_path / "model.lln")):
        for row in (0, 700, 1200):
            found = one.rollout(states[4:, row], steps=200, level=0.9)
            truth = states[4:, row : row + 201]
            inside = (truth >= found.lower) & (truth <= found.upper)
            assert 0.83 < inside[:, 1:].mean() < 0.96, row


def test_one_wild_window_does_not_decide_how_much_more_a_model_errs_elsewhere() -> None:
    rng = np.random.default_rng(6)
    spread = np.where(np.arange(100) == 0, 1e2, 1.0)[:, None, None] * np.ones((1, STEPS, 1))
    truth = np.zeros_like(spread)
    apart, fitted = (spread * rng.standard_normal(spread.shape) for _ in range(2))
    apart[0] = 5.0 * spread[0]
    fitted[0] = 0.5 * spread[0]
    found = as_elsewhere(np.ones_like(spread), truth, [(apart, fitted, truth)], [spread])
    assert (found < 2.0).all()
    assert (as_elsewhere(np.ones_like(spread), truth, [(apart, fitted, truth)], [np.ones(1)]) > 5.0).all()


@pytest.mark.parametrize(
    "pace",
    [
        {"unit": 0.0, "power": 1.0, "floor": 1.0},
        {"unit": 1.0, "power": float("nan"), "floor": 1.0},
        {"unit": 1.0, "power": 1.0, "floor": "x"},
        {"unit": 1.0, "power": 1.0},
        {"unit": 1.0, "power": 1.0, "floor": 1.0, "more": 1.0},
        [1.0, 1.0, 1.0],
    ],
)
def test_a_stored_pace_that_makes_no_sense_is_refused_in_a_sentence(pace: object) -> None:
    record = {**intervals_of(300).record(), "pace": pace}
    with pytest.raises(InputError, match=r"the prediction intervals of this model cannot be read: .*; fit it again"):
        Intervals.from_record(record)
