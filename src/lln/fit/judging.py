"""Held-out rollouts of many trained groups at many correction weights at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from lln.fit.holdout import Windows
from lln.models.stacked import Ensemble
from lln.step.dense import DenseStep
from lln.step.frame import Array, Frame
from lln.step.loop import roll


def roll_groups(model: Ensemble, frame: Frame, windows: Windows, groups: int, shares: Sequence[float]) -> Array:
    """The states of every group of members at every weight: (G, A, W, steps, n), in the units of the data."""
    weighted = replace(frame, gain=np.asarray(shares)[:, None, None] * frame.gain)
    step = DenseStep(weighted, [_GroupMeans(model, groups)])
    start = torch.from_numpy(windows.start).to(step.device)
    known = None if windows.inputs is None else torch.from_numpy(windows.inputs).to(step.device)
    states = roll(step, start.expand(groups, len(shares), *start.shape), windows.truth.shape[1], known)
    rows: Array = states.cpu().numpy()
    return rows


class _GroupMeans(nn.Module):
    """The mean output of each group of an ensemble: (G, ..., F) -> (G, ..., n)."""

    def __init__(self, model: Ensemble, groups: int) -> None:
        super().__init__()
        self.model, self.groups, self.each = model, groups, len(model) // groups

    def forward(self, features: Tensor) -> Tensor:
        rows = features.reshape(self.groups, 1, -1, features.shape[-1]).expand(-1, self.each, -1, -1)
        out: Tensor = self.model(rows.reshape(self.groups * self.each, -1, features.shape[-1])).double()
        return out.reshape(self.groups, self.each, *features.shape[1:-1], -1).mean(dim=1)
