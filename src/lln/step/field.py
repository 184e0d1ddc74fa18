"""The step of fields on a grid: features at every point, closed-form parts and networks that all points share.

Flat states (..., n) run through the channels, and within a channel through space in C order. Inside, a field is
(..., *space, C), channels last.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lln.core.errors import InputError
from lln.models.convolution import convolve, whole_steps
from lln.models.field import FieldEnsemble, FieldLensNetwork
from lln.ops import LensBlock
from lln.ops.cpu.fields import FieldRun, Layout, serves
from lln.step.field_frame import FieldFrame, as_fields, divergence, held, point_features
from lln.step.frame import Array, PolynomialPart
from lln.step.step import Step, lens_block, network_record, read_members, roll

_FEW_POINTS = 1024  # of a batch on a CPU; beyond, arithmetic takes longer than calls, and members run one by one
_PRECISIONS = ("torch.float32", "torch.float64")  # that the kernel has
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
        size = max(1, _GROUP // math.prod(self.space))
        if window.is_cuda or window.ndim != 3 or len(window) <= size:
            return roll(self._repeated(window), window, steps, inputs)
        groups = [slice(first, first + size) for first in range(0, len(window), size)]
        parts = [(window[k], None if inputs is None else inputs[k]) for k in groups]
        return torch.cat([roll(self._repeated(part), part, steps, known) for part, known in parts])

    def _repeated(self, window: Tensor) -> FieldStep | _Rolled:
        """What a rollout of these windows repeats: the step with a faster way through its networks where there is one.

        On a CPU that is a kernel; on a GPU, and for few points without the kernel, all members go through in one pass.
        """
        batch = math.prod(window.shape[:-2])
        if not (self.corrected and batch):
            return self
        if (layout := self._layout()) is not None:
            return _Rolled(self, _fused(self, layout, batch))
        few = window.is_cuda or batch * math.prod(self.space) <= _FEW_POINTS
        return _Rolled(self, _stacked(self)) if few and len(self.networks) > 1 else self

    def _layout(self) -> Layout | None:
        """Of the grid for the kernel of field networks; None where it does not serve."""
        first, steps = self.members[0], whole_steps(self.ratio, len(self.space))
        known = self.device.type == "cpu" and all(type(member) is FieldLensNetwork for member in self.members)
        if not known or steps is None or first.backend not in ("auto", "cpu") or str(self.dtype) not in _PRECISIONS:
            return None
        if not serves(_blocks(first)):
            return None
        return Layout.of(self.space, first.kernel, steps, first.boundary)

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


class _Rolled:
    """The step with another way through its networks, for rollouts."""

    def __init__(self, step: FieldStep, correction: Callable[[Tensor], Tensor]) -> None:
        self.step, self.correction = step, correction

    def advance(self, window: Tensor, inputs: Tensor | None = None) -> Tensor:
        """(..., H, n) and (..., m) -> (..., n)."""
        features = self.step.features(window, inputs)
        change = self.step._change(features, self.correction(features))
        return self.step._bounded(window[..., -1, :] + self.step.flat(change))


def _stacked(step: FieldStep) -> Callable[[Tensor], Tensor]:
    """The correction by all members in one pass."""
    ensemble = FieldEnsemble(step.members).eval()
    static = None if step.static is None else step.static.to(step.dtype)

    def correction(features: Tensor) -> Tensor:
        each: Tensor = ensemble(features.to(step.dtype).unsqueeze(0), static=static, ratio=step.ratio)
        return each.double().mean(dim=0)

    return correction


def _fused(step: FieldStep, layout: Layout, batch: int) -> Callable[[Tensor], Tensor]:
    """The correction by the kernel of field networks, for so many fields."""
    networks = FieldRun([_blocks(member) for member in step.members], layout, batch, torch.get_num_threads())

    def correction(features: Tensor) -> Tensor:
        lead = features.shape[:-1]
        if step.static is not None:
            features = torch.cat((features, step.static.expand(*lead, -1)), dim=-1)
        found = networks(features.reshape(batch, *step.space, -1).numpy())
        return torch.from_numpy(found).reshape(*lead, -1)

    return correction


def _blocks(network: FieldLensNetwork) -> list[LensBlock]:
    """The blocks of a network as plain arrays."""
    pairs = [(network.block(index), network.reader(index)) for index in range(len(network.blocks))]
    return [lens_block(block, reader, np.ones(reader.out_features)) for block, reader in pairs]
