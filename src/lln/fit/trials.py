"""One network trained on one part of the data: in a short screening, for choosing, or on everything in the end.

Sizes follow from the shape of the data. Fine-tuning over several steps also penalises errors that grow from step to
step.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lln.core.errors import InputError
from lln.core.table import number
from lln.core.workers import Mapper, serial
from lln.data.stream import Pairs
from lln.fit.choice.holdout import Fold, Part, load
from lln.fit.choice.models import STOPS, Judgement, NetworkChoice, Work
from lln.fit.closed.linear import Mask, allowed_features
from lln.fit.defaults import DENSE_MEMBERS
from lln.fit.options import Event, Phase, Progress, Recipe, say_nothing
from lln.fit.prepare import FrameChoice, Preparer
from lln.models.factory import Ensemble, options_of
from lln.step.frame import Array, Frame
from lln.step.step import DenseStep
from lln.train.batches import Stretches, subseed, unrolled_loss
from lln.train.ensemble import CLIP, LocalityMask, ReadoutFit, Shape, gradient_mask, train_ensemble
from lln.train.loop import WARM_UP, Checkpoint, Schedule, Trainer, UpdateOptions

DEPTH = 3
BASIS = 12
OPTICAL_LENGTH = 1.0
# The paper's comparators at their shallowest: 128 wide, two layers. A lens network is given a fifth of their
# parameters.
COMPARATOR_WIDTH = 128
COMPARATOR_DEPTH = 2
SHARE = 5
MOST_RAYS_PER_POINT = 4

UPDATES = 3000
SCREENING = 0.2
_LEAST_UPDATES = 600
_MANY_PAIRS = 20_000


def parameter_budget(features: int, outputs: int, pairs: int) -> int:
    """How many parameters one member may have; more where there is far more data."""
    h = COMPARATOR_WIDTH
    comparator = h * (features + 1) + COMPARATOR_DEPTH * h * (h + 1) + outputs * (h + 1)
    more = min(8.0, max(1.0, (pairs / _MANY_PAIRS) ** 0.5))
    return int(comparator / SHARE * more)


def dense_width(features: int, outputs: int, pairs: int, depth: int, basis: int) -> int:
    """Rays of a member that sees every feature."""
    budget = parameter_budget(features, outputs, pairs) - outputs
    return max(16, min(1024, budget // (2 * (features + 1) + outputs + depth * basis)))


def rays_per_point(near: int, outputs: int, features: int, pairs: int, depth: int, basis: int) -> int:
    """Rays at each point of a grid for a member whose rays see `near` features and reach one output."""
    budget = parameter_budget(features, outputs, pairs) - outputs
    return max(1, min(MOST_RAYS_PER_POINT, budget // (outputs * (2 * (near + 1) + 1 + depth * basis))))


def updates_for(pairs: int, batch: int, epochs: int | None) -> int:
    """Optimizer steps of a whole training: what `epochs` says, or enough for the data and no more than a minute's."""
    each = -(-pairs // batch)
    if epochs is not None:
        return max(1, epochs * each)
    # Few pairs are soon overfitted; very many are passed over a few times, within bounds.
    return int(min(2 * UPDATES, max(_LEAST_UPDATES, min(UPDATES, 300 * each), each)))


def shape_of(
    model: str, given: dict[str, Any], n_in: int, n_out: int, pairs: int, near: Mask | None, history: int
) -> Shape:
    """The networks for this many features, coordinates and pairs.

    Args:
        model: name of the network.
        given: sizes that the user has chosen.
        n_in: number of features F.
        n_out: number of coordinates n.
        pairs: number of pairs that train.
        near: which coordinates are neighbours, (n, n); None without a grid.
        history: number of states H in a window.
    """
    if model != "lens":
        plain = {"width": COMPARATOR_WIDTH, "depth": COMPARATOR_DEPTH}
        wanted = {**plain, **{key: given[key] for key in plain if key in given}}
        known = options_of(model)
        return Shape(model, {key: value for key, value in wanted.items() if key in known}, n_in, n_out)
    options: dict[str, Any] = {"depth": DEPTH, "basis": BASIS, "optical_length": OPTICAL_LENGTH, **given}
    depth, basis = options["depth"], options["basis"]
    if near is None:
        options.setdefault("width", dense_width(n_in, n_out, pairs, depth, basis))
        return Shape(model, options, n_in, n_out)
    seen = allowed_features(near, history, n_in - n_out * history)
    most = int(seen.sum(axis=1).max())
    each = rays_per_point(most, n_out, n_in, pairs, depth, basis)
    if "width" in given:
        each = max(1, round(given["width"] / n_out))
    options["width"] = each * n_out
    own = np.repeat(np.eye(n_out, dtype=bool), each, axis=1)
    return Shape(model, options, n_in, n_out, LocalityMask(np.repeat(seen, each, axis=0), own))


BATCH = 256
LENS_RATE = 1e-2
COMPARATOR_RATE = 2e-3
# Of the time that is left when each begins. Judging takes some too, and fine-tuning about as much as training.
_SHARE_OF_TIME = {Phase.SCREENING: 0.25, Phase.CHOOSING: 0.4, Phase.REFIT: 0.65}
_JUDGING = 0.3
_START_READOUT = 1e-7
_ROWS = 16384


@dataclass(frozen=True)
class Stage:
    """One training within a fit."""

    phase: Phase  #: screening, choosing or refit.
    index: int = 1  #: which one of its phase, from 1.
    total: int = 1  #: how many there are.

    @property
    def screening(self) -> bool:
        """Whether it is short, to see which candidates are worth more."""
        return self.phase is Phase.SCREENING


@dataclass(eq=False)
class Trials:
    """Trains candidates."""

    preparer: Preparer  #: prepares the data.
    recipe: Recipe  #: options of the fit.
    seeds: tuple[int, ...]  #: one for each group of members.
    noisy: bool  #: whether observations are noisy.
    progress: Progress  #: callback that receives an Event.
    checkpoint: Checkpoint  #: the checkpoint.
    deadline: float | None = None  #: by `time.monotonic`, when everything should be done; None for no limit.
    mapper: Mapper = serial  #: calls the trainings that screen candidates.
    screened_by: float | None = None  #: when screening should be done, once it has begun.

    @property
    def unroll(self) -> int:
        """Steps of the fine-tuning over several steps; 0 for none."""
        given = self.recipe.unroll
        return given if isinstance(given, int) else STEPS_WHEN_NOISY if self.noisy else 0

    def screened(
        self, fold: Fold, candidates: Sequence[FrameChoice], scale: Array, groups: Sequence[int]
    ) -> Iterator[Judgement]:
        """Judge every candidate after a short training; what the checkpoint knows is not trained again."""
        stages = [Stage(Phase.SCREENING, index + 1, len(candidates)) for index in range(len(candidates))]
        names = [_name(*one) for one in zip(stages, candidates, strict=True)]
        pieces = [(fold, candidate, scale, stage, groups) for candidate, stage in zip(candidates, stages, strict=True)]
        unknown = [piece for name, piece in zip(names, pieces, strict=True) if self._known(name) is None]
        found = self.mapper(_screen, self, unknown)
        for name in names:
            judgement = self._known(name) or next(found)
            self._keep(name, judgement)
            yield judgement

    def _known(self, name: str) -> Judgement | None:
        stored = self.checkpoint.get(f"{name} judged")
        if stored is None:
            return None
        settings = [NetworkChoice(*row[0]) for row in stored[0]]
        # Of checkpoints of earlier versions, what is known of all lead times serves for the last.
        errors, late = ([np.asarray(row[at]) for row in stored[0]] for at in (1, -1))
        return Judgement(dict(zip(settings, errors, strict=True)), dict(zip(settings, late, strict=True)))

    def _keep(self, name: str, found: Judgement) -> None:
        """Write a judgement to the checkpoint."""
        if self.checkpoint.get(f"{name} judged") is None:
            rows = [
                [[s.stop, s.readout, s.correction_weight], errors.tolist(), found.late[s].tolist()]
                for s, errors in found.errors.items()
            ]
            self.checkpoint.put(f"{name} judged", rows)

    def judge(self, fold: Fold, candidate: FrameChoice, scale: Array, stage: Stage, groups: Sequence[int]) -> Judgement:
        """Train on what `fold` leaves, and judge on what it holds out."""
        name = _name(stage, candidate)
        known = self._known(name)
        if known is not None:
            return known
        work = self.train(fold.train, candidate, stage, groups)
        windows = load(self.preparer.dataset, fold, candidate.history, scale)
        found = work.judge(windows, len(groups))
        if stage.screening:
            self.checkpoint.drop(name)
        self._keep(name, found)
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
            self.progress(Event(stage.phase, done, total, f"loss {number(loss)}", *which))

        name = _name(stage, candidate)
        trained = train_ensemble(
            shape, source, seeds, schedule, recipe.device,
            size=batch, checkpoint=self.checkpoint, phase=name, progress=say,
        )  # fmt: skip
        allowed = None if shape.mask is None else shape.mask.outputs(recipe.device)
        work = Work(ready, frame, shape, source, trained, allowed, self.unroll)
        if self.unroll and not stage.screening and ready.in_memory:
            self._fine_tune(work, seeds, RATE * schedule.rate, batch, name)
        return work

    def _fine_tune(self, work: Work, seeds: Sequence[int], rate: float, batch: int, name: str) -> None:
        """Add a snapshot that was trained over several steps, from the last one on."""
        stored = self.checkpoint.get(f"{name} unrolled")
        model, device = work.trained.model, self.recipe.device
        if stored is not None:
            work.trained.snapshots.append({key: t.to(device) for key, t in stored[1].items()})
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
        self.checkpoint.put(f"{name} unrolled", {}, state)
        self.progress(Event(Phase.UNROLLED, 1, 1))

    def _schedule(self, pairs: int, stage: Stage) -> tuple[Schedule, int]:
        """The schedule of a training, and pairs in one batch."""
        recipe = self.recipe
        batch = min(recipe.batch_size or BATCH, max(16, pairs // 8))
        updates = updates_for(pairs, batch, None if recipe.epochs == "auto" else int(recipe.epochs))
        rate = recipe.learning_rate or rate_of(recipe.model)
        seconds = self._seconds(stage)
        if not stage.screening:
            return Schedule(updates, rate, warm_up=WARM_UP, stops=STOPS, seconds=seconds), batch
        fewer = max(1, round(SCREENING * updates))
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
        return {**state, "progress": say_nothing, "checkpoint": Checkpoint(None, ""), "mapper": serial}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self.deadline is not None:
            self.deadline += time.monotonic()


def _screen(trials: Trials, piece: tuple[Fold, FrameChoice, Array, Stage, Sequence[int]]) -> Judgement:
    return trials.judge(*piece)


def rate_of(model: str) -> float:
    """The learning rate that a kind of network gets by default."""
    return LENS_RATE if model == "lens" else COMPARATOR_RATE


def _name(stage: Stage, candidate: FrameChoice) -> str:
    """Of a training, in the checkpoint."""
    naive = "" if candidate.naive == "last" else f" {candidate.naive} {candidate.season}"
    level = "" if candidate.level else " changes"
    return f"{stage.phase} H{candidate.history} reach {candidate.radius} ridge {candidate.ridge}{naive}{level}"


def check_device(device: str) -> None:
    """Refuse a device that this machine or this build of torch does not have."""
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"device {device!r} cannot be used here ({str(error).splitlines()[0]}); try 'cpu'") from None


STEPS_WHEN_NOISY = 8
RATE = 0.1  # of the main training's


def stretches(held: Pairs, steps: int, device: str) -> Stretches | None:
    """Runs of `steps` consecutive pairs; None if there is none."""
    index = held.index
    count = len(index) - steps + 1
    if count < 1:
        return None
    ends = index[steps - 1 :]
    runs = (ends[:, 0] == index[:count, 0]) & (ends[:, 1] - index[:count, 1] == steps - 1)
    first = np.flatnonzero(runs)
    if not len(first):
        return None

    def at(values: NDArray[Any]) -> Tensor:
        return torch.from_numpy(values).to(device)

    return Stretches(
        at(held.window), at(held.target), None if held.inputs is None else at(held.inputs), at(first), steps
    )


def fine_tune(
    model: Ensemble,
    frame: Frame,
    data: Stretches,
    mask: Callable[[], None] | None,
    seeds: Sequence[int],
    *,
    updates: int,
    batch: int,
    rate: float,
) -> None:
    """Train every member in place so that its own rollouts over a few steps follow the data."""
    unit = torch.from_numpy(frame.scale * np.where(frame.gain > 0, frame.gain, 1.0)).to(data.window.device)
    step = DenseStep(frame, [model])

    def advance(past: Sequence[Tensor], known: Tensor | None) -> Tensor:
        return step.advance(torch.stack(list(past), dim=-2), known)

    loss = unrolled_loss(advance, frame.history, data.steps, scale=unit, growing=True)
    options = UpdateOptions(clip=CLIP, members=True, mask=mask)
    Trainer(model, lambda k: data.batch(k, batch, seeds), loss, Schedule(updates, rate), options).run()
    model.eval()
