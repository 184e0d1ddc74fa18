"""Whether a surrogate stays where its data was, in the long run."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import numpy as np

from lln.step.base import AnyStep
from lln.step.frame import Array

StepT = TypeVar("StepT", bound=AnyStep)

LONG = 10_000
SHRINK = (1.0, 0.75, 0.5, 0.25, 0.0)
_FAR = 20.0  # standard deviations
_PIECE = 500


def bounded(surrogate: AnyStep, window: Array, steps: int = LONG) -> bool:
    """Whether a rollout from `window` (H, n) stays within twenty standard deviations for so many steps."""
    frame = surrogate.frame
    if frame.inputs:  # their future is not known
        return True
    past = window
    for _ in range(0, steps, _PIECE):
        states = surrogate.rollout(past, _PIECE)
        size = np.abs((states - frame.mean) / frame.scale)
        if not (np.isfinite(size).all() and size.max() < _FAR):
            return False
        past = np.concatenate([past, states])[-frame.history :]
    return True


def settled(surrogate: StepT, share: float, window: Array, wanted: bool) -> tuple[StepT, float]:
    """The surrogate with as much of its network as it takes to stay bounded, and the share that is left.

    Args:
        surrogate: with the chosen share.
        share: that share.
        window: where the data ends, (H, n).
        wanted: whether to look at all; noise is what makes it necessary.
    """
    if not wanted:
        return surrogate, share
    for factor in SHRINK:
        tried = surrogate.replace(frame=replace(surrogate.frame, gain=surrogate.frame.gain * factor))
        if bounded(tried, window):
            return tried, share * factor
    return surrogate, share
