"""The choice of a reference's settings, on the held-out windows on which the forecaster makes its own choices."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

import numpy as np

from lln.data.series import Dataset
from lln.fit.choice.holdout import folds, load
from lln.fit.closed.linear import units_of
from lln.fit.defaults import VALIDATION
from lln.step.frame import Array

STEPS = 64  # length of the rollouts, at most
NetworkChoice = TypeVar("NetworkChoice")


class Rolls(Protocol):
    """Anything that rolls out windows of `history` states."""

    history: int

    def rollout(self, window: Array, steps: int, inputs: Array | None = None) -> Array:
        """(..., H, n) to (..., steps, n)."""


def best_setting(
    dataset: Dataset, settings: Iterable[NetworkChoice], history: int, make: Callable[[Dataset, NetworkChoice], Rolls]
) -> NetworkChoice:
    """The setting whose rollouts over the held-out windows score best.

    Args:
        dataset: the data to fit to.
        settings: what to try.
        history: longest history of any setting.
        make: fits one setting to the rows that train.
    """
    fold = folds(dataset, VALIDATION, history)[-1]
    training, scale = dataset.select(fold.train), units_of(dataset).scale

    def score(setting: NetworkChoice) -> float:
        model = make(training, setting)
        windows = load(dataset, fold, model.history, scale, STEPS)
        with np.errstate(all="ignore"):
            predicted = model.rollout(windows.start, windows.truth.shape[1], windows.inputs)
        return windows.errors(predicted).score()

    return min(settings, key=score)
