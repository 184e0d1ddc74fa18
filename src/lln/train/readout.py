"""The readout of an ensemble in closed form: with the layers before it fixed, it is a least-squares problem."""

from __future__ import annotations

from contextlib import nullcontext

import torch
from torch import Tensor

from lln.models.stacked import Ensemble, GenericEnsemble, LensEnsemble
from lln.train.loop import one_thread

_CHUNK = 4096
_ALONE = 256  # rays up to which one thread finds eigenvectors as fast as several, and rounds the same for any number


class ReadoutFit:
    """Least squares of targets on the last states, stored as sums so that it can be solved for any ridge.

    Args:
        model: the ensemble; it must be in evaluation mode.
        features: (P, F).
        targets: (P, n).
        weights: (P,), or None.
        allowed: which rays each output may use, (n, h); None for all.
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
