"""How fast the state changes along a rollout: where it does, a model errs more.

Systems that settle change fast at first and hardly in the end, and errors of their models shrink with the change, down
to a floor such as the rounding of the data. So errors of rollouts are divided by a power of the change above a floor.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from lln.step.frame import Array

_POWERS = (1.0, 2.0)
_FLOORS = tuple(2.0**power for power in range(-5, 5))
_FASTEST = 2.0  # standard deviations in one step: a diverged rollout changes by no more
_APART = 4.0  # windows that do not overlap: fewer do not tell what errors depend on
_GAIN = 0.02  # log-likelihood of one error


@dataclass(frozen=True)
class Pace:
    """The size of errors as a function of the change of the state.

    Attributes:
        unit: typical change of one step, in standard deviations.
        power: of the change.
        floor: what errors do not fall below, where those of a typical change are one.
    """

    unit: float
    power: float
    floor: float

    def __post_init__(self) -> None:
        """Check values that come from a file."""
        if self.power not in _POWERS or not (0 < self.unit < np.inf and 0 < self.floor < np.inf):
            raise ValueError(f"a pace of unit {self.unit:g}, power {self.power:g} and floor {self.floor:g}")

    def sizes(self, change: Array) -> Array:
        """Sizes of errors after changes that `change_along` found."""
        return np.asarray(np.hypot((change / self.unit) ** self.power, self.floor))


def change_along(start: Array, states: Array, scale: Array) -> Array:
    """Root mean square change of one step from windows (..., H, n) up to states (..., steps, n), (..., steps, 1)."""
    with np.errstate(all="ignore"):
        steps = np.diff(np.concatenate([start[..., -1:, :], states], axis=-2), axis=-2) / scale
        square = np.fmin(np.mean(steps**2, axis=-1, keepdims=True), _FASTEST**2)
    return np.asarray(np.sqrt(np.cumsum(square, axis=-2) / np.arange(1, states.shape[-2] + 1)[:, None]))


def pace_of(error: Array, change: Array, apart: float) -> Pace | None:
    """The pace that errors (windows, leads, n) follow; None if they do so no better than errors of one size.

    Args:
        error: absolute errors.
        change: of the same rollouts, (windows, leads, 1).
        apart: how many windows do not overlap.
    """
    unit = float(np.sqrt(np.mean(change**2)))
    if apart < _APART or unit == 0:
        return None
    tried = [Pace(unit, *one) for one in product(_POWERS, _FLOORS)]
    gains = [log_likelihood(error, one.sizes(change)) - log_likelihood(error) for one in tried]
    best = int(np.argmax(gains))
    return tried[best] if gains[best] > _GAIN else None


def log_likelihood(error: Array, sizes: Array | float = 1.0) -> float:
    """Of one error (windows, leads, n), if those at one lead time were normal and as large as `sizes` say."""
    tiny = np.finfo(np.float64).tiny
    return float(-np.log(np.maximum(np.mean((error / sizes) ** 2, axis=0), tiny)).mean() / 2 - np.log(sizes).mean())
