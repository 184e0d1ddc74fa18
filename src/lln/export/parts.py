"""What every export needs of a surrogate: its networks as plain arrays, and the float64 rollout to be compared with.

Rounding in float64 sets the scale of that comparison. A sum of k products, computed in any order, is the exact sum of
products whose weights differ by at most k units of rounding. So every weight is moved by that much, with a random sign,
and every state by one unit.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lln.core.errors import InputError, choice
from lln.models import (
    FIELD_MODELS,
    MODELS,
    LayerScaleMLP,
    LensNetwork,
    PlainMLP,
    ResidualBatchNormMLP,
    ResidualMLP,
    ScaledResidualMLP,
)
from lln.models.field import FieldBlock, FieldLensNetwork
from lln.step.frame import Array, Frame, float64_of
from lln.step.step import AnyStep, roll

CHECKED_STEPS = 50
CHECKED_STARTS = 4
_UNIT = float(np.finfo(np.float64).eps)
_DRAWS = 4  # of rounding; the largest difference counts
_FRAME = ("difference_scale", "matrix", "offset", "gain", "static")


@dataclass(frozen=True, eq=False)
class LinearLayer:
    """``x -> weight x + bias``: weight (out, in), bias (out,), in float64 with the network's own values."""

    weight: Array
    bias: Array

    @classmethod
    def of(cls, layer: nn.Linear) -> LinearLayer:
        """The arrays of a torch layer."""
        return cls(float64_of(layer.weight), float64_of(layer.bias))


@dataclass(frozen=True, eq=False)
class LensArrays:
    """The lenses that rays pass (symbols: see `LensNetwork`)."""

    coefficients: Array  #: (D, h, K).
    centers: tuple[float, ...]  #: control points, K.
    sigma: float  #: width of the Gaussians.
    length: float  #: flight between two lenses.
    scale: float  #: of every refraction.
    double: bool  #: whether lenses are computed in float64; else in float32.

    @property
    def rays(self) -> int:
        """Number of rays h."""
        return int(self.coefficients.shape[1])

    @property
    def bends(self) -> bool:
        """Whether any lens can be seen in the output: with one layer, or a scale of zero, none can."""
        return len(self.coefficients) > 1 and self.scale != 0.0


@dataclass(frozen=True, eq=False)
class LensStack:
    """A lens network: all members as one, or one block of a field network."""

    position: LinearLayer  #: embedding of the positions, F -> h.
    angle: LinearLayer | None  #: embedding of the angles before tanh; None where rays start flat.
    optics: LensArrays  #: the lenses.
    readout: LinearLayer  #: h -> n.


@dataclass(frozen=True, eq=False)
class FieldStack:
    """One member of a field model."""

    blocks: tuple[LensStack, ...]  #: each a lens stack at every point, whose linear maps take the patch around it.
    kernel: tuple[int, ...]  #: of all convolutions, points along each axis.


@dataclass(frozen=True, eq=False)
class DenseStack:
    """One comparator: ``z = relu(embedding x)``, D layers, a readout; all sums and factors in float64.

    A layer is ``z = kept z + gain_l relu(factor_l layer_l z + shift_l)``.
    """

    embedding: LinearLayer  #: F -> h.
    layers: tuple[LinearLayer, ...]  #: h -> h each.
    #: factors and shifts (D, 2, h), which batch normalisation amounts to after training; None without it.
    norms: Array | None
    gains: Array  #: (D, h).
    kept: bool  #: 1 for residual networks, 0 for the plain one.
    readout: LinearLayer  #: h -> n.


Stack = LensStack | DenseStack


def stacks(surrogate: AnyStep) -> tuple[Stack, ...]:
    """The networks whose mean corrects the frame: one for all lens members, one for each comparator, or none."""
    check_exportable(surrogate)
    if surrogate.frame.part is not None:
        raise InputError("closed-form parts of other packages have no export to C or ONNX; use format='torch'")
    if not surrogate.corrected:
        return ()
    # In float64, so that the division by the number of members rounds once, in the precision of the export.
    merged = surrogate.to_dtype(torch.float64).merged()
    if merged is not None:
        return (_lens(merged, merged.readout, surrogate.dtype == torch.float64),)
    return tuple(_dense(member) for member in surrogate.members)


def _lens(network: LensNetwork | FieldBlock, readout: nn.Linear, double: bool) -> LensStack:
    constants = (network.centers, network.sigma, network.length, network.lens_scale)
    return LensStack(
        LinearLayer.of(network.embed_position),
        None if network.embed_angle is None else LinearLayer.of(network.embed_angle),
        LensArrays(float64_of(network.coefficients), *constants, double),
        LinearLayer.of(readout),
    )


def field_stacks(surrogate: AnyStep) -> tuple[FieldStack, ...]:
    """The field networks whose mean corrects the frame, or none."""
    check_exportable(surrogate)
    if not surrogate.corrected:
        return ()
    return tuple(_field(member) for member in surrogate.members)


def _field(network: FieldLensNetwork) -> FieldStack:
    reads = [layer for layer in (*network.between, network.readout) if isinstance(layer, nn.Linear)]
    blocks = [block for block in network.blocks if isinstance(block, FieldBlock)]
    double = blocks[0].coefficients.dtype == torch.float64
    return FieldStack(
        tuple(_lens(block, read, double) for block, read in zip(blocks, reads, strict=True)), network.kernel
    )


def _dense(network: nn.Module) -> DenseStack:
    assert isinstance(network, PlainMLP)
    layers = tuple(LinearLayer.of(layer) for layer in network.hidden if isinstance(layer, nn.Linear))
    norms = None
    if isinstance(network, ResidualBatchNormMLP):
        norms = np.stack([_affine(norm) for norm in network.norms if isinstance(norm, nn.BatchNorm1d)])
    gains = np.ones((network.depth, network.width))
    if isinstance(network, ScaledResidualMLP):
        gains /= np.sqrt(network.depth)
    elif isinstance(network, LayerScaleMLP):
        gains = float64_of(network.gamma)
    kept = isinstance(network, ResidualMLP)
    return DenseStack(LinearLayer.of(network.embedding), layers, norms, gains, kept, LinearLayer.of(network.readout))


def _affine(norm: nn.BatchNorm1d) -> Array:
    """Factor and shift, (2, h)."""
    if norm.running_mean is None or norm.running_var is None:
        raise InputError("a batch normalisation without running statistics has no export; train it with them")
    factor = float64_of(norm.weight) / np.sqrt(float64_of(norm.running_var) + norm.eps)
    return np.stack([factor, float64_of(norm.bias) - float64_of(norm.running_mean) * factor])


def check_exportable(step: AnyStep) -> None:
    """Refuse a step with networks that are not lln's own."""
    for network in step.networks if step.corrected else ():
        if type(network) not in (*MODELS.values(), *FIELD_MODELS.values()):
            raise InputError(
                f"{type(network).__name__} has no export; lens networks and lln's own comparators have one"
            )


@dataclass(frozen=True)
class Difference:
    """How far an export is from the float64 rollout, in standard deviations of the state."""

    what: str  #: the export, as its reader knows it.
    steps: int  #: length of the rollouts compared.
    export: float  #: largest difference of the export.
    #: largest difference of PyTorch in float32; of a step that is float64 throughout, the largest one that rounding may
    #: cause (see `rounded_rollout`).
    torch: float
    double: bool = False  #: whether the step is float64 throughout.

    def __str__(self) -> str:
        usual = "rounding in float64" if self.double else "PyTorch in float32"
        return (
            f"{self.what}: at most {self.export:.1e} standard deviations from the float64 rollout over {self.steps} "
            f"steps ({usual}: {self.torch:.1e})"
        )


@dataclass(frozen=True, eq=False)
class Probe:
    """Starts to compare rollouts from: window (B, H, n) and the inputs of every step, (B, steps, m) or None."""

    window: Array
    inputs: Array | None
    steps: int

    @classmethod
    def of(cls, surrogate: AnyStep, window: Array | None = None) -> Probe:
        """Starts near `window`, (H, n); where none is given, near the mean of the training states."""
        frame, source = surrogate.frame, np.random.default_rng(0)
        apart = source.standard_normal((CHECKED_STARTS, 1, frame.size)) * (0.05 if window is not None else 0.5)
        paths = frame.mean + frame.scale * apart
        if window is None:
            drawn = source.standard_normal((CHECKED_STARTS, frame.history - 1, frame.size))
            apart = np.repeat(frame.difference_scale, frame.size // max(frame.difference_scale.shape[1], 1), axis=1)
            drawn = drawn * apart[::-1] * frame.scale
            later = np.cumsum(drawn[:, ::-1], axis=1)[:, ::-1]
            paths = np.concatenate([paths - later, paths], axis=1)
        else:
            paths = np.asarray(window, dtype=np.float64) + paths - frame.mean
        shape = (CHECKED_STARTS, CHECKED_STEPS, frame.inputs)
        inputs = frame.input_mean + frame.input_scale * source.standard_normal(shape)
        return cls(paths, inputs if frame.inputs else None, CHECKED_STEPS)

    def rolled(self, step: Callable[[dict[str, Array]], Array]) -> Array:
        """The states (B, steps, n) by `step`, which gets `window` (B, H, n) and, if there are any, `inputs` (B, m)."""
        window, rows = self.window, []
        for k in range(self.steps):
            rows.append(step({"window": window} | ({} if self.inputs is None else {"inputs": self.inputs[:, k]})))
            window = np.concatenate([window[:, 1:], rows[-1][:, None]], axis=1)
        return np.stack(rows, axis=1)

    def compare(self, what: str, surrogate: AnyStep, exported: Array) -> Difference:
        """Hold the export's states (B, steps, n) against the float64 rollout, beside the usual rounding."""
        double, scale = surrogate.dtype == torch.float64, surrogate.frame.scale
        truth = surrogate.to_dtype(torch.float64).rollout(self.window, self.steps, self.inputs)
        usual = (
            [rounded_rollout(surrogate, self, draw) for draw in range(_DRAWS)]
            if double
            else [_in_torch(surrogate.to_dtype(torch.float32), self)]
        )
        export, *others = (float(np.abs((states - truth) / scale).max(initial=0.0)) for states in (exported, *usual))
        return Difference(what, self.steps, export, max(others), double)


def _in_torch(step: AnyStep, probe: Probe) -> Array:
    """The rollout step by step in PyTorch: `rollout` may use a fused kernel, which rounds in its own way."""
    window, device = torch.from_numpy(probe.window), step.device
    known = None if probe.inputs is None else torch.from_numpy(probe.inputs).to(device)
    states: Array = roll(step.merged_step(), window.to(device), probe.steps, known).cpu().numpy()
    return states


def rounded_rollout(step: AnyStep, probe: Probe, seed: int = 0) -> Array:
    """A rollout like those that other code may compute from the same float64 weights."""
    source = np.random.default_rng(seed)

    def moved(values: Any) -> Any:
        if values is None:
            return None
        terms = values.shape[-1] if np.ndim(values) > 1 else 1
        return values * (1.0 + terms * _UNIT * source.uniform(-1.0, 1.0, values.shape))

    members = [_network(copy.deepcopy(member).cpu(), moved) for member in step.members]
    twin = step.replace(frame=_frame(step.frame, moved), members=members)

    def stepped(feed: dict[str, Array]) -> Array:
        now = feed["inputs"][:, None] if "inputs" in feed else None
        states = twin.rollout(feed["window"], 1, now)[:, 0]
        return states * (1.0 + _UNIT * source.uniform(-1.0, 1.0, states.shape))

    return probe.rolled(stepped)


def _frame(frame: Any, moved: Callable[[Any], Any]) -> Any:
    changed = {name: moved(getattr(frame, name)) for name in _FRAME if hasattr(frame, name)}
    if frame.polynomial is not None:
        changed["polynomial"] = replace(frame.polynomial, weights=moved(frame.polynomial.weights))
    if isinstance(frame, Frame) and frame.flow is not None:
        field = replace(frame.flow.polynomial, weights=moved(frame.flow.polynomial.weights))
        functions = frame.flow.functions
        if functions is not None:
            functions = replace(functions, arguments=moved(functions.arguments))
        changed["flow"] = replace(frame.flow, polynomial=field, offset=moved(frame.flow.offset), functions=functions)
    return replace(frame, **changed)


def _network(network: Any, moved: Callable[[Array], Array]) -> Any:
    with torch.no_grad():
        for parameter in network.parameters():
            values: Tensor = torch.from_numpy(moved(parameter.double().numpy()))
            parameter.copy_(values)
    return network


EXPORTS = ("onnx", "c", "torch")
_SUFFIXES = {".onnx": "onnx", ".pt2": "torch", "": "c"}


def export_format(path: str | os.PathLike[str], format: str | None = None) -> str:  # noqa: A002
    """The format of an export: the given one, or that of the ending of `path`."""
    kind = _SUFFIXES.get(Path(path).suffix.lower()) if format is None else choice("format", format, EXPORTS)
    if kind is None:
        raise InputError(f"{path}: unknown ending; use .onnx, .pt2 or, for C, a folder, or give a format")
    return kind


def export_step(
    step: AnyStep,
    path: str | os.PathLike[str],
    format: str | None,  # noqa: A002
    names: dict[str, Any],
    **options: Any,
) -> Any:
    """Write a step in the format that `export_format` finds; `names` are the words of ONNX and C for columns."""
    kind = export_format(path, format)
    if kind == "torch":
        from lln.export.torch import export_torch

        return export_torch(step, path, **options)
    if kind == "onnx":
        from lln.export.onnx import export_onnx

        return export_onnx(step, path, **names, **options)
    from lln.export.c.export import export_c

    return export_c(step, path, **names, **options)
