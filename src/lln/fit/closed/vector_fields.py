"""Vector fields, and their least-squares fit: the flow over one step of data gives the increments.

A vector field is a polynomial of the states and inputs, and of Gaussians or sines of single ones where it has any. It
has weights of its own for every coordinate, or weights that are shared over a ring of coordinates. Its library of
monomials looks at cells. Without sharing there is one cell, which holds all variables and gives all n slopes. On a ring
every coordinate is a cell: it sees its neighbours and gives one slope, by weights that all cells share.

The fit is Levenberg-Marquardt with exact sensitivities, in float64. The sensitivities of the states by the weights pass
through the same Runge-Kutta steps as the states. The first weights come from a linear regression: increments on the
mean of the monomials at both ends of a step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from lln.step.frame import Array, Flow, Functions, Polynomial, monomial_table

Index = NDArray[np.int64]
# Whether slope and shift are fitted, by kind of function; where a weight does the same, they are not.
FREE = ((True, True), (True, True), (False, True), (True, True), (True, False), (False, True), (True, True))


@dataclass(frozen=True, eq=False)
class MonomialLibrary:
    """All monomials of some variables up to a degree, the constant first; functions of variables, if any.

    Attributes:
        size: number of coordinates n.
        place: the variables of every cell, (cells, V): indices into [z, u, functions], in this order.
        degree: of the largest monomials of states and inputs.
        functions: of single variables, indices into [z, u]; None for none.
        products: whether functions are also multiplied by each state and input of the monomials.
        adaptive: whether slopes and shifts of functions are fitted too.
    """

    size: int
    place: Index
    degree: int
    functions: Functions | None = None
    products: bool = False
    adaptive: bool = False

    @classmethod
    def whole(
        cls,
        size: int,
        variables: Sequence[int],
        degree: int,
        inputs: int = 0,
        functions: Functions | None = None,
        products: bool = False,
        adaptive: bool = False,
    ) -> MonomialLibrary:
        """One cell with these variables."""
        behind = size + inputs + np.arange(0 if functions is None else len(functions))
        place = np.asarray([[*variables, *behind]], dtype=np.int64)
        return cls(size, place, degree, functions, products, adaptive)

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
    def free(self) -> NDArray[np.bool_]:
        """Slopes and shifts of functions that are fitted, (L, 2)."""
        if self.functions is None or not self.adaptive:
            return np.zeros((0 if self.functions is None else len(self.functions), 2), dtype=bool)
        return np.asarray(FREE)[self.functions.table[:, 1]]

    @cached_property
    def table(self) -> Index:
        """The monomials behind the constant, as `Polynomial` has them, in a cell's variables, by degree."""
        count = self.place.shape[1]
        plain = count if self.functions is None else count - len(self.functions)
        if self.functions is None:
            return monomial_table(range(plain), self.degree)
        terms = [t for d in range(1, self.degree + 1) for t in combinations_with_replacement(range(plain), d)]
        terms += [(k,) for k in range(plain, count)]
        terms += [(j, k) for k in range(plain, count) for j in range(plain)] if self.products else []
        return _table(sorted(terms, key=len))

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
        """Monomials to their derivatives by each state variable and each function, (states + L, terms, terms)."""
        where = {tuple(row): index for index, row in enumerate(self.exponents.tolist())}
        count = self.place.shape[1]
        moving = [*range(self.states), *range(count - (0 if self.functions is None else len(self.functions)), count)]
        found = np.zeros((len(moving), self.terms, self.terms))
        for index, row in enumerate(self.exponents.tolist()):
            for slot, variable in enumerate(moving):
                if row[variable]:
                    lower = (*row[:variable], row[variable] - 1, *row[variable + 1 :])
                    found[slot, index, where[lower]] = row[variable]
        return found

    @cached_property
    def _levels(self) -> list[tuple[slice, Index, Index]]:
        """Rows of the table by degree: where they stand, their parents, their factors."""
        degrees = self.exponents.sum(axis=1)
        found = []
        for level in range(1, int(degrees.max()) + 1):
            rows = np.flatnonzero(degrees == level)
            span = slice(int(rows[0]), int(rows[-1]) + 1)
            found.append((span, self.table[rows - 1, 0] + 1, self.table[rows - 1, 1]))
        return found

    def values(self, rows: Array) -> Array:
        """Monomials at states and inputs: (P, n + m) -> (P, cells, terms)."""
        whole = rows if self.functions is None else np.concatenate([rows, self.functions(rows)], axis=1)
        seen = whole[:, self.place]
        values = np.ones((*seen.shape[:2], self.terms))
        for span, parents, factors in self._levels:
            values[..., span] = values[..., parents] * seen[..., factors]
        return values

    def moved(self, arguments: Array) -> MonomialLibrary:
        """The library with other arguments of its functions; its tables stay."""
        assert self.functions is not None
        made = replace(self, functions=replace(self.functions, arguments=arguments))
        made.__dict__.update({name: self.__dict__[name] for name in _TABLES if name in self.__dict__})
        return made

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
        if self.functions is None:
            return Flow(_polynomial(rows, self.size), offset, substeps)
        behind = int(self.place.max()) + 1 - len(self.functions)
        used = sorted({factor for factors in rows for factor in factors if factor >= behind})
        new = {factor: behind + index for index, factor in enumerate(used)}
        rows = {tuple(new.get(factor, factor) for factor in factors): column for factors, column in rows.items()}
        functions = self.functions.some([factor - behind for factor in used]) if used else None
        return Flow(_polynomial(rows, self.size), offset, substeps, functions)


def monomial_count(factors: int, degree: int) -> int:
    """Number of monomials of degree 1 to `degree` in `factors` variables."""
    return math.comb(factors + degree, degree) - 1


def _polynomial(columns: dict[tuple[int, ...], Array], size: int) -> Polynomial:
    """The polynomial with these weights (n,) of products of variables; products on the way to them weigh nothing."""
    needed = {factors[:count] for factors in columns for count in range(1, len(factors) + 1)} or {(0,)}
    order = sorted(needed, key=lambda factors: (len(factors), factors))
    return Polynomial(_table(order), np.stack([columns.get(factors, np.zeros(size)) for factors in order], axis=1))


def _table(terms: Sequence[tuple[int, ...]]) -> Index:
    """The table of products of variables, each of which follows the product without its last factor."""
    index = {factors: position for position, factors in enumerate(terms)}
    return np.asarray([(index.get(factors[:-1], -1), factors[-1]) for factors in terms], dtype=np.int64)


_STAGES = ((1.0, 0.0), (2.0, 0.5), (2.0, 0.5), (1.0, 1.0))  # weight of a slope, and how far ahead it is taken
_NUMBERS = 1 << 21  # sensitivities that are held at a time
_ROUNDS, _MORE_ROUNDS = 12, 40  # of a descent by weights, and by arguments of functions too
_TABLES = ("free", "table", "exponents", "derivatives", "_levels")  # of a library; they do not depend on arguments
_ENOUGH = 1e-2  # of the squared error: a smaller gain in one round ends the fit
_FIRST_DAMPING, _LEAST_DAMPING, _MOST_DAMPING = 1e-8, 1e-14, 1.0  # relative to the squared sensitivities
_LESS, _MORE = 0.03, 30.0  # factors of the damping behind a good and a bad step
_NEAR = 1e-6  # of a change of arguments: a difference that stands for a derivative
_PRUNINGS = 3
_LOST = 1e4  # times the squared error: more after pruning means that a term of the law is gone
_TAME_RIDGES = (1e-3, 0.1)  # of other first weights
_MANY = 50  # terms, with which there is one descent, from the best first weights
_FEW_ROWS = 500  # that descents from several first weights are compared on
_GOOD = 1e-4  # squared error against the change of one step: no other first weights are tried


@dataclass(frozen=True, eq=False)
class Pieces:
    """Short standardised pieces of trajectories.

    Attributes:
        states: (P, S + 1, n).
        inputs: held over a piece, (P, m).
        weights: (P,), of mean one.
    """

    states: Array
    inputs: Array
    weights: Array

    def __len__(self) -> int:
        return len(self.states)

    def some(self, count: int) -> Pieces:
        """Evenly spread pieces."""
        if len(self) <= count:
            return self
        return self[np.linspace(0, len(self) - 1, count).round().astype(int)]

    def __getitem__(self, rows: slice | Index) -> Pieces:
        return Pieces(self.states[rows], self.inputs[rows], self.weights[rows])


@dataclass(frozen=True, eq=False)
class VectorField:
    """A vector field with its weights.

    Attributes:
        library: of its monomials.
        substeps: Runge-Kutta steps in one step of data.
        weights: (outputs, terms).
        used: weights that are fitted, (outputs, terms) of bool; the others are zero.
    """

    library: MonomialLibrary
    substeps: int
    weights: Array
    used: NDArray[np.bool_]

    @cached_property
    def _slopes(self) -> Array:
        """Weights of the slope's derivative by each state variable and function, (terms, outputs * (states + L))."""
        made = np.einsum("oj,sjk->kos", self.weights, self.library.derivatives)
        return np.ascontiguousarray(made.reshape(self.library.terms, -1))

    @cached_property
    def _fitted(self) -> tuple[Index, Index]:
        outputs, terms = np.nonzero(self.used)
        return outputs, terms

    def sizes(self, pieces: Pieces) -> Array:
        """Units of the fitted numbers: of a weight, the reciprocal of its monomial's size."""
        weights = np.broadcast_to(column_sizes(self.library, pieces), self.used.shape)[self.used]
        return np.concatenate([weights, np.ones(int(self.library.free.sum()))])

    def moved(self, change: Array) -> VectorField:
        """The field with other numbers: weights, then arguments of functions."""
        weights, count = self.weights.copy(), int(self.used.sum())
        weights[self.used] += change[:count]
        if self.library.functions is None or not self.library.free.any():
            return replace(self, weights=weights)
        arguments = self.library.functions.arguments.copy()
        arguments[self.library.free] += change[count:]
        return replace(self, weights=weights, library=self.library.moved(arguments))

    def advance(self, states: Array, inputs: Array) -> Array:
        """The states one step of data later: (P, n) and (P, m) -> (P, n)."""
        return self._run(states, None, inputs)[0]

    def linearised(self, states: Array, before: Array, inputs: Array) -> tuple[Array, Array]:
        """The states one step later, and their derivatives by the fitted weights, given those of `states` (P, n, q)."""
        after, slopes = self._run(states, before, inputs)
        assert slopes is not None
        return after, slopes

    def _run(self, states: Array, by_weights: Array | None, inputs: Array) -> tuple[Array, Array | None]:
        h = 1.0 / self.substeps
        for _ in range(self.substeps):
            total, slope = np.zeros_like(states), np.zeros_like(states)
            totals = slopes = None if by_weights is None else np.zeros_like(by_weights)
            for weight, ahead in _STAGES:
                at = states + (ahead * h) * slope
                ats = None if by_weights is None or slopes is None else by_weights + (ahead * h) * slopes
                slope, slopes = self._slope(at, ats, inputs)
                total = total + weight * slope
                totals = None if totals is None or slopes is None else totals + weight * slopes
            states = states + (h / 6) * total
            by_weights = None if by_weights is None or totals is None else by_weights + (h / 6) * totals
        return states, by_weights

    def _slope(self, states: Array, by_weights: Array | None, inputs: Array) -> tuple[Array, Array | None]:
        library = self.library
        values = library.values(np.concatenate([states, inputs], axis=1))
        slope = (values @ self.weights.T).reshape(states.shape)
        if by_weights is None:
            return slope, None
        count, cells = values.shape[:2]
        outputs, terms = self._fitted
        local = (values @ self._slopes).reshape(count, cells, library.outputs, -1)
        weights = np.arange(len(terms))
        if library.functions is None:
            through = local @ by_weights[:, library.place[:, : library.states]]
            through[:, :, outputs, weights] += values[:, :, terms]
            return slope, through.reshape(by_weights.shape)
        by_state, by_arguments = self._through_functions(library.functions, local, states, inputs)
        through = by_state @ by_weights[:, None]
        through[:, :, outputs, weights] += values[:, :, terms]
        through[..., len(terms) :] += by_arguments
        return slope, through.reshape(by_weights.shape)

    def _through_functions(
        self, functions: Functions, local: Array, states: Array, inputs: Array
    ) -> tuple[Array, Array]:
        """Derivatives of the slope by all states, (P, 1, n, n), and by the free arguments, (P, 1, n, F)."""
        count, n = len(functions), states.shape[1]
        variables = np.concatenate([states, inputs], axis=1)
        by_argument = local[..., -count:] * functions.derivatives(variables)[:, None, None, :]
        of = np.equal.outer(functions.table[:, 0], np.arange(n)).astype(np.float64)  # inputs are held
        found: Array = (by_argument * functions.arguments[:, 0]) @ of
        found[..., self.library.place[0, : self.library.states]] += local[..., :-count]
        if not self.library.free.any():
            return found, np.zeros((*found.shape[:3], 0))
        both = np.stack([variables[:, functions.table[:, 0]], np.ones((len(states), count))], axis=-1)
        free: Array = (by_argument[..., None] * both[:, None, None])[..., self.library.free]
        return found, free


@np.errstate(over="ignore", invalid="ignore")
def errors(field: VectorField, pieces: Pieces) -> Array:
    """Residuals of the states behind the first, (P, S, n), each times the root of its weight."""
    root, state, found = np.sqrt(pieces.weights)[:, None], pieces.states[:, 0], []
    for step in range(1, pieces.states.shape[1]):
        state = field.advance(state, pieces.inputs)
        found.append(root * (pieces.states[:, step] - state))
    return np.stack(found, axis=1)


@np.errstate(over="ignore", invalid="ignore")
def fitted(
    library: MonomialLibrary,
    pieces: Pieces,
    substeps: int,
    ridge: float,
    late: Callable[[], bool] = lambda: False,
) -> VectorField:
    """The vector field with the least error of its flow over `pieces`.

    Args:
        library: of its monomials.
        pieces: to fit.
        substeps: Runge-Kutta steps in one step of data.
        ridge: relative to the sum of squares of the normalised sensitivities.
        late: callback; the descent ends once it returns true.
    """
    used = np.ones((library.outputs, library.terms), dtype=bool)
    starts = [VectorField(library, substeps, one, used) for one in first_weights(library, pieces, ridge)]
    if library.terms > _MANY:
        return descend(min(starts, key=lambda one: squared_error(one, pieces)), pieces, ridge, late)
    few = pieces.some(max(_FEW_ROWS, 4 * library.terms))  # enough to show where a descent ends
    change = float(np.sum(np.square(few.states[:, 1] - few.states[:, 0]) * few.weights[:, None]))
    found: list[tuple[float, VectorField]] = []
    for one in starts:
        field = descend(one, few, ridge, late)
        found.append((squared_error(field, few), field))
        if found[-1][0] < _GOOD * change or late():
            break
    best = min(found, key=lambda one: one[0])[1]
    return descend(best, pieces, ridge, late) if len(few) < len(pieces) else best


def pruned(
    field: VectorField, pieces: Pieces, ridge: float, threshold: float, late: Callable[[], bool] = lambda: False
) -> VectorField:
    """The field without weights that count for less than `threshold` of the largest of their slope, fitted again.

    What counts depends on the units of the rows; where the errors show that a term of the law is lost, it stays.
    """
    sizes, most = column_sizes(field.library, pieces), _LOST * squared_error(field, pieces)
    for _ in range(_PRUNINGS):
        counts = np.abs(field.weights) * sizes
        kept = counts > threshold * counts.max(axis=1, keepdims=True)
        if kept.sum() == field.used.sum():
            break
        weights = np.where(kept, field.weights, 0.0)
        sparse = descend(replace(field, weights=weights, used=weights != 0), pieces, ridge, late)
        if squared_error(sparse, pieces) > most:
            break
        field = sparse
    return field


def column_sizes(library: MonomialLibrary, pieces: Pieces) -> Array:
    """Root mean square of every monomial over the first states, (terms,)."""
    values = library.values(np.concatenate([pieces.states[:, 0], pieces.inputs], axis=1))
    sizes: Array = np.sqrt(np.mean(np.square(values), axis=(0, 1)))
    return np.where(sizes > 0, sizes, 1.0)


def first_weights(library: MonomialLibrary, pieces: Pieces, ridge: float) -> list[Array]:
    """Weights (outputs, terms) from increments regressed on the mean of the monomials at both ends of a step.

    Where steps are long, the regression errs, and its flow may diverge; larger ridges give starts that do not.
    """
    sizes, factor = column_sizes(library, pieces), np.zeros((0, library.terms + library.outputs))
    for part in _blocks(pieces, library.terms * len(library.place)):
        root = np.sqrt(part.weights)[:, None, None]
        ends = [library.values(np.concatenate([part.states[:, k], part.inputs], axis=1)) for k in (0, 1)]
        change = (part.states[:, 1] - part.states[:, 0]).reshape(len(part), len(library.place), -1)
        rows = np.concatenate([(ends[0] + ends[1]) / (2 * sizes), change], axis=2) * root
        factor = _triangle(factor, rows.reshape(-1, factor.shape[1]))
    left, right = factor[:, : library.terms], factor[:, library.terms :]
    size, eye, zero = float(np.linalg.norm(left)), np.eye(library.terms), np.zeros((library.terms, library.outputs))
    ridges = [ridge, *(one for one in _TAME_RIDGES if one > ridge)]
    return [_solved(left, right, math.sqrt(one) * size * eye, zero).T / sizes for one in ridges]


@np.errstate(over="ignore", invalid="ignore")
def descend(field: VectorField, pieces: Pieces, ridge: float, late: Callable[[], bool] = lambda: False) -> VectorField:
    """Levenberg-Marquardt: damped Gauss-Newton steps for the squared residuals and the ridge, from this field."""
    sizes = field.sizes(pieces)
    damping, top, eye = _FIRST_DAMPING, 0.0, np.eye(len(sizes))
    for turn in range(_MORE_ROUNDS if field.library.free.any() else _ROUNDS):
        if late():
            break
        factor = _factor(field, pieces, sizes)
        if not np.isfinite(factor).all():
            break
        left, right = factor[:, :-1], factor[:, -1:]
        top = float(np.linalg.norm(left)) if turn == 0 else top
        if not math.isfinite(top**2):
            break
        at = field.weights[field.used] * sizes[: field.used.sum()]
        at = np.concatenate([at, np.zeros(len(sizes) - len(at))])[:, None]
        cost = before = float(np.sum(np.square(right))) + ridge * top**2 * float(np.sum(np.square(at)))
        while damping < _MOST_DAMPING:
            held = math.sqrt(ridge + damping) * top
            try:
                change = _solved(left, right, held * eye, -(ridge / (ridge + damping)) * held * at)
            except (ValueError, np.linalg.LinAlgError):  # not finite, or singular
                return field
            tried = field.moved(change[:, 0] / sizes)
            if field.library.free.any():
                tried = _projected(field, tried, pieces)
            error = squared_error(tried, pieces) + ridge * top**2 * float(np.sum(np.square(at + change)))
            if error < cost:
                field, cost, damping = tried, error, max(damping * _LESS, _LEAST_DAMPING)
                break
            damping *= _MORE
        if not cost < (1 - _ENOUGH) * before:
            break
    return field


@np.errstate(over="ignore", invalid="ignore")
def _projected(field: VectorField, moved: VectorField, pieces: Pieces) -> VectorField:
    """The field with moved arguments whose slopes are as `moved` has them to first order in all its changes.

    Weights that were right for a function are not right for it with another slope or shift.
    """
    assert field.library.functions is not None
    assert moved.library.functions is not None
    rows = np.concatenate([pieces.states[:, 0], pieces.inputs], axis=1)
    before, after = field.library.functions.arguments, moved.library.functions.arguments
    here = field.library.values(rows)[:, 0]
    near = field.library.moved(before + _NEAR * (after - before)).values(rows)[:, 0]
    wanted = here @ moved.weights.T + (near - here) @ field.weights.T / _NEAR
    values, weights = moved.library.values(rows)[:, 0], np.zeros_like(moved.weights)
    if not (np.isfinite(values).all() and np.isfinite(wanted).all()):
        return moved
    for output, used in enumerate(moved.used):
        weights[output, used] = np.linalg.lstsq(values[:, used], wanted[:, output], rcond=1e-13)[0]
    return replace(moved, weights=weights)


@np.errstate(over="ignore", invalid="ignore")
def squared_error(field: VectorField, pieces: Pieces) -> float:
    """Sum of squared residuals; infinite where the flow does not stay finite."""
    blocks = _blocks(pieces, field.library.terms * len(field.library.place))
    total = sum(float(np.sum(np.square(errors(field, part)))) for part in blocks)
    return total if math.isfinite(total) else math.inf


def _factor(field: VectorField, pieces: Pieces, sizes: Array) -> Array:
    """The triangular factor of [sensitivities by the normalised weights, residuals], (q + 1, q + 1)."""
    count, n = len(sizes), field.library.size
    factor = np.zeros((0, count + 1))
    for part in _blocks(pieces, count * n):
        factor = _triangle(factor, *sensitivities(field, part, sizes))
    return factor


def sensitivities(field: VectorField, pieces: Pieces, sizes: Array) -> Iterator[Array]:
    """Rows of [sensitivities by the normalised numbers, residuals], (P * n, q + 1) for each step of the pieces."""
    state, slopes = pieces.states[:, 0], np.zeros((len(pieces), field.library.size, len(sizes)))
    root = np.sqrt(pieces.weights)[:, None, None]
    for step in range(1, pieces.states.shape[1]):
        state, slopes = field.linearised(state, slopes, pieces.inputs)
        rest = (pieces.states[:, step] - state)[..., None]
        yield (np.concatenate([slopes / sizes, rest], axis=2) * root).reshape(-1, len(sizes) + 1)


def _triangle(factor: Array, *rows: Array) -> Array:
    """The triangular factor of rows so far and the next ones."""
    made: Any = np.linalg.qr(np.concatenate([factor, *rows]), mode="r")
    return np.asarray(made)


def _solved(left: Array, right: Array, held: Array, wanted: Array) -> Array:
    """Least squares of ``left x = right`` and ``held x = wanted``, by a triangular factor."""
    count = left.shape[1]
    rows = np.concatenate([np.concatenate([left, right], axis=1), np.concatenate([held, wanted], axis=1)])
    factor = _triangle(rows)
    found: Array = solve_triangular(factor[:count, :count], factor[:count, count:])
    return found


def _blocks(pieces: Pieces, numbers: int) -> Iterator[Pieces]:
    """Pieces, as many at a time as memory holds."""
    size = max(8, _NUMBERS // max(1, numbers))
    for first in range(0, len(pieces), size):
        yield pieces[slice(first, first + size)]
