"""Training of a network on pairs of inputs and targets."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lln.core.errors import InputError
from lln.train.batches import EpochBatches
from lln.train.config import TrainConfig
from lln.train.loop import Schedule, Trainer
from lln.train.update import UpdateOptions


@dataclass(frozen=True)
class Epoch:
    """What a progress callback receives after each pass over the data.

    Attributes:
        number: of the epoch, from 1.
        total: number of epochs planned.
        loss: mean squared error over the epoch, each pair as it was seen.
        learning_rate: of the epoch's last update.
        seconds: since the training began.
    """

    number: int
    total: int
    loss: float
    learning_rate: float
    seconds: float


@dataclass(frozen=True)
class History:
    """The course of a training.

    Attributes:
        losses: mean squared error of each epoch.
        updates: number of optimizer steps.
        seconds: wall time.
        stopped: whether the callback ended it early.
    """

    losses: tuple[float, ...]
    updates: int
    seconds: float
    stopped: bool = False


Progress = Callable[[Epoch], bool | None]


def fit(
    model: nn.Module, inputs: Tensor, targets: Tensor, config: TrainConfig, progress: Progress | None = None
) -> History:
    """Train `model` in place to map `inputs` to `targets` by the mean squared error.

    Args:
        model: any module (B, n_in) -> (B, n_out).
        inputs: (pairs, n_in), floating point, finite, on the model's device.
        targets: (pairs, n_out), likewise.
        config: the recipe.
        progress: called after every epoch; returning False ends training there. An exception or Ctrl-C inside an epoch
            passes through and leaves the model as its last whole update made it.

    Returns:
        The losses and the time it took.
    """
    _check_pairs(model, inputs, targets)
    began = time.perf_counter()
    batches = EpochBatches((inputs, targets), config.batch_size, [config.seed])

    def loss(x: Tensor, y: Tensor) -> Tensor:
        return nn.functional.mse_loss(model(x), y)

    trainer = Trainer(model, batches.one, loss, schedule_of(config, batches.each), options_of(config))
    losses: list[float] = []
    for number in range(1, config.epochs + 1):
        losses.append(trainer.advance(batches.each).item())
        rate = config.rate(trainer.done - 1, trainer.updates)
        report = Epoch(number, config.epochs, losses[-1], rate, time.perf_counter() - began)
        if progress is not None and progress(report) is False:
            break
    return History(tuple(losses), trainer.done, time.perf_counter() - began, not trainer.finished)


def schedule_of(config: TrainConfig, each: int) -> Schedule:
    """The schedule that `config` describes, with `each` updates in an epoch."""
    return Schedule(config.epochs * each, config.learning_rate, config.schedule)


def options_of(config: TrainConfig, *, members: bool = False) -> UpdateOptions:
    """The optimizer that `config` describes."""
    return UpdateOptions(config.optimizer, config.weight_decay, config.clip, members)


def _check_pairs(model: nn.Module, inputs: Tensor, targets: Tensor) -> None:
    for name, value in (("inputs", inputs), ("targets", targets)):
        if not isinstance(value, Tensor):
            raise InputError(f"{name} must be a torch tensor, got {type(value).__name__}; use torch.from_numpy")
        if not value.dtype.is_floating_point:
            raise InputError(f"{name} must be floating point, got {value.dtype}; convert with .float()")
        if value.ndim != 2 or len(value) == 0:
            raise InputError(f"{name} must have shape (pairs, n) with at least one pair, got {tuple(value.shape)}")
        if not torch.isfinite(value).all():
            row = int(torch.nonzero(~torch.isfinite(value))[0, 0])
            raise InputError(f"{name} must be finite, but pair {row} holds NaN or infinity; leave such pairs out")
    if len(inputs) != len(targets):
        raise InputError(f"inputs and targets must pair up, got {len(inputs)} inputs and {len(targets)} targets")
    with torch.no_grad():
        was_training = model.training
        shape = tuple(model.eval()(inputs[:1]).shape)
        model.train(was_training)
    if shape != (1, targets.shape[1]):
        raise InputError(f"the model returns {shape[-1]} numbers a pair but targets have {targets.shape[1]}")
