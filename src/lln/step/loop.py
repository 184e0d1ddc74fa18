"""Rollouts step by step in torch; on a GPU one step is captured as a graph and replayed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

_EAGER = 2  # steps before a capture, in which kernels compile and caches fill
_LOOK = 16  # steps between two looks at whether anything is still finite


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
