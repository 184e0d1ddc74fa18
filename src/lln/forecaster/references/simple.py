"""Simple forecasts without networks, with which every model should be compared."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from lln.core.errors import InputError, check_int, choice, finite
from lln.data.series import Dataset
from lln.data.stream import pair_batches
from lln.fit.choice.holdout import MOST_HISTORY, folds, load
from lln.fit.choice.models import choose_linear, radii_of
from lln.fit.choice.noise_and_seasons import linear_histories, seasons
from lln.fit.closed.linear import units_of
from lln.fit.closed.ridge import RIDGES
from lln.fit.defaults import VALIDATION
from lln.fit.prepare import FrameChoice, Preparer
from lln.step.frame import Array, Frame
from lln.step.step import DenseStep


class Reference(ABC):
    """A forecast that is fitted to trajectories and rolled out from a window of states."""

    history: int = 1  #: number of states H that a rollout has to start from; more may be given.
    parameters: int = 0  #: number of values that the fit keeps.
    note: str = ""  #: what the fit chose, as short text.

    @abstractmethod
    def fit(self, dataset: Dataset) -> Self:
        """Learn from trajectories."""

    @classmethod
    def longest(cls, dataset: Dataset) -> int:  # noqa: ARG003 - most references do not depend on it
        """The largest history that a fit to `dataset` may choose."""
        return cls.history

    def rollout(self, window: Array, steps: int, inputs: Array | None = None) -> Array:
        """The states after a window (..., H, n), oldest first: (..., steps, n) in float64.

        Known inputs are (..., steps, m), the first for the step that leaves the window; None without inputs.
        """
        past = np.asarray(window, dtype=np.float64)[..., -self.history :, :]
        return self._states(past, check_int("steps", steps, 1), inputs)

    @abstractmethod
    def _states(self, past: Array, steps: int, inputs: Array | None) -> Array:
        """The same after the `history` states that it needs, all arguments checked."""


class Persistence(Reference):
    """The last state, repeated at every step."""

    def fit(self, dataset: Dataset) -> Self:  # noqa: ARG002 - there is nothing to learn
        """Nothing to learn."""
        return self

    def _states(self, past: Array, steps: int, inputs: Array | None) -> Array:  # noqa: ARG002
        return np.repeat(past, steps, axis=-2)


class TrainingMean(Reference):
    """The mean of the training states at every step."""

    mean: Array

    def fit(self, dataset: Dataset) -> Self:
        """Take the mean of every state that trains."""
        self.mean = units_of(dataset).mean
        self.parameters = dataset.size
        return self

    def _states(self, past: Array, steps: int, inputs: Array | None) -> Array:  # noqa: ARG002
        return np.broadcast_to(self.mean, (*past.shape[:-2], steps, len(self.mean))).copy()


class LinearReference(Reference):
    """Least squares in closed form: the increment is a linear function of the present, the past and the inputs.

    Ridge, history and, on a grid, the radius are chosen on held-out rollouts, as the recipe chooses them for its own
    linear part. The one-step error favours the smallest ridge, which can be unstable over many steps.

    Args:
        history: how many states a step looks at; "auto" chooses.
        ridge: weight of the squared coefficients for each pair, in standardised units; "auto" chooses.
    """

    frame: Frame

    def __init__(self, history: int | str = "auto", ridge: float | str = "auto") -> None:
        self.histories = _histories(history, MOST_HISTORY)
        self.ridges = RIDGES if ridge == "auto" else (finite("ridge", ridge),)  # type: ignore[arg-type]
        if min(self.ridges) < 0:
            raise InputError(f"ridge must not be negative, got {ridge}")

    def fit(self, dataset: Dataset) -> Self:
        """Choose on held-out rollouts, then solve for all of the data."""
        preparer = Preparer(dataset)
        best = FrameChoice(self.histories[0], None, self.ridges[0])
        if len(self.histories) * len(self.ridges) > 1:
            scale = preparer.prepare(None, 1).units.scale
            usable = [h for h in self.histories if dataset.transitions(h) > 2 * dataset.size or h == self.histories[0]]
            ways = folds(dataset, VALIDATION, max(MOST_HISTORY, *usable))
            best = choose_linear(preparer, ways, usable, radii_of(dataset), self.ridges, scale).best
        self.frame = preparer.prepare(None, best.history).linear(best)
        self.history = best.history
        self.parameters = int(np.count_nonzero(self.frame.matrix)) + dataset.size
        radius = "" if best.radius is None else f", radius {best.radius}"
        self.note = f"ridge {best.ridge:g}, history {best.history}{radius}"
        return self

    def _states(self, past: Array, steps: int, inputs: Array | None) -> Array:
        return DenseStep(self.frame).rollout(past, steps, inputs)


class Analog(Reference):
    """The nearest state of the training data, and what followed it.

    The distance is that of the features that networks see: the standardised state, the standardised differences to the
    states before it, and the known inputs. Held-out rollouts choose the history, and between the state after the
    neighbour ("successor") and the change from the neighbour to that state ("increment").

    Args:
        history: how many states are compared; "auto" chooses.
        move: "successor", "increment" or "auto".

    Attributes:
        errors: mean log error of the held-out rollouts for each history and move that was tried.
    """

    MOVES = ("successor", "increment")
    MOST_HISTORY = 2

    @classmethod
    def longest(cls, dataset: Dataset) -> int:  # noqa: ARG003
        """The largest history that a fit may choose."""
        return cls.MOST_HISTORY

    def __init__(self, history: int | str = "auto", move: str = "auto") -> None:
        self.histories = _histories(history, self.MOST_HISTORY)
        self.moves = self.MOVES if move == "auto" else (choice("move", move, self.MOVES),)

    def fit(self, dataset: Dataset) -> Self:
        """Choose on held-out rollouts, then remember all of the data."""
        tried = [(history, move) for history in self.histories for move in self.moves]
        self.errors = self._held_out(dataset) if len(tried) > 1 else dict.fromkeys(tried, 0.0)
        history, self.move = min(self.errors, key=self.errors.__getitem__)
        self._remember(dataset, history)
        self.parameters = int(self.memory.features.size + self.memory.target.size)
        self.note = f"{self.move}, history {self.history}"
        return self

    def _remember(self, dataset: Dataset, history: int) -> Self:
        self.history, self.memory = history, Memory.of(dataset, history)
        self.nearest = Nearest(self.memory.features)
        return self

    def _states(self, past: Array, steps: int, inputs: Array | None) -> Array:
        """Step from neighbour to neighbour: to its successor, or by its increment."""
        memory = self.memory

        def after(past: Array, now: Array | None) -> Array:
            nearest = self.nearest(memory.frame.feature_rows(past, now))
            if self.move == "successor":
                return np.asarray(memory.target[nearest])
            return np.asarray(past[..., -1, :] + (memory.target[nearest] - memory.present[nearest]))

        return repeated(after, past, steps, inputs)

    def _held_out(self, dataset: Dataset) -> dict[tuple[int, str], float]:
        """The log error of each choice on the fold that also scores networks."""
        fold, scale = folds(dataset, VALIDATION)[-1], units_of(dataset).scale
        errors = {}
        for history in self.histories:
            model = Analog()._remember(dataset.select(fold.train), history)
            windows = load(dataset, fold, history, scale)
            for move in self.moves:
                model.move = move
                predicted = model.rollout(windows.start, fold.steps, windows.inputs)
                errors[history, move] = float(windows.log_error(predicted))
        return errors


def repeated(after: Callable[[Array, Array | None], Array], past: Array, steps: int, inputs: Array | None) -> Array:
    """The states (..., steps, n) that `after` makes of the window (..., H, n) before each, and of the inputs there."""
    states = np.empty((*past.shape[:-2], steps, past.shape[-1]))
    for k in range(steps):
        states[..., k, :] = after(past, None if inputs is None else inputs[..., k, :])
        past = np.concatenate([past[..., 1:, :], states[..., k : k + 1, :]], axis=-2)
    return states


def _histories(history: int | str, most: int) -> tuple[int, ...]:
    return tuple(range(1, most + 1)) if history == "auto" else (check_int("history", history, 1),)  # type: ignore[arg-type]


class SeasonalNaive(Reference):
    """The last season, repeated. Data without a season gives persistence."""

    def fit(self, dataset: Dataset) -> Self:
        """Find the season from the autocorrelation of the changes."""
        self.history = self.longest(dataset)
        self.note = f"season {self.history}" if self.history > 1 else "no season found"
        return self

    @classmethod
    def longest(cls, dataset: Dataset) -> int:
        """The season in steps, 1 without one."""
        return next((season for season in seasons(dataset, 1) if season <= longest_stretch(dataset) // 2), 1)

    def _states(self, past: Array, steps: int, inputs: Array | None) -> Array:  # noqa: ARG002
        return np.take(past, np.arange(steps) % self.history, axis=-2)


def longest_stretch(dataset: Dataset) -> int:
    """Rows of the longest stretch without a gap."""
    return max((last - first for _, first, last in dataset.stretches(1)), default=1)


class AutoRegression(LinearReference):
    """A linear map of as many past states as the data allows, seasons included; lags and ridge chosen on held-out rows.

    Args:
        most: longest history; None for any.
    """

    def __init__(self, most: int | None = None) -> None:
        super().__init__()
        self.most = most

    def fit(self, dataset: Dataset) -> Self:
        """Choose lags and ridge on held-out rollouts, then solve for all of the data."""
        every = linear_histories(dataset)
        self.histories = tuple(one for one in every if self.most is None or one <= self.most) or (1,)
        return super().fit(dataset)

    @classmethod
    def longest(cls, dataset: Dataset) -> int:
        """The largest number of lags that is tried."""
        return max(linear_histories(dataset))


STEPS = 64  # length of the rollouts, at most
Setting = TypeVar("Setting")


def best_setting(
    dataset: Dataset, settings: Iterable[Setting], history: int, make: Callable[[Dataset, Setting], Reference]
) -> Setting:
    """The setting whose rollouts over the held-out windows score best; `history` is the longest of any setting.

    `make` fits a reference with one setting to the rows that train.
    """
    fold = folds(dataset, VALIDATION, history)[-1]
    training, scale = dataset.select(fold.train), units_of(dataset).scale

    def score(setting: Setting) -> float:
        model = make(training, setting)
        windows = load(dataset, fold, model.history, scale, STEPS)
        with np.errstate(all="ignore"):
            predicted = model.rollout(windows.start, windows.truth.shape[1], windows.inputs)
        return windows.errors(predicted).score()

    return min(settings, key=score)


MOST = 200_000
FEW_DIMENSIONS = 8.0
_AXES = 2000  # of more, the principal axes alone would take minutes


class Nearest:
    """The nearest of many points, in the Euclidean distance.

    A tree skips most of the points where they fill few dimensions, however many columns they have; turned into their
    principal axes they also look so to the tree. Where they fill many it would look at nearly all of them in the
    slowest way, and one matrix product serves better. Fewer points than columns span few axes; what a query has beyond
    them is equally far from all points.

    Args:
        points: (P, F).
    """

    def __init__(self, points: Array) -> None:
        from scipy.spatial import cKDTree

        self.centre = points.mean(axis=0)
        spread = points - self.centre
        self.axes: Array | None = None
        self.tree: Any = None
        if min(points.shape) <= _AXES:
            variance, self.axes = _principal_axes(spread)
            filled = float(variance.sum() ** 2 / max(float(np.square(variance).sum()), np.finfo(np.float64).tiny))
            spread = spread @ self.axes
            self.tree = cKDTree(spread, balanced_tree=False) if filled <= FEW_DIMENSIONS else None
        self.points, self.squares = spread, np.square(spread).sum(axis=1)

    def __call__(self, queries: Array) -> NDArray[np.intp]:
        """The index of the nearest point: (..., F) -> (...)."""
        turned = queries - self.centre
        if self.axes is not None:
            turned = turned @ self.axes
        if self.tree is not None:
            return np.asarray(self.tree.query(turned)[1])
        flat = turned.reshape(-1, turned.shape[-1])
        # |p - q|^2 without |q|^2, which is the same for all points.
        nearest = (self.squares - 2.0 * (flat @ self.points.T)).argmin(axis=1)
        return np.asarray(nearest.reshape(turned.shape[:-1]))


def _principal_axes(spread: Array) -> tuple[Array, Array]:
    """Variances and axes (F, r) of centred points (P, F), from the smaller of two squares."""
    if spread.shape[0] >= spread.shape[1]:
        return np.linalg.eigh(spread.T @ spread)
    _, sizes, axes = np.linalg.svd(spread, full_matrices=False)
    return np.square(sizes), axes.T


@dataclass(frozen=True, eq=False)
class Memory:
    """Windows of the past as features, with what came next; of very many, an even choice."""

    frame: Frame  # units of the features, without a linear part
    features: Array  # (P, F)
    present: Array  # (P, n), in the units of the data
    target: Array  # (P, n), the state after it

    @classmethod
    def of(cls, dataset: Dataset, history: int) -> Memory:
        """Read `dataset` once, a block at a time, and keep at most 200,000 pairs."""
        frame = units_of(dataset, history).frame()
        thin = -(-dataset.transitions(history) // MOST)
        parts: list[tuple[Array, ...]] = []
        first = 0
        for batch in pair_batches(dataset, history):
            kept = slice(-first % thin, None, thin)
            inputs = None if batch.inputs is None else batch.inputs[kept]
            window = batch.window[kept]
            parts.append((frame.feature_rows(window, inputs), window[:, -1], batch.target[kept]))
            first += len(batch)
        return cls(frame, *(np.concatenate(columns) for columns in zip(*parts, strict=True)))
