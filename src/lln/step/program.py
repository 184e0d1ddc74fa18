"""A dense step as the arrays of a `StepProgram`, which a fused kernel rolls out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lln.models import LensNetwork
from lln.ops import Flow, LensBlock, StepProgram
from lln.ops import Polynomial as Monomials
from lln.step.frame import Frame
from lln.step.polynomial import Array


def program_of(frame: Frame, members: Sequence[nn.Module]) -> StepProgram | None:
    """The program of a frame and of lens networks whose mean corrects it; None if there is no such program."""
    lenses = [member for member in members if type(member) is LensNetwork]
    stacked = frame.matrix.ndim > 2 or frame.offset.ndim > 1 or frame.gain.ndim > 1
    if len(lenses) < len(members) or stacked or frame.part is not None:
        return None
    return StepProgram(
        frame.mean, frame.scale, frame.matrix if frame.matrix.any() else None, frame.offset, frame.history,
        frame.difference_scale if frame.history > 1 else None, frame.input_mean if frame.inputs else None,
        frame.input_scale if frame.inputs else None, frame.low, frame.high,
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
    """The vector field; its factors behind the states are inputs, which are the last features."""
    if frame.flow is None:
        return None
    table: NDArray[np.int64] = frame.flow.polynomial.table.copy()
    table[table[:, 1] >= frame.size, 1] += frame.size * (frame.history - 1)
    return Flow(Monomials(table, frame.flow.polynomial.weights, frame.flow.offset), 1.0, frame.flow.substeps)


def _array(tensor: Tensor) -> Array:
    values: Array = tensor.detach().cpu().double().numpy()
    return values
