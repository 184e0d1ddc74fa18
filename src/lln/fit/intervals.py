"""Prediction intervals from held-out rollouts: how far they erred at each lead time, without any assumption on why.

Split conformal prediction: the half width at a level is the order statistic of the held-out errors that a new error
stays below with that probability, if it comes from the same distribution.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lln.step.frame import Array

LEVELS = (0.5, 0.8, 0.9, 0.95)
_POINTS = 24  # lead times at which widths are kept
_COORDINATES = 64  # with more of them, one width in standard deviations serves all


@dataclass(frozen=True, eq=False)
class Intervals:
    """Half widths of prediction intervals.

    Attributes:
        leads: lead times in steps.
        levels: probabilities, ascending.
        widths: (levels, leads, n), in the units of the data; (levels, leads, 1) in standard deviations for many
            coordinates.
        scale: standard deviation of each coordinate, (n,).
    """

    leads: tuple[int, ...]
    levels: tuple[float, ...]
    widths: Array
    scale: Array

    @classmethod
    def of(cls, predicted: Array, truth: Array, scale: Array, independent: float = np.inf) -> Intervals:
        """From rollouts and what came, both (windows, steps, n).

        Args:
            predicted: states of the rollouts.
            truth: what came.
            scale: standard deviations, (n,).
            independent: how many windows would not overlap; few of them make the intervals wider.
        """
        steps = truth.shape[1]
        leads = np.unique(np.geomspace(1, steps, min(steps, _POINTS)).round().astype(int))
        error = np.abs(predicted - truth)[:, leads - 1]
        error = np.where(np.isfinite(error), error, np.inf)
        if truth.shape[2] > _COORDINATES:
            error = np.moveaxis(error / scale, 2, 1).reshape(-1, len(leads), 1)
        error = np.sort(error, axis=0)
        count = len(error)
        wider = 1.0 + 1.0 / max(1.0, min(independent, len(truth)))
        places = [min(count, math.ceil(count * wider * level)) - 1 for level in LEVELS]
        # A wider interval never becomes narrower again further ahead: few windows would make it jitter.
        widths = np.maximum.accumulate(np.minimum(error[places], 1e300), axis=1)
        return cls(tuple(leads.tolist()), LEVELS, widths, scale)

    def at(self, level: float, steps: int) -> Array:
        """Half widths (steps, n) at a level between the least and the greatest kept; the last width holds beyond."""
        ahead = np.arange(1, steps + 1)
        rows = np.stack([
            [np.interp(ahead, self.leads, self.widths[q, :, k]) for k in range(self.widths.shape[2])]
            for q in range(len(self.levels))
        ])  # fmt: skip
        upper = min(int(np.searchsorted(self.levels, level)), len(self.levels) - 1)
        lower = max(upper - 1, 0)
        span = self.levels[upper] - self.levels[lower]
        part = 1.0 if span == 0 else min(1.0, (level - self.levels[lower]) / span)
        widths = (rows[lower] + part * (rows[upper] - rows[lower])).T
        return np.asarray(widths * self.scale if widths.shape[1] != len(self.scale) else widths)

    def covered(self, predicted: Array, truth: Array, level: float) -> float:
        """The fraction of states (windows, steps, n) within the interval at `level`."""
        return float(np.mean(np.abs(predicted - truth) <= self.at(level, truth.shape[1])))

    def record(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "leads": list(self.leads), "levels": list(self.levels), "widths": self.widths.tolist(),
            "scale": self.scale.tolist(),
        }  # fmt: skip

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Intervals:
        """What `record` wrote down; ValueError where it does not fit together."""
        leads, levels = tuple(map(int, record["leads"])), tuple(map(float, record["levels"]))
        widths, scale = np.asarray(record["widths"], dtype=np.float64), np.asarray(record["scale"], dtype=np.float64)
        shapes = {(len(levels), len(leads), size) for size in (1, len(scale))}
        if widths.shape not in shapes or not leads or not levels or not np.isfinite(widths).all():
            raise ValueError(f"intervals of shape {widths.shape} for {len(levels)} levels and {len(leads)} lead times")
        return cls(leads, levels, widths, scale)


def measured_coverage(predicted: Array, truth: Array, scale: Array, level: float = 0.9) -> float | None:
    """How much of every other stretch of windows is covered by intervals from the rest; None for too few windows."""
    count = len(truth)
    if count < 8:
        return None
    first = np.arange(count) * 4 // count % 2 == 0
    halves = (first, ~first)
    found = [
        Intervals.of(predicted[one], truth[one], scale).covered(predicted[~one], truth[~one], level) for one in halves
    ]
    return float(np.mean(found))
