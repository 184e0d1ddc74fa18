"""Training of a network on pairs of inputs and targets, and its options."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor, nn

from lln.core.errors import InputError, did_you_mean
from lln.train.batches import EpochBatches
from lln.train.loop import Schedule, Trainer, UpdateOptions


class Recipe(BaseModel):
    """What every training recipe states, checked and frozen."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)

    epochs: int = Field(6, ge=1)  #: passes over the training pairs.
    batch_size: int = Field(64, ge=1)  #: pairs in one update; the last batch of an epoch takes what is left.
    learning_rate: float = Field(1e-3, gt=0)  #: at the start.
    #: "adam", whose weight decay adds to the gradient, or "adamw", whose weight decay shrinks weights.
    optimizer: Literal["adam", "adamw"] = "adam"
    weight_decay: float = Field(0.0, ge=0)  #: its strength.
    clip: float | None = Field(None, gt=0)  #: largest norm of the whole gradient; None leaves it as it is.


class TrainConfig(Recipe):
    """One training recipe; the defaults are the paper's six-epoch Adam runs of the lens network."""

    #: "constant", or "cosine" from `learning_rate` down to zero over all updates.
    schedule: Literal["constant", "cosine"] = "constant"
    seed: int = Field(0, ge=0)  #: of the order in which pairs are visited.

    def __init__(self, **options: Any) -> None:
        """Check the options; the first fault is reported in one sentence."""
        try:
            super().__init__(**options)
        except ValidationError as error:
            raise InputError(_sentence(error)) from None

    def rate(self, update: int, updates: int) -> float:
        """Learning rate of update number `update` (from 0) of `updates` in all."""
        return Schedule(updates, self.learning_rate, self.schedule).at(update, updates)


@dataclass(frozen=True)
class Epoch:
    """What a progress callback receives after each pass over the data."""

    number: int  #: of the epoch, from 1.
    total: int  #: number of epochs planned.
    loss: float  #: mean squared error over the epoch, each pair as it was seen.
    learning_rate: float  #: of the epoch's last update.
    seconds: float  #: since the training began.


@dataclass(frozen=True)
class History:
    """The course of a training."""

    losses: tuple[float, ...]  #: mean squared error of each epoch.
    updates: int  #: number of optimizer steps.
    seconds: float  #: wall time.
    stopped: bool = False  #: whether the callback ended it early.


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
        raise InputError(f"the model returns {shape[-1]} numbers per pair but targets have {targets.shape[1]}")


def _sentence(error: ValidationError) -> str:
    fault = error.errors()[0]
    key = ".".join(map(str, fault["loc"]))
    if fault["type"] == "extra_forbidden":
        return f"the training configuration has no option {key!r}{did_you_mean(key, TrainConfig.model_fields)}"
    if fault["type"] == "literal_error":
        return f"{key} of the training configuration must be {fault['ctx']['expected']}, got {fault['input']!r}"
    wish = fault["msg"].replace("Input should be", "must be")
    return f"{key} of the training configuration {wish}, got {fault['input']!r}"
