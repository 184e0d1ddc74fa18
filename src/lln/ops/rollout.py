"""Whole rollouts: embedding, stack, readout, scaling and increments closed into a loop, as one kernel or one graph.

S ensemble members with parameters of their own are rolled out together, each from its own starts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from lln.core.errors import InputError, check_memory
from lln.ops.backends import Call, resolve
from lln.ops.cpu import rollout as cpu_rollout
from lln.ops.grid import Grid
from lln.ops.transport import lens_transport

_GRAPH_STEPS = 25  # steps of one captured CUDA graph


@dataclass(frozen=True)
class Scaling:
    """What surrounds a network: it sees (x - mean) / deviation, and its output counts as output * factor + shift.

    Each is (n,), or (S, n) for members that differ.
    """

    mean: Tensor
    deviation: Tensor
    factor: Tensor
    shift: Tensor


@dataclass(frozen=True)
class Networks:
    """The parameters of S lens networks of one shape, stacked along the first dimension.

    Attributes:
        position_weight: W_y, (S, h, n).
        position_bias: b_y, (S, h).
        angle_weight: W_theta, (S, h, n); None starts all angles at zero.
        angle_bias: b_theta, (S, h); None with `angle_weight`.
        coefficients: (S, D, h, K).
        readout_weight: W_o, (S, m, h).
        readout_bias: b_o, (S, m).
        centers: the K control points.
        sigma: width of the Gaussians.
        length: propagation distance L of one layer.
        scale: lens scale s.
        backend: which implementation of the transport serves.
    """

    position_weight: Tensor
    position_bias: Tensor
    angle_weight: Tensor | None
    angle_bias: Tensor | None
    coefficients: Tensor
    readout_weight: Tensor
    readout_bias: Tensor
    centers: tuple[float, ...]
    sigma: float
    length: float
    scale: float
    backend: str = "auto"

    def __call__(self, x: Tensor) -> Tensor:
        """Every network on its own input: (S, B, n) -> (S, B, m)."""
        return torch.baddbmm(self.readout_bias.unsqueeze(1), self.positions(x), self.readout_weight.mT)

    def positions(self, x: Tensor) -> Tensor:
        """Where the rays end, the input of the readout: (S, B, n) -> (S, B, h)."""
        y = torch.baddbmm(self.position_bias.unsqueeze(1), x, self.position_weight.mT)
        theta = torch.zeros_like(y)
        if self.angle_weight is not None and self.angle_bias is not None:
            theta = torch.tanh(torch.baddbmm(self.angle_bias.unsqueeze(1), x, self.angle_weight.mT))
        optics = (self.centers, self.sigma, self.length, self.scale)
        return lens_transport(y, theta, self.coefficients, *optics, backend=self.backend)[0]


def rollout(
    networks: Networks, starts: Tensor, steps: int, *, increments: bool = False, scaling: Scaling | None = None
) -> Tensor:
    """Feed every network with its own output, without gradients.

    Args:
        networks: S networks from n coordinates to n.
        starts: (S, B, n).
        steps: how many.
        increments: whether the output is added to the state instead of replacing it.
        scaling: units of input and output; None leaves them alone.

    Returns:
        The states after every step, (S, steps, B, n).
    """
    members, width, size = networks.position_weight.shape
    if networks.readout_weight.shape[1] != size:
        raise InputError(
            f"a rollout feeds the output back as input, but the network maps {size} coordinates to "
            f"{networks.readout_weight.shape[1]}"
        )
    if starts.ndim != 3 or starts.shape[0] != members or starts.shape[2] != size:
        raise InputError(f"starts must have shape ({members}, B, {size}), got {tuple(starts.shape)}")
    if starts.device.type == "cpu":
        check_memory(f"a rollout of {steps:,} steps", (steps, *starts.shape), size=starts.element_size())

    def step(x: Tensor) -> Tensor:
        if scaling is None:
            out = networks(x)
        else:
            seen = (x - _rows(scaling.mean)) / _rows(scaling.deviation)
            out = networks(seen) * _rows(scaling.factor) + _rows(scaling.shift)
        return x + out if increments else out

    if not starts.numel():
        return starts.new_empty(members, steps, *starts.shape[1:])
    with torch.no_grad():
        rays = starts.new_empty(members, starts.shape[1], width)
        call = Call.of(rays, networks.coefficients, networks.centers, networks.sigma)
        serves = resolve(networks.backend, call)
        if serves == "cpu" and isinstance(call.grid, Grid):
            threads = torch.get_num_threads()
            return cpu_rollout.rollout(networks, starts, steps, call.grid, increments, scaling, threads)
        if serves == "triton":
            return _as_graph(step, starts, steps)
        return _one_by_one(step, starts, steps)


def _one_by_one(step: Callable[[Tensor], Tensor], x: Tensor, steps: int) -> Tensor:
    states = x.new_empty(steps, *x.shape)
    for k in range(steps):
        x = step(x)
        states[k] = x
    return states.transpose(0, 1)


def _as_graph(step: Callable[[Tensor], Tensor], starts: Tensor, steps: int) -> Tensor:
    """Capture a run of steps once and replay it: a launch a run, not six a step."""
    x = starts.clone()
    run = x.new_empty(min(_GRAPH_STEPS, steps), *x.shape)
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        step(x)  # compiles kernels and fills caches, which a capture must not
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        now = x
        for k in range(len(run)):
            now = step(now)
            run[k].copy_(now)
        x.copy_(now)
    states = x.new_empty(steps, *x.shape)
    for first in range(0, steps, len(run)):
        graph.replay()
        states[first : first + len(run)] = run[: steps - first]
    return states.transpose(0, 1)


def _rows(values: Tensor) -> Tensor:
    """(n,) or (S, n) against (S, B, n)."""
    return values.unsqueeze(-2)
