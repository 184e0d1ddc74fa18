"""The fitter: from trajectories to a step, every choice made on held-out rollouts.

Linear maps of the increments come first, then polynomials, polynomial vector fields and lens networks whose readout is
solved in closed form, drawn and then trained by variable projection, then, where those leave something to learn,
trained networks. Each is scored at several lead times on the same held-out windows; the best is solved or trained again
on everything.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np

from lln.core.errors import InputError
from lln.core.table import number
from lln.core.workers import Mapper, serial
from lln.data.series import Dataset
from lln.fit.choice.combination import combine, maps_of_noisy_data
from lln.fit.choice.holdout import Fold, Part, RolloutErrors, better_by, folds, horizon_of, load, roll_linear, settled
from lln.fit.choice.models import (
    ALIKE,
    Choice,
    LinearChoice,
    Work,
    best_forms,
    choose_linear,
    network_candidates,
    radii_of,
    ridges_of,
)
from lln.fit.choice.noise_and_seasons import estimate_noise, linear_histories, nonlinear_histories, unexplained
from lln.fit.choice.representation import fit_with_input_lags, seen_by_fit
from lln.fit.closed.bases import ClosedChoice, Scored
from lln.fit.closed.forms import DRAWS, ClosedForms, replace_seed
from lln.fit.defaults import VALIDATION
from lln.fit.options import Event, Fit, FitReport, Phase, Progress, Recipe, TimeLimit, say_nothing
from lln.fit.paper import fit_paper
from lln.fit.prepare import FrameChoice, Preparer
from lln.fit.report.report import measure_skill, report_of
from lln.fit.trials import Stage, Trials, check_device
from lln.step.parts import PARTS
from lln.step.step import AnyStep, DenseStep
from lln.train.loop import Checkpoint, identity_of

__all__ = ["Event", "Fit", "FitReport", "Recipe", "fit_many", "fit_surrogate", "linear_choice"]

CLOSED_FORMS = ("polynomial", "flow", "lens")
_FIRST_STEPS = 64  # steps of the first rollouts of closed forms
_LONGER = 4  # closed forms that are rolled out further
_SURE = {False: 1.0, True: 2.0}  # standard errors by which a nonlinear part must beat a linear one; by noise
_WELL = math.log(1e-4)  # a closed form that errs by less leaves networks little to find
_MANY = 4000  # pairs: drawn lenses of few lags had all that they need
_FEW, _FAR_OF_FEW = 200, math.log(3.0)  # pairs; with fewer and noise, a smaller gain may be chance
_TAUGHT = 0.7  # of the rows that train in the last fold: fewer are not enough for a nonlinear law
_AS_MANY = 0.95  # of the same, which serve about as well
_LASTS = 2  # without noise: ratio of valid times at which a closed form surely beats a linear map
_FAR, _OTHERS = math.log(1.5), 2  # gain in log error, and further folds that show it
_BLENDED = 3  # longest history of a linear map that is averaged over neighbouring ridges
MOST_NETWORK_HISTORY = 3
MARGIN = math.log(1.5)  # held-out rollouts are few: by so much a network must do better than the linear part there
# Rollouts over held-out rows may get this much worse once these train too: the best setting was partly so by chance.
_WORSE = math.log(3.0)
_PERFECT = math.log(1e-18)  # rounding is all that is left to learn
# Shares of a time limit: linear maps and closed forms end by then, and no network starts later.
_LINEAR_BY, _CLOSED_BY, _COMBINED_BY, _TRAINED_FROM = 0.25, 0.6, 0.65, 0.85


def fit_surrogate(
    dataset: Dataset,
    recipe: Recipe | None = None,
    *,
    progress: Progress | None = None,
    checkpoint: Path | None = None,
    mapper: Mapper = serial,
) -> Fit:
    """Learn one step of the system behind `dataset`; see `fit_many` for the arguments."""
    recipe = Recipe() if recipe is None else recipe
    return fit_many(dataset, recipe, [recipe.seed], progress=progress, checkpoint=checkpoint, mapper=mapper)[0]


def fit_many(
    dataset: Dataset,
    recipe: Recipe,
    seeds: Sequence[int],
    *,
    progress: Progress | None = None,
    checkpoint: Path | Checkpoint | None = None,
    frames: Sequence[FrameChoice] | None = None,
    linear: LinearChoice | None = None,
    mapper: Mapper = serial,
) -> list[Fit]:
    """The same fit for several seeds, all their networks trained in one pass; each seed makes its own choices.

    Args:
        dataset: trajectories.
        recipe: what to do; its own seed is not used.
        seeds: of the fits.
        progress: callback that receives an Event.
        checkpoint: file from which a killed fit continues to the same result, deleted in the end; or the checkpoint of
            an earlier call with the same data, seeds and choices.
        frames: the only ones in which networks are tried, if others are known not to serve.
        linear: what `linear_choice` found for the same data and recipe, if it is known.
        mapper: calls the independent pieces of the fit.
    """
    if not seeds:
        raise InputError("a fit needs at least one seed, got none")
    check_device(recipe.device)
    if isinstance(checkpoint, Checkpoint):
        kept = checkpoint
    else:
        identity = identity_of({"data": dataset.digest(), "recipe": recipe.record(), "seeds": list(seeds)})
        kept = Checkpoint(checkpoint, identity)
    tell = progress or say_nothing
    if recipe.recipe == "paper":
        fits = fit_paper(dataset, recipe, seeds, tell, kept)
    else:

        def fit(data: Dataset, wishes: Recipe) -> list[Fit]:
            store = kept if data is dataset else Checkpoint(None, "")
            return DenseFitting(data, wishes, tuple(seeds), tell, store, frames, mapper, known=linear).finish()

        fits = fit_with_input_lags(dataset, recipe, fit) if frames is None and linear is None else fit(dataset, recipe)
    kept.remove()
    return fits


def linear_choice(dataset: Dataset, recipe: Recipe) -> LinearChoice:
    """How every linear map does on held-out rollouts, and which is used: the same for every network and seed."""
    return DenseFitting(dataset, recipe, (recipe.seed,), say_nothing, Checkpoint(None, ""), None).linear()


class DenseFitting:
    """The strategy for dense states: one fit in progress, for one or more seeds (see `fit_many` for the arguments).

    Args:
        limit: time limit that has begun already; None begins the one of the recipe.
        known: linear maps that were tried before.
    """

    def __init__(
        self,
        dataset: Dataset,
        recipe: Recipe,
        seeds: tuple[int, ...],
        progress: Progress,
        kept: Checkpoint,
        frames: Sequence[FrameChoice] | None,
        mapper: Mapper = serial,
        limit: TimeLimit | None = None,
        known: LinearChoice | None = None,
    ) -> None:
        self.mapper, self.known, self.seen = mapper, known, seen_by_fit(dataset)
        dataset = self.seen.dataset
        self.dataset, self.recipe, self.seeds, self.progress, self.kept = dataset, recipe, seeds, progress, kept
        self.began, self.frames = time.perf_counter(), frames
        self.limit = limit or TimeLimit(recipe.time_limit)
        self.preparer = Preparer(dataset)
        # First, because it refuses data without a single transition, for which no fold could be found either.
        self.scale = self.preparer.prepare(None, self.histories[0]).units.scale
        self.noise = estimate_noise(dataset)
        self.looks_noisy = self.noise.matters  # before any model has shown what can be predicted
        ways = folds(dataset, recipe.validation or VALIDATION, self.histories[-1])
        self.ways, self.fold, self.longest = ways, ways[-1], ways[-1].steps
        self.origins: list[Fold] = []  # blocks of origins, of noisy series alone
        self.tried: list[dict[str, Any]] = []
        self.least = math.inf  # log error of the linear map or closed form that does best over all lead times
        self.late = math.inf  # log error, at the last lead times, of the one that is used
        self.picked: dict[FrameChoice, list[int]] = {}

    @cached_property
    def chosen(self) -> tuple[LinearChoice, list[Choice]]:
        """The best linear map, and what each seed uses: candidates are solved or trained, scored and chosen here."""
        linear = self.known or self.linear()
        closed = self._closed_forms(linear)
        linear = self._settle(linear, closed)
        for candidate in linear.notable():
            error = math.exp(linear.errors[candidate])
            self.tried.append({**candidate.record(), "correction_weight": 0.0, "nmse": error})
        simple = self._simple(linear, closed)
        return linear, self._networks(linear, simple)

    def held_out_step(self) -> AnyStep:
        """What the first seed uses, before it is solved or trained again on everything."""
        return self.seen.step(self._choosing_step(self.chosen[1][0], 0))

    @cached_property
    def histories(self) -> tuple[int, ...]:
        """Histories of linear maps."""
        if self.recipe.history != "auto":
            return (int(self.recipe.history),)
        return linear_histories(self.dataset)

    def linear(self) -> LinearChoice:
        """Try every linear map, unless the checkpoint knows how they did."""
        kept = self.kept.get("linear")
        if kept is not None:
            return LinearChoice.from_record(kept[0])
        self.progress(Event(Phase.LINEAR, 0, 1))
        radii, ridges = radii_of(self.dataset), ridges_of(self.recipe.ridge)
        limit, rest = self.limit.first(_LINEAR_BY), "linear maps of longer histories"
        tried = (self.preparer, self.ways, self.histories, radii, ridges, self.scale, self.mapper)
        choice = choose_linear(*tried, lambda: not limit.allows(0.0, rest))
        self.kept.put("linear", choice.record())
        self.progress(Event(Phase.LINEAR, 1, 1, f"held-out error {number(math.exp(choice.errors[choice.best]))}"))
        return choice

    @property
    def _closed_kinds(self) -> list[str]:
        return [kind for kind in self.recipe.tried_parts if kind in CLOSED_FORMS or kind in PARTS]

    def _closed_forms(self, linear: LinearChoice) -> list[Scored]:
        """Polynomials, vector fields and drawn lens networks, rolled out over the last fold."""
        kinds = self._closed_kinds
        if not kinds or linear.best_error < _PERFECT:
            return []
        asked = self.recipe.history
        histories = nonlinear_histories(self.dataset, noisy=self.noise.matters) if asked == "auto" else (int(asked),)
        # Screening takes pairs within the held-out rows; few rows, or rows with gaps, may have none.
        histories, alone = (
            tuple(one for one in some if self.preparer.transitions(self.fold.held_out, one))
            for some in (histories, self.histories)
        )
        if not histories:
            return []
        found = self.closed.search(histories, kinds, min(self.fold.steps, _FIRST_STEPS), alone)
        best = self.closed.ranked(found)
        if not found or self.fold.steps <= _FIRST_STEPS or best[0].errors.valid_steps() < _FIRST_STEPS:
            return found
        if self.limit.passed(_CLOSED_BY):
            return found
        # The best ones forecast beyond the first steps, so longer rollouts are needed to compare them.
        return [self.closed.judge(one.choice, self.fold.steps) for one in best[:_LONGER]]

    @cached_property
    def closed(self) -> ClosedForms:
        """The closed forms, judged on the last fold."""
        return self._forms(self.ways[-1])

    def _forms(self, fold: Fold) -> ClosedForms:
        def say(done: int, total: int, text: str) -> None:
            self.progress(Event(Phase.CLOSED, done, total, text))

        return ClosedForms(
            self.preparer, fold, self.scale, self.seeds[0], say, noisy=self.looks_noisy, mapper=self.mapper,
            limit=self.limit,
        )  # fmt: skip

    def _settle(self, linear: LinearChoice, closed: Sequence[Scored]) -> LinearChoice:
        """Find up to which lead time models differ, and how noisy the data is; both decide how scores are taken."""
        best = self._linear_errors(linear.best, self.fold)
        horizon = max(horizon_of([one]) for one in (best, *(scored.errors for scored in closed)))
        self.noise = self.noise.beside(self._unexplained(linear, closed))
        if self.noise.matters and self.closed.learns_with_more_rows():
            self.noise = replace(self.noise, found=False, drives=False)
        noisy = self.noise.matters
        self.fold = replace(self.fold, steps=min(self.fold.steps, horizon), noisy=noisy)
        self.trials = Trials(
            self.preparer, self.recipe, self.seeds, noisy, self.progress, self.kept, self.limit.end, self.mapper
        )
        linear = replace(linear, horizon=horizon, noisy=noisy)
        return self._combined(linear) if noisy and self.recipe.ridge == "auto" else linear

    def _combined(self, linear: LinearChoice) -> LinearChoice:
        """Use the mean of the linear maps that do about equally well under noise."""
        tried, self.origins = maps_of_noisy_data(
            self.dataset, self.histories, linear.ranked(), self.fold, given=self.recipe.history != "auto"
        )
        limit = self.limit.first(_COMBINED_BY)
        chosen = combine(self.preparer, self.origins or self.ways, tried, self.scale, self.mapper, limit)
        error = self._linear_errors(chosen, self.fold).until(self.fold.steps).score(noisy=True)
        return replace(linear, chosen=chosen, chosen_error=error)

    def _unexplained(self, linear: LinearChoice, closed: Sequence[Scored]) -> float:
        """What the linear map and the closed form with the least one-step error leave over."""
        steps = [DenseStep(self.preparer.linear(self.fold.train, linear.best))]
        for best in sorted(closed, key=lambda one: float(one.errors.by_lead(noisy=True)[0]))[:1]:
            steps += self.closed.known(best.choice, [best.choice.ridge])
        return unexplained(self.dataset, self.fold, steps)

    def _linear_errors(self, candidate: FrameChoice, fold: Fold) -> RolloutErrors:
        windows = load(self.dataset, fold, candidate.history, self.scale)
        return windows.errors(roll_linear([self.preparer.linear(fold.train, candidate)], windows)[0])

    def _simple(self, linear: LinearChoice, closed: Sequence[Scored]) -> Choice:
        """The best model without a trained network."""
        alone = self._alone(linear)
        noisy, steps = self.noise.matters, self.fold.steps
        plain = self._linear_errors(alone.candidate, self.fold).until(steps)
        self.late = plain.late(steps).score(noisy=noisy)
        scored = [Scored(one.choice, one.errors.until(steps)) for one in closed]
        scored = sorted(scored, key=lambda one: one.errors.score(noisy=noisy))
        if any(one.errors.leads != plain.leads for one in scored):
            scored = [self.closed.judge(one.choice, steps) for one in scored[:_LONGER]]
        every = {one.choice: one.errors.score(noisy=noisy) for one in scored}
        self.tried += [{**choice.record(), "nmse": math.exp(error)} for choice, error in every.items()]
        if not scored:
            return alone
        self.least, whole = min(alone.error, *every.values()), {one.choice: one.errors for one in scored}
        for best in best_forms(scored, steps, noisy=noisy, overlap=self.fold.overlap):
            gain, error = better_by(whole[best], plain, noisy=noisy)
            sure = gain > max(ALIKE, _SURE[noisy] * error * self.fold.overlap)
            if not noisy:  # in finely sampled rows long histories are best in the first steps, but not later
                gain, error = better_by(whole[best].late(steps), plain.late(steps))
                sure |= gain > max(ALIKE, error) or whole[best].valid_steps() >= _LASTS * plain.valid_steps()
            if self._steadily_better(best, alone.candidate, gain, sure=sure) if noisy else sure:
                self.late = whole[best].late(steps).score(noisy=noisy)
                return Choice(FrameChoice(best.history, None, None), None, every[best], best)
        return alone

    def _steadily_better(self, closed: ClosedChoice, linear: FrameChoice, gain: float, *, sure: bool) -> bool:
        """Whether a nonlinear part beats a linear map on all other folds too, or far on most: one may be chance.

        Fewer rows show less of a nonlinear law: it is enough to be far better on all folds with about as many rows.
        """
        few = self.preparer.prepare(self.fold.train, 1).pairs < _FEW
        if not ((sure and gain > _FAR_OF_FEW) if few else (sure or gain > _FAR)):
            return False
        gains, latest = [], []
        for fold in takewhile(lambda _: not self.limit.passed(_CLOSED_BY), self.origins or self.ways[:-1]):
            taught = fold.training_rows >= _TAUGHT * self.fold.training_rows
            if not (taught and self.preparer.transitions(fold.held_out, closed.history)):
                continue
            fold = replace(fold, steps=min(fold.steps, self.fold.steps))
            plain, bent = self._linear_errors(linear, fold), self._forms(fold).judge(closed, fold.steps).errors
            gains.append(plain.score(noisy=True) - bent.score(noisy=True))
            latest += gains[-1:] if fold.training_rows >= _AS_MANY * self.fold.training_rows else []
        every = np.array([gain, *gains])
        far = len(every) > _OTHERS and every.mean() - 2.0 * every.std(ddof=1) / math.sqrt(len(every)) > _FAR
        far |= len(latest) >= _OTHERS and min(gain, *latest) > _FAR
        return far or (sure and min(gains, default=0.0 if few else 1.0) > 0)

    def _networks(self, linear: LinearChoice, simple: Choice) -> list[Choice]:
        """For each seed, the frame and the use of the network that go best on the last fold."""
        least, nothing = min(simple.error, self.least), [simple] * len(self.seeds)
        if "network" not in self.recipe.tried_parts or not self._worth_training(simple):
            return nothing
        if not (self.frames or self.limit.first(_TRAINED_FROM).allows(0.0, "trained networks")):
            return nothing
        candidates = list(self.frames or self._candidates(linear))
        everyone = range(len(self.seeds))
        results: list[list[tuple[float, FrameChoice]]] = [[] for _ in self.seeds]
        if len(candidates) == 1:  # nothing to choose from
            results = [[(-math.inf, candidates[0])] for _ in self.seeds]
        else:
            screened = self.trials.screened(self.fold, candidates, self.scale, everyone)
            for candidate, judgement in zip(candidates, screened, strict=True):
                for group in everyone:
                    results[group].append((judgement.best(group)[1], candidate))
        for group, each in enumerate(results):
            error, candidate = min(each, key=lambda one: one[0])
            # A short training need not be better yet, but one that is far behind will not catch up.
            if error < least + MARGIN:
                self.picked.setdefault(candidate, []).append(group)
        decisions = nothing
        for candidate, groups in self.picked.items():
            found = self.trials.judge(self.fold, candidate, self.scale, Stage(Phase.CHOOSING), groups)
            for place, group in enumerate(groups):
                setting, error = found.best(place)
                row = {**candidate.record(), **asdict(setting), "nmse": math.exp(error), "seed": self.seeds[group]}
                self.tried.append(row)
                if error < least - MARGIN and (self.fold.noisy or found.late[setting][place] < self.late):
                    decisions[group] = Choice(candidate, setting, error)
        return decisions

    def _worth_training(self, simple: Choice) -> bool:
        """Whether networks may find what closed forms left: neither noise nor rounding is all that remains."""
        if simple.error < _PERFECT:
            return False
        if not self._closed_kinds:
            return True
        # In noisy data and with many pairs, a linear map of many lags that beat drawn lenses leaves nothing to networks
        # of few lags.
        if simple.closed is None and simple.candidate.history > 2 * MOST_NETWORK_HISTORY:
            many = self.preparer.prepare(self.fold.train, 1).pairs > _MANY
            if self.fold.noisy or many:
                return False
        return not self.noise.matters and simple.error > _WELL

    def _alone(self, linear: LinearChoice) -> Choice:
        """The linear part without a network.

        The best of many ridges was partly so by chance. The mean of the maps at it and its neighbours is used where it
        does as well on held-out rows.
        """
        best = linear.best
        plain = Choice(best, None, linear.best_error)
        if best.ridge is None or self.recipe.ridge != "auto" or self.noise.matters or best.history > _BLENDED:
            return plain
        blended, errors = replace(best, blended=True), []
        for fold in self.ways:
            fold = replace(fold, steps=min(fold.steps, self.fold.steps))
            errors.append(self._linear_errors(blended, fold).score())
        if sum(errors) / len(errors) > linear.errors[best] + ALIKE:
            return plain
        self.tried.append({**blended.record(), "correction_weight": 0.0, "nmse": math.exp(errors[-1])})
        return Choice(blended, None, errors[-1])

    def _candidates(self, linear: LinearChoice) -> list[FrameChoice]:
        short = [history for history in self.histories if history <= MOST_NETWORK_HISTORY] or list(self.histories[:1])
        return network_candidates(linear, short, radii_of(self.dataset), self.recipe.ridge)

    def finish(self) -> list[Fit]:
        """Solve or train what was chosen, on all rows unless `refit` is off, and report: a fit for each seed."""
        linear, decisions = self.chosen
        self.trials.deadline = self.limit.end
        fits: dict[int, Fit] = {}
        by_frame: dict[FrameChoice, list[int]] = {}
        for group, decision in enumerate(decisions):
            if decision.setting is not None:
                by_frame.setdefault(decision.candidate, []).append(group)
                continue
            parts = None if self.recipe.refit else self.fold.train
            ready = self.preparer.prepare(parts, decision.candidate.history)
            if decision.closed is None:
                surrogate = DenseStep(self.preparer.linear(parts, decision.candidate))
            else:
                self.progress(Event(Phase.REFIT, 0, 1))
                forms = replace_seed(self.closed, self.seeds[group])
                surrogate = forms.step(decision.closed, parts, draws=DRAWS)
            fits[group] = self._report(surrogate, ready, decision, linear, None, group)
        for candidate, groups in by_frame.items():
            fits |= self._corrected(candidate, groups, linear, decisions)
        return [fits[group] for group in range(len(decisions))]

    def _corrected(
        self, candidate: FrameChoice, groups: list[int], linear: LinearChoice, decisions: list[Choice]
    ) -> dict[int, Fit]:
        """The fits of the seeds that use a network in this frame."""
        chosen = self.picked[candidate]
        refit, stage = self.recipe.refit, Stage(Phase.REFIT)
        work = self.trials.train(None, candidate, stage, groups) if refit else self._chosen(candidate)
        trained = groups if refit else chosen
        windows = load(self.dataset, self.fold, candidate.history, self.scale)
        fits = {}
        for group in groups:
            decision, used, among = decisions[group], work, trained
            setting = decision.setting
            assert setting is not None
            now = work.judge(windows, len(trained), setting)
            if now.errors[setting][trained.index(group)] > decision.error + _WORSE:
                used, among = self._chosen(candidate), chosen
            surrogate = used.step(setting, among, group)
            if self.noise.matters:  # which is what makes rollouts grow without bound
                index, _, last = self.dataset.stretches(candidate.history)[-1]
                window = self.dataset.series[index].rows(last - candidate.history, last).astype("float64")
                surrogate, weight = settled(surrogate, setting.correction_weight, window)
                decision = replace(decision, setting=replace(setting, correction_weight=weight))
            surrogate = self.closed.bounded(surrogate, used.ready)
            fits[group] = self._report(surrogate, used.ready, decision, linear, used, group)
        return fits

    def _chosen(self, candidate: FrameChoice) -> Work:
        """What was trained for choosing: for every seed that tried this frame, whether it uses it or not."""
        return self.trials.train(self.fold.train, candidate, Stage(Phase.CHOOSING), self.picked[candidate])

    def _report(
        self, surrogate: DenseStep, ready: Any, decision: Choice, linear: LinearChoice, work: Any, group: int
    ) -> Fit:
        seed = self.seeds[group]
        weight = 0.0 if decision.setting is None else decision.setting.correction_weight
        fit = report_of(
            surrogate=surrogate, recipe=replace(self.recipe, seed=seed), dataset=self.dataset, ready=ready,
            fold=self.fold, noise=self.noise if work is None else self.noise.at_most(work.unexplained),
            candidate=decision.candidate, correction_weight=weight, shape=None if work is None else work.shape,
            updates=0 if work is None else work.trained.updates,
            unroll=0 if work is None else work.unrolled_by(decision.setting),
            tried=[row for row in self.tried if row.get("seed", seed) == seed], held_out=math.exp(decision.error),
            linear=math.exp(linear.best_error if weight or decision.closed else decision.error),
            seconds=time.perf_counter() - self.began, closed=decision.closed,
        )  # fmt: skip
        fit, seen, fold = self.seen.fit(fit), self.seen, replace(self.fold, steps=self.longest)
        # Only the model as it was before the held-out rows trained it can be judged by them.
        learned = seen.step(self._choosing_step(decision, group) if self.recipe.refit else surrogate)
        plain = seen.step(DenseStep(self.preparer.linear(self.fold.train, linear.best)))
        others = [(other, seen.step(step)) for other, step in self._others(decision, group)]
        final = None if fit.report.held_out_rows else fit.surrogate
        skill = measure_skill(seen.given, fold, seen.scale(self.scale), learned, plain, others, final=final)
        report = seen.errors(skill.into(fit.report, noisy=self.noise.matters), skill, self.fold.steps)
        notes = (*report.notes, *self.limit.notes())
        return replace(fit, report=replace(report, notes=notes, seconds=time.perf_counter() - self.began))

    def _choosing_step(self, decision: Choice, group: int) -> DenseStep:
        """The model of the rows that train, by which it was chosen."""
        if decision.setting is None:
            return self._learned(self.fold.train, decision, group)
        work, among = self._chosen(decision.candidate), self.picked[decision.candidate]
        return self.closed.bounded(work.step(decision.setting, among, group), work.ready)

    def _others(self, decision: Choice, group: int) -> list[tuple[Fold, DenseStep]]:
        """The chosen model trained for other folds whose held-out rows trained before, unless it is a network."""
        if decision.setting is not None:
            return []
        begin = {index: first for index, first, _ in self.fold.held_out}
        taught = [fold for fold in self.ways[:-1] if fold.training_rows >= _TAUGHT * self.fold.training_rows]
        others = takewhile(lambda _: not self.limit.passed(_TRAINED_FROM), (*taught, *self.origins))
        return [
            (fold, self._learned(fold.train, decision, group)) for fold in others
            if all(first < begin.get(index, math.inf) for index, first, _ in fold.held_out)
        ]  # fmt: skip

    def _learned(self, train: tuple[Part, ...], decision: Choice, group: int) -> DenseStep:
        """The chosen model without a trained network, from some parts of the data."""
        if decision.closed is not None:
            return replace_seed(self.closed, self.seeds[group]).step(decision.closed, train)
        return DenseStep(self.preparer.linear(train, decision.candidate))
