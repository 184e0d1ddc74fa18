"""The choice among linear maps on held-out rollouts: history, radius and ridge."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from lln.core.workers.mapping import Mapper, serial
from lln.data.series import Dataset
from lln.fit.choice.holdout import Fold, load, roll_linear
from lln.fit.choice.scores import lead_times
from lln.fit.closed.linear import EXACT_BELOW
from lln.fit.closed.ridge import RIDGES
from lln.fit.prepare import FrameChoice, Preparer
from lln.step.frame import Array

RADII = (1, 2, 3)
_LEAST_POINTS = 12
ALIKE = math.log(1.05)  # of errors that differ by less, the simpler model's counts as lower
_LONG = 100  # history above which ridges that need an exact decomposition are left out: they take most of the time
_LOCAL_HISTORY = 3  # longest history of a map that looks at neighbours only


@dataclass(frozen=True, eq=False)
class LinearChoice:
    """How linear maps did on held-out rollouts.

    Attributes:
        leads: lead times in steps, for each fold.
        geometric: geometric mean error at each lead time, for each candidate and fold.
        arithmetic: arithmetic mean error, likewise.
        horizon: lead times beyond this do not count.
        noisy: whether arithmetic means count.
        chosen: the one to use, where it is not the best by score.
        chosen_error: its log error on the last fold.
    """

    leads: list[tuple[int, ...]]
    geometric: dict[FrameChoice, list[list[float]]]
    arithmetic: dict[FrameChoice, list[list[float]]]
    horizon: int = 1 << 30
    noisy: bool = False
    chosen: FrameChoice | None = None
    chosen_error: float = math.nan

    def _score(self, candidate: FrameChoice, fold: int) -> float:
        rows = (self.arithmetic if self.noisy else self.geometric)[candidate][fold]
        count = max(1, sum(lead <= self.horizon for lead in self.leads[fold]))
        return float(np.log(rows[:count]).mean())

    @cached_property
    def errors(self) -> dict[FrameChoice, float]:
        """Mean log error over lead times and folds, by candidate."""
        ways = range(len(self.leads))
        return {c: float(np.mean([self._score(c, fold) for fold in ways])) for c in self.geometric}

    @cached_property
    def last(self) -> dict[FrameChoice, float]:
        """The same over the last fold alone, on which networks are judged."""
        return {c: self._score(c, len(self.leads) - 1) for c in self.geometric}

    @property
    def best(self) -> FrameChoice:
        """The one to use: of those that do about as well as the best, the one with the fewest lags."""
        return self.chosen or self.ranked()[0]

    @property
    def best_error(self) -> float:
        """Mean log error of the one to use on the last fold."""
        return self.last[self.best] if self.chosen is None else self.chosen_error

    def ranked(self) -> list[FrameChoice]:
        """Every candidate, the best first."""
        errors = self.errors
        least = min(errors.values())
        alike = [c for c in errors if errors[c] <= least + ALIKE]
        rest = [c for c in errors if errors[c] > least + ALIKE]
        # Fewer lags, then all of a grid, then the smallest ridge, which bends the data least.
        alike.sort(key=lambda c: (c.history, c.radius is not None, c.ridge if c.ridge is not None else np.inf))
        return [*alike, *sorted(rest, key=errors.__getitem__)]

    def notable(self) -> list[FrameChoice]:
        """The best of every history and radius."""
        kinds = dict.fromkeys((c.history, c.radius) for c in self.errors)
        found = [self.among(*kind) for kind in kinds]
        return [one for one in found if one is not None]

    def among(self, history: int, radius: int | None) -> FrameChoice | None:
        """The best of one history and radius that has a linear part."""
        some = [c for c in self.errors if (c.history, c.radius) == (history, radius) and c.ridge is not None]
        return min(some, key=self.errors.__getitem__) if some else None

    def record(self) -> dict[str, Any]:
        """As plain values."""
        rows = [[*_values(c), self.geometric[c], self.arithmetic[c]] for c in self.geometric]
        return {"leads": [list(one) for one in self.leads], "rows": rows}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> LinearChoice:
        """What `record` wrote down."""
        geometric = {FrameChoice(*row[:4]): row[4] for row in record["rows"]}
        arithmetic = {FrameChoice(*row[:4]): row[5] for row in record["rows"]}
        return cls([tuple(one) for one in record["leads"]], geometric, arithmetic)


def radii_of(dataset: Dataset) -> tuple[int | None, ...]:
    """What to try: everything, and on a grid of some size a few points around."""
    if not dataset.space or min(dataset.space) < _LEAST_POINTS:
        return (None,)
    return (None, *RADII)


def choose_linear(
    preparer: Preparer,
    folds: Sequence[Fold],
    histories: Sequence[int],
    radii: Sequence[int | None],
    ridges: Sequence[float | None],
    scale: Array,
    mapper: Mapper = serial,
    late: Callable[[], bool] = lambda: False,
) -> LinearChoice:
    """Try every linear map on every fold.

    Args:
        preparer: prepares the data.
        folds: ways to hold data out.
        histories: numbers of states that a map looks at.
        radii: how far a map looks on a grid.
        ridges: to try.
        scale: what counts as one in a score, (n,).
        mapper: calls one piece for each fold and history.
        late: once it says so, no longer history is tried.
    """
    geometric: dict[FrameChoice, list[list[float]]] = {}
    arithmetic: dict[FrameChoice, list[list[float]]] = {}
    pieces = (_LinearPiece(fold, history, radii, ridges, scale) for history in histories for fold in folds)
    found = mapper(_linear_errors, preparer, pieces)
    for left in reversed(range(len(histories))):
        for _ in folds:
            for candidate, plain, noisy in next(found):
                geometric.setdefault(candidate, []).append(plain)
                arithmetic.setdefault(candidate, []).append(noisy)
        if left and geometric and late():
            break
    return LinearChoice([lead_times(fold.steps) for fold in folds], geometric, arithmetic)


@dataclass(frozen=True, eq=False)
class _LinearPiece:
    """The linear maps of one history on one fold."""

    fold: Fold
    history: int
    radii: Sequence[int | None]
    ridges: Sequence[float | None]
    scale: Array


def _linear_errors(preparer: Preparer, piece: _LinearPiece) -> list[tuple[FrameChoice, list[float], list[float]]]:
    """Every candidate with its geometric and its arithmetic mean error at each lead time."""
    found = []
    history = piece.history
    ready = preparer.prepare(piece.fold.train, history)
    windows = load(preparer.dataset, piece.fold, history, piece.scale)
    few = len(piece.ridges) == 1 or history <= _LONG
    ridges = piece.ridges if few else [one for one in piece.ridges if one is None or one >= EXACT_BELOW]
    for radius in piece.radii if history <= _LOCAL_HISTORY else (None,):
        tried = [FrameChoice(history, radius, r) for r in ridges if r is not None or radius is None]
        if not tried:
            continue
        frames = [ready.linear(candidate) for candidate in tried]
        for candidate, predicted in zip(tried, roll_linear(frames, windows), strict=True):
            errors = windows.errors(predicted)
            found.append((candidate, errors.by_lead().tolist(), errors.by_lead(noisy=True).tolist()))
    return found


def network_candidates(
    linear: LinearChoice, histories: Sequence[int], radii: Sequence[int | None], ridge: float | str | None
) -> list[FrameChoice]:
    """The frames that a network is tried in, the best linear one first."""
    chosen = [linear.ranked()[0] if linear.best.members else linear.best]
    few = histories[:2]
    for radius in (None, 1) if 1 in radii else (None,):
        for history in few:
            one = linear.among(history, radius)
            chosen += [] if one is None else [one]
    if ridge in ("auto", None):
        chosen.append(FrameChoice(few[0], None, None))
        if 1 in radii:
            chosen.append(FrameChoice(few[0], 1, None))
    return list(dict.fromkeys(chosen))


def _values(candidate: FrameChoice) -> list[Any]:
    return [candidate.history, candidate.radius, candidate.ridge, candidate.blended]


def ridges_of(ridge: float | str | None) -> tuple[float | None, ...]:
    """What to try for a given wish."""
    if ridge == "auto":
        return (*RIDGES, None)
    return (None,) if ridge is None else (float(ridge),)
