"""References that are solved, not trained: kernel ridge regression, and an echo state network with a drawn core."""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple, Self

import numpy as np

from lln.data.series import Dataset
from lln.fit.choice.noise_and_seasons import nonlinear_histories
from lln.fit.closed.linear import units_of
from lln.forecaster.references.simple import Memory, Reference, best_setting, longest_stretch, repeated
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


class EchoState(Reference):
    """A reservoir of 300 units; radius, scale and ridge are chosen on held-out rollouts."""

    def fit(self, dataset: Dataset) -> Self:
        """Choose on held-out rollouts, then solve the readout for up to 20,000 states of all of the data."""
        history = self.longest(dataset)
        settings = [EchoSetting(*one) for one in product(RADII, SCALES, RIDGES)]
        chosen = best_setting(
            dataset, settings, history, lambda data, one: EchoState().solve(data, one, history, _TUNING_ROWS)
        )
        self.note = f"radius {chosen.radius:g}, input scale {chosen.scale:g}, ridge {chosen.ridge:g}"
        return self.solve(dataset, chosen, history, _ROWS)

    @classmethod
    def longest(cls, dataset: Dataset) -> int:
        """States that set the reservoir: 30, fewer in short trajectories."""
        return max(1, min(WARM_UP, longest_stretch(dataset) // 10))

    def solve(self, dataset: Dataset, setting: EchoSetting, history: int, rows: int) -> Self:
        """Draw a reservoir that `history` states set before a rollout; solve its readout for up to `rows` states."""
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
        self.parameters = self.readout.size
        return self

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

    def _states(self, past: Array, steps: int, inputs: Array | None) -> Array:
        """Set the reservoir by the window, then feed its forecasts back."""
        reservoir = np.zeros((*past.shape[:-2], UNITS))
        # Inputs before the start are not known, so that their first value stands for them.
        early = None if inputs is None else inputs[..., 0, :]
        for k in range(self.history - 1):
            reservoir = self._next(reservoir, self.frame.feature_rows(past[..., k : k + 1, :], early))

        def after(past: Array, now: Array | None) -> Array:
            nonlocal reservoir
            features = self.frame.feature_rows(past[..., -1:, :], now)
            reservoir = self._next(reservoir, features)
            return np.asarray(past[..., -1, :] + self.frame.scale * (self._row(reservoir, features) @ self.readout))

        return repeated(after, past, steps, inputs)


WIDTHS = (0.3, 1.0, 4.0)  # of the kernel, in median distances
PENALTIES = (1e-8, 1e-4)
_TUNING_CENTRES, _CENTRES = 600, 3000
_HISTORIES = 3


class KernelSetting(NamedTuple):
    """States that are looked at, width of the Gaussian kernel in median distances, and penalty."""

    history: int
    width: float
    penalty: float


class KernelRidgeReference(Reference):
    """Gaussian kernel ridge regression; history, width and penalty are chosen on held-out rollouts."""

    def fit(self, dataset: Dataset) -> Self:
        """Choose on held-out rollouts, then solve for up to 3,000 pairs of all of the data."""
        settings = [KernelSetting(*one) for one in product(self.histories(dataset), WIDTHS, PENALTIES)]
        chosen = best_setting(
            dataset, settings, settings[-1].history,
            lambda data, one: KernelRidgeReference()._solve(data, one, _TUNING_CENTRES),
        )  # fmt: skip
        self.note = f"history {chosen.history}, width {chosen.width:g}, penalty {chosen.penalty:g}"
        return self._solve(dataset, chosen, _CENTRES)

    @staticmethod
    def histories(dataset: Dataset) -> list[int]:
        """Up to three histories that nonlinear parts try, from short to long."""
        every = nonlinear_histories(dataset)
        return [every[k] for k in np.unique(np.linspace(0, len(every) - 1, min(_HISTORIES, len(every))).astype(int))]

    @classmethod
    def longest(cls, dataset: Dataset) -> int:
        """The largest history that is tried."""
        return cls.histories(dataset)[-1]

    def _solve(self, dataset: Dataset, setting: KernelSetting, rows: int) -> Self:
        """Solve for up to `rows` pairs, evenly spread."""
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
        machine = KernelRidge(kernel="rbf", gamma=gamma, alpha=setting.penalty)
        self.machine: Any = machine.fit(features, increments - self.mean)
        self.parameters = int(features.size + increments.size)
        return self

    def _states(self, past: Array, steps: int, inputs: Array | None) -> Array:
        """Add the predicted increment at each step."""

        def after(past: Array, now: Array | None) -> Array:
            rows = self.frame.feature_rows(past, now)
            flat = np.nan_to_num(rows.reshape(-1, rows.shape[-1]), posinf=1e30, neginf=-1e30)
            change = (self.machine.predict(flat) + self.mean).reshape(past[..., -1, :].shape)
            return np.asarray(past[..., -1, :] + self.frame.scale * change)

        return repeated(after, past, steps, inputs)
