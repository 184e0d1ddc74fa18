"""Forecasts that need no network. None should be believed before it has beaten all of these."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

import numpy as np

from lln.core.checks import check_int, finite
from lln.core.errors import InputError, choice
from lln.data.series import Dataset
from lln.fit.choice.holdout import MOST_HISTORY, folds, load
from lln.fit.choice.linear_choice import choose_linear, radii_of
from lln.fit.closed.linear import units_of
from lln.fit.closed.ridge import RIDGES
from lln.fit.prepare import FrameChoice, Preparer
from lln.forecaster.references.analogs import AnalogLibrary, Memory
from lln.step.dense import DenseStep
from lln.step.frame import Array, Frame

HELD_OUT = 0.2


class Reference(ABC):
    """A forecast that is fitted to trajectories and rolled out from a window of states.

    Attributes:
        history: number of states H that a rollout has to start from; more may be given.
        parameters: number of values that the fit keeps.
        note: what the fit decided, in a few words.
    """

    history: int = 1
    parameters: int = 0
    note: str = ""

    @abstractmethod
    def fit(self, dataset: Dataset) -> Self:
        """Learn from trajectories."""

    @classmethod
    def longest(cls, dataset: Dataset) -> int:  # noqa: ARG003 - most references do not depend on it
        """The largest history that a fit to `dataset` may choose."""
        return cls.history

    @abstractmethod
    def rollout(self, window: Array, steps: int, inputs: Array | None = None) -> Array:
        """The states after a window.

        Args:
            window: (..., H, n), oldest first.
            steps: how many.
            inputs: known inputs (..., steps, m), the first for the step that leaves the window; None without inputs.

        Returns:
            (..., steps, n) in float64.
        """


class Persistence(Reference):
    """Tomorrow is as today: the last state for ever."""

    def fit(self, dataset: Dataset) -> Self:  # noqa: ARG002 - there is nothing to learn
        """Nothing to learn."""
        return self

    def rollout(self, window: Array, steps: int, inputs: Array | None = None) -> Array:  # noqa: ARG002
        """The window's last state, `steps` times."""
        return np.repeat(np.asarray(window, dtype=np.float64)[..., -1:, :], check_int("steps", steps, 1), axis=-2)


class TrainingMean(Reference):
    """The mean of the training states for ever: what is known of a system whose state is not."""

    mean: Array

    def fit(self, dataset: Dataset) -> Self:
        """Take the mean of every state that trains."""
        self.mean = units_of(dataset).mean
        self.parameters = dataset.size
        return self

    def rollout(self, window: Array, steps: int, inputs: Array | None = None) -> Array:  # noqa: ARG002
        """The mean, `steps` times."""
        shape = (*np.shape(window)[:-2], check_int("steps", steps, 1), len(self.mean))
        return np.broadcast_to(self.mean, shape).copy()


class LinearReference(Reference):
    """Least squares in closed form: the increment is a linear function of the present, the past and the inputs.

    Ridge, history and, on a grid, the radius are chosen on held-out rollouts, as the recipe chooses them for its own
    linear part. The one-step error would like the smallest ridge best, which can be unstable after many steps.

    Args:
        history: how many states a step looks at; "auto" chooses.
        ridge: weight of the squared coefficients for each pair, in standardised units; "auto" chooses.
    """

    frame: Frame

    @classmethod
    def longest(cls, dataset: Dataset) -> int:  # noqa: ARG003
        """The largest history that a fit may choose."""
        return MOST_HISTORY

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
            ways = folds(dataset, HELD_OUT, max(MOST_HISTORY, *usable))
            best = choose_linear(preparer, ways, usable, radii_of(dataset), self.ridges, scale).best
        self.frame = preparer.prepare(None, best.history).linear(best)
        self.history = best.history
        self.parameters = int(np.count_nonzero(self.frame.matrix)) + dataset.size
        radius = "" if best.radius is None else f", radius {best.radius}"
        self.note = f"ridge {best.ridge:g}, history {best.history}{radius}"
        return self

    def rollout(self, window: Array, steps: int, inputs: Array | None = None) -> Array:
        """Apply the map again and again."""
        past = np.asarray(window, dtype=np.float64)[..., -self.history :, :]
        return DenseStep(self.frame).rollout(past, check_int("steps", steps, 1), inputs)


class Analog(Reference):
    """What came next the last time: the nearest state of the past shows the way.

    Nearness is measured in the features that networks see: the standardised state, the standardised differences to the
    states before it, and the known inputs. Two ways to go on are tried on held-out rollouts, to go where the neighbour
    went ("successor") and to make the move that it made ("increment"); so is the history.

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
        self.history, self.move = min(self.errors, key=self.errors.__getitem__)
        self._library = AnalogLibrary(Memory.of(dataset, self.history))
        self.parameters = self._library.values
        self.note = f"{self.move}, history {self.history}"
        return self

    def rollout(self, window: Array, steps: int, inputs: Array | None = None) -> Array:
        """Step from neighbour to neighbour."""
        return self._library.rollout(window, check_int("steps", steps, 1), inputs, self.move)

    def _held_out(self, dataset: Dataset) -> dict[tuple[int, str], float]:
        """What each choice costs on the fold on which networks are judged."""
        fold, scale = folds(dataset, HELD_OUT)[-1], units_of(dataset).scale
        errors = {}
        for history in self.histories:
            library = AnalogLibrary(Memory.of(dataset.select(fold.train), history))
            windows = load(dataset, fold, history, scale)
            for move in self.moves:
                predicted = library.rollout(windows.start, fold.steps, windows.inputs, move)
                errors[history, move] = float(windows.log_error(predicted))
        return errors


def _histories(history: int | str, most: int) -> tuple[int, ...]:
    return tuple(range(1, most + 1)) if history == "auto" else (check_int("history", history, 1),)  # type: ignore[arg-type]
