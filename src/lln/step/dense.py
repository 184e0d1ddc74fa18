"""The step of a state of n coordinates: delay features, closed-form parts, networks, bounds."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lln.core.errors import InputError
from lln.models import LensNetwork
from lln.ops import Flow, LensBlock, StepProgram, Track, marked, track
from lln.ops import Polynomial as Monomials
from lln.ops.cpu.step import serves
from lln.step.base import Box, Step, network_record, read_members
from lln.step.frame import Array, FlowPart, Frame, PolynomialPart, delay_features
from lln.step.parts import part_name


class DenseStep(Step[Frame, Any]):
    """One step of a state of n coordinates; the formula is in `Frame`.

    Arrays of the frame may have leading dimensions that broadcast against those of windows and features, (..., 1, n):
    then one step stands for many that differ in these arrays.

    Args:
        frame: units, delay coordinates, inputs, closed-form parts and bounds.
        members: networks of one shape, F -> n; their mean corrects the closed-form parts.
    """

    kind = "dense"
    mean: Tensor
    scale: Tensor
    floor: Tensor | None
    difference_scale: Tensor | None
    input_mean: Tensor
    input_scale: Tensor
    matrix: Tensor
    offset: Tensor
    gain: Tensor
    low: Tensor | None
    high: Tensor | None

    def __init__(self, frame: Frame, members: Iterable[nn.Module] = ()) -> None:
        super().__init__(frame, members)
        for name, values in zip(("mean", "scale"), frame.units, strict=True):
            self._keep(name, values)
        for name in ("difference_scale", "input_mean", "input_scale", "matrix", "offset", "gain", "low", "high"):
            self._keep(name, getattr(frame, name))
        self._keep("floor", None if frame.logarithm is None else frame.logarithm.floor)
        self.polynomial = None if frame.polynomial is None else PolynomialPart(frame.polynomial).to(self.device)
        self.flow = None if frame.flow is None else FlowPart(frame.flow).to(self.device)
        self.part = None if frame.part is None else copy.deepcopy(frame.part).to(self.device)
        self._merged: tuple[tuple[Any, ...], Self] | None = None
        self._program: tuple[StepProgram | None] | None = None

    def features(self, window: Tensor, inputs: Tensor | None = None) -> Tensor:
        """Windows (..., H, n) and inputs (..., m) -> (..., F)."""
        states = delay_features(self._seen(window), self.mean, self.scale, self.difference_scale)
        if not self.frame.inputs:
            return states
        if inputs is None:
            raise InputError(f"the model needs {self.frame.inputs} inputs, but none were given")
        known = (inputs - self.input_mean) / self.input_scale
        return torch.cat([states, known.expand(*states.shape[:-1], -1)], dim=-1)

    def closed_form(self, features: Tensor) -> Tensor:
        """The increment of the closed-form parts alone, of logarithms where there are: (..., F) -> (..., n)."""
        return self.scale * self._standard(features)

    def increment(self, features: Tensor) -> Tensor:
        """The whole increment, of logarithms where there are: (..., F) -> (..., n)."""
        change = self._standard(features)
        if self.corrected:
            change = change + self.gain * self.correction(features)
        return self.scale * change

    def correction(self, features: Tensor) -> Tensor:
        """The mean of the networks, in float64: (..., F) -> (..., n)."""
        rows = features.to(self.dtype)
        outputs = [network(rows) for network in self.networks]
        total = outputs[0] if len(outputs) == 1 else torch.stack(outputs).sum(dim=0)
        return total.double() / len(outputs)

    def advance(self, window: Tensor, inputs: Tensor | None = None) -> Tensor:
        """The next state, within the bounds: (..., H, n) and (..., m) -> (..., n)."""
        after = self._seen(window[..., -1, :]) + self.increment(self.features(window, inputs))
        after = after if self.floor is None else torch.exp(after)
        return after if self.low is None and self.high is None else torch.clamp(after, self.low, self.high)

    def _seen(self, states: Tensor) -> Tensor:
        """What the step computes with: the states, or their logarithms."""
        return states if self.floor is None else torch.log(torch.maximum(states, self.floor))

    @property
    def angles(self) -> NDArray[np.bool_]:
        """Coordinates that may turn on for ever, (n,): the step depends on them by their sines alone."""
        alone = self.polynomial is None and self.part is None and not (self.linear or self.corrected)
        return self.frame.angles & alone

    def merged(self) -> LensNetwork | None:
        """All lens members as one: the mean of S networks of width h is one network of width S h.

        Rays never mix inside a stack, so members sit side by side and the readout takes their mean. None where members
        are no lens networks.
        """
        lenses = [member for member in self.members if isinstance(member, LensNetwork)]
        if not lenses or len(lenses) < len(self.networks):
            return None
        return merge(lenses)

    def merged_step(self) -> Self:
        """The same step with its lens members merged; kept until the weights change."""
        if not self.corrected:
            return self
        key = tuple((tensor.data_ptr(), tensor._version) for tensor in self.networks.parameters())
        if self._merged is None or self._merged[0] != key:
            whole = self.merged()
            self._merged = (key, self if whole is None else self.replace(members=[whole]))
        return self._merged[1]

    def program(self) -> StepProgram | None:
        """The step as plain arrays for the fused rollout; None where it holds something that the kernel does not know.

        Lens members are merged before; other networks, and arrays with leading dimensions, stay in torch.
        """
        step = self.merged_step()
        if step._program is None:
            step._program = (program_of(step.frame, step.members if step.corrected else ()),)
        return step._program[0]

    def record(self) -> dict[str, Any]:
        """Everything but the arrays, as plain values."""
        return {
            "surrogate": self.kind,
            "frame": {"history": self.frame.history, **self._part_record()},
            "network": network_record(self.members),
        }

    @classmethod
    def from_arrays(cls, record: Mapping[str, Any], arrays: Mapping[str, Any], device: Any = "cpu") -> Self:
        """The step that `record` and `arrays` describe."""
        frame = Frame.from_arrays(record["frame"], arrays)
        return cls(frame, read_members(record["network"], arrays, (frame.features, frame.size), device))

    def _part_record(self) -> dict[str, str]:
        return {} if self.frame.part is None else {"part": part_name(self.frame.part)}

    def _standard(self, features: Tensor) -> Tensor:
        """The standardised increment of the closed-form parts."""
        change = self.offset if not self.linear else features @ self.matrix.mT + self.offset
        if self.polynomial is not None:
            change = change + self.polynomial(features)
        if self.flow is not None:
            states = self.frame.size * self.frame.history
            inputs = features[..., states:] if self.frame.inputs else None
            change = change + self.flow(features[..., : self.frame.size], inputs)
        if self.part is not None:
            change = change + self.part(features)
        return change

    def _fused(self, window: Array, steps: int, inputs: NDArray[Any] | None, box: Box | None = None) -> Track | None:
        program = self.program() if self.device.type == "cpu" else None
        if program is None or not serves(program):
            return None
        known = None
        if program.inputs:
            if inputs is None:
                raise InputError(f"the model needs {program.inputs} inputs, but none were given")
            given = np.asarray(inputs)[..., :steps, :]
            whole = (*window.shape[:-2], *given.shape[-2:])
            known = np.broadcast_to(given, whole).reshape(-1, *given.shape[-2:])
        start, logarithm = window.reshape(-1, *window.shape[-2:]), self.frame.logarithm
        if logarithm is None:
            return track(program if box is None else watching(program, box), start, steps, known)
        found = track(program, logarithm.of(start), steps, known)
        with np.errstate(over="ignore"):  # what overflows has diverged
            states = np.exp(found.states)
        states[:, 0] = start[:, -1]
        return marked(states, None if box is None else box.low, None if box is None else box.high)

    def _roll(self, window: Tensor, steps: int, inputs: Tensor | None) -> Tensor:
        return super(DenseStep, self.merged_step())._roll(window, steps, inputs)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_merged": None, "_program": None}


@lru_cache(maxsize=8)
def watching(program: StepProgram, box: Box) -> StepProgram:
    """The program that notices which states lie outside a box; both are known by what they are, not by their values."""
    return dataclasses.replace(program, watch_low=box.low, watch_high=box.high)


def merge(lenses: list[LensNetwork]) -> LensNetwork:
    """Lens networks of one shape side by side, as the one network that computes their mean."""
    first, part = lenses[0], 1.0 / len(lenses)
    whole = LensNetwork(**{**first.config(), "width": first.width * len(lenses)}, generator=torch.Generator())
    whole.to(first.coefficients.device, first.coefficients.dtype).backend = first.backend
    with torch.no_grad():
        whole.embed_position.weight.copy_(torch.cat([lens.embed_position.weight for lens in lenses]))
        whole.embed_position.bias.copy_(torch.cat([lens.embed_position.bias for lens in lenses]))
        if whole.embed_angle is not None:
            angles = [lens.embed_angle for lens in lenses if lens.embed_angle is not None]
            whole.embed_angle.weight.copy_(torch.cat([angle.weight for angle in angles]))
            whole.embed_angle.bias.copy_(torch.cat([angle.bias for angle in angles]))
        whole.coefficients.copy_(torch.cat([lens.coefficients for lens in lenses], dim=1))
        whole.readout.weight.copy_(torch.cat([lens.readout.weight for lens in lenses], dim=1) * part)
        whole.readout.bias.copy_(torch.stack([lens.readout.bias for lens in lenses]).mean(dim=0))
    return whole.eval().requires_grad_(False)


def program_of(frame: Frame, members: Sequence[nn.Module]) -> StepProgram | None:
    """The program of a frame and of lens networks whose mean corrects it; None if there is no such program."""
    lenses = [member for member in members if type(member) is LensNetwork]
    (mean, scale), logarithm = frame.units, frame.logarithm
    low, high = (
        bound if bound is None or logarithm is None else logarithm.of(bound) for bound in (frame.low, frame.high)
    )
    stacked = frame.matrix.ndim > 2 or frame.offset.ndim > 1 or frame.gain.ndim > 1
    if len(lenses) < len(members) or stacked or frame.part is not None:
        return None
    return StepProgram(
        mean, scale, frame.matrix if frame.matrix.any() else None,
        frame.offset if frame.offset.any() else None, frame.history,
        frame.difference_scale if frame.history > 1 else None, frame.input_mean if frame.inputs else None,
        frame.input_scale if frame.inputs else None, low, high,
        None if frame.polynomial is None else Monomials(frame.polynomial.table, frame.polynomial.weights),
        tuple(_lens(lens, frame.gain / len(lenses)) for lens in lenses), _flow(frame),
    )  # fmt: skip


def _lens(lens: LensNetwork, gain: Array) -> LensBlock:
    angle = lens.embed_angle
    return LensBlock(
        _array(lens.embed_position.weight), _array(lens.embed_position.bias),
        None if angle is None else _array(angle.weight), None if angle is None else _array(angle.bias),
        _array(lens.coefficients), lens.centers, lens.sigma, lens.length, lens.lens_scale, _array(lens.readout.weight),
        _array(lens.readout.bias), gain, "float64" if lens.coefficients.dtype == torch.float64 else "float32",
    )  # fmt: skip


def _flow(frame: Frame) -> Flow | None:
    """The vector field; its factors behind the states are inputs and functions, which follow all lags."""
    flow = frame.flow
    if flow is None:
        return None
    table = _behind_lags(flow.polynomial.table, 1, frame)
    field = Monomials(table, flow.polynomial.weights, flow.offset)
    if flow.functions is None:
        return Flow(field, 1.0, flow.substeps)
    return Flow(field, 1.0, flow.substeps, _behind_lags(flow.functions.table, 0, frame), flow.functions.arguments)


def _behind_lags(table: NDArray[np.int64], column: int, frame: Frame) -> NDArray[np.int64]:
    moved = table.copy()
    moved[moved[:, column] >= frame.size, column] += frame.size * (frame.history - 1)
    return moved


def _array(tensor: Tensor) -> Array:
    values: Array = tensor.detach().cpu().double().numpy()
    return values
