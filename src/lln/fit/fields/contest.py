"""Weights of its own for every point, or weights that all points share: held-out rollouts decide.

First the linear parts compete, a dense map and a convolution, which take seconds. Each picks history and ridge on the
last fold, and then both are judged on every fold, in the same units. Where both lose the field, as chaotic ones are
lost, linear parts tell nothing; and on small grids a vector field may be far better than both. There both kinds choose
their whole model, and these are judged.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from lln.data.series import Dataset
from lln.fit.choice.holdout import MOST_HISTORY, Fold, folds, load, roll_linear
from lln.fit.choice.models import choose_linear, ridges_of
from lln.fit.defaults import VALIDATION
from lln.fit.fields.recipe import FieldFitting
from lln.fit.options import Recipe, TimeLimit
from lln.fit.prepare import Preparer
from lln.step.base import AnyStep
from lln.step.field import FieldStep
from lln.step.frame import Array

_HISTORIES = (1, 2)
_FEW = 256  # coordinates; with more, a dense map for every fold would take minutes
_PERFECT = 1e-12  # below this both are as good as the rounding of single precision
_TIMED_STEPS = 3
_LOST = 0.1  # of the variance: a rollout that errs by more is no forecast, and of two such
_CLEARLY = 3.0  # one must be this much better to mean anything
_ENOUGH = 1e-8  # a dense model that errs by less leaves too little for training convolutions
_SMALL, _FAR = 64, 10.0  # coordinates up to which whole models compete, unless a dense map is better by this factor


@dataclass(frozen=True)
class Contest:
    """How each family did on the same held-out rollouts: normalised mean square errors, geometric means over windows.

    Attributes:
        dense: of the best dense map, over all folds.
        shared: of the best convolution, over all folds.
        steps: length of the longest rollouts.
        grid: spacing and boundaries as they were found, in words.
        dense_network: of a whole dense model, nonlinear parts included, over the last fold; None where linear parts
            decide.
        shared_network: the same of convolutions; None also where the dense model left nothing to gain.
        folds: ways to hold data out over which `dense` and `shared` are means; the last of them where it is 1.
        small: whether the grid is small enough for vector fields of its points to be found.
    """

    dense: float
    shared: float
    steps: int
    grid: str
    dense_network: float | None = None
    shared_network: float | None = None
    folds: int = 1
    small: bool = False

    @property
    def points_share(self) -> bool | None:
        """Whether convolutions are taken, also where both are perfect, since they need far fewer numbers.

        None where whole models must tell.
        """
        if self.dense_network is not None:
            return self.shared_network is not None and self.shared_network <= self.dense_network
        better, worse = sorted((self.dense, self.shared))
        if worse < _CLEARLY * better and better > _LOST:
            return None
        if self.small and worse > _PERFECT and self.shared < _FAR * self.dense:
            return None
        return self.shared <= max(self.dense, _PERFECT)

    def is_enough(self, dense_network: float) -> bool:
        """Whether a whole dense model with this error leaves nothing to gain for convolutions."""
        return dense_network < min(_ENOUGH, self.shared)

    def note(self) -> str:
        """The choice in a sentence, which says over which rollouts: a fit's own error is over the last fold alone."""
        chosen, other = "each point of the grid follows a rule of its own, seeing all points (a dense map)", "--field"
        if self.points_share:
            chosen, other = (
                "all points of the grid follow one rule, seeing points nearby (a convolution)",
                "--no-field",
            )
        whole = ""
        if self.dense_network is not None and self.shared_network is not None:
            whole = f"; of whole models over the last fold {self.shared_network:.2g} and {self.dense_network:.2g}"
        elif self.dense_network is not None:
            whole = f"; of a whole model with own rules over the last fold {self.dense_network:.2g}"
        over = "the last fold" if self.folds == 1 else f"all {self.folds} folds (the model's own error: the last alone)"
        return (
            f"{chosen}: held-out rollouts decided. Error over up to {self.steps} steps of {over}: one rule "
            f"{self.shared:.2g}, own rules {self.dense:.2g}{whole} ({self.grid}). To take the other kind, fit with "
            f"{other} (in Python: field={not self.points_share})"
        )

    def candidates(self) -> list[dict[str, Any]]:
        """Both, as a report lists what was tried."""
        linear = (("dense", self.dense), ("field", self.shared))
        trained = (("dense", self.dense_network), ("field", self.shared_network))
        rows = [{"family": name, "correction_weight": 0.0, "nmse": error} for name, error in linear]
        return rows + [{"family": name, "nmse": error} for name, error in trained if error is not None]

    def record(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


def contest(dataset: Dataset, recipe: Recipe, fitting: FieldFitting, limit: TimeLimit | None = None) -> Contest | None:
    """Let both linear parts roll out over everything that is held out; None where there is no time for dense maps.

    Args:
        dataset: on a grid.
        recipe: history and ridge, if given, hold for both.
        fitting: of the convolution, by the same recipe.
        limit: time limit of the contest; with little time the last fold alone decides.
    """
    limit = limit or TimeLimit()
    linear, ridges = fitting.linear_part()[0], ridges_of(recipe.ridge)
    preparer = Preparer(dataset)
    histories = _HISTORIES if recipe.history == "auto" else (int(recipe.history),)
    ways = _folds(dataset, recipe)
    ways = ways if dataset.size <= _FEW else ways[-1:]
    scale = _scale(preparer, recipe)
    if limit.seconds is not None:
        expected = len(ridges) * _dense_seconds(dataset, ways[-1], histories[0], scale)
        if not limit.allows(expected, "dense maps of all points"):
            return None
    began = time.monotonic()
    best = choose_linear(preparer, ways[-1:], histories, (None,), ridges, scale, late=limit.passed).best
    if not limit.allows((time.monotonic() - began) / len(ridges) * len(ways), "a contest over all folds"):
        ways = ways[-1:]
    errors = []
    for fold in ways:
        dense = preparer.prepare(fold.train, best.history).linear(best)
        windows = load(dataset, fold, best.history, scale)
        shared = FieldStep(fitting.solved(fold.train, linear))
        errors.append(
            (float(windows.log_error(roll_linear([dense], windows))[0]), _error(dataset, fold, shared, scale))
        )
    means = np.exp(np.mean(errors, axis=0))
    grid = fitting.grid.in_words(dataset.coords)
    longest = max(fold.steps for fold in ways)
    small = dataset.size <= _SMALL and "flow" in recipe.tried_parts
    return Contest(float(means[0]), float(means[1]), longest, grid, folds=len(ways), small=small)


def _dense_seconds(dataset: Dataset, fold: Fold, history: int, scale: Array) -> float:
    """Estimate how long one dense map of this history takes: its rollouts, from a few steps, and its solution."""
    windows, n = load(dataset, fold, history, scale), dataset.size
    matrix, state = np.zeros((n, n * history + dataset.inputs)), windows.start.reshape(len(windows.start), -1)
    state = np.concatenate([state, np.zeros((len(state), dataset.inputs))], axis=1)
    began = time.monotonic()
    for _ in range(_TIMED_STEPS):
        state @ matrix.T
    product = (time.monotonic() - began) / _TIMED_STEPS
    rows = dataset.rows / len(state) / 4  # the rows are summed up once for all ridges
    return product * (fold.steps + rows)


def held_out_error(dataset: Dataset, recipe: Recipe, surrogate: AnyStep) -> float:
    """The error of a whole model over the last fold, in the same units for both kinds."""
    return float(np.exp(_error(dataset, _folds(dataset, recipe)[-1], surrogate, _scale(Preparer(dataset), recipe))))


def _folds(dataset: Dataset, recipe: Recipe) -> list[Fold]:
    most = MOST_HISTORY if recipe.history == "auto" else max(int(recipe.history), MOST_HISTORY)
    return folds(dataset, recipe.validation or VALIDATION, most)


def _scale(preparer: Preparer, recipe: Recipe) -> Array:
    return preparer.prepare(None, 1 if recipe.history == "auto" else int(recipe.history)).units.scale


def _error(dataset: Dataset, fold: Fold, surrogate: AnyStep, scale: Array) -> float:
    windows = load(dataset, fold, surrogate.frame.history, scale)
    return float(windows.log_error(surrogate.rollout(windows.start, fold.steps, windows.inputs)))
