"""A network: random Fourier features and a few layers of sines on them."""

from typing import Any

import torch
from torch import Tensor, nn

from lln.models import StateNetwork
from lln.models.base import seeded_linear


class FourierNetwork(StateNetwork):
    """``z = sin(W x + b)``, then D times ``z <- z + sin(W_l z + b_l) / D``, then a linear readout.

    Args:
        n_in: size of the input's last dimension.
        n_out: size of the output's last dimension.
        width: hidden width.
        depth: number of repeated layers D.
        generator: source of the initial values.
    """

    def __init__(
        self, n_in: int, n_out: int, *, width: int = 32, depth: int = 2, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        self.n_in, self.n_out, self.width, self.depth = n_in, n_out, width, depth
        self.embedding = seeded_linear(n_in, width, generator)
        self.hidden = nn.ModuleList(seeded_linear(width, width, generator) for _ in range(depth))
        self.readout = seeded_linear(width, n_out, generator)

    def states(self, x: Tensor) -> list[Tensor]:
        """The state after the embedding and after every layer."""
        self._check(x)
        states = [torch.sin(self.embedding(x))]
        for layer in self.hidden:
            states.append(states[-1] + torch.sin(layer(states[-1])) / self.depth)
        return states

    def forward(self, x: Tensor) -> Tensor:
        """(..., n_in) -> (..., n_out)."""
        return self.readout(self.states(x)[-1])

    def config(self) -> dict[str, Any]:
        """The arguments that rebuild this network."""
        return {"n_in": self.n_in, "n_out": self.n_out, "width": self.width, "depth": self.depth}
