"""The lens network for fields: convolutions embed and read out, the same lenses act at every point of the grid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from lln.core.errors import InputError, check_int, positive
from lln.models.base import NetworkEnsemble, StateNetwork, seeded_linear
from lln.models.convolution import convolve, convolve_members, kernel_shape, sides
from lln.models.lens import OPTICAL_LENGTH, Lenses, LensNetwork, Rays, renamed_length
from lln.ops import lens_transport


class FieldBlock(Lenses):
    """Rays at every point of a grid: embedded from patches, carried through one stack of lenses that all points share.

    Attributes:
        embed_position: from patches to positions, (h, kernel points * channels).
        embed_angle: the same for angles, before their tanh; None starts with angles of zero.
    """

    def __init__(self, patch: int, like: LensNetwork, generator: torch.Generator | None) -> None:
        super().__init__()
        self.centers, self.sigma, self.length = like.centers, like.sigma, like.length
        self.lens_scale, self.backend = like.lens_scale, "auto"
        self.embed_position, self.embed_angle, self.coefficients = like.draw(patch, generator)

    def embeds(self) -> list[nn.Linear]:
        """The embeddings of positions and, where there are any, of angles."""
        return [self.embed_position] if self.embed_angle is None else [self.embed_position, self.embed_angle]


class FieldLensNetwork(StateNetwork):
    """A map between fields, (..., *points, n_in) -> (..., *points, n_out), local and the same everywhere.

    Every block embeds the field's patches as rays, ``y_0 = W_y p + b_y`` and ``theta_0 = tanh(W_theta p + b_theta)``,
    carries them through D lenses that all points share, and reads a field off the patches of y_D. The first block's
    field has `hidden` channels, as all others but the last; between blocks of equal channels the reading is added to
    the field. On periodic grids a shifted input gives the shifted output. Any number of points will do.

    Args:
        n_in: channels of the input field.
        n_out: channels of the output field.
        dimensions: of space: 1, 2 or 3.
        width: rays h at each point.
        depth: lenses D of one block.
        basis: Gaussian control points K per ray.
        kernel: points of every convolution along each axis, one number or one for each.
        blocks: how many.
        hidden: channels of the fields between blocks; not used by one block alone.
        boundary: "periodic", "dirichlet", "neumann" or "replicate", or one for each axis, or (low, high) for an axis.
        static: channels of a fixed field (geometry, coefficients) that the first block also sees.
        inputs: global inputs (parameters, forcing) that the first block also sees, the same at all points.
        optical_length: total propagation distance T of one block.
        lens_scale: fixed scale s of every refraction.
        control_range: the control points are spread evenly over this interval.
        sigma: width of the Gaussians; None takes the spacing of the control points.
        initial_angle: "learned" or "zero".
        propagation: distance of one layer in place of optical_length / depth.
        horizon: old name of `optical_length`; works with a warning.
        generator: source of the initial values, on the CPU; None takes torch's global one.
    """

    def __init__(
        self,
        n_in: int,
        n_out: int,
        *,
        dimensions: int = 1,
        width: int = 48,
        depth: int = 8,
        basis: int = 12,
        kernel: int | Sequence[int] = 7,
        blocks: int = 2,
        hidden: int = 32,
        boundary: str | Sequence[str | Sequence[str]] = "periodic",
        static: int = 0,
        inputs: int = 0,
        optical_length: float = OPTICAL_LENGTH,
        lens_scale: float = 1.0,
        control_range: tuple[float, float] = (-3.0, 3.0),
        sigma: float | None = None,
        initial_angle: str = "learned",
        propagation: float | None = None,
        horizon: float | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.n_in, self.n_out = check_int("n_in", n_in, 1), check_int("n_out", n_out, 1)
        self.dimensions = check_int("dimensions", dimensions, 1)
        if self.dimensions > 3:
            raise InputError(f"dimensions must be 1, 2 or 3, got {dimensions}")
        self.kernel = kernel_shape(kernel, self.dimensions)
        self.boundary = sides(boundary, self.dimensions)
        self.static, self.inputs = check_int("static", static, 0), check_int("inputs", inputs, 0)
        self.hidden = check_int("hidden", hidden, 1)
        count = check_int("blocks", blocks, 1)
        like = LensNetwork(  # checks the optics; its own draws go nowhere
            1,
            1,
            width=width,
            depth=depth,
            basis=basis,
            optical_length=renamed_length(optical_length, horizon),
            lens_scale=lens_scale,
            control_range=control_range,
            sigma=sigma,
            initial_angle=initial_angle,
            propagation=propagation,
            generator=torch.Generator(),
        )
        self._optics = {key: value for key, value in like.config().items() if key not in ("n_in", "n_out")}
        self.width, self.depth, self.basis = like.width, like.depth, like.basis
        points = math.prod(self.kernel)
        channels = [self.n_in + self.static + self.inputs, *[self.hidden] * (count - 1)]
        self.blocks, self.between = nn.ModuleList(), nn.ModuleList()
        for index, seen in enumerate(channels):
            self.blocks.append(FieldBlock(points * seen, like, generator))
            if index < count - 1:
                self.between.append(seeded_linear(points * self.width, self.hidden, generator))
        self.readout = seeded_linear(points * self.width, self.n_out, generator)

    def forward(
        self,
        x: Tensor,
        *,
        static: Tensor | None = None,
        inputs: Tensor | None = None,
        ratio: Sequence[float] | None = None,
    ) -> Tensor:
        """The output field, (..., *points, n_out).

        Args:
            x: (..., *points, n_in).
            static: (*points, static), or with leading dimensions like x; None where the network has none.
            inputs: (..., inputs), one set for each field; None where the network has none.
            ratio: spacing of the grid that the network was trained on over that of x, for each axis, so that kernels
                keep their physical extent; None is 1.
        """
        field = self._seen(x, static, inputs)
        for index in range(len(self.blocks)):
            field = self._read(index, self.block(index).transport(*self.embed(index, field, ratio)).y, field, ratio)
        return field

    def embed(self, index: int, field: Tensor, ratio: Sequence[float] | None = None) -> Rays:
        """The rays that leave block `index`'s field, y_0 and theta_0, each (..., *points, h)."""
        block = self.block(index)
        y = self._convolved(field, block.embed_position, ratio)
        if block.embed_angle is None:
            return Rays(y, torch.zeros_like(y))
        return Rays(y, torch.tanh(self._convolved(field, block.embed_angle, ratio)))

    def states(
        self,
        x: Tensor,
        *,
        static: Tensor | None = None,
        inputs: Tensor | None = None,
        ratio: Sequence[float] | None = None,
    ) -> list[list[Rays]]:
        """Every (y_l, theta_l), l = 0..D, of each block."""
        field, found = self._seen(x, static, inputs), []
        for index in range(len(self.blocks)):
            found.append(self.block(index).trace(self.embed(index, field, ratio)))
            field = self._read(index, found[-1][-1].y, field, ratio)
        return found

    def inverse(self, y: Tensor, theta: Tensor, block: int = -1) -> Rays:
        """The rays that arrive behind the lenses of `block` as (y, theta), each (..., h)."""
        for name, value in (("y", y), ("theta", theta)):
            if value.shape[-1:] != (self.width,):
                raise InputError(f"{name} must have shape (..., {self.width}), got {tuple(value.shape)}")
        return self.block(block).inverse(y, theta)

    def extent(self, spacing: Sequence[float]) -> tuple[float, ...]:
        """Physical width of one kernel along each axis, from its first point to its last, on the grid of training."""
        steps = [positive("spacing", step) for step in spacing]
        if len(steps) != self.dimensions:
            raise InputError(f"spacing must have {self.dimensions} values, one for each axis, got {len(steps)}")
        return tuple((size - 1) * step for size, step in zip(self.kernel, steps, strict=True))

    @property
    def radius(self) -> tuple[int, ...]:
        """How many points away along each axis, at most, an input can move an output."""
        return tuple(2 * len(self.blocks) * (size // 2) for size in self.kernel)

    @property
    def backend(self) -> str:
        """Which implementation of the transport serves in all blocks."""
        return self.block(0).backend

    @backend.setter
    def backend(self, name: str) -> None:
        for index in range(len(self.blocks)):
            self.block(index).backend = name

    def config(self) -> dict[str, Any]:
        """The arguments that rebuild this network."""
        return {
            "n_in": self.n_in,
            "n_out": self.n_out,
            "dimensions": self.dimensions,
            "kernel": self.kernel,
            "blocks": len(self.blocks),
            "hidden": self.hidden,
            "boundary": self.boundary,
            "static": self.static,
            "inputs": self.inputs,
            **self._optics,
        }

    def block(self, index: int) -> FieldBlock:
        """One of the blocks."""
        return cast("FieldBlock", self.blocks[index])

    def reader(self, index: int) -> nn.Linear:
        """What reads a field off the rays behind block `index`."""
        return self.readout if index == len(self.blocks) - 1 else cast("nn.Linear", self.between[index])

    def _read(self, index: int, y: Tensor, field: Tensor, ratio: Sequence[float] | None) -> Tensor:
        out = self._convolved(y, self.reader(index), ratio)
        return field + out if 0 < index < len(self.blocks) - 1 else out

    def _convolved(self, x: Tensor, layer: nn.Linear, ratio: Sequence[float] | None) -> Tensor:
        return convolve(x, layer.weight, layer.bias, self.kernel, self.boundary, ratio)

    def _seen(self, x: Tensor, static: Tensor | None, inputs: Tensor | None) -> Tensor:
        """The first block's field: x, the static channels, and the inputs spread over all points."""
        self._check(x)
        if x.ndim < self.dimensions + 1:
            axes = ", ".join(f"N{axis + 1}" for axis in range(self.dimensions))
            raise InputError(f"the input must have shape (..., {axes}, {self.n_in}), got {tuple(x.shape)}")
        points = x.shape[-1 - self.dimensions : -1]
        parts = [x]
        for name, value, channels in (("static", static, self.static), ("inputs", inputs, self.inputs)):
            if (value is None) != (channels == 0):
                given = "none" if value is None else f"a tensor of shape {tuple(value.shape)}"
                raise InputError(f"the network has {channels} {name} channels, but {given} was given for them")
            if value is None:
                continue
            wanted = (channels,) if name == "inputs" else (*points, channels)
            if value.shape[-len(wanted) :] != wanted:
                shape = ", ".join(map(str, wanted))
                raise InputError(f"{name} must have shape (..., {shape}), got {tuple(value.shape)}")
            spread = value.reshape(*value.shape[:-1], *[1] * self.dimensions, channels) if name == "inputs" else value
            parts.append(spread.to(x).expand(*x.shape[:-1], channels))
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)


class FieldEnsemble(NetworkEnsemble):
    """S field networks without global inputs: every convolution and every transport serves all members."""

    def __init__(self, members: Sequence[FieldLensNetwork]) -> None:
        super().__init__(members)
        first = members[0]
        if first.inputs:
            raise InputError(f"an ensemble of fields takes no global inputs, but its members have {first.inputs}")
        self.static, self.kernel, self.boundary = first.static, first.kernel, first.boundary
        self.backend, self.count = first.backend, len(first.blocks)
        block = first.block(0)
        self._optics = (block.centers, block.sigma, block.length, block.lens_scale)
        self.embed_weight, self.embed_bias = nn.ParameterList(), nn.ParameterList()
        self.coefficients = nn.ParameterList()
        self.read_weight, self.read_bias = nn.ParameterList(), nn.ParameterList()
        for index in range(self.count):
            embeds = [member.block(index).embeds() for member in members]
            reads = [member.reader(index) for member in members]
            lenses = [member.block(index).coefficients for member in members]
            self.embed_weight.append(_stacked([torch.cat([layer.weight for layer in each]) for each in embeds]))
            self.embed_bias.append(_stacked([torch.cat([layer.bias for layer in each]) for each in embeds]))
            self.coefficients.append(_stacked(lenses))
            self.read_weight.append(_stacked([layer.weight for layer in reads]))
            self.read_bias.append(_stacked([layer.bias for layer in reads]))

    def forward(self, x: Tensor, *, static: Tensor | None = None, ratio: Sequence[float] | None = None) -> Tensor:
        """(S, ..., *points, n_in) -> (S, ..., *points, n_out): member s sees x[s]; with S = 1 all see the same.

        The other arguments are those of `FieldLensNetwork`; `static` is (*points, static).
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
                for place, layer in enumerate(network.block(block).embeds()):
                    rows = slice(place * network.width, (place + 1) * network.width)
                    layer.weight.copy_(self.embed_weight[block][index, rows])
                    layer.bias.copy_(self.embed_bias[block][index, rows])
                network.block(block).coefficients.copy_(self.coefficients[block][index])
                network.reader(block).weight.copy_(self.read_weight[block][index])
                network.reader(block).bias.copy_(self.read_bias[block][index])
        return network

    def _convolved(self, x: Tensor, weight: Tensor, bias: Tensor, ratio: Sequence[float] | None) -> Tensor:
        return convolve_members(x, weight, bias, self.kernel, self.boundary, ratio)


def _stacked(tensors: Sequence[Tensor]) -> nn.Parameter:
    return nn.Parameter(torch.stack([tensor.detach() for tensor in tensors]).clone())
