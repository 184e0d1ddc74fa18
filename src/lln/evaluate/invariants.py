"""How well a rollout keeps what the true system conserves: energy, mass, or whatever the user names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from lln.core.errors import InputError, positive
from lln.evaluate.metrics import Array

Invariant = Callable[[Array], ArrayLike]


@dataclass(frozen=True, eq=False)
class Drift:
    """How far an invariant went from its value at the start.

    Attributes:
        values: the invariant along the rollout, (..., time).
        drift: its difference from the value at the start in units of `scale`, (..., time); infinite where the rollout
            is not finite.
        scale: what counts as one.
    """

    values: Array
    drift: Array
    scale: float

    @property
    def largest(self) -> float:
        """The largest absolute drift over all times and starts."""
        return float(np.abs(self.drift).max())

    @property
    def last(self) -> float:
        """The largest absolute drift at the end of the rollouts."""
        return float(np.abs(self.drift[..., -1]).max())


def invariant_drift(states: ArrayLike, invariant: Invariant, *, scale: float | None = None) -> Drift:
    """Follow an invariant along rollouts.

    Args:
        states: (..., time, n), the start first.
        invariant: a function of states, (..., n) -> (...). `System.invariants` gives those of the built-in systems.
        scale: what counts as one; None takes the mean absolute value at the starts, so that the drift is relative (or 1
            where that is zero).

    >>> energy = lambda x: 0.5 * (x**2).sum(-1)
    >>> invariant_drift([[1.0, 0.0], [0.0, 2.0]], energy).largest
    3.0
    """
    rows = np.asarray(states, dtype=np.float64)
    if rows.ndim < 2 or 0 in rows.shape:
        raise InputError(f"states must be (..., time, n), the start first, got {rows.shape}")
    if not np.isfinite(rows[..., 0, :]).all():
        raise InputError("the first row of the states must be finite, got NaN or infinity")
    with np.errstate(over="ignore", invalid="ignore"):
        values = np.asarray(invariant(rows), dtype=np.float64)
        if values.shape != rows.shape[:-1]:
            raise InputError(f"the invariant must map {rows.shape} to {rows.shape[:-1]}, got {values.shape}")
        first = values[..., :1]
        unit = positive("scale", scale) if scale is not None else float(np.abs(first).mean()) or 1.0
        drift = (values - first) / unit
    sound = np.isfinite(drift) & np.isfinite(rows).all(axis=-1)
    return Drift(values, np.where(sound, drift, np.inf), unit)
