"""The frame around a field network, in float64: units, delay channels, inputs and closed-form parts.

Nothing here grows with the grid. Scales are those of channels, the linear part is a convolution, and a polynomial takes
the features of one point. What is learned holds at every point and, on grids of other spacings, at the same physical
distances.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lln.core.errors import InputError, choice
from lln.models.convolution import Sides, sides
from lln.step.frame import (
    Array,
    Arrays,
    Polynomial,
    Shapes,
    as_tensor,
    polynomial_arrays,
    stored_arrays,
    stored_polynomial,
)

CONSERVE = ("none", "mean", "flux")


@dataclass(frozen=True, eq=False)
class FieldFrame:
    """What is known of one step of a field without a network.

    Flat states (..., n) run through the channels, and within a channel through space, in C order. With
    z = (x - mean) / scale in each channel, a point's features are z_k, the scaled differences of the H - 1 states
    before, and the inputs; the linear part is a convolution of them. One step is

        x_{k+1} = clip(x_k + hold * scale * P(matrix * f_k + offset + polynomial(f_k) + gain * net(f_k)))

    where `clip` keeps every channel between `low` and `high`, `hold` is zero on the points of Dirichlet sides, whose
    values are prescribed, and P takes the mean over space away where it is conserved. With conserve = "flux" the
    network's output is a flux for each direction and P its divergence first: what leaves one cell enters the next.
    """

    space: tuple[int, ...]  #: points of the grid that it was fitted on.
    boundary: Sides  #: what lies beyond each side.
    kernel: tuple[int, ...]  #: points of the linear convolution along each axis.
    history: int  #: number of states H that a step looks at.
    channel_mean: Array  #: (C,), in the units of the data.
    channel_scale: Array  #: (C,), above zero.
    difference_scale: Array  #: (H - 1, C), in standardised units.
    input_mean: Array  #: (m,).
    input_scale: Array  #: (m,), above zero.
    matrix: Array  #: the linear convolution, (C, kernel points * (C H + m)); zeros switch it off.
    offset: Array  #: (C,), standardised.
    gain: Array  #: what one unit of the network's output is worth, (C,), standardised. Zeros switch the network off.
    conserve: str = "none"  #: "none", "mean" or "flux".
    #: a fixed field (*space, s) that networks also see, standardised; None for none.
    static: Array | None = field(default=None)
    #: of the features of a point, with weights (C, M) that all points share; None for none.
    polynomial: Polynomial | None = None
    low: Array | None = None  #: (C,), no state is below; None for no bound.
    high: Array | None = None  #: (C,), no state is above; None for no bound.

    @property
    def channels(self) -> int:
        """Number of fields C."""
        return int(self.channel_mean.shape[0])

    @property
    def size(self) -> int:
        """Number of coordinates n of a flat state."""
        return self.channels * math.prod(self.space)

    @property
    def inputs(self) -> int:
        """Number of known inputs m."""
        return int(self.input_mean.shape[0])

    @property
    def features(self) -> int:
        """Channels C H + m that the linear part sees at every point."""
        return self.channels * self.history + self.inputs

    @property
    def outputs(self) -> int:
        """Channels that a network must return: C, or a flux of each along every axis."""
        return self.channels * (len(self.space) if self.conserve == "flux" else 1)

    @cached_property
    def mean(self) -> Array:
        """Of every coordinate of a flat state, (n,)."""
        return np.repeat(self.channel_mean, math.prod(self.space))

    @cached_property
    def scale(self) -> Array:
        """Of every coordinate of a flat state, (n,)."""
        return np.repeat(self.channel_scale, math.prod(self.space))

    def ratio(self, space: Sequence[int] | None) -> tuple[float, ...] | None:
        """Spacings of a grid of shape `space` in one spacing of the fitted grid, along each axis, on the same domain.

        A periodic axis of N points spans N spacings, any other N - 1: its first and last point lie on the boundary.
        """
        if space is None or tuple(space) == self.space:
            return None
        if len(space) != len(self.space):
            raise InputError(f"space must have {len(self.space)} lengths like the grid of training, got {len(space)}")
        spans = zip(space, self.space, self.boundary, strict=True)
        return tuple(a / b if pair[0] == "periodic" else (a - 1) / (b - 1) for a, b, pair in spans)

    def fields(self, flat: NDArray[Any]) -> Tensor:
        """Flat states (..., n) as fields, channels last: (..., *space, C)."""
        return as_fields(torch.tensor(flat, dtype=torch.float64), self.channels, self.space).contiguous()

    def feature_rows(self, window: Array, inputs: Array | None = None) -> Array:
        """Features of flat windows: (..., H, n) and (..., m) -> (..., *space, C H + m)."""
        given = (as_tensor(getattr(self, name)) for name in ("channel_mean", "channel_scale", "difference_scale"))
        known = None if inputs is None or not self.inputs else as_tensor((inputs - self.input_mean) / self.input_scale)
        rows: Array = point_features(
            len(self.space), [self.fields(window[..., k, :]) for k in range(self.history)], known, *given
        ).numpy()
        return rows

    def arrays(self) -> dict[str, Any]:
        """Every array under its name, as files store them."""
        names = ("channel_mean", "channel_scale", "difference_scale", "input_mean", "input_scale", "matrix", "offset")
        found = {name: getattr(self, name) for name in (*names, "gain")}
        found |= polynomial_arrays(self.polynomial, None)
        return found | {name: value for name in ("static", "low", "high") if (value := getattr(self, name)) is not None}

    def record(self) -> dict[str, Any]:
        """Everything but the arrays, as plain values."""
        return {
            "space": list(self.space),
            "boundary": [list(pair) for pair in self.boundary],
            "kernel": list(self.kernel),
            "history": self.history,
            "conserve": self.conserve,
        }

    @classmethod
    def from_arrays(cls, record: Mapping[str, Any], arrays: Arrays) -> Self:
        """The frame that `record` and `arrays` describe; ValueError or InputError where they do not fit together."""
        c, m, history = len(arrays["frame.channel_mean"]), len(arrays["frame.input_mean"]), int(record["history"])
        space, kernel = (tuple(map(int, record[key])) for key in ("space", "kernel"))
        if len(kernel) != len(space) or not all(size > 0 for size in (*space, *kernel)):
            raise ValueError(f"a kernel of {kernel} points on a grid of {space}")
        shapes: Shapes = {
            "channel_mean": (c,), "channel_scale": (c,), "difference_scale": (history - 1, c), "input_mean": (m,),
            "input_scale": (m,), "matrix": (c, math.prod(kernel) * (c * history + m)), "offset": (c,), "gain": (c,),
        }  # fmt: skip
        given = {name.removeprefix("frame.") for name in arrays if name.startswith("frame.")}
        polynomial = None
        if given & {"polynomial_table", "polynomial_weights"}:
            polynomial = stored_polynomial("polynomial", arrays, c, c * history + m)
            given -= {"polynomial_table", "polynomial_weights"}
        if given & {"low", "high"}:
            shapes |= {"low": (c,), "high": (c,)}
        if "static" in given:
            shapes["static"] = (*space, arrays["frame.static"].shape[-1])
        conserve = choice("conservation", str(record["conserve"]), CONSERVE)
        found = stored_arrays(given, arrays, shapes)
        boundary = sides(record["boundary"], len(space))
        return cls(space, boundary, kernel, history, conserve=conserve, polynomial=polynomial, **found)


def as_fields(flat: Tensor, channels: int, space: tuple[int, ...]) -> Tensor:
    """Flat states (..., n) as fields, channels last: (..., *space, C)."""
    size = channels * math.prod(space)
    if flat.shape[-1] != size:
        raise InputError(
            f"a grid of {' x '.join(map(str, space))} points and {channels} channels needs {size} numbers per state, "
            f"got {flat.shape[-1]}"
        )
    grid: Tensor = flat.unflatten(-1, (channels, *space))
    return grid.movedim(-1 - len(space), -1)


def point_features(
    dimensions: int,
    past: Sequence[Tensor],
    inputs: Tensor | None,
    channel_mean: Tensor,
    channel_scale: Tensor,
    difference_scale: Tensor | None,
) -> Tensor:
    """Features at every point: H fields (..., *space, C), standardised inputs (..., m) -> (..., *space, C H + m)."""
    z = [(field - channel_mean) / channel_scale for field in past]
    parts = [z[-1]]
    if difference_scale is not None:
        parts += [(z[-j] - z[-j - 1]) / difference_scale[j - 1] for j in range(1, len(z))]
    if inputs is not None:
        spread = inputs.reshape(*inputs.shape[:-1], *[1] * dimensions, inputs.shape[-1])
        parts.append(spread.expand(*z[-1].shape[:-1], inputs.shape[-1]))
    return torch.cat(parts, dim=-1)


def held(change: Tensor, boundary: Sides) -> Tensor:
    """The increment (..., *space, C) without its values on Dirichlet sides, where the field is prescribed."""
    for place, pair in enumerate(boundary):
        axis = change.ndim - 1 - len(boundary) + place
        for side, first in ((pair[0], 0), (pair[1], change.shape[axis] - 1)):
            if side == "dirichlet":
                index = torch.arange(change.shape[axis], device=change.device)
                shape = [-1 if a == axis else 1 for a in range(change.ndim)]
                change = change * (index != first).view(shape)
    return change


def free(space: Sequence[int], boundary: Sides) -> NDArray[np.bool_]:
    """Which points of the grid may change: all but those on Dirichlet sides, (*space)."""
    return held(torch.ones(*space, 1, dtype=torch.float64), boundary)[..., 0].numpy().astype(bool)


def divergence(flux: Tensor, frame: FieldFrame, ratio: Sequence[float] | None = None) -> Tensor:
    """What flows into each cell: (..., *space, axes * C) -> (..., *space, C); nothing flows through walls.

    The flux of a point passes from it to its neighbour ahead, one spacing of training away.
    """
    steps = [1] * len(frame.space) if ratio is None else [round(r) for r in ratio]
    if ratio is not None and any(abs(r - step) > 1e-9 or step < 1 for r, step in zip(ratio, steps, strict=True)):
        raise InputError("flux form needs a grid that is finer by whole factors; use conserve='mean' for others")
    parts = flux.unflatten(-1, (len(frame.space), frame.channels)).unbind(-2)
    total = torch.zeros_like(parts[0])
    for place, (part, step, pair) in enumerate(zip(parts, steps, frame.boundary, strict=True)):
        axis = part.ndim - 1 - len(frame.space) + place
        if pair[0] == "periodic":
            total = total + part.roll(step, axis) - part
            continue
        points = part.shape[axis]
        inner = part.narrow(axis, 0, points - step)
        wall = torch.zeros_like(part.narrow(axis, 0, step))
        total = total + torch.cat((wall, inner), dim=axis) - torch.cat((inner, wall), dim=axis)
    return total
