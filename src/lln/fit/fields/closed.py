"""The closed-form parts of a field step: convolutions, and polynomials of every point beside them."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from lln.core.workers.mapping import Mapper, serial
from lln.data.series import Dataset
from lln.fit.closed.bases import monomial_count
from lln.fit.closed.ridge import FIELD_RIDGES
from lln.fit.fields.data import empty_frame, linear_batches, with_closed
from lln.fit.fields.grid import Grid
from lln.fit.fields.judge import FieldJudge
from lln.fit.fields.linear import PatchRegression
from lln.fit.fields.options import FieldOptions
from lln.fit.fields.report import ENOUGH, Linear
from lln.fit.fields.training import Say, odd
from lln.fit.options import Event, Phase, Recipe, TimeLimit
from lln.models.convolution import kernel_shape
from lln.step.field import FieldStep
from lln.step.field_frame import FieldFrame, free
from lln.step.frame import Array
from lln.step.polynomial import monomial_table
from lln.train.checkpoint import Checkpoint

LINEAR_KERNELS: dict[int, tuple[int, ...]] = {1: (3, 5, 9), 2: (3, 5), 3: (3,)}
POLYNOMIAL_DEGREES, POLYNOMIAL_RIDGES = (2, 3, 5), (1e-11, 1e-8, 1e-5)
_PER_STATE = math.log(2.0)  # a longer history must be this much better to be chosen
_PER_POLYNOMIAL = math.log(1.2)  # a polynomial, too
_MOST_MONOMIALS = 60
_EXPLAINS = 0.95  # of what a part leaves over: a polynomial that leaves more is not rolled out
_LONGER = 1.5  # times as long as the last kernel or history, the next one may take
_AS_GOOD = 1.1  # of what the best kernel leaves over: a smaller kernel may leave so much


@dataclass(eq=False)
class ClosedParts:
    """Solves and scores the closed-form parts of one fit.

    Attributes:
        training: rows that train.
        grid: of the fields.
        judge: of held-out rollouts.
        recipe: options of the fit.
        options: options that only fields have.
        conserve: what a step conserves.
        say: callback that receives progress events.
        kept: checkpoint of the fit.
        mapper: calls the independent pieces: the convolutions of each kernel.
        limit: time limit of the linear parts; what would end later is left out.
        tried: what was scored.
    """

    training: Dataset
    grid: Grid
    judge: FieldJudge
    recipe: Recipe
    options: FieldOptions
    conserve: str
    say: Say
    kept: Checkpoint
    mapper: Mapper = serial
    limit: TimeLimit = field(default_factory=TimeLimit)
    tried: list[Linear] = field(default_factory=list)

    def ranked(self) -> list[Linear]:
        """What was tried, the best first; polynomials whose long rollouts leave the data are never the first."""
        known = self.kept.get("convolution")
        if known is not None:
            self.tried = [Linear(h, None if k is None else tuple(k), *rest) for h, k, *rest in known[0]]
        else:
            began = time.monotonic()
            for history in self._histories():
                # Each longer history takes somewhat longer than the one before.
                if not self.tried or self._allows(_LONGER * (time.monotonic() - began), f"history {history}"):
                    began = time.monotonic()
                    self.tried += self._try(history)
            self.kept.put("convolution", [list(vars(one).values()) for one in self.tried])
        allowed = [one for one in self.tried if self.recipe.ridge is not None or one.kernel is None]
        found = sorted(allowed, key=_rank)
        while found[0].degree > 1 and not self.judge.stay(FieldStep(self.solved(self.training, found[0]))).bounded:
            found = found[1:]
        return found

    def solved(self, rows: Dataset, linear: Linear) -> FieldFrame:
        """The frame with these closed-form parts, and the gain they leave, from `rows`."""
        frame = empty_frame(rows, self.grid, linear.history, self.conserve)
        regression = self.regression(rows, frame, linear.kernel or frame.kernel, linear.degree)
        if linear.kernel is not None and linear.ridge is not None:
            frame = with_closed(frame, linear.kernel, *regression.solve(linear.ridge))
        gain = regression.left_over(frame.matrix, frame.offset, frame.polynomial)
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
        tried = [Linear(history, None, None, self.judge.error(FieldStep(frame)))]
        if self.recipe.ridge is None:
            return tried
        ridges = FIELD_RIDGES if self.recipe.ridge == "auto" else (float(self.recipe.ridge),)
        kernels = list(self._kernels())
        found = self.mapper(_convolutions, self, [(frame, kernel, ridges) for kernel in kernels])
        started = began = time.monotonic()
        for index, kernel in enumerate(kernels):
            if index and not self._allows(_LONGER * (time.monotonic() - began), f"kernel {_named(kernel)}"):
                break
            began = time.monotonic()
            self.say(Event(Phase.LINEAR, index, len(kernels), f"history {history}, kernel {_named(kernel)}"))
            tried += next(found)
        if "polynomial" not in self.recipe.tried_parts or min(one.error for one in tried) < ENOUGH:
            return tried
        if not self._allows(_LONGER * (time.monotonic() - started), "polynomials"):
            return tried
        return [*tried, *self._try_polynomials(frame, kernels)]

    def _allows(self, seconds: float, what: str) -> bool:
        return self.limit.allows(seconds, f"convolutions ({what})")

    def _try_polynomials(self, frame: FieldFrame, kernels: Sequence[tuple[int, ...]]) -> list[Linear]:
        """Polynomials of every point's channels and inputs, beside the smallest kernel that leaves no more over."""
        factors = frame.channels + frame.inputs
        degrees = [degree for degree in POLYNOMIAL_DEGREES if monomial_count(factors, degree) <= _MOST_MONOMIALS]
        if not degrees:
            return []
        ridges = POLYNOMIAL_RIDGES if self.recipe.ridge == "auto" else (float(self.recipe.ridge or 0.0),)
        self.say(Event(Phase.LINEAR, 0, 1, f"history {frame.history}, polynomials"))
        left = [self._left(frame, kernel, degrees[-1], ridges[0]).max() for kernel in kernels]
        kernel = next(one for one, rest in zip(kernels, left, strict=True) if rest <= _AS_GOOD * min(left))
        least, found = self._left(frame, kernel, 1, ridges[0]), list[Linear]()
        for degree in degrees:
            regression = self.regression(self.training, frame, kernel, degree)
            rest = regression.left_over(*regression.solve(ridges[0]))
            if (rest < _EXPLAINS * least).any():
                least = rest
                found += self.scored(regression, frame, ridges, degree)
        return found

    def _left(self, frame: FieldFrame, kernel: tuple[int, ...], degree: int, ridge: float) -> Array:
        """What closed-form parts leave over, (C,)."""
        regression = self.regression(self.training, frame, kernel, degree)
        return regression.left_over(*regression.solve(ridge))

    def scored(
        self, regression: PatchRegression, frame: FieldFrame, ridges: Sequence[float], degree: int = 1
    ) -> list[Linear]:
        """What a regression gives at every ridge, with the error of held-out rollouts."""
        found = []
        for ridge in map(float, ridges):
            solved = with_closed(frame, regression.kernel, *regression.solve(ridge))
            error = self.judge.error(FieldStep(solved))
            found.append(Linear(frame.history, regression.kernel, ridge, error, degree))
        return found

    def regression(self, rows: Dataset, frame: FieldFrame, kernel: tuple[int, ...], degree: int = 1) -> PatchRegression:
        """Of increments on patches and, for a degree above 1, on the monomials of every point."""
        table = None
        if degree > 1:
            inputs = range(frame.features - frame.inputs, frame.features)
            table = monomial_table([*range(frame.channels), *inputs], degree)
        batches, where = linear_batches(rows, frame), free(frame.space, frame.boundary)
        past = np.zeros(frame.channels * (frame.history - 1), dtype=bool)
        held = np.concatenate([np.ones(frame.channels, dtype=bool), past, np.ones(frame.inputs, dtype=bool)])
        zero_sum = None if self.conserve == "none" else held
        return PatchRegression.of(batches, kernel, frame.boundary, where, table=table, zero_sum=zero_sum)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "say": say_nothing, "kept": Checkpoint(None, ""), "mapper": serial}


def _convolutions(parts: ClosedParts, piece: tuple[FieldFrame, tuple[int, ...], Sequence[float]]) -> list[Linear]:
    """The convolutions of one kernel at several ridges: a piece that a mapper calls."""
    frame, kernel, ridges = piece
    return parts.scored(parts.regression(parts.training, frame, kernel), frame, ridges)


def say_nothing(event: Event) -> None:
    """Ignore an event."""
    del event


def _rank(one: Linear) -> float:
    """Held-out error, and what more states and a polynomial must gain."""
    return max(one.error, ENOUGH) + _PER_STATE * one.history + _PER_POLYNOMIAL * (one.degree > 1)


def _named(kernel: Sequence[int]) -> str:
    return " x ".join(map(str, kernel))
