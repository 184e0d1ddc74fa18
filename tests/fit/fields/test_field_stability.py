import dataclasses
import math

import numpy as np
import pytest
import torch

from lln import InputError, LensForecaster
from lln.data.read.formats import as_dataset
from lln.fit.fields.data import Grid, empty_frame
from lln.fit.fields.waves import WaveRegression
from lln.models.convolution import convolve

STEPS, DT, POINTS = 40, 0.05, 32
X = 2 * np.pi * np.arange(POINTS) / POINTS


def waves(steps, rng):
    """Displacement and velocity of smooth waves on a ring, exact, (steps + 1, 2 * points)."""
    times = DT * np.arange(steps + 1)[:, None]
    states = np.zeros((steps + 1, 2, POINTS))
    for m in range(1, 4):
        (a, b), (p, q) = rng.normal(size=2) / m, rng.uniform(0, 7, size=2)
        states[:, 0] += a * np.sin(m * X + p) * np.cos(m * times) + b / m * np.sin(m * X + q) * np.sin(m * times)
        states[:, 1] += -a * m * np.sin(m * X + p) * np.sin(m * times) + b * np.sin(m * X + q) * np.cos(m * times)
    return states.reshape(steps + 1, -1)


@pytest.mark.parametrize("field", ["auto", True])
def test_smooth_waves_stay_right_far_beyond_the_training_length(field):
    """Narrow kernels fit them within 1e-6 over the training length, and let short waves grow by 1.18 in each step."""
    rng = np.random.default_rng(0)
    model = LensForecaster(field=field, parts="linear").fit(
        [waves(STEPS, rng) for _ in range(8)], dt=DT, grid=(POINTS,)
    )
    assert model.report_.spectral_radius == pytest.approx(1.0, abs=1e-6)
    truth = waves(8 * STEPS, rng)
    forecast = model.rollout(truth[: model.history_], steps=7 * STEPS)
    error = np.abs(forecast.predicted - truth[model.history_ : model.history_ + 7 * STEPS])
    assert error.max() < 1e-6


def test_a_grid_without_two_neighbouring_states_gives_one_sentence():
    states = np.random.default_rng(0).normal(size=(30, 16))
    states[::2] = np.nan
    with pytest.raises(InputError, match="gap"):
        LensForecaster().fit(states, dt=1.0, grid=(16,))


@pytest.mark.parametrize("conserve", ["none", "mean"])
@pytest.mark.parametrize("space", [(9,), (8,), (6, 5)])
def test_a_kernel_as_wide_as_the_grid_is_recovered(space, conserve):
    rng, channels = np.random.default_rng(3), 2
    taps = rng.normal(size=(channels, math.prod(space) * channels))
    if conserve == "mean":
        taps -= np.tile(taps.reshape(channels, -1, channels).mean(axis=1), (1, math.prod(space)))
    frame = dataclasses.replace(
        empty_frame(as_dataset(rng.normal(size=(50, channels * math.prod(space))), grid=space, dt=1.0),
                    Grid(space, (1.0,) * len(space), (("periodic", "periodic"),) * len(space)), 1, conserve),
        kernel=space, matrix=taps, offset=np.zeros(2) if conserve == "mean" else np.array([0.5, -0.2]),
    )  # fmt: skip
    features = torch.from_numpy(rng.normal(size=(40, *space, channels)))
    wanted = convolve(features, torch.from_numpy(taps), torch.from_numpy(frame.offset), space, frame.boundary)
    held = None if conserve == "none" else np.ones(channels, dtype=bool)
    found = WaveRegression.of([(features[:25], wanted[:25], None), (features[25:], wanted[25:], None)], space, held)
    solved = found.into(frame, 0.0)
    assert np.allclose(solved.matrix, taps, atol=1e-10)
    assert np.allclose(solved.offset, frame.offset, atol=1e-10)
    assert np.allclose(found.left_over(taps, frame.offset), 0.0, atol=1e-10)
    assert found.left_over(0 * taps, frame.offset) == pytest.approx(
        (wanted - torch.from_numpy(frame.offset)).square().mean(dim=tuple(range(len(space) + 1))).sqrt().numpy()
    )
