"""Fine-tuning of dense ensembles over several steps, so that errors that feed on themselves count.

Noise in the observations hides single increments; over several steps the change outgrows it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lln.data.stream import Pairs
from lln.models.stacked import Ensemble
from lln.step.dense import DenseStep
from lln.step.frame import Frame
from lln.train.ensemble import CLIP
from lln.train.loop import Schedule, Trainer, UpdateOptions
from lln.train.unrolled import Stretches, Unroll, unrolled_loss

STEPS_WHEN_NOISY = 8
RATE = 0.1  # of the main training's


def stretches(held: Pairs, steps: int, device: str) -> Stretches | None:
    """Runs of `steps` consecutive pairs; None if there is none."""
    index = held.index
    count = len(index) - steps + 1
    if count < 1:
        return None
    ends = index[steps - 1 :]
    runs = (ends[:, 0] == index[:count, 0]) & (ends[:, 1] - index[:count, 1] == steps - 1)
    first = np.flatnonzero(runs)
    if not len(first):
        return None

    def at(values: NDArray[Any]) -> Tensor:
        return torch.from_numpy(values).to(device)

    return Stretches(
        at(held.window), at(held.target), None if held.inputs is None else at(held.inputs), at(first), steps
    )


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
    unit = torch.from_numpy(frame.scale * np.where(frame.gain > 0, frame.gain, 1.0)).to(data.window.device)
    step = DenseStep(frame, [model])

    def advance(past: Sequence[Tensor], known: Tensor | None) -> Tensor:
        return step.advance(torch.stack(list(past), dim=-2), known)

    loss = unrolled_loss(advance, frame.history, Unroll(data.steps), scale=unit, members=True, growing=True)
    options = UpdateOptions(clip=CLIP, members=True, mask=mask)
    Trainer(model, lambda k: data.batch(k, batch, seeds), loss, Schedule(updates, rate), options).run()
    model.eval()
