"""Which rows a model is scored on: unseen ones, apart from those that trained and those that helped to choose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lln.core.errors import InputError, check_int
from lln.data.gaps import rows_up_to
from lln.data.series import HORIZON, Dataset
from lln.fit.choice.holdout import Fold, Part, rolling
from lln.forecaster.layout import TrainingFingerprint
from lln.step.frame import Array

UNSEEN, CHOICE, TRAINING, NEW = "unseen rows", "choice rows", "training data", "new data"
ORIGINS = 64
_LENGTH = 0.6  # of the longest unseen stretch: the rest makes room for several starts


class Window(NamedTuple):
    """Where one scored rollout lies: its truth is rows first to first + steps - 1 of a trajectory."""

    series: int
    first: int
    steps: int


def windows_of(
    dataset: Dataset, training: TrainingFingerprint, history: int, steps: int | None, most: int | None
) -> tuple[list[Window], str]:
    """At most `most` windows of `steps` steps to score (None: all, and 500 steps or what there is), and what they are.

    Rows that trained or helped to choose are left out. If that leaves nothing, the rows that chose are taken; if there
    are none, all rows are taken and called training data. A window starts from the `history` rows before it, which may
    have trained: they are given, not predicted.
    """
    trained, chose = marked_rows(dataset, training)
    neither = [~(one | other) for one, other in zip(trained, chose, strict=True)]
    shown = not all(rows.all() for rows in neither)
    found, kind = _cut(dataset, [~rows for rows in neither], history, steps), UNSEEN if shown else NEW
    if not found and any(rows.any() for rows in chose):
        found, kind = _cut(dataset, trained, history, steps), CHOICE
    if not found and shown:
        found, kind = _cut(dataset, [np.zeros_like(rows) for rows in trained], history, steps), TRAINING
    if not found:
        lags = dataset.input_lags
        least = history + lags + (1 if steps is None else steps)
        before = f"{lags} of earlier inputs, " if lags else ""
        raise InputError(
            f"{dataset.source}: no {least} neighbouring rows without a gap to score ({before}{history} to start from, "
            "then the truth); give longer data or fewer steps"
        )
    return _thinned(found, most), kind


def marked_rows(
    dataset: Dataset, training: TrainingFingerprint
) -> tuple[list[NDArray[np.bool_]], list[NDArray[np.bool_]]]:
    """Which rows of each trajectory trained, and which of the others helped to choose, (time,) each."""
    return [training.seen(one) for one in dataset.series], [training.chose(one) for one in dataset.series]


def choosing_windows(
    dataset: Dataset, training: TrainingFingerprint, history: int, steps: int | None, most: int | None
) -> list[Window]:
    """Windows on the rows that helped to choose, which are scored apart; none where there are none."""
    return _thinned(_cut(dataset, [~training.chose(one) for one in dataset.series], history, steps), most)


def _thinned(found: list[Window], most: int | None) -> list[Window]:
    if most is None or len(found) <= check_int("windows", most, 1):
        return found
    return [found[int(k)] for k in np.linspace(0, len(found) - 1, most).round()]


def _cut(dataset: Dataset, seen: Sequence[Any], history: int, steps: int | None) -> list[Window]:
    """Unseen runs of measured rows after a measured one, cut into windows.

    Leftovers shorter than half the longest are dropped.
    """
    length = HORIZON if steps is None else check_int("steps", steps, 1)
    pieces: list[Window] = []
    for index, first, last in dataset.stretches(history + 1):
        filled = dataset.series[index].filled
        unseen = ~(seen[index] | filled)
        for begin, end in true_runs(unseen[first + history : last]) + first + history:
            begin += filled[begin - 1]  # what was filled in was made up from the row after it
            pieces += [Window(index, k, min(length, int(end) - k)) for k in range(int(begin), int(end), length)]
    longest = max((piece.steps for piece in pieces), default=0)
    least = longest / 2 if steps is None else length
    return [piece for piece in pieces if piece.steps >= least]


def read_windows(dataset: Dataset, windows: Sequence[Window], history: int) -> tuple[Array, Array | None]:
    """Given and true states (W, H + steps, n), and the inputs of each step (W, steps, m)."""
    rows, inputs = [], []
    for index, first, steps in windows:
        series = dataset.series[index]
        given = rows_up_to(dataset, index, first - 1, history)
        rows.append(np.concatenate([given, np.asarray(series.rows(first, first + steps), dtype=np.float64)]))
        known = series.input_rows(first - 1, first + steps - 1)
        if known is not None:
            inputs.append(np.asarray(known, dtype=np.float64))
    return np.stack(rows), np.stack(inputs) if inputs else None


def unmarked(marks: Sequence[NDArray[np.bool_]]) -> tuple[Part, ...]:
    """Runs of rows that are not marked: (trajectory, first row, last row + 1)."""
    return tuple((i, int(first), int(last)) for i, rows in enumerate(marks) for first, last in true_runs(~rows))


def true_runs(rows: NDArray[np.bool_]) -> NDArray[np.intp]:
    """First row and last row + 1 of each run of true values, (runs, 2)."""
    return np.flatnonzero(np.diff(np.r_[False, rows, False].astype(np.int8))).reshape(-1, 2)


def rolling_origins(
    dataset: Dataset, parts: Sequence[Part], history: int, steps: int | None = None, count: int | None = ORIGINS
) -> Fold:
    """At most `count` evenly spread starts of rollouts whose truth lies within `parts`; rollouts may overlap.

    The `history` states given before each rollout may lie outside `parts`. Rollouts are shorter than `steps` if the
    parts are; None takes 500, or six tenths of the longest part. The fold trains nothing, and has no windows where
    nothing fits.
    """
    longest = max(
        (min(end, last) - max(begin + history, first)
         for where, begin, end in dataset.stretches(history + 1)
         for index, first, last in parts if where == index), default=0,
    )  # fmt: skip
    fold = Fold((), tuple(parts), (), 1)
    if longest < 1:
        return fold
    length = min(HORIZON, max(1, round(_LENGTH * longest))) if steps is None else min(steps, longest)
    return rolling(dataset, fold, history, length, dataset.rows if count is None else count)
