"""Statistics of several runs: means, spreads, and intervals by resampling.

A run that diverged counts as infinitely wrong: it makes a mean infinite and is never left out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lln.core.errors import InputError

Array = NDArray[np.floating[Any]]

LEVEL = 0.95  # of every interval and band
RESAMPLES, BAND_RESAMPLES = 10_000, 2000  # sets of seeds that are drawn, always the same ones


@dataclass(frozen=True)
class Summary:
    """Mean and standard deviation over runs."""

    mean: float  #: infinite if one value is
    #: of the sample, with one degree of freedom taken by the mean; NaN for one run, infinite with the mean
    deviation: float
    count: int  #: number of runs

    @property
    def error(self) -> float:
        """Standard error of the mean."""
        return self.deviation / math.sqrt(self.count)


@dataclass(frozen=True)
class Interval:
    """An estimate and the interval around it."""

    estimate: float
    low: float
    high: float


def summarize(values: ArrayLike) -> Summary:
    """Mean, standard deviation and count of one-dimensional `values`.

    >>> summarize([1.0, 3.0])
    Summary(mean=2.0, deviation=1.4142135623730951, count=2)
    """
    sample = _sample(values)
    if not np.isfinite(sample).all():
        return Summary(math.inf, math.inf, len(sample))
    with np.errstate(over="ignore"):
        mean = float(sample.mean())
        deviation = float(sample.std(ddof=1)) if len(sample) > 1 else math.nan
    return Summary(mean, deviation, len(sample))


def geometric_mean(values: ArrayLike) -> float:
    """Exponential of the mean logarithm; infinite if one value is, zero if one is zero and none infinite.

    >>> round(geometric_mean([1.0, 4.0]), 12)
    2.0
    """
    sample = _sample(np.ravel(np.asarray(values, dtype=np.float64)))
    if (sample < 0).any():
        raise InputError("a geometric mean needs values of at least zero, got a negative one")
    if np.isinf(sample).any():
        return math.inf
    with np.errstate(divide="ignore"):
        return float(np.exp(np.log(sample).mean()))


def cluster_ratio(ours: ArrayLike, other: ArrayLike) -> Interval:
    """Ratio of geometric means with an interval that resamples training seeds as clusters.

    The log ratios of one training seed are averaged first, so that its windows never count as independent runs.

    Both are errors, (seeds, windows), under the same seeds and windows. Estimate and interval are NaN where both sides
    diverged on one window, since nothing can be said then.
    """
    top, bottom = np.asarray(ours, dtype=np.float64), np.asarray(other, dtype=np.float64)
    if top.ndim != 2 or top.shape != bottom.shape or 0 in top.shape:
        raise InputError(f"both sides of a ratio must be (seeds, windows), got {top.shape} and {bottom.shape}")
    with np.errstate(divide="ignore", invalid="ignore"):
        by_seed = (np.log(top) - np.log(bottom)).mean(axis=1)
        low, high = _central(_resampled_means(by_seed[:, None], RESAMPLES)[:, 0])
        return Interval(float(np.exp(by_seed.mean())), float(np.exp(low)), float(np.exp(high)))


def geometric_band(curves: ArrayLike) -> tuple[Array, Array, Array]:
    """Geometric mean over seeds of curves (seeds, steps) above zero, and both ends of its seed-bootstrap band.

    Each has shape (steps,) and is infinite where a curve is. The resampled seed sets are shared by all steps, so that
    the band is as smooth as the curves.
    """
    errors = np.asarray(curves, dtype=np.float64)
    if errors.ndim != 2 or 0 in errors.shape:
        raise InputError(f"curves must be (seeds, steps), got {errors.shape}")
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(errors)
        low, high = _central(_resampled_means(logs, BAND_RESAMPLES))
        return np.exp(logs.mean(axis=0)), np.exp(low), np.exp(high)


def _resampled_means(values: Array, resamples: int) -> Array:
    """Means over rows drawn with replacement: (rows, columns) -> (resamples, columns)."""
    rows = len(values)
    picks = np.random.default_rng(0).integers(0, rows, size=(resamples, rows))
    total = np.zeros((resamples, values.shape[1]))
    for pick in picks.T:
        total += values[pick]
    return total / rows


def _central(draws: Array) -> Array:
    """Both ends of the central `LEVEL` of the draws along the first axis; NaN where a draw is.

    Draws are taken as they are: interpolation between a number and infinity would give neither.
    """
    tails = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
    return np.asarray(np.quantile(draws, tails, axis=0, method="inverted_cdf"))


def _sample(values: ArrayLike) -> Array:
    sample = np.asarray(values, dtype=np.float64)
    if sample.ndim != 1 or len(sample) == 0:
        raise InputError(f"expected one value for each run and at least one run, got shape {sample.shape}")
    return np.where(np.isnan(sample), np.inf, sample)
