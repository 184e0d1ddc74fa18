"""Which part of a trajectory trains and which part tests: split in time, never at random."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lln.core.checks import check_int
from lln.core.errors import InputError
from lln.data.series import Array
from lln.data.trajectory import Trajectory

BURN_IN = 500
PAIRS = 3000
HORIZON = 500


@dataclass(frozen=True, eq=False)
class Split:
    """A trajectory cut into training pairs and a test window, in physical units.

    Attributes:
        inputs: states x_k that train, (pairs, n).
        targets: their successors x_{k+1}, (pairs, n).
        start: the state from which the test rollout starts, (n,); it follows the last training input.
        truth: the states that the rollout should visit after it, (horizon, n).
        dt: time step.
    """

    inputs: Array
    targets: Array
    start: Array
    truth: Array
    dt: float

    @property
    def increments(self) -> Array:
        """x_{k+1} - x_k of the training pairs in float64, (pairs, n)."""
        return increments(self.inputs, self.targets)


def split(trajectory: Trajectory, *, burn_in: int = BURN_IN, pairs: int = PAIRS, horizon: int = HORIZON) -> Split:
    """The paper's temporal split.

    Skip `burn_in` steps, take `pairs` one-step pairs, and start the test rollout at the state behind them: by
    default inputs are states 500 to 3499, the rollout starts at state 3500 and is scored on states 3501 to 4000.
    """
    burn_in, pairs, horizon = (
        check_int("burn_in", burn_in, 0),
        check_int("pairs", pairs, 1),
        check_int("horizon", horizon, 1),
    )
    first = burn_in + pairs
    if len(trajectory) < first + horizon + 1:
        raise InputError(
            f"{trajectory.name}: the split needs {first + horizon + 1} states (burn-in {burn_in}, {pairs} pairs, "
            f"{horizon} test steps), got {len(trajectory)}; simulate longer or ask for less"
        )
    states = trajectory.states
    inputs, targets = one_step_pairs(states[burn_in : first + 1])
    return Split(inputs, targets, states[first], states[first + 1 : first + 1 + horizon], trajectory.dt)


def one_step_pairs(states: Array) -> tuple[Array, Array]:
    """Each state and its successor: (time, n) -> two arrays (time - 1, n)."""
    if states.ndim != 2 or states.shape[0] < 2:
        raise InputError(f"one-step pairs need states of shape (time, n) with at least 2 times, got {states.shape}")
    return states[:-1], states[1:]


def increments(inputs: Array, targets: Array) -> Array:
    """Targets minus inputs, in float64 so that small steps keep their digits."""
    if inputs.shape != targets.shape:
        raise InputError(f"inputs and targets must have one shape, got {inputs.shape} and {targets.shape}")
    return targets.astype(np.float64) - inputs.astype(np.float64)
