"""The step as training, scoring, forecasts and exports use it; rollouts in torch; steps from files.

`DenseStep` is the step of a state of n coordinates: delay features, closed-form parts, networks, bounds. The step of
fields is in `field.py`.
"""

from __future__ import annotations

import copy
import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lln.core.errors import SMALL, InputError, check_memory, choice
from lln.models.base import StateNetwork
from lln.models.factory import build, name_of
from lln.models.field import FieldBlock
from lln.models.files import check_config_size
from lln.models.lens import LensNetwork, merge
from lln.ops import Flow, LensBlock, StepProgram, Track, marked, track
from lln.ops import Polynomial as Monomials
from lln.ops.cpu.backend import serves
from lln.step.field_frame import FieldFrame
from lln.step.frame import Array, Arrays, FlowPart, Frame, PolynomialPart, as_tensor, delay_features, float64_of
from lln.step.parts import part_name

# Arrays of the size of the result that exist at once: the states, the states with their start, and their checks.
ROLLOUT_COPIES = 3
_LARGEST = 2048
_EAGER = 2  # steps before a capture, in which kernels compile and caches fill
_LOOK = 16  # steps between two looks at whether anything is still finite
# In standard deviations. The solve is in float64, where a residual this small is rounding.
TOLERANCE = 1e-9
_ITERATIONS = 50
_HALVINGS = 12
_PROBE = 1e-6

FrameT = TypeVar("FrameT", Frame, FieldFrame)
NetworkT = TypeVar("NetworkT", bound=nn.Module)


class Box(Protocol):
    """Immutable bounds of each coordinate, (n,), hashed by identity, so that programs can be cached with them."""

    def __hash__(self) -> int:
        """By identity."""

    @property
    def low(self) -> NDArray[Any]:
        """Lower bounds."""

    @property
    def high(self) -> NDArray[Any]:
        """Upper bounds."""


class Step(nn.Module, ABC, Generic[FrameT, NetworkT]):
    """One learned step: ``x_{k+1} = x_k + increment(features(x_{k-H+1}, ..., x_k, u_k))``.

    Everything is float64 except the networks, which compute in the type of their parameters. All buffers lie on the
    device of the first network.

    Args:
        frame: units, history, inputs and closed-form parts.
        members: networks whose mean output, times the frame's gain, is added to the closed-form parts.
    """

    kind: ClassVar[str]

    def __init__(self, frame: FrameT, members: Iterable[NetworkT] = ()) -> None:
        super().__init__()
        self.frame: FrameT = frame
        self.networks = nn.ModuleList(members)
        parameter = next(self.networks.parameters(), None)
        self.dtype = torch.float64 if parameter is None else parameter.dtype
        self.device = torch.device("cpu") if parameter is None else parameter.device
        self.corrected = bool(len(self.networks)) and bool(frame.gain.any())
        self.linear = bool(frame.matrix.any())
        self.eval()

    @property
    def members(self) -> tuple[NetworkT, ...]:
        """The networks."""
        return tuple(self.networks)  # type: ignore[arg-type]  # ModuleList forgets the type

    @property
    def angles(self) -> NDArray[np.bool_]:
        """Angles, (n,): coordinates that enter by sines and cosines alone, and may grow without bound."""
        return np.zeros(self.frame.size, dtype=bool)

    def merged(self) -> NetworkT | None:
        """One network that computes the mean of all members, where there is one."""
        return None

    def merged_step(self) -> Self:
        """The same step with its members merged, where they can be."""
        return self

    @abstractmethod
    def features(self, window: Tensor, inputs: Tensor | None = None) -> Tensor:
        """What closed-form parts and networks see: windows (..., H, n) and inputs (..., m) -> features."""

    @abstractmethod
    def closed_form(self, features: Tensor) -> Tensor:
        """The increment of the closed-form parts alone, in the units of the data: features -> (..., n)."""

    @abstractmethod
    def increment(self, features: Tensor) -> Tensor:
        """The whole increment in the units of the data: features -> (..., n)."""

    def advance(self, window: Tensor, inputs: Tensor | None = None) -> Tensor:
        """The next state: windows (..., H, n), oldest first, and inputs of the present (..., m) -> (..., n)."""
        return window[..., -1, :] + self.increment(self.features(window, inputs))

    def forward(self, window: Tensor, inputs: Tensor | None = None) -> Tensor:
        """The same as `advance`."""
        return self.advance(window, inputs)

    def rollout(self, window: Array, steps: int, inputs: NDArray[Any] | None = None) -> Array:
        """The states after a window.

        Args:
            window: (..., H, n), oldest first.
            steps: how many.
            inputs: known inputs (..., steps, m), the first for the step that leaves the window; None without inputs.

        Returns:
            (..., steps, n) in float64. Not finite from where it diverged; NaN once every start has.
        """
        self._check_rollout(window, steps)
        found = self._fused(window, steps, inputs)
        if found is not None:
            return found.states[:, 1:].reshape(*window.shape[:-2], steps, window.shape[-1])
        with torch.no_grad():
            known = None if inputs is None else self._at(inputs)
            states: Array = self._roll(self._at(window), steps, known).cpu().numpy()
        return states

    def track(self, window: Array, steps: int, inputs: NDArray[Any] | None, box: Box) -> Track | None:
        """A rollout that records which starts diverge or leave a box; None where there is no fused rollout.

        Args:
            window: (..., H, n), oldest first.
            steps: how many.
            inputs: known inputs (..., steps, m); None without inputs.
            box: where states are expected.

        Returns:
            The states and the marks of all starts; the leading dimensions of the window are one.
        """
        self._check_rollout(window, steps)
        return self._fused(window, steps, inputs, box)

    def _fused(self, *_: Any) -> Track | None:
        """The fused rollout of subclasses that have one, of the arguments of `track`, where the box may be left out."""
        return None

    def _roll(self, window: Tensor, steps: int, inputs: Tensor | None) -> Tensor:
        """The states (..., steps, n); subclasses may have a faster way."""
        return roll(self, window, steps, inputs)

    def jacobian(self, window: Tensor, inputs: Tensor | None = None) -> Tensor:
        """The derivative of the next state by the states of the window: (..., H, n) -> (..., n, H, n).

        Every window is repeated for each output, so that one backward pass gives all of them.
        """
        lead, (history, n) = window.shape[:-2], window.shape[-2:]
        points = window.detach().reshape(1, -1, history, n).repeat(n, 1, 1, 1).requires_grad_()
        known = None if inputs is None else inputs.reshape(1, -1, inputs.shape[-1]).expand(n, -1, -1)
        with torch.enable_grad():
            after = self.advance(points, known)
            slopes = torch.autograd.grad(after.diagonal(dim1=0, dim2=2).sum(), points)[0]
        return slopes.transpose(0, 1).reshape(*lead, n, history, n)

    def inverse(self, window: Array, inputs: Array | None = None) -> Array:
        """The state before a window: x_{k-H} such that the step from x_{k-H}, ..., x_{k-1} leads to x_k.

        A learned step is not a bijection in general, so this is Newton's method in float64, damped, from a straight
        continuation into the past. It refuses where it does not converge.

        Args:
            window: one window (H, n), oldest first, the state to undo last.
            inputs: (m,), known inputs at the time before the last state.

        Returns:
            (n,) in float64.
        """
        if self.frame.size > _LARGEST:
            raise InputError(
                f"a step of {self.frame.size} coordinates cannot be inverted; at most {_LARGEST} are solved for at once"
            )
        double = self.to_dtype(torch.float64)
        scale, target = self.frame.scale, window[-1]
        known: Array = window[:-1]

        def residual(points: Array) -> Array:
            """By how much the step misses the target, (B, n) -> (B, n), in standard deviations."""
            past = np.concatenate([points[:, None, :], np.broadcast_to(known, (len(points), *known.shape))], axis=1)
            known_inputs = None if inputs is None else np.broadcast_to(inputs, (len(points), 1, len(inputs)))
            return np.asarray((double.rollout(past, 1, known_inputs)[:, 0] - target) / scale)

        ahead = double.rollout(window, 1, None if inputs is None else inputs[None])[0]
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is not finite, and refused below
            first = 2 * window[0] - (window[1] if len(window) > 1 else ahead)
            return newton(residual, first if np.isfinite(first).all() else window[0], scale)

    def replace(self, frame: FrameT | None = None, members: Iterable[NetworkT] | None = None) -> Self:
        """The same step with another frame or other members."""
        return type(self)(self.frame if frame is None else frame, self.members if members is None else members)

    def to_dtype(self, dtype: torch.dtype) -> Self:
        """A copy whose networks compute on the CPU in `dtype`."""
        return self.replace(members=[copy.deepcopy(member).cpu().to(dtype) for member in self.members])

    @abstractmethod
    def record(self) -> dict[str, Any]:
        """Everything but the arrays, as plain values."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The frame's arrays and the members' tensors, by the names under which files store them."""
        found = {f"frame.{name}": value for name, value in self.frame.arrays().items()}
        for index, member in enumerate(self.networks):
            found |= {f"member.{index}.{name}": t.detach().cpu().numpy() for name, t in member.state_dict().items()}
        return found

    @classmethod
    @abstractmethod
    def from_arrays(cls, record: Any, arrays: Any, device: torch.device | str = "cpu") -> Self:
        """The step that `record` and `arrays` describe; ValueError or InputError where they do not fit together."""

    def _keep(self, name: str, values: Array | None) -> None:
        """Register a float64 buffer, or None for an array that is missing or empty: no export could hold it."""
        if values is None or not values.size:
            setattr(self, name, None)
        else:
            self.register_buffer(name, as_tensor(values).to(self.device), persistent=False)

    def _at(self, values: NDArray[Any]) -> Tensor:
        return as_tensor(np.asarray(values)).to(self.device)

    def _check_rollout(self, window: Array, steps: int) -> None:
        if 8 * ROLLOUT_COPIES * window.size * steps >= SMALL:
            shape = (*window.shape[:-2], steps, window.shape[-1])
            check_memory(f"a rollout of {steps:,} steps", shape, copies=ROLLOUT_COPIES)
        if window.shape[-2] != self.frame.history:
            raise InputError(f"the model looks at {self.frame.history} states at a time, got {window.shape[-2]}")


AnyStep = Step[Any, Any]


def roll(step: Any, window: Tensor, steps: int, inputs: Tensor | None = None) -> Tensor:
    """The states after windows (..., H, n) with inputs (..., steps, m): (..., steps, n), without gradients.

    `step` has a method `advance`, as of `Step`. Once no start has a finite state left, the rest is NaN.
    """
    window = window.clone(memory_format=torch.contiguous_format)
    states = window.new_full((steps, *window.shape[:-2], window.shape[-1]), torch.nan)
    known = None if inputs is None else inputs.movedim(-2, 0)
    now = None if known is None or not steps else known[0].clone()

    def go() -> None:
        after = step.advance(window, now)
        if window.shape[-2] > 1:
            window[..., :-1, :] = window[..., 1:, :].clone()
        window[..., -1, :] = after

    with torch.no_grad():
        replay = go
        for k in range(steps):
            if now is not None and known is not None:
                now.copy_(known[k])
            if k == _EAGER and window.is_cuda:
                replay = _captured(go)
            replay()
            states[k] = window[..., -1, :]
            if k % _LOOK == _LOOK - 1 and not torch.isfinite(states[k]).all(dim=-1).any():
                break
    if states.numel():
        alive = torch.isfinite(states).all(dim=-1).reshape(steps, -1).any(dim=1)
        if not alive.all():
            states[int(alive.logical_not().int().argmax()) + 1 :] = torch.nan
    return states.movedim(0, -2)


def _captured(go: Callable[[], None]) -> Callable[[], None]:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        go()
    return graph.replay


def newton(residual: Callable[[Array], Array], start: Array, scale: Array) -> Array:
    """Where the residual, (B, n) -> (B, n) in units of `scale`, is zero; InputError where no such point is found."""
    point, miss = start, residual(start[None])[0]
    for _ in range(_ITERATIONS):
        size = float(np.abs(miss).max())
        if size <= TOLERANCE:
            return point
        if not np.isfinite(size):
            break
        probes = point + _PROBE * np.diag(scale)
        jacobian = (residual(probes) - miss).T / _PROBE
        try:
            change = np.linalg.solve(jacobian, -miss)
        except np.linalg.LinAlgError:
            break
        lengths = 0.5 ** np.arange(_HALVINGS)
        trials = point + lengths[:, None] * change * scale
        misses = residual(trials)
        sizes = np.where(np.isfinite(misses).all(axis=1), np.abs(misses).max(axis=1), np.inf)
        best = int(np.argmax(sizes < size)) if (sizes < size).any() else int(sizes.argmin())
        if not sizes[best] < size:
            break
        point, miss = trials[best], misses[best]
    raise InputError(
        "no state was found whose successor under this model is the given one "
        f"(Newton's method stopped {np.abs(miss).max():.1e} standard deviations away); a learned step is not "
        "invertible everywhere, so start from a state near the training data"
    )


def network_record(members: Sequence[Any]) -> dict[str, Any]:
    """Name, configuration and number of the networks."""
    return {
        "model": name_of(members[0]) if members else None,
        "config": members[0].config() if members else {},
        "members": len(members),
    }


def read_members(
    network: Mapping[str, Any], arrays: Arrays, sizes: tuple[int, int], device: torch.device | str
) -> tuple[Any, ...]:
    """The networks, each from its tensors; `sizes` are those of a network's input and output."""
    return tuple(_member(index, network, arrays, sizes).to(device) for index in range(int(network["members"])))


def _member(index: int, network: Mapping[str, Any], arrays: Arrays, sizes: tuple[int, int]) -> StateNetwork:
    mark = f"member.{index}."
    state = {name.removeprefix(mark): torch.from_numpy(t) for name, t in arrays.items() if name.startswith(mark)}
    dtypes = {tensor.dtype for tensor in state.values() if tensor.is_floating_point()}
    if len(dtypes) != 1:
        raise ValueError(f"member {index} should have tensors of one floating type, got {len(dtypes)} types")
    model, config = str(network["model"]), dict(network["config"])
    check_config_size(model, config, state)
    if (config["n_in"], config["n_out"]) != sizes:
        raise ValueError(f"member {index} maps {config['n_in']} to {config['n_out']} numbers, not {sizes}")
    # A separate generator, so that opening a file does not change the global random numbers.
    member = build(model, **config, generator=torch.Generator())
    member.to(dtypes.pop()).load_state_dict(state)
    return member.eval()


def step_of(record: Mapping[str, Any], arrays: Mapping[str, Any], device: torch.device | str = "cpu") -> AnyStep:
    """The step of any kind that `Step.record` and `Step.arrays` describe."""
    from lln.step.field import FieldStep  # imports this module

    steps: dict[str, type[AnyStep]] = {kind.kind: kind for kind in (DenseStep, FieldStep)}
    return steps[choice("surrogate", str(record["surrogate"]), steps)].from_arrays(record, arrays, device)


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
        """Angles, (n,): coordinates that enter by sines and cosines alone, and may grow without bound."""
        alone = self.polynomial is None and self.part is None and not (self.linear or self.corrected)
        return self.frame.angles & alone

    def merged(self) -> LensNetwork | None:
        """All lens members as one: the mean of S networks of width h is one network of width S h.

        Rays never mix inside a stack, so members sit side by side and the readout takes their mean. None where members
        are not lens networks.
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
        """The step as plain arrays for the fused rollout; None if the kernel does not support a part of it.

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
    """The program that also records which states lie outside a box; cached by the identity of both."""
    return dataclasses.replace(program, watch_low=box.low, watch_high=box.high)


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
        tuple(lens_block(lens, lens.readout, frame.gain / len(lenses)) for lens in lenses), _flow(frame),
    )  # fmt: skip


def lens_block(lens: LensNetwork | FieldBlock, readout: nn.Linear, gain: Array) -> LensBlock:
    """Embedding, lenses and readout as plain arrays."""
    angle = lens.embed_angle
    return LensBlock(
        float64_of(lens.embed_position.weight), float64_of(lens.embed_position.bias),
        None if angle is None else float64_of(angle.weight), None if angle is None else float64_of(angle.bias),
        float64_of(lens.coefficients), lens.centers, lens.sigma, lens.length, lens.lens_scale,
        float64_of(readout.weight), float64_of(readout.bias), gain,
        "float64" if lens.coefficients.dtype == torch.float64 else "float32",
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
