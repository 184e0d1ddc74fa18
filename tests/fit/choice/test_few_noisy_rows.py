"""Short noisy series: a law that bends is used where it is far better, and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest

from lln import LensForecaster


def error_of_rollouts(x, cut, steps):
    model = LensForecaster().fit(x[:cut], dt=1.0)
    history = model.report_.history
    starts = range(cut, len(x) - steps + 1)
    windows = np.stack([x[s - history : s] for s in starts])
    predicted = model.rollout(windows if history > 1 else windows[:, 0], steps=steps).array[:, 1:]
    truth = np.stack([x[s : s + steps] for s in starts])
    last = np.stack([x[s - 1 : s] for s in starts])
    return model, np.mean((predicted - truth) ** 2), np.mean((last - truth) ** 2)


def test_growth_that_ends_is_learned_from_150_noisy_rows():
    rng, t = np.random.default_rng(301), np.arange(200.0)
    x = (100 / (1 + np.exp(-(t - 80) / 15)) + 0.5 * rng.normal(size=200))[:, None]
    model, ours, _ = error_of_rollouts(x, 150, 20)
    assert model.report_.part in ("lens", "polynomial")
    assert ours < 3 * 0.5**2


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_short_random_walk_stays_linear(seed):
    x = np.cumsum(np.random.default_rng(seed).normal(size=160))[:, None]
    model, ours, persistence = error_of_rollouts(x, 120, 10)
    assert model.report_.part not in ("lens", "polynomial", "network")
    assert ours < 2 * persistence
