"""Who is trained: our field networks, and APEBench's own residual and plain convolutional networks in torch."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

try:
    import lln  # noqa: F401
except ImportError:  # a machine with torch alone: take the checkout
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

from lln.models.base import seeded_linear
from lln.models.convolution import convolve, sides
from lln.models.field import FieldLensNetwork


class Convolution(nn.Module):
    """A periodic convolution, channels last, with the initial values that pdequinox and torch share."""

    def __init__(self, channels: int, out: int, kernel: int, axes: int, generator: torch.Generator) -> None:
        super().__init__()
        self.kernel, self.boundary = (kernel,) * axes, sides("periodic", axes)
        self.linear = seeded_linear(kernel**axes * channels, out, generator)

    def forward(self, x: Tensor) -> Tensor:
        """(..., *points, channels) -> (..., *points, out)."""
        return convolve(x, self.linear.weight, self.linear.bias, self.kernel, self.boundary)


class ConvNet(nn.Module):
    """APEBench's "Conv;34;10;relu": ten hidden layers of 34 channels, kernel 3, relu after all but the last."""

    def __init__(self, generator: torch.Generator, axes: int = 1, width: int = 34, depth: int = 10) -> None:
        super().__init__()
        sizes = [1, *[width] * depth, 1]
        self.layers = nn.ModuleList(Convolution(a, b, 3, axes, generator) for a, b in pairwise(sizes))

    def forward(self, x: Tensor) -> Tensor:
        """(..., *points, 1) -> (..., *points, 1)."""
        for layer in self.layers[:-1]:
            x = functional.relu(layer(x))
        return self.layers[-1](x)


class ResNet(nn.Module):
    """APEBench's "Res;26;8;relu": pointwise lifting, eight blocks of two convolutions, pointwise projection.

    A block is ``relu(x + conv(relu(conv(x))))``, the classic form without normalisation; lifting and projection have no
    activation.
    """

    def __init__(self, generator: torch.Generator, axes: int = 1, width: int = 26, blocks: int = 8) -> None:
        super().__init__()
        self.lifting = Convolution(1, width, 1, axes, generator)
        self.layers = nn.ModuleList(Convolution(width, width, 3, axes, generator) for _ in range(2 * blocks))
        self.projection = Convolution(width, 1, 1, axes, generator)

    def forward(self, x: Tensor) -> Tensor:
        """(..., *points, 1) -> (..., *points, 1)."""
        x = self.lifting(x)
        for first, second in zip(self.layers[::2], self.layers[1::2], strict=True):
            x = functional.relu(x + second(functional.relu(first(x))))
        return self.projection(x)


def lens(**options: int) -> Callable[[torch.Generator, int], nn.Module]:
    """A maker of field networks from one channel to one."""
    return lambda generator, axes: FieldLensNetwork(1, 1, generator=generator, dimensions=axes, **options)


CONTENDERS: dict[str, Callable[[torch.Generator, int], nn.Module]] = {
    "lens-2-blocks": lens(blocks=2, width=48, kernel=7, depth=8),
    "lens-1-block": lens(blocks=1, width=64, kernel=9, depth=10),
    "resnet": ResNet,
    "conv": ConvNet,
}


def make(name: str, seed: int, axes: int = 1) -> nn.Module:
    """The contender with the initial values of `seed`, for fields on so many axes."""
    return CONTENDERS[name](torch.Generator().manual_seed(seed), axes)


def parameters(network: nn.Module) -> int:
    """How many numbers are learned."""
    return sum(value.numel() for value in network.parameters())
