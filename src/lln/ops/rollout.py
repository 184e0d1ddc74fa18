"""Whole rollouts as one kernel or one graph: of lens networks, and of a whole time step.

`rollout` closes embedding, stack, readout, scaling and increments of networks into a loop. S ensemble members with
parameters of their own are rolled out together, each from its own starts.

A `StepProgram` is a whole time step as plain arrays. With the standardised state z = (x - mean) / scale, the features
of step k are

    f = [z_k, (z_k - z_{k-1}) / d_1, ..., (z_{k-H+2} - z_{k-H+1}) / d_{H-1},
         (u_k - input_mean) / input_scale]

and one step is

    x_{k+1} = x_k + scale * (matrix f + offset + polynomial(f) + sum of gain * lens(f) + flow(f)),

clipped to [low, high].

`track` and `roll` repeat it by the kernel of `lln.ops.cpu.backend`. `lln.step.step` is the same step in torch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lln.core.errors import SMALL, InputError, check_int, check_memory, choice
from lln.ops.backends import Call, resolve
from lln.ops.cpu import backend
from lln.ops.cpu import networks as cpu_networks
from lln.ops.cpu.backend import checked_threads
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
    """The parameters of S lens networks of one shape, stacked along the first dimension."""

    position_weight: Tensor  #: W_y, (S, h, n).
    position_bias: Tensor  #: b_y, (S, h).
    angle_weight: Tensor | None  #: W_theta, (S, h, n); None starts all angles at zero.
    angle_bias: Tensor | None  #: b_theta, (S, h); None with `angle_weight`.
    coefficients: Tensor  #: (S, D, h, K).
    readout_weight: Tensor  #: W_o, (S, m, h).
    readout_bias: Tensor  #: b_o, (S, m).
    centers: tuple[float, ...]  #: the K control points.
    sigma: float  #: width of the Gaussians.
    length: float  #: propagation distance L of one layer.
    scale: float  #: lens scale s.
    backend: str = "auto"  #: which implementation of the transport serves.

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
            return cpu_networks.rollout(networks, starts, steps, call.grid, increments, scaling, threads)
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


Array = NDArray[np.float64]
PRECISIONS = ("float32", "float64")
FUNCTION_KINDS = 7  # of functions of single features in a vector field


@dataclass(frozen=True, eq=False)
class Polynomial:
    """Monomials of the features, each built from an earlier one by one multiplication."""

    #: (M, 2) integers: (index of an earlier monomial, index of a feature); the product of both is the new monomial. The
    #: index -1 stands for the monomial 1.
    monomials: NDArray[np.int64]
    weights: Array  #: (n, M).
    offset: Array | None = None  #: (n,); None for zero.

    def __post_init__(self) -> None:
        table = np.ascontiguousarray(self.monomials, np.int64)
        if table.ndim != 2 or table.shape[1] != 2:
            raise InputError(f"monomials must have shape (M, 2), got {table.shape}")
        if (table[:, 0] < -1).any() or (table[:, 0] >= np.arange(len(table))).any() or (table[:, 1] < 0).any():
            raise InputError("monomials must name an earlier monomial (or -1) and a feature in each row")
        object.__setattr__(self, "monomials", table)


@dataclass(frozen=True, eq=False)
class LensBlock:
    """A lens network from the features to an increment: gain * (readout y_D + bias)."""

    position_weight: Array  #: (h, F).
    position_bias: Array  #: (h,).
    angle_weight: Array | None  #: (h, F); None starts all angles at zero.
    angle_bias: Array | None  #: (h,); None with `angle_weight`.
    coefficients: Array  #: (D, h, K).
    centers: tuple[float, ...]  #: the K control points.
    sigma: float  #: width of the Gaussians.
    length: float  #: propagation distance L of one layer.
    strength: float  #: lens scale s.
    readout: Array  #: (n, h).
    bias: Array  #: (n,).
    gain: Array  #: (n,), applied in float64.
    precision: str = "float32"  #: "float32" or "float64", the arithmetic of embedding, transport and readout.


@dataclass(frozen=True, eq=False)
class Flow:
    """The displacement z(dt) - z(0) of dz/dt = polynomial(z, other features), by the classical Runge-Kutta method.

    The first n features are z and change along the way; the others keep their values during the step. Functions of
    single features stand behind the features. In the order of their kinds they are exp(-a^2 / 2), sin(a), abs(a),
    tanh(a), exp(a), 1 / a, and a clipped to -1 and 1, with a = slope * feature + shift.
    """

    field: Polynomial  #: the right-hand side.
    dt: float  #: duration of one step.
    substeps: int = 1  #: number of Runge-Kutta steps that make up dt.
    #: (L, 2) integers: the feature and the kind of each function; None for none.
    functions: NDArray[np.int64] | None = None
    arguments: Array | None = None  #: (L, 2), slope and shift of each function; None for none.

    @property
    def function_count(self) -> int:
        """Number of functions L."""
        return 0 if self.functions is None else len(self.functions)


class Track(NamedTuple):
    """A rollout of B starts, with the start in front as step 0."""

    states: Array  #: (B, steps + 1, n), NaN from the first state that is not finite.
    #: (2, B): the step of that state, and the first step before it outside the watched box, -1 for none; None where no
    #: start has such a step.
    marks: NDArray[np.int64] | None = None


@dataclass(frozen=True, eq=False)
class StepProgram:
    """One step of a system of n coordinates, H past states and m known inputs; symbols as in the module's text."""

    mean: Array  #: (n,).
    scale: Array  #: (n,), above zero.
    matrix: Array | None = None  #: linear part, (n, F) with F = n H + m; None for none.
    offset: Array | None = None  #: constant part, (n,); None for none.
    history: int = 1  #: number of states H in the window of a step.
    difference_scale: Array | None = None  #: (H - 1, n); None if H = 1.
    input_mean: Array | None = None  #: (m,); None if m = 0.
    input_scale: Array | None = None  #: (m,), above zero; None if m = 0.
    low: Array | None = None  #: (n,); no state is below; None for no bound.
    high: Array | None = None  #: (n,); no state is above; None for no bound.
    polynomial: Polynomial | None = None  #: polynomial part.
    lenses: tuple[LensBlock, ...] = ()  #: lens networks.
    flow: Flow | None = None  #: polynomial vector field.
    watch_low: Array | None = None  #: (n,); a rollout records when a state is below; None for no such bound.
    watch_high: Array | None = None  #: (n,); the same above.

    def __post_init__(self) -> None:
        n, features, past = self.size, self.features, max(self.history - 1, 0)
        _check(self, "matrix", (n, features))
        _check(self, "difference_scale", (past, n), needed=past > 0)
        _check(self, "input_scale", (self.inputs,), needed=self.inputs > 0)
        for name in ("scale", "offset", "low", "high", "watch_low", "watch_high"):
            _check(self, name, (n,))
        if self.history < 1:
            raise InputError(f"history must be at least 1, got {self.history}")
        behind = 0 if self.flow is None else self.flow.function_count
        field = None if self.flow is None else self.flow.field
        for polynomial, known in ((self.polynomial, features), (field, features + behind)):
            if polynomial is not None:
                _check(polynomial, "weights", (n, len(polynomial.monomials)))
                _check(polynomial, "offset", (n,))
                if (polynomial.monomials[:, 1] >= known).any():
                    raise InputError(f"monomials must name one of {known} features in each row")
        if self.flow is not None and self.flow.functions is not None:
            _check(self.flow, "functions", (behind, 2))
            _check(self.flow, "arguments", (behind, 2), needed=True)
            if not ((self.flow.functions >= 0) & (self.flow.functions < (features, FUNCTION_KINDS))).all():
                raise InputError(f"functions must name one of {features} features and one of {FUNCTION_KINDS} kinds")
        if self.flow is not None and self.flow.substeps < 1:
            raise InputError(f"substeps must be at least 1, got {self.flow.substeps}")
        for block in self.lenses:
            self._check_lens(block)

    @property
    def size(self) -> int:
        """Number of coordinates n."""
        return int(self.mean.shape[0])

    @property
    def inputs(self) -> int:
        """Number of known inputs m."""
        return 0 if self.input_mean is None else int(self.input_mean.shape[0])

    @property
    def features(self) -> int:
        """Number of features F = n H + m."""
        return self.size * self.history + self.inputs

    def _check_lens(self, block: LensBlock) -> None:
        choice("precision", block.precision, PRECISIONS)
        if block.coefficients.ndim != 3:
            raise InputError(f"coefficients must have shape (D, h, K), got {block.coefficients.shape}")
        _, width, basis = block.coefficients.shape
        if len(block.centers) != basis:
            raise InputError(f"centers must have {basis} entries to fit coefficients, got {len(block.centers)}")
        for name, shape in (("position", (width, self.features)), ("angle", (width, self.features))):
            _check(block, f"{name}_weight", shape)
            _check(block, f"{name}_bias", (width,), needed=getattr(block, f"{name}_weight") is not None)
        _check(block, "readout", (self.size, width))
        _check(block, "bias", (self.size,))
        _check(block, "gain", (self.size,))


def _check(owner: Any, name: str, shape: tuple[int, ...], *, needed: bool = False) -> None:
    """Refuse an array of another shape, or none where one is needed."""
    value = getattr(owner, name)
    if value is None and not needed:
        return
    found = None if value is None else np.shape(value)
    if found != shape:
        known = [field.name for field in fields(owner)]
        owners = type(owner).__name__ if name in known else "the step"
        raise InputError(f"{name} of {owners} must have shape {shape}, got {found}")


def track(
    program: StepProgram, window: Array, steps: int, inputs: Array | None = None, *, threads: int | None = None
) -> Track:
    """Roll a program out from every window.

    Args:
        program: the step.
        window: (B, H, n), oldest state first.
        steps: number of steps.
        inputs: (B, steps, m), the first for the step that leaves the window; None if m = 0.
        threads: at most this many threads; None takes torch's number.

    Returns:
        The last state of each window and those after it, and where each start diverged or left the watched box.
    """
    steps, window = check_int("steps", steps, 0), np.ascontiguousarray(window, np.float64)
    if window.ndim != 3 or window.shape[1:] != (program.history, program.size):
        raise InputError(f"window must have shape (B, {program.history}, {program.size}), got {window.shape}")
    if program.inputs:
        shape, found = (window.shape[0], steps, program.inputs), None if inputs is None else np.shape(inputs)
        if found != shape:
            raise InputError(f"inputs must have shape {shape}, got {found}")
        inputs = np.ascontiguousarray(inputs, np.float64)
    else:
        inputs = None
    if 8 * window.shape[0] * steps * program.size >= SMALL:
        check_memory(f"a rollout of {steps:,} steps", (window.shape[0], steps, program.size))
    if not backend.serves(program):
        raise InputError("the kernel of whole steps does not serve this program here; use a step of lln.step")
    count = torch.get_num_threads() if threads is None else checked_threads(threads)
    return Track(*backend.track(program, window, steps, inputs, count))


def roll(
    program: StepProgram, window: Array, steps: int, inputs: Array | None = None, *, threads: int | None = None
) -> tuple[Array, NDArray[np.int64]]:
    """As `track`: the states (B, steps, n) after the windows, and the index of the first that is not finite, or -1."""
    found = track(program, window, steps, inputs, threads=threads)
    never = np.full(len(found.states), -1, np.int64)
    return found.states[:, 1:], never if found.marks is None else np.maximum(found.marks[0], 0) - 1


def marked(states: Array, low: Array | None, high: Array | None) -> Track:
    """States (B, steps + 1, n) with their marks; NaN from where they diverge, in place.

    Args:
        states: the start in front.
        low: (n,); marks record when a state is below; None for no such bound.
        high: the same above.
    """
    lost = np.asarray(~np.isfinite(states).all(axis=-1))
    lost[:, 0] = False  # a start is where it is
    dead = np.logical_or.accumulate(lost, axis=1)
    outside = np.zeros_like(dead)
    if low is not None:
        outside |= (states < low).any(axis=-1)
    if high is not None:
        outside |= (states > high).any(axis=-1)
    states[dead] = np.nan
    steps = np.stack([dead, outside & ~dead])
    marks = np.where(steps.any(axis=2), steps.argmax(axis=2), -1)
    return Track(states, None if (marks < 0).all() else marks)
