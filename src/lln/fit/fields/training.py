"""The training of field networks: sizes, examples, one step and then several, within the time that is left."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import torch

from lln.core.seeding import subseed
from lln.data.series import Dataset
from lln.fit.fields.data import FieldExamples
from lln.fit.fields.options import FieldOptions
from lln.fit.options import Event, Phase, Recipe
from lln.models import FieldLensNetwork
from lln.models.convolution import kernel_shape
from lln.step.field import FieldStep
from lln.step.field_frame import FieldFrame
from lln.train.checkpoint import Checkpoint
from lln.train.loop import Trainer
from lln.train.schedule import Schedule
from lln.train.unrolled import Unroll, UnrolledBatches, unrolled_loss
from lln.train.update import UpdateOptions

MEMBERS = 2
# By dimensions of space: what two cores train in a few minutes.
SIZES: dict[int, dict[str, int]] = {
    1: {"width": 48, "depth": 6, "kernel": 7, "blocks": 2, "hidden": 24},
    2: {"width": 24, "depth": 4, "kernel": 5, "blocks": 2, "hidden": 12},
    3: {"width": 16, "depth": 3, "kernel": 3, "blocks": 2, "hidden": 8},
}
UPDATES, FINE_UPDATES = 2500, 600
RATE, FINE_RATE = 3e-3, 3e-4
_POINTS = 4096  # of all fields of one batch together
_TRAINING = 0.9  # of the time that is left; the rest is for judging

Say = Callable[[Event], object]


class FieldTrainer:
    """Trains the members of one surrogate.

    Args:
        training: what trains.
        frame: what networks correct.
        recipe: the wishes.
        options: what only fields have.
        unroll: steps of a fine-tuning over several steps; 0 for none.
        say: is told.
        kept: the checkpoint.
        deadline: when training must be over, by the monotonic clock; None for no limit.
    """

    def __init__(
        self,
        training: Dataset,
        frame: FieldFrame,
        recipe: Recipe,
        options: FieldOptions,
        *,
        unroll: int,
        say: Say,
        kept: Checkpoint,
        deadline: float | None,
    ) -> None:
        self.training, self.frame, self.recipe, self.options = training, frame, recipe, options
        self.unroll, self.say, self.kept, self.deadline = unroll, say, kept, deadline
        self.updates = 0

    def members(self) -> tuple[FieldLensNetwork, ...]:
        """All of them, each trained on one step, then, if wished, over several."""
        count = self.recipe.members or MEMBERS
        plan = [(1, RATE if self.recipe.learning_rate is None else self.recipe.learning_rate, UPDATES)]
        plan += [(self.unroll, FINE_RATE, FINE_UPDATES)] if self.unroll > 1 else []
        made = []
        for index in range(count):
            network = self._network(index).to(self.recipe.device)
            for place, (steps, rate, updates) in enumerate(plan):
                ahead = (count - index) * len(plan) - place
                self._run(f"member {index + 1} of {count}, {steps} step", network, steps, rate, updates, ahead)
            made.append(network.eval())
        return tuple(made)

    def _network(self, index: int) -> FieldLensNetwork:
        frame, d = self.frame, len(self.frame.space)
        given: dict[str, Any] = {**SIZES[d], **self.recipe.sizes}
        for name in ("kernel", "blocks", "hidden"):
            if getattr(self.options, name) is not None:
                given[name] = getattr(self.options, name)
        sizes = kernel_shape(given.pop("kernel"), d)
        return FieldLensNetwork(
            frame.features,
            frame.outputs,
            dimensions=d,
            kernel=tuple(min(size, odd(n)) for size, n in zip(sizes, frame.space, strict=True)),
            boundary=frame.boundary,
            static=0 if frame.static is None else int(frame.static.shape[-1]),
            generator=torch.Generator().manual_seed(subseed(self.recipe.seed, "network", index)),
            **given,
        )

    def _run(self, phase: str, network: FieldLensNetwork, steps: int, rate: float, updates: int, ahead: int) -> None:
        """One training, of which `ahead` are still to come with this one."""
        frame = self.frame
        examples = FieldExamples.of(self.training, frame, steps)
        batch = self.recipe.batch_size or max(2, min(64, _POINTS // math.prod(frame.space)))
        if self.recipe.epochs != "auto":
            updates = int(self.recipe.epochs) * -(-len(examples) // batch)
        seed = subseed(self.recipe.seed, phase) >> 32
        unroll = Unroll(steps, noise=self.options.noise * float(frame.channel_scale.mean()))
        batches = UnrolledBatches(
            examples, frame.history, unroll, batch, seed, inputs=examples.inputs(), weights=examples.weights()
        )
        scale = torch.from_numpy(frame.channel_scale * frame.gain)
        loss = unrolled_loss(FieldStep(frame, (network,)).advance_fields, frame.history, unroll, scale=scale)
        now = time.monotonic()
        seconds = None if self.deadline is None else _TRAINING * max(0.0, self.deadline - now) / ahead
        trainer = Trainer(network, batches, loss, Schedule(updates, rate, seconds=seconds), UpdateOptions(clip=1.0))

        def say(done: int, total: int, value: float) -> None:
            self.say(Event(Phase.TRAINING, done, total, f"{phase}, loss {value:.2e}"))

        trainer.run(self.kept, phase, say)
        self.updates += trainer.done


def odd(points: int) -> int:
    """The largest odd kernel that a grid of so many points can carry by mirrors."""
    return max(1, 2 * ((points - 1) // 2) - 1)
