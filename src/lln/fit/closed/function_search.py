"""Functions of single variables for a vector field, found one at a time.

Candidates of every kind are spread over the range of every variable. To first order, each one's weights would take away
a part of the squared residuals that the field leaves; that part is computed through the flow. The best candidate of
each kind is added to the field, and all weights, slopes and shifts descend together. The best of these fields, or one
with fewer numbers that is nearly as good, stays if it at least halves the squared error; the search goes on from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from lln.fit.closed.vector_fields import (
    MonomialLibrary,
    Pieces,
    VectorField,
    descend,
    sensitivities,
    squared_error,
)
from lln.step.frame import Array, Functions
from lln.step.frame import FunctionKind as Kind

BROKEN, SMOOTH = (Kind.KINK, Kind.SATURATION), (Kind.GAUSSIAN, Kind.SINE, Kind.STEP, Kind.EXPONENTIAL, Kind.RECIPROCAL)
_MOST = 6  # functions
_BETTER = 0.5  # of the squared error: what a function must gain
_RANK = 1e-7  # of singular values, against the largest
_PROMISING = 0.3  # of the squared residuals: what the best candidate must take away before its slope is fitted
_LIKELY = 0.5  # of the largest gain: what another kind must promise to be tried
_ROWS = 200  # that candidates are compared on
_AT_A_TIME = 24  # candidates
_PLACES, _KNOTS = np.linspace(0.03, 0.97, 16), np.linspace(0.02, 0.98, 9)  # quantiles
_SPREADS = (0.2, 0.5, 1.0)  # of Gaussians, in standard deviations of the variable
_RATES = (1.0, 3.0, 10.0, 30.0)  # of steps
_GROWTHS = (0.7, 2.0, 5.0, 12.0)  # of exponentials
_FREQUENCIES = (1.0, 2.0, 4.0)
_POLES = (0.06, 0.25, 1.0, 3.0)  # how far a reciprocal's pole lies outside the range


def add_functions(
    field: VectorField,
    pieces: Pieces,
    ridge: float,
    late: Callable[[], bool],
    kinds: tuple[int, ...],
    products: bool,
) -> Iterator[VectorField]:
    """The field with one function, two functions and so on, as long as each gains enough.

    Args:
        field: a polynomial.
        pieces: to fit.
        ridge: as in `fitted`.
        late: callback; the search ends once it returns true.
        kinds: of functions that are tried.
        products: whether functions are also multiplied by each variable.
    """
    inputs = pieces.inputs.shape[1]
    seen = np.concatenate([pieces.states[:, 0], pieces.inputs], axis=1)
    places = [place for place in field.library.place[0].tolist() if place < seen.shape[1]]
    candidates = [one for place in places for one in _candidates(place, seen[:, place]) if one[1] in kinds]
    error = squared_error(field, pieces)
    for _ in range(_MOST):
        gains = _gains(field, pieces.some(_ROWS), candidates, products)
        if not gains.max(initial=0.0) > _PROMISING:
            return
        best: dict[int, int] = {}
        for index in np.argsort(-gains).tolist():
            if gains[index] > _LIKELY * gains.max():
                best.setdefault(candidates[index][1], index)
        tried: list[tuple[float, VectorField]] = []
        for index in best.values():
            if late():
                return
            one = descend(_extended(field, [candidates[index]], inputs, products), pieces, ridge, late)
            tried.append((squared_error(one, pieces), one))
        least = min(pair[0] for pair in tried)
        alike = [pair for pair in tried if pair[0] <= least / _BETTER]
        found, one = min(alike, key=lambda pair: (pair[1].library.free.sum(), pair[0]))
        if not found < _BETTER * error:
            return
        yield one
        field, error = one, found


Candidate = tuple[int, int, float, float]  # variable, kind, slope, shift


def _candidates(place: int, values: Array) -> Iterator[Candidate]:
    """Functions of one variable."""
    low, high = float(values.min()), float(values.max())
    if not high > low:
        return
    for centre in np.quantile(values, _PLACES).tolist():
        yield place, Kind.KINK, 1.0, -centre
    for centre in np.quantile(values, _PLACES[::2]).tolist():
        yield from ((place, Kind.STEP, rate, -rate * centre) for rate in _RATES)
        yield from ((place, Kind.GAUSSIAN, 1 / spread, -centre / spread) for spread in _SPREADS)
    for rate in _GROWTHS:
        yield place, Kind.EXPONENTIAL, rate, -rate * high
        yield place, Kind.EXPONENTIAL, -rate, rate * low
    for frequency in _FREQUENCIES:
        yield from ((place, Kind.SINE, frequency, phase) for phase in (0.0, np.pi / 2))
    for far in _POLES:
        yield place, Kind.RECIPROCAL, 1.0, far - low
        yield place, Kind.RECIPROCAL, 1.0, -far - high
    knots = np.unique(np.quantile(values, _KNOTS)).tolist()
    for index, first in enumerate(knots):
        yield from ((place, Kind.SATURATION, 2 / (k - first), -(k + first) / (k - first)) for k in knots[index + 1 :])


def _extended(field: VectorField, more: list[Candidate], inputs: int, products: bool) -> VectorField:
    """The field with more functions, whose weights are zero but fitted, like slopes and shifts."""
    library, old = field.library, field.library.functions
    table, arguments = np.asarray([one[:2] for one in more]), np.asarray([one[2:] for one in more])
    variables = library.place[0]
    if old is not None:
        table, arguments = np.concatenate([old.table, table]), np.concatenate([old.arguments, arguments])
        variables = variables[: -len(old)]
    functions = Functions(table, arguments)
    new = MonomialLibrary.whole(
        library.size, variables.tolist(), library.degree, inputs, functions, products, adaptive=True
    )
    weights, used = np.zeros((library.size, new.terms)), np.ones((library.size, new.terms), dtype=bool)
    where = {tuple(row): index for index, row in enumerate(new.exponents.tolist())}
    for index, row in enumerate(library.exponents.tolist()):
        column = where[(*row, *(0,) * len(more))]
        weights[:, column], used[:, column] = field.weights[:, index], field.used[:, index]
    return replace(field, library=new, weights=weights, used=used)


@np.errstate(all="ignore")
def _gains(field: VectorField, pieces: Pieces, candidates: list[Candidate], products: bool) -> Array:
    """The part of the squared residuals that each candidate's weights would take away, to first order."""
    inputs = pieces.inputs.shape[1]
    rows = np.concatenate(list(sensitivities(field, pieces, field.sizes(pieces))))
    known, _ = np.linalg.qr(rows[:, :-1])
    rest = rows[:, -1] - known @ (known.T @ rows[:, -1])
    found = []
    for first in range(0, len(candidates), _AT_A_TIME):
        some = candidates[first : first + _AT_A_TIME]
        wide = _extended(field, some, inputs, products)
        powers = wide.library.exponents[:, -len(some) :]
        fixed = replace(wide.library, adaptive=False)
        used = np.broadcast_to(powers.any(axis=1), wide.weights.shape)
        wide = replace(wide, library=fixed, used=used, substeps=1)  # enough for a comparison
        columns = np.concatenate(list(sensitivities(wide, pieces, wide.sizes(pieces))))[:, :-1]
        columns = np.where(np.isfinite(columns).all(axis=0), columns, 0.0)
        columns -= known @ (known.T @ columns)
        of = powers.argmax(axis=1)[np.nonzero(wide.used)[1]]
        for index in range(len(some)):
            left, sizes, _ = np.linalg.svd(columns[:, of == index], full_matrices=False)
            left = left[:, sizes > _RANK * max(float(sizes[0]), _RANK)]
            found.append(float(np.sum(np.square(left.T @ rest))))
    return np.asarray(found) / float(np.sum(np.square(rest)))
