"""The least-squares convolution, with or without a polynomial of every point: a regression on patches in float64.

Patches of smooth fields are nearly dependent, and normal equations would square that. The rows are reduced by QR
instead: the triangle of all rows so far and the next rows gives the next triangle. Only the triangle is stored.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lln.core.errors import InputError
from lln.models.convolution import Sides, patches
from lln.step.frame import Array
from lln.step.polynomial import Polynomial, PolynomialPart, Table

_NUMBERS = 1 << 22  # of patches held at a time


@dataclass(frozen=True, eq=False)
class PatchRegression:
    """Everything that a ridge regression on patches needs, whatever the ridge.

    Attributes:
        triangle: R of the rows [patch, monomials, 1, target], square.
        kernel: points of the kernel along each axis.
        block: features F of one kernel point.
        targets: how many, C.
        rows: how many rows were seen.
        table: of the monomials of a point's features, as `Polynomial` has it; None for none. Those of degree one are no
            columns, since patches hold them.
        zero_sum: for what is conserved: of which features the kernel's sum over space is held at zero, (F,), and then
            there is no offset. None holds nothing. Features whose own mean is zero, such as differences of what is
            conserved, need no holding.
    """

    triangle: Array
    kernel: tuple[int, ...]
    block: int
    targets: int
    rows: int
    table: Table | None = None
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
        if not ridge >= 0:
            raise InputError(f"ridge must not be negative, got {ridge}")
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

    def left_over(self, weight: Array, offset: Array, polynomial: Polynomial | None = None) -> Array:
        """Root mean square of what the closed-form parts leave over, (C,)."""
        size = self.size
        if self.table is not None:
            terms = np.zeros((self.targets, len(self.table))) if polynomial is None else polynomial.weights
            weight = np.concatenate([weight, terms[:, self._first :]], axis=1)
        # Of a kernel whose sum is zero, patches with and without their middle taken away give the same.
        residual = self.triangle[:, size + 1 :] - self.triangle[:, :size] @ weight.T - self.triangle[:, [size]] * offset
        return np.asarray(np.sqrt((residual**2).sum(axis=0) / self.rows))


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
