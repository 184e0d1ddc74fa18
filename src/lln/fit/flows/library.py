"""The monomials of a vector field, with weights of its own for every coordinate or shared over a ring of coordinates.

A library looks at cells. Without sharing there is one cell, which holds all variables and gives all n slopes. On a ring
every coordinate is a cell: it sees its neighbours and gives one slope, by weights that all cells share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lln.step.frame import Array, Flow, Polynomial, monomial_table

Index = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class MonomialLibrary:
    """All monomials of some variables up to a degree, the constant first.

    Attributes:
        size: number of coordinates n.
        place: the variables of every cell, (cells, V): indices into [z, u], those of states before those of inputs.
        degree: of the largest monomials.
    """

    size: int
    place: Index
    degree: int

    @classmethod
    def whole(cls, size: int, variables: Sequence[int], degree: int) -> MonomialLibrary:
        """One cell with these variables."""
        return cls(size, np.asarray([variables], dtype=np.int64), degree)

    @classmethod
    def ring(cls, size: int, inputs: int, radius: int, degree: int) -> MonomialLibrary:
        """A cell for every coordinate, which sees `radius` neighbours on both sides and all inputs."""
        near = (np.arange(size)[:, None] + np.arange(-radius, radius + 1)) % size
        known = np.broadcast_to(np.arange(size, size + inputs), (size, inputs))
        return cls(size, np.concatenate([near, known], axis=1).astype(np.int64), degree)

    @property
    def shared(self) -> bool:
        """Whether coordinates share their weights."""
        return len(self.place) > 1

    @property
    def outputs(self) -> int:
        """Slopes of one cell."""
        return self.size // len(self.place)

    @property
    def states(self) -> int:
        """Variables of a cell that are states."""
        return int((self.place[0] < self.size).sum())

    @cached_property
    def table(self) -> Index:
        """The monomials behind the constant, as `Polynomial` has them, in a cell's variables."""
        return monomial_table(range(self.place.shape[1]), self.degree)

    @property
    def terms(self) -> int:
        """Number of monomials, the constant included."""
        return len(self.table) + 1

    @cached_property
    def exponents(self) -> Index:
        """Powers of every variable in every monomial, (terms, V)."""
        powers = np.zeros((self.terms, self.place.shape[1]), dtype=np.int64)
        for index, (parent, factor) in enumerate(self.table.tolist()):
            powers[index + 1] = powers[parent + 1]
            powers[index + 1, factor] += 1
        return powers

    @cached_property
    def derivatives(self) -> Array:
        """Monomials to their derivatives by each state variable, (states, terms, terms)."""
        where = {tuple(row): index for index, row in enumerate(self.exponents.tolist())}
        found = np.zeros((self.states, self.terms, self.terms))
        for index, row in enumerate(self.exponents.tolist()):
            for variable in range(self.states):
                if row[variable]:
                    lower = (*row[:variable], row[variable] - 1, *row[variable + 1 :])
                    found[variable, index, where[lower]] = row[variable]
        return found

    @cached_property
    def _levels(self) -> list[tuple[slice, Index, Index]]:
        """Rows of the table by degree: where they stand, their parents, their factors."""
        degrees = self.exponents.sum(axis=1)
        found = []
        for level in range(1, self.degree + 1):
            rows = np.flatnonzero(degrees == level)
            span = slice(int(rows[0]), int(rows[-1]) + 1)
            found.append((span, self.table[rows - 1, 0] + 1, self.table[rows - 1, 1]))
        return found

    def values(self, rows: Array) -> Array:
        """Monomials at states and inputs: (P, n + m) -> (P, cells, terms)."""
        seen = rows[:, self.place]
        values = np.ones((*seen.shape[:2], self.terms))
        for span, parents, factors in self._levels:
            values[..., span] = values[..., parents] * seen[..., factors]
        return values

    def flow(self, weights: Array, substeps: int) -> Flow:
        """The vector field with weights (outputs, terms), without the monomials that weigh nothing."""
        rows: dict[tuple[int, ...], Array] = {}
        offset = np.zeros(self.size)
        powers = self.exponents
        for cell, place in enumerate(self.place.tolist()):
            first = cell * self.outputs
            for term in np.flatnonzero(weights.any(axis=0)).tolist():
                factors = tuple(sorted(np.repeat(place, powers[term]).tolist()))
                if not factors:
                    offset[first : first + self.outputs] += weights[:, term]
                    continue
                column = rows.setdefault(factors, np.zeros(self.size))
                column[first : first + self.outputs] += weights[:, term]
        return Flow(_polynomial(rows, self.size), offset, substeps)


def _polynomial(columns: dict[tuple[int, ...], Array], size: int) -> Polynomial:
    """The polynomial with these weights (n,) of products of variables; products on the way to them weigh nothing."""
    needed = {factors[:count] for factors in columns for count in range(1, len(factors) + 1)} or {(0,)}
    order = sorted(needed, key=lambda factors: (len(factors), factors))
    index = {factors: position for position, factors in enumerate(order)}
    table = np.asarray([(index.get(factors[:-1], -1), factors[-1]) for factors in order], dtype=np.int64)
    return Polynomial(table, np.stack([columns.get(factors, np.zeros(size)) for factors in order], axis=1))
