"""Vector fields of data with long steps, fitted to the rows of the smallest changes first.

Where one step of data is a large part of a turn, a regression of increments gives useless first weights, and no descent
from there finds the law. Over the rows that change least the same regression holds. A law that is found there predicts
further rows; these determine it better, and so on until it predicts all. Where the steps become longer, the integration
takes more Runge-Kutta steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from lln.fit.closed.vector_fields import MonomialLibrary, Pieces, VectorField, descend, errors, fitted, squared_error
from lln.step.frame import Array

_FIRST, _FEWEST = 2, 20  # rows to a term of the first fit, and the fewest
_SUBSTEPS, _MOST_SUBSTEPS = 4, 256  # of Runge-Kutta
_FORESEEN = 1e-5  # squared error of a row against the mean squared change, below which it is taken in
_FURTHER = 1.05  # times as many rows are taken in at least
_LAWFUL = 1e-8  # squared error against the squared change: rows that are fitted worse follow another law
_FINE = 1e-14  # the same, below which more Runge-Kutta steps are not tried
_HELPS = 0.5  # of the squared error: what more Runge-Kutta steps must gain
_ROUNDS = 60


def fitted_from_calm_rows(
    library: MonomialLibrary, pieces: Pieces, ridge: float, late: Callable[[], bool] = lambda: False
) -> VectorField:
    """The vector field of as many rows as follow one law, beginning with those of the smallest changes.

    Args:
        library: of its monomials.
        pieces: rows to fit.
        ridge: relative to the sum of squares of the normalised sensitivities.
        late: callback; no further rows are taken in once it returns true.
    """
    change = np.sum(np.square(pieces.states[:, 1] - pieces.states[:, 0]), axis=1) * pieces.weights
    count, mean = max(_FIRST * library.terms, _FEWEST), float(change.mean())
    rows = pieces[np.argsort(change, kind="stable")[:count]]
    field = fitted(library, rows, _SUBSTEPS, ridge, late)
    for _ in range(_ROUNDS):
        field, error = _refined(field, rows, ridge, mean, late)
        if not error < _LAWFUL or len(rows) == len(pieces) or late():
            break
        each = _by_row(field, pieces)
        wanted = max(int((each < _FORESEEN * mean).sum()), int(_FURTHER * len(rows)) + 1)
        taken = min(wanted, int(np.isfinite(each).sum()))
        if taken <= len(rows):
            break
        rows = pieces[np.argsort(each, kind="stable")[:taken]]
        field = descend(field, rows, ridge, late)
    return field


def _refined(
    field: VectorField, rows: Pieces, ridge: float, change: float, late: Callable[[], bool]
) -> tuple[VectorField, float]:
    """The field with as many Runge-Kutta steps as help, and its squared error against the squared change."""
    error = squared_error(field, rows) / len(rows) / change
    while error > _FINE and field.substeps < _MOST_SUBSTEPS and not late():
        finer = descend(replace(field, substeps=2 * field.substeps), rows, ridge, late)
        less = squared_error(finer, rows) / len(rows) / change
        if not less < _HELPS * error:
            break
        field, error = finer, less
    return field, error


def _by_row(field: VectorField, pieces: Pieces) -> Array:
    """Squared error of every row, infinite where the flow does not stay finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        square = np.sum(np.square(errors(field, pieces)), axis=(1, 2))
    return np.asarray(np.where(np.isfinite(square), square, np.inf))
