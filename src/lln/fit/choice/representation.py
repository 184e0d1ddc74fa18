"""What a fit learns from: states or their logarithms, and how many earlier values of the known inputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from lln.core.errors import InputError
from lln.data.series import Dataset
from lln.data.stream import with_input_lags
from lln.fit.choice.holdout import LEAST, Fold, RolloutErrors, better_by, folds, load, roll_linear
from lln.fit.choice.models import ALIKE, choose_linear
from lln.fit.choice.noise_and_seasons import estimate_noise, longest_stretch, seasons
from lln.fit.defaults import VALIDATION
from lln.fit.options import Fit, FitReport, Recipe
from lln.fit.prepare import FrameChoice, Preparer
from lln.fit.report.report import LINEAR, MODEL, Skill
from lln.step.frame import Array, Logarithm
from lln.step.step import AnyStep

_SHORTEST, _FEWEST = 4, 6  # steps of a season, and seasons
_SLOPES = (0.5, 1.5)  # of the logarithm of the swing against that of the level
_SURELY_GROWS = 3.0  # standard errors by which the slope is above zero
_LEVELS = 1.5  # greatest level by least
# Of logarithms: what swings by more oscillates by itself, and exp of a mean logarithm is far below the mean.
_SWING = 0.6
_PART = 6  # rows without a season whose swing is looked at
NOTE = "Swings grow with the level: this model learns logarithms of the states."


def grow_with_level(dataset: Dataset) -> bool:
    """Whether the swing within a season is proportional to its mean, in every coordinate of noisy, positive data."""
    if dataset.lazy or dataset.space or not estimate_noise(dataset).matters:
        return False
    if any(np.nanmin(one.rows(0, len(one)), initial=np.inf) <= 0 for one in dataset.series):
        return False
    season = next(iter(seasons(dataset, 1)), 0)
    columns = longest_stretch(dataset)
    if season >= _SHORTEST and all(_proportional(column, season) for column in columns):
        return True
    return all(_steadily(column) and _proportional(column, _PART) for column in columns)


def _steadily(values: Array) -> bool:
    """Whether values grow or shrink steadily."""
    change = np.diff([float(part.mean()) for part in np.array_split(np.log(values), _FEWEST)])
    return bool((change > 0).all() or (change < 0).all())


def _proportional(values: Array, season: int) -> bool:
    """Whether the spread within seasons, their trends removed, is about proportional to their means."""
    count = len(values) // season
    if count < _FEWEST:
        return False
    parts = values[len(values) - count * season :].reshape(count, season)
    level, place = parts.mean(axis=1), np.arange(season) - (season - 1) / 2
    swing = (parts - level[:, None] - np.outer(parts @ place / (place @ place), place)).std(axis=1)
    if level.max() < _LEVELS * level.min() or not swing.all() or np.median(np.log(parts).std(axis=1)) > _SWING:
        return False
    x, y = (np.log(each) - np.log(each).mean() for each in (level, swing))
    slope = float(x @ y / (x @ x))
    error = math.sqrt(float(((y - slope * x) ** 2).sum() / (count - 2) / (x @ x)))
    return _SLOPES[0] < slope < _SLOPES[1] and slope > _SURELY_GROWS * error


class States:
    """What a fit learns from: the states themselves.

    Args:
        given: trajectories.

    Attributes:
        given: the same.
        dataset: what is learned from.
    """

    def __init__(self, given: Dataset) -> None:
        self.given = self.dataset = given

    def scale(self, learned: Array) -> Array:
        """Standard deviations of the states, (n,), from those of what is learned from."""
        return learned

    def step(self, learned: AnyStep) -> AnyStep:
        """A step of states."""
        return learned

    def fit(self, learned: Fit) -> Fit:
        """A fit whose step, region and digest are those of states."""
        return learned

    def errors(self, report: FitReport, skill: Skill, steps: int) -> FitReport:  # noqa: ARG002
        """The report with held-out errors of states."""
        return report


class Logarithms(States):
    """A fit that learns logarithms of positive states."""

    def __init__(self, given: Dataset) -> None:
        rows = [np.asarray(one.rows(0, len(one)), dtype=np.float64) for one in given.series]
        self.least = np.nanmin([np.nanmin(one, axis=0) for one in rows], axis=0)
        if not (self.least > 0).all():
            raise InputError("a model that learns logarithms needs states above zero; fit the data anew")
        logs = [
            replace(one, states=np.log(states), measured=None if one.measured is None else np.log(one.measured))
            for one, states in zip(given.series, rows, strict=True)
        ]
        filling = given.filling and replace(given.filling, mean=tuple(map(math.log, given.filling.mean)))
        self.given, self.dataset = given, replace(given, series=tuple(logs), filling=filling)
        self.units = Preparer(given).prepare(None, 1).units

    def scale(self, learned: Array) -> Array:  # noqa: ARG002
        """Standard deviations of the states, (n,)."""
        return self.units.scale

    def step(self, learned: AnyStep) -> AnyStep:
        """A step of states, from one of logarithms."""
        frame, units = learned.frame, self.units
        low, high = (None if bound is None else np.exp(bound) for bound in (frame.low, frame.high))
        logarithm = Logarithm(frame.mean, frame.scale, self.least / 2)
        return learned.replace(
            replace(frame, mean=units.mean, scale=units.scale, low=low, high=high, logarithm=logarithm)
        )

    def fit(self, learned: Fit) -> Fit:
        """The fit with step, region and digest of states."""
        frame, report = learned.surrogate.frame, learned.report
        ends = [np.exp(frame.mean + frame.scale * np.asarray(side)) for side in report.region]
        low, high = (((end - self.units.mean) / self.units.scale).tolist() for end in ends)
        notes = report.notes if NOTE in report.notes else (*report.notes, NOTE)
        report = replace(report, region=(low, high), dataset=self.given.digest(), logarithms=True, notes=notes)
        return replace(learned, surrogate=self.step(learned.surrogate), report=report)

    def errors(self, report: FitReport, skill: Skill, steps: int) -> FitReport:
        """The report with held-out errors of states in place of those of their logarithms."""
        own, linear = (math.exp(skill.errors[name].until(steps).score(noisy=report.noisy)) for name in (MODEL, LINEAR))
        return replace(report, held_out_nmse=own, linear_nmse=linear)


def seen_by_fit(dataset: Dataset) -> States:
    """The states, or where a season grows with its level their logarithms."""
    return Logarithms(dataset) if grow_with_level(dataset) else States(dataset)


LAGS = (1, 2, 3, 4, 6, 8, 12, 18, 24)
_HISTORIES = (1, 2, 5)
_RIDGES = (1e-10, 1e-6, 1e-3, 1e-1)
_ROWS_PER_FEATURE = 4
_MOST_FEATURES = 200
_OPERATIONS = 1e9  # of the normal equations of one map
_FEWEST_ROWS = 40
_SURE = 2.0  # standard errors
_EXACT = math.log(1e-12)  # a map that errs by less leaves nothing to find


def fit_with_input_lags(dataset: Dataset, recipe: Recipe, fit: Callable[[Dataset, Recipe], list[Fit]]) -> list[Fit]:
    """Fits of `dataset`, with lags of its known inputs where these make held-out rollouts better.

    Lags can help a linear map because it misses something nonlinear. So they are tried only where they gain more for
    linear maps than nonlinear parts without them do, and are used only where the whole model is better.

    Args:
        dataset: all of it.
        recipe: options of the fits.
        fit: fits a dataset.
    """
    lags, gain = choose_input_lags(dataset, recipe)
    limit = recipe.time_limit
    each = recipe if limit is None or not lags else replace(recipe, time_limit=limit / 2)
    plain = fit(dataset, each)
    if not lags or all(_gain(one.report, MODEL, one.report, LINEAR) > gain for one in plain):
        return [replace(one, recipe=replace(one.recipe, time_limit=limit)) for one in plain]
    lagged = fit(with_input_lags(dataset, lags), each)
    chosen = []
    for one, other in zip(lagged, plain, strict=True):
        best = one if _gain(one.report, MODEL, other.report, MODEL) > ALIKE else other
        seconds = one.report.seconds + other.report.seconds
        report = replace(best.report, dataset=dataset.digest(), seconds=seconds)
        chosen.append(Fit(best.surrogate, replace(best.recipe, time_limit=limit), report))
    return chosen


def choose_input_lags(dataset: Dataset, recipe: Recipe) -> tuple[int, float]:
    """The least number of lags that no greater one clearly beats on held-out rollouts of linear maps; 0 for none.

    Returns:
        The number, and by how much it is better than none in log error.
    """
    tried = _possible(dataset, recipe)
    if not tried:
        return 0, 0.0
    histories = _HISTORIES if recipe.history == "auto" else (int(recipe.history),)
    ridges = _RIDGES if recipe.ridge in ("auto", None) else (float(recipe.ridge),)
    try:  # starts that every number of lags can use, so that errors are paired
        ways = folds(with_input_lags(dataset, tried[-1]), recipe.validation or VALIDATION, histories[-1])
    except InputError:  # too few rows are left
        return 0, 0.0
    chosen, best = 0, _errors(dataset, ways, histories, ridges)
    without = best
    for lags in tried:
        if best.score(noisy=True) < _EXACT:
            break
        found = _errors(with_input_lags(dataset, lags), ways, histories, ridges)
        gain, error = better_by(found, best, noisy=True)
        if gain > max(ALIKE, _SURE * error) and _information(dataset, chosen, lags, histories[-1]) > 0:
            chosen, best = lags, found
    return chosen, better_by(best, without, noisy=True)[0]


def _information(dataset: Dataset, fewer: int, more: int, history: int) -> float:
    """By how much Bayes' information criterion of one step prefers `more` lags: held-out windows are few."""
    change = []
    for lags in (fewer, more):
        ready = Preparer(with_input_lags(dataset, lags)).prepare(None, history)
        frame = ready.linear(FrameChoice(history, None, _RIDGES[0]))
        spread = ready.regression.unexplained(frame.matrix, frame.offset)
        change.append(float(np.log(np.maximum(spread, LEAST)).sum()))
    weights = dataset.size * dataset.inputs * (more - fewer)
    return ready.pairs * (change[0] - change[1]) - weights * math.log(ready.pairs)


def _possible(dataset: Dataset, recipe: Recipe) -> list[int]:
    """Numbers of lags that the data allows; none without inputs that vary, on a grid, and for data on the disk."""
    if not dataset.inputs or dataset.lazy or dataset.space:
        return []
    if not any(np.ptp(np.asarray(one.input_rows(0, len(one))), axis=0).any() for one in dataset.series):
        return []
    history = _HISTORIES[-1] if recipe.history == "auto" else int(recipe.history)
    longest = max((last - first for _, first, last in dataset.stretches(1)), default=0)
    found = []
    for lags in LAGS:
        features, pairs = dataset.size * history + dataset.inputs * (lags + 1), dataset.transitions(history + lags)
        room = longest - lags - history >= _FEWEST_ROWS and longest >= 6 * lags
        cheap = features <= _MOST_FEATURES and pairs * float(features) ** 2 <= _OPERATIONS
        if not (room and cheap and pairs >= _ROWS_PER_FEATURE * features):
            break
        found.append(lags)
    return found


def _errors(dataset: Dataset, ways: Sequence[Fold], histories: Sequence[int], ridges: Sequence[float]) -> RolloutErrors:
    """Errors of the best linear map over the windows of all folds, up to the longest lead time that all have."""
    preparer = Preparer(dataset)
    scale = preparer.prepare(None, 1).units.scale
    choice = replace(choose_linear(preparer, ways, histories, (None,), ridges, scale), noisy=True)
    best, steps = choice.ranked()[0], min(fold.steps for fold in ways)
    values = []
    for fold in ways:
        windows = load(dataset, fold, best.history, scale, steps)
        frame = preparer.linear(fold.train, best)
        found = windows.errors(roll_linear([frame], windows)[0])
        values.append(found.values)
    return RolloutErrors(found.leads, np.concatenate(values))


def _gain(one: FitReport, name: str, other: FitReport, against: str) -> float:
    """By how much `name` in one report is better than `against` in another, in log error over lead times of both.

    Errors are taken against those of persistence over the same windows: the windows of two fits may differ.
    """
    leads = [lead for lead in one.lead_times if lead in other.lead_times]

    def score(report: FitReport, method: str) -> float:
        places = [report.lead_times.index(lead) for lead in leads]
        errors, persistence = (np.log(report.skill[key])[places] for key in (method, "persistence"))
        return float((errors - persistence).mean())

    return score(other, against) - score(one, name)
