"""Small fitted forecasters."""

import math
from functools import lru_cache

import numpy as np
import torch
from exported import frame_of, trained

from lln.data.series import Dataset, Series
from lln.data.trajectory import simulated
from lln.fit.options import FitReport, Recipe
from lln.forecaster.forecaster import LensForecaster
from lln.forecaster.layout import Layout, TrainingFingerprint
from lln.models import FieldLensNetwork, build
from lln.models.convolution import sides
from lln.step.field import FieldStep
from lln.step.field_frame import FieldFrame
from lln.step.step import DenseStep
from lln.systems.presets import preset

# The shortest fit there is; held-out rows stay unseen, so that there is something to score.
QUICK = {"width": 4, "depth": 2, "basis": 4, "members": 1, "epochs": 1, "unroll": 0, "history": 1, "refit": False}

# Long enough to be killed on the way.
LONG = {"width": 16, "depth": 2, "basis": 8, "members": 1, "epochs": 100, "unroll": 0, "history": 1}


@lru_cache
def lorenz(steps=900):
    return simulated(preset("lorenz-28"), steps, dtype="float64").states[100:]


def made(data, history=1, members=2, linear=True, model="lens", held_out=0.2, **options):
    """A forecaster whose linear part and readouts are least squares, so that no test waits for training."""
    (series,) = data.series
    last = round(len(series) * (1 - held_out))
    states, inputs = np.asarray(series.rows(0, last)), series.input_rows(0, last)
    frame, features, target = frame_of(states, history, inputs, linear)
    sizes = {"width": 8, "depth": 3, **({"basis": 6} if model == "lens" else {})}
    networks = tuple(
        trained(
            build(model, frame.features, frame.size, generator=torch.Generator().manual_seed(k), **sizes),
            features,
            target,
        )
        for k in range(members)
    )
    z = (states - frame.mean) / frame.scale
    report = FitReport(
        n=frame.size, pairs=len(features), history=history, ridge=1e-9 if linear else None, model=model,
        correction_weight=1.0, members=members, parameters=1234, noise=0.01, noise_of_increments=0.1,
        held_out_nmse=0.1, linear_nmse=0.2, held_out_steps=50,
        coverage=0.01, candidates=[{"history": 1, "nmse": math.inf}],
        region=(z.min(axis=0).tolist(), z.max(axis=0).tolist()), training_rows=((0, 0, last),),
        held_out_rows=((0, last, len(series)),), **sizes,
    )  # fmt: skip
    recipe = Recipe(model=model, history=history, members=members, **sizes)
    return LensForecaster(model=model, history=history, **options).assemble(
        DenseStep(frame, networks), recipe, report, Layout.of(data), TrainingFingerprint.of(data, report.training_rows),
        np.asarray(series.rows(len(series) - history, len(series))), (len(series) - 1) * data.dt,
    )  # fmt: skip


@lru_cache
def fitted(history=1, **options):
    """On Lorenz-28, in coordinates x, y, z."""
    return made(Dataset((Series(lorenz()),), 0.01, ("x", "y", "z")), history, **options)


def wave(points=6, rows=300, channels=2):
    """A wave that travels round a ring: `channels` fields of `points` points, (rows, channels * points)."""
    phase = 0.05 * np.arange(rows)[:, None] + 2 * np.pi * np.arange(points) / points
    return np.concatenate([np.sin(phase + k) + 0.3 * np.sin(2 * phase) ** 2 for k in range(channels)], axis=1)


@lru_cache
def field(channels=2):
    """On a wave over a grid of 2 x 3 points."""
    data = Dataset(
        (Series(wave(channels=channels)),), 0.1, space=(2, 3), channels=("u", "v")[:channels],
        coords={"lat": np.array([10.0, 20.0]), "lon": np.array([0.0, 1.0, 2.0])},
        units={"u": "m/s", "lat": "degrees", "time": "s"},
    )  # fmt: skip
    return made(data)


def forced_data():
    """x' = 0.9 x + u, y' = 0.8 y + 0.1 x v, with known inputs u and v."""
    rng = np.random.default_rng(0)
    inputs = np.cumsum(rng.normal(size=(400, 2)), axis=0) * 0.05
    states = np.zeros((400, 2))
    for k in range(399):
        x, y = states[k]
        states[k + 1] = 0.9 * x + inputs[k, 0], 0.8 * y + 0.1 * x * inputs[k, 1]
    return Dataset((Series(states, inputs),), input_names=("u", "v"))


@lru_cache
def forced():
    """A forecaster of `forced_data`, its states and its inputs."""
    data = forced_data()
    return made(data), data.series[0].states, data.series[0].inputs


def convolved():
    """The field's forecaster around a convolutional surrogate, as drawn."""
    around = field()
    networks = tuple(
        FieldLensNetwork(
            2, 2, dimensions=2, width=5, depth=2, basis=4, kernel=3, blocks=2, hidden=3,
            generator=torch.Generator().manual_seed(seed),
        )
        for seed in (0, 1)
    )  # fmt: skip
    frame = FieldFrame(
        (2, 3), sides("periodic", 2), (1, 1), 1, np.zeros(2), np.ones(2), np.zeros((0, 2)), np.zeros(0), np.zeros(0),
        np.array([[-0.1, 0.0], [0.0, -0.1]]), np.zeros(2), np.full(2, 0.05),
    )  # fmt: skip
    return LensForecaster().assemble(
        FieldStep(frame, networks), around.recipe_, around.report_, around.layout_, around.training_,
        around.last_window_, around.last_time_,
    )  # fmt: skip
