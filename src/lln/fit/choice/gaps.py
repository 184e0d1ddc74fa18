"""Whether gaps in noisy data are filled in before a fit: rows without one may be too few in a row to show a season."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lln.core.errors import InputError
from lln.data.gaps import Filling
from lln.data.series import Dataset
from lln.fit.choice.holdout import folds
from lln.fit.choice.noise_and_seasons import linear_histories, seasons
from lln.fit.defaults import VALIDATION
from lln.fit.options import FitReport, Recipe

_NONLINEAR_PARTS = ("polynomial", "flow", "lens", "network")
_ACCURATE = 4.0  # squared error of filling in, by that of the noise: a value around it has errors of its own
_MOST_FILLED = 0.5  # part of the rows


def has_gaps(dataset: Dataset) -> bool:
    """Whether gaps may be filled in: there are some, in data that is held in memory and does not lie on a grid."""
    if dataset.lazy or dataset.space or dataset.filling is not None:
        return False
    return not all(np.isfinite(np.asarray(one.states)).all() for one in dataset.series)


def with_gaps_filled(dataset: Dataset, report: FitReport, recipe: Recipe) -> Dataset:
    """The data with short gaps filled in, where a fit to the rows around them found noise that matters.

    In clean data a slightly wrong value does more harm than a missing row. Where no rollout could be scored from one
    measured row to the next, gaps stay.

    Args:
        dataset: all of it.
        report: of the fit to the data with its gaps.
        recipe: of that fit.
    """
    if not (report.noisy and has_gaps(dataset)):
        return dataset
    plain = Filling.of(dataset, 0)
    found = seasons(plain[0].of_dataset(dataset))
    tried = [plain, *(Filling.of(dataset, season) for season in found if season > 1)]
    best, error = min(tried, key=lambda one: one[1])
    if report.part in _NONLINEAR_PARTS and error > _ACCURATE * report.noise**2:
        return dataset
    filled = best.of_dataset(dataset)
    both = zip(dataset.series, filled.series, strict=True)
    count = sum(int(np.isnan(np.asarray(a.states)).sum() - np.isnan(np.asarray(b.states)).sum()) for a, b in both)
    rows = sum(int(one.filled.sum()) for one in filled.series)
    if not 0 < rows <= _MOST_FILLED * dataset.rows:
        return dataset
    history = linear_histories(filled)[-1] if recipe.history == "auto" else int(recipe.history)
    try:
        folds(filled, recipe.validation or VALIDATION, history)
    except InputError:
        return dataset
    what = "value was" if count == 1 else "values were"
    note = (
        f"{count:,} missing {what} filled in before the fit, from the values around; no forecast is scored on "
        f"{'it' if count == 1 else 'them'}."
    )
    return replace(filled, notes=(*filled.notes, note))
