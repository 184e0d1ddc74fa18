"""An echo state network: a drawn recurrent network whose readout is solved."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple, Self

import numpy as np

from lln.core.checks import check_int
from lln.data.series import Dataset
from lln.fit.closed.linear import units_of
from lln.forecaster.references.simple import Reference
from lln.forecaster.references.tuning import best_setting
from lln.step.frame import Array, Frame

RADII = (0.5, 0.9, 1.2)
SCALES = (0.1, 0.5)
RIDGES = (1e-8, 1e-5, 1e-2)
WARM_UP = 30  # states after which the start of the reservoir is forgotten
UNITS = 300
_TUNING_ROWS, _ROWS = 2000, 20_000


class EchoSetting(NamedTuple):
    """Spectral radius of the reservoir, scale of its inputs, ridge of its readout."""

    radius: float
    scale: float
    ridge: float


class _Reservoir:
    """One echo state network.

    Args:
        dataset: the data to fit to.
        setting: radius, scale and ridge.
        history: states that set the reservoir before a rollout.
        rows: most states to learn from.
    """

    def __init__(self, dataset: Dataset, setting: EchoSetting, history: int, rows: int) -> None:
        rng = np.random.default_rng(0)
        self.history = history
        self.frame: Frame = units_of(dataset).frame()
        inner = rng.normal(size=(UNITS, UNITS)) * (rng.random((UNITS, UNITS)) < 0.05)
        inner *= setting.radius / max(float(np.abs(np.linalg.eigvals(inner)).max()), 1e-12)
        self.inner = inner.T
        self.outer = setting.scale * rng.uniform(-1.0, 1.0, size=(dataset.size + dataset.inputs, UNITS))
        self.bias = setting.scale * rng.uniform(-1.0, 1.0, size=UNITS)
        columns, targets = self._columns(dataset, rows)
        ridge = setting.ridge * float(np.square(columns).sum()) / columns.shape[1]
        wide = columns.shape[0] < columns.shape[1]  # then the same readout costs less from products of rows
        gram = columns @ columns.T if wide else columns.T @ columns
        gram[np.diag_indices_from(gram)] += ridge
        self.readout = (
            columns.T @ np.linalg.solve(gram, targets) if wide else np.linalg.solve(gram, columns.T @ targets)
        )

    def _columns(self, dataset: Dataset, rows: int) -> tuple[Array, Array]:
        """Reservoir states, features and a one, and the increments after them, along every stretch of the data."""
        columns, targets, left = [], [], rows
        for index, first, last in dataset.stretches(self.history + 2):
            last = min(last, first + self.history + left)
            if last - first < self.history + 2:
                break
            states = np.asarray(dataset.series[index].rows(first, last), dtype=np.float64)
            known = dataset.series[index].input_rows(first, last)
            given = None if known is None else np.asarray(known, dtype=np.float64)
            features = self.frame.feature_rows(states[:, None, :], given)
            reservoir = np.zeros(UNITS)
            path = np.empty((len(features) - 1, UNITS))
            for k in range(len(path)):
                reservoir = path[k] = self._next(reservoir, features[k])
            kept = slice(self.history - 1, None)
            columns.append(self._row(path, features[:-1])[kept])
            targets.append((np.diff(states, axis=0) / self.frame.scale)[kept])
            left -= len(path)
        return np.concatenate(columns), np.concatenate(targets)

    def _next(self, reservoir: Array, features: Array) -> Array:
        return np.asarray(np.tanh(reservoir @ self.inner + features @ self.outer + self.bias))

    @staticmethod
    def _row(reservoir: Array, features: Array) -> Array:
        return np.concatenate([reservoir, features, np.ones((*features.shape[:-1], 1))], axis=-1)

    def rollout(self, window: Array, steps: int, inputs: Array | None = None) -> Array:
        """Set the reservoir by the window, then feed its forecasts back."""
        past = np.asarray(window, dtype=np.float64)[..., -self.history :, :]
        lead = past.shape[:-2]
        reservoir, state = np.zeros((*lead, UNITS)), past[..., -1, :]
        # Inputs before the start are not known, so that their first value stands for them.
        early = None if inputs is None else inputs[..., 0, :]
        for k in range(self.history - 1):
            reservoir = self._next(reservoir, self.frame.feature_rows(past[..., k : k + 1, :], early))
        states = np.empty((*lead, steps, past.shape[-1]))
        for k in range(steps):
            features = self.frame.feature_rows(state[..., None, :], None if inputs is None else inputs[..., k, :])
            reservoir = self._next(reservoir, features)
            state = states[..., k, :] = state + self.frame.scale * (self._row(reservoir, features) @ self.readout)
        return states


class EchoState(Reference):
    """A reservoir of 300 units; radius, scale and ridge are chosen on held-out rollouts."""

    def fit(self, dataset: Dataset) -> Self:
        """Choose on held-out rollouts, then solve the readout for up to 20,000 states of all of the data."""
        self.history = self.longest(dataset)
        settings = [EchoSetting(*one) for one in product(RADII, SCALES, RIDGES)]
        chosen = best_setting(
            dataset, settings, self.history, lambda data, one: _Reservoir(data, one, self.history, _TUNING_ROWS)
        )
        self._reservoir = _Reservoir(dataset, chosen, self.history, _ROWS)
        self.parameters = self._reservoir.readout.size
        self.note = f"radius {chosen.radius:g}, input scale {chosen.scale:g}, ridge {chosen.ridge:g}"
        return self

    @classmethod
    def longest(cls, dataset: Dataset) -> int:
        """States that set the reservoir: 30, fewer in short trajectories."""
        rows = max((last - first for _, first, last in dataset.stretches(1)), default=1)
        return max(1, min(WARM_UP, rows // 10))

    def rollout(self, window: Array, steps: int, inputs: Array | None = None) -> Array:
        """Set the reservoir by the window, then feed its forecasts back."""
        return self._reservoir.rollout(window, check_int("steps", steps, 1), inputs)
