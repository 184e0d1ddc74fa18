"""What is held out, and how a rollout over it is scored: the judge of every choice the recipe makes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lln.core.errors import InputError
from lln.data.series import HORIZON, Dataset
from lln.fit.choice.scores import RolloutErrors, lead_times
from lln.step.dense import DenseStep
from lln.step.frame import Array, Frame

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


@dataclass(frozen=True, eq=False)
class Windows:
    """Rollouts to be judged, loaded.

    Attributes:
        start: the last states before each, (W, H, n).
        truth: what they should visit, (W, steps, n).
        inputs: known inputs on the way, (W, steps, m), or None.
        scale: what counts as one, (n,).
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

    def log_error(self, predicted: Array) -> Array:
        """The score of many models' rollouts: (..., W, steps, n) -> (...)."""
        lead = predicted.shape[:-3]
        flat = predicted.reshape(-1, *predicted.shape[-3:])
        return np.reshape([self.errors(one).score(noisy=self.noisy) for one in flat], lead)


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
    whole = sorted({index for index, first, last in dataset.stretches(length) if last - first >= 2 * length})
    if not whole:
        raise InputError(
            f"{dataset.source}: no stretch of {2 * length} states without a gap, so nothing can be held out; give "
            "longer trajectories",
            topic="too-few",
        )
    cut = _whole_trajectories if len(whole) >= 3 else _ends
    made = cut(dataset, whole, validation, history)
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


def _ends(dataset: Dataset, whole: list[int], validation: float, history: int) -> list[Fold | None]:
    del whole
    made = []
    for share in (1.0,) if dataset.lazy else (0.25, 0.5, 0.75, 1.0):
        train, out = [], []
        for index, one in enumerate(dataset.series):
            cut = len(one) - round(share * validation * len(one))
            train.append((index, 0, cut))
            out.append((index, cut, len(one)))
        made.append(_fold(dataset, tuple(train), tuple(out), history))
    return made


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
    return Fold(train, out, tuple(dict.fromkeys(starts)), steps)


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
    windows = [(spans[at][0], int(spans[at][1] + k - before[at])) for at, k in zip(places, chosen, strict=True)]
    return replace(fold, windows=tuple(windows), steps=steps)


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
        states = np.asarray(one.rows(row - history + 1, row + 1 + steps), dtype=np.float64)
        start.append(states[:history])
        truth.append(states[history:])
        known = one.input_rows(row, row + steps)
        if known is not None:
            inputs.append(np.asarray(known, dtype=np.float64))
    return Windows(np.stack(start), np.stack(truth), np.stack(inputs) if inputs else None, scale, fold.noisy)


def roll_linear(frames: list[Frame], windows: Windows) -> Array:
    """Rollouts of the closed-form parts of several frames: (frames, W, steps, n)."""
    steps = windows.truth.shape[1]
    return np.stack([DenseStep(one).rollout(windows.start, steps, windows.inputs) for one in frames])
