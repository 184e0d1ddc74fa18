"""From a dataset of fields to a step: split, candidates, scores, choice, refit and report.

Closed-form convolutions are tried first, "no linear part" among them, then polynomials of every point beside the best
convolution, then lens networks whose readout is solved. Where these leave much over, networks are trained in the best
convolution and without a closed-form part, compared after a short training, and the better frame is trained in full,
unless it is far behind the closed forms by then.
Candidates are scored on held-out rollouts, and rollouts well beyond the longest trajectory of training must stay where
the data was; where they do not, noise on the inputs, training over several steps and a smaller correction are tried in
turn.

Closed-form parts that do best are solved again on everything. Networks are not trained a second time: that would
double the cost of a fit, and every point of every field is an example already.
"""

from __future__ import annotations

import hashlib
import math
import time
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from lln.core.errors import InputError
from lln.core.workers import Mapper, serial
from lln.data.series import Dataset
from lln.fit.choice.holdout import Fold, Part, folds
from lln.fit.choice.noise_and_seasons import estimate_noise
from lln.fit.defaults import CORRECTION_WEIGHTS, VALIDATION, field_budget
from lln.fit.fields.closed import ENOUGH, LONG_RUN, ClosedParts, Linear
from lln.fit.fields.data import Grid, channel_range, conserves, empty_frame, grid_of, spectral_radius, standardised
from lln.fit.fields.judge import SLACK, FieldJudge, Stay
from lln.fit.fields.lenses import LensChoice, LensSearch
from lln.fit.fields.training import FieldOptions, FieldTrainer
from lln.fit.options import Event, Fit, FitReport, Phase, Progress, Recipe, TimeLimit, filled_in, say_nothing
from lln.fit.report.report import measure_skill
from lln.fit.trials import STEPS_WHEN_NOISY
from lln.step.field import FieldStep
from lln.step.field_frame import FieldFrame
from lln.train.loop import Checkpoint, identity_of

__all__ = ["FieldFitting", "FieldOptions", "fit_field_surrogate"]

MARGIN = math.log(1.5)
_BEYOND = 0.25  # of the range of the data: how far rollouts of lenses in closed form may leave it
# Closed-form lenses that err by less, or that leave less of what the other closed forms leave, need no training.
SETTLED, EXPLAINED = math.log(1e-4), math.log(100.0)
# A short training that errs by so much more than a closed form is not continued: the rest gains less.
HOPELESS = math.log(30.0)
_SCREENING, _MAIN = 0.25, 0.8  # of the time that is left, for comparing frames and for the main training
# Shares of a time limit: linear parts end by then, the choice is made by then (lenses are solved again after it), and
# the model is solved again by then; the rest is for the report.
_LINEAR_BY, _CHOSEN_BY, _CHOSEN_BY_WITH_LENSES, _REFIT_BY = 0.3, 0.85, 0.65, 0.9
# Fine-tunings that are tried in turn where long rollouts leave the data: name, noise on the inputs, steps in the loss.
TREATMENTS = (("noise 0.01", 0.01, 1), ("noise and 4 steps", 0.003, 4), ("noise 0.03", 0.03, 1))


@dataclass(frozen=True, eq=False)
class Scored:
    """A field step with its scores."""

    step: FieldStep  #: the step.
    linear: Linear  #: its linear part.
    weight: float  #: of the networks' correction; 0 for the linear part alone.
    error: float  #: log error of held-out rollouts.
    stay: Stay  #: result of long rollouts.
    lenses: LensChoice | None = None  #: settings of a lens network in closed form; None for no such network.

    @property
    def part(self) -> str:
        """Its part, as reports name it."""
        if self.lenses is not None:
            return "lens"
        return "network" if self.weight else "polynomial" if self.linear.degree > 1 else "linear"


@dataclass(frozen=True, eq=False)
class FieldDecision:
    """What a field fit has chosen."""

    best: Scored  #: the step.
    linear: Linear  #: the best linear part, for comparison.
    updates: int = 0  #: of the training of its networks.
    unroll: int = 0  #: steps of a fine-tuning over several steps.


def fit_field_surrogate(
    dataset: Dataset,
    recipe: Recipe,
    *,
    options: FieldOptions | None = None,
    progress: Progress | None = None,
    checkpoint: Path | None = None,
    mapper: Mapper = serial,
) -> Fit:
    """Learn one step of fields on a grid; see `lln.fit.learn.learn` for the arguments."""
    began, chosen = time.monotonic(), options or FieldOptions()
    store = Checkpoint(checkpoint, identity_of({**field_identity(dataset, recipe, chosen), "field": True}))
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused when pairs are made
        fitting = FieldFitting(dataset, recipe, chosen, progress or say_nothing, store, mapper)
    fit = fitting.finish()[0]
    store.remove()
    return replace(fit, report=replace(fit.report, seconds=time.monotonic() - began))


def field_identity(dataset: Dataset, recipe: Recipe, options: FieldOptions) -> dict[str, Any]:
    """Everything that a fit depends on, by which its checkpoint is known."""
    static = None if options.static is None else np.ascontiguousarray(options.static, dtype=np.float64)
    seen = None if static is None else hashlib.sha256(static.tobytes()).hexdigest()
    return {**recipe.record(), **vars(options), "static": seen, "dataset": dataset.digest()}


class FieldFitting:
    """One fit in progress. `limit` has begun already; None begins the one of the recipe."""

    def __init__(
        self,
        dataset: Dataset,
        recipe: Recipe,
        options: FieldOptions,
        say: Progress,
        checkpoint: Checkpoint | None = None,
        mapper: Mapper = serial,
        limit: TimeLimit | None = None,
    ) -> None:
        self.dataset, self.recipe, self.options, self.say = dataset, recipe, options, say
        self.checkpoint = Checkpoint(None, "") if checkpoint is None else checkpoint
        self.limit = limit or TimeLimit(recipe.time_limit)
        lenses = "lens" in recipe.tried_parts
        self.choosing = self.limit.first(_CHOSEN_BY_WITH_LENSES if lenses else _CHOSEN_BY)
        self.grid: Grid = grid_of(dataset, options.boundary)
        self.fold: Fold = folds(dataset, recipe.validation or VALIDATION)[-1]
        self.judge = FieldJudge(dataset, self.fold, self.limit)
        self.training = dataset.select(self.fold.train)
        self.noise = estimate_noise(self.training)
        self.notes = list(self.grid.notes)
        self.conserve = self._conserve()
        self.static = standardised(options.static, self.grid.space)
        self.reserve = 0.0  # seconds that one judgement takes
        self.solving = 0.0  # seconds that it takes to solve a linear part
        self.rows: list[dict[str, Any]] = []
        self.closed = ClosedParts(
            self.training, self.grid, self.judge, recipe, options, self.conserve, say, self.checkpoint, mapper,
            self.limit.first(_LINEAR_BY),
        )  # fmt: skip
        self.lenses = LensSearch(self.training, self.judge, recipe.seed, say, self.choosing)
        self.trainer = FieldTrainer(self.training, recipe, options, say, self.checkpoint)

    @cached_property
    def chosen(self) -> FieldDecision:
        """What is used: candidates are solved or trained, scored and chosen here."""
        linear, frame = self.linear_part()
        alone = self._scored(FieldStep(_with_gain(frame, 0.0)), linear, 0.0, linear.error)
        if linear.error < ENOUGH:
            return FieldDecision(alone, linear)
        closed = self._closed(alone)
        if "network" not in self.recipe.tried_parts or _settled(closed, alone):
            return FieldDecision(closed, linear)
        unroll = self._unroll()
        if self.choosing.seconds is not None:
            untrained = self.trainer.ensemble(frame, self.trainer.members)
            step = FieldStep(frame, tuple(untrained.member(index) for index in range(len(untrained))))
            self.reserve = self.judge.seconds(step, len(CORRECTION_WEIGHTS))
            # A network that was asked for is trained all the same, as long as its first updates take.
            if "lens" in self.recipe.tried_parts and not self.choosing.allows(2.0 * self.reserve, "trained networks"):
                return FieldDecision(closed, linear)
        chosen, frame, noise, screened = self._compared(linear, frame)
        if screened is not None and "lens" in self.recipe.tried_parts and _far_behind(screened, closed):
            self.notes.append("networks were not trained in full: they were far behind lenses in closed form")
            return FieldDecision(closed, linear)
        ensemble = self.trainer.ensemble(frame, self.trainer.members)
        step = self.trainer.train(ensemble, frame, self.trainer.main_plan("training", self._until(_MAIN), noise=noise))
        updates = self.trainer.updates
        best = self._weighed(step, chosen)
        if unroll > 1 and self._has_time():
            name = f"training over {unroll} steps"
            plan = self.trainer.fine_plan(name, self._until(_MAIN), steps=unroll, noise=noise)
            best = self._weighed(self.trainer.train(ensemble, frame, plan), chosen)
        for name, noise, steps in TREATMENTS:
            if best.stay.bounded or not self._has_time():
                break
            plan = self.trainer.fine_plan(f"fine-tuning, {name}", self._until(_MAIN), steps=steps, noise=noise)
            treated = self._weighed(self.trainer.train(ensemble, frame, plan), chosen)
            before, after = best.stay, treated.stay
            self.notes.append(
                f"{before.left} of {before.starts} rollouts over {before.steps} steps left the region of the data; "
                f"after fine-tuning with {name}: {after.left} (held-out error {math.exp(treated.error):.2g})"
            )
            if treated.stay.left < best.stay.left:
                best, unroll = treated, max(unroll, steps if steps > 1 else 0)
        return FieldDecision(self._better(best, closed), linear, updates, unroll)

    def _bare(self, rows: Dataset, history: int) -> FieldFrame:
        """A frame without closed-form parts, whose states are bounded unless held-out rows leave the bounds."""
        frame = replace(empty_frame(rows, self.grid, history, self.conserve), static=self.static)
        low, high = channel_range(self.training, frame.channels)
        margin = _BEYOND * (high - low)
        least, most = channel_range(self.dataset, frame.channels)
        if (least < low - margin).any() or (most > high + margin).any():
            return frame
        return replace(frame, low=least - margin, high=most + margin)

    def _closed(self, alone: Scored) -> Scored:
        """The best closed form: `alone`, or a lens network whose readout is solved."""
        asked = any(getattr(self.options, name) is not None for name in ("kernel", "blocks", "hidden", "noise"))
        if "lens" not in self.recipe.tried_parts or self.conserve == "flux" or (asked and self.recipe.parts == "auto"):
            return alone  # what is asked for is a trained network
        histories = (
            dict.fromkeys((1, alone.linear.history)) if self.recipe.history == "auto" else (alone.linear.history,)
        )
        found = self.lenses.best([self._bare(self.training, history) for history in histories], alone.error)
        self.rows += self.lenses.tried
        if found is None:
            return alone
        linear = Linear(found.step.frame.history, found.choice.linear_kernel, found.choice.ridge, alone.error)
        return self._better(Scored(found.step, linear, 1.0, found.error, found.stay, found.choice), alone)

    def _compared(self, linear: Linear, frame: FieldFrame) -> tuple[Linear, FieldFrame, float, Scored | None]:
        """The linear part, or none, and the noise on the inputs with which networks do best after a short training.

        The last value is how they do then; None where there was nothing to compare.
        """
        budget = field_budget(self.recipe.device)
        frames = [(linear, frame)]
        if self.recipe.ridge == "auto" and linear.kernel is not None:
            none = next(one for one in self.closed.tried if one.history == linear.history and one.kernel is None)
            frames.append((none, self.solved(self.fold.train, none)))
        noises = budget.noises if self.options.noise is None else (self.options.noise,)
        pairs = [(part, around, noise) for part, around in frames for noise in noises]
        if len(pairs) == 1 or not self._has_time(2.0 * len(pairs)):
            return *pairs[0], None
        until, found = self._until(_SCREENING), []
        for index, (part, around, noise) in enumerate(pairs):
            name = f"comparing frames, {_frame_name(part)}, noise {noise:g}"
            end = None if until is None else time.monotonic() + (until - time.monotonic()) / (len(pairs) - index)
            ensemble = self.trainer.ensemble(around, 1)
            plan = self.trainer.main_plan(name, end, noise=noise, share=budget.screening)
            found.append(self._weighed(self.trainer.train(ensemble, around, plan), part))
        best = min(range(len(pairs)), key=lambda k: (found[k].stay.left, found[k].error))
        tried = "; ".join(
            f"{_frame_name(part)}, noise {noise:g}: {math.exp(one.error):.2g}, {one.stay.left} of {one.stay.starts}"
            for (part, _, noise), one in zip(pairs, found, strict=True)
        )
        self.notes.append(f"after a short training (held-out error, long rollouts that left the data): {tried}")
        return *pairs[best], found[best]

    def _weighed(self, step: FieldStep, linear: Linear) -> Scored:
        """The step with the weight of the correction that does best; of those that stay, where any does."""
        found: list[tuple[float, float, FieldStep]] = []
        for index, weight in enumerate(CORRECTION_WEIGHTS[::-1]):
            if found and self.choosing.left() < 0.5 * self.reserve:
                break  # the whole correction comes first
            self.say(Event(Phase.WEIGHT, index, len(CORRECTION_WEIGHTS)))
            tried = step.replace(frame=_with_gain(step.frame, weight))
            found.append((self.judge.rough(tried), weight, tried))
        found.sort(key=lambda one: one[0])
        scored: list[Scored] = []
        for rough, weight, tried in found:
            if scored and rough > found[0][0] + MARGIN:  # too much is lost for a bounded rollout
                break
            scored.append(self._scored(tried, linear, weight, self.judge.error(tried, rough)))
            if scored[-1].stay.bounded:
                break
        best = min(scored, key=lambda one: (one.stay.left, one.error))
        self.rows.append({"kernel": linear.kernel, "correction_weight": best.weight, "nmse": math.exp(best.error),
                          "left": best.stay.left, "starts": best.stay.starts})  # fmt: skip
        return best

    def _scored(self, step: FieldStep, linear: Linear, weight: float, error: float) -> Scored:
        return Scored(step, linear, weight, error, self.judge.stay(step))

    def _better(self, best: Scored, simple: Scored) -> Scored:
        """`best`, where it is clearly better on held-out rollouts and leaves the data no more often than `simple`."""
        if best.stay.left > simple.stay.left and (self.noise.matters or simple.lenses is not None):
            return simple
        return best if best.error < simple.error - MARGIN else simple

    def _until(self, share: float) -> float | None:
        """The end of a training that may take this share of the time that is left."""
        left = self.choosing.left()
        if math.isinf(left):
            return None
        return time.monotonic() + min(share * left, max(0.0, left - self.reserve))

    def _has_time(self, judgements: float = 2.0) -> bool:
        """Whether so many judgements fit into the time that is left."""
        return self.choosing.allows(judgements * self.reserve, "comparisons and fine-tunings of networks")

    def _conserve(self) -> str:
        fixed = any(side == "dirichlet" for pair in self.grid.boundary for side in pair)
        conserve = self.options.conserve
        if conserve == "auto":
            conserve = "mean" if not fixed and conserves(self.training) else "none"
            if conserve == "mean":
                self.notes.append("the data conserves the mean of every channel, so the model does too; "
                                  "conserve='none' turns this off")  # fmt: skip
        if conserve != "none" and fixed:
            raise InputError("dirichlet boundaries do not conserve the mean; use conserve='none'")
        return conserve

    def _unroll(self) -> int:
        if self.recipe.unroll == "auto":
            return STEPS_WHEN_NOISY if self.noise.matters else 0
        return int(self.recipe.unroll)

    def linear_part(self) -> tuple[Linear, FieldFrame]:
        """The closed-form parts that roll out best over what was held out, and a frame with the gain they leave."""
        ranked = self.closed.ranked()
        began = time.monotonic()
        frame = self.solved(self.fold.train, ranked[0])
        self.solving = time.monotonic() - began
        # Fast forcing looks like noise to differences, but what a convolution predicts is not noise.
        change = self.solved(self.fold.train, Linear(ranked[0].history, None, None, 0.0)).gain
        self.noise = self.noise.at_most(float(np.median(frame.gain / change)))
        if not self.noise.matters:
            return ranked[0], frame
        # Noise makes maps that grow without bound.
        for one in ranked:
            steady = self.solved(self.fold.train, one)
            if one.degree > 1 or spectral_radius(steady) <= LONG_RUN:
                return one, steady
        return ranked[0], frame

    def solved(self, parts: tuple[Part, ...], linear: Linear) -> FieldFrame:
        """The frame with these closed-form parts, and the gain they leave, from some rows of the data."""
        frame = self.closed.solved(self.training if parts == self.fold.train else self.dataset.select(parts), linear)
        return replace(frame, static=self.static)

    def held_out_step(self) -> FieldStep:
        """The chosen model, before it is solved again on everything."""
        return self._solved_again(refit=False)[0]

    def _solved_again(self, *, refit: bool) -> tuple[FieldStep, Stay, bool]:
        """The step that is used, its long rollouts, and whether its closed-form parts were solved again."""
        best, limit = self.chosen.best, self.limit.first(_REFIT_BY)
        if best.lenses is not None:
            data = self.dataset if refit else self.training
            frame = self._bare(data, best.step.frame.history)
            found = self.lenses.final(data, frame, best.lenses, limit)
            return (best.step, best.stay, False) if found is None else (*found, True)
        what = "the linear part solved again on everything"
        if not best.weight and refit and limit.allows(SLACK * self.solving, what):
            frame = self.solved(_everything(self.dataset), self.chosen.linear)
            return FieldStep(_with_gain(frame, 0.0)), best.stay, True
        return best.step, best.stay, False

    def finish(self) -> list[Fit]:
        """Solve closed-form parts that are the whole model again, on all rows unless `refit` is off, and report."""
        chosen, rows, held_out, training = self.chosen, self.fold.train, self.fold.held_out, self.training
        best, linear = chosen.best, chosen.linear
        step, stay, solved = self._solved_again(refit=self.recipe.refit)
        if solved and self.recipe.refit:
            rows, held_out, training = _everything(self.dataset), (), self.dataset
        closed = not best.weight or best.lenses is not None
        frame, kernel = step.frame, best.linear.kernel
        member = step.members[0] if best.weight else None
        each = 0 if member is None else sum(parameter.numel() for parameter in member.parameters())
        taps = 0 if kernel is None else frame.matrix.size + frame.channels
        taps += 0 if frame.polynomial is None else int(np.count_nonzero(frame.polynomial.weights))
        pairs = training.transitions(frame.history)
        used = {"correction_weight": best.weight, "nmse": math.exp(best.error), "left": stay.left}
        notes = (*self.dataset.notes, *self._model_notes(step, best.linear), *self.notes)
        report = FitReport(
            n=frame.size,
            trajectories=len(self.dataset.series),
            pairs=pairs,
            left_out=sum(max(0, length - frame.history) for length in training.lengths) - pairs,
            noise=self.noise.relative,
            noise_of_increments=self.noise.of_increments,
            noisy=self.noise.matters,
            history=frame.history,
            ridge=best.linear.ridge,
            radius=None if kernel is None else max(kernel) // 2,
            degree=best.linear.degree if best.linear.degree > 1 else None,
            correction_weight=best.weight,
            model="" if member is None else "field",
            width=None if member is None else member.width,
            depth=None if member is None else member.depth,
            basis=None if member is None else member.basis,
            optical_length=None if member is None else float(member.config()["optical_length"]),
            members=len(step.members),
            parameters=len(step.members) * each + taps,
            parameters_per_member=each,
            linear_parameters=taps,
            held_out_nmse=math.exp(best.error),
            linear_nmse=math.exp(linear.error),
            spectral_radius=spectral_radius(frame),
            region=_region(training, frame),
            dataset=self.dataset.digest(),
            source=self.dataset.source,
            candidates=[*(one.record() for one in self.closed.tried), *self.rows, used],
            coverage=self.judge.coverage(step),
            updates=0 if closed else chosen.updates,
            unroll=0 if closed else chosen.unroll,
            held_out_steps=self.fold.steps,
            training_rows=rows,
            held_out_rows=held_out,
            notes=(*notes, *stay.notes(), *self.limit.notes()),
            part=best.part,
        )
        # `best.step` has not seen the held-out rows, which only such a model can be judged by.
        skill = measure_skill(self.dataset, self.fold, step.frame.scale, best.step, seconds=0.5 * self.limit.left())
        report = skill.into(report, noisy=self.noise.matters)
        recipe = replace(filled_in(self.recipe, report), refit=not held_out)
        return [Fit(step, recipe, report)]

    def _model_notes(self, step: FieldStep, linear: Linear) -> list[str]:
        extent = " x ".join(f"{value:.4g}" for value in step.extent(self.grid.spacing))
        notes = [f"points are spaced {self.grid.spaced(self.dataset.coords)}; kernels are {extent} wide"]
        if step.members:
            return notes
        if linear.kernel is None:
            return [*notes, "nothing that was tried beat the last state itself on held-out rollouts: this model has "
                    "learned no dynamics; give it more data, more epochs or a linear part"]  # fmt: skip
        part = "linear part" if linear.degree == 1 else f"linear part and a polynomial of degree {linear.degree}"
        if linear.error < ENOUGH:
            return [*notes, f"the {part} leaves nothing but rounding on held-out rollouts; no network was trained"]
        return [*notes, f"the {part} alone did best on held-out rollouts; no network is used (more: lln explain "
                "no-network)"]  # fmt: skip


def _region(dataset: Dataset, frame: FieldFrame) -> tuple[list[float], list[float]]:
    """Smallest and largest standardised values: of a channel, since what one point visits any other may."""
    low, high = channel_range(dataset, frame.channels)
    both = [(corner - frame.channel_mean) / frame.channel_scale for corner in (low, high)]
    if frame.channels > 1:
        both = [np.repeat(corner, math.prod(frame.space)) for corner in both]
    return [float(v) for v in both[0]], [float(v) for v in both[1]]


def _everything(dataset: Dataset) -> tuple[Part, ...]:
    return tuple((index, 0, len(one)) for index, one in enumerate(dataset.series))


def _with_gain(frame: FieldFrame, weight: float) -> FieldFrame:
    return replace(frame, gain=weight * frame.gain)


def _settled(closed: Scored, alone: Scored) -> bool:
    """Whether lenses in closed form leave so little over that networks are not trained."""
    if closed.lenses is None or not closed.stay.bounded:
        return False
    return closed.error < max(SETTLED, alone.error - EXPLAINED)


def _far_behind(screened: Scored, closed: Scored) -> bool:
    """Whether networks after a short training are too far behind lenses in closed form to be trained in full."""
    return closed.lenses is not None and closed.stay.bounded and screened.error > closed.error + HOPELESS


def _frame_name(linear: Linear) -> str:
    return "no linear part" if linear.kernel is None else "linear part"
