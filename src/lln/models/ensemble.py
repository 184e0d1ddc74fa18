"""Several lens networks of one shape, trained and rolled out as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from lln.core.checks import check_int
from lln.core.errors import InputError
from lln.models.lens import LensNetwork
from lln.ops import Networks, Scaling, rollout

_FIELDS = (
    "position_weight",
    "position_bias",
    "angle_weight",
    "angle_bias",
    "coefficients",
    "readout_weight",
    "readout_bias",
)


class LensEnsemble(nn.Module):
    """S lens networks with stacked parameters: each sees its own input, and all go through in one call.

    Args:
        members: networks of one configuration; their parameters are copied.
    """

    def __init__(self, members: Sequence[LensNetwork]) -> None:
        super().__init__()
        if not members:
            raise InputError("an ensemble needs at least one member, got none")
        for index, member in enumerate(members):
            if member.config() != members[0].config():
                raise InputError(f"member {index} has another configuration than member 0; an ensemble shares one")
        self.n_in, self.n_out, self.size = members[0].n_in, members[0].n_out, len(members)
        self.backend = members[0].backend
        self._config = members[0].config()
        networks = [member.stacked() for member in members]
        self._optics = (networks[0].centers, networks[0].sigma, networks[0].length, networks[0].scale)

        for field in _FIELDS:
            parts = [getattr(network, field) for network in networks]
            stacked = None if parts[0] is None else nn.Parameter(torch.cat(parts).detach().clone())
            self.register_parameter(field, stacked)

    def __len__(self) -> int:
        return self.size

    def stacked(self) -> Networks:
        """The parameters, for the operators."""
        fields: dict[str, Any] = {field: getattr(self, field) for field in _FIELDS}
        centers, sigma, length, scale = self._optics
        return Networks(centers=centers, sigma=sigma, length=length, scale=scale, backend=self.backend, **fields)

    def forward(self, x: Tensor) -> Tensor:
        """(S, ..., n_in) -> (S, ..., n_out): member s sees x[s]."""
        self._check(x)
        rows = self.stacked()(x.reshape(self.size, -1, self.n_in))
        return rows.reshape(*x.shape[:-1], self.n_out)

    def rollout(self, x0: Tensor, steps: int, *, increments: bool = False, scaling: Scaling | None = None) -> Tensor:
        """Every member's states after its own starts: (S, ..., n) -> (S, ..., steps, n). See `LensNetwork.rollout`."""
        self._check(x0)
        starts = x0.reshape(self.size, -1, self.n_in)
        states = rollout(self.stacked(), starts, check_int("steps", steps, 0), increments=increments, scaling=scaling)
        return states.movedim(1, -2).reshape(*x0.shape[:-1], steps, self.n_in)

    def member(self, index: int) -> LensNetwork:
        """A copy of one member as a network of its own."""
        if not 0 <= index < self.size:
            raise InputError(f"member must be from 0 to {self.size - 1}, got {index}")
        parts = self.stacked()
        network = LensNetwork(**self._config).to(parts.coefficients)
        network.backend = self.backend
        with torch.no_grad():
            target = network.stacked()
            for field in _FIELDS:
                if (source := getattr(parts, field)) is not None:
                    getattr(target, field).copy_(source[index : index + 1])
        return network

    def _check(self, x: Tensor) -> None:
        if not isinstance(x, Tensor) or x.ndim < 2 or x.shape[0] != self.size or x.shape[-1] != self.n_in:
            got = tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__
            raise InputError(
                f"the input must have shape ({self.size}, ..., {self.n_in}), one part for each member, got {got}"
            )
