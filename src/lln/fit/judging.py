"""Rollouts of many trained groups at many shares at once, for the judge: all on one device, in float64 but the nets."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from lln.fit.holdout import Windows
from lln.models.stacked import Ensemble
from lln.step.frame import Array, Frame

_EAGER = 2


def roll_groups(model: Ensemble, frame: Frame, windows: Windows, groups: int, shares: Sequence[float]) -> Array:
    """The states of every group of members at every share: (G, A, W, steps, n), in the units of the data."""
    with torch.no_grad():
        return _Roller(model, frame, windows, groups, shares).run()


class _Roller:
    """Standardised states that advance in place, so that a GPU may replay one captured step."""

    def __init__(self, model: Ensemble, frame: Frame, windows: Windows, groups: int, shares: Sequence[float]) -> None:
        self.model, self.frame, self.windows, self.groups = model, frame, windows, groups
        self.device = next(model.parameters()).device
        self.shares, self.each = len(shares), len(model) // groups
        self.matrix, self.offset = self._at(frame.matrix.T), self._at(frame.offset)
        self.gain = self._at(np.asarray(shares)[:, None, None] * frame.gain)
        self.differences = [self._at(row) for row in frame.difference_scale]
        start = self._at((windows.start - frame.mean) / frame.scale)
        lead = (groups, self.shares, *start.shape[:1], frame.size)
        self.past = [start[:, k].expand(lead).contiguous() for k in range(frame.history)]
        self.known: Tensor | None = None
        if windows.inputs is not None:
            self.inputs = self._at((windows.inputs - frame.input_mean) / frame.input_scale)
            self.known = self.inputs[:, 0].clone()

    def run(self) -> Array:
        """All steps."""
        steps = self.windows.truth.shape[1]
        states = torch.empty((steps, *self.past[-1].shape), dtype=torch.float64, device=self.device)
        advance: Callable[[], None] = self._step
        for k in range(steps):
            if self.known is not None:
                self.known.copy_(self.inputs[:, k])
            if k == _EAGER and self.device.type == "cuda":
                advance = self._captured()
            advance()
            states[k] = self.past[-1]
        rows: Array = states.permute(1, 2, 3, 0, 4).cpu().numpy()
        return rows * self.frame.scale + self.frame.mean

    def _step(self) -> None:
        past = self.past
        parts = [past[-1]]
        parts += [(past[-j] - past[-j - 1]) / d for j, d in enumerate(self.differences, start=1)]
        if self.known is not None:
            parts.append(self.known.expand(*past[-1].shape[:-1], -1))
        features = torch.cat(parts, dim=-1)
        rows = features.float().reshape(self.groups, 1, -1, features.shape[-1])
        rows = rows.expand(-1, self.each, -1, -1).reshape(self.groups * self.each, -1, features.shape[-1])
        out = self.model(rows).double().reshape(self.groups, self.each, *features.shape[1:-1], -1).mean(dim=1)
        after = past[-1] + features @ self.matrix + self.offset + self.gain * out
        for k in range(len(past) - 1):
            past[k].copy_(past[k + 1])
        past[-1].copy_(after)

    def _captured(self) -> Callable[[], None]:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._step()
        return graph.replay

    def _at(self, values: Array) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(values)).to(self.device)
