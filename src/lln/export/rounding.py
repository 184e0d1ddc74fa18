"""What rounding in float64 alone may do to a rollout: the scale on which exports of float64 steps are judged.

A sum of k products, computed in any order, is the exact sum of products whose weights differ by at most k units of
rounding. So every weight is moved by that much, with a random sign, and every state by one unit.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lln.step.base import AnyStep
from lln.step.frame import Array, Frame

_UNIT = float(np.finfo(np.float64).eps)
_FRAME = ("difference_scale", "matrix", "offset", "gain", "static")


def rounded_rollout(step: AnyStep, window: Array, steps: int, inputs: Array | None) -> Array:
    """A rollout of (B, H, n) windows like those that other code may compute from the same float64 weights."""
    source = np.random.default_rng(0)

    def moved(values: Any) -> Any:
        if values is None:
            return None
        terms = values.shape[-1] if np.ndim(values) > 1 else 1
        return values * (1.0 + terms * _UNIT * source.uniform(-1.0, 1.0, values.shape))

    members = [_network(copy.deepcopy(member).cpu(), moved) for member in step.members]
    twin = step.replace(frame=_frame(step.frame, moved), members=members)
    states = np.empty((len(window), steps, window.shape[-1]))
    for k in range(steps):
        now = None if inputs is None else inputs[:, k : k + 1]
        states[:, k] = twin.rollout(window, 1, now)[:, 0]
        states[:, k] *= 1.0 + _UNIT * source.uniform(-1.0, 1.0, states[:, k].shape)
        window = np.concatenate([window[:, 1:], states[:, k : k + 1]], axis=1)
    return states


def _frame(frame: Any, moved: Callable[[Any], Any]) -> Any:
    changed = {name: moved(getattr(frame, name)) for name in _FRAME if hasattr(frame, name)}
    if frame.polynomial is not None:
        changed["polynomial"] = replace(frame.polynomial, weights=moved(frame.polynomial.weights))
    if isinstance(frame, Frame) and frame.flow is not None:
        field = replace(frame.flow.polynomial, weights=moved(frame.flow.polynomial.weights))
        changed["flow"] = replace(frame.flow, polynomial=field, offset=moved(frame.flow.offset))
    return replace(frame, **changed)


def _network(network: Any, moved: Callable[[Array], Array]) -> Any:
    with torch.no_grad():
        for parameter in network.parameters():
            values: Tensor = torch.from_numpy(moved(parameter.double().numpy()))
            parameter.copy_(values)
    return network
