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
    """A deep network that can return its state after every repeated layer."""

    n_in: int  #: size of the last dimension of the input.
    n_out: int  #: size of the last dimension of the output.
    width: int  #: hidden width h.
    depth: int  #: number of repeated layers D.
    readout: nn.Linear  #: the linear map from the last state to the output.

    @abstractmethod
    def states(self, x: Tensor) -> Sequence[Any]:
        """The D + 1 states: the embedding's, then the one after every repeated layer."""

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """The arguments that rebuild this network, as plain values."""

    def extra_repr(self) -> str:
        """The configuration, for print(network)."""
        return ", ".join(f"{key}={value!r}" for key, value in self.config().items())

    def _check_tensor(self, name: str, value: Tensor) -> None:
        if not isinstance(value, Tensor):
            raise InputError(f"{name} must be a torch tensor, got {type(value).__name__}")
        if not value.dtype.is_floating_point:
            raise InputError(f"{name} must be floating point, got {value.dtype}; convert it with .float()")
        device = self.readout.weight.device
        if value.device != device:
            raise InputError(f"{name} is on {value.device} but the network is on {device}; move one with .to(...)")

    def _check(self, x: Tensor) -> None:
        self._check_tensor("the input", x)
        if x.ndim < 1 or x.shape[-1] != self.n_in:
            raise InputError(f"the input's last dimension must be n_in = {self.n_in}, got shape {tuple(x.shape)}")
        dtype = self.readout.weight.dtype
        if x.dtype != dtype and not torch.is_autocast_enabled(x.device.type):
            raise InputError(f"the input is {x.dtype} but the network is {dtype}; convert one with .to(...)")


class NetworkEnsemble(nn.Module):
    """S networks of one class and configuration with stacked copies of their parameters; each sees its own input."""

    def __init__(self, members: Sequence[StateNetwork]) -> None:
        super().__init__()
        if not members:
            raise InputError("an ensemble needs at least one member, got none")
        first = members[0]
        for index, member in enumerate(members):
            if type(member) is not type(first) or member.config() != first.config():
                raise InputError(f"member {index} is not like member 0; an ensemble shares one class and configuration")
        self.kind, self.size, self._config = type(first), len(members), first.config()
        self.n_in, self.n_out = first.n_in, first.n_out

    def __len__(self) -> int:
        return self.size

    def _check(self, x: Tensor) -> None:
        if not isinstance(x, Tensor) or x.ndim < 2 or x.shape[0] != self.size or x.shape[-1] != self.n_in:
            got = tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__
            raise InputError(
                f"the input must have shape ({self.size}, ..., {self.n_in}), one part for each member, got {got}"
            )

    def _check_index(self, index: int) -> None:
        if not 0 <= index < self.size:
            raise InputError(f"member must be from 0 to {self.size - 1}, got {index}")


def seeded_linear(n_in: int, n_out: int, generator: torch.Generator | None) -> nn.Linear:
    """`nn.Linear` under PyTorch's default initialisation, drawn from `generator` on the CPU.

    The default draws weight and bias uniformly between -1/sqrt(n_in) and 1/sqrt(n_in).
    """
    layer = nn.Linear(n_in, n_out, device="meta")  # no draw of its own
    bound = 1.0 / math.sqrt(n_in)
    for name, parameter in list(layer.named_parameters()):
        draw = torch.empty(parameter.shape, dtype=parameter.dtype).uniform_(-bound, bound, generator=generator)
        # Memory for a layer without values would import half a second of sympy.
        setattr(layer, name, nn.Parameter(draw))
    return layer
