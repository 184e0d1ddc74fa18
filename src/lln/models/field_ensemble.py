"""Several field networks of one shape, trained and rolled out as one."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from lln.core.errors import InputError
from lln.models.base import NetworkEnsemble
from lln.models.convolution import convolve_members
from lln.models.field import FieldBlock, FieldLensNetwork
from lln.ops import lens_transport


class FieldEnsemble(NetworkEnsemble):
    """S field networks without global inputs: every convolution and every transport serves all members."""

    def __init__(self, members: Sequence[FieldLensNetwork]) -> None:
        super().__init__(members)
        first = members[0]
        if first.inputs:
            raise InputError(f"an ensemble of fields takes no global inputs, but its members have {first.inputs}")
        self.static, self.kernel, self.boundary = first.static, first.kernel, first.boundary
        self.backend, self.count = first.backend, len(first.blocks)
        block = _block(first, 0)
        self._optics = (block.centers, block.sigma, block.length, block.lens_scale)
        self.embed_weight, self.embed_bias = nn.ParameterList(), nn.ParameterList()
        self.coefficients = nn.ParameterList()
        self.read_weight, self.read_bias = nn.ParameterList(), nn.ParameterList()
        for index in range(self.count):
            embeds = [_embeds(member, index) for member in members]
            reads = [_read(member, index) for member in members]
            lenses = [_block(member, index).coefficients for member in members]
            self.embed_weight.append(_stacked([torch.cat([layer.weight for layer in each]) for each in embeds]))
            self.embed_bias.append(_stacked([torch.cat([layer.bias for layer in each]) for each in embeds]))
            self.coefficients.append(_stacked(lenses))
            self.read_weight.append(_stacked([layer.weight for layer in reads]))
            self.read_bias.append(_stacked([layer.bias for layer in reads]))

    def forward(self, x: Tensor, *, static: Tensor | None = None, ratio: Sequence[float] | None = None) -> Tensor:
        """(S, ..., *points, n_in) -> (S, ..., *points, n_out): member s sees x[s].

        Args:
            x: one field for each member; S = 1 gives all members the same.
            static: (*points, static), or None where the networks have none.
            ratio: spacing of the grid of training over that of x, for each axis; None is 1.
        """
        if static is not None:
            x = torch.cat((x, static.to(x).expand(*x.shape[:-1], static.shape[-1])), dim=-1)
        if x.shape[-1] != self.n_in + self.static:
            raise InputError(f"the input must have {self.n_in + self.static} channels, got {x.shape[-1]}")
        field = x
        for index in range(self.count):
            rays = self._convolved(field, self.embed_weight[index], self.embed_bias[index], ratio)
            width = self.coefficients[index].shape[2]
            y = rays[..., :width]
            theta = torch.tanh(rays[..., width:]) if rays.shape[-1] > width else torch.zeros_like(y)
            ends, _ = lens_transport(
                y.contiguous(), theta, self.coefficients[index], *self._optics, backend=self.backend
            )
            read = self._convolved(ends, self.read_weight[index], self.read_bias[index], ratio)
            field = field + read if 0 < index < self.count - 1 else read
        return field

    def member(self, index: int) -> FieldLensNetwork:
        """A copy of one member as a network of its own."""
        self._check_index(index)
        network = FieldLensNetwork(**self._config, generator=torch.Generator()).to(self.coefficients[0])
        network.backend = self.backend
        with torch.no_grad():
            for block in range(self.count):
                embeds = _embeds(network, block)
                for place, layer in enumerate(embeds):
                    rows = slice(place * network.width, (place + 1) * network.width)
                    layer.weight.copy_(self.embed_weight[block][index, rows])
                    layer.bias.copy_(self.embed_bias[block][index, rows])
                _block(network, block).coefficients.copy_(self.coefficients[block][index])
                _read(network, block).weight.copy_(self.read_weight[block][index])
                _read(network, block).bias.copy_(self.read_bias[block][index])
        return network

    def _convolved(self, x: Tensor, weight: Tensor, bias: Tensor, ratio: Sequence[float] | None) -> Tensor:
        return convolve_members(x, weight, bias, self.kernel, self.boundary, ratio)


def _block(network: FieldLensNetwork, index: int) -> FieldBlock:
    block = network.blocks[index]
    assert isinstance(block, FieldBlock)
    return block


def _embeds(network: FieldLensNetwork, index: int) -> list[nn.Linear]:
    """The embeddings of positions and, where there are any, of angles."""
    block = _block(network, index)
    return [block.embed_position] if block.embed_angle is None else [block.embed_position, block.embed_angle]


def _read(network: FieldLensNetwork, index: int) -> nn.Linear:
    layer = network.readout if index == len(network.blocks) - 1 else network.between[index]
    assert isinstance(layer, nn.Linear)
    return layer


def _stacked(tensors: Sequence[Tensor]) -> nn.Parameter:
    return nn.Parameter(torch.stack([tensor.detach() for tensor in tensors]).clone())
