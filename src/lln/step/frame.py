"""The arrays of a dense step, in float64: polynomials, units, delay coordinates, inputs, closed-form parts, bounds.

They may come from untrusted files, so a configuration is checked against the arrays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import combinations_with_replacement
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lln.step.parts import PARTS, ClosedFormPart

Array = NDArray[np.float64]
Table = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Polynomial:
    """Weighted monomials of features.

    Monomial j is feature ``table[j, 1]`` times monomial ``table[j, 0]``, which comes before it, or times 1 where that
    entry is -1.
    """

    table: Table  #: (M, 2).
    weights: Array  #: (n, M), from monomials to standardised increments.

    def monomials(self, features: Array) -> Array:
        """(..., F) -> (..., M), in the order of the table."""
        part = PolynomialPart(self)
        values: Array = part.monomials(as_tensor(features))[..., part.place].numpy()
        return values

    def __call__(self, features: Array) -> Array:
        """The increments: (..., F) -> (..., n)."""
        change: Array = PolynomialPart(self)(as_tensor(features)).numpy()
        return change


def monomial_table(factors: Sequence[int], degree: int) -> Table:
    """The table of all monomials of degree 1 to `degree` in the features `factors`."""
    place: dict[tuple[int, ...], int] = {}
    rows: list[tuple[int, int]] = []
    for order in range(1, degree + 1):
        for term in combinations_with_replacement(factors, order):
            place[term] = len(rows)
            rows.append((place[term[:-1]] if order > 1 else -1, term[-1]))
    return np.asarray(rows, dtype=np.int64).reshape(-1, 2)


class FunctionKind(IntEnum):
    """Kinds of functions in a vector field, as model files number them."""

    GAUSSIAN = 0
    SINE = 1
    KINK = 2
    STEP = 3
    EXPONENTIAL = 4
    RECIPROCAL = 5
    SATURATION = 6


_WORDS = ("Gaussian lenses", "sines", "kinks", "steps", "exponentials", "reciprocals", "saturations")
_FORMULAS: tuple[tuple[Any, Any, Any], ...] = (  # each kind of function, its derivative, and the same in torch
    (lambda a: np.exp(-0.5 * a * a), lambda a: -a * np.exp(-0.5 * a * a), lambda a: torch.exp(-0.5 * a * a)),
    (np.sin, np.cos, torch.sin),
    (np.abs, np.sign, torch.abs),
    (np.tanh, lambda a: 1.0 - np.tanh(a) ** 2, torch.tanh),
    (np.exp, np.exp, torch.exp),
    (lambda a: 1.0 / a, lambda a: -1.0 / (a * a), torch.reciprocal),
    (lambda a: np.clip(a, -1.0, 1.0), lambda a: 1.0 * (np.abs(a) < 1.0), lambda a: torch.clamp(a, -1.0, 1.0)),
)


@dataclass(frozen=True, eq=False)
class Functions:
    """Functions of single variables, of a = slope * variable + shift.

    In the order of `FunctionKind`: exp(-a^2 / 2), sin(a), abs(a), tanh(a), exp(a), 1 / a, and a clipped to -1 and 1.
    """

    table: Table  #: (L, 2), the variable of each function and its kind, a `FunctionKind`.
    arguments: Array  #: (L, 2), slope and shift of each function.

    def __len__(self) -> int:
        return len(self.table)

    def __call__(self, variables: Array) -> Array:
        """(..., V) -> (..., L)."""
        return self._each(variables, 0)

    def derivatives(self, variables: Array) -> Array:
        """Of each function by its argument: (..., V) -> (..., L)."""
        return self._each(variables, 1)

    def _each(self, variables: Array, order: int) -> Array:
        found = self._argument(variables)
        for kind in set(self.table[:, 1].tolist()):
            which = self.table[:, 1] == kind
            found[..., which] = _FORMULAS[kind][order](found[..., which])
        return found

    def some(self, which: Sequence[int]) -> Functions:
        """The functions at the positions `which`."""
        return Functions(self.table[list(which)], self.arguments[list(which)])

    def _argument(self, variables: Array) -> Array:
        return np.asarray(variables[..., self.table[:, 0]] * self.arguments[:, 0] + self.arguments[:, 1])


@dataclass(frozen=True, eq=False)
class Flow:
    """A vector field, advanced over one step of data by the classical Runge-Kutta method.

    ``dz/dt = offset + polynomial([z, u, functions([z, u])])`` in standardised states z and inputs u, with the step of
    the data as the unit of time; u is held over the step.
    """

    polynomial: Polynomial  #: of the n standardised states, the m standardised inputs and the functions of them.
    offset: Array  #: (n,).
    substeps: int = 1  #: Runge-Kutta steps in one step of data.
    functions: Functions | None = None  #: of single states or inputs; None for none.

    def description(self, degree: bool = False) -> str:
        """Its kind of functions as text, with its degree on request."""
        kinds = [] if self.functions is None else np.unique(self.functions.table[:, 1]).tolist()
        of = f" of degree {PolynomialPart(self.polynomial).degrees}" if degree else ""
        names = [_WORDS[kind] for kind in kinds]
        functions = " and ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)
        return f"vector field{of} with {functions}" if functions else f"polynomial vector field{of}"

    def angles(self) -> NDArray[np.bool_]:
        """Angles, (n,): coordinates that enter by sines and cosines alone, and may grow without bound."""
        n, table = len(self.offset), self.polynomial.table
        if self.functions is None:
            return np.zeros(n, dtype=bool)
        factors: list[set[int]] = []
        for parent, factor in table.tolist():
            factors.append({factor} | (factors[parent] if parent >= 0 else set()))
        weighty = np.flatnonzero(self.polynomial.weights.any(axis=0)).tolist()
        of, kind = self.functions.table.T
        plain = {factor for monomial in weighty for factor in factors[monomial]} | set(
            of[kind != FunctionKind.SINE].tolist()
        )
        return np.isin(np.arange(n), sorted(set(of[kind == FunctionKind.SINE].tolist()) - plain))

    def __call__(self, z: Array, inputs: Array | None = None) -> Array:
        """The increments over one step: (..., n) and (..., m) -> (..., n)."""
        known = None if inputs is None else as_tensor(inputs)
        change: Array = FlowPart(self)(as_tensor(z), known).numpy()
        return change


class PolynomialPart(nn.Module):
    """A `Polynomial` in torch: monomials of one degree are one product of two gathers.

    Attributes:
        place: where each monomial of the table stands among those of `monomials`, (M,).
        weights: (n, M), in the order of `monomials`.
    """

    place: Tensor
    weights: Tensor

    def __init__(self, polynomial: Polynomial) -> None:
        super().__init__()
        table = np.asarray(polynomial.table, dtype=np.int64)
        degree = np.ones(len(table), dtype=np.int64)
        for index, (parent, _) in enumerate(table.tolist()):
            degree[index] = 1 if parent < 0 else degree[parent] + 1
        order = np.argsort(degree, kind="stable")
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        self.degrees = int(degree.max(initial=0))
        first = 0
        for level in range(1, self.degrees + 1):
            rows = order[degree[order] == level]
            self.register_buffer(f"factor_{level}", torch.from_numpy(table[rows, 1].copy()))
            if level > 1:
                self.register_buffer(f"parent_{level}", torch.from_numpy(place[table[rows, 0]] - first))
                first += int((degree == level - 1).sum())
        self.register_buffer("place", torch.from_numpy(place))
        self.register_buffer("weights", as_tensor(polynomial.weights[..., order]))

    def monomials(self, features: Tensor) -> Tensor:
        """(..., F) -> (..., M), by degree."""
        values: list[Tensor] = []
        for level in range(1, self.degrees + 1):
            factors = features.index_select(-1, self.get_buffer(f"factor_{level}"))
            if level > 1:
                factors = values[-1].index_select(-1, self.get_buffer(f"parent_{level}")) * factors
            values.append(factors)
        return torch.cat(values, dim=-1) if values else features[..., :0]

    def forward(self, features: Tensor) -> Tensor:
        """The increments: (..., F) -> (..., n)."""
        return self.monomials(features) @ self.weights.mT


class FunctionsPart(nn.Module):
    """`Functions` in torch."""

    variables: Tensor
    kinds: Tensor
    slope: Tensor
    shift: Tensor

    def __init__(self, functions: Functions) -> None:
        super().__init__()
        self.register_buffer("variables", torch.from_numpy(functions.table[:, 0].copy()))
        self.register_buffer("kinds", torch.from_numpy(functions.table[:, 1].copy()))
        self.present: list[int] = np.unique(functions.table[:, 1]).tolist()
        self.register_buffer("slope", as_tensor(functions.arguments[:, 0]))
        self.register_buffer("shift", as_tensor(functions.arguments[:, 1]))

    def forward(self, variables: Tensor) -> Tensor:
        """(..., V) -> (..., L)."""
        argument = variables.index_select(-1, self.variables) * self.slope + self.shift
        values: Tensor = _FORMULAS[self.present[0]][2](argument)
        for kind in self.present[1:]:
            values = torch.where(self.kinds == kind, _FORMULAS[kind][2](argument), values)
        return values


class FlowPart(nn.Module):
    """A `Flow` in torch."""

    offset: Tensor

    def __init__(self, flow: Flow) -> None:
        super().__init__()
        self.polynomial, self.substeps = PolynomialPart(flow.polynomial), flow.substeps
        self.functions = None if flow.functions is None else FunctionsPart(flow.functions)
        self.register_buffer("offset", as_tensor(flow.offset))

    def forward(self, z: Tensor, inputs: Tensor | None = None) -> Tensor:
        """The increments over one step: (..., n) and (..., m) -> (..., n)."""
        now, h = z, 1.0 / self.substeps
        for _ in range(self.substeps):
            k1 = self._slope(now, inputs)
            k2 = self._slope(now + h / 2 * k1, inputs)
            k3 = self._slope(now + h / 2 * k2, inputs)
            k4 = self._slope(now + h * k3, inputs)
            now = now + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return now - z

    def _slope(self, z: Tensor, inputs: Tensor | None) -> Tensor:
        variables = z if inputs is None else torch.cat([z, inputs], dim=-1)
        if self.functions is not None:
            variables = torch.cat([variables, self.functions(variables)], dim=-1)
        slope: Tensor = self.polynomial(variables)
        return slope + self.offset


def as_tensor(values: NDArray[Any]) -> Tensor:
    """An array in float64 as a tensor; memory is shared where its layout allows."""
    return torch.from_numpy(np.require(values, np.float64, ["C", "W"]))


def float64_of(tensor: Tensor) -> Array:
    """The values of a tensor as an array in float64."""
    values: Array = tensor.detach().cpu().double().numpy()
    return values


def polynomial_arrays(polynomial: Polynomial | None, flow: Flow | None) -> dict[str, Any]:
    """The arrays of both, by the names under which files store them."""
    found: dict[str, Any] = {}
    if polynomial is not None:
        found |= {"polynomial_table": polynomial.table, "polynomial_weights": polynomial.weights}
    if flow is not None:
        found |= {
            "flow_table": flow.polynomial.table,
            "flow_weights": flow.polynomial.weights,
            "flow_offset": flow.offset,
            "flow_substeps": np.asarray([flow.substeps], dtype=np.int64),
        }
        if flow.functions is not None:
            found |= {"flow_function_table": flow.functions.table, "flow_function_arguments": flow.functions.arguments}
    return found


Arrays = Mapping[str, NDArray[Any]]
Shapes = dict[str, tuple[int, ...]]

MOST_SUBSTEPS = 1000


@dataclass(frozen=True, eq=False)
class Logarithm:
    """Units of the logarithms of states."""

    mean: Array  #: of the logarithms, (n,).
    scale: Array  #: of the logarithms, (n,), above zero.
    floor: Array  #: (n,), above zero, in the units of the data: what is less counts as this.

    def of(self, states: Array) -> Array:
        """The logarithms of states (..., n); NaN stays NaN."""
        return np.asarray(np.log(np.maximum(states, self.floor)))

    def arrays(self) -> dict[str, Array]:
        """The arrays under the names by which files store them."""
        return {"log_mean": self.mean, "log_scale": self.scale, "log_floor": self.floor}


@dataclass(frozen=True, eq=False)
class Frame:
    """The arrays of one step; `lln.step.step.DenseStep` computes with them.

    With z = (x - mean) / scale, the features of a window of H states and the inputs u of the present are

        f_k = [ z_k, (z_k - z_{k-1}) / d_1, ..., (z_{k-H+2} - z_{k-H+1}) / d_{H-1},
                (u_k - input_mean) / input_scale ]

    and one step is

        x_{k+1} = clip(x_k + scale * (matrix f_k + offset + polynomial(f_k) + flow(z_k, u_k) + part(f_k)
                               + gain * net(f_k)))

    For a step in logarithms, log x takes the place of x, and the units of `logarithm` that of `mean` and `scale`.

    Differences carry the past, because neighbouring states are nearly equal and their difference would be lost in
    rounding. A network that predicts the next state outright is the special case matrix = [-1 0 ... 0], offset = 0,
    gain = 1.
    """

    mean: Array  #: (n,), in the units of the data.
    scale: Array  #: (n,), above zero.
    history: int  #: number of states H that a step looks at, the present one included.
    difference_scale: Array  #: d, (H - 1, n), in standardised units.
    input_mean: Array  #: (m,).
    input_scale: Array  #: (m,), above zero.
    matrix: Array  #: linear part, (n, F) with F = n H + m, from features to standardised increments.
    offset: Array  #: (n,), standardised.
    #: what one unit of the network's output is worth, (n,), standardised: the spread of what the linear part leaves
    #: over, times the correction weight. Zeros switch the network off.
    gain: Array
    polynomial: Polynomial | None = None  #: of the features; None for none.
    flow: Flow | None = None  #: a vector field in the standardised states and inputs; None for none.
    low: Array | None = None  #: (n,), in the units of the data: no state of a rollout is below; None for no bound.
    high: Array | None = None  #: the same above.
    part: ClosedFormPart | None = None  #: a closed-form part of another package; None for none.
    logarithm: Logarithm | None = None  #: units of a step in logarithms; None for a step in states.

    @property
    def units(self) -> tuple[Array, Array]:
        """Mean and scale by which a step standardises: of the states, or of their logarithms."""
        return (self.mean, self.scale) if self.logarithm is None else (self.logarithm.mean, self.logarithm.scale)

    @property
    def size(self) -> int:
        """Number of coordinates n."""
        return int(self.mean.shape[0])

    @property
    def inputs(self) -> int:
        """Number of known inputs m."""
        return int(self.input_mean.shape[0])

    @property
    def features(self) -> int:
        """Number of features F = n H + m."""
        return self.size * self.history + self.inputs

    @property
    def angles(self) -> NDArray[np.bool_]:
        """Coordinates that enter the vector field by sines and cosines alone, (n,)."""
        return np.zeros(self.size, dtype=bool) if self.flow is None else self.flow.angles()

    def feature_rows(self, window: Array, inputs: Array | None = None) -> Array:
        """Features of windows of states.

        Args:
            window: (..., H, n), oldest first, the present state last.
            inputs: (..., m), at the present; None where there are none.

        Returns:
            (..., F).
        """
        seen = window if self.logarithm is None else self.logarithm.of(window)
        states = delay_features(*map(as_tensor, (seen, *self.units, self.difference_scale)))
        if inputs is not None and self.inputs:
            known = as_tensor((inputs - self.input_mean) / self.input_scale)
            states = torch.cat([states, known.expand(*states.shape[:-1], -1)], dim=-1)
        rows: Array = states.numpy()
        return rows

    def arrays(self) -> dict[str, Any]:
        """Every array under its name, as files and exports store them."""
        names = ("mean", "scale", "difference_scale", "input_mean", "input_scale", "matrix", "offset", "gain")
        found = {name: getattr(self, name) for name in names}
        if self.low is not None and self.high is not None:
            found |= {"low": self.low, "high": self.high}
        if self.logarithm is not None:
            found |= self.logarithm.arrays()
        if self.part is not None:
            found |= {f"part_{name}": values for name, values in self.part.arrays().items()}
        return found | polynomial_arrays(self.polynomial, self.flow)

    @classmethod
    def from_arrays(cls, record: Mapping[str, Any], arrays: Arrays) -> Self:
        """The frame that `record` and `arrays` describe; ValueError or InputError where they do not fit together."""
        n, m, history = len(arrays["frame.mean"]), len(arrays["frame.input_mean"]), int(record["history"])
        shapes: Shapes = {
            "mean": (n,), "scale": (n,), "difference_scale": (history - 1, n), "input_mean": (m,), "input_scale": (m,),
            "matrix": (n, n * history + m), "offset": (n,), "gain": (n,),
        }  # fmt: skip
        given = {name.removeprefix("frame.") for name in arrays if name.startswith("frame.")}
        if given & {"low", "high"}:
            shapes |= {"low": (n,), "high": (n,)}
        polynomial = flow = logarithm = None
        if given & {"log_mean", "log_scale", "log_floor"}:
            logarithm = Logarithm(*(stored_array(f"log_{name}", arrays, (n,)) for name in ("mean", "scale", "floor")))
            if not ((logarithm.scale > 0) & (logarithm.floor > 0)).all():
                raise ValueError("frame.log_scale and frame.log_floor should be above zero")
            given -= {"log_mean", "log_scale", "log_floor"}
        if given & {"polynomial_table", "polynomial_weights"}:
            polynomial = stored_polynomial("polynomial", arrays, n, n * history + m)
            given -= {"polynomial_table", "polynomial_weights"}
        if given & {"flow_table", "flow_weights", "flow_offset", "flow_substeps"}:
            offset, substeps = (
                stored_array("flow_offset", arrays, (n,)),
                stored_array("flow_substeps", arrays, (1,), np.int64),
            )
            if not 1 <= substeps[0] <= MOST_SUBSTEPS:
                raise ValueError(f"frame.flow_substeps should be from 1 to {MOST_SUBSTEPS}, got {substeps[0]}")
            names = {"flow_function_table", "flow_function_arguments"}
            functions = _stored_functions(arrays, n + m) if given & names else None
            variables = n + m + (0 if functions is None else len(functions))
            flow = Flow(stored_polynomial("flow", arrays, n, variables), offset, int(substeps[0]), functions)
            given -= {"flow_table", "flow_weights", "flow_offset", "flow_substeps", *names}
        part = _part(record, arrays, n * history + m, n)
        found = stored_arrays({name for name in given if not name.startswith("part_")}, arrays, shapes)
        return cls(history=history, polynomial=polynomial, flow=flow, part=part, logarithm=logarithm, **found)


def delay_features(window: Tensor, mean: Tensor, scale: Tensor, difference_scale: Tensor | None) -> Tensor:
    """The standardised present state and the scaled differences before it: (..., H, n) -> (..., H n)."""
    z = (window - mean) / scale
    if difference_scale is None or window.shape[-2] == 1:
        return z[..., -1, :]
    differences = (z[..., 1:, :] - z[..., :-1, :]).flip(-2) / difference_scale
    return torch.cat([z[..., -1:, :], differences], dim=-2).flatten(-2)


def _part(record: Mapping[str, Any], arrays: Arrays, features: int, size: int) -> ClosedFormPart | None:
    """The closed-form part of another package, which must be installed."""
    mark = "frame.part_"
    given = {name.removeprefix(mark): values for name, values in arrays.items() if name.startswith(mark)}
    if "part" not in record:
        if given:
            raise ValueError(f"{mark}{min(given)} belongs to a part that is not named")
        return None
    for name, values in given.items():
        if values.dtype not in (np.float64, np.int64) or not np.isfinite(values).all():
            raise ValueError(f"{mark}{name} should hold finite numbers, float64 or int64")
    return PARTS.get(str(record["part"])).from_arrays(given, features, size)


def stored_arrays(given: set[str], arrays: Arrays, shapes: Shapes) -> dict[str, Any]:
    """The float64 arrays of `shapes`, and no others, with bounds in order."""
    if given - set(shapes):
        raise ValueError(f"frame.{min(given - set(shapes))} is not an array of this kind of step")
    found = {name: stored_array(name, arrays, shape) for name, shape in shapes.items()}
    if "low" in found and not (found["low"] <= found["high"]).all():
        raise ValueError("frame.low is above frame.high")
    return found


def stored_array(
    name: str, arrays: Arrays, shape: tuple[int, ...], dtype: type[np.generic] = np.float64
) -> NDArray[Any]:
    """One array of a frame, of that shape and type and with finite numbers."""
    values = arrays[f"frame.{name}"]
    if values.shape != shape or values.dtype != dtype:
        raise ValueError(f"frame.{name} should be {np.dtype(dtype)} of shape {shape}, got {values.dtype}{values.shape}")
    if not np.isfinite(values).all():
        raise ValueError(f"frame.{name} holds numbers that are not finite")
    return values


def stored_polynomial(name: str, arrays: Arrays, size: int, features: int) -> Polynomial:
    """A polynomial whose monomials are products of earlier ones and of features that exist."""
    count = len(arrays[f"frame.{name}_table"])
    table = stored_array(f"{name}_table", arrays, (count, 2), np.int64)
    parent, factor = table.T
    if not ((parent >= -1) & (parent < np.arange(count)) & (factor >= 0) & (factor < features)).all():
        raise ValueError(f"frame.{name}_table names a monomial or a feature that does not exist")
    return Polynomial(table, stored_array(f"{name}_weights", arrays, (size, count)))


def _stored_functions(arrays: Arrays, variables: int) -> Functions:
    """Functions of variables that exist."""
    count = len(arrays["frame.flow_function_table"])
    table = stored_array("flow_function_table", arrays, (count, 2), np.int64)
    if not count or not ((table >= 0) & (table < (variables, len(FunctionKind)))).all():
        raise ValueError("frame.flow_function_table names a variable or a function that does not exist")
    return Functions(table, stored_array("flow_function_arguments", arrays, (count, 2)))
