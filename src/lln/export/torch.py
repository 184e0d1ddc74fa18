"""A surrogate's step through `torch.export`: a .pt2 file of plain torch operations that loads without lln."""

from __future__ import annotations

import io
import os
import warnings
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from lln.core.atomic import whole_file
from lln.core.folders import output_folder
from lln.export.parts import Difference, Probe, in_float32
from lln.models import LensNetwork
from lln.models.base import StateNetwork
from lln.ops import reference
from lln.step.field_surrogate import FieldSurrogate
from lln.step.frame import Array
from lln.step.surrogate import Surrogate


class StepModule(nn.Module):
    """One step as a torch module: window (B, H, n) and inputs (B, m) -> the next state (B, n), all in float64."""

    mean: Tensor
    scale: Tensor
    difference_scale: Tensor
    input_mean: Tensor
    input_scale: Tensor
    matrix: Tensor
    offset: Tensor
    gain: Tensor

    def __init__(self, surrogate: Surrogate) -> None:
        super().__init__()
        frame = surrogate.frame
        self.history, self.linear = frame.history, bool(frame.matrix.any())
        for name, values in frame.arrays().items():
            if values.size:  # torch.export cannot save an empty tensor
                self.register_buffer(name, torch.from_numpy(np.array(values, dtype=np.float64)))
        single = in_float32(surrogate)
        merged = single.merged()
        networks: list[StateNetwork] = list(single.members) if merged is None else [merged]
        self.networks = nn.ModuleList(networks if frame.gain.any() else [])
        self.eval()
        for parameter in self.parameters():
            parameter.requires_grad_(False)

    def forward(self, window: Tensor, inputs: Tensor | None = None) -> Tensor:
        """The next state."""
        z = (window - self.mean) / self.scale
        parts = [z[:, -1]]
        parts += [(z[:, -j] - z[:, -j - 1]) / self.difference_scale[j - 1] for j in range(1, self.history)]
        if inputs is not None:
            parts.append((inputs - self.input_mean) / self.input_scale)
        features = torch.cat(parts, dim=-1)
        change = self.offset + features @ self.matrix.T if self.linear else self.offset
        if len(self.networks):
            rows = features.float()
            outputs = [_plain(network, rows).double() for network in self.networks]
            change = change + self.gain * torch.stack(outputs).mean(dim=0)
        return window[:, -1] + self.scale * change


class FieldStepModule(nn.Module):
    """One step of a field model: flat windows (B, H, n) and inputs (B, m) -> the next state (B, n), in float64."""

    def __init__(self, surrogate: FieldSurrogate) -> None:
        super().__init__()
        single = in_float32(surrogate)
        self.frame = surrogate.frame
        self.networks = nn.ModuleList(single.members if surrogate.frame.gain.any() else [])
        for network in single.members:
            network.backend = "reference"
        self.eval().requires_grad_(False)

    def forward(self, window: Tensor, inputs: Tensor | None = None) -> Tensor:
        """The next state."""
        frame = self.frame
        grid = window.reshape(-1, frame.history, frame.channels, *frame.space).movedim(2, -1)
        features = frame.feature_fields(list(grid.unbind(1)), inputs)
        correction = None
        if len(self.networks):
            rows, static = features.float(), None
            if frame.static is not None:
                static = torch.from_numpy(frame.static).float()
            outputs = [network(rows, static=static).double() for network in self.networks]
            correction = torch.stack(outputs).mean(dim=0)
        moved = grid[:, -1] + frame.change(features, correction)
        return moved.movedim(-1, 1).reshape(-1, frame.size)


def _plain(network: nn.Module, rows: Tensor) -> Tensor:
    """The network in operations of torch alone: lln's own operator would have to be installed where the file runs."""
    if not isinstance(network, LensNetwork):
        out: Tensor = network(rows)
        return out
    rays = network.embed(rows)
    y, _ = reference.lens_transport(
        *rays, network.coefficients, network.centers, network.sigma, network.length, network.lens_scale
    )
    read: Tensor = network.readout(y)
    return read


def export_torch(
    surrogate: Surrogate | FieldSurrogate, path: str | os.PathLike[str], *, window: Array | None = None
) -> Difference:
    """Write the step as an `ExportedProgram` with a dynamic batch, read it back, and compare rollouts.

    Args:
        surrogate: what to write.
        path: the file, usually .pt2.
        window: a start to compare from, (H, n); near the training mean if left out.
    """
    probe, target = Probe.of(surrogate, window), Path(path)
    example = {"window": torch.from_numpy(probe.window)}
    if probe.inputs is not None:
        example["inputs"] = torch.from_numpy(probe.inputs[:, 0].copy())
    module = FieldStepModule(surrogate) if isinstance(surrogate, FieldSurrogate) else StepModule(surrogate)
    batch = {0: torch.export.Dim("batch", min=1)}
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, about its own archives
        shapes = dict.fromkeys(example, batch)
        program = torch.export.export(module, (), example, dynamic_shapes=shapes)
        output_folder(target.parent)
        content = io.BytesIO()
        torch.export.save(program, content)
        with whole_file(target) as partial:
            partial.write_bytes(content.getvalue())
        step = torch.export.load(target).module()
        states = _rollout(step, probe)
    return probe.compare(target.name, surrogate, states)


def _rollout(step: nn.Module, probe: Probe) -> Array:
    window, rows = torch.from_numpy(probe.window), []
    for k in range(probe.steps):
        known = {} if probe.inputs is None else {"inputs": torch.from_numpy(probe.inputs[:, k].copy())}
        rows.append(step(window=window, **known))
        window = torch.cat([window[:, 1:], rows[-1].unsqueeze(1)], dim=1)
    states: Array = torch.stack(rows, dim=1).numpy()
    return states
