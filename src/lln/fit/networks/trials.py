"""One candidate trained on one part of the data: in a short screening, for choosing, or on everything in the end."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lln.core.errors import InputError
from lln.core.seeding import subseed
from lln.core.workers.mapping import Mapper, serial
from lln.fit.choice.holdout import Fold, Part, load
from lln.fit.choice.network_choice import Judgement, NetworkChoice, adopt, judge
from lln.fit.defaults import DENSE_MEMBERS
from lln.fit.networks import sizes
from lln.fit.networks.sizes import shape_of
from lln.fit.networks.unrolled import RATE, STEPS_WHEN_NOISY, fine_tune, stretches
from lln.fit.options import Event, Phase, Recipe
from lln.fit.prepare import FrameChoice, PreparedData, Preparer
from lln.step.dense import DenseStep
from lln.step.frame import Array, Frame
from lln.train.batches import Batches
from lln.train.checkpoint import Checkpoint
from lln.train.ensemble import ReadoutFit, Shape, Trained, gradient_mask, train_ensemble
from lln.train.loop import WARM_UP, Schedule

Progress = Callable[[Event], None]

BATCH = 256
LENS_RATE = 1e-2
COMPARATOR_RATE = 2e-3
STOPS = (0.6, 0.8, 1.0)
# Of the time that is left when each begins. Judging takes some too, and fine-tuning about as much as training.
_SHARE_OF_TIME = {Phase.SCREENING: 0.25, Phase.CHOOSING: 0.4, Phase.REFIT: 0.65}
_JUDGING = 0.3
_START_READOUT = 1e-7
_ROWS = 16384


@dataclass(frozen=True)
class Stage:
    """One training within a fit.

    Attributes:
        phase: screening, choosing or refit.
        index: which one of its phase, from 1.
        total: how many there are.
    """

    phase: Phase
    index: int = 1
    total: int = 1

    @property
    def screening(self) -> bool:
        """Whether it is short, to see which candidates are worth more."""
        return self.phase is Phase.SCREENING


@dataclass(frozen=True, eq=False)
class Work:
    """A trained candidate with all that was used."""

    ready: PreparedData
    frame: Frame
    shape: Shape
    source: Batches
    trained: Trained
    allowed: Tensor | None
    unroll: int

    @property
    def unexplained(self) -> float:
        """Root mean square of one-step errors against that of the change."""
        return math.sqrt(float(np.mean(self.trained.loss))) * self.ready.unexplained(self.frame)

    def step(self, setting: NetworkChoice, groups: Sequence[int], group: int) -> DenseStep:
        """The step of one of the groups that were trained, with the networks as `setting` uses them."""
        model = adopt(self.trained, setting, self.source, self.allowed)
        each = len(model) // len(groups)
        first = groups.index(group) * each
        members = tuple(model.member(first + index) for index in range(each))
        return DenseStep(replace(self.frame, gain=self.frame.gain * setting.correction_weight), members)

    def unrolled_by(self, setting: NetworkChoice | None) -> int:
        """Steps of the fine-tuning that this setting has had."""
        return self.unroll if setting is not None and setting.stop >= len(STOPS) else 0


class Trials:
    """Trains candidates.

    Args:
        preparer: prepares the data.
        recipe: options of the fit.
        seeds: one for each group of members.
        noisy: whether observations are noisy.
        progress: callback that receives an Event.
        kept: the checkpoint.
        deadline: time, as of `time.monotonic`, by which everything should be done; None for no limit.
        mapper: calls the trainings that screen candidates.
    """

    def __init__(
        self,
        preparer: Preparer,
        recipe: Recipe,
        seeds: tuple[int, ...],
        noisy: bool,
        progress: Progress,
        kept: Checkpoint,
        deadline: float | None = None,
        mapper: Mapper = serial,
    ) -> None:
        self.mapper = mapper
        self.preparer, self.recipe, self.seeds, self.progress, self.kept = preparer, recipe, seeds, progress, kept
        self.deadline = deadline
        self.screened_by: float | None = None
        self.unroll = recipe.unroll if isinstance(recipe.unroll, int) else STEPS_WHEN_NOISY if noisy else 0

    def screened(
        self, fold: Fold, candidates: Sequence[FrameChoice], scale: Array, groups: Sequence[int]
    ) -> Iterator[Judgement]:
        """Judge every candidate after a short training; what the checkpoint knows is not trained again."""
        every = [
            _Screening(fold, candidate, scale, Stage(Phase.SCREENING, index + 1, len(candidates)), groups)
            for index, candidate in enumerate(candidates)
        ]
        found = self.mapper(_screen, self, [one for one in every if self._known(one.stage, one.candidate) is None])
        for one in every:
            judgement = self._known(one.stage, one.candidate) or next(found)
            self._keep(one.stage, one.candidate, judgement)
            yield judgement

    def _known(self, stage: Stage, candidate: FrameChoice) -> Judgement | None:
        kept = self.kept.get(f"{stage.phase} {_title(candidate)} judged")
        return None if kept is None else Judgement({NetworkChoice(*row[0]): np.asarray(row[1]) for row in kept[0]})

    def _keep(self, stage: Stage, candidate: FrameChoice, found: Judgement) -> None:
        """Write a judgement to the checkpoint."""
        name = f"{stage.phase} {_title(candidate)}"
        if self.kept.get(f"{name} judged") is None:
            rows = [[[s.stop, s.readout, s.correction_weight], errors.tolist()] for s, errors in found.errors.items()]
            self.kept.put(f"{name} judged", rows)

    def judge(self, fold: Fold, candidate: FrameChoice, scale: Array, stage: Stage, groups: Sequence[int]) -> Judgement:
        """Train on what `fold` leaves, and judge on what it holds out."""
        known = self._known(stage, candidate)
        if known is not None:
            return known
        work = self.train(fold.train, candidate, stage, groups)
        windows = load(self.preparer.dataset, fold, candidate.history, scale)
        found = judge(work.trained, work.frame, windows, work.source, work.allowed, len(groups))
        if stage.screening:
            self.kept.drop(f"{stage.phase} {_title(candidate)}")
        self._keep(stage, candidate, found)
        return found

    def train(
        self, parts: tuple[Part, ...] | None, candidate: FrameChoice, stage: Stage, groups: Sequence[int]
    ) -> Work:
        """Train the members of some groups, or take up what the checkpoint has of it."""
        recipe = self.recipe
        ready = self.preparer.prepare(parts, candidate.history)
        frame = ready.with_gain(ready.linear(candidate))
        near = ready.near(candidate.radius)
        shape = shape_of(recipe.model, recipe.sizes, frame.features, frame.size, ready.pairs, near, candidate.history)
        source = ready.source(frame, recipe.device, subseed(recipe.seed, "stream"))
        members = 1 if stage.screening else recipe.members or DENSE_MEMBERS
        seeds = [subseed(self.seeds[group], "member", index) for group in groups for index in range(members)]
        schedule, batch = self._schedule(ready.pairs, stage)

        def say(done: int, total: int, loss: float) -> None:
            which = (stage.index, stage.total) if stage.total > 1 else (0, 0)
            self.progress(Event(stage.phase, done, total, f"loss {loss:.2e}", *which))

        name = f"{stage.phase} {_title(candidate)}"
        trained = train_ensemble(
            shape, source, seeds, schedule, recipe.device, size=batch, checkpoint=self.kept, phase=name, progress=say
        )
        allowed = None if shape.mask is None else shape.mask.outputs(recipe.device)
        work = Work(ready, frame, shape, source, trained, allowed, self.unroll)
        if self.unroll and not stage.screening and ready.in_memory:
            self._fine_tune(work, seeds, RATE * schedule.rate, batch, name)
        return work

    def _fine_tune(self, work: Work, seeds: Sequence[int], rate: float, batch: int, name: str) -> None:
        """Add a snapshot that was trained over several steps, from the last one on."""
        kept = self.kept.get(f"{name} unrolled")
        model, device = work.trained.model, self.recipe.device
        if kept is not None:
            work.trained.snapshots.append({key: t.to(device) for key, t in kept[1].items()})
            return
        held = work.ready.held
        data = None if held is None else stretches(held, self.unroll, device)
        if data is None:
            return
        self.progress(Event(Phase.UNROLLED, 0, 1))
        model.load_state_dict(work.trained.snapshots[-1])
        ReadoutFit(model, *work.source.some(_ROWS), work.allowed).apply(_START_READOUT)
        updates = max(50, work.trained.updates // (2 * self.unroll))
        mask = gradient_mask(model, work.shape.mask)
        fine_tune(model, work.frame, data, mask, seeds, updates=updates, batch=batch, rate=rate)
        state: dict[str, Any] = {key: t.detach().clone() for key, t in model.state_dict().items()}
        work.trained.snapshots.append(state)
        self.kept.put(f"{name} unrolled", {}, state)
        self.progress(Event(Phase.UNROLLED, 1, 1))

    def _schedule(self, pairs: int, stage: Stage) -> tuple[Schedule, int]:
        """The schedule of a training, and pairs in one batch."""
        recipe = self.recipe
        batch = min(recipe.batch_size or BATCH, max(16, pairs // 8))
        updates = sizes.updates_for(pairs, batch, None if recipe.epochs == "auto" else int(recipe.epochs))
        rate = recipe.learning_rate or rate_of(recipe.model)
        seconds = self._seconds(stage)
        if not stage.screening:
            return Schedule(updates, rate, warm_up=WARM_UP, stops=STOPS, seconds=seconds), batch
        fewer = max(1, round(sizes.SCREENING * updates))
        return Schedule(fewer, rate, warm_up=WARM_UP, stops=(1.0,), seconds=seconds), batch

    def _seconds(self, stage: Stage) -> float | None:
        """How long the training of a stage that begins now may take."""
        if self.deadline is None:
            return None
        now = time.monotonic()
        left = max(0.0, self.deadline - now)
        if stage.screening:
            if self.screened_by is None:
                self.screened_by = now + _SHARE_OF_TIME[stage.phase] * left
            return (1 - _JUDGING) * max(0.0, self.screened_by - now) / (stage.total - stage.index + 1)
        last = stage.phase is Phase.CHOOSING and not self.recipe.refit
        return _SHARE_OF_TIME[Phase.REFIT if last else stage.phase] * left / (2 if self.unroll else 1)

    def __getstate__(self) -> dict[str, Any]:
        left = None if self.deadline is None else self.deadline - time.monotonic()  # clocks of machines differ
        state = {**self.__dict__, "deadline": left, "screened_by": None}
        return {**state, "progress": _say_nothing, "kept": Checkpoint(None, ""), "mapper": serial}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self.deadline is not None:
            self.deadline += time.monotonic()


@dataclass(frozen=True, eq=False)
class _Screening:
    """One short training, to see what a candidate is worth."""

    fold: Fold
    candidate: FrameChoice
    scale: Array
    stage: Stage
    groups: Sequence[int]


def _screen(trials: Trials, one: _Screening) -> Judgement:
    return trials.judge(one.fold, one.candidate, one.scale, one.stage, one.groups)


def _say_nothing(event: Event) -> None:
    del event


def rate_of(model: str) -> float:
    """The learning rate that a kind of network gets by default."""
    return LENS_RATE if model == "lens" else COMPARATOR_RATE


def _title(candidate: FrameChoice) -> str:
    naive = "" if candidate.naive == "last" else f" {candidate.naive} {candidate.season}"
    level = "" if candidate.level else " changes"
    return f"H{candidate.history} reach {candidate.radius} ridge {candidate.ridge}{naive}{level}"


def check_device(device: str) -> None:
    """Refuse a device that this machine or this build of torch does not have."""
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"device {device!r} cannot be used here ({str(error).splitlines()[0]}); try 'cpu'") from None
