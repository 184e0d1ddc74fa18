"""Training over several steps, with gradients through the rollout; noise at its start; resumable between epochs.

Nothing here knows what a state is: a row of numbers, a field, in any units. A step is a function of the last H states
(and of known inputs) that returns the next state; the model behind it is trained.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from lln.core.checks import finite, whole
from lln.core.errors import InputError
from lln.core.seeding import subseed
from lln.train.checkpoint import restore_training, training_state
from lln.train.config import TrainConfig
from lln.train.fit import Epoch, History, Progress, make_optimizer

Step = Callable[[Tensor, Tensor | None], Tensor]
"""(B, H, ...) states, oldest first, and (B, m) inputs or None -> the next state (B, ...)."""

Loss = Callable[[Tensor, int], Tensor]
"""Indices (B,) of examples and the number of the update -> a scalar."""


class Examples(Protocol):
    """A tensor, or what reads its rows when they are asked for."""

    @property
    def shape(self) -> Sequence[int]:
        """(P, rows of one example, ...)."""

    def __getitem__(self, chosen: Tensor, /) -> Tensor:
        """The examples with these numbers, (B, ...)."""


@dataclass(frozen=True)
class Unroll:
    """How far and how a rollout is trained.

    Attributes:
        steps: how many steps each example is rolled out.
        noise: standard deviation of what is added to the states an example starts from, in the units of the states.
            The targets stay clean, so that the model learns to come back.
        cut: whether gradients stop between steps, so that every step is judged from where the rollout got to, but not
            made to answer for later ones.
    """

    steps: int = 4
    noise: float = 0.0
    cut: bool = False

    def __post_init__(self) -> None:
        """Check the numbers."""
        whole("steps", self.steps, 1)
        if finite("noise", self.noise) < 0:
            raise InputError(f"noise must not be negative, got {self.noise}")


def rolled_out(step: Step, window: Tensor, steps: int, inputs: Tensor | None = None, *, cut: bool = False) -> Tensor:
    """The states after windows (B, H, ...), (B, steps, ...), with gradients; inputs are (B, steps, m)."""
    states = []
    for k in range(steps):
        after = step(window, None if inputs is None else inputs[:, k])
        states.append(after)
        kept = after.detach() if cut else after
        window = torch.cat((window[:, 1:], kept.unsqueeze(1)), dim=1)
    return torch.stack(states, dim=1)


def unrolled_loss(
    step: Step,
    examples: Examples,
    history: int,
    unroll: Unroll,
    *,
    inputs: Examples | None = None,
    weights: Tensor | None = None,
    scale: Tensor | float = 1.0,
    seed: int = 0,
) -> Loss:
    """The mean squared error of rollouts over `unroll.steps` steps, as a function of which examples.

    Args:
        step: one step of the model.
        examples: (P, H + steps, ...): H states to start from and the states that should follow.
        history: H.
        unroll: steps and noise.
        inputs: (P, steps, m).
        weights: (P,): how much each example counts.
        scale: what an error is measured in; broadcasts against a state.
        seed: of the noise.
    """
    if examples.shape[1] != history + unroll.steps:
        raise InputError(
            f"examples must hold {history} + {unroll.steps} states each, {history} to start from and "
            f"{unroll.steps} to reach, got {examples.shape[1]}"
        )

    def loss(chosen: Tensor, update: int) -> Tensor:
        rows = examples[chosen]
        window, truth = rows[:, :history], rows[:, history:]
        if unroll.noise:
            generator = torch.Generator().manual_seed(subseed(seed, "noise", update))
            draw = torch.randn(window.shape, generator=generator, dtype=window.dtype)
            window = window + unroll.noise * draw.to(window.device)
        known = None if inputs is None else inputs[chosen]
        errors = (rolled_out(step, window, unroll.steps, known, cut=unroll.cut) - truth) / scale
        each = errors.square().flatten(1).mean(dim=1)
        if weights is None:
            return each.mean()
        share = weights[chosen]
        return (each * share).sum() / share.sum()

    return loss


class Training:
    """Minibatch training by any loss, a few updates at a time, that can stop and go on to the same result.

    Orders and noise depend on the seed and on the number of the epoch or update alone, so that parameters and
    optimizer are all there is to keep.

    Args:
        model: what is trained.
        loss: see `Loss`.
        examples: how many.
        config: the recipe.
        updates: how many there shall be in all; None takes the recipe's epochs.
    """

    def __init__(
        self, model: nn.Module, loss: Loss, examples: int, config: TrainConfig, updates: int | None = None
    ) -> None:
        self.model, self.loss, self.config = model, loss, config
        self.examples = whole("examples", examples, 1)
        self.updates = config.epochs * self.batches if updates is None else whole("updates", updates, 1)
        self.optimizer = make_optimizer(model, config)
        self.done = 0
        self._order: tuple[int, Tensor] | None = None

    @property
    def batches(self) -> int:
        """Updates in one epoch."""
        return -(-self.examples // self.config.batch_size)

    @property
    def finished(self) -> bool:
        """Whether all updates are made."""
        return self.done >= self.updates

    def run(self, count: int) -> float:
        """Make `count` updates, or what is left of them; the mean loss, each example as it was seen."""
        device = next(self.model.parameters()).device
        total, seen = torch.zeros((), dtype=torch.float64, device=device), 0
        was_training = self.model.training
        self.model.train()
        try:
            for _ in range(min(count, self.updates - self.done)):
                chosen = self._chosen().to(device)
                total += self._update(chosen).double() * len(chosen)
                seen += len(chosen)
        finally:
            self.model.train(was_training)
        return total.item() / seen if seen else 0.0

    def _chosen(self) -> Tensor:
        epoch, index = divmod(self.done, self.batches)
        if self._order is None or self._order[0] != epoch:
            generator = torch.Generator().manual_seed(subseed(self.config.seed, "order", epoch))
            self._order = (epoch, torch.randperm(self.examples, generator=generator))
        size = self.config.batch_size
        return self._order[1][index * size : (index + 1) * size]

    def _update(self, chosen: Tensor) -> Tensor:
        for group in self.optimizer.param_groups:
            group["lr"] = self.config.rate(self.done, self.updates)
        self.optimizer.zero_grad()
        loss = self.loss(chosen, self.done)
        loss.backward()
        if self.config.clip is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip)
        self.optimizer.step()
        self.done += 1
        return loss.detach()

    def state(self) -> tuple[dict[str, int], dict[str, Tensor]]:
        """Everything that going on needs: plain values, and tensors by name."""
        return {"done": self.done, "updates": self.updates}, training_state(self.model, self.optimizer)

    def restore(self, values: Mapping[str, int], tensors: Mapping[str, Tensor]) -> None:
        """Go on from what `state` returned."""
        restore_training(self.model, self.optimizer, tensors)
        self.done, self.updates = int(values["done"]), int(values["updates"])


def fit_unrolled(
    model: nn.Module,
    step: Step,
    examples: Tensor,
    config: TrainConfig,
    unroll: Unroll,
    *,
    history: int = 1,
    inputs: Tensor | None = None,
    weights: Tensor | None = None,
    scale: Tensor | float = 1.0,
    progress: Progress | None = None,
) -> History:
    """Train `model` in place so that rollouts of `step` follow the examples.

    Args:
        model: whose parameters are trained.
        step: one step, which uses the model.
        examples: (P, H + steps, ...), finite.
        config: the recipe.
        unroll: steps and noise.
        history: H.
        inputs: (P, steps, m).
        weights: (P,).
        scale: what an error is measured in.
        progress: called after every epoch; returning False ends training there.
    """
    if not torch.isfinite(examples).all():
        row = int(torch.nonzero(~torch.isfinite(examples))[0, 0])
        raise InputError(f"examples must be finite, but example {row} holds NaN or infinity; leave it out")
    loss = unrolled_loss(step, examples, history, unroll, inputs=inputs, weights=weights, scale=scale, seed=config.seed)
    training, began, losses = Training(model, loss, len(examples), config), time.perf_counter(), []
    for number in range(1, config.epochs + 1):
        losses.append(training.run(training.batches))
        rate = config.rate(training.done - 1, training.updates)
        report = Epoch(number, config.epochs, losses[-1], rate, time.perf_counter() - began)
        if progress is not None and progress(report) is False:
            break
    seconds = time.perf_counter() - began
    return History(tuple(losses), training.done, seconds, not training.finished)
