"""What the data shows before anything is fitted: noise, seasons, and histories that are worth trying.

Differences of high order remove a smooth signal, and leave noise. Autocorrelations show seasons.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from lln.data.series import Dataset
from lln.fit.choice.holdout import Fold, load, rolling
from lln.step.frame import Array
from lln.step.step import DenseStep

ORDERS = range(2, 7)
_ROWS = 20_000  # that are looked at
_HELD_OUT = 400  # rows whose one-step errors bound the noise
# Differences of a smooth signal keep falling with their order; those of noise, rightly scaled, stay.
_PLATEAU = 0.7
_NOTICEABLE = 0.05
_NO_BETTER = 0.3  # ratio of one-step errors from which a model hardly predicts more than a curve through the last rows
_FAR_FROM_CURVES = 0.02  # of the change: where curves err by less, a model need not be better yet


@dataclass(frozen=True)
class Noise:
    """Noise as estimated from differences.

    Attributes:
        relative: standard deviation of the noise against that of the states, median over coordinates; an upper bound if
            `found` is false.
        of_increments: the same against the root mean square of one step's change.
        found: whether it looks like noise: differences of order five and six agree about its size.
        of_curves: one-step error of the best curve through the last rows, likewise.
        drives: whether no model predicts much more than such a curve: chance drives a smooth series.
    """

    relative: float
    of_increments: float
    found: bool
    of_curves: float = math.nan
    drives: bool = False

    def at_most(self, increments: float) -> Noise:
        """The same, knowing that a model's one-step errors are `increments` of the root mean square change.

        Fast forcing looks like noise to differences, but what a model predicts is not noise. An error of one step
        holds the noise of two states.
        """
        bound = increments / math.sqrt(2.0)
        if not self.of_increments > bound:
            return self
        return replace(self, relative=self.relative * bound / self.of_increments, of_increments=bound)

    def beside(self, increments: float) -> Noise:
        """The same, where `increments` is the one-step error of the best of all models that were tried."""
        seen = self.found or self.of_curves > _FAR_FROM_CURVES
        return replace(self.at_most(increments), drives=seen and increments > _NO_BETTER * self.of_curves)

    @property
    def matters(self) -> bool:
        """Whether it is there and not small against what is to be learned."""
        return self.drives or (self.found and self.of_increments > _NOTICEABLE)

    @property
    def only_drives(self) -> bool:
        """Whether it matters because it drives the series, although each row shows little of it."""
        return self.drives and not (self.found and self.of_increments > _NOTICEABLE)


def estimate_noise(dataset: Dataset) -> Noise:
    """From up to 20,000 rows without a gap."""
    length = ORDERS[-1] + 2
    parts, rows = [], 0
    if dataset.filling is not None:  # what was filled in has no noise
        dataset = replace(dataset, series=tuple(one.as_measured for one in dataset.series))
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
    errors = sizes * np.sqrt([[math.comb(2 * order, order)] for order in ORDERS]) / change[varies]
    of_curves = float(np.median(np.minimum(errors.min(axis=0), 1.0)))
    # Rounding is noise too, but it is not reported.
    found = bool(np.median(flat) > _PLATEAU) and relative > 1e-6
    return Noise(relative, of_increments, found, of_curves)


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
        # A state that repeats exactly, such as a day without rain, contains no information on the noise of the others.
        moved = (changes != 0) | (changes == 0).all(axis=0)
        least = np.fmin(least, typical(np.where(moved, errors, np.nan)))
        change = np.sqrt(np.mean(changes**2, axis=0))
    varies = change > 0
    return float(np.median(least[varies] / change[varies])) if varies.any() else 0.0


def typical(errors: Array, part: float = 0.5) -> Array:
    """Standard deviation of normal errors (rows, n) by coordinate, (n,), by a quantile: a few jumps do not count.

    NaN is left out.
    """
    return np.asarray(np.nanquantile(np.abs(errors), part, axis=0) / ndtri((1.0 + part) / 2))


def typical_square(errors: Array, part: float = 0.5) -> float:
    """Geometric mean over coordinates of the square of `typical`."""
    return float(np.exp(np.mean(2.0 * np.log(np.maximum(typical(errors, part), 1e-150)))))


SHORT = (1, 2, 3)
LONGER = (5, 8, 13, 21, 34, 55)
_MOST_NUMBERS = {False: 24, True: 48}  # in the window of a nonlinear part, by whether there is noise
NONLINEAR = (1, 2, 3, 5, 8, 12, 18)
_MOST_FEATURES = 420
_OPERATIONS = 1.2e9  # of one decomposition
_ROWS_PER_FEATURE = 4
_SEVERAL = 3  # trajectories, of which whole ones are held out
_LARGE = 200_000  # pairs: every pass counts
_REPEATS = 0.3  # autocorrelation at a season
_MULTIPLE = 0.95  # of the strongest autocorrelation: a season within this of its multiple counts as it
_DEVIATIONS = 2.0  # standard errors of an autocorrelation by which a season may be weaker than its multiple
_FEWEST_SEASONS = 12  # before a season of seasons is looked for
_WIDTHS, _SURE = 4, 4.0  # of the means that show a season, within it; standard errors by which it stands out
_SURE_OF_EACH = 2.0  # the same for one season and for two seasons alone
_LEAST_WIDTHS = 3  # within a season that means show: fewer overlap with the next season
_LONGEST_HIDDEN = 0.3  # part of the rows
_HIDDEN_MULTIPLE = 0.9  # as `_MULTIPLE`, of what means of several states show
_MULTIPLES, _SLACK = 8, 40  # that distinguish a season from its neighbours; lag against their distance
_KEPT_PHASE = 0.6  # part of what a half's own waves explain that those of the other half explain
_WAVES, _WIDE_SLACK = 2, 12  # of a season that noise hides: waves; lag against the distance of neighbours
_VERY_WIDE_SLACK, _SURE_OF_WAVES = 5, 6.0  # the same of few seasons; twice the log-likelihood they must gain
_SURE_OF_SEASONS = 3.0  # standard errors by which a season of seasons stands out, or it comes after the season
_PART = 0.6  # the same for a season within a season
_COLUMNS = 8  # that are looked at
SLOW = 60  # steps: a season beyond is sought in smoothed states as well, because changes hide it
_SMOOTHED, _STRONG, _LONGEST_PART = 1 / 60, 0.5, 0.4  # part of the rows; autocorrelation; part of the rows


def linear_histories(dataset: Dataset) -> tuple[int, ...]:
    """Numbers of states that a linear map may look at, from few to many."""
    lengths: dict[int, int] = {}
    for index, first, last in dataset.stretches(1):
        lengths[index] = max(last - first, lengths.get(index, 0))
    longest = max(lengths.values(), default=1)
    # Whole trajectories are held out where there are several, and each has rollouts that start late in it.
    most = max(longest // 6, sorted(lengths.values())[len(lengths) // 2] // 3 if len(lengths) >= _SEVERAL else 0)
    tried = [*SHORT, *LONGER]
    if not dataset.lazy and dataset.rows <= _LARGE:
        for season in seasons(dataset):
            tried += [season, season + 1]
    kept = [1]
    for history in sorted(set(tried)):
        features, pairs = dataset.size * history, dataset.transitions(history)
        short = history <= SHORT[-1] and pairs > 2 * features and 2 * (history + 2) <= longest  # see `folds`
        fits = pairs >= _ROWS_PER_FEATURE * features or (history > LONGER[0] and pairs >= 2 * features + 40)
        cheap = features <= _MOST_FEATURES and pairs * float(features) ** 2 <= _OPERATIONS
        if history > 1 and (short or (fits and cheap and history <= most)):
            kept.append(history)
    return tuple(kept[:4] if dataset.lazy or dataset.rows > _LARGE else kept)


def nonlinear_histories(dataset: Dataset, *, noisy: bool = False) -> tuple[int, ...]:
    """Numbers of states that a nonlinear part may look at: more for few coordinates, or for noise."""
    longest = max((last - first for _, first, last in dataset.stretches(1)), default=1)
    most = _MOST_NUMBERS[noisy]
    kept = [h for h in NONLINEAR if h == 1 or (dataset.size * h <= most and 8 * h <= longest)]
    return tuple(kept[:3] if dataset.size > 1 and not noisy else kept)


def longest_history(dataset: Dataset, history: int | str = "auto") -> int:
    """The largest number of states that a fit to `dataset` may look at, where `history` is what was asked for."""
    if not isinstance(history, str):
        return history
    return max(*linear_histories(dataset), *nonlinear_histories(dataset))


def seasons(dataset: Dataset, most: int = 3) -> list[int]:
    """Lags at which the changes of the data repeat, the strongest first, and seasons of seasons, such as weeks."""
    found: dict[int, float] = {}
    for column in longest_stretch(dataset):
        peaks = [(_refined(column, lag), strength) for lag, strength in _seasons_of(column)]
        if peaks and len(column) >= _FEWEST_SEASONS * peaks[0][0]:
            # The means over whole seasons may have a season themselves.
            season = peaks[0][0]
            means = column[len(column) % season :].reshape(-1, season).mean(axis=1)
            for lag, strength in _peaks(np.diff(means))[:1]:
                if lag > 2:
                    sure = strength > _SURE_OF_SEASONS / math.sqrt(len(means))
                    peaks.append((lag * season, strength if sure else min(strength, peaks[0][1] - 1e-9)))
        for lag, strength in peaks:
            found[lag] = max(strength, found.get(lag, 0.0))
    return sorted(found, key=lambda lag: -found[lag])[:most]


def slow_season(dataset: Dataset) -> int:
    """A season of more than `SLOW` steps in which the smoothed states repeat, such as the year of daily data; or 0."""
    strength, found = _STRONG, 0
    for column in longest_stretch(dataset):
        width, longest = int(_SMOOTHED * len(column)), int(_LONGEST_PART * len(column))
        if width < 2 or longest <= SLOW:
            break
        smooth = np.convolve(column, np.full(width, 1 / width), mode="valid")
        place = np.arange(len(smooth))
        trend = np.polyval(np.polyfit(place, smooth, 1), place)
        correlation = _autocorrelation(smooth - trend)[: longest + 1]
        below = np.flatnonzero(correlation < 0)
        if not len(below):
            continue
        whole = _corrected(correlation, len(smooth))
        tops = _maxima(whole)
        tops = tops[(tops > below[0]) & (whole[tops] > strength)]
        lag = _first(tops, whole[tops], _HIDDEN_MULTIPLE) if len(tops) else 0
        if lag > SLOW:
            strength, found = float(whole[lag]), _refined(column, lag)
    return found


def longest_stretch(dataset: Dataset) -> Array:
    """The first columns of the longest stretch without a gap, (columns, rows); no columns if there is none."""
    stretches = dataset.stretches(8)
    if not stretches:
        return np.empty((0, 0))
    index, first, last = max(stretches, key=lambda one: one[2] - one[1])
    rows = dataset.series[index].rows(first, min(last, first + _ROWS))
    return np.asarray(rows, dtype=np.float64)[:, :_COLUMNS].T


def _seasons_of(column: Array) -> list[tuple[int, float]]:
    """Seasons of the changes of one column, and the one that noise hides in them, with their strengths."""
    peaks = _peaks(np.diff(column))
    if not peaks:
        found = _hidden(column, int(_LONGEST_HIDDEN * len(column)))
        return [(_by_waves(column, lag), strength) for lag, strength in found]
    # Noise can make a multiple stand out where the season itself does not.
    best, strength = peaks[0]
    slack = max(1, best // _SLACK)
    hidden = [lag for lag, _ in _hidden(column, best + slack, _SURE) if lag <= best // 2]
    parts = [lag for lag in hidden if min(best % lag, -best % lag) <= slack]
    return [(lag, strength + 1e-9) for lag in parts] + peaks


def _hidden(column: Array, longest: int, sure: float = _SURE_OF_EACH) -> list[tuple[int, float]]:
    """The season of at most `longest` steps that noise hides in changes of states, but not in those of their means.

    It must repeat after two seasons as well. The fewest states whose means show a season decide; means of more, up to a
    quarter of it, show it more clearly.
    """
    width, found, strength = 2, 0, 0.0
    while _WIDTHS * width <= (found or longest):
        whole, error = _repetition(column, width)
        lags = np.arange(min((len(whole) + 1) // 2, longest + 2))
        once, twice = whole[lags], whole[2 * lags]
        mean = (once + twice) / 2
        tops = _maxima(mean)
        # The overlap shrinks with the lag.
        first, second = (error / np.sqrt(1.0 - count * tops / len(column)) for count in (1, 2))
        both = np.minimum(once[tops] / first, twice[tops] / second) > sure
        both &= (mean[tops] > _SURE * np.hypot(first, second) / 2) & (np.minimum(once, twice)[tops] > _REPEATS)
        tops = tops[both & (tops >= _LEAST_WIDTHS * width)]
        lag = _first(tops, mean[tops], _HIDDEN_MULTIPLE) if len(tops) else 0
        if lag and (not found or (mean[lag] > strength and lag < 1.1 * found)):
            found, strength = lag, float(mean[lag])
        width *= 2
    return [(found, strength)] if found else []


def _repetition(column: Array, width: int) -> tuple[Array, float]:
    """Autocorrelation of the changes from mean to mean of `width` states, up to 2/3 of the rows; its standard error.

    Neither white noise nor a random walk has any beyond twice the width.
    """
    sums = np.cumsum(np.concatenate([[0.0], column - column.mean()]))
    means = sums[width:] - sums[:-width]
    change = means[width:] - means[:-width]
    correlation = _autocorrelation(change)[: 2 * len(change) // 3]
    error = math.sqrt((1 + 2 * float(np.sum(correlation[1 : 2 * width] ** 2))) / len(change))
    return _corrected(correlation, len(change)), error


def _refined(column: Array, lag: int) -> int:
    """The lag about `lag` at whose multiples the states repeat best; itself if the rows hold no multiples."""
    whole, _ = _repetition(column, max(1, lag // _WIDTHS))
    whole = whole[: 3 * len(whole) // 4]  # with few rows in common, neighbours differ by chance
    slack = max(1, lag // _SLACK)
    near = np.arange(max(2, lag - slack), lag + slack + 1)
    count = min(_MULTIPLES, (len(whole) - 1) // int(near[-1]))
    if count < 2:
        return _by_waves_of_all_rows(column, lag) if lag <= SLOW else lag
    return int(near[np.argmax(whole[np.outer(near, np.arange(1, count + 1))].mean(axis=1))])


def _by_waves(column: Array, lag: int) -> int:
    """The season about `lag` whose first waves and a line fit best: means of several states do not show it exactly."""
    slack = lag // _WIDE_SLACK
    return min(range(lag - slack, lag + slack + 1), key=lambda one: _beside_waves(column, one))


def _by_waves_of_all_rows(column: Array, lag: int) -> int:
    """The season near `lag` whose waves fit clearly better, or `lag`: noise moves the maximum of few seasons."""
    slack = max(1, lag // _VERY_WIDE_SLACK)
    best = min(range(max(2, lag - slack), lag + slack + 1), key=lambda one: _beside_waves(column, one))
    rest, least = (max(_beside_waves(column, one), 1e-300) for one in (lag, best))
    return best if len(column) * math.log(rest / least) > _SURE_OF_WAVES else lag


def keeps_its_phase(dataset: Dataset, season: int) -> bool:
    """Whether the waves of a season in one half of the rows explain the other half: those of a cycle drift away."""
    own = across = 0.0  # what is explained
    for column in longest_stretch(dataset):
        half = len(column) // 2
        place = np.arange(2 * half)
        angles = 2 * np.pi / season * np.outer(np.arange(1, min(_WAVES, season // 2) + 1), place)
        waves = np.concatenate([np.cos(angles), np.sin(angles)]).T
        line = np.linalg.qr(np.stack([np.ones(half), place[:half]], axis=1))[0]
        parts = [(column[-2 * half :][rows], waves[rows]) for rows in (slice(half), slice(half, None))]
        parts = [(values - line @ (line.T @ values), some - line @ (line.T @ some)) for values, some in parts]
        scale = float(np.var(column)) or 1.0
        found = [np.linalg.lstsq(some, values)[0] for values, some in parts]
        for (values, some), mine, other in zip(parts, found, found[::-1], strict=True):
            power = float(values @ values)
            own += (power - float(np.sum((values - some @ mine) ** 2))) / scale
            across += (power - float(np.sum((values - some @ other) ** 2))) / scale
    return across > _KEPT_PHASE * own


def _beside_waves(column: Array, season: int) -> float:
    """What a line and the first waves of a season leave of a column by least squares."""
    place = np.arange(len(column))
    angles = 2 * np.pi / season * np.outer(np.arange(1, _WAVES + 1), place)
    design = np.stack([np.ones(len(column)), place, *np.cos(angles), *np.sin(angles)], axis=1)
    basis = np.linalg.qr(design)[0]
    return float(np.sum((column - basis @ (basis.T @ column)) ** 2))


def _corrected(correlation: Array, count: int) -> Array:
    """Autocorrelations of `count` values, corrected for the overlap, which shrinks with the lag."""
    return correlation * count / (count - np.arange(len(correlation)))


def _maxima(values: Array) -> NDArray[np.intp]:
    """Places of the local maxima."""
    return 1 + np.flatnonzero((values[1:-1] > values[:-2]) & (values[1:-1] >= values[2:]))


def _peaks(change: Array) -> list[tuple[int, float]]:
    """The strongest noticeable maximum of the autocorrelation beyond its first zero, and the strongest before that."""
    count = len(change)
    correlation = _autocorrelation(change)[: count // 2]  # two whole seasons must be there
    below = np.flatnonzero(correlation < 0)
    if not len(below):
        return []
    maxima = _maxima(correlation)
    maxima = maxima[maxima > below[0]]
    tops = maxima[correlation[maxima] > _REPEATS]
    if not len(tops):
        return []
    # Corrected for the shrinking overlap, so that a full year is not beaten by its neighbour; of multiples the first.
    corrected = _corrected(correlation, count)
    whole = corrected[tops]
    best = _first(tops, whole, _MULTIPLE)
    found = [(best, float(correlation[best]))]
    # Noise can make a multiple look stronger than the season itself: both are tried, the season first.
    least = max(whole[tops == best][0] - _DEVIATIONS / np.sqrt(count), _REPEATS / 2)
    shorter = maxima[corrected[maxima] >= least]
    parts = [int(lag) for lag in shorter if lag <= best // 2 and min(best % lag, -best % lag) <= 1]
    if parts:
        return [(parts[0], found[0][1]), (best, found[0][1] - 1e-9)]
    # A day within a week: a shorter season that the longer one contains.
    within = tops[tops <= best // 2]
    if len(within):
        top = _first(within, correlation[within], _PART)
        # The top is flat where the season is smooth: the longer season is a multiple of the shorter one.
        part = next((lag for lag in (top, top + 1, top - 1) if best % lag == 0), top)
        found.append((part, float(correlation[part])))
    return found


def _autocorrelation(values: Array) -> Array:
    """Of the values less their mean, by lag; zeros if they do not vary."""
    centred = values - values.mean()
    with np.errstate(over="ignore"):  # what overflows is refused when pairs are made
        power = float(centred @ centred)
    if not np.isfinite(power) or power <= 0:
        return np.zeros(len(values))
    spectrum = np.fft.rfft(centred, 2 * len(values))
    return np.asarray(np.fft.irfft(np.abs(spectrum) ** 2)[: len(values)] / power)


def _first(lags: NDArray[np.intp], strength: Array, part: float) -> int:
    """The first lag about as strong as the strongest, or a stronger one right behind it."""
    first = lags[np.argmax(strength > part * strength.max())]
    near = (lags >= first) & (lags <= 1.25 * first)
    return int(lags[near][np.argmax(strength[near])])
