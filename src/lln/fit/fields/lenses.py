"""Lens networks on grids in closed form: lenses are drawn, and one readout for all points is solved in float64.

The network is a `FieldLensNetwork` of one block. Its embedding and its lenses are drawn. The readout convolution and
the linear convolution beside it are solved together, by normal equations that are summed over fields. States are
shifted by noise before they are embedded, and the wanted increment leads back to the next state without noise:
otherwise waves that the data does not contain grow in rollouts.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from scipy import linalg
from torch import Tensor

from lln.data.series import Dataset
from lln.data.stream import pair_batches
from lln.fit.closed.bases import CONTROL_POINTS, DEPTH, DEVIATION, RANGE, SPACINGS
from lln.fit.fields.judge import SLACK, FieldJudge, Stay
from lln.fit.fields.training import odd
from lln.fit.options import Event, Phase, Progress, TimeLimit
from lln.models import FieldLensNetwork
from lln.models.convolution import padded
from lln.models.field import FieldBlock
from lln.step.field import FieldStep
from lln.step.field_frame import FieldFrame, free
from lln.step.frame import Array
from lln.train.batches import subseed

_NUMBERS = 1 << 22  # of patches held at a time
# Rows are spread over this many fields, since neighbours are nearly the same, unless their points are too many.
_FIELDS, _LEAST_FIELDS, _POINTS = 600, 64, 200_000


@dataclass(frozen=True)
class LensChoice:
    """A lens network in closed form with all that is needed to solve it again."""

    linear_kernel: tuple[int, ...]  #: points of the linear convolution along each axis.
    kernel: tuple[int, ...]  #: points of the network's convolutions along each axis.
    width: int  #: number of rays at each point.
    scale: float  #: standard deviation of the embedding for three features; it falls with the root of their number.
    noise: float  #: on the states, in units of their spread.
    ridge: float = 0.0  #: relative to the trace of the normalised normal equations.

    def record(self) -> dict[str, Any]:
        """As plain values, for the report."""
        return {"part": "lens", "kernel": list(self.kernel), "width": self.width, "scale": self.scale,
                "noise": self.noise, "ridge": self.ridge}  # fmt: skip


def drawn_network(frame: FieldFrame, choice: LensChoice, seed: int) -> FieldLensNetwork:
    """A field network of one block in float64, with drawn embedding and lenses and a readout of zero."""
    static = 0 if frame.static is None else int(frame.static.shape[-1])
    network = FieldLensNetwork(
        frame.features, frame.channels, dimensions=len(frame.space), width=choice.width, depth=DEPTH,
        basis=CONTROL_POINTS, kernel=choice.kernel, blocks=1, boundary=frame.boundary, static=static,
        control_range=(-RANGE, RANGE), sigma=SPACINGS * 2 * RANGE / (CONTROL_POINTS - 1), generator=torch.Generator(),
    ).double()  # fmt: skip
    block, rng = _block(network), np.random.default_rng(seed)
    seen = block.embed_position.weight.shape[1]
    deviation = choice.scale / math.sqrt(seen / 3)
    assert block.embed_angle is not None
    with torch.no_grad():
        for layer, bias in (
            (block.embed_position, rng.uniform(-0.8 * RANGE, 0.8 * RANGE, size=choice.width)),
            (block.embed_angle, rng.normal(size=choice.width)),
        ):
            layer.weight.copy_(torch.from_numpy(deviation * rng.normal(size=(choice.width, seen))))
            layer.bias.copy_(torch.from_numpy(bias))
        block.coefficients.copy_(torch.from_numpy(DEVIATION * rng.normal(size=tuple(block.coefficients.shape))))
        network.readout.weight.zero_()
        network.readout.bias.zero_()
    return network.eval().requires_grad_(False)


class LensRegression:
    """The normal equations of one drawn network, whatever the ridge.

    Args:
        dataset: rows that train.
        frame: units, history, boundaries and conservation.
        choice: all but the ridge.
        seed: of the draws and of the noise.
        rows: points that are looked at, about.
    """

    def __init__(self, dataset: Dataset, frame: FieldFrame, choice: LensChoice, seed: int, rows: int) -> None:
        self.frame, self.choice = frame, choice
        self.network = drawn_network(frame, choice, subseed(seed, "field lenses"))
        self.gram = self.moments = np.zeros(())
        for columns, wanted in self._rows(dataset, np.random.default_rng(subseed(seed, "noise")), rows):
            self.gram = self.gram + columns.T @ columns
            self.moments = self.moments + columns.T @ wanted

    def solve(self, ridge: float) -> FieldStep:
        """The step at one ridge."""
        size = np.sqrt(np.diagonal(self.gram))
        size = np.where(size > 0, size, 1.0)
        gram, moments = self.gram / np.outer(size, size), self.moments / size[:, None]
        found = (_solved(gram, moments, ridge) / size[:, None]).T
        frame, channels = self.frame, self.frame.channels
        linear = math.prod(self.choice.linear_kernel) * frame.features
        offset = np.zeros(channels) if self._conserved else found[:, -1].copy()
        network = FieldLensNetwork(**self.network.config(), generator=torch.Generator()).double()
        network.load_state_dict(self.network.state_dict())
        with torch.no_grad():
            last = found.shape[1] if self._conserved else -1
            network.readout.weight.copy_(torch.from_numpy(np.ascontiguousarray(found[:, linear:last])))
        solved = replace(
            frame, kernel=self.choice.linear_kernel, matrix=np.ascontiguousarray(found[:, :linear]), offset=offset,
            gain=np.ones(channels), polynomial=None,
        )  # fmt: skip
        return FieldStep(solved, (network.eval().requires_grad_(False),))

    @property
    def _conserved(self) -> bool:
        return self.frame.conserve != "none"

    def _rows(self, dataset: Dataset, rng: np.random.Generator, rows: int) -> Iterator[tuple[Array, Array]]:
        """Columns (P, M) and standardised increments (P, C) of some points of some fields."""
        frame, where = self.frame, np.flatnonzero(free(self.frame.space, self.frame.boundary))
        total, fields = dataset.transitions(frame.history), fields_of(dataset, frame, rows)
        each = min(len(where), -(-rows // fields))
        stride, seen = total / fields, 0
        size = max(1, _NUMBERS // (each * len(self.network.readout.weight[0])))
        for batch in pair_batches(dataset, frame.history):
            picked = (np.arange(math.ceil(seen / stride), math.ceil((seen + len(batch)) / stride)) * stride).astype(int)
            picked, seen = np.clip(picked - seen, 0, len(batch) - 1), seen + len(batch)
            for k in (picked[first : first + size] for first in range(0, len(picked), size)):
                noise = self.choice.noise * frame.scale * rng.standard_normal(batch.window[k].shape)
                known = None if batch.inputs is None else batch.inputs[k]
                features = torch.from_numpy(frame.feature_rows(batch.window[k] + noise, known))
                change = frame.fields(batch.increments[k] - noise[:, -1]) / torch.from_numpy(frame.channel_scale)
                points = torch.from_numpy(where if each == len(where) else np.sort(rng.permutation(where)[:each]))
                columns, wanted = self._columns(features, points), self._patches(change, self._one, points)
                if batch.weights is not None:
                    root = torch.from_numpy(batch.weights[k]).double().sqrt().view(-1, 1, 1)
                    columns, wanted = root * columns, root * wanted
                yield columns.flatten(0, 1).numpy(), wanted.flatten(0, 1).numpy()

    @property
    def _one(self) -> tuple[int, ...]:
        return (1,) * len(self.frame.space)

    @torch.no_grad()
    def _columns(self, features: Tensor, points: Tensor) -> Tensor:
        """[linear patches, patches of ray positions, 1] at some points of fields, (B, P, M)."""
        seen = features
        if self.frame.static is not None:
            static = torch.from_numpy(self.frame.static)
            seen = torch.cat((features, static.expand(*features.shape[:-1], -1)), dim=-1)
        rays = _block(self.network).transport(*self.network.embed(0, seen)).y
        parts = [
            self._patches(features, self.choice.linear_kernel, points),
            self._patches(rays, self.choice.kernel, points),
        ]
        if not self._conserved:
            parts.append(torch.ones(*parts[0].shape[:-1], 1, dtype=torch.float64))
        return torch.cat(parts, dim=-1)

    def _patches(self, fields: Tensor, kernel: tuple[int, ...], points: Tensor) -> Tensor:
        """Patches of fields (B, *space, channels) at some points, (B, P, kernel points * channels).

        Their means over space are taken away where the step conserves means.
        """
        view = mean = padded(fields, kernel, self.frame.boundary)
        for place, size in enumerate(kernel):
            view = view.unfold(1 + place, size, 1)  # (B, *space, channels, *kernel)
        chosen: Any = (slice(None), *torch.unravel_index(points, self.frame.space))
        found = view[chosen]
        if self._conserved:
            for size in kernel:  # one axis after another: that of all patches at once would read each point often
                mean = mean.unfold(1, size, 1).mean(dim=1)
            found = found - mean.unsqueeze(1)
        return found.flatten(3).transpose(2, 3).flatten(2)


def fields_of(dataset: Dataset, frame: FieldFrame, rows: int) -> int:
    """Number of fields over which about `rows` points are spread."""
    points = int(free(frame.space, frame.boundary).sum())
    spread = max(_LEAST_FIELDS, min(_FIELDS, _POINTS // points))
    return min(dataset.transitions(frame.history), max(spread, -(-rows // points)))


def solve_lenses(
    dataset: Dataset, frame: FieldFrame, choice: LensChoice, seed: int, rows: int, draws: int = 1
) -> FieldStep:
    """The step of `choice`; the mean of several draws."""
    made = [LensRegression(dataset, frame, choice, subseed(seed, k), rows).solve(choice.ridge) for k in range(draws)]
    mean = replace(
        made[0].frame,
        matrix=np.mean([one.frame.matrix for one in made], axis=0),
        offset=np.mean([one.frame.offset for one in made], axis=0),
    )
    return FieldStep(mean, [member for one in made for member in one.members])


def _block(network: FieldLensNetwork) -> FieldBlock:
    block = network.blocks[0]
    assert isinstance(block, FieldBlock)
    return block


def _solved(gram: Array, moments: Array, ridge: float) -> Array:
    """The weights at `ridge`, or at the next ridge for which rounding leaves the equations positive."""
    top = float(np.trace(gram))
    while True:
        try:
            factor = linalg.cho_factor(gram + ridge * top * np.eye(len(gram)), overwrite_a=True, check_finite=False)
        except linalg.LinAlgError:
            ridge = max(10.0 * ridge, 1e-16)
            continue
        found: Array = linalg.cho_solve(factor, moments)
        return found


KERNELS: dict[int, tuple[int, ...]] = {1: (9, 17, 25), 2: (3, 5, 7), 3: (3,)}
LINEAR_KERNEL = {1: 33, 2: 9, 3: 5}
RIDGES = (1e-13, 1e-10)
SCALE, SCALES = 0.2, (0.1, 0.4)
NOISE = 1e-3
SEARCH_ROWS, FINAL_ROWS = 12_000, 60_000
SHAKEN = 0.01  # noise on the starts of long rollouts, in units of the spread
DRAWS = 3  # networks whose mean is used in the end
_FINAL_STARTS, _MORE_NOISE = 30, (1.0, 3.0, 10.0)
_COLUMNS = 900  # of the readout
_ROWS_PER_COLUMN = 3
_LEAST_WIDTH = 8
_BEHIND = math.log(1.5)  # a network that errs by so much more over a few rollouts is not rolled out over all
_HOPELESS = math.log(3.0)  # another scale of the draws does not make up for so much
_LARGEST = 700.0  # log of what a float can hold
_SEARCH = 0.25  # of the time that is left, after which no second network is judged
_TIMED_ROWS = 256


@dataclass(frozen=True, eq=False)
class JudgedLenses:
    """A lens network in closed form with its scores."""

    choice: LensChoice  #: all settings.
    step: FieldStep  #: solved on the rows that train.
    error: float  #: log error of held-out rollouts.
    rough: float  #: the same of a few rollouts.
    stay: Stay  #: result of long rollouts.

    @property
    def rank(self) -> tuple[int, float]:
        """Bounded rollouts come first, then the error."""
        return self.stay.left, self.error


@dataclass(eq=False)
class LensSearch:
    """Search for settings one after another, from the middle of each range."""

    training: Dataset  #: rows that train.
    judge: FieldJudge  #: of held-out rollouts.
    seed: int  #: of the draws.
    say: Progress  #: callback that receives progress events.
    limit: TimeLimit  #: time limit of the search; a network that cannot be judged in time is not solved.
    tried: list[dict[str, Any]] = field(default_factory=list)  #: record of every network that was judged.
    search: TimeLimit = field(default_factory=TimeLimit)  #: time limit of all networks after the first.
    _taken: dict[LensChoice, float] = field(default_factory=dict)  # seconds of networks of one size

    def best(self, frames: list[FieldFrame], other: float) -> JudgedLenses | None:
        """The best network; None where the rows are too few for any.

        Args:
            frames: one for each history, without closed-form parts; the first is searched, the others are compared
                with the settings that were found.
            other: log error of the other closed forms; what is far behind them is not refined.
        """
        best: JudgedLenses | None = None
        self.search = self.limit.part(_SEARCH)
        for choice in self._kernels(frames[0]):
            before, best = best, self._better(best, frames[0], choice)
            if before is best:
                break  # wider kernels leave fewer rays
        if best is None:
            return None
        best = self._noises(best, frames[0])
        for scale in SCALES if best.error < other + _HOPELESS else ():
            best = self._better(best, frames[0], replace(best.choice, scale=scale)) or best
        for frame in frames[1:]:
            best = self._better(best, frame, best.choice) or best
        return best

    def final(
        self, rows: Dataset, frame: FieldFrame, choice: LensChoice, limit: TimeLimit
    ) -> tuple[FieldStep, Stay] | None:
        """The mean of several draws, solved on `rows`, with as much more noise as it takes to stay, and its stay.

        Where the limit is too short for that, fewer draws and rows are taken; None where it is too short for any.
        """
        draws, count, seconds = DRAWS, FINAL_ROWS, 0.0
        if limit.seconds is not None:
            seconds = self._solving(rows, frame, choice, count, draws)
            if not limit.allows(seconds, "the mean of several draws of lenses"):
                draws, count = 1, SEARCH_ROWS
                seconds = self._solving(rows, frame, choice, count, draws)
                if not limit.allows(seconds, "lenses solved again on everything"):
                    return None
        found: list[tuple[FieldStep, Stay]] = []
        for factor in _MORE_NOISE:
            if found and not limit.allows(seconds, "lenses with more noise"):
                break
            step = solve_lenses(rows, frame, replace(choice, noise=factor * choice.noise), self.seed, count, draws)
            found.append((step, self.judge.stay(step, _FINAL_STARTS, SHAKEN)))
            if found[-1][1].bounded:
                break
        return min(found, key=lambda one: one[1].left)

    def _solving(self, rows: Dataset, frame: FieldFrame, choice: LensChoice, count: int, draws: int) -> float:
        """Estimate how long it takes to solve some draws on about `count` points and to roll their mean out."""
        step = self._unsolved(frame, choice)
        judged = self.judge.seconds(step.replace(members=[*step.members] * draws), 0)
        fields = self.judge.seconds_per_step(step) * fields_of(rows, frame, count)
        return draws * SLACK * (fields + _normal_equations(frame, choice, count)) + judged

    def _seconds(self, frame: FieldFrame, choice: LensChoice) -> float:
        """Estimate how long it takes to solve and judge the networks of `choice`, one for each ridge."""
        size = replace(choice, scale=0.0, noise=0.0)
        if size in self._taken:
            return self._taken[size]
        step = self._unsolved(frame, choice)
        fields = self.judge.seconds_per_step(step) * fields_of(self.training, frame, SEARCH_ROWS)
        solving = SLACK * (fields + _normal_equations(frame, choice, SEARCH_ROWS))
        return solving + len(RIDGES) * self.judge.seconds(step)

    def _unsolved(self, frame: FieldFrame, choice: LensChoice) -> FieldStep:
        """A step of the same cost as the networks of `choice`."""
        taps = math.prod(choice.linear_kernel) * frame.features
        empty = replace(frame, kernel=choice.linear_kernel, matrix=np.zeros((frame.channels, taps)))
        return FieldStep(empty, (drawn_network(frame, choice, 0),))

    def _kernels(self, frame: FieldFrame) -> Iterator[LensChoice]:
        d, rows = len(frame.space), self.training.transitions(frame.history) * math.prod(frame.space)
        linear = tuple(min(LINEAR_KERNEL[d], odd(n)) for n in frame.space)
        for kernel in dict.fromkeys(tuple(min(size, odd(n)) for n in frame.space) for size in KERNELS[d]):
            width = min(_COLUMNS, rows // _ROWS_PER_COLUMN) // math.prod(kernel)
            if width >= _LEAST_WIDTH:
                yield LensChoice(linear, kernel, width, SCALE, NOISE)

    def _noises(self, best: JudgedLenses, frame: FieldFrame) -> JudgedLenses:
        """Less noise where rollouts stay, more where they do not."""
        first, factors = best.choice.noise, (0.1, 0.3) if best.stay.bounded else (10.0, 30.0)
        for factor in factors:
            before, best = best, self._better(best, frame, replace(best.choice, noise=factor * first)) or best
            if before is not best and best.stay.bounded:
                break
        return best

    def _better(self, best: JudgedLenses | None, frame: FieldFrame, choice: LensChoice) -> JudgedLenses | None:
        """The better of `best` and the network of `choice` at its best ridge; `best` where time is too short."""
        kernel = " x ".join(map(str, choice.kernel))
        limit = self.limit if best is None else self.search
        if limit.seconds is not None and not limit.allows(self._seconds(frame, choice), "lenses in closed form"):
            return best
        began = time.monotonic()
        self.say(Event(Phase.CLOSED, len(self.tried), len(self.tried) + 1, f"lenses, kernel {kernel}"))
        regression = LensRegression(self.training, frame, choice, self.seed, SEARCH_ROWS)
        for one, row in sorted((self._judged(regression, ridge, best) for ridge in RIDGES), key=lambda k: k[0].error):
            # Long rollouts could not make any other the better one.
            if best is None or not best.stay.bounded or one.error < best.error:
                one = replace(one, stay=self.judge.stay(one.step, noise=SHAKEN))
                row["left"] = one.stay.left
                best = one if best is None or one.rank < best.rank else best
        self._taken[replace(choice, scale=0.0, noise=0.0)] = time.monotonic() - began
        return best

    def _judged(
        self, regression: LensRegression, ridge: float, best: JudgedLenses | None
    ) -> tuple[JudgedLenses, dict[str, Any]]:
        """The network at one ridge, before its long rollouts, and its record; one far behind has no error."""
        step, choice = regression.solve(ridge), replace(regression.choice, ridge=ridge)
        rough = self.judge.rough(step)
        behind = best is not None and best.stay.bounded and not rough < best.rough + _BEHIND
        error = rough if behind else self.judge.error(step, rough)
        self.tried.append(
            {**choice.record(), "history": regression.frame.history, "nmse": math.exp(min(error, _LARGEST))}
        )
        one = JudgedLenses(choice, step, math.inf if behind else error, rough, Stay(0, 0, 0))
        return one, self.tried[-1]


def _normal_equations(frame: FieldFrame, choice: LensChoice, rows: int) -> float:
    """Seconds that the sums of products of so many rows and one solution take, from a few rows."""
    columns = math.prod(choice.linear_kernel) * frame.features + math.prod(choice.kernel) * choice.width + 1
    few = np.ones((_TIMED_ROWS, columns))
    began = time.monotonic()
    few.T @ few
    return (time.monotonic() - began) * (rows + columns / 6) / _TIMED_ROWS
