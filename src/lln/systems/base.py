"""What every system declares: its equation, its state, where it starts, how far one step goes, what it claims."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lln.core.errors import InputError, finite, positive

Array = NDArray[np.floating[Any]]
Functional = Callable[[Array], Array]


class System(ABC):
    """An autonomous system of ordinary differential equations x' = f(x) with n coordinates.

    A subclass is final: it states one equation. Its right-hand side works on any (..., n) array and keeps the array's
    dtype, so that many trajectories advance together and float32 stays float32.
    """

    family: ClassVar[str]  #: short name of the equation.
    #: whether f is linear; then the solution is known in closed form and the tests compare with it.
    linear: ClassVar[bool] = False
    conserves_mean: ClassVar[bool] = False  #: whether the mean over all coordinates stays the same.
    dt: float  #: time step of one transition.

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of coordinates n."""

    @abstractmethod
    def rhs(self, state: Array) -> Array:
        """The time derivative f(x): (..., n) -> (..., n)."""

    @abstractmethod
    def start(self) -> Array:
        """The state at time zero, (n,), in float64."""

    @property
    def name(self) -> str:
        """Family and size, as in `springchain-32`; constants other than the preset's do not show in it."""
        return f"{self.family}-{self.size}"

    @property
    @abstractmethod
    def coordinates(self) -> tuple[str, ...]:
        """A name for each coordinate of the state."""

    @property
    def grid(self) -> Array | None:
        """Position of each coordinate in space, (n,), if the state is one field; None otherwise."""
        return None

    @property
    def symbols(self) -> Mapping[str, float]:
        """The constants of the equation, under the symbols that its docstring uses."""
        return constants(self) if is_dataclass(self) else {}

    def invariants(self) -> Mapping[str, Functional]:
        """What the exact flow conserves: a name and a function (..., n) -> (...) for each."""
        return {"mean": lambda state: state.mean(-1)} if self.conserves_mean else {}


def constants(system: Any) -> dict[str, float]:
    """The fields of a system's dataclass that stand in its equation: all but its grid and its steps."""
    others = ("points", "length", "dt", "substeps")
    return {field.name: getattr(system, field.name) for field in fields(system) if field.name not in others}


class UserSystem(System):
    """Your own right-hand side as a system.

    Args:
        rhs: a function of the state, (..., n) -> (..., n), in NumPy or in torch.
        start: the state at time zero, (n,).
        dt: time step of one transition.
        name: how it is called in messages and tables.
        coordinates: a name for each coordinate; `x0`, `x1`, ... if left out.
        symbols: constants worth showing beside the name.

    >>> import numpy as np
    >>> oscillator = UserSystem(lambda x: np.stack([x[..., 1], -x[..., 0]], -1), [1.0, 0.0], dt=0.1, name="oscillator")
    >>> oscillator.size
    2
    """

    family = "user"

    def __init__(
        self,
        rhs: Callable[[Any], Any],
        start: ArrayLike,
        dt: float,
        *,
        name: str = "user system",
        coordinates: tuple[str, ...] | None = None,
        symbols: Mapping[str, float] | None = None,
    ) -> None:
        self._start = np.array(start, dtype=np.float64)
        if self._start.ndim != 1 or self._start.size == 0:
            raise InputError(f"the start of {name!r} must be one state of shape (n,), got shape {self._start.shape}")
        self._rhs, self._name, self.dt = rhs, name, positive("dt", dt)
        self._coordinates = coordinates or tuple(f"x{i}" for i in range(self._start.size))
        if len(self._coordinates) != self._start.size:
            raise InputError(f"{name!r} has {self._start.size} coordinates but {len(self._coordinates)} names for them")
        self._symbols = {key: finite(key, value) for key, value in (symbols or {}).items()}
        self._tensors = _tensor_kinds(rhs, self._start)
        slope = np.shape(self.rhs(self._start))
        if slope != self._start.shape:
            raise InputError(f"the right-hand side of {name!r} must keep shape {self._start.shape}, got {slope}")

    @property
    def size(self) -> int:
        """Number of coordinates n."""
        return int(self._start.size)

    @property
    def name(self) -> str:
        """The name it was given."""
        return self._name

    def rhs(self, state: Array) -> Array:
        """The user's function; one written in torch gets and returns tensors, and arrays are turned on the way."""
        if not self._tensors or not isinstance(state, np.ndarray):
            slope: Array = self._rhs(state)
            return slope
        import torch

        kind = state.dtype.name if state.dtype.name in self._tensors else self._tensors[0]
        with torch.no_grad():
            found = self._rhs(torch.from_numpy(state.astype(kind)))
        return np.asarray(found.detach().cpu().numpy(), dtype=state.dtype)

    def start(self) -> Array:
        """A copy of the state at time zero."""
        return self._start.copy()

    @property
    def coordinates(self) -> tuple[str, ...]:
        """A name for each coordinate."""
        return self._coordinates

    @property
    def symbols(self) -> Mapping[str, float]:
        """The constants that were given."""
        return self._symbols


def _tensor_kinds(rhs: Callable[[Any], Any], start: Array) -> tuple[str, ...]:
    """The kinds of tensor that `rhs` takes if it is written in torch, else none.

    Found out by calling it. torch is never imported here: a function that needs it has it loaded.
    """
    torch = sys.modules.get("torch")
    try:
        if type(rhs(start)).__module__.partition(".")[0] != "torch":
            return ()
    except (TypeError, AttributeError, RuntimeError):  # functions of torch refuse arrays
        if torch is None:
            raise
    kinds = []
    refusal: Exception | None = None
    for kind in ("float64", "float32"):
        try:
            rhs(torch.from_numpy(start.astype(kind)))  # type: ignore[union-attr]
        except (TypeError, AttributeError, RuntimeError) as error:  # a network of float32 refuses float64
            refusal = error
        else:
            kinds.append(kind)
    if not kinds and refusal is not None:
        raise refusal
    return tuple(kinds)
