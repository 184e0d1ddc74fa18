import dataclasses
import math

import numpy as np
import pytest
import torch

from lln import InputError, LensForecaster
from lln.core.workers import serial
from lln.data.read.formats import as_dataset
from lln.fit.fields.closed import ClosedParts, Linear
from lln.fit.fields.data import Grid, empty_frame
from lln.fit.fields.training import FieldOptions
from lln.fit.fields.waves import WaveRegression
from lln.fit.options import Recipe, TimeLimit
from lln.models.convolution import convolve, patches
from lln.train.loop import Checkpoint

STEPS, DT, POINTS = 40, 0.05, 32
X = 2 * np.pi * np.arange(POINTS) / POINTS


def waves(steps, rng, drift=0.0):
    """Displacement and velocity of smooth waves on a ring that drifts, exact, (steps + 1, 2 * points)."""
    times = DT * np.arange(steps + 1)[:, None]
    states = np.zeros((steps + 1, 2, POINTS))
    for m in range(1, 4):
        (a, b), (p, q) = rng.normal(size=2) / m, rng.uniform(0, 7, size=2)
        states[:, 0] += a * np.sin(m * X + p) * np.cos(m * times) + b / m * np.sin(m * X + q) * np.sin(m * times)
        states[:, 1] += -a * m * np.sin(m * X + p) * np.sin(m * times) + b * np.sin(m * X + q) * np.cos(m * times)
    speed = drift * rng.normal()
    states += speed * np.stack([times + 0 * X, np.ones((steps + 1, POINTS))], axis=1)
    return states.reshape(steps + 1, -1)


@pytest.mark.parametrize(("field", "drift"), [("auto", 0.0), (True, 0.0), (True, 0.5)])
def test_smooth_waves_stay_right_far_beyond_the_training_length(field, drift):
    """Narrow kernels fit them within 1e-6 over the training length, and let short waves grow by 1.18 in each step."""
    rng = np.random.default_rng(0)
    model = LensForecaster(field=field, parts="linear").fit(
        [waves(STEPS, rng, drift) for _ in range(8)], dt=DT, grid=(POINTS,)
    )
    assert model.report_.spectral_radius == pytest.approx(1.0, abs=1e-6)
    truth = waves(8 * STEPS, rng, drift)
    forecast = model.rollout(truth[: model.history_], steps=7 * STEPS)
    error = np.abs(forecast.predicted - truth[model.history_ : model.history_ + 7 * STEPS])
    assert error.max() < 1e-6


def test_a_grid_without_two_neighbouring_states_gives_one_sentence():
    states = np.random.default_rng(0).normal(size=(30, 16))
    states[::2] = np.nan
    with pytest.raises(InputError, match="gap"):
        LensForecaster().fit(states, dt=1.0, grid=(16,))


def test_a_part_without_growing_waves_comes_first_unless_it_is_much_worse(monkeypatch):
    grid = Grid((16,), (1.0,), (("periodic", "periodic"),))

    def first(*tried):
        """Which comes first of parts given by kernel, growth and error."""
        growth = {Linear(1, (size,), 1e-9, math.log(error)): grows for size, grows, error in tried}
        parts = ClosedParts(
            None, grid, None, Recipe(), FieldOptions(), "none", lambda _: None, Checkpoint(None, ""), serial,
            TimeLimit(None),
        )  # fmt: skip
        parts.checkpoint.put("convolution", [list(vars(one).values()) for one in growth])
        monkeypatch.setattr(ClosedParts, "_growth", lambda _, one: growth[one])
        return parts.ranked()[0].kernel[0]

    assert first((3, 1.1, 1e-3), (5, 1.0, 1e-2)) == 5
    assert first((3, 1.1, 1e-3), (5, 1.0, 1e-1)) == 3
    assert first((3, 1.1, 1e-14), (5, 1.0, 1e-11)) == 5
    assert first((16, 1.0, 1e-26), (3, 1.0005, 1e-25)) == 16
    assert first((16, 1.0, 1e-26), (3, 1.0, 1e-25)) == 3


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


@pytest.mark.parametrize(("space", "channels"), [((64,), 2), ((65,), 1), ((9, 8), 2)])
def test_wide_kernels_by_waves_are_the_sums_over_patches(space, channels):
    rng, around = np.random.default_rng(0), (("periodic", "periodic"),) * len(space)
    x = torch.from_numpy(rng.normal(size=(3, *space, channels)))
    weight, bias = torch.from_numpy(rng.normal(size=(2, math.prod(space) * channels))), torch.tensor([0.5, -1.0])
    expected = patches(x, space, around) @ weight.T + bias
    assert torch.allclose(convolve(x, weight, bias, space, around), expected, atol=1e-12)


def test_waves_in_a_plane_of_which_only_the_displacement_is_known():
    rng, points = np.random.default_rng(1), 12
    x, y = np.meshgrid(*[2 * np.pi * np.arange(points) / points] * 2, indexing="ij")

    def plane(steps):
        times, states = DT * np.arange(steps + 1)[:, None, None], np.zeros((steps + 1, points, points))
        for k, m in ((1, 0), (0, 1), (1, 1), (2, -1), (1, 2)):
            (a, b), (p, q) = rng.normal(size=2), rng.uniform(0, 7, size=2)
            size = math.hypot(k, m)
            states += a * np.sin(k * x + m * y + p) * np.cos(size * times + q) + b * np.cos(
                k * x + m * y - size * times
            )
        return states.reshape(steps + 1, -1)

    model = LensForecaster(parts="linear").fit([plane(STEPS) for _ in range(8)], dt=DT, grid=(points, points))
    assert model.history_ == 2
    truth = plane(10 * STEPS)
    forecast = model.rollout(truth[:2], steps=9 * STEPS)
    assert np.abs(forecast.predicted - truth[2 : 2 + 9 * STEPS]).max() < 1e-8


def test_fields_in_single_precision_do_not_grow_in_thousands_of_steps():
    rng, points = np.random.default_rng(0), 64
    x = 2 * np.pi * np.arange(points) / points

    def moving(steps):
        waves = [
            rng.normal() * np.sin(k * (x - 0.07 * np.arange(steps + 1)[:, None]) + rng.uniform(0, 7))
            for k in range(1, 5)
        ]
        return np.sum(waves, axis=0).astype(np.float32)

    model = LensForecaster(field=True, parts="linear").fit([moving(50) for _ in range(20)], dt=1.0, grid=(points,))
    start = moving(0)
    assert np.abs(model.rollout(start, steps=3000).predicted).max() < 2 * np.abs(start).max()
