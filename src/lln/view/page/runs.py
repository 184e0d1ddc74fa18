"""Which rows of the data a page carries, and what the model did with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lln.core.errors import InputError
from lln.data.series import Dataset, Series
from lln.forecaster.layout import TrainingFingerprint
from lln.forecaster.scoring.scored_rows import true_runs

# Numbers of data that a page carries at most: without rounding, in 16 bits, and in 8 bits (6 MB).
EXACT, FINE, COARSE = 64_000, 2_000_000, 6_000_000
# Rows that are not pictures are small: a quarter of a million numbers is thousands of them, and pages stay below 3 MB.
ROWS = 240_000

UNSEEN, CHOSE, TRAINED = "unseen", "chose", "trained"
Mark = tuple[int, int, str]


@dataclass(frozen=True, eq=False)
class Run:
    """A trajectory without gaps on the page; rows are counted from its first one."""

    series: Series
    first_row: int = 0  # number of its first row in the file
    marks: tuple[Mark, ...] = ()  # (first, last + 1, "unseen" | "chose" | "trained"); () if unknown
    begin: int = 0  # row from which the first rollout starts

    @classmethod
    def of(cls, given: Run | Series, history: int) -> Run:
        """A run as it is, or a series that starts at its first window."""
        return given if isinstance(given, Run) else cls(given, begin=history - 1)


def runs_of(data: Dataset, training: TrainingFingerprint | None, history: int) -> tuple[list[Run], str, list[str]]:
    """The runs that a page carries, what their rows were to the model, and notes on what was left out.

    The run with the longest stretch of unseen rows comes first and starts there. If the data is too large for a page,
    rows that trained are left out first, then the ends of the longest runs. All rows are new where `training` is None;
    a start needs `history` rows.
    """
    parts = data.stretches(history + 1)
    if not parts:
        raise InputError(
            f"{data.source}: no stretch of {data.input_lags + history + 1} rows without a gap, which one step needs; "
            "give other data"
        )
    kinds = _kinds(data, training)
    known = any((kind != 0).any() for kind in kinds)
    what = "new to the model" if not known else "those that did not train"
    if known and not any((kinds[i][first + history : last] == 0).any() for i, first, last in parts):
        what = "those it was trained on"
    notes: list[str] = []
    rows = sum(last - first for _, first, last in parts)
    if rows * data.size > most_numbers(data) and what == "those that did not train":
        parts = [piece for part in parts for piece in _unseen_pieces(kinds[part[0]], part, history)]
        left_out = rows - sum(last - first for _, first, last in parts)
        notes.append(f"{left_out:,} rows that trained the model are not on this page, to keep it small.")
    pieces = Counter(index for index, _, _ in parts)
    runs = [_run(data, part, kinds[part[0]] if known else None, history, pieces[part[0]] == 1) for part in parts]
    runs.sort(key=lambda run: -_longest_unseen(run, history)[1])
    runs = _cut(runs, data, history, notes)
    names = Counter(run.series.name for run in runs)
    for k, run in enumerate(runs):
        if names[run.series.name] > 1:
            runs[k] = replace(run, series=replace(run.series, name=f"{run.series.name} {k + 1}"))
    return runs, what, notes


def most_numbers(data: Dataset) -> int:
    """How many numbers of this data a page may carry."""
    return COARSE if len(data.space) > 1 else ROWS


def _kinds(data: Dataset, training: TrainingFingerprint | None) -> list[NDArray[np.int8]]:
    """For each row 0 if the model has not seen it, 1 if it helped to choose, 2 if it trained."""
    if training is None:
        return [np.zeros(len(one), dtype=np.int8) for one in data.series]
    kinds = [2 * training.seen(one).astype(np.int8) for one in data.series]
    # Rows that chose are known by their numbers, which count if the rows that trained stand where they stood.
    here = [(i, a, b) for i, a, b in training.rows if i < len(kinds) and b <= len(kinds[i])]
    if here and len(here) == len(training.rows) and all((kinds[i][a:b] == 2).all() for i, a, b in here):
        for i, a, b in training.held_out:
            if i < len(kinds):
                part = kinds[i][a:b]
                part[part == 0] = 1
    return kinds


def _unseen_pieces(kinds: NDArray[np.int8], part: tuple[int, int, int], history: int) -> list[tuple[int, int, int]]:
    """Stretches of unseen rows inside `part`, each with the rows before it that a start needs."""
    index, first, last = part
    edges = true_runs(kinds[first:last] == 0) + first
    return [(index, max(first, int(a) - history), int(b)) for a, b in edges if b - max(first, a - history) > history]


def _run(data: Dataset, part: tuple[int, int, int], kinds: Any, history: int, alone: bool) -> Run:
    index, first, last = part
    one = data.series[index]
    name = one.name if alone else f"{one.name}, rows {first} to {last - 1}".lstrip(", ")
    series = replace(one.cut(first, last), name=name, start=one.start + first * data.dt)
    marks: tuple[Mark, ...] = ()
    if kinds is not None:
        here = kinds[first:last]
        edges = np.r_[0, np.flatnonzero(np.diff(here)) + 1, len(here)]
        names = (UNSEEN, CHOSE, TRAINED)
        marks = tuple((int(a), int(b), names[here[a]]) for a, b in pairwise(edges))
    run = Run(series, first, marks)
    return replace(run, begin=_longest_unseen(run, history)[0])


def _longest_unseen(run: Run, history: int) -> tuple[int, int]:
    """The start before the longest stretch of unseen rows, and the length of that stretch."""
    if not run.marks:
        return history - 1, len(run.series) - history
    found = [(b - max(a, history), max(a, history) - 1) for a, b, kind in run.marks if kind == UNSEEN]
    length, begin = max(found, default=(0, history - 1))
    return (begin, length) if length > 0 else (history - 1, 0)


def _cut(runs: Sequence[Run], data: Dataset, history: int, notes: list[str]) -> list[Run]:
    """As many runs as fit; one that is too long is cut to the rows from its first start on."""
    kept: list[Run] = []
    room = most_numbers(data) // data.size
    for run in runs:
        if room <= history and kept:
            break
        rows = min(len(run.series), max(history + 1, room))
        if rows < len(run.series):
            first = min(max(run.begin - history + 1, 0), len(run.series) - rows)
            run = _shortened(run, first, first + rows, data.dt)
        kept.append(run)
        room -= rows
    total, shown = sum(len(run.series) for run in runs), sum(len(run.series) for run in kept)
    if shown < total:
        notes.append(f"{shown:,} of {total:,} rows are on this page; the others were left out to keep it small.")
    return kept


def _shortened(run: Run, first: int, last: int, dt: float) -> Run:
    """Rows `first` to `last - 1` of a run."""
    series = replace(run.series.cut(first, last), start=run.series.start + first * dt)
    marks = tuple((max(a, first) - first, min(b, last) - first, kind) for a, b, kind in run.marks)
    marks = tuple(mark for mark in marks if mark[1] > mark[0])
    return Run(series, run.first_row + first, marks, run.begin - first)
