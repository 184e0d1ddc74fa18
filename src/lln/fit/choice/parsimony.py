"""The choice among linear maps on noisy data, where few held-out rollouts cannot tell many maps apart.

Rollouts veto and one-step errors decide: of the maps whose held-out rollouts are within one standard error of the best,
the one with the lowest corrected Akaike information criterion (AICc) is used. The criterion counts effective
coefficients, so a map that is shrunk towards a naive forecast counts as simple.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from lln.fit.choice.holdout import Fold, load, roll_linear
from lln.fit.choice.linear_choice import LinearChoice
from lln.fit.choice.scores import RolloutErrors, better_by
from lln.fit.closed.linear import spectral_radius
from lln.fit.prepare import FrameChoice, Preparer
from lln.step.frame import Array

_MOST = 80  # candidates, the best first, that are compared
_ALIKE = 0.2  # of log errors that differ by more, the lower one is better whatever its standard error
_LONG_RUN = 1.0 + 1e-6  # spectral radius of a map that does not grow
_GROWTH = 2.0  # a map may grow by this exponent over the rows of the data
# Coefficients for which a dependence on the level counts: on a random walk its estimate is biased, and by the critical
# value of a unit-root test it takes four times the usual gain in likelihood to be believed.
_UNIT_ROOT = 3.0
_DOUBT = 2.0  # by which the criterion of a map that grows must be lower


def choose_on_noise(preparer: Preparer, folds: Sequence[Fold], choice: LinearChoice, scale: Array) -> FrameChoice:
    """The linear map to use.

    Args:
        preparer: prepares the data.
        folds: ways to hold data out, the last with all held-out rows.
        choice: scores of every map on them.
        scale: what counts as one in a score, (n,).
    """
    errors = choice.errors
    ranked = sorted(errors, key=errors.__getitem__)[:_MOST]
    best = ranked[0]
    reference = [_rolled(preparer, fold, best, scale, choice.horizon) for fold in folds]
    alike = [best]
    for other in ranked[1:]:
        gap = errors[other] - errors[best]
        rolled = [_rolled(preparer, fold, other, scale, choice.horizon) for fold in folds]
        if gap <= min(_ALIKE, _standard_error(folds, reference, rolled)):
            alike.append(other)
    rows = preparer.prepare(None, 1).pairs
    common = preparer.prepare(None, max(one.history for one in alike)).pairs
    growth = {one: spectral_radius(preparer.prepare(None, one.history).linear(one)) for one in alike}
    allowed = [one for one in alike if growth[one] <= 1.0 + _GROWTH / rows] or alike
    scores = {one: criterion(preparer, one, common) + _DOUBT * (growth[one] > _LONG_RUN) for one in allowed}
    return min(allowed, key=lambda one: (scores[one], one.history))


def criterion(preparer: Preparer, candidate: FrameChoice, rows: int) -> float:
    """AICc of the one-step errors of a linear map.

    Args:
        preparer: prepares the data.
        candidate: the map, solved from all rows.
        rows: the last so many pairs count, the same for every map that is compared.
    """
    ready = preparer.prepare(None, candidate.history)
    frame = ready.linear(candidate)
    if ready.held is None:
        errors = ready.regression.unexplained(frame.matrix, frame.offset) * frame.scale**2
    else:
        inputs = None if ready.held.inputs is None else ready.held.inputs[-rows:]
        features = frame.feature_rows(ready.held.window[-rows:], inputs)
        rest = ready.held.increments[-rows:] - frame.scale * (features @ frame.matrix.T + frame.offset)
        errors = np.mean(rest**2, axis=0)
    fitted = 0.0
    if candidate.ridge is not None:
        fitted = 1.0
        if math.isfinite(candidate.ridge):
            fitted += ready.regression.freedom(candidate.ridge, level=candidate.level)
            fitted += _UNIT_ROOT if candidate.level else 0.0
    likelihood = float(np.mean(np.log(np.maximum(errors, 1e-300))))
    return rows * (likelihood + 2 * (fitted + 1) / max(rows - fitted - 2, 1e-3))


def _rolled(preparer: Preparer, fold: Fold, candidate: FrameChoice, scale: Array, horizon: int) -> RolloutErrors:
    windows = load(preparer.dataset, fold, candidate.history, scale)
    frame = preparer.prepare(fold.train, candidate.history).linear(candidate)
    return windows.errors(roll_linear([frame], windows)[0]).until(horizon)


def _standard_error(folds: Sequence[Fold], one: Sequence[RolloutErrors], other: Sequence[RolloutErrors]) -> float:
    """Of the difference of two mean scores; windows of a fold overlap, and folds that share rows count as one."""
    variances = []
    for fold, first, second in zip(folds, one, other, strict=True):
        _, error = better_by(first, second, noisy=True)
        held = sum(last - begin for _, begin, last in fold.held_out)
        overlap = max(1.0, len(fold.windows) * min(fold.steps, first.leads[-1]) / max(held, 1))
        variances.append(error**2 * overlap)
    finite = [value for value in variances if math.isfinite(value)]
    ends = {max(last for _, _, last in fold.held_out) for fold in folds}
    return math.sqrt(float(np.mean(finite)) / len(ends)) if finite else math.inf
