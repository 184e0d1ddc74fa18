"""How far a small error of each step grows along a rollout, which differs from start to start.

The covariance of the state is carried along: each step multiplies it by the derivative of the model there and adds what
one step errs. A chaotic system forgets at different speeds in different places, and this says where.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lln.step.base import Step
from lln.step.frame import Array

MOST = 16  # numbers in a window: the covariance has its square
_FEW = 8  # windows and steps that tell a linear map from others
_ALIKE = 1e-3  # part by which spreads of a linear map differ at most, by rounding
_NUDGE = 1e-5  # standard deviations by which states are moved for a derivative
_WIDEST = 2.0  # standard deviations: an error does not grow beyond what two states of the data differ by


def spread_along(step: Step[Any, Any], start: Array, steps: int, inputs: Array | None, kick: Array) -> Array:
    """Standard deviations of the errors along rollouts, (..., steps, n).

    Args:
        step: the model.
        start: windows, (..., H, n), oldest first.
        steps: how many.
        inputs: known inputs (..., steps, m), or None.
        kick: standard deviation of the error of one step, (n,).
    """
    lead, (history, n) = start.shape[:-2], start.shape[-2:]
    size, scale = history * n, step.frame.scale
    window = start.reshape(-1, history, n).astype(np.float64)
    known = None if inputs is None else inputs.reshape(len(window), steps, -1)
    nudge = _NUDGE * np.tile(scale, history)
    moved = np.concatenate([np.zeros((1, size)), np.diag(nudge)]).reshape(size + 1, history, n)
    shift = np.eye(size, k=n)[: size - n]
    covariance, found = np.zeros((len(window), size, size)), np.empty((len(window), steps, n))
    with np.errstate(all="ignore"):
        for k in range(steps):
            now = None if known is None else np.repeat(known[:, None, k : k + 1], size + 1, axis=1)
            after = np.asarray(step.rollout(window[:, None] + moved, 1, now))[:, :, 0]
            derivative = np.swapaxes((after[:, 1:] - after[:, :1]) / nudge[:, None], 1, 2)
            whole = np.concatenate([np.broadcast_to(shift, (len(window), *shift.shape)), derivative], axis=1)
            covariance = whole @ covariance @ np.swapaxes(whole, 1, 2)
            covariance[:, size - n :, size - n :] += np.diag(kick**2)
            found[:, k] = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2)[:, size - n :])
            window = np.concatenate([window[:, 1:], after[:, :1]], axis=1)
        return np.asarray(np.fmin(found, _WIDEST * scale)).reshape(*lead, steps, n)


def may_differ(step: Step[Any, Any], start: Array, inputs: Array | None, kick: Array) -> bool:
    """Whether errors of a model grow from some windows (W, H, n) otherwise than from others, as in no linear map.

    Large windows and networks are not asked: that would take longer than their fit.
    """
    if start.shape[1] * start.shape[2] > MOST or step.members:
        return False
    few = slice(None, None, max(1, len(start) // _FEW))
    steps = _FEW if inputs is None else min(_FEW, inputs.shape[1])
    found = spread_along(step, start[few], steps, None if inputs is None else inputs[few, :steps], kick)
    return bool((np.ptp(found, axis=0) > _ALIKE * found.max(axis=0)).any())
