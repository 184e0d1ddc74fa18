"""The step of a `StepProgram` in plain torch: the readable implementation, and the one that runs on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from lln.ops.transport import lens_transport

if TYPE_CHECKING:
    from lln.ops.step_program import Array, Flow, LensBlock, Polynomial, StepProgram

Increment = Callable[[Tensor], Tensor]  # features (B, F) -> standardised increment (B, n)

GRAPH_STEPS = 32  # steps of one captured CUDA graph


class TorchStep:
    """One step on a device, in float64.

    Args:
        program: the arrays.
        device: where the step runs.
        backend: implementation of the lens transport.
    """

    def __init__(self, program: StepProgram, device: torch.device | str = "cpu", backend: str = "auto") -> None:
        self.program, self.device = program, torch.device(device)
        self.mean, self.scale = self._array(program.mean), self._array(program.scale)
        self.parts: list[Increment] = [self._lens(block, backend) for block in program.lenses]
        if program.polynomial is not None:
            self.parts.append(self._polynomial(program.polynomial))
        if program.flow is not None:
            self.parts.append(self._flow(program.flow))
        self.matrix = None if program.matrix is None else self._array(program.matrix).mT
        self.offset = None if program.offset is None else self._array(program.offset)
        if program.difference_scale is not None:
            self.differences = self._array(program.difference_scale)
        if program.input_mean is not None and program.input_scale is not None:
            self.input_mean, self.input_scale = self._array(program.input_mean), self._array(program.input_scale)
        self.low = None if program.low is None else self._array(program.low)
        self.high = None if program.high is None else self._array(program.high)

    def features(self, window: Tensor, inputs: Tensor | None) -> Tensor:
        """Features (B, F) of windows (B, H, n), oldest first, and inputs (B, m)."""
        z = (window - self.mean) / self.scale
        parts = [z[:, -1]]
        parts += [(z[:, -j] - z[:, -j - 1]) / self.differences[j - 1] for j in range(1, self.program.history)]
        if inputs is not None and self.program.inputs:
            parts.append((inputs - self.input_mean) / self.input_scale)
        return torch.cat(parts, dim=-1)

    def __call__(self, window: Tensor, inputs: Tensor | None = None) -> Tensor:
        """The state (B, n) after windows (B, H, n)."""
        features = self.features(window, inputs)
        change = torch.zeros_like(window[:, -1])
        if self.matrix is not None:
            change = change + features @ self.matrix
        if self.offset is not None:
            change = change + self.offset
        for part in self.parts:
            change = change + part(features)
        after = window[:, -1] + self.scale * change
        return after if self.low is None and self.high is None else torch.clamp(after, self.low, self.high)

    def _array(self, values: Any, dtype: torch.dtype = torch.float64) -> Tensor:
        return torch.as_tensor(np.asarray(values)).to(self.device, dtype)

    def _polynomial(self, polynomial: Polynomial) -> Increment:
        weights = self._array(polynomial.weights).mT
        offset = None if polynomial.offset is None else self._array(polynomial.offset)
        table = polynomial.monomials.tolist()

        def increment(features: Tensor) -> Tensor:
            columns: list[Tensor] = []
            for parent, feature in table:
                column = features[:, feature]
                columns.append(column if parent < 0 else columns[parent] * column)
            empty = features.new_empty(len(features), 0)
            value = (torch.stack(columns, dim=-1) if columns else empty) @ weights
            return value if offset is None else value + offset

        return increment

    def _flow(self, flow: Flow) -> Increment:
        size, h = self.program.size, flow.dt / flow.substeps
        field = self._polynomial(flow.field)

        def increment(features: Tensor) -> Tensor:
            start, rest = features[:, :size], features[:, size:]

            def slope(z: Tensor) -> Tensor:
                return field(torch.cat([z, rest], dim=-1))

            z = start
            for _ in range(flow.substeps):
                k1 = slope(z)
                k2 = slope(z + h / 2 * k1)
                k3 = slope(z + h / 2 * k2)
                k4 = slope(z + h * k3)
                z = z + h / 6 * (k1 + 2 * (k2 + k3) + k4)
            return z - start

        return increment

    def _lens(self, block: LensBlock, backend: str) -> Increment:
        dtype = torch.float32 if block.precision == "float32" else torch.float64
        position, bias = self._array(block.position_weight, dtype), self._array(block.position_bias, dtype)
        angle = None if block.angle_weight is None else self._array(block.angle_weight, dtype)
        angle_bias = None if block.angle_bias is None else self._array(block.angle_bias, dtype)
        lenses, readout = self._array(block.coefficients, dtype), self._array(block.readout, dtype)
        out_bias, gain = self._array(block.bias, dtype), self._array(block.gain)
        optics = (block.centers, block.sigma, block.length, block.strength)

        def increment(features: Tensor) -> Tensor:
            rows = features.to(dtype)
            y = torch.addmm(bias, rows, position.mT)
            theta = torch.zeros_like(y)
            if angle is not None and angle_bias is not None:
                theta = torch.tanh(torch.addmm(angle_bias, rows, angle.mT))
            y, _ = lens_transport(y, theta, lenses, *optics, backend=backend)
            return gain * torch.addmm(out_bias, y, readout.mT).double()

        return increment


def roll(
    program: StepProgram,
    window: Array,
    steps: int,
    inputs: Array | None = None,
    *,
    device: torch.device | str = "cpu",
    backend: str = "auto",
) -> Array:
    """The states (B, steps, n) after windows (B, H, n), one step after the other; not finite where they diverge."""
    step = TorchStep(program, device, backend)
    past = torch.as_tensor(np.asarray(window, np.float64)).to(step.device)
    known = None if inputs is None else torch.as_tensor(np.asarray(inputs, np.float64)).to(step.device)
    with torch.no_grad():
        run = _as_graph if step.device.type == "cuda" else _one_by_one
        states: Array = run(step, past, steps, known).cpu().numpy()
    return states


def _one_by_one(step: TorchStep, window: Tensor, steps: int, inputs: Tensor | None) -> Tensor:
    states = window.new_full((window.shape[0], steps, window.shape[2]), torch.nan)
    for k in range(steps):
        state = step(window, None if inputs is None else inputs[:, k])
        states[:, k] = state
        if not bool(torch.isfinite(state).all(dim=-1).any()):
            break
        window = torch.cat([window[:, 1:], state[:, None]], dim=1)
    return states


def _as_graph(step: TorchStep, window: Tensor, steps: int, inputs: Tensor | None) -> Tensor:
    """Capture a run of steps once and replay it; ask once per run whether every start has diverged."""
    count = min(GRAPH_STEPS, steps)
    past = window.clone()
    run = past.new_empty(past.shape[0], count, past.shape[2])
    known = None if inputs is None else inputs.new_zeros(inputs.shape[0], count, inputs.shape[2])

    def play() -> None:
        now = past
        for k in range(count):
            state = step(now, None if known is None else known[:, k])
            run[:, k] = state
            now = torch.cat([now[:, 1:], state[:, None]], dim=1)
        past.copy_(now)

    aside = torch.cuda.Stream(step.device)
    aside.wait_stream(torch.cuda.current_stream(step.device))
    with torch.cuda.stream(aside):
        play()  # compiles kernels and fills caches, which a capture must not
    torch.cuda.current_stream(step.device).wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        play()
    past.copy_(window)
    states = past.new_full((past.shape[0], steps, past.shape[2]), torch.nan)
    for first in range(0, steps, count):
        size = min(count, steps - first)
        if known is not None and inputs is not None:
            known[:, :size] = inputs[:, first : first + size]
        graph.replay()
        states[:, first : first + size] = run[:, :size]
        if not bool(torch.isfinite(past).all(dim=-1).any()):
            break
    return states
