"""The problems of the forecasting benchmark: what trains, where rollouts start, what they should visit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from lln.core.errors import choice
from lln.data.series import BURN_IN, HORIZON, PAIRS, Dataset, Series
from lln.systems import perturbed_start, preset, simulate

Array = NDArray[np.float64]
Roll = Callable[[Array, int], Array]

NONLINEAR = ("lorenz-24", "lorenz-28", "burgers-32", "burgers-48", "reactiondiff-32", "reactiondiff-48")
TRAINING_STARTS = (201, 202, 203, 204)
TEST_STARTS = (101, 102, 103, 104)
TEST_WINDOWS = (500, 1000)
_NOISE_SEED = 7
_APART = 10  # seeds between two draws


@dataclass(frozen=True, eq=False)
class Problem:
    """One system under one protocol.

    Attributes:
        dataset: what trains.
        tests: trajectories that rollouts are scored on, with the rows at which they start.
        scale: standard deviation of each coordinate over the training inputs, (n,).
    """

    dataset: Dataset
    tests: tuple[tuple[Array, int], ...]
    scale: Array

    def errors(self, roll: Roll, history: int) -> Array:
        """Normalised mean square error of the rollout over each test window, (W,); infinite where it diverged."""
        window = np.stack([states[row - history + 1 : row + 1] for states, row in self.tests])
        truth = np.stack([states[row + 1 : row + 1 + HORIZON] for states, row in self.tests])
        with np.errstate(over="ignore", invalid="ignore"):
            error = np.square((roll(window, HORIZON) - truth) / self.scale).mean(axis=(1, 2))
        return np.where(np.isfinite(error), error, np.inf)


def problem_of(table: str, name: str) -> Problem:
    """The paper's temporal split ("split") or its multi-trajectory protocol ("trajectories") for a preset."""
    makers = {"split": _split, "trajectories": trajectories}
    return makers[choice("table", table, makers)](name)


def noisy_problem(name: str, noise: float) -> Problem:
    """The temporal split with white noise on what trains, in units of the spread; the test stays clean."""
    clean = _split(name)
    states = np.asarray(clean.dataset.series[0].states)
    drawn = np.random.default_rng(_NOISE_SEED).standard_normal(states.shape)
    return Problem(_dataset(name, [states + noise * clean.scale * drawn]), clean.tests, clean.scale)


@lru_cache(maxsize=4)
def _split(name: str) -> Problem:
    states = simulate(preset(name), BURN_IN + PAIRS + HORIZON, dtype="float32").astype(np.float64)
    last = BURN_IN + PAIRS
    training = states[BURN_IN : last + 1]
    return Problem(_dataset(name, [training]), ((states, last),), training[:-1].std(axis=0))


@lru_cache(maxsize=4)
def trajectories(name: str, draw: int = 0) -> Problem:
    """The paper's multi-trajectory protocol; each draw has other starts."""
    system = preset(name)

    def from_starts(seeds: tuple[int, ...], steps: int) -> Array:
        starts = np.stack([perturbed_start(system, seed + _APART * draw) for seed in seeds])
        return np.asarray(simulate(system, steps, starts=starts, dtype="float32"), dtype=np.float64)

    training = from_starts(TRAINING_STARTS, BURN_IN + PAIRS)[:, BURN_IN:]
    tests = from_starts(TEST_STARTS, max(TEST_WINDOWS) + HORIZON)
    scale = training[:, :-1].reshape(-1, system.size).std(axis=0)
    return Problem(_dataset(name, list(training)), tuple((one, row) for one in tests for row in TEST_WINDOWS), scale)


def _dataset(name: str, trajectories: list[Array]) -> Dataset:
    system = preset(name)
    series = tuple(Series(states, name=f"{name} {index}") for index, states in enumerate(trajectories))
    space = () if system.grid is None else (system.size,)
    return Dataset(series, dt=system.dt, names=system.coordinates, space=space, source=name)
