"""One optimizer step of an ensemble; on a GPU captured once and replayed, since starting its kernels takes longest."""

from __future__ import annotations

import torch
from torch import Tensor

from lln.fit.members import Blinkers
from lln.fit.readout import Ensemble
from lln.train.ensemble import clip_by_member

CLIP = 1.0
_EAGER = 3  # steps before a capture, in which kernels compile and the optimizer makes its memory


class Step:
    """Adam on the mean squared error, every member on its own.

    Args:
        model: the ensemble.
        blinkers: keep local rays local.
    """

    def __init__(self, model: Ensemble, blinkers: Blinkers) -> None:
        self.model, self.blinkers = model, blinkers
        self.optimizer: torch.optim.Optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)

    def __call__(self, x: Tensor, y: Tensor, weights: Tensor | None, rate: float) -> Tensor:
        """One step on a batch (S, B, F); the members' losses before it, (S,)."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.zero_grad()
        loss = self._backward(x, y, weights)
        clip_by_member(self._gradients(), CLIP)
        self.optimizer.step()
        return loss

    def _backward(self, x: Tensor, y: Tensor, weights: Tensor | None) -> Tensor:
        errors = (self.model(x) - y).square().mean(dim=2)
        # No parameter is shared, so the gradient of the sum is every member's gradient of its own loss.
        loss: Tensor = (errors if weights is None else errors * weights).mean(dim=1)
        loss.sum().backward()
        self.blinkers()
        return loss.detach()

    def _gradients(self) -> list[Tensor]:
        return [parameter.grad for parameter in self.model.parameters() if parameter.grad is not None]


class CapturedStep(Step):
    """The same on a GPU: after a few steps the whole of it is one graph."""

    def __init__(self, model: Ensemble, blinkers: Blinkers) -> None:
        super().__init__(model, blinkers)
        self.rate = torch.tensor(1e-3, device=next(model.parameters()).device)
        self.optimizer = torch.optim.Adam(model.parameters(), lr=self.rate, capturable=True, fused=True)
        self.done = 0
        self.given: list[Tensor] = []
        self.graph: torch.cuda.CUDAGraph | None = None
        self.loss = torch.zeros(len(model), device=self.rate.device)

    def __call__(self, x: Tensor, y: Tensor, weights: Tensor | None, rate: float) -> Tensor:
        """One step on a batch (S, B, F); the members' losses before it, (S,)."""
        now = [x, y] if weights is None else [x, y, weights]
        self.rate.fill_(rate)
        self.done += 1
        if self.graph is not None and all(a.shape == b.shape for a, b in zip(now, self.given, strict=True)):
            for kept, fresh in zip(self.given, now, strict=True):
                kept.copy_(fresh)
            self.graph.replay()
            return self.loss.clone()
        if self.graph is not None or self.done <= _EAGER:
            return self._aside(now)
        self.given = [tensor.clone() for tensor in now]
        self.optimizer.zero_grad(set_to_none=True)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.loss = self._whole(self.given)
        self.graph.replay()  # capturing alone changes nothing
        return self.loss.clone()

    def _aside(self, now: list[Tensor]) -> Tensor:
        """One step without a graph, on a stream of its own, as capturing asks of what goes before it."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self.optimizer.zero_grad(set_to_none=True)
            loss = self._whole(now)
        torch.cuda.current_stream().wait_stream(stream)
        return loss

    def _whole(self, now: list[Tensor]) -> Tensor:
        loss = self._backward(now[0], now[1], now[2] if len(now) > 2 else None)
        gradients = self._gradients()
        # As `clip_by_member`, but side by side in one row for each member: few kernels instead of three a tensor.
        row = torch.cat([gradient.flatten(1) for gradient in gradients], dim=1)
        row *= (CLIP / (torch.linalg.vector_norm(row, dim=1, keepdim=True) + 1e-6)).clamp(max=1.0)
        parts = row.split([gradient[0].numel() for gradient in gradients], dim=1)
        torch._foreach_copy_(gradients, [part.view_as(g) for part, g in zip(parts, gradients, strict=True)])
        self.optimizer.step()
        return loss
