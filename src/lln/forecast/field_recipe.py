"""From a dataset of fields to a surrogate: a least-squares convolution, and field networks on what it leaves over.

Kernel, ridge, history and share are chosen on held-out rollouts, so the result is never worse there than its linear
part. What was held out stays held out.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import Tensor

from lln.core.errors import InputError, choice
from lln.core.seeding import subseed
from lln.data.series import Dataset
from lln.forecast.field_data import FieldExamples, empty_frame, linear_batches, with_linear
from lln.forecast.field_frame import CONSERVE, FieldFrame, free
from lln.forecast.field_grid import Grid, conserves, grid_of
from lln.forecast.field_linear import PatchRegression
from lln.forecast.field_report import Linear, candidate, report_of
from lln.forecast.field_surrogate import FieldSurrogate
from lln.forecast.frame import Array
from lln.forecast.holdout import Fold, Windows, folds, load
from lln.forecast.options import Event, Fit, Recipe, filled_in
from lln.models import FieldLensNetwork
from lln.models.convolution import kernel_shape
from lln.train.checkpoint import Checkpoint, identity_of
from lln.train.config import TrainConfig
from lln.train.unroll import Training, Unroll, unrolled_loss

if TYPE_CHECKING:
    from lln.forecast.surrogate import Surrogate

RIDGES = (1e-14, 1e-11, 1e-8, 1e-5, 1e-3)
SHARES = (0.5, 1.0)
VALIDATION = 0.2
MEMBERS = 2
# By dimensions of space: what two cores train in a few minutes.
SIZES: dict[int, dict[str, int]] = {
    1: {"width": 48, "depth": 6, "kernel": 7, "blocks": 2, "hidden": 24},
    2: {"width": 24, "depth": 4, "kernel": 5, "blocks": 2, "hidden": 12},
    3: {"width": 16, "depth": 3, "kernel": 3, "blocks": 2, "hidden": 8},
}
LINEAR_KERNELS: dict[int, tuple[int, ...]] = {1: (3, 5, 9), 2: (3, 5), 3: (3,)}
UPDATES, FINE_UPDATES = 2500, 600
RATE, FINE_RATE = 3e-3, 3e-4
_ENOUGH = math.log(1e-12)  # below this nothing is gained, and the simplest that gets there is taken
MARGIN = math.log(1.5)
_POINTS = 4096  # of all fields of one batch together
_PER_STATE = math.log(2.0)  # a longer history must be this much better to be believed
_CHUNK = 25

Say = Callable[[Event], object]


@dataclass(frozen=True, eq=False)
class FieldOptions:
    """Choices that only fields have; None and "auto" leave them to the recipe.

    Attributes:
        boundary: for all sides, for each axis, or (low, high) for an axis; "auto" reads it off the data.
        conserve: "none"; "mean" holds the mean of every channel; "flux" lets only fluxes between neighbours change a
            field; "auto" holds the mean where the data does.
        kernel: points of the networks' convolutions, one number or one for each axis.
        linear_kernel: of the linear part; None tries a few.
        blocks: of a network.
        hidden: channels between blocks.
        noise: standard deviation of what is added to the states that training starts from, in units of their spread.
        static: fixed fields (*space, s), or one (*space), that the networks also see, in any units.
    """

    boundary: str | Sequence[str | Sequence[str]] = "auto"
    conserve: str = "auto"
    kernel: int | Sequence[int] | None = None
    linear_kernel: int | Sequence[int] | None = None
    blocks: int | None = None
    hidden: int | None = None
    noise: float = 0.0
    static: Array | None = None

    def __post_init__(self) -> None:
        """Check what can be checked without data."""
        choice("conserve", self.conserve, ("auto", *CONSERVE))


def fit_field_surrogate(
    dataset: Dataset,
    recipe: Recipe,
    *,
    options: FieldOptions | None = None,
    progress: Say | None = None,
    checkpoint: Path | None = None,
) -> Fit:
    """Learn one step of fields on a grid.

    Args:
        dataset: with `space`.
        recipe: sizes, history, ridge, members, training; what it leaves open is chosen here.
        options: what only fields have.
        progress: hears of every phase.
        checkpoint: a file from which a killed fit goes on, to the same result.
    """
    began, wishes = time.monotonic(), options or FieldOptions()
    cook = _Cook(dataset, recipe, wishes, progress or (lambda _: None), checkpoint)
    linear, frame = cook.linear_part()
    members = cook.train(frame)
    surrogate, share, error = cook.share(FieldSurrogate(frame, members), linear)
    report = report_of(
        cook.dataset, cook.training, cook.grid, surrogate, share=share, errors=(error, linear.error), linear=linear,
    )  # fmt: skip
    report = replace(
        report,
        candidates=[*map(candidate, cook.tried), {"share": share, "nmse": math.exp(error)}],
        coverage=cook.coverage(surrogate),
        updates=cook.updates,
        unroll=cook.unroll,
        held_out_steps=cook.fold.steps,
        training_rows=cook.fold.train,
        held_out_rows=cook.fold.held_out,
        notes=(*report.notes, *cook.notes),
        seconds=time.monotonic() - began,
    )
    cook.kept.remove()
    # A field surrogate has all that a fit's surrogate is asked for: frame, members, rollout.
    return Fit(cast("Surrogate", surrogate), replace(filled_in(recipe, report), refit=False), report)


class _Cook:
    """One fit in progress."""

    def __init__(
        self, dataset: Dataset, recipe: Recipe, options: FieldOptions, say: Say, checkpoint: Path | None
    ) -> None:
        self.dataset, self.recipe, self.options, self.say = dataset, recipe, options, say
        self.grid: Grid = grid_of(dataset, options.boundary)
        self.fold: Fold = folds(dataset, recipe.validation or VALIDATION)[-1]
        self.training = dataset.select(self.fold.train)
        self.notes = list(self.grid.notes)
        self.conserve = self._conserve()
        self.windows: dict[int, Windows] = {}
        self.static = _standardised(options.static, self.grid.space)
        seen = None if self.static is None else hashlib.sha256(self.static.tobytes()).hexdigest()
        given = {**recipe.record(), **vars(options), "static": seen, "dataset": dataset.digest(), "field": True}
        self.kept = Checkpoint(checkpoint, identity_of(given))
        self.updates = 0
        self.unroll = 0 if recipe.unroll == "auto" else int(recipe.unroll)
        self.tried: list[Linear] = []

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

    def linear_part(self) -> tuple[Linear, FieldFrame]:
        """The convolution that rolls out best over what was held out, and a frame with it and the gain it leaves."""
        known = self.kept.get("linear")
        if known is not None:
            self.tried = [Linear(h, None if k is None else tuple(k), r, e) for h, k, r, e in known[0]]
        else:
            self.tried = [one for history in self._histories() for one in self._try(history)]
            self.kept.put("linear", [[one.history, one.kernel, one.ridge, one.error] for one in self.tried])
        allowed = [one for one in self.tried if self.recipe.ridge is not None or one.kernel is None]
        best = min(allowed, key=lambda one: max(one.error, _ENOUGH) + _PER_STATE * one.history)
        frame = empty_frame(self.training, self.grid, best.history, self.conserve)
        frame = replace(frame, static=self.static)
        regression = self._regression(frame, best.kernel or frame.kernel)
        if best.kernel is not None and best.ridge is not None:
            frame = with_linear(frame, best.kernel, *regression.solve(best.ridge))
        gain = regression.left_over(frame.matrix, frame.offset)
        return best, replace(frame, gain=np.where(gain > 0, gain, 1e-12))

    def _histories(self) -> tuple[int, ...]:
        return (1, 2) if self.recipe.history == "auto" else (int(self.recipe.history),)

    def _kernels(self) -> Iterable[tuple[int, ...]]:
        d = len(self.grid.space)
        if self.options.linear_kernel is not None:
            return [kernel_shape(self.options.linear_kernel, d)]
        sizes = LINEAR_KERNELS[d]
        return dict.fromkeys(tuple(min(size, _odd(n)) for n in self.grid.space) for size in sizes)

    def _try(self, history: int) -> list[Linear]:
        frame = empty_frame(self.training, self.grid, history, self.conserve)
        tried = [Linear(history, None, None, self._error(FieldSurrogate(frame)))]
        ridges = RIDGES if self.recipe.ridge == "auto" else [] if self.recipe.ridge is None else [self.recipe.ridge]
        kernels = list(self._kernels())
        for index, kernel in enumerate(kernels):
            self.say(Event("linear part", index, len(kernels), f"history {history}, kernel {_named(kernel)}"))
            regression = self._regression(frame, kernel)
            for ridge in map(float, ridges):
                solved = with_linear(frame, kernel, *regression.solve(ridge))
                tried.append(Linear(history, kernel, ridge, self._error(FieldSurrogate(solved))))
        return tried

    def _regression(self, frame: FieldFrame, kernel: tuple[int, ...]) -> PatchRegression:
        batches, where = linear_batches(self.training, frame), free(frame.space, frame.boundary)
        past = np.zeros(frame.channels * (frame.history - 1), dtype=bool)
        held = np.concatenate([np.ones(frame.channels, dtype=bool), past, np.ones(frame.inputs, dtype=bool)])
        zero_sum = None if self.conserve == "none" else held
        return PatchRegression.of(batches, kernel, frame.boundary, where, zero_sum=zero_sum)

    def _error(self, surrogate: FieldSurrogate) -> float:
        """Mean log error of held-out rollouts."""
        history = surrogate.frame.history
        if history not in self.windows:
            self.windows[history] = load(self.dataset, self.fold, history, surrogate.frame.scale)
        windows = self.windows[history]
        return float(windows.log_error(surrogate.rollout(windows.start, self.fold.steps, windows.inputs)))

    def train(self, frame: FieldFrame) -> tuple[FieldLensNetwork, ...]:
        """The members, each trained on one step, then, if wished, over several."""
        count = self.recipe.members or MEMBERS
        members = []
        for index in range(count):
            network = self._network(frame, index).to(self.recipe.device)
            plan = [(1, RATE if self.recipe.learning_rate is None else self.recipe.learning_rate, UPDATES)]
            plan += [(self.unroll, FINE_RATE, FINE_UPDATES)] if self.unroll > 1 else []
            for steps, rate, updates in plan:
                self._run(f"member {index + 1} of {count}, {steps} step", network, frame, steps, rate, updates, count)
            members.append(network.eval())
        return tuple(members)

    def _network(self, frame: FieldFrame, index: int) -> FieldLensNetwork:
        d = len(frame.space)
        given: dict[str, Any] = {**SIZES[d], **self.recipe.sizes}
        for name in ("kernel", "blocks", "hidden"):
            if getattr(self.options, name) is not None:
                given[name] = getattr(self.options, name)
        sizes = kernel_shape(given.pop("kernel"), d)
        static = 0 if frame.static is None else int(frame.static.shape[-1])
        return FieldLensNetwork(
            frame.features,
            frame.outputs,
            dimensions=d,
            kernel=tuple(min(size, _odd(n)) for size, n in zip(sizes, frame.space, strict=True)),
            boundary=frame.boundary,
            static=static,
            generator=torch.Generator().manual_seed(subseed(self.recipe.seed, "network", index)),
            **given,
        )

    def _run(
        self,
        phase: str,
        network: FieldLensNetwork,
        frame: FieldFrame,
        steps: int,
        rate: float,
        updates: int,
        count: int,
    ) -> None:
        examples = FieldExamples.of(self.training, frame, steps)
        batch = self.recipe.batch_size or max(2, min(64, _POINTS // math.prod(frame.space)))
        if self.recipe.epochs != "auto":
            updates = int(self.recipe.epochs) * -(-len(examples) // batch)
        seed = subseed(self.recipe.seed, phase) >> 32
        config = TrainConfig(batch_size=batch, learning_rate=rate, clip=1.0, schedule="cosine", seed=seed)
        unroll = Unroll(steps, noise=self.options.noise * float(frame.channel_scale.mean()))
        loss = unrolled_loss(
            field_step(frame, network), examples, frame.history, unroll, inputs=examples.inputs(),
            weights=examples.weights(), scale=torch.from_numpy(frame.channel_scale * frame.gain), seed=seed,
        )  # fmt: skip
        training = Training(network, loss, len(examples), config, updates)
        known = self.kept.get(phase)
        if known is not None:
            training.restore(*known)
        limit = None if self.recipe.time_limit is None else 0.8 * self.recipe.time_limit / count
        began = time.monotonic()
        while not training.finished:
            value = training.run(_CHUNK)
            self.say(Event(phase, training.done, training.updates, f"loss {value:.2e}"))
            if limit is not None and training.done == _CHUNK:
                each = (time.monotonic() - began) / _CHUNK
                training.updates = max(2 * _CHUNK, min(training.updates, int(limit / each)))
            if self.kept.due or training.finished:
                self.kept.put(phase, *training.state())
        self.updates += training.done

    def share(self, surrogate: FieldSurrogate, linear: Linear) -> tuple[FieldSurrogate, float, float]:
        """How much of the correction rolls out best over what was held out; none at all where none is best."""
        best, chosen, error = replace(surrogate, frame=_with_gain(surrogate.frame, 0.0)), 0.0, linear.error
        for index, share in enumerate(SHARES):
            self.say(Event("share", index, len(SHARES)))
            tried = replace(surrogate, frame=_with_gain(surrogate.frame, share))
            found = self._error(tried)
            # Held-out rollouts are few: networks must do clearly better there to be believed elsewhere.
            if found < error - (MARGIN if chosen == 0.0 else 0.0):
                best, chosen, error = tried, share, found
        return best, chosen, error

    @torch.no_grad()
    def coverage(self, surrogate: FieldSurrogate) -> float:
        """Fraction of hidden positions beyond the control points, on the first held-out states."""
        frame, member = surrogate.frame, surrogate.members[0]
        windows = self.windows[frame.history]
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


def field_step(frame: FieldFrame, network: FieldLensNetwork) -> Callable[[Tensor, Tensor | None], Tensor]:
    """One step with gradients: (B, H, *space, C) and inputs (B, m) -> (B, *space, C), all float64 but the network."""
    weight = network.readout.weight
    static = None if frame.static is None else torch.from_numpy(frame.static).to(weight.device, weight.dtype)

    def step(window: Tensor, inputs: Tensor | None) -> Tensor:
        features = frame.feature_fields(window.unbind(1), inputs)
        correction = network(features.to(weight.device, weight.dtype), static=static)
        return window[:, -1] + frame.change(features, correction.to(features))

    return step


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


def _odd(points: int) -> int:
    """The largest odd kernel that a grid of so many points can carry by mirrors."""
    return max(1, 2 * ((points - 1) // 2) - 1)


def _named(kernel: Sequence[int]) -> str:
    return " x ".join(map(str, kernel))
