"""How noisy observations are, from differences of high order: they wear a smooth signal down, and leave noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lln.data.series import Dataset
from lln.fit.choice.holdout import Fold, load, rolling
from lln.step.dense import DenseStep
from lln.step.frame import Array

ORDERS = range(2, 7)
_ROWS = 20_000
_HELD_OUT = 400  # rows whose one-step errors bound the noise
# Differences of a smooth signal keep falling with their order; those of noise, rightly scaled, stay.
_PLATEAU = 0.7
_NOTICEABLE = 0.05
_NORMAL = 1.4826  # standard deviation of a normal distribution against the median of its absolute values


@dataclass(frozen=True)
class Noise:
    """What differences say.

    Attributes:
        relative: standard deviation of the noise against that of the states, median over coordinates; an upper bound if
            `found` is false.
        of_increments: the same against the root mean square of one step's change.
        found: whether it looks like noise: differences of order five and six agree about its size.
    """

    relative: float
    of_increments: float
    found: bool

    def at_most(self, increments: float) -> Noise:
        """The same, knowing that a model's one-step errors are `increments` of the root mean square change.

        Fast forcing looks like noise to differences, but what a model foresees is none. An error of one step holds the
        noise of two states.
        """
        bound = increments / math.sqrt(2.0)
        if not self.of_increments > bound:
            return self
        return Noise(self.relative * bound / self.of_increments, bound, self.found)

    @property
    def matters(self) -> bool:
        """Whether it is there and not small against what is to be learned."""
        return self.found and self.of_increments > _NOTICEABLE


def estimate_noise(dataset: Dataset) -> Noise:
    """From up to 20,000 rows without a gap."""
    length = ORDERS[-1] + 2
    parts, rows = [], 0
    for index, first, last in dataset.stretches(length):
        take = min(last - first, _ROWS - rows)
        if take >= length:
            parts.append(np.asarray(dataset.series[index].rows(first, first + take), dtype=np.float64))
            rows += take
    if not parts:
        return Noise(math.nan, math.nan, False)
    with np.errstate(over="ignore"):  # what overflows is refused when pairs are made
        spread = np.concatenate(parts).std(axis=0)
        change = np.sqrt(np.mean(np.concatenate([np.diff(part, axis=0) for part in parts]) ** 2, axis=0))
    if not (np.isfinite(spread) & np.isfinite(change)).all():
        return Noise(math.nan, math.nan, False)
    varies = (spread > 0) & (change > 0)
    if not varies.any():
        return Noise(0.0, 0.0, False)
    sizes = np.stack([_size(parts, order) for order in ORDERS])[:, varies]
    least = sizes.min(axis=0)
    flat = sizes[-1] / np.maximum(sizes[-2], 1e-300)
    relative = float(np.median(least / spread[varies]))
    of_increments = float(np.median(least / change[varies]))
    # Rounding is noise too, but not worth a word.
    return Noise(relative, of_increments, bool(np.median(flat) > _PLATEAU) and relative > 1e-6)


def _size(parts: list[Array], order: int) -> Array:
    """Standard deviation of noise that would explain the differences of this order, (n,)."""
    total = np.concatenate([np.diff(part, n=order, axis=0) for part in parts])
    # Of white noise the difference of order k has C(2k, k) times the variance.
    return np.asarray(np.sqrt(np.mean(total**2, axis=0) / math.comb(2 * order, order)))


def unexplained(dataset: Dataset, fold: Fold, steps: Sequence[DenseStep]) -> float:
    """The least typical one-step error on held-out rows against the change of one step, median over coordinates."""
    fold, scale = rolling(dataset, fold, max(one.frame.history for one in steps), 1, _HELD_OUT), np.ones(dataset.size)
    least, change = np.full(dataset.size, np.inf), scale
    for step in steps:
        windows = load(dataset, fold, step.frame.history, scale, 1)
        errors = step.rollout(windows.start, 1, windows.inputs)[:, 0] - windows.truth[:, 0]
        changes = windows.truth[:, 0] - windows.start[:, -1]
        # A state that repeats exactly, such as a day without rain, tells nothing about the noise of the others.
        moved = (changes != 0) | (changes == 0).all(axis=0)
        least = np.fmin(least, typical(np.where(moved, errors, np.nan)))
        change = np.sqrt(np.mean(changes**2, axis=0))
    varies = change > 0
    return float(np.median(least[varies] / change[varies])) if varies.any() else 0.0


def typical(errors: Array) -> Array:
    """Standard deviation of normal errors (rows, n) by coordinate, (n,), by their median: a few jumps do not count.

    NaN is left out.
    """
    return np.asarray(_NORMAL * np.nanmedian(np.abs(errors), axis=0))


def typical_square(errors: Array) -> float:
    """Geometric mean over coordinates of the square of `typical`."""
    return float(np.exp(np.mean(2.0 * np.log(np.maximum(typical(errors), 1e-150)))))
