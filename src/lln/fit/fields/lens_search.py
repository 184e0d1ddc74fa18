"""The search for a lens network in closed form: kernel, noise, scale, history and ridge, by held-out rollouts."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from lln.data.series import Dataset
from lln.fit.fields.judge import FieldJudge, Stay
from lln.fit.fields.lenses import LensChoice, LensRegression, solve_lenses
from lln.fit.fields.training import Say, odd
from lln.fit.options import Event, Phase
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
        until: end of the search by the monotonic clock; None for no limit.
        tried: record of every network that was judged.
    """

    training: Dataset
    judge: FieldJudge
    seed: int
    say: Say
    until: float | None = None
    tried: list[dict[str, Any]] = field(default_factory=list)

    def best(self, frames: list[FieldFrame]) -> JudgedLenses | None:
        """The best network; None where the rows are too few for any.

        Args:
            frames: one for each history, without closed-form parts; the first is searched, the others are compared
                with the settings that were found.
        """
        best: JudgedLenses | None = None
        for choice in self._kernels(frames[0]):
            before, best = best, self._better(best, frames[0], choice)
            if before is best:
                break  # wider kernels leave fewer rays
        if best is None:
            return None
        best = self._noises(best, frames[0])
        for scale in SCALES:
            best = self._better(best, frames[0], replace(best.choice, scale=scale))
        for frame in frames[1:]:
            best = self._better(best, frame, best.choice)
        return best

    def final(self, rows: Dataset, frame: FieldFrame, choice: LensChoice) -> tuple[FieldStep, Stay]:
        """The mean of several draws, solved on `rows`, with as much more noise as it takes to stay, and its stay."""
        found: list[tuple[FieldStep, Stay]] = []
        for factor in _MORE_NOISE:
            step = solve_lenses(rows, frame, replace(choice, noise=factor * choice.noise), self.seed, FINAL_ROWS, DRAWS)
            found.append((step, self.judge.stay(step, _FINAL_STARTS, SHAKEN)))
            if found[-1][1].bounded or (self.until is not None and time.monotonic() > self.until):
                break
        return min(found, key=lambda one: one[1].left)

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
            before, best = best, self._better(best, frame, replace(best.choice, noise=factor * first))
            if before is not best and best.stay.bounded:
                break
        return best

    def _better(self, best: JudgedLenses | None, frame: FieldFrame, choice: LensChoice) -> JudgedLenses:
        """The better of `best` and the network of `choice` at its best ridge; `best` when time is over."""
        if best is not None and self.until is not None and time.monotonic() > self.until:
            return best
        kernel = " x ".join(map(str, choice.kernel))
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
        assert best is not None
        return best
