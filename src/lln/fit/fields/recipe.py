"""From a dataset of fields to a surrogate: a least-squares convolution, and field networks on what it leaves over.

Kernel, ridge, history and share are chosen on held-out rollouts, so the result is never worse there than its linear
part. A linear part that does best alone is then solved for on everything. Networks are not trained a second time: that
would double what a fit costs, and every point of every field is an example already.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch

from lln.core.errors import InputError
from lln.data.series import Dataset
from lln.fit.fields.data import empty_frame, linear_batches, spectral_radius, with_linear
from lln.fit.fields.grid import Grid, conserves, grid_of
from lln.fit.fields.linear import PatchRegression
from lln.fit.fields.options import FieldOptions
from lln.fit.fields.report import ENOUGH, Linear, candidate, report_of
from lln.fit.fields.training import FieldTrainer, Say, odd
from lln.fit.holdout import Fold, Part, Windows, folds, load
from lln.fit.noise import estimate_noise
from lln.fit.options import Event, Fit, Phase, Recipe, filled_in
from lln.fit.stability import bounded
from lln.fit.unrolled import STEPS_WHEN_NOISY
from lln.models.convolution import kernel_shape
from lln.step.field_frame import FieldFrame, free
from lln.step.field_surrogate import FieldSurrogate
from lln.step.frame import Array
from lln.train.checkpoint import Checkpoint, identity_of

if TYPE_CHECKING:
    from lln.step.surrogate import Surrogate

__all__ = ["FieldFitting", "FieldOptions", "fit_field_surrogate"]

RIDGES = (1e-14, 1e-11, 1e-8, 1e-5, 1e-3)
SHARES = (0.5, 1.0)
VALIDATION = 0.2
LINEAR_KERNELS: dict[int, tuple[int, ...]] = {1: (3, 5, 9), 2: (3, 5), 3: (3,)}
MARGIN = math.log(1.5)
LONG_RUN = 1.0 + 1e-6
_PER_STATE = math.log(2.0)  # a longer history must be this much better to be believed


def fit_field_surrogate(
    dataset: Dataset,
    recipe: Recipe,
    *,
    options: FieldOptions | None = None,
    progress: Say | None = None,
    checkpoint: Path | Checkpoint | None = None,
) -> Fit:
    """Learn one step of fields on a grid.

    Args:
        dataset: with `space`.
        recipe: sizes, history, ridge, members, training; what it leaves open is chosen here.
        options: what only fields have.
        progress: hears of every phase.
        checkpoint: a file from which a killed fit goes on, to the same result; or what another call has left.
    """
    began, wishes = time.monotonic(), options or FieldOptions()
    kept = checkpoint
    if not isinstance(kept, Checkpoint):
        kept = Checkpoint(kept, identity_of({**field_identity(dataset, recipe, wishes), "field": True}))
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused when pairs are made
        fitting = FieldFitting(dataset, recipe, wishes, progress or (lambda _: None), kept)
    fit = fitting.run()
    kept.remove()
    return replace(fit, report=replace(fit.report, seconds=time.monotonic() - began))


def field_identity(dataset: Dataset, recipe: Recipe, options: FieldOptions) -> dict[str, Any]:
    """Everything that a fit depends on, by which its checkpoint is known."""
    static = None if options.static is None else np.ascontiguousarray(options.static, dtype=np.float64)
    seen = None if static is None else hashlib.sha256(static.tobytes()).hexdigest()
    return {**recipe.record(), **vars(options), "static": seen, "dataset": dataset.digest()}


class FieldFitting:
    """One fit in progress.

    Args:
        dataset: with `space`.
        recipe: the wishes.
        options: what only fields have.
        say: is told.
        kept: what an interrupted fit left; None keeps nothing beyond this fit.
    """

    def __init__(
        self, dataset: Dataset, recipe: Recipe, options: FieldOptions, say: Say, kept: Checkpoint | None = None
    ) -> None:
        self.dataset, self.recipe, self.options, self.say = dataset, recipe, options, say
        self.kept = Checkpoint(None, "") if kept is None else kept
        self.deadline = None if recipe.time_limit is None else time.monotonic() + recipe.time_limit
        self.grid: Grid = grid_of(dataset, options.boundary)
        self.fold: Fold = folds(dataset, recipe.validation or VALIDATION)[-1]
        self.training = dataset.select(self.fold.train)
        self.noise = estimate_noise(self.training)
        self.notes = list(self.grid.notes)
        self.conserve = self._conserve()
        self.windows: dict[int, Windows] = {}
        self.static = _standardised(options.static, self.grid.space)
        self.tried: list[Linear] = []

    def run(self) -> Fit:
        """All of it."""
        linear, frame = self.linear_part()
        alone = FieldSurrogate(_with_gain(frame, 0.0))
        if linear.error < ENOUGH:
            return self._report(alone, linear, 0.0, linear.error, 0, 0)
        unroll = self._unroll()
        trainer = FieldTrainer(
            self.training, frame, self.recipe, self.options, unroll=unroll, say=self.say, kept=self.kept,
            deadline=self.deadline,
        )  # fmt: skip
        surrogate, share, error = self._share(FieldSurrogate(frame, trainer.members()), alone, linear)
        return self._report(surrogate, linear, share, error, trainer.updates, unroll)

    def _conserve(self) -> str:
        fixed = any(side == "dirichlet" for pair in self.grid.boundary for side in pair)
        wish = self.options.conserve
        if wish == "auto":
            wish = "mean" if not fixed and conserves(self.training) else "none"
            if wish == "mean":
                self.notes.append("the data conserves the mean of every channel, so the model does; conserve='none' "
                                  "lets it go")  # fmt: skip
        if wish != "none" and fixed:
            raise InputError("a mean is not conserved between sides that hold a value; use conserve='none'")
        return wish

    def _unroll(self) -> int:
        if self.recipe.unroll == "auto":
            return STEPS_WHEN_NOISY if self.noise.matters else 0
        return int(self.recipe.unroll)

    def linear_part(self) -> tuple[Linear, FieldFrame]:
        """The convolution that rolls out best over what was held out, and a frame with it and the gain it leaves."""
        known = self.kept.get("convolution")
        if known is not None:
            self.tried = [Linear(h, None if k is None else tuple(k), r, e) for h, k, r, e in known[0]]
        else:
            self.tried = [one for history in self._histories() for one in self._try(history)]
            self.kept.put("convolution", [[one.history, one.kernel, one.ridge, one.error] for one in self.tried])
        allowed = [one for one in self.tried if self.recipe.ridge is not None or one.kernel is None]
        ranked = sorted(allowed, key=lambda one: max(one.error, ENOUGH) + _PER_STATE * one.history)
        frame = self.solved(self.fold.train, ranked[0])
        # Fast forcing looks like noise to differences, but what a convolution foresees is none.
        change = self.solved(self.fold.train, Linear(ranked[0].history, None, None, 0.0)).gain
        self.noise = self.noise.at_most(float(np.median(frame.gain / change)))
        if not self.noise.matters:
            return ranked[0], frame
        # Noise makes maps that grow without bound, and nobody means them.
        for one in ranked:
            steady = self.solved(self.fold.train, one)
            if spectral_radius(steady) <= LONG_RUN:
                return one, steady
        return ranked[0], frame

    def solved(self, parts: tuple[Part, ...], linear: Linear) -> FieldFrame:
        """The frame with this linear part, and the gain it leaves, from some rows of the data."""
        training = self.training if parts == self.fold.train else self.dataset.select(parts)
        frame = empty_frame(training, self.grid, linear.history, self.conserve)
        frame = replace(frame, static=self.static)
        regression = self._regression(training, frame, linear.kernel or frame.kernel)
        if linear.kernel is not None and linear.ridge is not None:
            frame = with_linear(frame, linear.kernel, *regression.solve(linear.ridge))
        gain = regression.left_over(frame.matrix, frame.offset)
        return replace(frame, gain=np.where(gain > 0, gain, 1e-12))

    def _histories(self) -> tuple[int, ...]:
        return (1, 2) if self.recipe.history == "auto" else (int(self.recipe.history),)

    def _kernels(self) -> Iterable[tuple[int, ...]]:
        d = len(self.grid.space)
        if self.options.linear_kernel is not None:
            return [kernel_shape(self.options.linear_kernel, d)]
        sizes = LINEAR_KERNELS[d]
        return dict.fromkeys(tuple(min(size, odd(n)) for n in self.grid.space) for size in sizes)

    def _try(self, history: int) -> list[Linear]:
        frame = empty_frame(self.training, self.grid, history, self.conserve)
        tried = [Linear(history, None, None, self._error(FieldSurrogate(frame)))]
        ridges = RIDGES if self.recipe.ridge == "auto" else [] if self.recipe.ridge is None else [self.recipe.ridge]
        kernels = list(self._kernels())
        for index, kernel in enumerate(kernels):
            self.say(Event(Phase.LINEAR, index, len(kernels), f"history {history}, kernel {_named(kernel)}"))
            regression = self._regression(self.training, frame, kernel)
            for ridge in map(float, ridges):
                solved = with_linear(frame, kernel, *regression.solve(ridge))
                tried.append(Linear(history, kernel, ridge, self._error(FieldSurrogate(solved))))
        return tried

    def _regression(self, training: Dataset, frame: FieldFrame, kernel: tuple[int, ...]) -> PatchRegression:
        batches, where = linear_batches(training, frame), free(frame.space, frame.boundary)
        past = np.zeros(frame.channels * (frame.history - 1), dtype=bool)
        held = np.concatenate([np.ones(frame.channels, dtype=bool), past, np.ones(frame.inputs, dtype=bool)])
        zero_sum = None if self.conserve == "none" else held
        return PatchRegression.of(batches, kernel, frame.boundary, where, zero_sum=zero_sum)

    def _error(self, surrogate: FieldSurrogate) -> float:
        """Mean log error of held-out rollouts."""
        windows = self._windows(surrogate.frame)
        return float(windows.log_error(surrogate.rollout(windows.start, self.fold.steps, windows.inputs)))

    def _windows(self, frame: FieldFrame) -> Windows:
        if frame.history not in self.windows:
            self.windows[frame.history] = load(self.dataset, self.fold, frame.history, frame.scale)
        return self.windows[frame.history]

    def _bounded(self, surrogate: FieldSurrogate) -> bool:
        """Whether it stays where the data was in the long run; asked where noise makes it necessary."""
        frame = surrogate.frame
        index, _, last = self.dataset.stretches(frame.history)[-1]
        window = self.dataset.series[index].rows(last - frame.history, last).astype(np.float64)
        return bounded(cast("Surrogate", surrogate), window)

    def _share(
        self, surrogate: FieldSurrogate, alone: FieldSurrogate, linear: Linear
    ) -> tuple[FieldSurrogate, float, float]:
        """How much of the correction rolls out best over what was held out; none at all where none is best."""
        best, chosen, error = alone, 0.0, linear.error
        for index, share in enumerate(SHARES):
            self.say(Event(Phase.WEIGHT, index, len(SHARES)))
            tried = surrogate.replace(frame=_with_gain(surrogate.frame, share))
            found = self._error(tried)
            # Held-out rollouts are few: networks must do clearly better there to be believed elsewhere.
            if found < error - (MARGIN if chosen == 0.0 else 0.0):
                if self.noise.matters and not self._bounded(tried):
                    continue
                best, chosen, error = tried, share, found
        return best, chosen, error

    def _report(
        self, surrogate: FieldSurrogate, linear: Linear, share: float, error: float, updates: int, unroll: int
    ) -> Fit:
        """The fit; a linear part that is all there is comes from everything, if that is wished."""
        training, rows, held_out = self.training, self.fold.train, self.fold.held_out
        if not share and self.recipe.refit:
            rows, held_out = tuple((index, 0, len(one)) for index, one in enumerate(self.dataset.series)), ()
            training = self.dataset
            surrogate = FieldSurrogate(_with_gain(self.solved(rows, linear), 0.0))
        report = report_of(
            self.dataset, training, self.grid, surrogate, share=share, errors=(error, linear.error), linear=linear,
            noise=self.noise,
        )  # fmt: skip
        report = replace(
            report,
            candidates=[*map(candidate, self.tried), {"share": share, "nmse": math.exp(error)}],
            coverage=self._coverage(surrogate),
            updates=updates if share else 0,
            unroll=unroll if share else 0,
            held_out_steps=self.fold.steps,
            training_rows=rows,
            held_out_rows=held_out,
            notes=(*report.notes, *self.notes),
        )
        # A field surrogate has all that a fit's surrogate is asked for: frame, members, rollout.
        recipe = replace(filled_in(self.recipe, report), refit=not held_out)
        return Fit(cast("Surrogate", surrogate), recipe, report)

    @torch.no_grad()
    def _coverage(self, surrogate: FieldSurrogate) -> float | None:
        """Fraction of hidden positions beyond the control points, on the first held-out states."""
        if not surrogate.members:
            return None
        frame, member = surrogate.frame, surrogate.members[0]
        windows = self._windows(frame)
        known = None if windows.inputs is None else windows.inputs[:, 0]
        weight = member.readout.weight
        features = torch.from_numpy(frame.feature_rows(windows.start, known)).to(weight.device, weight.dtype)
        static = None if frame.static is None else torch.from_numpy(frame.static)
        low, high = (float(value) for value in member.config()["control_range"])
        shares = [
            ((rays.y < low) | (rays.y > high)).double().mean().item()
            for block in member.states(features, static=static)
            for rays in block[1:]
        ]
        return float(np.mean(shares))


def _standardised(static: Array | None, space: tuple[int, ...]) -> Array | None:
    """Fixed fields with their mean at zero and their spread at one, (*space, s)."""
    if static is None:
        return None
    values = np.asarray(static, dtype=np.float64)
    values = values[..., None] if values.shape == space else values
    if values.shape[:-1] != space or not np.isfinite(values).all():
        raise InputError(
            f"static fields must be finite and have shape ({', '.join(map(str, space))}, s), got {np.shape(static)}"
        )
    axes = tuple(range(len(space)))
    spread = values.std(axis=axes)
    return np.asarray((values - values.mean(axis=axes)) / np.where(spread > 0, spread, 1.0))


def _with_gain(frame: FieldFrame, share: float) -> FieldFrame:
    return replace(frame, gain=share * frame.gain)


def _named(kernel: Sequence[int]) -> str:
    return " x ".join(map(str, kernel))
