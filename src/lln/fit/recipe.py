"""The recipe: from trajectories to a surrogate, every choice made on held-out rollouts.

A linear map of the increments in closed form, then small networks on what it leaves over; ridge, history, reach,
stopping, readout and the network's share are those whose rollouts over held-out data go best, so that the result is
never worse there than its linear part. Then everything trains, with the choices as they are.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from lln.core.errors import InputError
from lln.data.series import Dataset
from lln.fit.choose import (
    ALIKE,
    Decision,
    LinearChoice,
    adopt,
    choose_linear,
    judge,
    network_candidates,
    reaches_of,
    ridges_of,
)
from lln.fit.holdout import MOST_HISTORY, folds, load, roll_linear
from lln.fit.linear import spectral_radius
from lln.fit.noise import Noise, estimate_noise
from lln.fit.options import Event, Fit, FitReport, Recipe
from lln.fit.paper import fit_paper
from lln.fit.prepare import Candidate, Kitchen
from lln.fit.reporting import report_of
from lln.fit.stability import settled
from lln.fit.trial import Progress, Trials, Work
from lln.step.surrogate import Surrogate
from lln.train.checkpoint import Checkpoint, identity_of

__all__ = ["Event", "Fit", "FitReport", "Recipe", "fit_many", "fit_surrogate", "linear_choice"]

VALIDATION = 0.2
# Held-out rollouts are few; a network must do clearly better than the linear part there to be believed elsewhere.
MARGIN = math.log(1.5)
# Once everything trains, rollouts over what was held out should go no worse than before; the best of many settings was
# lucky too, so some of that is lost again.
_WORSE = math.log(3.0)
_LONG_RUN = 1.0 + 1e-6
_PERFECT = math.log(1e-18)  # rounding is all that is left to learn


def fit_surrogate(
    dataset: Dataset,
    recipe: Recipe | None = None,
    *,
    progress: Progress | None = None,
    checkpoint: Path | None = None,
) -> Fit:
    """Learn one step of the system behind `dataset`.

    Args:
        dataset: trajectories.
        recipe: what to do; None leaves everything to us.
        progress: called with small events.
        checkpoint: a file that keeps what is done, so that a killed fit goes on to the same result; it is deleted in
            the end.
    """
    recipe = Recipe() if recipe is None else recipe
    return fit_many(dataset, recipe, [recipe.seed], progress=progress, checkpoint=checkpoint)[0]


def fit_many(
    dataset: Dataset,
    recipe: Recipe,
    seeds: Sequence[int],
    *,
    progress: Progress | None = None,
    checkpoint: Path | Checkpoint | None = None,
    frames: Sequence[Candidate] | None = None,
    linear: LinearChoice | None = None,
) -> list[Fit]:
    """The same fit for several seeds, all their networks trained in one pass; each seed makes its own choices.

    Args:
        dataset: trajectories.
        recipe: what to do; its own seed is not used.
        seeds: of the fits.
        progress: called with small events.
        checkpoint: as for `fit_surrogate`; or what an earlier call with the same data, seeds and choices has done, so
            that a call that goes further need not repeat it.
        frames: the only ones in which networks are tried, if others are known not to serve.
        linear: what `linear_choice` found for the same data and recipe, if it is known.
    """
    if not seeds:
        raise InputError("a fit needs at least one seed, got none")
    _check_device(recipe.device)
    if isinstance(checkpoint, Checkpoint):
        kept = checkpoint
    else:
        identity = identity_of({"data": dataset.digest(), "recipe": recipe.record(), "seeds": list(seeds)})
        kept = Checkpoint(checkpoint, identity)
    tell = progress or _quiet
    if recipe.recipe == "paper":
        fits = fit_paper(dataset, recipe, seeds, tell, kept)
    else:
        fits = _Fitting(dataset, recipe, tuple(seeds), tell, kept, frames).run(linear)
    kept.remove()
    return fits


def linear_choice(dataset: Dataset, recipe: Recipe) -> LinearChoice:
    """How every linear map does on held-out rollouts, and which is used: the same for every network and seed."""
    return _Fitting(dataset, recipe, (recipe.seed,), _quiet, Checkpoint(None, ""), None).linear()


class _Fitting:
    """One fit in progress."""

    def __init__(
        self,
        dataset: Dataset,
        recipe: Recipe,
        seeds: tuple[int, ...],
        progress: Progress,
        kept: Checkpoint,
        frames: Sequence[Candidate] | None,
    ) -> None:
        self.dataset, self.recipe, self.seeds, self.progress, self.kept = dataset, recipe, seeds, progress, kept
        self.began, self.frames = time.perf_counter(), frames
        self.kitchen = Kitchen(dataset)
        self.noise = self._noise()
        ways = folds(dataset, recipe.validation or VALIDATION, max(self.histories[-1], MOST_HISTORY))
        self.ways, self.fold = ways, ways[-1]
        self.scale = self.kitchen.prepare(None, self.histories[0]).units.scale
        self.trials = Trials(self.kitchen, recipe, seeds, self.noise.matters, progress, kept)
        self.tried: list[dict[str, Any]] = []
        self.picked: dict[Candidate, list[int]] = {}

    def run(self, linear: LinearChoice | None = None) -> list[Fit]:
        """All of it, or what comes after the linear part."""
        linear = linear or self.linear()
        for candidate in linear.notable():
            self.tried.append({**candidate.record(), "share": 0.0, "nmse": math.exp(linear.errors[candidate])})
        return self._finish(linear, self._networks(linear))

    @property
    def histories(self) -> tuple[int, ...]:
        """Histories to try."""
        if self.recipe.history != "auto":
            return (int(self.recipe.history),)
        longer = [h for h in range(2, MOST_HISTORY + 1) if self.dataset.transitions(h) > 2 * h * self.dataset.size]
        return (1, *longer)

    def _noise(self) -> Noise:
        """What differences say, unless the longest linear map foresees more."""
        ready = self.kitchen.prepare(None, self.histories[-1])
        return estimate_noise(self.dataset).at_most(
            ready.unexplained(ready.linear(Candidate(self.histories[-1], None, 0.0)))
        )

    def linear(self) -> LinearChoice:
        """Try every linear map, unless the checkpoint knows how they did."""
        kept = self.kept.get("linear")
        if kept is not None:
            choice = LinearChoice.from_record(kept[0])
        else:
            self.progress(Event("linear part", 0, 1))
            reaches, ridges = reaches_of(self.dataset), ridges_of(self.recipe.ridge)
            choice = choose_linear(self.kitchen, self.ways, self.histories, reaches, ridges, self.scale)
            if self.noise.matters:
                choice = replace(choice, best=self._steady(choice))
            self.kept.put("linear", choice.record())
        self.progress(Event("linear part", 1, 1, f"held-out error {math.exp(choice.errors[choice.best]):.2e}"))
        return choice

    def _steady(self, choice: LinearChoice) -> Candidate:
        """The best linear map that does not grow in the long run: noise makes maps that do, and nobody means them."""
        for candidate in choice.ranked():
            frame = self.kitchen.prepare(None, candidate.history).linear(candidate)
            if spectral_radius(frame) <= _LONG_RUN:
                return candidate
        return choice.best

    def _networks(self, linear: LinearChoice) -> list[Decision]:
        """For each seed, the frame and the use of the network that go best on the last fold."""
        alone, least = self._alone(linear), linear.last[linear.best]
        if least < _PERFECT:
            return [alone] * len(self.seeds)
        candidates = list(self.frames or self._candidates(linear))
        everyone = range(len(self.seeds))
        results: list[list[tuple[float, Candidate]]] = [[] for _ in self.seeds]
        for index, candidate in enumerate(candidates):
            if len(candidates) == 1:  # nothing to choose from
                results = [[(-math.inf, candidate)] for _ in self.seeds]
                break
            phase = f"screening {index + 1}/{len(candidates)}"
            found = self.trials.judged(self.fold, candidate, self.scale, phase, everyone)
            for group in everyone:
                results[group].append((found.best(group)[1], candidate))
        for group, each in enumerate(results):
            error, candidate = min(each, key=lambda one: one[0])
            # A short training need not be better yet, but one that is far behind will not catch up.
            if error < least + MARGIN:
                self.picked.setdefault(candidate, []).append(group)
        decisions = [alone] * len(self.seeds)
        for candidate, groups in self.picked.items():
            found = self.trials.judged(self.fold, candidate, self.scale, "choosing", groups)
            for place, group in enumerate(groups):
                setting, error = found.best(place)
                row = {**candidate.record(), **asdict(setting), "nmse": math.exp(error), "seed": self.seeds[group]}
                self.tried.append(row)
                if error < least - MARGIN:
                    decisions[group] = Decision(candidate, setting, error)
        return decisions

    def _alone(self, linear: LinearChoice) -> Decision:
        """The linear part without a network.

        The best of many ridges was lucky on what was held out. The mean of the maps at it and its neighbours is less
        so, and is used where it does as well there.
        """
        best = linear.best
        plain = Decision(best, None, linear.last[best])
        if best.ridge is None or self.recipe.ridge != "auto" or self.noise.matters:
            return plain
        blended, errors = replace(best, blended=True), []
        for fold in self.ways:
            windows = load(self.dataset, fold, best.history, self.scale)
            frame = self.kitchen.prepare(fold.train, best.history).linear(blended)
            errors.append(float(windows.log_error(roll_linear([frame], windows))[0]))
        if sum(errors) / len(errors) > linear.errors[best] + ALIKE:
            return plain
        self.tried.append({**blended.record(), "share": 0.0, "nmse": math.exp(errors[-1])})
        return Decision(blended, None, errors[-1])

    def _candidates(self, linear: LinearChoice) -> list[Candidate]:
        return network_candidates(linear, self.histories, reaches_of(self.dataset), self.recipe.ridge)

    def _finish(self, linear: LinearChoice, decisions: list[Decision]) -> list[Fit]:
        """Train everything with the choices made, and say what was done."""
        fits: dict[int, Fit] = {}
        by_frame: dict[Candidate, list[int]] = {}
        for group, decision in enumerate(decisions):
            if decision.setting is not None:
                by_frame.setdefault(decision.candidate, []).append(group)
                continue
            ready = self.kitchen.prepare(None if self.recipe.refit else self.fold.train, decision.candidate.history)
            surrogate = Surrogate(ready.linear(decision.candidate))
            fits[group] = self._report(surrogate, ready, decision, linear, None, group)
        for candidate, groups in by_frame.items():
            fits |= self._corrected(candidate, groups, linear, decisions)
        return [fits[group] for group in range(len(decisions))]

    def _corrected(
        self, candidate: Candidate, groups: list[int], linear: LinearChoice, decisions: list[Decision]
    ) -> dict[int, Fit]:
        """The fits of the seeds that use a network in this frame."""
        chosen = self.picked[candidate]
        refit = self.recipe.refit
        work = self.trials.train(None, candidate, "refit", groups) if refit else self._chosen(candidate)
        trained = groups if refit else chosen
        windows = load(self.dataset, self.fold, candidate.history, self.scale)
        fits = {}
        for group in groups:
            decision, used, among = decisions[group], work, trained
            setting = decision.setting
            assert setting is not None
            now = judge(work.trained, work.frame, windows, work.source, work.allowed, len(trained), [setting])
            if now.errors[setting][trained.index(group)] > decision.error + _WORSE:
                used, among = self._chosen(candidate), chosen
            model = adopt(used.trained, setting, used.source, used.allowed)
            each = len(model) // len(among)
            first = among.index(group) * each
            members = tuple(model.member(first + index) for index in range(each))
            surrogate = Surrogate(replace(used.frame, gain=used.frame.gain * setting.share), members)
            surrogate, share = settled(surrogate, setting.share, self._last_window(candidate), self.noise.matters)
            decision = replace(decision, setting=replace(setting, share=share))
            fits[group] = self._report(surrogate, used.ready, decision, linear, used, group)
        return fits

    def _chosen(self, candidate: Candidate) -> Work:
        """What was trained for choosing: for every seed that tried this frame, whether it uses it or not."""
        return self.trials.train(self.fold.train, candidate, "choosing", self.picked[candidate])

    def _last_window(self, candidate: Candidate) -> Any:
        index, _, last = self.dataset.stretches(candidate.history)[-1]
        return self.dataset.series[index].rows(last - candidate.history, last).astype("float64")

    def _report(
        self, surrogate: Surrogate, ready: Any, decision: Decision, linear: LinearChoice, work: Any, group: int
    ) -> Fit:
        seed = self.seeds[group]
        return report_of(
            surrogate=surrogate,
            recipe=replace(self.recipe, seed=seed),
            dataset=self.dataset,
            ready=ready,
            fold=self.fold,
            noise=self.noise if work is None else self.noise.at_most(work.unexplained),
            candidate=decision.candidate,
            share=0.0 if decision.setting is None else decision.setting.share,
            shape=None if work is None else work.shape,
            updates=0 if work is None else work.trained.updates,
            unroll=0 if work is None else work.unrolled_by(decision.setting),
            tried=[row for row in self.tried if row.get("seed", seed) == seed],
            held_out=math.exp(decision.error),
            linear=math.exp(decision.error if decision.setting is None else linear.last[linear.best]),
            seconds=time.perf_counter() - self.began,
        )


def _check_device(device: str) -> None:
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"device {device!r} cannot be used here ({str(error).splitlines()[0]}); try 'cpu'") from None


def _quiet(event: Event) -> None:
    del event
