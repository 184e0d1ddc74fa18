"""Kernel ridge regression of the increments, with scikit-learn."""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple, Self

import numpy as np

from lln.core.checks import check_int
from lln.data.series import Dataset
from lln.fit.choice.histories import nonlinear_histories
from lln.forecaster.references.analogs import Memory
from lln.forecaster.references.simple import Reference
from lln.forecaster.references.tuning import best_setting
from lln.step.frame import Array

WIDTHS = (0.3, 1.0, 4.0)  # of the kernel, in median distances
PENALTIES = (1e-8, 1e-4)
_TUNING_ROWS, _ROWS = 600, 3000
_HISTORIES = 3


class KernelSetting(NamedTuple):
    """States that are looked at, width of the Gaussian kernel in median distances, and penalty."""

    history: int
    width: float
    penalty: float


class _Machine:
    """One kernel ridge regression.

    Args:
        dataset: the data to fit to.
        setting: history, width and penalty.
        rows: most pairs to take, evenly spread.
    """

    def __init__(self, dataset: Dataset, setting: KernelSetting, rows: int) -> None:
        from scipy.spatial.distance import cdist
        from sklearn.kernel_ridge import KernelRidge

        memory = Memory.of(dataset, setting.history)
        kept = np.linspace(0, len(memory.features) - 1, min(rows, len(memory.features))).round().astype(int)
        self.history, self.frame, features = setting.history, memory.frame, memory.features[kept]
        some = features[:: max(1, len(features) // 300)]
        distance = float(np.median(cdist(some, some)))
        gamma = 0.5 / (setting.width * max(distance, 1e-12)) ** 2
        increments = (memory.target[kept] - memory.present[kept]) / self.frame.scale
        self.mean = increments.mean(axis=0)
        self.model: Any = KernelRidge(kernel="rbf", gamma=gamma, alpha=setting.penalty).fit(
            features, increments - self.mean
        )
        self.values = int(features.size + increments.size)

    def rollout(self, window: Array, steps: int, inputs: Array | None = None) -> Array:
        """Add the predicted increment at each step."""
        past = np.asarray(window, dtype=np.float64)[..., -self.history :, :]
        states = np.empty((*past.shape[:-2], steps, past.shape[-1]))
        for k in range(steps):
            rows = self.frame.feature_rows(past, None if inputs is None else inputs[..., k, :])
            flat = np.nan_to_num(rows.reshape(-1, rows.shape[-1]), posinf=1e30, neginf=-1e30)
            change = (self.model.predict(flat) + self.mean).reshape(past[..., -1, :].shape)
            states[..., k, :] = past[..., -1, :] + self.frame.scale * change
            past = np.concatenate([past[..., 1:, :], states[..., k : k + 1, :]], axis=-2)
        return states


class KernelRidgeReference(Reference):
    """Gaussian kernel ridge regression; history, width and penalty are chosen on held-out rollouts."""

    def fit(self, dataset: Dataset) -> Self:
        """Choose on held-out rollouts, then solve for up to 3,000 pairs of all of the data."""
        settings = [KernelSetting(*one) for one in product(self.histories(dataset), WIDTHS, PENALTIES)]
        chosen = best_setting(
            dataset, settings, settings[-1].history, lambda data, one: _Machine(data, one, _TUNING_ROWS)
        )
        self._machine = _Machine(dataset, chosen, _ROWS)
        self.history, self.parameters = chosen.history, self._machine.values
        self.note = f"history {chosen.history}, width {chosen.width:g}, penalty {chosen.penalty:g}"
        return self

    @staticmethod
    def histories(dataset: Dataset) -> list[int]:
        """Up to three histories that nonlinear parts try, from short to long."""
        every = nonlinear_histories(dataset)
        return [every[k] for k in np.unique(np.linspace(0, len(every) - 1, min(_HISTORIES, len(every))).astype(int))]

    @classmethod
    def longest(cls, dataset: Dataset) -> int:
        """The largest history that is tried."""
        return cls.histories(dataset)[-1]

    def rollout(self, window: Array, steps: int, inputs: Array | None = None) -> Array:
        """Add the predicted increment at each step."""
        return self._machine.rollout(window, check_int("steps", steps, 1), inputs)
