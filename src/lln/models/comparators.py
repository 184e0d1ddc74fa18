"""The comparators of the paper: a plain ReLU network, and residual ones, which differ in what a layer adds."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from lln.core.errors import check_int, finite
from lln.models.base import StateNetwork, seeded_linear


class PlainMLP(StateNetwork):
    """``z_0 = relu(W x + b)``, then D times ``z <- relu(W_l z + b_l)``, then a linear readout.

    Args:
        n_in: size of the input's last dimension.
        n_out: size of the output's last dimension.
        width: hidden width h.
        depth: number of hidden layers D behind the embedding.
        generator: source of the initial values, on the CPU; None takes torch's global one.
    """

    def __init__(
        self, n_in: int, n_out: int, *, width: int = 128, depth: int = 40, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        self.n_in, self.n_out = check_int("n_in", n_in, 1), check_int("n_out", n_out, 1)
        self.width, self.depth = check_int("width", width, 1), check_int("depth", depth, 1)
        self.embedding = seeded_linear(self.n_in, self.width, generator)
        self.hidden = nn.ModuleList(seeded_linear(self.width, self.width, generator) for _ in range(self.depth))
        self.readout = seeded_linear(self.width, self.n_out, generator)

    def layer(self, index: int, z: Tensor) -> Tensor:
        """The state after hidden layer `index`, (..., h) -> (..., h)."""
        return torch.relu(self.hidden[index](z))

    def states(self, x: Tensor) -> list[Tensor]:
        """Every z_l, l = 0..D."""
        self._check(x)
        states = [torch.relu(self.embedding(x))]
        for index in range(self.depth):
            states.append(self.layer(index, states[-1]))
        return states

    def forward(self, x: Tensor) -> Tensor:
        """(..., n_in) -> (..., n_out)."""
        self._check(x)
        z = torch.relu(self.embedding(x))
        for index in range(self.depth):
            z = self.layer(index, z)
        out: Tensor = self.readout(z)
        return out

    def config(self) -> dict[str, Any]:
        """The arguments that rebuild this network."""
        return {"n_in": self.n_in, "n_out": self.n_out, "width": self.width, "depth": self.depth}


class ResidualMLP(PlainMLP):
    """``z <- z + relu(W_l z + b_l)``."""

    def branch(self, index: int, z: Tensor) -> Tensor:
        """What layer `index` adds to the state."""
        return torch.relu(self.hidden[index](z))

    def layer(self, index: int, z: Tensor) -> Tensor:
        """The state after residual layer `index`."""
        return z + self.branch(index, z)


class ScaledResidualMLP(ResidualMLP):
    """``z <- z + relu(W_l z + b_l) / sqrt(D)``."""

    def branch(self, index: int, z: Tensor) -> Tensor:
        """What layer `index` adds to the state."""
        return super().branch(index, z) * (1.0 / math.sqrt(self.depth))


class ResidualBatchNormMLP(ResidualMLP):
    """``z <- z + relu(BatchNorm(W_l z + b_l))``, with an affine normalisation."""

    def __init__(
        self, n_in: int, n_out: int, *, width: int = 128, depth: int = 40, generator: torch.Generator | None = None
    ) -> None:
        super().__init__(n_in, n_out, width=width, depth=depth, generator=generator)
        self.norms = nn.ModuleList(nn.BatchNorm1d(self.width) for _ in range(self.depth))

    def branch(self, index: int, z: Tensor) -> Tensor:
        """What layer `index` adds to the state; every leading dimension counts as batch."""
        rows = self.hidden[index](z).reshape(-1, self.width)
        return torch.relu(self.norms[index](rows)).reshape(z.shape)


class LayerScaleMLP(ResidualMLP):
    """``z <- z + gamma_l * relu(W_l z + b_l)``, gamma_l learned for each coordinate, starting at `initial_scale`."""

    def __init__(
        self,
        n_in: int,
        n_out: int,
        *,
        width: int = 128,
        depth: int = 40,
        initial_scale: float = 1e-2,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(n_in, n_out, width=width, depth=depth, generator=generator)
        self.initial_scale = finite("initial_scale", initial_scale)
        self.gamma = nn.Parameter(torch.full((self.depth, self.width), self.initial_scale))

    def branch(self, index: int, z: Tensor) -> Tensor:
        """What layer `index` adds to the state."""
        return self.gamma[index] * super().branch(index, z)

    def config(self) -> dict[str, Any]:
        """The arguments that rebuild this network."""
        return {**super().config(), "initial_scale": self.initial_scale}
