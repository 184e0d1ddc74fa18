"""Ensembles of one shape: how they are made, trained in one pass, and joined.

Member s visits the pairs in the order of its own seed and has its own loss and its own gradient norm. Nothing passes
between members: one that turns into NaN leaves the others alone. On a grid rays may see a neighbourhood only; rays
never mix, so a local ray stays local. With the layers before it fixed, the readout is a least-squares problem.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lln.core.errors import InputError
from lln.models import LensEnsemble, LensNetwork, build
from lln.models.base import StateNetwork
from lln.models.factory import Ensemble, GenericEnsemble, stack, with_values
from lln.train.batches import Batches, EpochBatches, subseed
from lln.train.fit import TrainConfig, options_of, schedule_of
from lln.train.loop import Checkpoint, Progress, Schedule, State, Trainer, UpdateOptions, one_thread

Mask = NDArray[np.bool_]

CLIP = 1.0
_CHUNK = 4096
_ALONE = 256  # rays up to which one thread finds eigenvectors as fast as several, and rounds the same for any number


@dataclass(frozen=True, eq=False)
class LocalityMask:
    """Which weights of a lens network may differ from zero."""

    embedding: Mask  #: features that each ray sees, (h, F).
    readout: Mask  #: rays that each output uses, (n, h).

    def apply(self, network: LensNetwork) -> None:
        """Zero the other weights in place, and scale the rest so that the spread of rays and outputs stays."""
        seen, used = torch.from_numpy(self.embedding), torch.from_numpy(self.readout)
        more = (seen.shape[1] / seen.sum(dim=1, keepdim=True)).sqrt().float()
        stronger = (used.shape[1] / used.sum(dim=1, keepdim=True)).sqrt().float()
        with torch.no_grad():
            for layer in (network.embed_position, network.embed_angle):
                if layer is not None:
                    layer.weight.mul_(seen * more)
                    layer.bias.mul_(more[:, 0])
            network.readout.weight.mul_(used * stronger)

    def outputs(self, device: torch.device | str) -> Tensor:
        """The mask of the readout as a tensor, (n, h)."""
        return torch.from_numpy(self.readout).to(device)


@dataclass(frozen=True, eq=False)
class Shape:
    """The networks of one ensemble."""

    model: str  #: name of the network.
    options: dict[str, Any]  #: of its constructor.
    n_in: int  #: number of features F.
    n_out: int  #: number of coordinates n.
    mask: LocalityMask | None = None  #: which weights may differ from zero; None for all.

    def parameters(self, network: StateNetwork) -> int:
        """Number of trainable values in one member."""
        count = sum(parameter.numel() for parameter in network.parameters())
        if self.mask is None:
            return count
        return count - int(2 * (~self.mask.embedding).sum() + (~self.mask.readout).sum())


@dataclass(frozen=True, eq=False)
class Trained:
    """An ensemble and its snapshots."""

    model: Ensemble  #: after the last update, in evaluation mode.
    snapshots: list[State]  #: parameters and buffers at each stop.
    updates: int  #: number of updates made.
    loss: list[float]  #: last loss of each member, (S,).
    stops: int  #: number of snapshots of this training; a fine-tuning may add others.


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

    The seeds are those of initial values and orders; a batch has `size` pairs.
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
    values = {name: torch.cat([state[name] for state in states]) for name in states[0]}
    whole = with_values(model, values, requires_grad=False)
    whole.size = model.size * len(states)
    return whole.eval()


@dataclass(frozen=True, eq=False)
class EnsembleHistory:
    """The course of a training."""

    losses: NDArray[np.float64]  #: mean squared error of each epoch and member, (epochs, S).
    updates: int  #: number of optimizer steps.


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
    for name, value in (("inputs", inputs), ("targets", targets)):
        if not torch.isfinite(value).all():
            raise InputError(
                f"{name} must be finite and of shape (pairs, n), got shape {tuple(value.shape)}, not finite"
            )
    batches = EpochBatches((inputs, targets), config.batch_size, seeds)

    def loss(x: Tensor, y: Tensor) -> Tensor:
        errors: Tensor = model(x) - y
        return errors.square().mean(dim=(1, 2))

    trainer = Trainer(model, batches, loss, schedule_of(config, batches.each), options_of(config, members=True))
    losses = torch.stack([trainer.advance(batches.each) for _ in range(config.epochs)])
    return EnsembleHistory(losses.cpu().numpy(), trainer.done)


def gradient_mask(model: nn.Module, mask: LocalityMask | None) -> Callable[[], None] | None:
    """A function that zeroes the gradients of masked weights, for after each backward pass; Adam leaves zeros alone.

    None where there is nothing to do, as for a network that sees everything.
    """
    if mask is None or not isinstance(model, LensEnsemble):
        return None
    parts = model.stacked()
    device = parts.position_weight.device
    seen = torch.from_numpy(mask.embedding).to(device, torch.float32)
    pairs = [(parts.position_weight, seen), (parts.readout_weight, mask.outputs(device).float())]
    if parts.angle_weight is not None:
        pairs.append((parts.angle_weight, seen))

    def zero() -> None:
        for parameter, factor in pairs:
            if parameter.grad is not None:
                parameter.grad.mul_(factor)

    return zero


class ReadoutFit:
    """Least squares of targets (P, n) on the last states of features (P, F), as sums that serve for any ridge.

    The model must be in evaluation mode. `allowed` says which rays each output may use, (n, h); None for all.
    """

    def __init__(
        self, model: Ensemble, features: Tensor, targets: Tensor, weights: Tensor | None, allowed: Tensor | None
    ) -> None:
        self.model, self.allowed = model, allowed
        total = len(features) if weights is None else float(weights.double().sum())
        moments: tuple[Tensor, Tensor, Tensor, Tensor] | None = None
        with torch.no_grad():
            for first in range(0, len(features), _CHUNK):
                rows = slice(first, first + _CHUNK)
                x = model.last_states(features[rows].expand(len(model), -1, -1)).double()
                y = targets[rows].double()
                share = (torch.ones_like(y[:, 0]) if weights is None else weights[rows].double()) / total
                heavy = x * share[:, None]
                part = (heavy.sum(1), share @ y, heavy.transpose(1, 2) @ x, heavy.transpose(1, 2) @ y)
                moments = part if moments is None else tuple(a + b for a, b in zip(moments, part, strict=True))  # type: ignore[assignment]
        assert moments is not None
        self.centre, self.value = moments[0], moments[1]
        # Shifted sums are enough here: positions are of order one, and the ridge lies far above what rounding loses.
        self.gram = moments[2] - self.centre[:, :, None] * self.centre[:, None, :]
        self.cross = moments[3] - self.centre[:, :, None] * self.value

    def solve(self, ridge: float) -> tuple[Tensor, Tensor]:
        """Weights (S, n, h) and biases (S, n) in float64; `ridge` is relative to the largest variance."""
        if self.allowed is None:
            weight = _ridge(self.gram, self.cross, ridge).transpose(1, 2)
        else:
            weight = torch.zeros(len(self.gram), len(self.allowed), self.gram.shape[1], dtype=torch.float64)
            weight = weight.to(self.gram.device)
            for output, mask in enumerate(self.allowed):
                near = mask.nonzero()[:, 0]
                found = _ridge(self.gram[:, near][:, :, near], self.cross[:, near, output : output + 1], ridge)
                weight[:, output, near] = found[:, :, 0]
        return weight, self.value - torch.einsum("snh,sh->sn", weight, self.centre)

    def apply(self, ridge: float) -> None:
        """Replace the readout of the model by the solution for this ridge."""
        set_readout(self.model, *self.solve(ridge))


def set_readout(model: Ensemble, weight: Tensor, bias: Tensor) -> None:
    """Replace every member's readout: (S, n, h) and (S, n)."""
    with torch.no_grad():
        if isinstance(model, LensEnsemble):
            parts = model.stacked()
            parts.readout_weight.copy_(weight)
            parts.readout_bias.copy_(bias)
        elif isinstance(model, GenericEnsemble):
            model.readout.weight.copy_(weight)
            model.readout.bias.copy_(bias)
        else:
            model.readout.weight.copy_(weight.transpose(1, 2))
            model.readout.bias.copy_(bias[:, None])


def _ridge(gram: Tensor, cross: Tensor, ridge: float) -> Tensor:
    with one_thread() if gram.shape[-1] <= _ALONE else nullcontext():
        values, vectors = torch.linalg.eigh(gram)
    values = values.clamp(min=0.0)
    floor = (ridge * values[:, -1:]).clamp(min=1e-300)
    found: Tensor = vectors @ ((vectors.transpose(1, 2) @ cross) / (values + floor)[:, :, None])
    return found
