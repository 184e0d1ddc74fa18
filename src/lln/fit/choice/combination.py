"""The linear map of noisy data: a weighted mean of the maps that held-out rollouts cannot tell apart.

A few noisy rows do not show which of many maps is the best; the best one on them is partly so by chance. Each map is
scored by its rollouts from many origins, each solved from the rows before, and by the corrected Akaike information
criterion (AICc) of its one-step errors. Both are log-likelihoods but for a factor, so they add up to a weight, and the
mean of the maps by weight is used: again a linear map.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from lln.core.workers import Mapper, serial
from lln.data.series import Dataset
from lln.fit.choice.holdout import (
    LEAST,
    Fold,
    Windows,
    lead_times,
    load,
    origin_blocks,
    rows_before,
    running_mean,
    squares,
)
from lln.fit.choice.noise_and_seasons import keeps_its_phase, seasons, slow_season
from lln.fit.closed.linear import lags_of, spectral_radius
from lln.fit.options import TimeLimit
from lln.fit.prepare import FrameChoice, Preparer, differences
from lln.step.frame import Array, Frame

# By how much a row of held-out rollouts and one of AICc count. Rollouts overlap; the mean of more maps is safer.
_ROLLOUTS, _ONE_STEP = 0.25, 0.5
_COMPARED = 1000  # maps, the best on rollouts first, whose criterion is computed
_COMPARED_PLAIN = 80  # the same of data on which no maps but plain ones are tried
_MOST_ROWS = 20_000  # up to which maps are also shrunk towards naive forecasts
_SINGLE = 2  # trajectories up to which origins lie in blocks of them
_MEMBERS = 8
_LEAST_WEIGHT = 0.02  # of the largest: lighter members are left out
_ALONE = 0.9  # a member of more weight is used alone
_GROWTH = 2.0  # a map may grow by this exponent over the rows of the data
_CONSTANTS = 0.5  # fitted coefficients that the constants of a naive forecast count for: they are chosen, not fitted

_RIDGES = (1e-6, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
_RIDGE_OF_INPUTS = 1e-3  # of their weights beside a naive forecast
_LEVELS = (0.1, 0.2, 0.35, 0.5, 0.7)
_TRENDS = tuple((a, b, phi) for a in (0.3, 0.6, 0.9) for b in (0.1, 0.3, 0.6) for phi in (0.8, 0.95))
_SEASONAL_LEVELS = tuple((a, float(k)) for a in (0.1, 0.2, 0.35, 0.5, 0.7, 0.9) for k in (1, 2, 3))
_DECAYING = (0.3, 0.5, 0.7, 0.8)  # parts of the difference to the last season that one step keeps
_COUNTS, _LAGS, _RIDGES_OF_DIFFERENCES = (1, 2, 3), (1, 2, 3, 5), (1e-4, 1e-1)  # seasons, differences to them
_LAGS_OF_CURVES = (1, 2, 3)
_LONG_SEASON, _LEVELS_OF_LONG_SEASONS = 60, ((0.2, 1.0), (0.5, 1.0))
_SHARE_OF_ROWS, _MOST_LAGS = 0.35, 200  # that a naive forecast may look back
_SHARE_OF_SEASON = 0.5  # the same for the last season alone
_FEW_CYCLES = 6
_SHARE_OF_SLOW_SEASON, _SLOWEST = 0.45, 500  # of the rows; steps that the forecast of a slow season may look back
_SIDES, _PARTS_KEPT = (24, 14), (0.0, 0.5, 0.7, 0.8, 0.9)  # of a slow season: its smoothed part; what is kept in a step
_SEASONS_AVERAGED = (2.0, 3.0, 5.0)
# Curves: parts of the rows, of few seasons and else; features; rows, seasons, harmonics, what is kept in a step.
_SHARE_OF_FEW, _SHARE_OF_CURVE, _MOST_FEATURES = 0.55, 0.45, 420
_CURVE_SEASONS, _FEW_SEASONS = (1.5, 2, 3, 5, 8, 12), 2
_HARMONICS, _KEPT = (1, 2, 4, 8), (0.0, 0.4, 0.8)


def maps_of_noisy_data(
    dataset: Dataset, histories: Sequence[int], ranked: Sequence[FrameChoice], fold: Fold, *, given: bool
) -> tuple[Sequence[FrameChoice], list[Fold]]:
    """The linear maps to average, and blocks of origins to score them; no blocks where other folds serve.

    Args:
        dataset: all of it.
        histories: numbers of states that fitted maps look at.
        ranked: plain linear maps, the best first, for data on which no others are tried: grids and many rows.
        fold: judges the choice; a map looks at no more states than lie between a gap and the starts of its rollouts,
            and at fewer than train in a row.
        given: whether the one history was asked for, and no other may be used.
    """
    if dataset.lazy or dataset.space or dataset.rows > _MOST_ROWS:
        return ranked[:_COMPARED_PLAIN], []
    found = () if given else seasons(dataset)
    single = [season for season in found if season > 1 and not any(_few_cycles(season, one) for one in found)]
    steady = [season for season in single if keeps_its_phase(dataset, season)]
    tried = candidates(histories, found, dataset.rows, 0 if given else slow_season(dataset), steady, dataset.size)
    if dataset.inputs:
        tried += [replace(one, ridge=_RIDGE_OF_INPUTS, inputs_alone=True) for one in tried if one.ridge is None]
    train = dataset.select(fold.train)
    room = min(rows_before(dataset, fold), max(last - first for _, first, last in train.stretches()) - 1)
    tried = [one for one in tried if (one.history == histories[0] if given else one.history <= room)]
    blocks = origin_blocks(dataset, max(one.history for one in tried)) if len(dataset.series) <= _SINGLE else []
    return tried if blocks else [one for one in tried if one.history <= histories[-1]], blocks


def candidates(
    histories: Sequence[int],
    seasons: Sequence[int],
    rows: int,
    slow: int = 0,
    steady: Sequence[int] = (),
    size: int = 1,
) -> list[FrameChoice]:
    """Linear maps of noisy series: naive forecasts, fitted maps, and fitted maps that are shrunk towards naive ones.

    Args:
        histories: numbers of states that fitted maps look at.
        seasons: in steps.
        rows: number of rows of the data.
        slow: a season of many steps, whose states are smoothed; 0 for none.
        steady: seasons that keep their phase.
        size: number of coordinates.
    """
    found = [FrameChoice(1, None, math.inf, naive="mean"), FrameChoice(1, None, None), FrameChoice(1, None, math.inf)]
    for history in histories:
        found += [FrameChoice(history, None, ridge) for ridge in _RIDGES]
        found += [FrameChoice(history, None, ridge, naive="mean") for ridge in _RIDGES[2:]]
        if history > 1:
            found += [FrameChoice(history, None, r, level=False, drift=d) for r in _RIDGES for d in (True, False)]
    smooth: list[tuple[str, int, tuple[float, ...]]] = [("level", 0, (alpha,)) for alpha in _LEVELS]
    smooth += [("trend", 0, constants) for constants in _TRENDS]
    for season in seasons:
        if season > 1:
            smooth += [(kind, season, (count,)) for kind in ("season", "change") for count in (1.0, 2.0, 3.0)]
            smooth += [("season", season, (1.0, rho)) for rho in _DECAYING]
            levels = _SEASONAL_LEVELS if season <= _LONG_SEASON else _LEVELS_OF_LONG_SEASONS
            smooth += [("level", season, constants) for constants in levels]
            found += _near_season(season, histories)
    most = min(_SHARE_OF_ROWS * rows, _MOST_LAGS)
    found += [one for season in seasons if season > 1 for one in _differenced(season) if one.history <= most]
    if slow:
        smooth += [("smooth", slow, (float(slow // side), rho)) for side in _SIDES for rho in _PARTS_KEPT]
        several = [(rho, count) for rho in _PARTS_KEPT[::2] for count in _SEASONS_AVERAGED]
        smooth += [("smooth", slow, (float(slow // side), *constants)) for side in _SIDES for constants in several]
    for naive, season, constants in smooth:
        lags = lags_of(naive, season, constants)
        allowed = most if naive != "smooth" else min(_SHARE_OF_SLOW_SEASON * rows, _SLOWEST)
        # The last season alone may be seen twice, but not if it is a few cycles of another: they may just fit.
        if constants == (1.0,) and season and not any(_few_cycles(season, one) for one in seasons):
            allowed = min(_SHARE_OF_SEASON * rows, _MOST_LAGS)
        if lags <= allowed:
            found += [
                FrameChoice(lags, None, ridge, naive=naive, season=season, level=False, smoothing=constants)
                for ridge in (None, math.inf)
            ]
    # A curve has an offset of its own.
    found += [
        FrameChoice(int(constants[0]), None, None, naive=naive, season=season, level=False, smoothing=constants)
        for naive, season, constants in _curves(steady, rows, size)
    ]
    found += [
        replace(one, ridge=_RIDGES_OF_DIFFERENCES[0], drift=False, differences=lags)
        for one in found if one.naive == "curve" and one.smoothing[-1] == 0.0
        for lags in _LAGS_OF_CURVES
    ]  # fmt: skip
    return found


def _curves(seasons: Sequence[int], rows: int, size: int) -> Iterator[tuple[str, int, tuple[float, ...]]]:
    """Seasons with and without a line through the last rows, with a few numbers of rows each."""
    longest = min(_MOST_LAGS, _MOST_FEATURES / size)
    for season, count in product(seasons, _CURVE_SEASONS):
        share = _SHARE_OF_CURVE if count > _FEW_SEASONS else _SHARE_OF_FEW
        if count * season > min(share * rows, longest):
            continue
        every = {min(one, season // 2) for one in _HARMONICS} | ({season // 2} if season <= _LONG_SEASON else set())
        # Less than two seasons do not distinguish a trend from many harmonics.
        some = sorted(every) if count >= _FEW_SEASONS else sorted(every)[:2]
        for harmonics, degree, rho in product(some, (0.0, 1.0), _KEPT):
            yield "curve", season, (float(int(count * season)), float(harmonics), degree, rho)


def _few_cycles(season: int, other: int) -> bool:
    """Whether a season is two to six times another, which is known to half a step."""
    times = round(season / other)
    return 2 <= times <= _FEW_CYCLES and abs(season - times * other) <= times / 2


def _near_season(season: int, histories: Sequence[int]) -> Iterator[FrameChoice]:
    for naive, least in (("season", season), ("change", season + 1)):
        for history in histories:
            if least <= history <= season + 1:
                for ridge in _RIDGES[1:]:
                    for level in (True, False):
                        yield FrameChoice(history, None, ridge, naive=naive, season=season, level=level)


def _differenced(season: int) -> Iterator[FrameChoice]:
    """The mean of the last seasons, plus an autoregression of how the last states differ from it."""
    for count, lags, ridge, drift in product(_COUNTS, _LAGS, _RIDGES_OF_DIFFERENCES, (False, True)):
        yield FrameChoice(
            count * season + lags, None, ridge, naive="season", season=season, drift=drift, smoothing=(float(count),),
            differences=lags,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Piece:
    """Candidates of one history on one fold."""

    fold: Fold
    leads: tuple[int, ...]
    candidates: Sequence[FrameChoice]
    scale: Array


def combine(
    preparer: Preparer,
    folds: Sequence[Fold],
    tried: Sequence[FrameChoice],
    scale: Array,
    mapper: Mapper = serial,
    limit: TimeLimit | None = None,
) -> FrameChoice:
    """The weighted mean of the best of `tried`, or a single one where it is far better than the rest.

    Args:
        preparer: prepares the data.
        folds: ways to hold data out.
        tried: linear maps.
        scale: unit of errors in scores, (n,).
        mapper: calls one piece for each fold and history.
        limit: when it has passed, maps of further histories are left out.
    """
    scores: dict[FrameChoice, float] = {}
    for some in _within(limit, tried):
        scores |= rollout_scores(preparer, folds, some, scale, mapper)
    ranked = sorted(scores, key=scores.__getitem__)[:_COMPARED]
    rows = preparer.prepare(None, 1).pairs
    common = preparer.prepare(None, max(one.history for one in ranked)).pairs
    held = len({(index, row) for fold in folds for index, first, last in fold.held_out for row in range(first, last)})
    fits: dict[FrameChoice, float] = {}
    for some in _within(limit, ranked):
        fits |= criteria(preparer, some, common)
    cost = {one: _ROLLOUTS * held * scores[one] + _ONE_STEP * fit for one, fit in fits.items()}
    ranked = sorted(cost, key=cost.__getitem__)
    weights = {one: math.exp(-(cost[one] - cost[ranked[0]]) / 2) for one in ranked}
    steady = 1.0 + _GROWTH / rows
    members: list[FrameChoice] = []
    families: set[tuple[Any, ...]] = set()
    for one in ranked:
        if len(members) == _MEMBERS or (members and weights[one] < _LEAST_WEIGHT * weights[members[0]]):
            break
        # Maps that differ in a constant alone are nearly the same, and would crowd out others.
        if _family(one) not in families and spectral_radius(preparer.linear(None, one)) <= steady:
            members.append(one)
            families.add(_family(one))
    if not members:
        return ranked[0]
    total = sum(weights[one] for one in members)
    if weights[members[0]] > _ALONE * total:
        return members[0]
    longest = max(one.history for one in members)
    mean = FrameChoice(longest, None, None, members=tuple((one, weights[one] / total) for one in members))
    return mean if spectral_radius(preparer.linear(None, mean)) <= steady else members[0]


def _family(one: FrameChoice) -> tuple[Any, ...]:
    """What maps that differ in ridge or smoothing constants have in common."""
    if one.is_naive or one.inputs_alone:
        shape = one.smoothing[1:3] if one.naive == "curve" else ()  # harmonics and degree
        return (one.naive, one.season, one.ridge is None, shape, one.inputs_alone)
    return (one.history, one.radius, one.naive, one.season, one.level, one.drift, one.differences)


def rollout_scores(
    preparer: Preparer, folds: Sequence[Fold], tried: Sequence[FrameChoice], scale: Array, mapper: Mapper = serial
) -> dict[FrameChoice, float]:
    """The mean over lead times of the log error of rollouts from all origins of all folds, by candidate.

    A fold counts by the number of rows that train in it: few rows favour maps that are too simple for all of them.
    """
    leads = lead_times(max(fold.steps for fold in folds))
    pieces = [_Piece(fold, leads, some, scale) for some in _by_history(tried) for fold in folds]
    totals: dict[FrameChoice, Array] = {}
    for piece, errors in zip(pieces, mapper(_errors, preparer, pieces), strict=True):
        for one, error in zip(piece.candidates, errors, strict=True):
            totals[one] = totals.get(one, 0.0) + piece.fold.training_rows * error
    counts = [np.where(np.asarray(leads) <= fold.steps, fold.training_rows * len(fold.windows), 0) for fold in folds]
    count = np.sum(counts, axis=0)
    return {one: float(np.log(np.maximum(total / count, LEAST)).mean()) for one, total in totals.items()}


def _errors(preparer: Preparer, piece: _Piece) -> Array:
    """The sum over windows of the mean error up to each lead time, (candidates, leads); zero beyond the rollouts."""
    history, fold = piece.candidates[0].history, piece.fold
    windows = load(preparer.dataset, fold, history, piece.scale)
    frames = [preparer.linear(fold.train, one) for one in piece.candidates]
    mean = running_mean(squares(roll_maps(frames, windows), windows.truth, piece.scale))
    found = np.zeros((len(frames), len(piece.leads)))
    reached = np.asarray([lead for lead in piece.leads if lead <= fold.steps])
    found[:, : len(reached)] = mean[..., reached - 1].sum(axis=1)
    return found


def roll_maps(frames: Sequence[Frame], windows: Windows) -> Array:
    """Rollouts of linear maps of one history: (maps, W, steps, n).

    All maps go side by side, as weights of past states: less exact than differences, which noise hides.
    """
    start, steps = windows.start, windows.truth.shape[1]
    n, history = start.shape[2], start.shape[1]
    weights, offsets, forcing = (np.stack(parts) for parts in zip(*map(_lag_form, frames), strict=True))
    states = np.empty((len(frames), len(start), history + steps, n))
    states[:, :, :history] = start
    known = None if windows.inputs is None else np.einsum("cij,wsj->cwsi", forcing, windows.inputs)
    with np.errstate(over="ignore", invalid="ignore"):
        for k in range(steps):
            rows = states[:, :, k : k + history].reshape(len(frames), len(start), -1)
            after = rows @ weights + offsets[:, None]
            states[:, :, history + k] = after if known is None else after + known[:, :, k]
    return states[:, :, history:]


def _lag_form(frame: Frame) -> tuple[Array, Array, Array]:
    """Weights of the window, oldest first, (H n, n), offset (n,) and weights of the inputs (n, m)."""
    n, history = frame.size, frame.history
    unit = frame.scale[:, None] / frame.scale
    blocks = frame.matrix[:, : n * history].reshape(n, history, n).swapaxes(0, 1) * unit
    blocks[1:] /= frame.difference_scale[:, None]
    lags = -blocks
    lags[0] = np.eye(n) + blocks[0]
    lags[:-1] += blocks[1:]
    forcing = frame.matrix[:, n * history :] * frame.scale[:, None] / frame.input_scale
    offset = frame.scale * frame.offset - blocks[0] @ frame.mean - forcing @ frame.input_mean
    return lags[::-1].transpose(0, 2, 1).reshape(history * n, n), offset, forcing


def criteria(preparer: Preparer, tried: Sequence[FrameChoice], rows: int) -> dict[FrameChoice, float]:
    """AICc of the one-step errors of linear maps.

    Args:
        preparer: prepares the data.
        tried: the maps, solved from all rows.
        rows: number of pairs that count, the last ones; the same for every map.
    """
    found: dict[FrameChoice, float] = {}
    for some in _by_history(tried):
        ready = preparer.prepare(None, some[0].history)
        frames = [ready.linear(one) for one in some]
        if not ready.in_memory:
            variances = [ready.regression.unexplained(one.matrix, one.offset) * one.scale**2 for one in frames]
        else:
            variances, left = [np.zeros(one.size) for one in frames], ready.pairs
            for features, change, _ in ready.blocks():
                known = slice(max(0, left - rows), None)
                left -= len(features)
                for place, frame in enumerate(frames):
                    rest = change[known] - frame.scale * (features[known] @ frame.matrix.T + frame.offset)
                    variances[place] += np.sum(rest**2, axis=0) / rows
        for one, variance in zip(some, variances, strict=True):
            fitted = 0.0 if one.ridge is None or not one.drift else 1.0
            if one.is_naive or one.inputs_alone:
                fitted += _CONSTANTS if one.season or one.smoothing else 0.0
            if one.differences:
                along = ready.regression.along(differences(ready.units, one))
                fitted += along.freedom(one.ridge or 0.0)
            elif not one.is_naive and one.ridge is not None:
                fitted += ready.regression.freedom(one.ridge, one.first_fitted(preparer.dataset.size))
            likelihood = float(np.mean(np.log(np.maximum(variance, 1e-300))))
            found[one] = rows * (likelihood + 2 * (fitted + 1) / max(rows - fitted - 2, 1e-3))
    return found


def _within(limit: TimeLimit | None, tried: Sequence[FrameChoice]) -> Iterator[Sequence[FrameChoice]]:
    """All maps at once, or, with a limit, those of one history after the other until it has passed."""
    if limit is None or limit.seconds is None:
        yield tried
        return
    for place, some in enumerate(_by_history(tried)):
        if place and not limit.allows(0.0, "linear maps of some histories"):
            return
        yield some


def _by_history(tried: Sequence[FrameChoice]) -> list[list[FrameChoice]]:
    found: dict[int, list[FrameChoice]] = {}
    for one in tried:
        found.setdefault(one.history, []).append(one)
    return list(found.values())
