"""One optimizer step; on a GPU it is captured once and replayed, since launching its kernels takes longest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lln.train import distributed

Batch = Sequence[Tensor | None]
Loss = Callable[..., Tensor]
"""The tensors of a batch -> the loss: a scalar, or one value for each member of an ensemble, (S,)."""

_EAGER = 3  # steps before a capture, in which kernels compile and the optimizer allocates its state


@dataclass(frozen=True)
class UpdateOptions:
    """How gradients become a step.

    Attributes:
        optimizer: "adam", whose weight decay adds to the gradient, or "adamw", whose weight decay shrinks weights.
        weight_decay: its strength.
        clip: largest norm of the gradient, of each member alone in an ensemble; None leaves it as it is.
        members: whether the model is an ensemble, with the members first in every parameter and in every batch.
        mask: called after each backward pass, for example to zero gradients of weights that stay zero.
        parallel: whether gradients are averaged over the processes of torchrun.
    """

    optimizer: str = "adam"
    weight_decay: float = 0.0
    clip: float | None = None
    members: bool = False
    mask: Callable[[], None] | None = None
    parallel: bool = False


class Update:
    """One optimizer step on one batch.

    Args:
        model: the module that is trained.
        loss: of a batch; it must use `model`.
        options: optimizer, clipping and masks.
    """

    def __init__(self, model: nn.Module, loss: Loss, options: UpdateOptions) -> None:
        self.model, self.loss, self.options = model, loss, options
        self.optimizer = self._optimizer(1e-3)

    def __call__(self, batch: Batch, rate: float) -> Tensor:
        """One step at this learning rate; returns the loss before it, detached."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.zero_grad()
        return self._step(batch)

    def _step(self, batch: Batch) -> Tensor:
        loss = self._backward(batch)
        if self.options.clip is not None:
            self._clip(self.options.clip)
        self.optimizer.step()
        return loss

    def _optimizer(self, rate: float | Tensor, *, capturable: bool = False) -> torch.optim.Optimizer:
        kind = torch.optim.AdamW if self.options.optimizer == "adamw" else torch.optim.Adam
        # Fused: a deep network of small layers would otherwise spend as long here as on its gradients.
        decay = self.options.weight_decay
        return kind(self.model.parameters(), lr=rate, weight_decay=decay, capturable=capturable, fused=True)

    def _backward(self, batch: Batch) -> Tensor:
        loss = self.loss(*batch)
        # Members share no parameter, so the gradient of the sum is every member's gradient of its own loss.
        loss.sum().backward()
        if self.options.mask is not None:
            self.options.mask()
        loss = loss.detach()
        if self.options.parallel:
            distributed.average([loss, *self._gradients()])
        return loss

    def _clip(self, limit: float) -> None:
        if self.options.members:
            clip_by_member(self._gradients(), limit)
        else:
            nn.utils.clip_grad_norm_(self.model.parameters(), limit)

    def _gradients(self) -> list[Tensor]:
        return [parameter.grad for parameter in self.model.parameters() if parameter.grad is not None]


class CapturedUpdate(Update):
    """The same step on a GPU: after a few eager steps it is one CUDA graph."""

    def __init__(self, model: nn.Module, loss: Loss, options: UpdateOptions) -> None:
        super().__init__(model, loss, options)
        self.rate = torch.tensor(1e-3, device=next(model.parameters()).device)
        self.optimizer = self._optimizer(self.rate, capturable=True)
        self.done = 0
        self.given: list[Tensor | None] = []
        self.graph: torch.cuda.CUDAGraph | None = None
        self.captured = torch.zeros(())

    def __call__(self, batch: Batch, rate: float) -> Tensor:
        """One step at this learning rate; returns the loss before it, detached."""
        self.rate.fill_(rate)
        self.done += 1
        if self.graph is not None and _alike(batch, self.given):
            for held, fresh in zip(self.given, batch, strict=True):
                if held is not None and fresh is not None:
                    held.copy_(fresh)
            self.graph.replay()
            return self.captured.clone()
        if self.graph is not None or self.done <= _EAGER:
            return self._aside(batch)
        self.given = [None if tensor is None else tensor.clone() for tensor in batch]
        self.optimizer.zero_grad(set_to_none=True)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.captured = self._step(self.given)
        self.graph.replay()  # a capture alone runs nothing
        return self.captured.clone()

    def _aside(self, batch: Batch) -> Tensor:
        """One eager step on a side stream, as a capture requires of the steps before it."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self.optimizer.zero_grad(set_to_none=True)
            loss = self._step(batch)
        torch.cuda.current_stream().wait_stream(stream)
        return loss

    def _clip(self, limit: float) -> None:
        """As `Update`, but on one row for each member: few kernels instead of three for each tensor."""
        gradients, members = self._gradients(), self.options.members
        row = torch.cat([g.flatten(1) if members else g.view(1, -1) for g in gradients], dim=1)
        row *= (limit / (torch.linalg.vector_norm(row, dim=1, keepdim=True) + 1e-6)).clamp(max=1.0)
        parts = row.split([g[0].numel() if members else g.numel() for g in gradients], dim=1)
        torch._foreach_copy_(gradients, [part.view_as(g) for part, g in zip(parts, gradients, strict=True)])


def make_update(model: nn.Module, loss: Loss, options: UpdateOptions) -> Update:
    """The captured update where the model is on a GPU, the eager one elsewhere."""
    captures = next(model.parameters()).is_cuda and not (options.parallel and distributed.processes() > 1)
    return CapturedUpdate(model, loss, options) if captures else Update(model, loss, options)


def clip_by_member(gradients: Sequence[Tensor], clip: float) -> None:
    """Scale the gradients in place so that no member's whole norm exceeds `clip`, as `clip_grad_norm_` does for one."""
    parts = [torch.linalg.vector_norm(gradient.flatten(1), dim=1) for gradient in gradients]
    norms = torch.linalg.vector_norm(torch.stack(parts), dim=0)
    factors = (clip / (norms + 1e-6)).clamp(max=1.0)
    if bool((factors == 1.0).all()):  # saves a pass over all gradients; NaN is not 1
        return
    for gradient in gradients:
        gradient.mul_(factors.view(-1, *[1] * (gradient.ndim - 1)))


def _alike(batch: Batch, given: Batch) -> bool:
    return all(
        (a is None and b is None) or (a is not None and b is not None and a.shape == b.shape)
        for a, b in zip(batch, given, strict=True)
    )
