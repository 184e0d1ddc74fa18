"""The paper's training loop: whole epochs of large batches in the order that PyTorch's `DataLoader` draws them.

The order is part of the protocol. A script that calls ``torch.manual_seed(seed)``, builds the network and iterates over
``DataLoader(pairs, batch_size=1024, shuffle=True)`` draws two numbers from the same generator in each epoch: a base
seed for workers, and the seed of the permutation. With this order and no other, the Lorenz-24 rows of the all-depth
table come out in every printed digit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from lln.train.fit import Recipe
from lln.train.loop import clip_by_member


class TrainingRecipe(Recipe):
    """How a network is trained."""

    batch_size: int = Field(default=1024, ge=1)
    #: "constant", or "cosine-to-tenth": half a cosine from `learning_rate` to a tenth of it, stepped once an epoch.
    schedule: Literal["constant", "cosine-to-tenth"] = "constant"

    def rate(self, epoch: int) -> float:
        """Learning rate of epoch number `epoch`, from 0."""
        if self.schedule == "constant":
            return self.learning_rate
        return self.learning_rate * (0.1 + 0.45 * (1.0 + math.cos(math.pi * epoch / self.epochs)))


def loader_order(pairs: int, generator: torch.Generator) -> Tensor:
    """The permutation of one epoch, (pairs,), as `DataLoader(shuffle=True)` draws it from the global generator.

    `generator` is in the state in which building the network, or the epoch before, left it.
    """
    torch.empty((), dtype=torch.int64).random_(generator=generator)  # the base seed of the loader's workers
    seed = int(torch.empty((), dtype=torch.int64).random_(generator=generator).item())
    return torch.randperm(pairs, generator=torch.Generator().manual_seed(seed))


def train_members(
    model: nn.Module, inputs: Tensor, targets: Tensor, recipe: TrainingRecipe, generators: Sequence[torch.Generator]
) -> Tensor:
    """Train the members of `model` in place to map `inputs` to `targets` by the mean squared error.

    Members share nothing: each has its own order, loss and gradient norm, so that all seeds of a row train in one pass.

    The model holds S of them, (S, B, n) -> (S, B, n), and every parameter has S as its first dimension; inputs and
    targets, (pairs, n), are shared by all. `generators` are those that drew each member's initial values. Returns the
    mean loss of each member in the last epoch, (S,).
    """
    kind = torch.optim.AdamW if recipe.optimizer == "adamw" else torch.optim.Adam
    optimizer = kind(model.parameters(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay)
    total = torch.zeros(len(generators), dtype=torch.float64)
    model.train()
    for epoch in range(recipe.epochs):
        total.zero_()
        for group in optimizer.param_groups:
            group["lr"] = recipe.rate(epoch)
        order = torch.stack([loader_order(len(inputs), one) for one in generators])
        for batch in torch.split(order, recipe.batch_size, dim=1):  # (S, B)
            optimizer.zero_grad()
            # No parameter is shared, so the gradient of the sum is every member's gradient of its own loss.
            loss = (model(inputs[batch]) - targets[batch]).square().mean(dim=(1, 2))
            loss.sum().backward()
            if recipe.clip is not None:
                clip_by_member([p.grad for p in model.parameters() if p.grad is not None], recipe.clip)
            optimizer.step()
            total += loss.detach().double() * batch.shape[1]
    model.eval()
    return total / len(inputs)
