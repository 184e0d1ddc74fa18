"""Where a long rollout spends its time, against where the truth does. Order in time plays no part."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from lln.core.errors import InputError, check_int
from lln.data import Standardizer
from lln.evaluate.metrics import Array, finite_truth, unit_of

DIRECTIONS = 64


def distribution_distance(predicted: ArrayLike, truth: ArrayLike, scale: ArrayLike | None = None) -> float:
    """Mean over coordinates of Wasserstein's distance between visited values, in units of `scale`.

    It is the mean distance that values have to be moved to turn one histogram into the other: 0.1 means a tenth of a
    standard deviation. It looks at each coordinate alone; `sliced_distance` also sees how they hang together.

    Args:
        predicted: visited states, (..., n); every leading index is a sample.
        truth: the true ones, (..., n), finite; their number may differ.
        scale: what counts as one in each coordinate, (n,); None takes the truth's standard deviations (1 for a
            coordinate that does not vary).

    Returns:
        The distance; infinite if a prediction is not finite.
    """
    guess, right = _standard(predicted, truth, scale)
    if not np.isfinite(guess).all():
        return float(np.inf)
    return float(np.mean([_wasserstein(a, b) for a, b in zip(guess.T, right.T, strict=True)]))


def sliced_distance(
    predicted: ArrayLike,
    truth: ArrayLike,
    scale: ArrayLike | None = None,
    *,
    directions: int = DIRECTIONS,
    seed: int = 0,
) -> float:
    """Mean of Wasserstein's distance between the two clouds seen along random directions, in units of `scale`.

    Args:
        predicted: visited states, (..., n); every leading index is a sample.
        truth: the true ones, (..., n), finite; their number may differ.
        scale: as for `distribution_distance`.
        directions: how many, drawn evenly from the sphere.
        seed: of the directions; the same ones for every model.

    Returns:
        The distance; infinite if a prediction is not finite.
    """
    guess, right = _standard(predicted, truth, scale)
    if not np.isfinite(guess).all():
        return float(np.inf)
    draws = np.random.default_rng(check_int("seed", seed, 0)).standard_normal(
        (check_int("directions", directions, 1), right.shape[1])
    )
    axes = draws / np.linalg.norm(draws, axis=1, keepdims=True)
    return float(np.mean([_wasserstein(guess @ axis, right @ axis) for axis in axes]))


def _wasserstein(a: Array, b: Array) -> float:
    """The area between the two cumulative distributions of samples (p,) and (q,)."""
    a, b = np.sort(a), np.sort(b)
    both = np.sort(np.concatenate([a, b]))
    share_a, share_b = (np.searchsorted(sample, both[:-1], side="right") / len(sample) for sample in (a, b))
    return float(np.sum(np.abs(share_a - share_b) * np.diff(both)))


def _standard(predicted: ArrayLike, truth: ArrayLike, scale: ArrayLike | None) -> tuple[Array, Array]:
    guess, right = np.asarray(predicted, dtype=np.float64), np.asarray(truth, dtype=np.float64)
    if min(guess.ndim, right.ndim) < 2 or guess.shape[-1] != right.shape[-1] or 0 in (guess.size, right.size):
        raise InputError(f"predicted and truth must be (..., n) with one n, got {guess.shape} and {right.shape}")
    flat = finite_truth(right).reshape(-1, right.shape[-1])
    unit = unit_of(Standardizer.fit(flat).scale if scale is None else scale, flat)
    return guess.reshape(-1, right.shape[-1]) / unit, flat / unit
