"""How far a rollout is from the truth. Arrays in, numbers out; any model's rollout will do.

A prediction that is not finite counts as infinitely wrong, so that a diverged rollout can never hide in a mean.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lln.core.errors import InputError, positive

Array = NDArray[np.floating[Any]]

VALID_RMSE = 0.4


def finite_truth(truth: Array) -> Array:
    """`truth` itself, which must be finite: only predictions may fail."""
    if not np.isfinite(truth).all():
        raise InputError("truth must be finite, got NaN or infinity")
    return truth


def unit_of(scale: ArrayLike, truth: Array) -> Array:
    """`scale` as one number above zero for each column of `truth`, (n,)."""
    unit = np.asarray(scale, dtype=np.float64)
    if unit.shape != truth.shape[-1:] or not (unit > 0).all():
        raise InputError(f"scale must be {truth.shape[-1]} numbers above zero, got shape {unit.shape}")
    return unit


def mse_by_step(predicted: ArrayLike, truth: ArrayLike, scale: ArrayLike | None = None) -> Array:
    """Mean over coordinates of the squared error in units of `scale`, for each step.

    Args:
        predicted: states after the start, (..., steps, n).
        truth: the true ones, (..., steps, n) or (steps, n).
        scale: what counts as one in each coordinate, (n,): the standard deviations of the training inputs. None if
            the states are standardised already.

    Returns:
        (..., steps), in float64.
    """
    guess, right = np.asarray(predicted, dtype=np.float64), np.asarray(truth, dtype=np.float64)
    if right.ndim < 2 or guess.shape[-2:] != right.shape[-2:]:
        raise InputError(f"predicted and truth must both be (..., steps, n), got {guess.shape} and {right.shape}")
    unit = unit_of(np.ones(right.shape[-1]) if scale is None else scale, finite_truth(right))
    with np.errstate(over="ignore", invalid="ignore"):
        error = np.square((guess - right) / unit).mean(axis=-1)
    return np.where(np.isfinite(error), error, np.inf)


def rmse_by_step(predicted: ArrayLike, truth: ArrayLike, scale: ArrayLike | None = None) -> Array:
    """Root of `mse_by_step`: the size of the error at each step in units of `scale`, (..., steps)."""
    return np.sqrt(mse_by_step(predicted, truth, scale))


def normalized_mse(predicted: ArrayLike, truth: ArrayLike, scale: ArrayLike | None = None) -> float:
    """The paper's score: `mse_by_step` averaged over all steps (and starts, if there are several)."""
    return float(mse_by_step(predicted, truth, scale).mean())


def normalized_rmse(predicted: ArrayLike, truth: ArrayLike, scale: ArrayLike | None = None) -> float:
    """Root of `normalized_mse`: the typical size of the error over all steps and starts."""
    return float(np.sqrt(normalized_mse(predicted, truth, scale)))


def valid_prediction_steps(
    predicted: ArrayLike, truth: ArrayLike, scale: ArrayLike | None = None, threshold: float = VALID_RMSE
) -> NDArray[np.int64]:
    """How many steps pass before the normalised root mean square error first exceeds `threshold`.

    A rollout that stays below it to the end scores all its steps, so the number is at most the length of the window.
    Shape (...): one number for each start, a zero-dimensional array for one rollout.
    """
    wrong = np.sqrt(mse_by_step(predicted, truth, scale)) > positive("threshold", threshold)
    steps = np.where(wrong.any(axis=-1), wrong.argmax(axis=-1), wrong.shape[-1])
    return np.asarray(steps, dtype=np.int64)
