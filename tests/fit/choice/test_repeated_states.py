"""Series in which most states repeat exactly: what stays says nothing about the noise of what changes."""

from __future__ import annotations

import numpy as np
import pytest

from lln import LensForecaster


@pytest.mark.parametrize("seed", [0, 1])
def test_independent_events_among_zeros_are_forecast_by_about_their_mean(seed):
    rng = np.random.default_rng(seed)
    x = ((rng.uniform(size=600) < 0.15) * rng.gamma(2.0, 2.0, size=600))[:, None]
    train = x[:450]
    model = LensForecaster().fit(train, dt=1.0)
    history = model.report_.history
    starts = range(450, 590, 5)
    predicted = np.stack(
        [model.rollout(x[s - history : s] if history > 1 else x[s - 1], steps=10).predicted for s in starts]
    )
    truth = np.stack([x[s : s + 10] for s in starts])
    assert np.mean((predicted - truth) ** 2) < 1.1 * np.mean((train.mean() - truth) ** 2)
    assert model.report_.noise > 0.1


def test_a_repeating_signal_without_noise_is_not_called_noisy():
    x = np.sign(np.sin(2 * np.pi * np.arange(800) / 25.0) + 1e-9)[:, None]
    model = LensForecaster().fit(x[:600], dt=1.0)
    predicted = model.rollout(steps=100).predicted
    assert np.abs(predicted - x[600:700]).max() < 1e-6
