"""The abstract step: what training, judging, forecasts and exports ask of it; rollouts in torch; steps from files."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lln.core.errors import SMALL, InputError, check_memory, choice
from lln.models.base import StateNetwork
from lln.models.factory import build, name_of
from lln.models.files import check_config_size
from lln.ops import Track
from lln.step.field_frame import FieldFrame
from lln.step.frame import Array, Arrays, Frame, as_tensor

# Arrays of the size of the result that exist at once: the states, the states with their start, and their checks.
ROLLOUT_COPIES = 3
# In standard deviations. The solve is in float64, where a residual this small is rounding.
TOLERANCE = 1e-9
_ITERATIONS = 50
_HALVINGS = 12
_PROBE = 1e-6
_LARGEST = 2048

FrameT = TypeVar("FrameT", Frame, FieldFrame)
NetworkT = TypeVar("NetworkT", bound=nn.Module)
_EAGER = 2  # steps before a capture, in which kernels compile and caches fill
_LOOK = 16  # steps between two looks at whether anything is still finite


class Box(Protocol):
    """Bounds of each coordinate, (n,), which never change: the object itself is the key under which they are kept."""

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

    Everything is float64 but the networks, which compute in the type of their parameters. All buffers lie on the
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
        """Coordinates that may turn on for ever, (n,): the step depends on them by their sines alone."""
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
        """A rollout that notices which starts diverge and leave a box; None where no fused rollout serves.

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

    def _fused(
        self,
        window: Array,  # noqa: ARG002
        steps: int,  # noqa: ARG002
        inputs: NDArray[Any] | None,  # noqa: ARG002
        box: Box | None = None,  # noqa: ARG002
    ) -> Track | None:
        """The fused rollout of subclasses that have one."""
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

        A learned step is no bijection in general, so this is Newton's method in float64, damped, from a straight
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
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is not finite, and refused in words
            first = 2 * window[0] - (window[1] if len(window) > 1 else ahead)
            return _newton(residual, first if np.isfinite(first).all() else window[0], scale)

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
    # A generator of its own, so that opening a file does not change anybody's random numbers.
    member = build(model, **config, generator=torch.Generator())
    member.to(dtypes.pop()).load_state_dict(state)
    return member.eval()


def step_of(record: Mapping[str, Any], arrays: Mapping[str, Any], device: torch.device | str = "cpu") -> AnyStep:
    """The step of any kind that `Step.record` and `Step.arrays` describe."""
    from lln.step.dense import DenseStep  # both import this module
    from lln.step.field import FieldStep

    steps: dict[str, type[AnyStep]] = {kind.kind: kind for kind in (DenseStep, FieldStep)}
    return steps[choice("surrogate", str(record["surrogate"]), steps)].from_arrays(record, arrays, device)


class Advances(Protocol):
    """What a rollout repeats."""

    def advance(self, window: Tensor, inputs: Tensor | None = None) -> Tensor:
        """(..., H, n) and (..., m) -> (..., n)."""


def roll(step: Advances, window: Tensor, steps: int, inputs: Tensor | None = None) -> Tensor:
    """The states after windows (..., H, n) with inputs (..., steps, m): (..., steps, n), without gradients.

    Once no start has a finite state left, the rest is NaN.
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
        _lost(states)
    return states.movedim(0, -2)


def _captured(go: Callable[[], None]) -> Callable[[], None]:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        go()
    return graph.replay


def _lost(states: Tensor) -> None:
    """Set to NaN what follows the first step after which no start is finite."""
    if not states.numel():
        return
    alive = torch.isfinite(states).all(dim=-1).reshape(len(states), -1).any(dim=1)
    if not alive.all():
        states[int(alive.logical_not().int().argmax()) + 1 :] = torch.nan


def _newton(residual: Callable[[Array], Array], start: Array, scale: Array) -> Array:
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
