"""Whether an ensemble knows how wrong it is: its spread against its error.

Members that are not finite make the ensemble infinitely wrong at that step, as everywhere in `lln.evaluate`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from lln.core.errors import InputError
from lln.evaluate.metrics import Array, finite_truth, unit_of


@dataclass(frozen=True, eq=False)
class SpreadSkill:
    """Spread and error of an ensemble by step, over all starts and coordinates, in units of the scale.

    Attributes:
        spread: root of the mean variance between members, (steps,), corrected for their number: it equals `error` on
            average when the truth could have been one more member.
        error: root mean square error of the members' mean, (steps,).
        crps: continuous ranked probability score, (steps,): the error of the whole ensemble as a distribution, in the
            form that is fair to small ensembles. Lower is better; for one certain answer it is the absolute error.
        ranks: how often the truth lay below all members, between each two neighbours, above all: shares, (S + 1,).
            Even if the ensemble is honest; high at the ends if it is too sure of itself.
    """

    spread: Array
    error: Array
    crps: Array
    ranks: Array

    @property
    def ratio(self) -> Array:
        """Spread over error at each step, (steps,): below one the ensemble is too sure of itself.

        One where both are zero; zero where the ensemble is lost, since then nothing it says can be relied on.
        """
        lost = ~np.isfinite(self.error)
        exact = (self.error == 0) & (self.spread == 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(lost, 0.0, np.where(exact, 1.0, self.spread / self.error))

    @property
    def overall(self) -> float:
        """Spread over error with both averaged over the steps in the square; zero if the ensemble is lost."""
        spread, error = np.square(self.spread).mean(), np.square(self.error).mean()
        if not np.isfinite(error):
            return 0.0
        return float(np.sqrt(spread / error)) if error > 0 else float(spread == 0) or float(np.inf)


def spread_skill(members: ArrayLike, truth: ArrayLike, scale: ArrayLike | None = None) -> SpreadSkill:
    """Judge an ensemble's rollouts.

    Args:
        members: (S, ..., steps, n), at least two members.
        truth: (..., steps, n), finite.
        scale: what counts as one in each coordinate, (n,); None if the states are standardised already.
    """
    cloud, right = _standard(members, truth, scale)
    size = len(cloud)
    with np.errstate(over="ignore", invalid="ignore"):
        centre, variance = cloud.mean(axis=0), cloud.var(axis=0, ddof=1)
        # A mean of S members errs by one member's variance over S more than the true mean would.
        spread = np.sqrt(_by_step((size + 1) / size * variance))
        error = np.sqrt(_by_step(np.square(centre - right)))
        crps = _by_step(_fair_crps(cloud, right))
    lost = ~(np.isfinite(error) & np.isfinite(spread))
    spread, error, crps = (np.where(lost, np.inf, values) for values in (spread, error, crps))
    return SpreadSkill(spread, error, crps, _ranks(cloud, right))


def _fair_crps(cloud: Array, right: Array) -> Array:
    """Mean distance to the truth less half the mean distance between two different members."""
    size = len(cloud)
    ordered = np.sort(cloud, axis=0)
    # In sorted order the sum of all distances between pairs is one weighted sum.
    weights = (2.0 * np.arange(size) - (size - 1)).reshape(-1, *[1] * right.ndim)
    between = np.sum(weights * ordered, axis=0) / (size * (size - 1))
    return np.asarray(np.abs(cloud - right).mean(axis=0) - between)


def _ranks(cloud: Array, right: Array) -> Array:
    """Shares of the ranks; a tie is shared evenly between the ranks that it spans, a lost member lies above all."""
    size = len(cloud)
    known = np.where(np.isnan(cloud), np.inf, cloud)
    below, upto = ((compare(known, right)).sum(axis=0).ravel() for compare in (np.less, np.less_equal))
    counts = np.zeros(size + 2)
    share = 1.0 / (upto - below + 1)
    np.add.at(counts, below, share)
    np.subtract.at(counts, upto + 1, share)
    return np.cumsum(counts)[:-1] / right.size


def _by_step(values: Array) -> Array:
    """Mean over starts and coordinates: (..., steps, n) -> (steps,)."""
    return np.asarray(np.moveaxis(values, -2, 0).reshape(values.shape[-2], -1).mean(axis=1))


def _standard(members: ArrayLike, truth: ArrayLike, scale: ArrayLike | None) -> tuple[Array, Array]:
    cloud, right = np.asarray(members, dtype=np.float64), np.asarray(truth, dtype=np.float64)
    if right.ndim < 2 or cloud.shape[1:] != right.shape or len(cloud) < 2:
        raise InputError(
            f"members must be (S, ..., steps, n) with at least 2 members and truth (..., steps, n), "
            f"got {cloud.shape} and {right.shape}"
        )
    unit = unit_of(np.ones(right.shape[-1]) if scale is None else scale, finite_truth(right))
    return cloud / unit, right / unit
