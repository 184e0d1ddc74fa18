"""Lens networks on a grid whose rays see only a neighbourhood: rays never mix, so a local ray stays local."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lln.models import LensEnsemble, LensNetwork

Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class LocalityMask:
    """Which weights of a lens network may differ from zero.

    Attributes:
        embedding: features that each ray sees, (h, F).
        readout: rays that each output uses, (n, h).
    """

    embedding: Mask
    readout: Mask

    @property
    def entries(self) -> int:
        """Weights that may differ from zero, of both embeddings and the readout."""
        return int(2 * self.embedding.sum() + self.readout.sum())

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


def gradient_mask(model: nn.Module, mask: LocalityMask | None) -> Callable[[], None] | None:
    """A function that zeroes the gradients of masked weights, for after each backward pass; Adam leaves zeros alone.

    Args:
        model: the ensemble.
        mask: None for a network that sees everything; then there is nothing to do, and None is returned.
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
