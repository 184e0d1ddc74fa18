"""The training loop of the recipe: all members in one pass, a cosine schedule, snapshots on the way, resumable."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lln.fit.members import Blinkers, Shape, make_ensemble
from lln.fit.readout import Ensemble
from lln.fit.source import Rows, Stream
from lln.fit.steps import CapturedStep, Step
from lln.train.checkpoint import Checkpoint, restore_training, training_state

Say = Callable[[int, int, str], None]
State = dict[str, Tensor]

WARM_UP = 0.05
_TIMED = 10
_TELL = 50


@dataclass(frozen=True)
class Schedule:
    """How an ensemble is trained.

    Attributes:
        updates: optimizer steps.
        batch: pairs in one of them.
        rate: highest learning rate.
        stops: fractions of the schedule at which a snapshot is kept, increasing, the last 1.
        seconds: time that it may take; fewer updates are made if they would take longer.
    """

    updates: int
    batch: int
    rate: float
    stops: tuple[float, ...] = (1.0,)
    seconds: float | None = None

    def at(self, update: int, updates: int) -> float:
        """Learning rate of update number `update` of `updates`."""
        warm = min(1.0, (update + 1) / max(1.0, WARM_UP * updates))
        return self.rate * warm * 0.5 * (1.0 + math.cos(math.pi * update / updates))


@dataclass(frozen=True, eq=False)
class Trained:
    """An ensemble and its snapshots.

    Attributes:
        model: as the last update left it, in evaluation mode.
        snapshots: parameters and buffers at each stop.
        updates: how many were made.
        loss: last loss of each member, (S,).
        stops: how many snapshots this training made; others may follow.
    """

    model: Ensemble
    snapshots: list[State]
    updates: int
    loss: list[float]
    stops: int


def train(
    shape: Shape,
    source: Rows | Stream,
    seeds: Sequence[int],
    schedule: Schedule,
    device: str,
    *,
    checkpoint: Checkpoint,
    phase: str,
    say: Say,
) -> Trained:
    """Train one member for each seed, or go on where `checkpoint` says this phase stopped."""
    model = make_ensemble(shape, seeds, device)
    blinkers = Blinkers(model, shape.sight)
    job = _Job(model, blinkers, source, tuple(seeds), schedule)
    job.resume(checkpoint.get(phase))
    began = time.monotonic()
    model.train()
    while job.done < job.updates:
        job.update()
        if schedule.seconds is not None and job.done == _TIMED and not job.timed:
            job.fit_into(schedule.seconds, time.monotonic() - began)
        if job.done % _TELL == 0 or job.done == job.updates:
            say(job.done, job.updates, f"loss {float(job.loss.mean()):.2e}")
            if checkpoint.due and job.done < job.updates:
                checkpoint.put(phase, *job.state())
    if job.fresh:
        checkpoint.put(phase, *job.state())
    model.eval()
    return Trained(model, job.snapshots, job.updates, job.loss.tolist(), len(job.snapshots))


class _Job:
    """What a training in progress consists of."""

    def __init__(
        self,
        model: Ensemble,
        blinkers: Blinkers,
        source: Rows | Stream,
        seeds: tuple[int, ...],
        schedule: Schedule,
    ) -> None:
        self.model = model
        self.source, self.seeds, self.schedule = source, seeds, schedule
        self.updates, self.done = schedule.updates, 0
        self.timed, self.fresh = False, False
        self.snapshots: list[State] = []
        self.loss = torch.zeros(len(seeds))
        self.step = CapturedStep(model, blinkers) if next(model.parameters()).is_cuda else Step(model, blinkers)
        self.optimizer = self.step.optimizer

    def update(self) -> None:
        """One optimizer step on one batch for each member."""
        x, y, weights = self.source.batch(self.done, self.schedule.batch, self.seeds)
        self.loss = self.step(x, y, weights, self.schedule.at(self.done, self.updates))
        self.fresh = True
        self.done += 1
        stop = len(self.snapshots)
        if self.done >= round(self.schedule.stops[stop] * self.updates):
            self.snapshots.append({name: t.detach().clone() for name, t in self.model.state_dict().items()})

    def fit_into(self, seconds: float, taken: float) -> None:
        """Plan fewer updates if these would take longer than `seconds`."""
        self.timed = True
        each = taken / self.done
        self.updates = max(2 * _TIMED, min(self.updates, int(seconds / each)))

    def state(self) -> tuple[dict[str, object], State]:
        """Everything that going on needs."""
        tensors = training_state(self.model, self.optimizer)
        for index, snapshot in enumerate(self.snapshots):
            tensors |= {f"stop{index}.{name}": t for name, t in snapshot.items()}
        tensors["loss"] = self.loss
        return {"done": self.done, "updates": self.updates, "stops": len(self.snapshots), "timed": self.timed}, tensors

    def resume(self, kept: tuple[dict[str, object], State] | None) -> None:
        """Go on from what `state` returned."""
        if kept is None:
            return
        values, tensors = kept
        self.done, self.updates = int(str(values["done"])), int(str(values["updates"]))
        self.timed = bool(values["timed"])
        restore_training(self.model, self.optimizer, tensors)
        device = next(self.model.parameters()).device
        self.loss = tensors["loss"].to(device)
        for index in range(int(str(values["stops"]))):
            mark = f"stop{index}."
            self.snapshots.append(
                {name[len(mark) :]: t.to(device) for name, t in tensors.items() if name.startswith(mark)}
            )
