"""Ensembles of one shape: how they are made, trained in one pass, and joined.

Member s visits the pairs in the order of its own seed and has its own loss and its own gradient norm. Nothing passes
between members: one that turns into NaN leaves the others alone.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lln.core.errors import InputError
from lln.core.seeding import subseed
from lln.models import LensNetwork, build
from lln.models.base import StateNetwork
from lln.models.stacked import Ensemble, stack
from lln.train.batches import Batches, EpochBatches
from lln.train.checkpoint import Checkpoint
from lln.train.fit import TrainConfig, options_of, schedule_of
from lln.train.locality import LocalityMask, gradient_mask
from lln.train.loop import Progress, Schedule, State, Trainer
from lln.train.update import UpdateOptions

CLIP = 1.0


@dataclass(frozen=True, eq=False)
class Shape:
    """The networks of one ensemble.

    Attributes:
        model: name of the network.
        options: of its constructor.
        n_in: number of features F.
        n_out: number of coordinates n.
        mask: which weights may differ from zero; None for all.
    """

    model: str
    options: dict[str, Any]
    n_in: int
    n_out: int
    mask: LocalityMask | None = None

    def parameters(self, network: StateNetwork) -> int:
        """Number of trainable values in one member."""
        count = sum(parameter.numel() for parameter in network.parameters())
        if self.mask is None:
            return count
        return count - 2 * self.mask.embedding.size - self.mask.readout.size + self.mask.entries


@dataclass(frozen=True, eq=False)
class Trained:
    """An ensemble and its snapshots.

    Attributes:
        model: after the last update, in evaluation mode.
        snapshots: parameters and buffers at each stop.
        updates: number of updates made.
        loss: last loss of each member, (S,).
        stops: number of snapshots of this training; a fine-tuning may add others.
    """

    model: Ensemble
    snapshots: list[State]
    updates: int
    loss: list[float]
    stops: int


def make_ensemble(shape: Shape, seeds: Sequence[int], device: str) -> Ensemble:
    """The untrained members, one for each seed, stacked."""
    networks = []
    for seed in seeds:
        generator = torch.Generator().manual_seed(subseed(seed, "network"))
        network = build(shape.model, shape.n_in, shape.n_out, generator=generator, **shape.options)
        if shape.mask is not None and isinstance(network, LensNetwork):
            shape.mask.apply(network)
        networks.append(network)
    return stack(networks).to(device)


def train_ensemble(
    shape: Shape,
    batches: Batches,
    seeds: Sequence[int],
    schedule: Schedule,
    device: str,
    *,
    size: int,
    checkpoint: Checkpoint | None = None,
    phase: str = "",
    progress: Progress | None = None,
) -> Trained:
    """Train one member for each seed in one pass, or continue from the checkpoint of this phase.

    Args:
        shape: of the networks.
        batches: source of features, targets and weights.
        seeds: of initial values and orders.
        schedule: updates, learning rates, snapshots and time limit.
        device: where the ensemble is trained.
        size: pairs in one batch.
        checkpoint: where progress is stored.
        phase: name of this training in the checkpoint.
        progress: receives updates made, updates planned and the mean loss.
    """
    model = make_ensemble(shape, seeds, device)

    def loss(x: Tensor, y: Tensor, weights: Tensor | None) -> Tensor:
        errors: Tensor = (model(x) - y).square().mean(dim=2)
        return (errors if weights is None else errors * weights).mean(dim=1)

    options = UpdateOptions(clip=CLIP, members=True, mask=gradient_mask(model, shape.mask))
    trainer = Trainer(model, lambda update: batches.batch(update, size, tuple(seeds)), loss, schedule, options)
    trainer.run(checkpoint, phase, progress)
    last = [] if trainer.last is None else trainer.last.tolist()
    return Trained(model.eval(), trainer.snapshots, trainer.updates, last, len(trainer.snapshots))


def join(model: Ensemble, states: Sequence[dict[str, Tensor]]) -> Ensemble:
    """One ensemble from several states of another: the members of the first state, then those of the next."""
    whole = copy.deepcopy(model)
    for path, module in whole.named_modules():
        prefix = f"{path}." if path else ""
        for held in (module._parameters, module._buffers):
            for name, tensor in held.items():
                if tensor is not None:
                    joined = torch.cat([state[prefix + name] for state in states])
                    is_parameter = isinstance(tensor, nn.Parameter)
                    held[name] = nn.Parameter(joined, requires_grad=False) if is_parameter else joined
    whole.size = model.size * len(states)
    return whole.eval()


@dataclass(frozen=True, eq=False)
class EnsembleHistory:
    """The course of a training.

    Attributes:
        losses: mean squared error of each epoch and member, (epochs, S).
        updates: number of optimizer steps.
        seconds: wall time.
    """

    losses: NDArray[np.float64]
    updates: int
    seconds: float


def fit_ensemble(
    model: nn.Module, inputs: Tensor, targets: Tensor, config: TrainConfig, seeds: Sequence[int]
) -> EnsembleHistory:
    """Train the members of `model` in place to map `inputs` to `targets` by the mean squared error.

    Each member is trained as `fit` would train it alone; only the rounding of batched sums differs.

    Args:
        model: S members in one module, (S, B, n_in) -> (S, B, n_out); every parameter has S as its first dimension.
        inputs: (pairs, n_in), shared by all members.
        targets: (pairs, n_out), likewise.
        config: options of the training; its own seed is not used.
        seeds: S of them; member s visits the pairs as `fit` would with ``config.seed = seeds[s]``.
    """
    _check(model, inputs, targets, seeds)
    began = time.perf_counter()
    batches = EpochBatches((inputs, targets), config.batch_size, seeds)

    def loss(x: Tensor, y: Tensor) -> Tensor:
        errors: Tensor = model(x) - y
        return errors.square().mean(dim=(1, 2))

    trainer = Trainer(model, batches, loss, schedule_of(config, batches.each), options_of(config, members=True))
    losses = torch.stack([trainer.advance(batches.each) for _ in range(config.epochs)])
    return EnsembleHistory(losses.cpu().numpy(), trainer.done, time.perf_counter() - began)


def _check(model: nn.Module, inputs: Tensor, targets: Tensor, seeds: Sequence[int]) -> None:
    for name, value in (("inputs", inputs), ("targets", targets)):
        if value.ndim != 2 or len(value) == 0 or not torch.isfinite(value).all():
            raise InputError(f"{name} must be finite and of shape (pairs, n), got {_described(value)}")
    if len(inputs) != len(targets):
        raise InputError(f"inputs and targets must pair up, got {len(inputs)} inputs and {len(targets)} targets")
    for name, parameter in model.named_parameters():
        if parameter.ndim < 1 or parameter.shape[0] != len(seeds):
            raise InputError(
                f"every parameter must have one entry for each of the {len(seeds)} seeds first, "
                f"but {name} has shape {tuple(parameter.shape)}"
            )


def _described(value: Tensor) -> str:
    finite = "finite" if torch.isfinite(value).all() else "not finite"
    return f"shape {tuple(value.shape)}, {finite}"
