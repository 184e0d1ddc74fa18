"""The choice among linear maps, closed forms and trained networks, on held-out rollouts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lln.core.workers import Mapper, serial
from lln.data.series import Dataset
from lln.fit.choice.holdout import Fold, Windows, better_by, lead_times, load, roll_linear
from lln.fit.closed.bases import ClosedChoice, Scored
from lln.fit.closed.linear import EXACT_BELOW
from lln.fit.closed.ridge import RIDGES
from lln.fit.defaults import CORRECTION_WEIGHTS
from lln.fit.prepare import FrameChoice, PreparedData, Preparer
from lln.models.factory import Ensemble
from lln.step.frame import Array, Frame
from lln.step.step import DenseStep, roll
from lln.train.batches import Batches
from lln.train.ensemble import ReadoutFit, Shape, Trained, join

RADII = (1, 2, 3)
_LEAST_POINTS = 12
_FIELD = math.log(3.0)  # of the squared error, by which a vector field may be worse than a map
_NEAR_LAW = 1e-6  # squared error of one step, below which a vector field is near the law
_AS_NEAR = 1.5  # or so many times that of the best closed form: noise may be what is left
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
        # Fewer lags, then all of a grid, then the smallest ridge, which has the least bias.
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
        rows = [
            [c.history, c.radius, c.ridge, c.blended, self.geometric[c], self.arithmetic[c]] for c in self.geometric
        ]
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
        scale: unit of errors in scores, (n,).
        mapper: calls one piece for each fold and history.
        late: callback; no longer history is tried once it returns true.
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


def ridges_of(ridge: float | str | None) -> tuple[float | None, ...]:
    """Ridges to try for an option of the recipe."""
    if ridge == "auto":
        return (*RIDGES, None)
    return (None,) if ridge is None else (float(ridge),)


STOPS = (0.6, 0.8, 1.0)  # fractions of a training after which networks are stored
READOUTS: tuple[float | None, ...] = (None, 1e-9, 1e-6)
_EARLY = math.log(2.0)
_RAW = math.log(2.0)
_READOUT_ROWS = 16384


@dataclass(frozen=True)
class NetworkChoice:
    """How a trained network is used: at which stop, with which readout, at which correction weight."""

    stop: int
    readout: float | None
    correction_weight: float


@dataclass(frozen=True)
class Choice:
    """What one seed uses.

    Attributes:
        candidate: its frame.
        setting: of the network; None for the linear part alone.
        error: log error of held-out rollouts.
        closed: a closed form with more than a linear part; None for none.
    """

    candidate: FrameChoice
    setting: NetworkChoice | None
    error: float
    closed: ClosedChoice | None = None


def steady_score(one: Scored, scored: Sequence[Scored], *, noisy: bool) -> float:
    """The mean score over neighbouring ridges: a single good one may be so by chance, and not after a refit."""
    setting, ridge = replace(one.choice, ridge=0.0), one.choice.ridge
    near = [
        other for other in scored
        if replace(other.choice, ridge=0.0) == setting and 0.05 * ridge <= other.choice.ridge <= 20.0 * ridge
    ]  # fmt: skip
    return float(np.mean([other.errors.score(noisy=noisy) for other in near]))


def best_forms(scored: list[Scored], steps: int, *, noisy: bool, overlap: float = 1.0) -> list[ClosedChoice]:
    """The best closed form, or, of those that do about as well, the one with fewer numbers; then those of other kinds.

    In clean data the last lead times decide: what is most exact in its first steps need not be right for longest. A
    vector field near the law stands in front of the best even if it errs a little more: beyond the held-out rollouts it
    is right for longer as a rule.
    """
    near = max(_NEAR_LAW, _AS_NEAR * min(one.errors.by_lead()[0] for one in scored))
    law = {one.choice for one in scored if one.choice.kind == "flow" and one.errors.by_lead()[0] < near}
    scored = scored if noisy else [Scored(one.choice, one.errors.late(steps)) for one in scored]
    scores = {one: steady_score(one, scored, noisy=noisy) for one in scored}
    best = min(scored, key=scores.__getitem__)
    steady = [one for one in scored if scores[one] < scores[best] + ALIKE]
    fewer = [one for one in steady if one.choice.size < best.choice.size and alike(one, best, noisy=noisy)]
    found = [min(fewer, key=lambda one: one.choice.size, default=best)]
    if noisy and found[0].choice.kind == "lens":
        found = [_longest(found[0], scored, overlap)]
    field = min((one for one in scored if one.choice in law), key=scores.__getitem__, default=None)
    if field is not None and not noisy and scores[field] < scores[best] + _FIELD:
        found.insert(0, field)
    for one in sorted(scored, key=scores.__getitem__):
        if one.choice.kind not in {known.choice.kind for known in found}:
            found.append(one)
    return [one.choice for one in found]


def _longest(best: Scored, scored: list[Scored], overlap: float) -> Scored:
    """Of lenses that are not surely worse than the best one, one with the longest history, which averages noise."""
    lenses = [one for one in scored if one.choice.kind == "lens"]
    gains = {one: better_by(best.errors, one.errors, noisy=True) for one in lenses}
    near = [one for one, (gain, error) in gains.items() if one is best or gain <= overlap * error < math.inf]
    longest = max(one.choice.history for one in near)
    return min((one for one in lenses if one.choice.history == longest), key=lambda one: gains[one][0])


def alike(one: Scored, best: Scored, *, noisy: bool) -> bool:
    """Whether a closed form does about as well as the best one."""
    gain, error = better_by(best.errors, one.errors, noisy=noisy)
    return gain < min(ALIKE, error)


@dataclass(frozen=True, eq=False)
class Judgement:
    """How one trained ensemble did, for each group of members.

    Attributes:
        errors: log error of each setting, (G,).
        late: the same at the last lead times.
    """

    errors: dict[NetworkChoice, Array]
    late: dict[NetworkChoice, Array]

    def best(self, group: int) -> tuple[NetworkChoice, float]:
        """The best setting of one group, and its log error.

        A snapshot from before the end of the schedule, or a readout that was not solved, is more often good by chance
        than others, and is then worse when everything trains again.
        """
        last = max((setting.stop for setting in self.errors if setting.readout is not None), default=0)

        def expected(setting: NetworkChoice) -> float:
            early, raw = setting.stop < last, setting.readout is None and setting.stop <= last
            return float(self.errors[setting][group]) + early * _EARLY + raw * _RAW

        setting = min(self.errors, key=expected)
        return setting, float(self.errors[setting][group])


@dataclass(frozen=True, eq=False)
class Work:
    """A trained candidate with all that was used."""

    ready: PreparedData
    frame: Frame
    shape: Shape
    source: Batches
    trained: Trained
    allowed: Tensor | None
    unroll: int

    @property
    def unexplained(self) -> float:
        """Root mean square of one-step errors against that of the change."""
        return math.sqrt(float(np.mean(self.trained.loss))) * self.ready.unexplained(self.frame)

    def judge(self, windows: Windows, groups: int, only: NetworkChoice | None = None) -> Judgement:
        """Roll every group out at every stop, readout and correction weight (or at one setting alone)."""
        weights = CORRECTION_WEIGHTS if only is None else (only.correction_weight,)
        uses: list[tuple[int, float | None]] = []
        states: list[dict[str, Tensor]] = []
        model = self.trained.model
        for stop, snapshot in enumerate(self.trained.snapshots):
            # What was trained over several steps, behind the last stop, would be undone by another readout.
            readouts = READOUTS if stop < self.trained.stops else (None,)
            if only is not None:
                readouts = tuple(one for one in readouts if (stop, one) == (only.stop, only.readout))
            if not readouts:
                continue
            model.load_state_dict(snapshot)
            fit = ReadoutFit(model, *self.source.some(_READOUT_ROWS), self.allowed)
            for readout in readouts:
                model.load_state_dict(snapshot)
                if readout is not None:
                    fit.apply(readout)
                uses.append((stop, readout))
                states.append({name: tensor.clone() for name, tensor in model.state_dict().items()})
        # All of them go through one rollout side by side: its length, not its width, is what takes time.
        rolled = roll_groups(join(model, states), self.frame, windows, len(uses) * groups, weights)
        errors, late = (
            windows.log_error(rolled, late=late).reshape(len(uses), groups, len(weights)) for late in (False, True)
        )
        places = {
            NetworkChoice(stop, readout, correction_weight): (index, slice(None), place)
            for index, (stop, readout) in enumerate(uses)
            for place, correction_weight in enumerate(weights)
        }
        return Judgement(*({one: each[at] for one, at in places.items()} for each in (errors, late)))

    def step(self, setting: NetworkChoice, groups: Sequence[int], group: int) -> DenseStep:
        """The step of one of the groups that were trained, with the networks as `setting` uses them."""
        model = self.trained.model
        model.load_state_dict(self.trained.snapshots[setting.stop])
        if setting.readout is not None:
            ReadoutFit(model, *self.source.some(_READOUT_ROWS), self.allowed).apply(setting.readout)
        each = len(model) // len(groups)
        first = groups.index(group) * each
        members = tuple(model.member(first + index) for index in range(each))
        frame = replace(self.frame, gain=self.frame.gain * setting.correction_weight)
        return DenseStep(frame, members)

    def unrolled_by(self, setting: NetworkChoice | None) -> int:
        """Steps of the fine-tuning that this setting has had."""
        return self.unroll if setting is not None and setting.stop >= len(STOPS) else 0


def roll_groups(model: Ensemble, frame: Frame, windows: Windows, groups: int, weights: Sequence[float]) -> Array:
    """The states of every group of members at every weight: (G, A, W, steps, n), in the units of the data."""
    weighted = replace(frame, gain=np.asarray(weights)[:, None, None] * frame.gain)
    step = DenseStep(weighted, [_GroupMeans(model, groups)])
    start = torch.from_numpy(windows.start).to(step.device)
    known = None if windows.inputs is None else torch.from_numpy(windows.inputs).to(step.device)
    states = roll(step, start.expand(groups, len(weights), *start.shape), windows.truth.shape[1], known)
    rows: Array = states.cpu().numpy()
    return rows


class _GroupMeans(nn.Module):
    """The mean output of each group of an ensemble: (G, ..., F) -> (G, ..., n)."""

    def __init__(self, model: Ensemble, groups: int) -> None:
        super().__init__()
        self.model, self.groups, self.each = model, groups, len(model) // groups

    def forward(self, features: Tensor) -> Tensor:
        rows = features.reshape(self.groups, 1, -1, features.shape[-1]).expand(-1, self.each, -1, -1)
        out: Tensor = self.model(rows.reshape(self.groups * self.each, -1, features.shape[-1])).double()
        return out.reshape(self.groups, self.each, *features.shape[1:-1], -1).mean(dim=1)
