"""The training of field networks: sizes, batches, one step and then several, within the time that is left."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from lln.core.errors import InputError, choice, finite
from lln.core.table import number
from lln.data.series import Dataset
from lln.fit.defaults import FIELD_MEMBERS, field_budget
from lln.fit.fields.data import FieldExamples
from lln.fit.options import Event, Phase, Progress, Recipe
from lln.models import FieldLensNetwork
from lln.models.convolution import kernel_shape
from lln.models.field import FieldEnsemble
from lln.step.field import FieldStep
from lln.step.field_frame import CONSERVE, FieldFrame
from lln.step.frame import Array
from lln.train.batches import UnrolledBatches, subseed, unrolled_loss
from lln.train.loop import Checkpoint, Schedule, Trainer, UpdateOptions, join_processes


@dataclass(frozen=True, eq=False)
class FieldOptions:
    """Choices that only fields have; None and "auto" leave them to the recipe."""

    #: for all sides, for each axis, or (low, high) for an axis; "auto" reads it off the data.
    boundary: str | Sequence[str | Sequence[str]] = "auto"
    #: "none"; "mean" holds the mean of every channel; "flux" lets only fluxes between neighbours change a field; "auto"
    #: holds the mean where the data does.
    conserve: str = "auto"
    kernel: int | Sequence[int] | None = None  #: points of the networks' convolutions, one number or one for each axis.
    linear_kernel: int | Sequence[int] | None = None  #: of the linear part; None tries a few.
    blocks: int | None = None  #: of a network.
    hidden: int | None = None  #: channels between blocks.
    #: standard deviation of the noise on the inputs of training, in units of their spread; 0 for none, None chooses it
    #: on held-out rollouts. It teaches networks to damp what the data does not contain.
    noise: float | None = None
    static: Array | None = None  #: fixed fields (*space, s), or one (*space), that the networks also see, in any units.

    def __post_init__(self) -> None:
        """Check what can be checked without data."""
        choice("conserve", self.conserve, ("auto", *CONSERVE))
        if self.noise is not None and finite("noise", self.noise) < 0:
            raise InputError(f"noise must not be negative, got {self.noise}")


# By dimensions of space: what two cores train in a few minutes.
SIZES: dict[int, dict[str, int]] = {
    1: {"width": 48, "depth": 6, "kernel": 7, "blocks": 2, "hidden": 24},
    2: {"width": 24, "depth": 4, "kernel": 5, "blocks": 2, "hidden": 12},
    3: {"width": 16, "depth": 3, "kernel": 3, "blocks": 2, "hidden": 8},
}
RATE, FINE_RATE = 3e-3, 3e-4
_POINTS = 4096  # of all fields of one batch of one member


@dataclass(frozen=True)
class TrainingPlan:
    """One training of a field ensemble."""

    phase: Phase  #: of the fit, for progress events.
    name: str  #: in messages and in the checkpoint.
    steps: int  #: length of the rollouts in the loss.
    updates: int  #: number of optimizer steps.
    rate: float  #: highest learning rate.
    noise: float = 0.0  #: standard deviation of noise on the first states, in units of their spread.
    until: float | None = None  #: end of the training by the monotonic clock; None for no limit.


@dataclass(eq=False)
class FieldTrainer:
    """Trains ensembles of field networks in one pass."""

    training: Dataset  #: rows that train.
    recipe: Recipe  #: options of the fit.
    options: FieldOptions  #: options that only fields have.
    say: Progress  #: callback that receives progress events.
    checkpoint: Checkpoint  #: checkpoint of the fit.
    updates: int = 0  #: number of updates of the last ensemble.

    @property
    def members(self) -> int:
        """Networks in the final ensemble."""
        return self.recipe.members or FIELD_MEMBERS

    def main_plan(self, name: str, until: float | None, *, noise: float, share: float = 1.0) -> TrainingPlan:
        """The training on single steps, or a `share` of it to compare candidates."""
        phase = Phase.TRAINING if share == 1.0 else Phase.SCREENING
        rate = RATE if self.recipe.learning_rate is None else self.recipe.learning_rate
        updates = field_budget(self.recipe.device).updates
        return TrainingPlan(phase, name, 1, max(1, round(share * updates)), rate, noise, until)

    def fine_plan(self, name: str, until: float | None, *, steps: int, noise: float) -> TrainingPlan:
        """A fine-tuning over several steps, or with noise on the inputs."""
        updates = field_budget(self.recipe.device).fine
        return TrainingPlan(Phase.UNROLLED, name, steps, updates, FINE_RATE, noise, until)

    def ensemble(self, frame: FieldFrame, members: int) -> FieldEnsemble:
        """Untrained networks for this frame."""
        networks = [self._network(frame, index) for index in range(members)]
        return FieldEnsemble(networks).to(self.recipe.device)

    def train(self, ensemble: FieldEnsemble, frame: FieldFrame, plan: TrainingPlan) -> FieldStep:
        """Train the ensemble in place, or continue from its checkpoint; the step with its members."""
        trainer = self.trainer(ensemble, frame, plan)

        def say(done: int, total: int, value: float) -> None:
            self.say(Event(plan.phase, done, total, f"{plan.name}, loss {number(value)}"))

        trainer.run(self.checkpoint, plan.name, say)
        self.updates = trainer.done
        ensemble.eval()
        return FieldStep(frame, tuple(ensemble.member(index).eval() for index in range(len(ensemble))))

    def trainer(self, ensemble: FieldEnsemble, frame: FieldFrame, plan: TrainingPlan) -> Trainer:
        """What trains the ensemble by this plan."""
        recipe, device = self.recipe, self.recipe.device
        examples = FieldExamples.of(self.training, frame, plan.steps, device)
        size = recipe.batch_size or max(2, min(64, _POINTS // math.prod(frame.space)))
        updates = plan.updates
        if recipe.epochs != "auto":
            full = int(recipe.epochs) * -(-len(examples) // size)
            updates = max(1, round(full * min(1.0, plan.updates / field_budget(device).updates)))
            updates = full if plan.steps > 1 else updates
        seeds = [subseed(recipe.seed, plan.name, index) >> 32 for index in range(len(ensemble))]
        noise = plan.noise * float(frame.channel_scale.mean())
        batches = UnrolledBatches(
            examples, frame.history, size, seeds, noise=noise, inputs=examples.inputs if frame.inputs else None,
            weights=examples.weights(), device=device,
        )  # fmt: skip
        scale = torch.from_numpy(frame.channel_scale * frame.gain).to(device)
        step = FieldStep(frame, [ensemble])  # type: ignore[list-item]  # an ensemble is a network with members first
        loss = unrolled_loss(step.advance_fields, frame.history, plan.steps, scale=scale)
        seconds = None if plan.until is None else max(0.0, plan.until - time.monotonic())
        options = UpdateOptions(clip=1.0, members=True, parallel=join_processes(device))
        return Trainer(ensemble, batches, loss, Schedule(updates, plan.rate, seconds=seconds), options)

    def _network(self, frame: FieldFrame, index: int) -> FieldLensNetwork:
        d = len(frame.space)
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


def odd(points: int) -> int:
    """The largest odd kernel that a grid of this many points can carry by reflection."""
    return max(1, 2 * ((points - 1) // 2) - 1)
