"""The search for a lens network in closed form: kernel, noise, scale, history and ridge, by held-out rollouts."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from lln.data.series import Dataset
from lln.fit.fields.judge import SLACK, FieldJudge, Stay
from lln.fit.fields.lenses import LensChoice, LensRegression, drawn_network, fields_of, solve_lenses
from lln.fit.fields.training import Say, odd
from lln.fit.options import Event, Phase, TimeLimit
from lln.step.field import FieldStep
from lln.step.field_frame import FieldFrame

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
_LARGEST = 700.0  # log of what a float can hold
_SEARCH = 0.25  # of the time that is left, after which no second network is judged
_TIMED_ROWS = 256


@dataclass(frozen=True, eq=False)
class JudgedLenses:
    """A lens network in closed form with its scores.

    Attributes:
        choice: all settings.
        step: solved on the rows that train.
        error: log error of held-out rollouts.
        stay: result of long rollouts.
    """

    choice: LensChoice
    step: FieldStep
    error: float
    stay: Stay

    @property
    def rank(self) -> tuple[int, float]:
        """Bounded rollouts come first, then the error."""
        return self.stay.left, self.error


@dataclass(eq=False)
class LensSearch:
    """Searches one setting after another, from the middle of each range.

    Attributes:
        training: rows that train.
        judge: of held-out rollouts.
        seed: of the draws.
        say: callback that receives progress events.
        limit: time limit of the search; a network that cannot be judged in time is not solved.
        tried: record of every network that was judged.
        search: time limit of all networks after the first.
    """

    training: Dataset
    judge: FieldJudge
    seed: int
    say: Say
    limit: TimeLimit = field(default_factory=TimeLimit)
    tried: list[dict[str, Any]] = field(default_factory=list)
    search: TimeLimit = field(default_factory=TimeLimit)
    _taken: dict[LensChoice, float] = field(default_factory=dict)  # seconds of networks of one size

    def best(self, frames: list[FieldFrame]) -> JudgedLenses | None:
        """The best network; None where the rows are too few for any.

        Args:
            frames: one for each history, without closed-form parts; the first is searched, the others are compared
                with the settings that were found.
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
        for scale in SCALES:
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
        fields = self.judge.pace(step) * fields_of(rows, frame, count)
        return draws * SLACK * (fields + _normal_equations(frame, choice, count)) + judged

    def _seconds(self, frame: FieldFrame, choice: LensChoice) -> float:
        """Estimate how long it takes to solve and judge the networks of `choice`, one for each ridge."""
        size = replace(choice, scale=0.0, noise=0.0)
        if size in self._taken:
            return self._taken[size]
        step = self._unsolved(frame, choice)
        fields = self.judge.pace(step) * fields_of(self.training, frame, SEARCH_ROWS)
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
        for ridge in RIDGES:
            step = regression.solve(ridge)
            error = self.judge.error(step)
            row = {"history": frame.history, "nmse": math.exp(min(error, _LARGEST))}
            self.tried.append({**replace(choice, ridge=ridge).record(), **row})
            if best is not None and best.stay.bounded and not error < best.error:
                continue  # long rollouts could not make it the better one
            one = JudgedLenses(replace(choice, ridge=ridge), step, error, self.judge.stay(step, noise=SHAKEN))
            self.tried[-1]["left"] = one.stay.left
            best = one if best is None or one.rank < best.rank else best
        self._taken[replace(choice, scale=0.0, noise=0.0)] = time.monotonic() - began
        return best


def _normal_equations(frame: FieldFrame, choice: LensChoice, rows: int) -> float:
    """Seconds that the sums of products of so many rows and one solution take, from a few rows."""
    columns = math.prod(choice.linear_kernel) * frame.features + math.prod(choice.kernel) * choice.width + 1
    few = np.ones((_TIMED_ROWS, columns))
    began = time.monotonic()
    few.T @ few
    return (time.monotonic() - began) * (rows + columns / 6) / _TIMED_ROWS
