"""The inverse of a step: the state before a window, by Newton's method."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch

from lln.core.errors import InputError
from lln.step.frame import Array

if TYPE_CHECKING:
    from lln.step.base import AnyStep

# In standard deviations. The solve is in float64, where a residual this small is rounding.
TOLERANCE = 1e-9
_ITERATIONS = 50
_HALVINGS = 12
_PROBE = 1e-6
_LARGEST = 2048


def step_back(step: AnyStep, window: Array, inputs: Array | None = None) -> Array:
    """The state before a window: x_{k-H} such that the step from x_{k-H}, ..., x_{k-1} leads to x_k.

    A learned step is no bijection in general, so this is Newton's method in float64, damped, from a straight
    continuation into the past. It refuses where it does not converge.

    Args:
        step: any kind of step.
        window: one window (H, n), oldest first, the state to undo last.
        inputs: (m,), known inputs at the time before the last state.

    Returns:
        (n,) in float64.
    """
    if step.frame.size > _LARGEST:
        raise InputError(
            f"a step of {step.frame.size} coordinates cannot be inverted; at most {_LARGEST} are solved for at once"
        )
    double = step.to_dtype(torch.float64)
    scale, target = step.frame.scale, window[-1]
    known = window[:-1]

    def residual(points: Array) -> Array:
        """By how much the step misses the target, (B, n) -> (B, n), in standard deviations."""
        past = np.concatenate([points[:, None, :], np.broadcast_to(known, (len(points), *known.shape))], axis=1)
        known_inputs = None if inputs is None else np.broadcast_to(inputs, (len(points), 1, len(inputs)))
        return np.asarray((double.rollout(past, 1, known_inputs)[:, 0] - target) / scale)

    ahead = double.rollout(window, 1, None if inputs is None else inputs[None])[0]
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is not finite, and refused in words
        first = 2 * window[0] - (window[1] if len(window) > 1 else ahead)
        return _newton(residual, first if np.isfinite(first).all() else window[0], scale)


def _newton(residual: Callable[[Array], Array], start: Array, scale: Array) -> Array:
    point, miss = start, residual(start[None])[0]
    for _ in range(_ITERATIONS):
        size = float(np.abs(miss).max())
        if size <= TOLERANCE:
            return point
        if not np.isfinite(size):
            break
        probes = point + _PROBE * np.diag(scale)
        jacobian = (residual(probes) - miss).T / _PROBE
        try:
            change = np.linalg.solve(jacobian, -miss)
        except np.linalg.LinAlgError:
            break
        lengths = 0.5 ** np.arange(_HALVINGS)
        trials = point + lengths[:, None] * change * scale
        misses = residual(trials)
        sizes = np.where(np.isfinite(misses).all(axis=1), np.abs(misses).max(axis=1), np.inf)
        best = int(np.argmax(sizes < size)) if (sizes < size).any() else int(sizes.argmin())
        if not sizes[best] < size:
            break
        point, miss = trials[best], misses[best]
    raise InputError(
        "no state was found whose successor under this model is the given one "
        f"(Newton's method stopped {np.abs(miss).max():.1e} standard deviations away); a learned step is not "
        "invertible everywhere, so start from a state near the training data"
    )
