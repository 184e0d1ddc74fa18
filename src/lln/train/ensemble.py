"""Many seeds of one configuration trained in one pass, each exactly as it would be trained alone.

The model holds S members with stacked parameters, S first in each of them. Member s visits the pairs in the order of
its own seed, has its own loss and its own gradient norm; nothing passes between members, so that one that turns
into NaN leaves the others alone. Only the rounding of batched sums differs from S runs of `fit`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lln.core.errors import InputError
from lln.core.seeding import subseed
from lln.train.config import TrainConfig
from lln.train.fit import make_optimizer


@dataclass(frozen=True, eq=False)
class EnsembleHistory:
    """How training went.

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

    Args:
        model: S members in one module, (S, B, n_in) -> (S, B, n_out); every parameter has S as its first dimension.
        inputs: (pairs, n_in), shared by all members.
        targets: (pairs, n_out), likewise.
        config: the recipe; its own seed is not used.
        seeds: S of them; member s visits the pairs as `fit` would with ``config.seed = seeds[s]``.
    """
    _check(model, inputs, targets, seeds)
    began, was_training = time.perf_counter(), model.training
    optimizer = make_optimizer(model, config)
    orders = [torch.Generator().manual_seed(subseed(seed, "batches")) for seed in seeds]
    updates = config.epochs * -(-len(inputs) // config.batch_size)
    losses: list[Tensor] = []
    done = 0
    model.train()
    try:
        for _ in range(config.epochs):
            total = torch.zeros(len(seeds), dtype=torch.float64, device=inputs.device)
            for batch in _batches(len(inputs), config.batch_size, orders):
                chosen = batch.to(inputs.device)
                rate = config.rate(done, updates)
                loss = update_ensemble(model, optimizer, inputs[chosen], targets[chosen], rate, config.clip)
                total += loss.double() * batch.shape[1]
                done += 1
            losses.append(total / len(inputs))
    finally:
        model.train(was_training)
    return EnsembleHistory(torch.stack(losses).cpu().numpy(), done, time.perf_counter() - began)


def update_ensemble(
    model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor, y: Tensor, rate: float, clip: float | None
) -> Tensor:
    """One optimizer step on one batch for each member; returns the members' losses before it, (S,)."""
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.zero_grad()
    # No parameter is shared, so the gradient of the sum is every member's gradient of its own loss.
    loss: Tensor = (model(x) - y).square().mean(dim=(1, 2))
    loss.sum().backward()
    if clip is not None:
        clip_by_member([p.grad for p in model.parameters() if p.grad is not None], clip)
    optimizer.step()
    return loss.detach()


def clip_by_member(gradients: Sequence[Tensor], clip: float) -> None:
    """Scale the gradients in place so that no member's whole norm exceeds `clip`, as `clip_grad_norm_` does for one."""
    parts = [torch.linalg.vector_norm(gradient.flatten(1), dim=1) for gradient in gradients]
    norms = torch.linalg.vector_norm(torch.stack(parts), dim=0)
    factors = (clip / (norms + 1e-6)).clamp(max=1.0)
    if bool((factors == 1.0).all()):  # a pass over all gradients saved; NaN is not 1
        return
    for gradient in gradients:
        gradient.mul_(factors.view(-1, *[1] * (gradient.ndim - 1)))


def _batches(pairs: int, size: int, orders: Sequence[torch.Generator]) -> Iterator[Tensor]:
    """The indices of one epoch's batches, (S, B) each."""
    permutations = torch.stack([torch.randperm(pairs, generator=order) for order in orders])
    yield from torch.split(permutations, size, dim=1)


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


def _described(value: Any) -> str:
    finite = "finite" if torch.isfinite(value).all() else "not finite"
    return f"shape {tuple(value.shape)}, {finite}"
