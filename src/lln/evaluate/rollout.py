"""Rollouts: apply a step repeatedly. The step may be a network, a simulator or any other function."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lln.core.errors import InputError, check_int, check_memory

Array = NDArray[np.floating[Any]]
State = TypeVar("State", Tensor, Array)
Stepper = Callable[[State], State]

# A chaotic rollout touches a little more than the training rows; beyond a tenth of their extent it has left them.
REGION_MARGIN = 0.1
_FEW = 16  # coordinates that are compared one by one: operations along short rows are slow


class Ending(Enum):
    """How a rollout can end."""

    FINISHED = "finished"
    LEFT = "left the region that training covered"
    DIVERGED = "diverged"


@dataclass(frozen=True)
class Outcome:
    """The end of one rollout, as a value."""

    #: finished, diverged, or ran to the end but outside the region that was asked about.
    ending: Ending = Ending.FINISHED
    #: the first step whose state was not finite or beyond the limit, or the first outside the region (the start is step
    #: 0); None if it finished.
    step: int | None = None
    #: the first step outside the region, also of a rollout that diverged later; None if it stayed inside, or if no
    #: region was given.
    left: int | None = None

    def __str__(self) -> str:
        return self.ending.value if self.step is None else f"{self.ending.value} at step {self.step}"


_FINISHED = Outcome()


@dataclass(frozen=True, eq=False)
class Region:
    """A box in state space."""

    low: Array  #: smallest value of each coordinate, (n,).
    high: Array  #: largest, (n,).

    def __post_init__(self) -> None:
        """Check that it is a box."""
        low, high = np.asarray(self.low, dtype=np.float64), np.asarray(self.high, dtype=np.float64)
        if low.ndim != 1 or low.shape != high.shape or not (low <= high).all():
            raise InputError(f"a region needs low <= high, both of shape (n,), got shapes {low.shape} and {high.shape}")
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    def check(self, states: Array) -> None:
        """Refuse states of another number of coordinates."""
        if states.shape[-1:] != self.low.shape:
            raise InputError(f"a region of {self.low.shape[0]} coordinates cannot judge states of shape {states.shape}")

    def holds(self, states: Array) -> NDArray[np.bool_]:
        """Whether each state lies inside: (..., n) -> (...). What is not finite does not."""
        self.check(states)
        return _within(states, self.low, self.high)


@dataclass(frozen=True, eq=False)
class Rollout:
    """The states that a step visited."""

    states: Array  #: (..., steps + 1, n), the start first; rows from the divergence on are NaN.
    outcomes: tuple[Outcome, ...]  #: one for each start, in the order of the flattened leading dimensions.

    @property
    def predicted(self) -> Array:
        """The states after the start, (..., steps, n)."""
        return self.states[..., 1:, :]

    @property
    def outcome(self) -> Outcome:
        """The worst of all starts: the earliest divergence, else the earliest to leave the region, else finished."""
        for ending in (Ending.DIVERGED, Ending.LEFT):
            such = [outcome for outcome in self.outcomes if outcome.ending is ending]
            if such:
                return min(such, key=lambda outcome: outcome.step or 0)
        return Outcome()


def rollout(
    step: Stepper[State], x0: State, steps: int, *, limit: float = math.inf, region: Region | None = None
) -> Rollout:
    """Apply `step` to `x0` and its results, `steps` times, without gradients.

    Args:
        step: a function (..., n) -> (..., n) on torch tensors or on NumPy arrays, whichever `x0` is. If it has a method
            `rollout(x0, steps)` that returns the states after x0, (..., steps, n), that is used in place of the loop.
        x0: one start (n,) or many at once (..., n), finite.
        steps: how many times.
        limit: a coordinate beyond this, in absolute value, counts as divergence; by default only NaN and infinity do.
        region: where states are expected; a rollout that leaves it runs on, and its outcome says so.

    Returns:
        The states as a NumPy array, and how it ended. Divergence is an outcome, not an error.
    """
    steps = check_int("steps", steps, 1)
    start: Array = _numpy(x0)
    if start.ndim < 1:
        raise InputError("x0 must be states of shape (..., n), got a single number")
    if not np.isfinite(start).all():
        bad = tuple(map(int, np.argwhere(~np.isfinite(start))[0]))
        raise InputError(f"x0 is {start[bad]} at {list(bad)}; a rollout must start at finite states")
    check_memory(f"a rollout of {steps:,} steps", (steps, *start.shape), size=start.itemsize, copies=3)
    with torch.no_grad(), np.errstate(over="ignore", invalid="ignore"):
        whole_rollout = getattr(step, "rollout", None)
        rows = _numpy(whole_rollout(x0, steps)) if callable(whole_rollout) else _loop(step, x0, steps, limit)
    expected = (*start.shape[:-1], steps, start.shape[-1])
    if rows.shape != expected:
        raise InputError(f"the stepper's rollout must return states of shape {expected}, got {rows.shape}")
    states = np.concatenate([start[..., None, :].astype(rows.dtype), rows], axis=-2)
    return judge(states, limit=limit, region=region)


def _loop(step: Stepper[State], x0: State, steps: int, limit: float) -> Array:
    state, rows = x0, []
    for _ in range(steps):
        state = step(state)
        if state.shape != x0.shape:
            raise InputError(f"a step must keep the shape {tuple(x0.shape)} of its state, got {tuple(state.shape)}")
        rows.append(_numpy(state))
        if not _alive(rows[-1], limit).any():
            break
    lost = [np.full_like(rows[-1], np.nan)] * (steps - len(rows))
    return np.stack(rows + lost, axis=-2)


def judge(states: Array, *, limit: float = math.inf, region: Region | None = None) -> Rollout:
    """Find where each rollout diverged or left the region, and blank what follows a divergence.

    Args:
        states: (..., steps + 1, n), the start first.
        limit: a coordinate beyond this, in absolute value, counts as divergence.
        region: where states are expected; None checks none.
    """
    if region is not None:
        region.check(states)
    rows = states.reshape(math.prod(states.shape[:-2]), *states.shape[-2:])
    outcomes = [_FINISHED] * len(rows)
    others = np.flatnonzero(~_stay_inside(rows, limit, region))
    if len(others):
        some = rows[others]
        dead = ~np.logical_and.accumulate(_alive(some, limit), axis=-1)
        dead[..., 0] = False
        some[dead] = np.nan
        outside = np.zeros_like(dead) if region is None else ~dead & ~region.holds(some)
        for place, lost, left in zip(others, _firsts(dead), _firsts(outside), strict=True):
            outcomes[place] = _outcome(lost, left)
        rows = rows.copy()
        rows[others] = some
    return Rollout(rows.reshape(states.shape), tuple(outcomes))


def marked(states: Array, marks: NDArray[np.int64] | None) -> Rollout:
    """The same from marks that the rollout itself has made.

    Args:
        states: (..., steps + 1, n), the start first, NaN from a divergence on.
        marks: for each start (2, B) the step of its divergence and the first step before it outside the region, -1 for
            none; None where no start has such a step.
    """
    if marks is None:
        return Rollout(states, (_FINISHED,) * math.prod(states.shape[:-2]))
    pairs = ((None if mark < 0 else mark for mark in pair) for pair in marks.T.tolist())
    return Rollout(states, tuple(_outcome(*pair) for pair in pairs))


def _stay_inside(rows: Array, limit: float, region: Region | None) -> NDArray[np.bool_]:
    """Which rollouts (B, steps + 1, n) stay finite and inside all the way.

    Steps and coordinates are compared as one long row: most rollouts need no more, and short rows are slow.
    """
    steps, n = rows.shape[-2:]
    low, high = _bounds(region, min(limit, _largest(rows.dtype)), steps, n)
    flat = rows.reshape(len(rows), steps * n)
    return np.asarray(((flat >= low) & (flat <= high)).all(axis=1))


@lru_cache(maxsize=4)
def _bounds(region: Region | None, largest: float, steps: int, n: int) -> tuple[Array, Array]:
    """The least and the greatest value of each number of a rollout, (steps * n,)."""
    low, high = np.full(n, -largest), np.full(n, largest)
    if region is not None:
        low, high = np.maximum(low, region.low), np.minimum(high, region.high)
    return np.tile(low, steps), np.tile(high, steps)


@lru_cache(maxsize=8)
def _largest(dtype: np.dtype[Any]) -> float:
    """The largest finite number of a type."""
    return float(np.finfo(dtype).max)


def _firsts(marks: NDArray[np.bool_]) -> list[int | None]:
    """The first marked step of each rollout (B, steps + 1), or None."""
    return [int(row.argmax()) if row.any() else None for row in marks]


def _outcome(lost: int | None, left: int | None) -> Outcome:
    if lost is not None:
        return Outcome(Ending.DIVERGED, lost, left)
    return _FINISHED if left is None else Outcome(Ending.LEFT, left, left)


def _alive(states: Array, limit: float) -> NDArray[np.bool_]:
    largest = np.full(states.shape[-1], min(limit, _largest(states.dtype)))
    return _within(states, -largest, largest)


def _within(states: Array, low: Array, high: Array) -> NDArray[np.bool_]:
    """Whether all coordinates lie within bounds (n,): (..., n) -> (...)."""
    if states.shape[-1] > _FEW:
        return np.asarray(((states >= low) & (states <= high)).all(axis=-1))
    inside = np.ones(states.shape[:-1], dtype=bool)
    for column, least, most in zip(np.moveaxis(states, -1, 0), low, high, strict=True):
        inside &= (column >= least) & (column <= most)
    return inside


def _numpy(value: Any) -> Array:
    array: Array = value.detach().cpu().numpy() if isinstance(value, Tensor) else np.asarray(value)
    if array.dtype.kind != "f":
        raise InputError(f"states must be floating point, got {array.dtype}; convert them first")
    return array


def training_region(
    mean: Array, scale: Array, low: Sequence[float], high: Sequence[float], angles: NDArray[np.bool_] | None = None
) -> Region:
    """The box of training states in the units of the data, widened by the margin.

    Args:
        mean: of each coordinate, (n,).
        scale: of each coordinate, (n,).
        low: the smallest standardised value of each coordinate, or of each channel of a field.
        high: the largest.
        angles: coordinates that may grow without bound, (n,); they have no bounds here.
    """
    sides = [np.asarray(side, dtype=np.float64) for side in (low, high)]
    if any(side.ndim != 1 or not len(side) or len(mean) % len(side) for side in sides):
        raise ValueError(f"a region of {len(sides[0])} and {len(sides[1])} values for {len(mean)} coordinates")
    corners = [mean + scale * np.repeat(side, len(mean) // len(side)) for side in sides]
    # A coordinate that never varied has no extent; its scale then says what counts as near.
    more = REGION_MARGIN * np.maximum(corners[1] - corners[0], scale)
    more = more if angles is None else np.where(angles, math.inf, more)
    return Region(corners[0] - more, corners[1] + more)
