"""How many earlier values of the known inputs a step looks at (ARX), chosen on held-out rollouts of linear maps."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from lln.core.errors import InputError
from lln.data.series import Dataset
from lln.data.stream import with_input_lags
from lln.fit.choice.holdout import Fold, folds, load, roll_linear
from lln.fit.choice.linear_choice import ALIKE, choose_linear
from lln.fit.choice.scores import LEAST, RolloutErrors, better_by
from lln.fit.defaults import VALIDATION
from lln.fit.options import Fit, FitReport, Recipe
from lln.fit.prepare import FrameChoice, Preparer
from lln.fit.report.report import LINEAR, MODEL

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
    """Numbers of lags that the data bears; none without inputs that vary, on a grid, and for data on the disk."""
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
