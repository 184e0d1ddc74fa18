"""Losses over several steps, with gradients through the rollout, and the batches that they need.

A state is any tensor: rows of numbers, fields, in any units. A step is a function of the last H states and of known
inputs that returns the next state; the model behind it is trained.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from lln.core.errors import InputError, check_int, finite
from lln.core.seeding import subseed
from lln.train.batches import Order
from lln.train.loop import Loss

StepFunction = Callable[[Sequence[Tensor], Tensor | None], Tensor]
"""H states, oldest first, and the inputs of the present or None -> the next state."""


class Examples(Protocol):
    """A tensor, or an object that reads its rows on request."""

    @property
    def shape(self) -> Sequence[int]:
        """(P, rows of one example, ...)."""

    def __getitem__(self, chosen: Tensor, /) -> Tensor:
        """The examples with these numbers, (B, ...)."""


@dataclass(frozen=True)
class Unroll:
    """Length of the rollouts that are trained, and noise at their start.

    Attributes:
        steps: length of each rollout.
        noise: standard deviation of the noise on the first states, in the units of the states. Targets stay clean, so
            that the model learns to correct small errors.
        cut: whether gradients stop between steps, so that a step is not held responsible for later ones.
    """

    steps: int = 4
    noise: float = 0.0
    cut: bool = False

    def __post_init__(self) -> None:
        """Check the numbers."""
        check_int("steps", self.steps, 1)
        if finite("noise", self.noise) < 0:
            raise InputError(f"noise must not be negative, got {self.noise}")


def rolled_out(
    step: StepFunction, past: Sequence[Tensor], steps: int, inputs: Sequence[Tensor] | None = None, *, cut: bool = False
) -> list[Tensor]:
    """The states after `past`, with gradients; `inputs` holds those of every step."""
    window, states = list(past), []
    for k in range(steps):
        after = step(window, None if inputs is None else inputs[k])
        states.append(after)
        window = [*window[1:], after.detach() if cut else after]
    return states


def unrolled_loss(
    step: StepFunction,
    history: int,
    unroll: Unroll,
    *,
    scale: Tensor | float = 1.0,
    members: bool = False,
    growing: bool = False,
) -> Loss:
    """The mean squared error of rollouts as a function of a batch.

    The batch is: states (B, H + steps, ...), inputs (B, steps, m) or None, weights (B,) or None; with `members` all of
    them have the members first, and the loss is (S,).

    Args:
        step: one step of the model.
        history: number of states H that a rollout starts from.
        unroll: length of the rollouts.
        scale: unit of an error; broadcasts against a state.
        members: whether the first dimension counts the members of an ensemble.
        growing: whether the unit of an error grows with the number of steps, as errors of one sign do.
    """
    axis = 2 if members else 1

    def loss(rows: Tensor, inputs: Tensor | None, weights: Tensor | None) -> Tensor:
        states = rows.unbind(axis)
        known = None if inputs is None else inputs.unbind(axis)
        total = torch.zeros((), dtype=rows.dtype, device=rows.device)
        for k, after in enumerate(rolled_out(step, states[:history], unroll.steps, known, cut=unroll.cut)):
            error = (after - states[history + k]) / (scale * (k + 1) if growing else scale)
            total = total + error.square().flatten(axis).mean(dim=axis)
        each = total / unroll.steps
        if weights is None:
            return each.mean(dim=-1)
        return (each * weights).sum(dim=-1) / weights.sum(dim=-1)

    return loss


class UnrolledBatches:
    """Batches of examples for `unrolled_loss`.

    Args:
        examples: (P, H + steps, ...): H states to start from and the states that follow.
        history: number of states H.
        unroll: steps and noise.
        size: examples in one batch.
        seeds: of orders and noise, one for each member.
        members: whether a batch has the members first; otherwise there is one seed.
        inputs: (P, steps, m).
        weights: (P,).
        device: where batches are needed.
    """

    def __init__(
        self,
        examples: Examples,
        history: int,
        unroll: Unroll,
        size: int,
        seeds: Sequence[int],
        *,
        members: bool = False,
        inputs: Examples | None = None,
        weights: Tensor | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        if examples.shape[1] != history + unroll.steps:
            raise InputError(
                f"examples must hold {history} + {unroll.steps} states each, {history} to start from and "
                f"{unroll.steps} to reach, got {examples.shape[1]}"
            )
        self.examples, self.inputs, self.weights = examples, inputs, weights
        self.history, self.noise, self.seeds, self.members = history, unroll.noise, tuple(seeds), members
        self.order = Order(examples.shape[0], size, seeds, device)

    @property
    def each(self) -> int:
        """Updates in one epoch."""
        return self.order.each

    def __call__(self, update: int) -> list[Tensor | None]:
        """States, inputs and weights of update number `update`."""
        chosen = self.order(update)
        rows = self.examples[chosen.flatten()].unflatten(0, chosen.shape)
        if self.noise:
            start = rows[:, :, : self.history]
            noisy = torch.stack(
                [part + self.noise * self._draw(part, seed, update) for part, seed in self._each(start)]
            )
            rows = torch.cat((noisy, rows[:, :, self.history :]), dim=2)
        known = None if self.inputs is None else self.inputs[chosen.flatten()].unflatten(0, chosen.shape)
        weights = None if self.weights is None else self.weights[chosen]
        batch = [rows, known, weights]
        return batch if self.members else [None if one is None else one[0] for one in batch]

    def _each(self, start: Tensor) -> list[tuple[Tensor, int]]:
        return list(zip(start, self.seeds, strict=True))

    def _draw(self, like: Tensor, seed: int, update: int) -> Tensor:
        generator = torch.Generator(like.device).manual_seed(subseed(seed, "noise", update))
        return torch.randn(like.shape, generator=generator, dtype=like.dtype, device=like.device)


@dataclass(frozen=True, eq=False)
class Stretches:
    """Runs of consecutive pairs in memory, from which every member of an ensemble draws its own.

    Attributes:
        window: the states before each pair, (P, H, n).
        after: the state that follows each, (P, n).
        inputs: known inputs of each pair, (P, m), or None.
        first: pairs from which a run of `steps` continues without a gap.
        steps: length of a run.
    """

    window: Tensor
    after: Tensor
    inputs: Tensor | None
    first: Tensor
    steps: int

    def batch(self, update: int, size: int, seeds: Sequence[int]) -> list[Tensor | None]:
        """States (S, B, H + steps, n), inputs (S, B, steps, m) and no weights, drawn from seed and update."""
        rows = []
        for seed in seeds:
            generator = torch.Generator().manual_seed(subseed(seed, "stretch", update))
            rows.append(torch.randint(len(self.first), (size,), generator=generator))
        chosen = self.first[torch.stack(rows).to(self.first.device)]
        run = chosen.unsqueeze(-1) + torch.arange(self.steps, device=chosen.device)
        states = torch.cat((self.window[chosen], self.after[run]), dim=2)
        return [states, None if self.inputs is None else self.inputs[run], None]
