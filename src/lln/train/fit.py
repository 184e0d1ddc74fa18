"""Minibatch training on one-step pairs, as plainly as it can be written."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lln.core.errors import InputError
from lln.core.seeding import subseed
from lln.train.config import TrainConfig


@dataclass(frozen=True)
class Epoch:
    """What a progress callback hears after each pass over the data.

    Attributes:
        number: from 1.
        total: number of epochs planned.
        loss: mean squared error over the epoch, each pair as it was seen.
        learning_rate: of the epoch's last update.
        seconds: since training began.
    """

    number: int
    total: int
    loss: float
    learning_rate: float
    seconds: float


@dataclass(frozen=True)
class History:
    """How training went.

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
    began, was_training = time.perf_counter(), model.training
    optimizer = make_optimizer(model, config)
    order = torch.Generator().manual_seed(subseed(config.seed, "batches"))
    updates = config.epochs * -(-len(inputs) // config.batch_size)
    losses: list[float] = []
    done, stopped = 0, False
    model.train()
    try:
        for number in range(1, config.epochs + 1):
            total = torch.zeros((), dtype=torch.float64, device=inputs.device)
            for batch in batches(len(inputs), config.batch_size, order):
                rate = config.rate(done, updates)
                chosen = batch.to(inputs.device)
                loss = update(model, optimizer, inputs[chosen], targets[chosen], rate, config.clip)
                total += loss.double() * len(batch)
                done += 1
            losses.append(total.item() / len(inputs))
            report = Epoch(number, config.epochs, losses[-1], rate, time.perf_counter() - began)
            if progress is not None and progress(report) is False:
                stopped = number < config.epochs
                break
    finally:
        model.train(was_training)
    return History(tuple(losses), done, time.perf_counter() - began, stopped)


def batches(pairs: int, size: int, order: torch.Generator) -> tuple[Tensor, ...]:
    """The indices of one epoch's batches: every pair once, in an order drawn from `order`."""
    return torch.split(torch.randperm(pairs, generator=order), size)


def update(
    model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor, y: Tensor, rate: float, clip: float | None
) -> Tensor:
    """One optimizer step on one batch; returns the loss before it, detached."""
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    if clip is not None:
        nn.utils.clip_grad_norm_(model.parameters(), clip)
    optimizer.step()
    return loss.detach()


def make_optimizer(model: nn.Module, config: TrainConfig) -> torch.optim.Optimizer:
    """The optimizer that `config` names, over all parameters of `model`."""
    kind = torch.optim.AdamW if config.optimizer == "adamw" else torch.optim.Adam
    # One pass over all parameters: a deep network of small layers would spend as long here as on its gradients.
    return kind(model.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay, fused=True)


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
