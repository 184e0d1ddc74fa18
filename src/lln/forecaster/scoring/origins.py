"""Rolling origins: many starts of rollouts over rows that a model has not seen, chosen as the fitter chooses them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lln.data.series import Dataset
from lln.data.windows import HORIZON
from lln.fit.choice.holdout import Fold, Part, rolling

ORIGINS = 64
_LENGTH = 0.6  # of the longest unseen stretch: the rest makes room for several starts


def unmarked(marks: Sequence[NDArray[np.bool_]]) -> tuple[Part, ...]:
    """Runs of rows that are not marked: (trajectory, first row, last row + 1)."""
    parts: list[Part] = []
    for index, rows in enumerate(marks):
        edges = np.flatnonzero(np.diff(np.r_[True, rows, True].astype(np.int8))).reshape(-1, 2)
        parts += [(index, int(first), int(last)) for first, last in edges]
    return tuple(parts)


def rolling_origins(
    dataset: Dataset, parts: Sequence[Part], history: int, steps: int | None = None, count: int | None = ORIGINS
) -> Fold:
    """Evenly spread starts of rollouts whose truth lies within `parts`; rollouts may overlap.

    Args:
        dataset: the data.
        parts: rows that may be predicted.
        history: states given before each rollout, which may lie outside `parts`.
        steps: length of the rollouts, shorter if the parts are; None takes 500, or six tenths of the longest part.
        count: at most so many starts; None for all.

    Returns:
        A fold that trains nothing. It has no windows where nothing fits.
    """
    longest = 0
    for index, first, last in parts:
        for where, begin, end in dataset.stretches(history + 1):
            if where == index:
                longest = max(longest, min(end, last) - max(begin + history, first))
    fold = Fold((), tuple(parts), (), 1)
    if longest < 1:
        return fold
    length = min(HORIZON, max(1, round(_LENGTH * longest))) if steps is None else min(steps, longest)
    return rolling(dataset, fold, history, length, dataset.rows if count is None else count)
