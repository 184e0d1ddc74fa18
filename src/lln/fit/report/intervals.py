"""Prediction intervals from rollouts, without any assumption on the distribution of their errors.

The half width at a level and a lead time is a quantile of the errors of all windows. Windows overlap, so it rests on
few independent errors; Student's t widens the intervals accordingly.

Held-out rows are few, and their errors may be smaller or larger than elsewhere. So the rows of other folds count as
well, with models that did not learn from them, and so do errors on rows that always trained, made as large as they
would be on rows that did not train (`as_elsewhere`). Where errors clearly grow along the rows, all of them are made as
large as at the end (`as_at_the_end`); where they shrink, larger ones may come back.

Errors of a coordinate that is always above zero may grow in proportion to it, as those of prices and sales do. Where
that is more likely, the interval is a factor up and down, or the plain width where that is wider; that of a model which
learned logarithms is a factor alone. Errors of a nonlinear
model grow faster from some states than from others; there widths are multiples of the spread along each rollout. Errors
of systems that settle shrink with the change of the state; there widths are multiples of a size that depends on it.

The spread comes from a covariance that is carried along a rollout: each step multiplies it by the derivative of the
model there and adds what one step errs. In a chaotic system errors grow at different rates in different places.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from lln.core.errors import InputError
from lln.step.frame import Array
from lln.step.step import Step

_POWERS = (1.0, 2.0)
_FLOORS = tuple(2.0**power for power in range(-5, 5))
_FASTEST = 2.0  # standard deviations in one step: a diverged rollout changes by no more
_APART = 4.0  # windows that do not overlap: fewer do not show what errors depend on
_GAIN = 0.02  # log-likelihood of one error


@dataclass(frozen=True)
class ErrorSize:
    """The size of errors as a function of the change of the state."""

    unit: float  #: typical change of one step, in standard deviations.
    power: float  #: of the change.
    floor: float  #: what errors do not fall below, where those of a typical change are one.

    def __post_init__(self) -> None:
        """Check values that come from a file."""
        if self.power not in _POWERS or not (0 < self.unit < np.inf and 0 < self.floor < np.inf):
            raise ValueError(f"error sizes of unit {self.unit:g}, power {self.power:g} and floor {self.floor:g}")

    def sizes(self, change: Array) -> Array:
        """Sizes of errors after changes that `change_along` found."""
        return np.asarray(np.hypot((change / self.unit) ** self.power, self.floor))


def change_along(start: Array, states: Array, scale: Array) -> Array:
    """Root mean square change of one step from windows (..., H, n) up to states (..., steps, n), (..., steps, 1)."""
    with np.errstate(all="ignore"):
        steps = np.diff(np.concatenate([start[..., -1:, :], states], axis=-2), axis=-2) / scale
        square = np.fmin(np.mean(steps**2, axis=-1, keepdims=True), _FASTEST**2)
    return np.asarray(np.sqrt(np.cumsum(square, axis=-2) / np.arange(1, states.shape[-2] + 1)[:, None]))


def error_size_of(error: Array, change: Array, apart: float) -> ErrorSize | None:
    """The sizes that errors (windows, leads, n) have after changes; None if one size fits as well.

    Args:
        error: absolute errors.
        change: of the same rollouts, (windows, leads, 1).
        apart: how many windows do not overlap.
    """
    unit = float(np.sqrt(np.mean(change**2)))
    if apart < _APART or unit == 0:
        return None
    tried = [ErrorSize(unit, *one) for one in product(_POWERS, _FLOORS)]
    gains = [log_likelihood(error, one.sizes(change)) - log_likelihood(error) for one in tried]
    best = int(np.argmax(gains))
    return tried[best] if gains[best] > _GAIN else None


def log_likelihood(error: Array, sizes: Array | float = 1.0) -> float:
    """Of one error (windows, leads, n), if those at one lead time were normal and as large as `sizes` say."""
    tiny = np.finfo(np.float64).tiny
    return float(-np.log(np.maximum(np.mean((error / sizes) ** 2, axis=0), tiny)).mean() / 2 - np.log(sizes).mean())


LEVELS = (0.5, 0.8, 0.9, 0.95)
_POINTS = 24  # lead times at which widths are kept
_LOST = 1e3  # standard deviations: larger errors count as this
_FEWEST = 2.0  # independent errors that are assumed at least
_INDEPENDENT = 1.5  # squared errors of a random walk that count as independent, per window that does not overlap
_COORDINATES = 64  # with more of them, one width in standard deviations serves all
_LARGEST = 50.0  # logarithm of the factor of an interval
_LESS_LIKELY = 0.1  # log-likelihood that one error may lose by a spread, which also says what was not seen yet
_SPAN = 1.5  # factor between levels from which on errors may be ratios
# Parts of the rows in which the size of errors is taken, at most and at least, and windows of one; standard errors by
# which it grows along them; the most it does over all rows, as a logarithm.
_PARTS, _FEWEST_PARTS, _FEWEST_OF_PART, _SURELY, _STEEPEST = 10, 5, 8, 3.0, 2.5


@dataclass(frozen=True, eq=False)
class Intervals:
    """Half widths of prediction intervals."""

    leads: tuple[int, ...]  #: lead times in steps.
    levels: tuple[float, ...]  #: probabilities, ascending.
    #: (levels, leads, n), in the units of the data; (levels, leads, 2 n) with logarithms of factors behind them, of
    #: which the wider interval counts; (levels, leads, 1) in standard deviations for many coordinates.
    widths: Array
    scale: Array  #: standard deviation of each coordinate, (n,).
    #: standard deviation of the error of one step, (n,), where widths are multiples of the spread that grows from it
    #: along each rollout (`lln.fit.report.intervals`); None elsewhere.
    step_error: Array | None = None
    #: of errors, where widths are multiples of its sizes along each rollout (`lln.fit.report.intervals`).
    error_size: ErrorSize | None = None

    @classmethod
    def of(
        cls,
        predicted: Array,
        truth: Array,
        scale: Array,
        rows: float = np.inf,
        spread: Array | None = None,
        step_error: Array | None = None,
        change: Array | None = None,
        *,
        logarithms: bool = False,
    ) -> Intervals:
        """From rollouts and the truth, both (windows, steps, n).

        Args:
            predicted: states of the rollouts.
            truth: the true states.
            scale: standard deviations, (n,).
            rows: number of rows that the windows are taken from; infinite for windows that do not overlap.
            spread: spread of the errors along each rollout, (windows, steps, n), used where errors follow it.
            step_error: standard deviation of the error of one step, (n,), from which it grows.
            change: of the state along each rollout, (windows, steps, 1), used where errors follow that and no spread.
            logarithms: whether the model learned logarithms of the states.
        """
        steps = truth.shape[1]
        leads = np.unique(np.geomspace(1, steps, min(steps, _POINTS)).round().astype(int))
        predicted, truth = predicted[:, leads - 1], truth[:, leads - 1]
        error = np.abs(predicted - truth)
        error = np.where(np.isfinite(error), np.minimum(error, _LOST * scale), _LOST * scale)
        spread = None if spread is None or not _follow(error, spread[:, leads - 1]) else spread[:, leads - 1]
        error_size = None
        if spread is None and change is not None:
            change = change[:, leads - 1]
            error_size = error_size_of(error, change, rows / steps)
        follows = spread is not None or error_size is not None
        if spread is not None:
            error = error / spread
        elif error_size is not None and change is not None:
            error = error / error_size.sizes(change)
        if spread is None and truth.shape[2] > _COORDINATES:
            error = np.moveaxis(error / scale, 2, 1).reshape(-1, len(leads), 1)
        elif not follows:
            ratio = _are_ratios(predicted, truth, logarithms=logarithms)
            if ratio.any():
                over, under = (np.where(ratio, states, 1.0) for states in (predicted, truth))
                plain = np.where(ratio, 0.0, error) if logarithms else error
                error = np.concatenate([plain, np.abs(np.log(over / under))], axis=2)
        independent = np.clip(_INDEPENDENT * (rows / leads - 1), _FEWEST, len(truth))
        levels = np.asarray(LEVELS)[:, None]
        wider = stdtrit(independent, (1 + levels) / 2) / ndtri((1 + levels) / 2)
        widths = np.quantile(error, LEVELS, axis=0, method="higher") * wider[..., None]
        # An interval never becomes narrower further ahead, unless its spread does: few windows would make it jitter.
        widths = widths if follows else np.maximum.accumulate(widths, axis=1)
        return cls(tuple(leads.tolist()), LEVELS, widths, scale, None if spread is None else step_error, error_size)

    @property
    def follow(self) -> bool:
        """Whether widths differ from rollout to rollout."""
        return self.step_error is not None or self.error_size is not None

    def spread(self, step: Step[Any, Any], start: Array, predicted: Array, inputs: Array | None) -> Array | None:
        """What `bounds` asks for, along rollouts (..., steps, n) from windows (..., H, n); None where it does not."""
        if self.error_size is not None:
            return self.error_size.sizes(change_along(start, predicted, self.scale))
        return (
            None if self.step_error is None else spread_along(step, start, predicted.shape[-2], inputs, self.step_error)
        )

    def bounds(self, predicted: Array, level: float, spread: Array | None = None) -> tuple[Array, Array]:
        """The lower and the upper bound around states (..., steps, n), given what `spread` found for them."""
        width, n = self.at(level, predicted.shape[-2]), len(self.scale)
        if spread is not None:
            width = width * spread
        lower, upper = predicted - width[..., :n], predicted + width[..., :n]
        if width.shape[-1] > n:
            factor = np.exp(np.minimum(width[..., n:], _LARGEST))
            with np.errstate(over="ignore"):
                less, more = predicted / factor, predicted * factor
            lower, upper = np.minimum(lower, np.minimum(less, more)), np.maximum(upper, np.maximum(less, more))
        return lower, upper

    def at(self, level: float, steps: int) -> Array:
        """Half widths (steps, n), or (steps, 2 n), at a level between the least and the greatest kept.

        Beyond the last lead time widths go on to grow as they did over its second half, at most as those of a random
        walk do.
        """
        ahead = np.arange(1, steps + 1)
        rows = np.stack([
            [np.interp(ahead, self.leads, self.widths[q, :, k]) for k in range(self.widths.shape[2])]
            for q in range(len(self.levels))
        ])  # fmt: skip
        rows = rows * self._growth(ahead)
        upper = min(int(np.searchsorted(self.levels, level)), len(self.levels) - 1)
        lower = max(upper - 1, 0)
        span = self.levels[upper] - self.levels[lower]
        part = 1.0 if span == 0 else min(1.0, (level - self.levels[lower]) / span)
        widths = (rows[lower] + part * (rows[upper] - rows[lower])).T
        return np.asarray(widths * self.scale if widths.shape[1] < len(self.scale) else widths)

    def _growth(self, ahead: NDArray[np.int64]) -> Array:
        """By how much widths exceed those of the last lead time, (levels, n, steps); ones up to there."""
        last = self.leads[-1]
        half = int(np.searchsorted(self.leads, last / 2))
        if half >= len(self.leads) - 1 or ahead[-1] <= last:
            return np.ones((1, 1, len(ahead)))
        ratio = self.widths[:, -1] / np.maximum(self.widths[:, half], np.finfo(np.float64).tiny)
        power = np.clip(np.log(np.maximum(ratio, 1.0)) / np.log(last / self.leads[half]), 0.0, 0.5)
        return np.asarray(np.maximum(ahead / last, 1.0) ** power[..., None])

    def covered(self, predicted: Array, truth: Array, level: float, spread: Array | None = None) -> float:
        """The fraction of states (windows, steps, n) within the interval at `level`; `spread` as for `bounds`."""
        lower, upper = self.bounds(predicted, level, spread)
        return float(np.mean((truth >= lower) & (truth <= upper)))

    def record(self) -> dict[str, Any]:
        """As plain values."""
        found = {
            "leads": list(self.leads), "levels": list(self.levels), "widths": self.widths.tolist(),
            "scale": self.scale.tolist(),
        }  # fmt: skip
        found |= {} if self.step_error is None else {"kick": self.step_error.tolist()}
        return found if self.error_size is None else {**found, "pace": asdict(self.error_size)}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Intervals:
        """What `record` wrote down; InputError where it does not fit together."""
        try:
            return cls._of_record(record)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise InputError(f"the prediction intervals of this model cannot be read: {error}; fit it again") from error

    @classmethod
    def _of_record(cls, record: Mapping[str, Any]) -> Intervals:
        leads, levels = tuple(map(int, record["leads"])), tuple(map(float, record["levels"]))
        widths, scale = np.asarray(record["widths"], dtype=np.float64), np.asarray(record["scale"], dtype=np.float64)
        shapes = {(len(levels), len(leads), size) for size in (1, len(scale), 2 * len(scale))}
        if widths.shape not in shapes or not leads or not levels or not np.isfinite(widths).all():
            raise ValueError(f"intervals of shape {widths.shape} for {len(levels)} levels and {len(leads)} lead times")
        # model files keep the older names "kick" and "pace"
        step_error = None if record.get("kick") is None else np.asarray(record["kick"], dtype=np.float64)
        if step_error is not None and step_error.shape != scale.shape:
            raise ValueError(f"a step error of shape {step_error.shape} for {len(scale)} coordinates")
        stored = record.get("pace")
        error_size = None if stored is None else ErrorSize(**{name: float(x) for name, x in stored.items()})
        return cls(leads, levels, widths, scale, step_error, error_size)


def _follow(error: Array, spread: Array) -> bool:
    """Whether errors (windows, leads, n) follow their spread, by their likelihood if they were normal."""
    return log_likelihood(error, spread) - log_likelihood(error) > -_LESS_LIKELY


def _are_ratios(predicted: Array, truth: Array, *, logarithms: bool = False) -> NDArray[np.bool_]:
    """Whether the errors of a coordinate are in proportion to it rather than of one size, (n,).

    Those of a model of logarithms are, but for what is not above zero.
    """
    with np.errstate(all="ignore"):
        level = np.log(truth)
        plain = np.log(np.sqrt(np.mean((predicted - truth) ** 2, axis=0))).mean(axis=0)
        ratios = np.log(np.sqrt(np.mean((np.log(predicted) - level) ** 2, axis=0))).mean(axis=0)
        gain = plain - ratios - level.mean(axis=(0, 1))
        wide = truth.max(axis=(0, 1)) > _SPAN * truth.min(axis=(0, 1))
    return np.asarray(np.isfinite(gain) & (logarithms | (wide & (gain > 0))))


def as_elsewhere(
    predicted: Array, truth: Array, held: Sequence[tuple[Array, Array, Array]], units: Sequence[Array]
) -> Array:
    """Rollouts over rows that trained the model, with errors as large as on rows that did not.

    Args:
        predicted: states of the rollouts, (windows, steps, n).
        truth: the true states.
        held: over held-out rows: rollouts of a model that did not learn from them and of the one that did, and the
            true states. By how much the second errs less is the factor.
        units: in which the errors over each are counted: standard deviations, (n,), or what widths are multiples of.
    """
    apart, fitted = (_size([(one[k] - one[2]) / unit for one, unit in zip(held, units, strict=True)]) for k in range(2))
    return truth + (predicted - truth) * (apart / fitted)


def as_at_the_end(predicted: Array, truth: Array, age: Array, *, logarithms: bool = False) -> Array:
    """Rollouts with errors as large as at the end of the rows, where their size clearly grew along them.

    Sizes may follow the level of a coordinate instead; then the interval is a factor.

    Args:
        predicted: states of the rollouts, (windows, steps, n).
        truth: the true states.
        age: how long before the end of the rows each starts, as a part of all rows, (windows,).
        logarithms: whether the model learned logarithms of the states.
    """
    first = np.abs(predicted - truth)[:, 0]
    growth = np.asarray([_growth(error, age) for error in first.T])
    growth[_are_ratios(predicted, truth, logarithms=logarithms)] = 0.0
    return np.asarray(truth + (predicted - truth) * np.exp(age[:, None, None] * growth))


def _growth(error: Array, age: Array) -> float:
    """By how much the logarithm of the size of errors grew over all rows; zero where it did not, or may by chance."""
    count = min(_PARTS, len(error) // _FEWEST_OF_PART)
    if count < _FEWEST_PARTS:
        return 0.0
    parts = np.array_split(np.argsort(age, kind="stable"), count)
    sizes, x = (np.asarray([each[part].mean() for part in parts]) for each in (error, age))
    if not (np.isfinite(sizes).all() and sizes.all() and np.ptp(x)):
        return 0.0
    x, y = x.mean() - x, np.log(sizes) - np.log(sizes).mean()
    slope = float(x @ y / (x @ x))
    deviation = float(np.sqrt(np.sum((y - slope * x) ** 2) / (count - 2) / (x @ x)))
    return min(slope, _STEEPEST) if slope > _SURELY * deviation else 0.0


def _size(errors: Sequence[Array]) -> Array:
    """Root mean square errors at each step, geometric means over coordinates, (steps, 1)."""
    size = np.concatenate([np.abs(one) for one in errors])
    size = np.where(np.isfinite(size), np.minimum(size, _LOST), _LOST)
    size = np.maximum(np.sqrt(np.mean(size**2, axis=0)), np.finfo(np.float64).tiny)
    return np.asarray(np.exp(np.log(size).mean(axis=-1, keepdims=True)))


def measured_coverage(
    predicted: Array,
    truth: Array,
    scale: Array,
    level: float = 0.9,
    rows: float = np.inf,
    spread: Array | None = None,
    change: Array | None = None,
) -> float | None:
    """How much of every other stretch of windows is covered by intervals from the rest; None for too few windows."""
    count = len(truth)
    if count < 8:
        return None
    first = np.arange(count) * 4 // count % 2 == 0
    found = []
    for one in (first, ~first):
        grown, moved = (None if along is None else along[one] for along in (spread, change))
        intervals = Intervals.of(predicted[one], truth[one], scale, rows / 2, grown, scale, moved)
        there = None
        if intervals.error_size is not None and change is not None:
            there = intervals.error_size.sizes(change[~one])
        elif intervals.step_error is not None and spread is not None:
            there = spread[~one]
        found.append(intervals.covered(predicted[~one], truth[~one], level, there))
    return float(np.mean(found))


MOST = 16  # numbers in a window: the covariance has its square
_FEW = 8  # windows and steps that distinguish a linear map from others
_ALIKE = 1e-3  # part by which spreads of a linear map differ at most, by rounding
_NUDGE = 1e-5  # standard deviations by which states are moved for a derivative
_WIDEST = 2.0  # standard deviations: an error does not grow beyond what two states of the data differ by


def spread_along(step: Step[Any, Any], start: Array, steps: int, inputs: Array | None, step_error: Array) -> Array:
    """Standard deviations of the errors along rollouts, (..., steps, n).

    Args:
        step: the model.
        start: windows, (..., H, n), oldest first.
        steps: how many.
        inputs: known inputs (..., steps, m), or None.
        step_error: standard deviation of the error of one step, (n,).
    """
    lead, (history, n) = start.shape[:-2], start.shape[-2:]
    size, scale = history * n, step.frame.scale
    window = start.reshape(-1, history, n).astype(np.float64)
    known = None if inputs is None else inputs.reshape(len(window), steps, -1)
    nudge = _NUDGE * np.tile(scale, history)
    moved = np.concatenate([np.zeros((1, size)), np.diag(nudge)]).reshape(size + 1, history, n)
    shift = np.eye(size, k=n)[: size - n]
    covariance, found = np.zeros((len(window), size, size)), np.empty((len(window), steps, n))
    with np.errstate(all="ignore"):
        for k in range(steps):
            now = None if known is None else np.repeat(known[:, None, k : k + 1], size + 1, axis=1)
            after = np.asarray(step.rollout(window[:, None] + moved, 1, now))[:, :, 0]
            derivative = np.swapaxes((after[:, 1:] - after[:, :1]) / nudge[:, None], 1, 2)
            whole = np.concatenate([np.broadcast_to(shift, (len(window), *shift.shape)), derivative], axis=1)
            covariance = whole @ covariance @ np.swapaxes(whole, 1, 2)
            covariance[:, size - n :, size - n :] += np.diag(step_error**2)
            found[:, k] = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2)[:, size - n :])
            window = np.concatenate([window[:, 1:], after[:, :1]], axis=1)
        return np.asarray(np.fmin(found, _WIDEST * scale)).reshape(*lead, steps, n)


def may_differ(step: Step[Any, Any], start: Array, inputs: Array | None, step_error: Array) -> bool:
    """Whether errors of a model grow differently from different windows (W, H, n); those of a linear map never do.

    Large windows and networks are not tested: that would take longer than their fit.
    """
    if start.shape[1] * start.shape[2] > MOST or step.members:
        return False
    few = slice(None, None, max(1, len(start) // _FEW))
    steps = _FEW if inputs is None else min(_FEW, inputs.shape[1])
    found = spread_along(step, start[few], steps, None if inputs is None else inputs[few, :steps], step_error)
    return bool((np.ptp(found, axis=0) > _ALIKE * found.max(axis=0)).any())
