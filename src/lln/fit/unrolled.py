"""Fine-tuning over several steps: gradients go through a short rollout, so that errors that feed on themselves count.

Noise in the observations hides single increments; over several steps the change outgrows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from lln.core.seeding import subseed
from lln.data.stream import Pairs
from lln.fit.members import Blinkers
from lln.fit.readout import Ensemble
from lln.step.frame import Frame
from lln.train.ensemble import clip_by_member

STEPS_WHEN_NOISY = 8
RATE = 0.1  # of the main training's
_CLIP = 1.0


@dataclass(frozen=True, eq=False)
class Stretches:
    """Short stretches of standardised states.

    Attributes:
        states: (P, n) at the present of every pair, and `after` the same one step later.
        first: the pairs from which a stretch of `steps` goes on without a gap.
    """

    window: Tensor
    after: Tensor
    inputs: Tensor | None
    first: Tensor
    steps: int

    @classmethod
    def of(cls, frame: Frame, held: Pairs, steps: int, device: str) -> Stretches | None:
        """Those of the pairs in memory; None if no stretch is long enough."""
        index = held.index
        count = len(index) - steps + 1
        if count < 1:
            return None
        ends = index[steps - 1 :]
        runs = (ends[:, 0] == index[:count, 0]) & (ends[:, 1] - index[:count, 1] == steps - 1)
        first = np.flatnonzero(runs)
        if not len(first):
            return None

        def standard(values: np.ndarray) -> Tensor:
            return torch.from_numpy((values - frame.mean) / frame.scale).to(device)

        known = None
        if held.inputs is not None:
            known = torch.from_numpy((held.inputs - frame.input_mean) / frame.input_scale).to(device)
        return cls(standard(held.window), standard(held.target), known, torch.from_numpy(first).to(device), steps)


def fine_tune(
    model: Ensemble,
    frame: Frame,
    data: Stretches,
    blinkers: Blinkers,
    seeds: Sequence[int],
    *,
    updates: int,
    batch: int,
    rate: float,
) -> None:
    """Train every member in place so that its own rollouts over a few steps follow the data."""
    device = data.window.device
    optimizer = torch.optim.Adam(model.parameters(), lr=rate, fused=True)
    step = _Step(frame, device)
    # An error that keeps its sign grows with the steps, so each counts against what so many steps may add up to.
    unit = torch.from_numpy(np.where(frame.gain > 0, frame.gain, 1.0)).to(device)
    model.train()
    for update in range(updates):
        for group in optimizer.param_groups:
            group["lr"] = rate * 0.5 * (1.0 + np.cos(np.pi * update / updates))
        chosen = _draw(data.first, batch, update, seeds)
        optimizer.zero_grad()
        past = [data.window[chosen, k] for k in range(frame.history)]
        total = torch.zeros(len(seeds), dtype=torch.float64, device=device)
        for k in range(data.steps):
            known = None if data.inputs is None else data.inputs[chosen + k]
            past = [*past[1:], step(model, past, known)]
            error = (past[-1] - data.after[chosen + k]) / (unit * (k + 1))
            total = total + error.square().mean(dim=(1, 2))
        (total / data.steps).sum().backward()
        blinkers()
        clip_by_member([p.grad for p in model.parameters() if p.grad is not None], _CLIP)
        optimizer.step()
    model.eval()


class _Step:
    """One standardised step with gradients; states in float64, networks in float32."""

    def __init__(self, frame: Frame, device: torch.device) -> None:
        def at(values: np.ndarray) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(values)).to(device)

        self.matrix, self.offset, self.gain = at(frame.matrix.T), at(frame.offset), at(frame.gain)
        self.differences = [at(row) for row in frame.difference_scale]

    def __call__(self, model: Ensemble, past: list[Tensor], known: Tensor | None) -> Tensor:
        parts = [past[-1]]
        parts += [(past[-j] - past[-j - 1]) / d for j, d in enumerate(self.differences, start=1)]
        parts += [] if known is None else [known]
        features = torch.cat(parts, dim=-1)
        correction = model(features.float()).double()
        after: Tensor = past[-1] + features @ self.matrix + self.offset + self.gain * correction
        return after


def _draw(first: Tensor, batch: int, update: int, seeds: Sequence[int]) -> Tensor:
    """Where each member's stretches of this update start, (S, B)."""
    rows = []
    for seed in seeds:
        generator = torch.Generator().manual_seed(subseed(seed, "stretch", update))
        rows.append(torch.randint(len(first), (batch,), generator=generator))
    return first[torch.stack(rows).to(first.device)]
