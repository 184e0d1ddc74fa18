"""The learning rate over a training, the snapshots on the way and the time that it may take."""

from __future__ import annotations

import math
from dataclasses import dataclass

WARM_UP = 0.05


@dataclass(frozen=True)
class Schedule:
    """How long and how fast a model is trained.

    Attributes:
        updates: number of optimizer steps.
        rate: highest learning rate.
        kind: "cosine" falls from `rate` to zero over all updates, "constant" stays.
        warm_up: fraction of the updates over which the rate rises linearly from zero.
        stops: fractions of the schedule at which a snapshot is kept, increasing; empty for none.
        seconds: time limit. Fewer updates are made when they would take longer.
    """

    updates: int
    rate: float
    kind: str = "cosine"
    warm_up: float = 0.0
    stops: tuple[float, ...] = ()
    seconds: float | None = None

    def at(self, update: int, updates: int) -> float:
        """Learning rate of update number `update` (from 0) of `updates`, which a time limit may have reduced."""
        warm = min(1.0, (update + 1) / max(1.0, self.warm_up * updates))
        if self.kind == "constant":
            return self.rate * warm
        return self.rate * warm * 0.5 * (1.0 + math.cos(math.pi * update / updates))
