"""The step of fields on a grid: features at every point, closed-form parts and networks that all points share.

Flat states (..., n) run through the channels, and within a channel through space in C order. Inside, a field is
(..., *space, C), channels last.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lln.core.errors import InputError
from lln.models.convolution import convolve
from lln.models.field import FieldEnsemble, FieldLensNetwork
from lln.step.field_frame import FieldFrame, as_fields, divergence, held, point_features
from lln.step.frame import Array, PolynomialPart
from lln.step.step import Step, network_record, read_members, roll

_FEW_POINTS = 1024  # of a batch on a CPU; beyond, arithmetic takes longer than calls, and members run one by one
_GROUP = 8192  # points of all starts that a CPU rolls out together: their rays stay in its caches


class FieldStep(Step[FieldFrame, FieldLensNetwork]):
    """One step of a field; the formula is in `FieldFrame`.

    Args:
        frame: units, delay channels, inputs, boundaries, conservation and closed-form parts.
        members: field networks of one shape; their mean corrects the closed-form parts.
        space: points of the grid of states, on the domain of training; None is the grid of training. Kernels keep
            their physical extent.
    """

    kind = "field"
    channel_mean: Tensor
    channel_scale: Tensor
    difference_scale: Tensor | None
    input_mean: Tensor
    input_scale: Tensor
    matrix: Tensor
    offset: Tensor
    gain: Tensor
    static: Tensor | None
    low: Tensor | None
    high: Tensor | None

    def __init__(
        self, frame: FieldFrame, members: Iterable[FieldLensNetwork] = (), space: Sequence[int] | None = None
    ) -> None:
        super().__init__(frame, members)
        self.space, self.ratio = frame.space if space is None else tuple(space), frame.ratio(space)
        self.free = all(side != "dirichlet" for pair in frame.boundary for side in pair)
        for name in ("channel_mean", "channel_scale", "difference_scale", "input_mean", "input_scale", "matrix"):
            self._keep(name, getattr(frame, name))
        for name in ("offset", "gain", "static"):
            self._keep(name, getattr(frame, name))
        for name in ("low", "high"):
            bound = getattr(frame, name)
            self._keep(name, None if bound is None else np.repeat(bound, math.prod(self.space)))
        self.polynomial = None if frame.polynomial is None else PolynomialPart(frame.polynomial).to(self.device)
        if self.static is not None and self.space != frame.space:
            raise InputError("a model with static fields rolls out on the grid of training alone; give no other space")

    def on(self, space: Sequence[int] | None) -> FieldStep:
        """The same step on another grid of the same domain."""
        return self if space is None else FieldStep(self.frame, self.members, space)

    def fields(self, flat: Tensor) -> Tensor:
        """Flat states (..., n) as fields (..., *space, C)."""
        return as_fields(flat, self.frame.channels, self.space)

    def flat(self, fields: Tensor) -> Tensor:
        """Fields (..., *space, C) as flat states (..., n)."""
        return fields.movedim(-1, -1 - len(self.space)).flatten(-1 - len(self.space))

    def features(self, window: Tensor, inputs: Tensor | None = None) -> Tensor:
        """Flat windows (..., H, n) and inputs (..., m) -> (..., *space, C H + m)."""
        return self.point_features([self.fields(state) for state in window.unbind(-2)], inputs)

    def point_features(self, past: Sequence[Tensor], inputs: Tensor | None = None) -> Tensor:
        """Features at every point: H fields (..., *space, C), oldest first, and inputs (..., m)."""
        if self.frame.inputs and inputs is None:
            raise InputError(f"the model needs {self.frame.inputs} inputs, but none were given")
        known = (inputs - self.input_mean) / self.input_scale if self.frame.inputs and inputs is not None else None
        units = (self.channel_mean, self.channel_scale, self.difference_scale)
        return point_features(len(self.space), past, known, *units)

    def closed_form(self, features: Tensor) -> Tensor:
        """The increment of the closed-form parts alone: (..., *space, C H + m) -> (..., n)."""
        return self.flat(self._change(features, None))

    def increment(self, features: Tensor) -> Tensor:
        """The whole increment: (..., *space, C H + m) -> (..., n)."""
        return self.flat(self._change(features, self.correction(features) if self.corrected else None))

    def advance_fields(self, past: Sequence[Tensor], inputs: Tensor | None = None) -> Tensor:
        """`advance` for H fields (..., *space, C), oldest first, and inputs (..., m) -> (..., *space, C)."""
        features = self.point_features(past, inputs)
        change = self._change(features, self.correction(features) if self.corrected else None)
        if self.low is None and self.high is None:
            return past[-1] + change
        return self.fields(self._bounded(self.flat(past[-1] + change)))

    def advance(self, window: Tensor, inputs: Tensor | None = None) -> Tensor:
        """The next state, within the bounds: (..., H, n) and (..., m) -> (..., n)."""
        return self._bounded(super().advance(window, inputs))

    def _bounded(self, states: Tensor) -> Tensor:
        """Flat states (..., n) within the bounds."""
        return states if self.low is None and self.high is None else torch.clamp(states, self.low, self.high)

    def correction(self, features: Tensor) -> Tensor:
        """The mean of the networks, in float64."""
        rows = features.to(self.dtype)
        static = None if self.static is None else self.static.to(self.dtype)
        outputs = [network(rows, static=static, ratio=self.ratio).double() for network in self.networks]
        return outputs[0] if len(outputs) == 1 else torch.stack(outputs).mean(dim=0)

    def rollout(
        self, window: Array, steps: int, inputs: NDArray[Any] | None = None, *, space: Sequence[int] | None = None
    ) -> Array:
        """As `Step.rollout`; `space` is the window's grid on the domain of training, None the grid of training."""
        return super(FieldStep, self.on(space)).rollout(window, steps, inputs)

    def _roll(self, window: Tensor, steps: int, inputs: Tensor | None) -> Tensor:
        """The states (..., steps, n); on a GPU and for small batches all members go through in one pass."""
        points = math.prod(window.shape[:-2]) * math.prod(self.space)
        if self.corrected and len(self.networks) > 1 and (window.is_cuda or points <= _FEW_POINTS):
            return roll(_Stacked(self), window, steps, inputs)
        size = max(1, _GROUP // math.prod(self.space))
        if window.is_cuda or window.ndim != 3 or len(window) <= size:
            return roll(self, window, steps, inputs)
        groups = [slice(first, first + size) for first in range(0, len(window), size)]
        return torch.cat([roll(self, window[k], steps, None if inputs is None else inputs[k]) for k in groups])

    def extent(self, spacing: Sequence[float]) -> tuple[float, ...]:
        """Physical width of a kernel along each axis: the widest of the linear part's and the networks'."""
        sizes = [self.frame.kernel, *(member.kernel for member in self.members[:1])]
        return tuple((max(axis) - 1) * step for axis, step in zip(zip(*sizes, strict=True), spacing, strict=True))

    def record(self) -> dict[str, Any]:
        """Everything but the arrays, as plain values."""
        return {"surrogate": self.kind, "frame": self.frame.record(), "network": network_record(self.members)}

    @classmethod
    def from_arrays(cls, record: Mapping[str, Any], arrays: Mapping[str, Any], device: Any = "cpu") -> Self:
        """The step that `record` and `arrays` describe."""
        frame = FieldFrame.from_arrays(record["frame"], arrays)
        return cls(frame, read_members(record["network"], arrays, (frame.features, frame.outputs), device))

    def _change(self, features: Tensor, correction: Tensor | None) -> Tensor:
        """The increment (..., *space, C) in the units of the data."""
        frame = self.frame
        if self.linear:
            change = convolve(features, self.matrix, self.offset, frame.kernel, frame.boundary, self.ratio)
        else:
            change = self.offset.expand(*features.shape[:-1], frame.channels)
        if self.polynomial is not None:
            change = change + self.polynomial(features)
        if correction is not None:
            flows = divergence(correction, frame, self.ratio) if frame.conserve == "flux" else correction
            change = change + self.gain * flows
        if frame.conserve != "none":
            axes = tuple(range(change.ndim - 1 - len(self.space), change.ndim - 1))
            change = change - change.mean(dim=axes, keepdim=True)
        return self.channel_scale * (change if self.free else held(change, frame.boundary))


class _Stacked:
    """The step with its members stacked, for rollouts."""

    def __init__(self, step: FieldStep) -> None:
        self.step, self.ensemble = step, FieldEnsemble(step.members).eval()
        self.static = None if step.static is None else step.static.to(step.dtype)

    def advance(self, window: Tensor, inputs: Tensor | None = None) -> Tensor:
        """(..., H, n) and (..., m) -> (..., n)."""
        features = self.step.features(window, inputs)
        each = self.ensemble(features.to(self.step.dtype).unsqueeze(0), static=self.static, ratio=self.step.ratio)
        change = self.step._change(features, each.double().mean(dim=0))
        return self.step._bounded(window[..., -1, :] + self.step.flat(change))
