"""Skill against lead time: a model and simple methods from rolling origins over the same rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lln.core.errors import InputError
from lln.core.table import OURS, Table
from lln.data.series import Dataset
from lln.evaluate.metrics import mse_by_step
from lln.fit.choice.holdout import (
    LEAST,
    LOST,
    WORST,
    Part,
    RolloutErrors,
    Windows,
    better_by,
    horizon_of,
    lead_columns,
    load,
)
from lln.fit.report.intervals import Intervals
from lln.forecaster.comparison.competitors import POLYNOMIAL, fit_reference, too_large
from lln.forecaster.references.simple import Persistence, SeasonalNaive
from lln.forecaster.scoring.scored_rows import ORIGINS, rolling_origins
from lln.forecaster.summary import lead_lines
from lln.step.base import Step
from lln.step.frame import Array

MODEL = "model"
UNFITTED = ("persistence", "mean", "seasonal")  # they need no training rows
BASELINES = ("persistence", "mean", "seasonal", "linear", POLYNOMIAL, "analog", "kernel")
LEVEL = 0.9
LONGEST = 200  # steps of a rollout where none are asked for
_NUMBERS = 4_000_000  # in the rollouts of one model
_SURE = 2.0  # standard errors by which a baseline must be better
_NOTICEABLE = 1.05  # factor by which it must be better
Roll = Callable[[Array, int, Array | None], Array]


@dataclass(frozen=True, eq=False)
class LeadSkill:
    """Errors of a model and of simple methods at several lead times."""

    errors: Mapping[str, RolloutErrors]  # by name, the model under "model" first
    by_step: Mapping[str, Array]  # root mean square error at each step, (steps,), by name
    origins: int  # number of rollouts, which may overlap
    rows: int  # rows that were predicted
    noisy: bool = False  # whether means over rollouts are arithmetic, as noise makes necessary
    covered: float | None = None  # fraction of true states within the 90 % intervals; None without intervals
    left_out: Mapping[str, str] = field(default_factory=dict)  # baselines that could not be fitted, with the reason

    @property
    def leads(self) -> tuple[int, ...]:
        """Lead times in steps."""
        return self.errors[MODEL].leads

    def by_lead(self, name: str = MODEL) -> Array:
        """Normalised mean square error of the first steps up to each lead time, (leads,)."""
        return self.errors[name].by_lead(noisy=self.noisy)

    @property
    def valid_steps(self) -> int:
        """The longest lead time at which the model still forecasts, in the mean over rollouts; 0 if it never does."""
        fine = np.flatnonzero(self.by_lead() < LOST)
        return int(self.leads[fine[-1]]) if len(fine) else 0

    @property
    def better(self) -> list[tuple[str, float]]:
        """Baselines that err clearly less than the model, and by what factor, the best first."""
        horizon = horizon_of(list(self.errors.values()))
        own = self.errors[MODEL].until(horizon)
        overlap = math.sqrt(max(1.0, self.origins * self.leads[-1] / max(1, self.rows)))
        found = []
        for name, one in self.errors.items():
            if name != MODEL:
                gain, error = better_by(one.until(horizon), own, noisy=self.noisy)
                if gain > math.log(_NOTICEABLE) and (gain > _SURE * overlap * error or self.origins < 3):
                    found.append((name, math.exp(gain)))
        return sorted(found, key=lambda one: -one[1])

    def sentence(self) -> str | None:
        """One sentence where a baseline is better than the model; None otherwise."""
        if not self.better:
            return None
        name, factor = self.better[0]
        others = ", ".join(one for one, _ in self.better[1:])
        also = f" (also better: {others})" if others else ""
        return f"{_words(name)} has an error {factor:.2g} times smaller on these rows{also}; prefer it there."

    def table(self) -> Table:
        """A row for the model and each baseline, a column for each lead time."""
        places = lead_columns(self.leads)
        values = [self.by_lead(name)[places] for name in self.errors]
        rows: list[list[str | float | int]] = [
            [_label(name), *map(float, row)] for name, row in zip(self.errors, values, strict=True)
        ]
        best = [(int(np.argmin([row[j] for row in values])), j + 1) for j in range(len(places))]
        title = f"normalised MSE by lead time in steps, {self.origins} rolling origins"
        return Table(["", *(f"{self.leads[k]}" for k in places)], rows, title=title, best=best)

    def text(self) -> str:
        """The table as plain lines."""
        places = lead_columns(self.leads)
        errors = {_label(name): list(map(float, self.by_lead(name)[places])) for name in self.errors}
        return "\n".join(f"  {line}" for line in lead_lines([self.leads[k] for k in places], errors))

    def record(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "lead_times": list(self.leads),
            "skill": {name: self.by_lead(name).tolist() for name in self.errors},
            "origins": self.origins,
            "coverage_90": self.covered,
            "better_baselines": dict(self.better),
            "left_out": dict(self.left_out),
        }


def lead_skill(
    step: Step[Any, Any],
    dataset: Dataset,
    parts: Sequence[Part],
    *,
    steps: int | None = None,
    count: int | None = ORIGINS,
    baselines: Sequence[str] = UNFITTED,
    training: Sequence[Part] = (),
    intervals: Intervals | None = None,
    noisy: bool = False,
) -> LeadSkill | None:
    """Roll a model and baselines out from rolling origins in `parts` of the data; None where no rollout fits into them.

    Args:
        step: the model.
        dataset: the data.
        parts: rows of it that are predicted.
        steps: length of the rollouts; None takes 200, or six tenths of the longest part.
        count: the largest number of rollouts.
        baselines: names in `BASELINES`; `BASELINES` itself leaves out what is too large.
        training: rows of the data that trained the model, to which baselines are fitted.
        intervals: of the model.
        noisy: whether means over rollouts are arithmetic.
    """
    fitted, left_out = _fitted(baselines, dataset, training)
    own = step.frame.history
    histories = sorted({own, *(history for history, _ in fitted.values() if history > own)}, reverse=True)
    few = max(4, _NUMBERS // (dataset.size * LONGEST))
    for history in histories:
        fold = rolling_origins(dataset, parts, history, steps, few if count is None else min(count, few))
        if fold.windows:
            break
    else:
        return None
    if steps is None and fold.steps > LONGEST:
        fold = rolling_origins(dataset, parts, history, LONGEST, len(fold.windows))
    mean, scale = step.frame.mean, step.frame.scale
    windows = load(dataset, fold, own, scale)
    predicted = _roll(step.rollout, windows)
    rollouts = {MODEL: predicted}
    for name, (needed, roll) in fitted.items():
        if needed > history:
            left_out[name] = f"looks at {needed} states, more than there are before the scored rows"
            continue
        before = load(dataset, fold, needed, scale)
        rollouts[name] = np.broadcast_to(mean, windows.truth.shape) if roll is None else _roll(roll, before)
        if name == POLYNOMIAL and np.array_equal(rollouts[name], predicted):
            del rollouts[name]
            left_out[name] = f"the same forecasts as {OURS}"
    errors = {name: windows.errors(states) for name, states in rollouts.items()}
    by_step = {name: _by_step(states, windows, noisy) for name, states in rollouts.items()}
    covered = None
    if intervals is not None:
        spread = intervals.spread(step, windows.start, predicted, windows.inputs)
        covered = intervals.covered(predicted, windows.truth, LEVEL, spread)
    rows = sum(last - first for _, first, last in fold.held_out)
    return LeadSkill(errors, by_step, len(fold.windows), rows, noisy, covered, left_out)


def _fitted(
    names: Sequence[str], dataset: Dataset, training: Sequence[Part]
) -> tuple[dict[str, tuple[int, Roll | None]], dict[str, str]]:
    """History and rollout of each baseline (None for the training mean), and why others are left out."""
    found: dict[str, tuple[int, Roll | None]] = {}
    left_out: dict[str, str] = {}
    rows = dataset.select(training) if training else None
    for name in names:
        try:
            if name == "mean":
                found[name] = (1, None)
            elif name == "seasonal":
                season = SeasonalNaive().fit(dataset if rows is None else rows)
                if season.history > 1:
                    found[name] = (season.history, season.rollout)
            elif name == "persistence":
                found[name] = (1, Persistence().rollout)
            elif rows is None:
                left_out[name] = "fitted to the training rows, which are not in this data"
            elif names is BASELINES and (large := too_large(name, rows)):  # what is named is fitted
                left_out[name] = large
            else:
                model = fit_reference(name, rows)
                found[name] = (model.history, model.rollout)
        except InputError as error:
            left_out[name] = str(error)
    return found, left_out


def _roll(roll: Roll, windows: Windows) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(roll(windows.start, windows.truth.shape[1], windows.inputs))


def _by_step(states: Array, windows: Windows, noisy: bool) -> Array:
    """Root of the mean over rollouts of the squared error at each step, (steps,)."""
    square = np.clip(mse_by_step(states, windows.truth, windows.scale), LEAST, WORST)
    return np.asarray(np.sqrt(square.mean(axis=0) if noisy else np.exp(np.log(square).mean(axis=0))))


def _label(name: str) -> str:
    return OURS if name == MODEL else name


def _words(name: str) -> str:
    words = {
        "mean": "The training mean", "seasonal": "Repeating the last season", "linear": "A linear map (autoregression)",
        POLYNOMIAL: "A polynomial map", "analog": "The nearest analog", "kernel": "Kernel ridge regression",
        "esn": "An echo state network",
    }  # fmt: skip
    return words.get(name, name.capitalize())
