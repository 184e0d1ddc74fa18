"""Scores of rollouts at several lead times, and when one model is better than another.

A chaotic rollout loses the truth after a few Lyapunov times, and from there on every model errs alike. So errors are
taken at lead times of 1, 2, 4, ... steps up to where the best model loses the truth, and each lead time has one vote.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from lln.step.base import AnyStep
from lln.step.frame import Array

LEAST, WORST = 1e-24, 1e3  # below the first all are perfect, above the second all are lost
LOST = 0.3  # a normalised mean square error from which on a rollout is no forecast
LONG = 10_000
SHRINK = (1.0, 0.75, 0.5, 0.25, 0.0)
_LATE = 4  # lead times: the longest is eight times the shortest
FAR = 20.0  # standard deviations, beyond which a rollout has left the data
_PIECE = 500


def lead_times(steps: int) -> tuple[int, ...]:
    """1, 2, 4, ... and `steps` itself."""
    leads = [2**power for power in range(int(math.log2(steps)) + 1)]
    return tuple(leads if leads[-1] == steps else [*leads, steps])


def lead_columns(leads: tuple[int, ...], most: int = 6) -> list[int]:
    """Places of at most `most` lead times, evenly spread, the first and the last among them."""
    places = np.unique(np.linspace(0, len(leads) - 1, min(most, len(leads))).round().astype(int))
    return [int(place) for place in places]


@dataclass(frozen=True, eq=False)
class RolloutErrors:
    """Normalised mean square errors of one model's rollouts.

    Attributes:
        leads: lead times in steps.
        values: mean over the first steps up to each lead time, (windows, leads).
    """

    leads: tuple[int, ...]
    values: Array

    @classmethod
    def of(cls, predicted: Array, truth: Array, scale: Array, leads: Sequence[int]) -> RolloutErrors:
        """From states (W, steps, n); what is not finite counts as lost."""
        with np.errstate(over="ignore", invalid="ignore"):
            return cls.of_squares(np.square((predicted - truth) / scale).mean(axis=-1), leads)

    @classmethod
    def of_squares(cls, square: Array, leads: Sequence[int]) -> RolloutErrors:
        """From normalised squared errors at every step, (W, steps); what is not finite counts as lost."""
        square = np.where(np.isfinite(square), np.minimum(square, WORST), WORST)
        mean = np.cumsum(square, axis=1) / np.arange(1, square.shape[1] + 1)
        return cls(tuple(leads), np.clip(mean[:, np.asarray(leads) - 1], LEAST, WORST))

    def by_lead(self, *, noisy: bool = False) -> Array:
        """The error at each lead time over all windows, (leads,): a geometric mean, or an arithmetic one with noise."""
        if noisy:
            return np.asarray(self.values.mean(axis=0))
        return np.asarray(np.exp(np.log(self.values).mean(axis=0)))

    def until(self, steps: int) -> RolloutErrors:
        """The same at lead times of at most `steps`."""
        count = max(1, sum(lead <= steps for lead in self.leads))
        return RolloutErrors(self.leads[:count], self.values[:, :count])

    def late(self, steps: int) -> RolloutErrors:
        """The same at the last lead times of at most `steps`: a small error of one step tells little about them."""
        some = self.until(steps)
        return RolloutErrors(some.leads[-_LATE:], some.values[:, -_LATE:])

    def score(self, *, noisy: bool = False) -> float:
        """Mean over lead times of the log error; lower is better."""
        return float(np.log(self.by_lead(noisy=noisy)).mean())

    def valid_steps(self) -> int:
        """The longest lead time at which the model still forecasts; 0 if it never does."""
        fine = np.flatnonzero(self.by_lead() < LOST)
        return int(self.leads[fine[-1]]) if len(fine) else 0


def horizon_of(errors: Sequence[RolloutErrors]) -> int:
    """Where the best model loses the truth, in steps: one lead time beyond its last good one."""
    longest = 0
    leads = errors[0].leads
    for one in errors:
        longest = max(longest, one.valid_steps())
    beyond = [lead for lead in leads if lead > longest]
    return beyond[0] if beyond else leads[-1]


def better_by(one: RolloutErrors, other: RolloutErrors, *, noisy: bool = False) -> tuple[float, float]:
    """By how much `one` is better than `other` in log error, and the standard error of that, paired by window."""
    if noisy:
        values = np.log(other.by_lead(noisy=True)) - np.log(one.by_lead(noisy=True))
        gain = float(values.mean())
        # Windows resample the ratio of means: the spread of leave-one-out means is its standard error.
        count = len(one.values)
        if count < 2:
            return gain, math.inf
        each = []
        for out in range(count):
            kept = np.arange(count) != out
            ratio = np.log(other.values[kept].mean(axis=0)) - np.log(one.values[kept].mean(axis=0))
            each.append(float(ratio.mean()))
        return gain, math.sqrt((count - 1) / count * float(np.sum((np.asarray(each) - np.mean(each)) ** 2)))
    difference = (np.log(other.values) - np.log(one.values)).mean(axis=1)
    count = len(difference)
    spread = float(difference.std(ddof=1)) if count > 1 else math.inf
    return float(difference.mean()), spread / math.sqrt(count)


StepT = TypeVar("StepT", bound=AnyStep)


def bounded(surrogate: AnyStep, window: Array, steps: int = LONG) -> bool:
    """Whether a rollout from `window` (H, n) stays within twenty standard deviations for so many steps."""
    frame = surrogate.frame
    if frame.inputs:  # their future is not known
        return True
    past = window
    for _ in range(0, steps, _PIECE):
        states = surrogate.rollout(past, _PIECE)
        size = np.abs((states - frame.mean) / frame.scale)
        if not (np.isfinite(size).all() and size.max() < FAR):
            return False
        past = np.concatenate([past, states])[-frame.history :]
    return True


def settled(surrogate: StepT, correction_weight: float, window: Array, wanted: bool) -> tuple[StepT, float]:
    """The surrogate with as much of its network as it takes to stay bounded, and the weight that is left.

    Args:
        surrogate: with the chosen weight.
        correction_weight: that weight.
        window: where the data ends, (H, n).
        wanted: whether to look at all; noise is what makes it necessary.
    """
    if not wanted:
        return surrogate, correction_weight
    for factor in SHRINK:
        tried = surrogate.replace(frame=replace(surrogate.frame, gain=surrogate.frame.gain * factor))
        if bounded(tried, window):
            return tried, correction_weight * factor
    return surrogate, correction_weight
