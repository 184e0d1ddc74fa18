"""What is held out, and how rollouts over it are scored; every choice of the recipe uses these scores.

A chaotic rollout loses the truth after a few Lyapunov times, and from there on the errors of all models are equal. So
errors are taken at lead times of 1, 2, 4, ... steps up to where the best model loses the truth, and each lead time
counts the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lln.core.errors import InputError
from lln.data.gaps import rows_up_to
from lln.data.series import HORIZON, Dataset
from lln.step.frame import Array, Frame
from lln.step.step import AnyStep, DenseStep

LEAST, WORST = 1e-24, 1e3  # below the first all are perfect, above the second all are lost
LOST = 0.3  # a normalised mean square error from which on a rollout is no forecast
_LATE = 4  # lead times: the longest is eight times the shortest
FAR = 20.0  # standard deviations, beyond which a rollout has left the data
_PIECE = 500


def lead_times(steps: int) -> tuple[int, ...]:
    """1, 2, 4, ... and `steps` itself."""
    leads = [2**power for power in range(int(math.log2(steps)) + 1)]
    return tuple(leads if leads[-1] == steps else [*leads, steps])


def lead_columns(leads: tuple[int, ...], most: int = 6) -> list[int]:
    """Places of at most `most` lead times, evenly spread, the first and the last among them."""
    places = np.unique(np.linspace(0, len(leads) - 1, min(most, len(leads))).round().astype(int))
    return [int(place) for place in places]


def squares(predicted: Array, truth: Array, scale: Array) -> Array:
    """Normalised squared errors at every step, (..., steps): means over coordinates whose truth is known.

    They are NaN where none is, and infinite where a prediction is not finite.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        square = np.square((predicted - truth) / scale)
        square[~np.isfinite(square)] = np.inf
        known = np.isfinite(truth)
        if known.all():
            return np.asarray(square.mean(axis=-1))
        count = known.sum(axis=-1)
        return np.where(count > 0, np.where(known, square, 0.0).sum(axis=-1) / np.maximum(count, 1), np.nan)


def running_mean(square: Array) -> Array:
    """Means of squared errors (..., steps) up to each step; NaN is left out, and what is not finite counts as lost."""
    known = ~np.isnan(square)
    total = np.cumsum(np.where(known, np.minimum(square, WORST), 0.0), axis=-1)
    return np.asarray(total / np.maximum(np.cumsum(known, axis=-1), 1))


@dataclass(frozen=True, eq=False)
class RolloutErrors:
    """Normalised mean square errors of one model's rollouts.

    Attributes:
        leads: lead times in steps.
        values: mean over the first steps up to each lead time, (windows, leads).
    """

    leads: tuple[int, ...]
    values: Array

    @classmethod
    def of(cls, predicted: Array, truth: Array, scale: Array, leads: Sequence[int]) -> RolloutErrors:
        """From states (W, steps, n); what is not finite counts as lost."""
        return cls.of_squares(squares(predicted, truth, scale), leads)

    @classmethod
    def of_squares(cls, square: Array, leads: Sequence[int]) -> RolloutErrors:
        """From normalised squared errors at every step, (W, steps), NaN where the truth is not known."""
        return cls(tuple(leads), np.clip(running_mean(square)[:, np.asarray(leads) - 1], LEAST, WORST))

    def by_lead(self, *, noisy: bool = False) -> Array:
        """The error at each lead time over all windows, (leads,): a geometric mean, or an arithmetic one with noise."""
        if noisy:
            return np.asarray(self.values.mean(axis=0))
        return np.asarray(np.exp(np.log(self.values).mean(axis=0)))

    def until(self, steps: int) -> RolloutErrors:
        """The same at lead times of at most `steps`."""
        count = max(1, sum(lead <= steps for lead in self.leads))
        return RolloutErrors(self.leads[:count], self.values[:, :count])

    def late(self, steps: int) -> RolloutErrors:
        """The same at the last lead times of at most `steps`, which a small error of one step does not predict."""
        some = self.until(steps)
        return RolloutErrors(some.leads[-_LATE:], some.values[:, -_LATE:])

    def score(self, *, noisy: bool = False) -> float:
        """Mean over lead times of the log error; lower is better."""
        return float(np.log(self.by_lead(noisy=noisy)).mean())

    def valid_steps(self, *, noisy: bool = False) -> int:
        """The longest lead time at which the model still forecasts; 0 if it never does."""
        fine = np.flatnonzero(self.by_lead(noisy=noisy) < LOST)
        return int(self.leads[fine[-1]]) if len(fine) else 0


def horizon_of(errors: Sequence[RolloutErrors]) -> int:
    """Where the best model loses the truth, in steps: one lead time beyond its last good one."""
    leads, longest = errors[0].leads, max(one.valid_steps() for one in errors)
    beyond = [lead for lead in leads if lead > longest]
    return beyond[0] if beyond else leads[-1]


def better_by(one: RolloutErrors, other: RolloutErrors, *, noisy: bool = False) -> tuple[float, float]:
    """By how much `one` is better than `other` in log error, and the standard error of that, paired by window."""
    if noisy:
        values = np.log(other.by_lead(noisy=True)) - np.log(one.by_lead(noisy=True))
        gain = float(values.mean())
        # Windows resample the ratio of means: the spread of leave-one-out means is its standard error.
        count = len(one.values)
        if count < 2:
            return gain, math.inf
        each = []
        for out in range(count):
            kept = np.arange(count) != out
            ratio = np.log(other.values[kept].mean(axis=0)) - np.log(one.values[kept].mean(axis=0))
            each.append(float(ratio.mean()))
        return gain, math.sqrt((count - 1) / count * float(np.sum((np.asarray(each) - np.mean(each)) ** 2)))
    difference = (np.log(other.values) - np.log(one.values)).mean(axis=1)
    count = len(difference)
    spread = float(difference.std(ddof=1)) if count > 1 else math.inf
    return float(difference.mean()), spread / math.sqrt(count)


def bounded(surrogate: AnyStep, window: Array, steps: int = 10_000) -> bool:
    """Whether a rollout from `window` (H, n) stays within twenty standard deviations for `steps` steps."""
    frame = surrogate.frame
    if frame.inputs:  # their future is not known
        return True
    past = window
    for _ in range(0, steps, _PIECE):
        states = surrogate.rollout(past, _PIECE)
        size = np.abs((states - frame.mean) / frame.scale)
        if not (np.isfinite(size).all() and size.max() < FAR):
            return False
        past = np.concatenate([past, states])[-frame.history :]
    return True


def settled(surrogate: DenseStep, correction_weight: float, window: Array) -> tuple[DenseStep, float]:
    """The surrogate with its correction weight reduced until rollouts stay bounded, and that weight.

    Args:
        surrogate: with the chosen weight.
        correction_weight: that weight.
        window: where the data ends, (H, n).
    """
    for factor in (1.0, 0.75, 0.5, 0.25, 0.0):
        tried = surrogate.replace(frame=replace(surrogate.frame, gain=surrogate.frame.gain * factor))
        if bounded(tried, window):
            return tried, correction_weight * factor
    return surrogate, correction_weight


Part = tuple[int, int, int]

WINDOWS = 16
FEW_WINDOWS = 6  # of data that does not fit into memory, where the rollouts that judge must be small too
FOLDS = 4
MOST_HISTORY = 3
# Origins of rollouts on noisy data: part of the rows and number of blocks, of short trajectories and of longer ones.
_SHORT, _ORIGINS, _BLOCKS, _FEWER_ORIGINS, _FEWER_BLOCKS = 1000, 0.6, 5, 0.3, 3
_SHARE_OF_STEPS, _LONGEST_STEPS, _SHORTER, _FEWEST_PAIRS = 0.12, 100, 3, 5
_LONGEST = 0.6  # of what is held out: the rest makes room for several starts


@dataclass(frozen=True)
class Fold:
    """One way to hold data out.

    Attributes:
        train: parts that train, (trajectory, first row, last row + 1).
        held_out: parts that judge.
        windows: rollouts over them: trajectory and row of the state from which each starts.
        steps: length of each rollout.
        noisy: whether errors are averaged arithmetically, as noise makes necessary.
    """

    train: tuple[Part, ...]
    held_out: tuple[Part, ...]
    windows: tuple[tuple[int, int], ...]
    steps: int
    noisy: bool = False

    @property
    def training_rows(self) -> int:
        """How many rows train."""
        return sum(last - first for _, first, last in self.train)

    @property
    def overlap(self) -> float:
        """By how much the standard error of held-out windows is too small because they overlap."""
        rows = sum(last - first for _, first, last in self.held_out)
        return math.sqrt(max(1.0, len(self.windows) * self.steps / max(rows, 1)))


@dataclass(frozen=True, eq=False)
class Windows:
    """Rollouts to be judged, loaded.

    Attributes:
        start: the last states before each, (W, H, n).
        truth: the true states, (W, steps, n).
        inputs: known inputs on the way, (W, steps, m), or None.
        scale: unit of errors, (n,).
        noisy: whether errors are averaged arithmetically.
    """

    start: Array
    truth: Array
    inputs: Array | None
    scale: Array
    noisy: bool = False

    def errors(self, predicted: Array) -> RolloutErrors:
        """The errors of rollouts (W, steps, n) at lead times of 1, 2, 4, ... steps."""
        return RolloutErrors.of(predicted, self.truth, self.scale, lead_times(self.truth.shape[1]))

    def log_error(self, predicted: Array, *, late: bool = False) -> Array:
        """The score of many models' rollouts, or that at the last lead times: (..., W, steps, n) -> (...)."""
        lead, steps = predicted.shape[:-3], predicted.shape[-2]
        errors = map(self.errors, predicted.reshape(-1, *predicted.shape[-3:]))
        return np.reshape([(one.late(steps) if late else one).score(noisy=self.noisy) for one in errors], lead)


def folds(dataset: Dataset, validation: float, history: int = MOST_HISTORY) -> list[Fold]:
    """Ways to hold data out, the most demanding last: whole trajectories where there are several, else the end.

    With three trajectories or more each fold holds out whole ones. With fewer, each fold cuts the end off, by a
    quarter, a half, three quarters and all of `validation`: what follows is what a forecast will be asked for.

    Args:
        dataset: all of it.
        validation: largest fraction to hold out.
        history: longest window from which a rollout will start.
    """
    if dataset.rows == 1:
        raise InputError(f"{dataset.source}: 1 sample has no next state; give a trajectory", topic="too-few")
    length = history + 2
    stretches = dataset.stretches(length)
    whole = sorted({index for index, first, last in stretches if last - first >= 2 * length})
    if len(whole) < 3 and len({index for index, _, _ in stretches}) >= 3:  # short ones can be held out, too
        whole = sorted({index for index, _, _ in stretches})
    if not whole and len(stretches) < 3:
        raise InputError(
            f"{dataset.source}: no trajectory has {2 * length} states in a row without a gap, so nothing can be held "
            "out; give longer trajectories, or at least three",
            topic="too-few",
        )
    several = len(whole) >= 3
    made = _whole_trajectories(dataset, whole, validation, history) if several else _ends(dataset, validation, history)
    found = [fold for fold in made if fold is not None]
    if not found:
        raise InputError(
            f"{dataset.source}: {dataset.rows} states are too few to hold some out; give at least {10 * length}",
            topic="too-few",
        )
    return found


def _whole_trajectories(dataset: Dataset, whole: list[int], validation: float, history: int) -> list[Fold | None]:
    groups = max(2, min(len(whole), FOLDS))
    made = []
    for group in range(groups):
        out = whole[group::groups] if len(whole) <= 2 * FOLDS else whole[group :: max(groups, round(1 / validation))]
        parts = [(index, 0, len(dataset.series[index])) for index in range(len(dataset.series))]
        train = tuple(part for part in parts if part[0] not in out)
        made.append(_fold(dataset, train, tuple(part for part in parts if part[0] in out), history))
        if dataset.lazy:  # each fold is a pass over the disk
            break
    return made


def _ends(dataset: Dataset, validation: float, history: int) -> list[Fold | None]:
    known: dict[int, list[tuple[int, int]]] = {index: [] for index in range(len(dataset.series))}
    for index, a, b in dataset.stretches():
        known[index].append((a, b))
    made = []
    for share in (1.0,) if dataset.lazy else (0.25, 0.5, 0.75, 1.0):
        train, out = [], []
        for index, one in enumerate(dataset.series):
            cut = _cut(len(one), known[index], share * validation)
            train.append((index, 0, cut))
            out.append((index, cut, len(one)))
        made.append(_fold(dataset, tuple(train), tuple(out), history))
    return made


def _cut(rows: int, stretches: Sequence[tuple[int, int]], share: float) -> int:
    """Where a share of the rows without a gap follows: the end may consist of little else than gaps."""
    cut, wanted = rows, round(share * sum(b - a for a, b in stretches))
    for a, b in reversed(stretches):
        if wanted > 0:
            cut, wanted = b - min(wanted, b - a), wanted - (b - a)
    return cut


def origin_blocks(dataset: Dataset, history: int) -> list[Fold]:
    """Consecutive blocks of origins in the later part of each trajectory, each trained on the rows before it.

    Rollouts from a block may run on into later rows; the last block has shorter ones. Blocks without enough rows before
    them are left out.

    Args:
        dataset: all of it.
        history: longest window from which a rollout will start.
    """
    rows = max(len(one) for one in dataset.series)
    part, count = (_ORIGINS, _BLOCKS) if rows <= _SHORT else (_FEWER_ORIGINS, _FEWER_BLOCKS)
    steps = max(1, min(_LONGEST_STEPS, round(_SHARE_OF_STEPS * rows)))
    bounds = []
    for one in dataset.series:
        begin, end = max(len(one) - round(part * len(one)), history + 2), len(one) - steps
        bounds.append([*np.linspace(begin, max(begin, end), count + 1).round().astype(int).tolist(), len(one)])
    made = [_block(dataset, bounds, block, history, steps) for block in range(count)]
    made.append(_block(dataset, bounds, count, history, max(1, steps // _SHORTER)))
    return [fold for fold in made if fold is not None]


def _block(dataset: Dataset, bounds: Sequence[Sequence[int]], block: int, history: int, steps: int) -> Fold | None:
    spans = [[(low, high) for at, low, high in dataset.stretches(history + steps) if at == index]
             for index in range(len(dataset.series))]  # fmt: skip
    train, out, starts = [], [], []
    for index, edges in enumerate(bounds):
        first, last = edges[block], edges[block + 1]
        train.append((index, 0, first))
        out.append((index, first, min(edges[-1], last + steps)))
        starts += [
            (index, row) for row in range(first - 1, last - 1)
            if any(low + history - 1 <= row and row + steps < high for low, high in spans[index])
        ]  # fmt: skip
    if not starts or dataset.select(tuple(train)).transitions(history) < _FEWEST_PAIRS:
        return None
    starts = list(_before_measured(dataset, starts))
    if not starts:
        return None
    kept = np.unique(np.linspace(0, len(starts) - 1, min(WINDOWS, len(starts))).round().astype(int))
    return Fold(tuple(train), tuple(out), tuple(starts[k] for k in kept), steps, noisy=True)


def _fold(dataset: Dataset, train: tuple[Part, ...], out: tuple[Part, ...], history: int) -> Fold | None:
    """A fold with rollouts spread evenly over what is held out; None if nothing fits."""
    free = []
    for index, first, last in out:
        for where, begin, end in dataset.stretches(history + 2):
            # A rollout may start from the last states that trained.
            begin, end = max(begin + history - 1, first - 1), min(end, last)
            if where == index and end - begin > 1:
                free.append((index, begin, end))
    if not free or not any(last - first > history + 1 for _, first, last in train):
        return None
    longest = max(end - begin - 1 for _, begin, end in free)
    steps = min(HORIZON, max(1, round(_LONGEST * longest)))
    starts: list[tuple[int, int]] = []
    fitting = [(index, begin, end) for index, begin, end in free if end - begin - 1 >= steps]
    wanted = FEW_WINDOWS if dataset.lazy else WINDOWS
    each = max(1, -(-wanted // len(fitting)))
    for index, begin, end in fitting[:: max(1, len(fitting) // wanted)]:
        room = end - 1 - steps - begin
        count = min(each, 1 + room)
        starts += [(index, int(row)) for row in np.linspace(begin, begin + room, count).round()]
    windows = _before_measured(dataset, dict.fromkeys(starts))
    return Fold(train, out, windows, steps) if windows else None


def rolling(dataset: Dataset, fold: Fold, history: int, steps: int, count: int) -> Fold:
    """The same fold with up to `count` evenly spread starts of rollouts of `steps`."""
    spans = []
    for index, first, last in fold.held_out:
        for where, begin, end in dataset.stretches(history + 1):
            low, high = max(begin + history - 1, first - 1), min(end, last) - 1 - steps
            if where == index and high >= low:
                spans.append((index, low, high - low + 1))
    if not spans:
        return replace(fold, steps=min(steps, fold.steps))
    # Counted, not listed: data on the disk may hold a hundred million rows.
    before = np.cumsum([0, *(length for _, _, length in spans)])
    chosen = np.unique(np.linspace(0, before[-1] - 1, min(count, int(before[-1]))).round().astype(int))
    places = np.searchsorted(before, chosen, side="right") - 1
    windows = _before_measured(
        dataset, [(spans[at][0], int(spans[at][1] + k - before[at])) for at, k in zip(places, chosen, strict=True)]
    )
    return replace(fold, windows=windows, steps=steps) if windows else replace(fold, steps=min(steps, fold.steps))


def _before_measured(dataset: Dataset, windows: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """The measured starts after which a measured row comes.

    A start that was filled in was made up from the row after it, which the first step is judged by.
    """
    every = tuple(windows)
    if dataset.filling is None:
        return every
    return tuple((i, row) for i, row in every if not dataset.series[i].filled[row : row + 2].any())


def rows_before(dataset: Dataset, fold: Fold) -> int:
    """How many rows without a gap end at the start of every rollout of `fold`; rows that trained are among them."""
    stretches = dataset.stretches(1)
    return min(
        row - first + 1
        for index, row in fold.windows
        for i, first, last in stretches
        if i == index and first <= row < last
    )


def load(dataset: Dataset, fold: Fold, history: int, scale: Array, steps: int | None = None) -> Windows:
    """The rollouts of `fold`, or their first `steps`, with `history` states before each."""
    start, truth, inputs = [], [], []
    steps = fold.steps if steps is None else min(steps, fold.steps)
    for index, row in fold.windows:
        one = dataset.series[index]
        start.append(rows_up_to(dataset, index, row, history))
        later = one.rows(row + 1, row + 1 + steps) if one.measured is None else one.measured[row + 1 : row + 1 + steps]
        truth.append(np.asarray(later, dtype=np.float64))
        known = one.input_rows(row, row + steps)
        if known is not None:
            inputs.append(np.asarray(known, dtype=np.float64))
    return Windows(np.stack(start), np.stack(truth), np.stack(inputs) if inputs else None, scale, fold.noisy)


def roll_linear(frames: list[Frame], windows: Windows) -> Array:
    """Rollouts of the closed-form parts of several frames: (frames, W, steps, n)."""
    steps = windows.truth.shape[1]
    return np.stack([DenseStep(one).rollout(windows.start, steps, windows.inputs) for one in frames])
