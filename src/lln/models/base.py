"""What every network here offers: `forward`, `states`, `readout`, a configuration that rebuilds it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from lln.core.errors import InputError


class StateNetwork(nn.Module, ABC):
    """A deep network whose states after every repeated layer can be looked at.

    Attributes:
        n_in: size of the last dimension of the input.
        n_out: size of the last dimension of the output.
        width: hidden width h.
        depth: number of repeated layers D.
        readout: the linear map from the last state to the output.
    """

    n_in: int
    n_out: int
    width: int
    depth: int
    readout: nn.Linear

    @abstractmethod
    def states(self, x: Tensor) -> Sequence[Any]:
        """The D + 1 states: the embedding's, then the one after every repeated layer."""

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """The arguments that rebuild this network, as plain values."""

    def extra_repr(self) -> str:
        """The configuration, for print(network)."""
        return ", ".join(f"{key}={value!r}" for key, value in self.config().items())

    def _check(self, x: Tensor) -> None:
        if not isinstance(x, Tensor):
            raise InputError(f"the input must be a torch tensor, got {type(x).__name__}")
        if not x.dtype.is_floating_point:
            raise InputError(f"the input must be floating point, got {x.dtype}; convert it with .float()")
        if x.ndim < 1 or x.shape[-1] != self.n_in:
            raise InputError(f"the input's last dimension must be n_in = {self.n_in}, got shape {tuple(x.shape)}")
        device = self.readout.weight.device
        if x.device != device:
            raise InputError(f"the input is on {x.device} but the network is on {device}; move one with .to(...)")
        dtype = self.readout.weight.dtype
        if x.dtype != dtype and not torch.is_autocast_enabled(x.device.type):
            raise InputError(f"the input is {x.dtype} but the network is {dtype}; convert one with .to(...)")


def seeded_linear(n_in: int, n_out: int, generator: torch.Generator | None) -> nn.Linear:
    """`nn.Linear` under PyTorch's default initialisation, drawn from `generator` on the CPU.

    The default draws weight and bias uniformly from +-1/sqrt(n_in).
    """
    layer = nn.Linear(n_in, n_out, device="meta").to_empty(device=torch.get_default_device())  # no draw of its own
    bound = 1.0 / math.sqrt(n_in)
    with torch.no_grad():
        for parameter in layer.parameters():
            draw = torch.empty(parameter.shape, dtype=parameter.dtype).uniform_(-bound, bound, generator=generator)
            parameter.copy_(draw)
    return layer
