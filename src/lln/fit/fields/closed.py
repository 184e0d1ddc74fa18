"""The closed-form parts of a field step: convolutions, and polynomials of every point beside them.

Patches of smooth fields are nearly dependent, and normal equations would square that. The rows are reduced by QR
instead: the triangle of all rows so far and the next rows gives the next triangle. Only the triangle is stored.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lln.core.errors import InputError
from lln.core.workers import Mapper, serial
from lln.data.series import Dataset
from lln.fit.closed.ridge import FIELD_RIDGES
from lln.fit.closed.vector_fields import monomial_count
from lln.fit.fields.data import Grid, empty_frame, linear_batches, spectral_radius
from lln.fit.fields.judge import FieldJudge
from lln.fit.fields.training import FieldOptions, odd
from lln.fit.fields.waves import WaveRegression
from lln.fit.options import Event, Phase, Progress, Recipe, TimeLimit, say_nothing
from lln.models.convolution import Sides, kernel_shape, patches
from lln.step.field import FieldStep
from lln.step.field_frame import FieldFrame, free
from lln.step.frame import Array, Polynomial, PolynomialPart, Table, monomial_table
from lln.train.loop import Checkpoint

# Below this, what is left is the rounding of single precision: nothing is gained, and the simplest that does it wins.
ENOUGH = math.log(1e-12)
LINEAR_KERNELS: dict[int, tuple[int, ...]] = {1: (3, 5, 9), 2: (3, 5), 3: (3,)}
POLYNOMIAL_DEGREES, POLYNOMIAL_RIDGES = (2, 3, 5), (1e-11, 1e-8, 1e-5)
_PER_STATE = math.log(2.0)  # a longer history must be this much better to be chosen
_PER_POLYNOMIAL = math.log(1.2)  # a polynomial, too
_PER_WIDTH = math.log(10.0)  # a kernel as wide as the grid, too
_MOST_MONOMIALS = 60
# A linear part whose waves grow is replaced by one that errs by no more than so many times as much, or is nearly exact.
_MUCH_WORSE, _NEARLY_EXACT = math.log(30.0), math.log(1e-10)
LONG_RUN = 1.0 + 1e-6  # growth of a wave in one step that is only rounding
_STEADY = 1.001  # growth of a wave in one step: not even three times in a thousand
_WHOLE_POINTS = 4096  # of a grid, at most, for a kernel as wide: exported steps take as many products for each point
_EXPLAINS = 0.95  # of what a part leaves over: a polynomial that leaves more is not rolled out
_LONGER = 1.5  # times as long as the last kernel or history, the next one may take
_AS_GOOD = 1.1  # of what the best kernel leaves over: a smaller kernel may leave so much


@dataclass(frozen=True)
class Linear:
    """Closed-form parts that were tried."""

    history: int  #: states that a step looks at.
    kernel: tuple[int, ...] | None  #: of the linear part; None for no closed-form part.
    ridge: float | None  #: of all closed-form parts.
    error: float  #: log of the held-out error.
    degree: int = 1  #: of the polynomial; 1 for the linear part alone.

    def record(self) -> dict[str, Any]:
        """As plain values, for the report."""
        kernel = None if self.kernel is None else list(self.kernel)
        row = {
            "history": self.history,
            "kernel": kernel,
            "ridge": self.ridge,
            "correction_weight": 0.0,
            "nmse": math.exp(self.error),
        }
        return row if self.degree == 1 else {**row, "degree": self.degree}

    @property
    def rank(self) -> float:
        """Held-out error, and what more states and a polynomial must gain."""
        return max(self.error, ENOUGH) + _PER_STATE * self.history + _PER_POLYNOMIAL * (self.degree > 1)


@dataclass(eq=False)
class ClosedParts:
    """Solves and scores the closed-form parts of one fit."""

    training: Dataset  #: rows that train.
    grid: Grid  #: of the fields.
    judge: FieldJudge  #: of held-out rollouts.
    recipe: Recipe  #: options of the fit.
    options: FieldOptions  #: options that only fields have.
    conserve: str  #: what a step conserves.
    say: Progress  #: callback that receives progress events.
    checkpoint: Checkpoint  #: checkpoint of the fit.
    mapper: Mapper  #: calls the independent pieces: the convolutions of each kernel.
    limit: TimeLimit  #: time limit of the linear parts; what would end later is left out.
    tried: list[Linear] = field(default_factory=list)  #: what was scored.
    _known: dict[tuple[int, tuple[int, ...], int], FieldRegression] = field(default_factory=dict)

    def ranked(self) -> list[Linear]:
        """What was tried, the best first; where there is a choice, rollouts of the first do not grow."""
        known = self.checkpoint.get("convolution")
        if known is not None:
            self.tried = [Linear(h, None if k is None else tuple(k), *rest) for h, k, *rest in known[0]]
        else:
            began = time.monotonic()
            for history in self._histories():
                # Each longer history takes somewhat longer than the one before.
                if not self.tried or self._allows(_LONGER * (time.monotonic() - began), f"history {history}"):
                    began = time.monotonic()
                    self.tried += self._try(history)
            self.checkpoint.put("convolution", [list(vars(one).values()) for one in self.tried])
        allowed = [one for one in self.tried if self.recipe.ridge is not None or one.kernel is None]
        found = sorted(allowed, key=self._rank)
        equal = sum(self._rank(one) == self._rank(found[0]) for one in found)
        if equal > 1:  # all are exact
            found[:equal] = sorted(found[:equal], key=self._among_exact)
        most = self._rank(found[0]) + _MUCH_WORSE
        for index, one in enumerate(found):
            if self.limit.passed():
                break
            good = one.degree > 1 or self._rank(one) < most or one.error < _NEARLY_EXACT
            if good and self._stays(one):
                return found[index:]
        return [one for one in found if one.degree == 1]

    def _among_exact(self, linear: Linear) -> tuple[bool, bool, float]:
        """The order of exact parts: the simplest without growth, the others by their errors, those that grow last."""
        growth = self._growth(linear)
        simple = growth <= LONG_RUN and linear.kernel != self.grid.space
        return growth > _STEADY, not simple, 0.0 if simple else linear.error

    def _rank(self, linear: Linear) -> float:
        """The rank of a part; a kernel as wide as the grid has many numbers and must gain more unless it is exact."""
        return linear.rank + _PER_WIDTH * (linear.kernel == self.grid.space and linear.error > ENOUGH)

    def _stays(self, linear: Linear) -> bool:
        """Whether no wave grows; for polynomials, whether long rollouts stay near the data."""
        if linear.degree == 1:  # states of exact maps may leave the data too, such as a mean that moves steadily
            return self._growth(linear) <= _STEADY
        return self.judge.stay(FieldStep(self.solved(self.training, linear))).bounded

    def _growth(self, linear: Linear) -> float:
        return spectral_radius(self.solved(self.training, linear))

    def solved(self, rows: Dataset, linear: Linear) -> FieldFrame:
        """The frame with these closed-form parts, and the gain they leave, from `rows`."""
        frame = empty_frame(rows, self.grid, linear.history, self.conserve)
        regression = self._regression(rows, frame, linear.kernel or frame.kernel, linear.degree)
        if linear.kernel is not None and linear.ridge is not None:
            frame = regression.into(frame, linear.ridge)
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

    @property
    def _whole(self) -> bool:
        """Whether a kernel as wide as the grid is tried: on periodic grids that are not too large."""
        periodic = all(side == "periodic" for pair in self.grid.boundary for side in pair)
        return periodic and self.options.linear_kernel is None and math.prod(self.grid.space) <= _WHOLE_POINTS

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
        if self._whole:
            self.say(Event(Phase.LINEAR, 0, 1, f"history {history}, kernel {_named(frame.space)}"))
            tried += _convolutions(self, (frame, frame.space, ridges))
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

        def left_over(kernel: tuple[int, ...], degree: int) -> tuple[PatchRegression, Array]:
            regression = self._patches(self.training, frame, kernel, degree)
            return regression, regression.left_over(*regression.solve(ridges[0]))

        left = [left_over(kernel, degrees[-1])[1].max() for kernel in kernels]
        kernel = next(one for one, rest in zip(kernels, left, strict=True) if rest <= _AS_GOOD * min(left))
        least, found = left_over(kernel, 1)[1], list[Linear]()
        for degree in degrees:
            regression, rest = left_over(kernel, degree)
            if (rest < _EXPLAINS * least).any():
                least = rest
                found += self.scored(regression, frame, ridges, degree)
        return found

    def scored(
        self, regression: FieldRegression, frame: FieldFrame, ridges: Sequence[float], degree: int = 1
    ) -> list[Linear]:
        """What a regression gives at every ridge, with the error of held-out rollouts."""
        found = []
        for ridge in map(float, ridges):
            error = self.judge.error(FieldStep(regression.into(frame, ridge)))
            found.append(Linear(frame.history, regression.kernel, ridge, error, degree))
        return found

    def _regression(
        self, rows: Dataset, frame: FieldFrame, kernel: tuple[int, ...], degree: int = 1
    ) -> FieldRegression:
        """Of increments on patches, or wave by wave for a kernel as wide as the grid."""
        key = (frame.history, kernel, degree)
        if rows is self.training and key in self._known:
            return self._known[key]
        if degree == 1 and kernel == frame.space and self._whole:
            found: FieldRegression = WaveRegression.of(linear_batches(rows, frame), frame.space, self._zero_sum(frame))
        else:
            found = self._patches(rows, frame, kernel, degree)
        if rows is self.training:
            self._known[key] = found
        return found

    def _patches(self, rows: Dataset, frame: FieldFrame, kernel: tuple[int, ...], degree: int) -> PatchRegression:
        """Of increments on patches and, for a degree above 1, on the monomials of every point."""
        table = None
        if degree > 1:
            inputs = range(frame.features - frame.inputs, frame.features)
            table = monomial_table([*range(frame.channels), *inputs], degree)
        batches, where = linear_batches(rows, frame), free(frame.space, frame.boundary)
        return PatchRegression.of(batches, kernel, frame.boundary, where, table=table, zero_sum=self._zero_sum(frame))

    def _zero_sum(self, frame: FieldFrame) -> NDArray[np.bool_] | None:
        """Of which features the kernel's sum over space is held at zero; None where nothing is conserved."""
        past = np.zeros(frame.channels * (frame.history - 1), dtype=bool)
        held = np.concatenate([np.ones(frame.channels, dtype=bool), past, np.ones(frame.inputs, dtype=bool)])
        return None if self.conserve == "none" else held

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "say": say_nothing, "checkpoint": Checkpoint(None, ""), "mapper": serial}


def _convolutions(parts: ClosedParts, piece: tuple[FieldFrame, tuple[int, ...], Sequence[float]]) -> list[Linear]:
    """The convolutions of one kernel at several ridges: a piece that a mapper calls."""
    frame, kernel, ridges = piece
    return parts.scored(parts._regression(parts.training, frame, kernel), frame, ridges)


def _named(kernel: Sequence[int]) -> str:
    return " x ".join(map(str, kernel))


_NUMBERS = 1 << 22  # of patches held at a time


@dataclass(frozen=True, eq=False)
class PatchRegression:
    """Everything that a ridge regression on patches needs, whatever the ridge."""

    triangle: Array  #: R of the rows [patch, monomials, 1, target], square.
    kernel: tuple[int, ...]  #: points of the kernel along each axis.
    block: int  #: features F of one kernel point.
    targets: int  #: how many, C.
    rows: int  #: how many rows were seen.
    #: of the monomials of a point's features, as `Polynomial` has it; None for none. Those of degree one are no
    #: columns, since patches hold them.
    table: Table | None = None
    #: for what is conserved: of which features the kernel's sum over space is held at zero, (F,), and then there is no
    #: offset. None holds nothing. Features whose own mean is zero, such as differences of what is conserved, need no
    #: holding.
    zero_sum: NDArray[np.bool_] | None = None

    @classmethod
    def of(
        cls,
        batches: Iterable[tuple[Tensor, Tensor, Tensor | None]],
        kernel: tuple[int, ...],
        boundary: Sides,
        free: NDArray[np.bool_],
        *,
        table: Table | None = None,
        zero_sum: NDArray[np.bool_] | None = None,
    ) -> PatchRegression:
        """From batches at the points that are `free`.

        Args:
            batches: features (B, *space, F), targets (B, *space, C) and weights (B,) or None.
            kernel: points of the kernel along each axis.
            boundary: what lies beyond each side.
            free: which points count, (*space).
            table: see above.
            zero_sum: see above.
        """
        monomials = None if table is None else PolynomialPart(Polynomial(table, np.zeros((1, len(table)))))
        triangle: Tensor | None = None
        block = targets = rows = 0
        for features, wanted, weights in batches:
            block, targets = features.shape[-1], wanted.shape[-1]
            size = max(1, _NUMBERS // (free.size * math.prod(kernel) * block))
            for first in range(0, len(features), size):
                part = slice(first, first + size)
                weight = None if weights is None else weights[part]
                more = _rows(features[part], wanted[part], weight, kernel, boundary, free, monomials, zero_sum)
                rows += len(more)
                stacked = more if triangle is None else torch.cat((triangle, more))
                triangle = torch.linalg.qr(stacked, mode="r").R
        if triangle is None:
            raise InputError("a convolution cannot be fitted to no pairs at all; give longer trajectories")
        return cls(triangle.numpy(), kernel, block, targets, rows, table, zero_sum)

    @property
    def size(self) -> int:
        """Columns before the constant: patches and monomials."""
        return math.prod(self.kernel) * self.block + (0 if self.table is None else len(self.table) - self._first)

    @property
    def _first(self) -> int:
        """Monomials of degree one, which begin the table."""
        return 0 if self.table is None else int((self.table[:, 0] < 0).sum())

    def solve(self, ridge: float) -> tuple[Array, Array, Polynomial | None]:
        """Convolution (C, kernel points * F), offset (C,), polynomial; the ridge counts beside a row's mean square."""
        size, patch = self.size, math.prod(self.kernel) * self.block
        known = size + (1 if self.zero_sum is None else 0)  # the offset is not held back
        table, values = self.triangle[:, :known], self.triangle[:, size + 1 :]
        if ridge:
            table = np.concatenate([table, np.sqrt(ridge * self.rows) * np.eye(size, known)])
            values = np.concatenate([values, np.zeros((size, self.targets))])
        found = np.linalg.lstsq(table, values, rcond=None)[0].T
        weight: Array = np.array(found[:, :patch], dtype=np.float64)
        offset: Array = np.zeros(self.targets)
        if self.zero_sum is None:
            offset += found[:, size]
        else:
            points = weight.reshape(self.targets, -1, self.block)
            points[:, middle(self.kernel)] -= points.sum(axis=1) * self.zero_sum
        if self.table is None:
            return weight, offset, None
        terms = np.concatenate([np.zeros((self.targets, self._first)), found[:, patch:size]], axis=1)
        return weight, offset, Polynomial(self.table, terms)

    def into(self, frame: FieldFrame, ridge: float) -> FieldFrame:
        """The frame with the closed-form parts at this ridge."""
        matrix, offset, polynomial = self.solve(ridge)
        return replace(frame, kernel=self.kernel, matrix=matrix, offset=offset, polynomial=polynomial)

    def left_over(self, weight: Array, offset: Array, polynomial: Polynomial | None = None) -> Array:
        """Root mean square of what the closed-form parts leave over, (C,)."""
        size = self.size
        if self.table is not None:
            terms = np.zeros((self.targets, len(self.table))) if polynomial is None else polynomial.weights
            weight = np.concatenate([weight, terms[:, self._first :]], axis=1)
        # Of a kernel whose sum is zero, patches with and without their middle taken away give the same.
        residual = self.triangle[:, size + 1 :] - self.triangle[:, :size] @ weight.T - self.triangle[:, [size]] * offset
        return np.asarray(np.sqrt((residual**2).sum(axis=0) / self.rows))


FieldRegression = PatchRegression | WaveRegression


def middle(kernel: tuple[int, ...]) -> int:
    """Index of the kernel's own point among its points."""
    return int(np.ravel_multi_index(tuple((size - 1) // 2 for size in kernel), kernel))


def _rows(
    features: Tensor,
    wanted: Tensor,
    weights: Tensor | None,
    kernel: tuple[int, ...],
    boundary: Sides,
    free: NDArray[np.bool_],
    monomials: PolynomialPart | None,
    zero_sum: NDArray[np.bool_] | None,
) -> Tensor:
    """The rows [patch, monomials, 1, target], each times the root of its weight."""
    chosen = torch.from_numpy(free)
    table = patches(features.double(), kernel, boundary)[:, chosen]
    if zero_sum is not None:
        points = table.unflatten(-1, (math.prod(kernel), -1))
        table = (points - points[..., middle(kernel), None, :] * torch.from_numpy(zero_sum)).flatten(-2)
    if monomials is not None:
        first = len(monomials.get_buffer("factor_1"))
        terms = monomials.monomials(features.double())[..., monomials.place[first:]][:, chosen]
        # What is conserved takes the mean over space away from the increment.
        terms = terms if zero_sum is None else terms - terms.mean(dim=1, keepdim=True)
        table = torch.cat((table, terms), dim=-1)
    values = wanted.double()[:, chosen]
    joined = torch.cat((table, torch.ones(*table.shape[:-1], 1, dtype=torch.float64), values), dim=-1)
    if weights is not None:
        joined = joined * weights.double().sqrt().view(-1, 1, 1)
    return joined.flatten(0, 1)
