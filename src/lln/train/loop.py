"""The training loop: schedule, batches, updates, snapshots, a time limit, progress, checkpoints; for every model."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from lln.train import distributed
from lln.train.checkpoint import Checkpoint, restore_training, training_state
from lln.train.update import Batch, Loss, UpdateOptions, make_update

Progress = Callable[[int, int, float], None]
"""Updates made, updates planned, mean loss."""
State = dict[str, Tensor]

REPORT_EVERY = 25
_TIMED = 10  # updates after which the time of one is known
WARM_UP = 0.05


class Trainer:
    """Minibatch training that can stop at any update and continue to the same result.

    Batches depend on the number of the update alone, so that parameters, optimizer and counters are the whole state.

    Args:
        model: the module that is trained in place.
        batch: number of the update -> the tensors of its batch, on the model's device.
        loss: those tensors -> a scalar, or one value for each member.
        schedule: updates, learning rates, snapshots and time limit.
        options: optimizer, clipping, masks.
    """

    def __init__(
        self,
        model: nn.Module,
        batch: Callable[[int], Batch],
        loss: Loss,
        schedule: Schedule,
        options: UpdateOptions | None = None,
    ) -> None:
        self.model, self.batch, self.schedule = model, batch, schedule
        self.options = options or UpdateOptions()
        self.update = make_update(model, loss, self.options)
        self.updates, self.done = schedule.updates, 0
        self.snapshots: list[State] = []
        self.last: Tensor | None = None
        self._seconds = 0.0  # of all updates so far
        self._each = 0.0  # seconds of one recent update

    @property
    def finished(self) -> bool:
        """Whether all updates are made."""
        return self.done >= self.updates

    def advance(self, count: int) -> Tensor:
        """Make `count` updates, or as many as are left; the mean loss in float64, each example as it was seen."""
        axis = 1 if self.options.members else 0
        total, seen = torch.zeros((), dtype=torch.float64), 0
        was_training = self.model.training
        self.model.train()
        try:
            for _ in range(min(count, self.updates - self.done)):
                batch = self.batch(self.done)
                if self.options.parallel:
                    batch = [distributed.part(tensor, axis) for tensor in batch]
                self.last = self.update(batch, self.schedule.at(self.done, self.updates))
                rows = next(tensor.shape[axis] for tensor in batch if tensor is not None)
                total = self.last.double() * rows + total.to(self.last.device)
                seen += rows
                self.done += 1
                self._snapshot()
        finally:
            self.model.train(was_training)
        return total / max(seen, 1)

    def run(self, checkpoint: Checkpoint | None = None, phase: str = "", progress: Progress | None = None) -> None:
        """Make all updates, or those that a checkpoint of this phase has left.

        Args:
            checkpoint: where progress is stored and read; None stores nothing.
            phase: name of this training in the checkpoint.
            progress: called every few updates.
        """
        known = None if checkpoint is None else checkpoint.get(phase)
        if known is not None:
            self.restore(*known)
        fresh = False
        while not self.finished:
            began, first = time.monotonic(), self.done
            loss = float(self.advance(self._piece()).mean())  # waits for the device
            taken = time.monotonic() - began
            self._seconds, self._each, fresh = self._seconds + taken, taken / (self.done - first), True
            self._keep_time()
            if progress is not None and (self.done % REPORT_EVERY == 0 or self.finished):
                progress(self.done, self.updates, loss)
            if checkpoint is not None and not self.finished and checkpoint.due and distributed.rank() == 0:
                checkpoint.put(phase, *self.state())
        if checkpoint is not None and fresh and distributed.rank() == 0:
            checkpoint.put(phase, *self.state())

    def state(self) -> tuple[dict[str, Any], State]:
        """Everything that a later run needs: plain values, and tensors by name."""
        tensors = training_state(self.model, self.update.optimizer)
        for index, snapshot in enumerate(self.snapshots):
            tensors |= {f"stop{index}.{name}": t for name, t in snapshot.items()}
        if self.last is not None:
            tensors["loss"] = self.last
        values = {"done": self.done, "updates": self.updates, "stops": len(self.snapshots), "seconds": self._seconds}
        return values, tensors

    def restore(self, values: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        """Continue from what `state` returned."""
        device = next(self.model.parameters()).device
        restore_training(self.model, self.update.optimizer, tensors)
        self.done, self.updates = int(values["done"]), int(values["updates"])
        self._seconds = float(values.get("seconds", 0.0))
        self.last = tensors["loss"].to(device) if "loss" in tensors else None
        self.snapshots = []
        for index in range(int(values.get("stops", 0))):
            mark = f"stop{index}."
            found = {name.removeprefix(mark): t.to(device) for name, t in tensors.items() if name.startswith(mark)}
            self.snapshots.append(found)

    def _piece(self) -> int:
        """Updates until the next check of the clock."""
        if self.schedule.seconds is not None and self.done < _TIMED:
            return _TIMED - self.done
        return REPORT_EVERY - self.done % REPORT_EVERY

    def _keep_time(self) -> None:
        """Plan as many updates as the time limit allows, at the speed of the last ones."""
        if self.schedule.seconds is None or self.finished:
            return
        left = int(max(0.0, self.schedule.seconds - self._seconds) / self._each)
        planned = min(self.schedule.updates, self.done + left)
        self.updates = distributed.agreed(planned) if self.options.parallel else planned
        self._snapshot()

    def _snapshot(self) -> None:
        stops = self.schedule.stops
        while len(self.snapshots) < len(stops) and self.done >= round(stops[len(self.snapshots)] * self.updates):
            self.snapshots.append({name: t.detach().clone() for name, t in self.model.state_dict().items()})


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


@contextmanager
def one_thread() -> Iterator[None]:
    """Run the block on one thread of torch and its libraries, then restore their number."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
