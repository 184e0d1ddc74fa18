"""A step many times: rollouts in torch, on a GPU as a CUDA graph; and a step undone, by Newton's method."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from lln.core.errors import InputError
from lln.step.frame import Array

_EAGER = 2  # steps before a capture, in which kernels compile and caches fill
_LOOK = 16  # steps between two looks at whether anything is still finite
# In standard deviations. The solve is in float64, where a residual this small is rounding.
TOLERANCE = 1e-9
_ITERATIONS = 50
_HALVINGS = 12
_PROBE = 1e-6


class Advances(Protocol):
    """What a rollout repeats."""

    def advance(self, window: Tensor, inputs: Tensor | None = None) -> Tensor:
        """(..., H, n) and (..., m) -> (..., n)."""


def roll(step: Advances, window: Tensor, steps: int, inputs: Tensor | None = None) -> Tensor:
    """The states after windows (..., H, n) with inputs (..., steps, m): (..., steps, n), without gradients.

    Once no start has a finite state left, the rest is NaN.
    """
    window = window.clone(memory_format=torch.contiguous_format)
    states = window.new_full((steps, *window.shape[:-2], window.shape[-1]), torch.nan)
    known = None if inputs is None else inputs.movedim(-2, 0)
    now = None if known is None or not steps else known[0].clone()

    def go() -> None:
        after = step.advance(window, now)
        if window.shape[-2] > 1:
            window[..., :-1, :] = window[..., 1:, :].clone()
        window[..., -1, :] = after

    with torch.no_grad():
        replay = go
        for k in range(steps):
            if now is not None and known is not None:
                now.copy_(known[k])
            if k == _EAGER and window.is_cuda:
                replay = _captured(go)
            replay()
            states[k] = window[..., -1, :]
            if k % _LOOK == _LOOK - 1 and not torch.isfinite(states[k]).all(dim=-1).any():
                break
        _lost(states)
    return states.movedim(0, -2)


def _captured(go: Callable[[], None]) -> Callable[[], None]:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        go()
    return graph.replay


def _lost(states: Tensor) -> None:
    """Set to NaN what follows the first step after which no start is finite."""
    if not states.numel():
        return
    alive = torch.isfinite(states).all(dim=-1).reshape(len(states), -1).any(dim=1)
    if not alive.all():
        states[int(alive.logical_not().int().argmax()) + 1 :] = torch.nan


def newton(residual: Callable[[Array], Array], start: Array, scale: Array) -> Array:
    """Where the residual, (B, n) -> (B, n) in units of `scale`, is zero; InputError where no such point is found."""
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
