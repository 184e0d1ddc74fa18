"""Fine-tuning of dense ensembles over several steps, so that errors that feed on themselves count.

Noise in the observations hides single increments; over several steps the change outgrows it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from lln.data.stream import Pairs
from lln.models.stacked import Ensemble
from lln.step.frame import Frame
from lln.train.ensemble import CLIP
from lln.train.loop import Trainer
from lln.train.schedule import Schedule
from lln.train.unrolled import StepFunction, Stretches, Unroll, unrolled_loss
from lln.train.update import UpdateOptions

STEPS_WHEN_NOISY = 8
RATE = 0.1  # of the main training's


def stretches(frame: Frame, held: Pairs, steps: int, device: str) -> Stretches | None:
    """Runs of `steps` consecutive pairs in standardised units; None if there is none."""
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
    return Stretches(standard(held.window), standard(held.target), known, torch.from_numpy(first).to(device), steps)


def fine_tune(
    model: Ensemble,
    frame: Frame,
    data: Stretches,
    mask: Callable[[], None] | None,
    seeds: Sequence[int],
    *,
    updates: int,
    batch: int,
    rate: float,
) -> None:
    """Train every member in place so that its own rollouts over a few steps follow the data."""
    unit = torch.from_numpy(np.where(frame.gain > 0, frame.gain, 1.0)).to(data.window.device)
    step = _standard_step(model, frame, data.window.device)
    loss = unrolled_loss(step, frame.history, Unroll(data.steps), scale=unit, members=True, growing=True)
    options = UpdateOptions(clip=CLIP, members=True, mask=mask)
    Trainer(model, lambda k: data.batch(k, batch, seeds), loss, Schedule(updates, rate), options).run()
    model.eval()


def _standard_step(model: Ensemble, frame: Frame, device: torch.device) -> StepFunction:
    """One standardised step with gradients; states in float64, networks in float32."""

    def at(values: np.ndarray) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(values)).to(device)

    matrix, offset, gain = at(frame.matrix.T), at(frame.offset), at(frame.gain)
    differences = [at(row) for row in frame.difference_scale]

    def step(past: Sequence[Tensor], known: Tensor | None) -> Tensor:
        parts = [past[-1]]
        parts += [(past[-j] - past[-j - 1]) / d for j, d in enumerate(differences, start=1)]
        parts += [] if known is None else [known]
        features = torch.cat(parts, dim=-1)
        after: Tensor = past[-1] + features @ matrix + offset + gain * model(features.float()).double()
        return after

    return step
