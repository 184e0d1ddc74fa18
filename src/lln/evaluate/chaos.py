"""Lyapunov exponents: how fast nearby states separate, along every direction, for any map and for the built-in systems.

A set of directions is carried along with the state and multiplied by the Jacobian of each step. QR decompositions keep
it orthonormal, and the logarithms of R's diagonal, averaged over time, are the exponents (Benettin's method).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from lln.core.errors import InputError, check_int, positive
from lln.core.table import plain
from lln.evaluate.metrics import Array, unit_of
from lln.systems import SpectralField, System, seeded_start, stepper

Map = Callable[[Any], Any]
Tangent = Callable[[Array, Array], tuple[Array, Array]]

BLOCKS = 10


@dataclass(frozen=True, eq=False)
class LyapunovSpectrum:
    """Exponents of a map or a flow."""

    exponents: Array  #: (count,), the largest first, per unit of time; NaN if the orbit diverged.
    error: Array  #: standard error of each, (count,), from the scatter between orbits, or between stretches of a few.
    time: float  #: units of time that were averaged over, all starts together.
    diverged: int | None = None  #: the first step at which a state was not finite; None if none was.

    @property
    def largest(self) -> float:
        """The largest exponent: above zero means chaos."""
        return float(self.exponents[0])

    @property
    def dimension(self) -> float:
        """Kaplan and Yorke's dimension of the attractor, from as many exponents as there are."""
        if not np.isfinite(self.exponents).all():
            return float(np.nan)
        sums = np.cumsum(self.exponents)
        kept = int(np.sum(np.logical_and.accumulate(sums >= 0)))
        if kept in (0, len(sums)):
            return float(kept)
        return float(kept + sums[kept - 1] / -self.exponents[kept])

    def record(self) -> dict[str, Any]:
        """Plain values for JSON; what is not finite becomes None."""
        names = ("exponents", "error", "dimension", "time", "diverged")
        return {name: plain(getattr(self, name)) for name in names}


def lyapunov_spectrum(
    step: Map,
    starts: ArrayLike | Tensor,
    steps: int,
    *,
    dt: float = 1.0,
    jacobian: Map | None = None,
    count: int | None = None,
    transient: int | None = None,
    every: int = 1,
    scale: ArrayLike | None = None,
) -> LyapunovSpectrum:
    """Lyapunov exponents of a map, by QR on its Jacobian.

    Args:
        step: the map, (B, n) -> (B, n). It gets torch tensors if `starts` is one, NumPy arrays otherwise.
        starts: one state (n,) or several (..., n), whose orbits are averaged.
        steps: length of the orbits that are averaged over.
        dt: time that one step takes; the exponents are per unit of it.
        jacobian: (B, n) -> (B, n, n). None differentiates `step`: by autograd if `starts` is a tensor, otherwise by
            central differences in float64 (with a wider difference if `step` answers in float32).
        count: how many exponents, the largest ones; None takes all n.
        transient: steps before the average begins, so that the state is on its attractor and the directions have
            aligned; None takes a tenth of `steps`.
        every: steps between decompositions; a few if one step changes little.
        scale: unit of each coordinate, (n,); None takes the root mean square of the starts for all.
            Exponents do not depend on units, but differences and short averages do: give it if units are mixed.
    """
    first: Array = starts.detach().cpu().numpy() if isinstance(starts, Tensor) else np.asarray(starts)
    states = first.reshape(-1, first.shape[-1]).astype(np.float64) if first.ndim else first
    if states.ndim != 2 or states.size == 0 or not np.isfinite(states).all():
        raise InputError(f"starts must be finite states of shape (..., n), got shape {first.shape}, finite or not")
    n = states.shape[1]
    typical = np.full(n, float(np.sqrt(np.mean(np.square(states)))) or 1.0)
    unit = unit_of(typical if scale is None else scale, states)
    if jacobian is not None:
        tangent = _given(step, jacobian, unit)
    elif isinstance(starts, Tensor):
        tangent = _autograd(step, starts, unit)
    else:
        tangent = _differences(step, unit)
    return _follow(
        tangent,
        states,
        check_int("steps", steps, BLOCKS),
        positive("dt", dt),
        n if count is None else min(check_int("count", count, 1), n),
        steps // 10 if transient is None else check_int("transient", transient, 0),
        check_int("every", every, 1),
    )


def system_lyapunov(
    system: System,
    *,
    time: float = 10_000.0,
    starts: int | None = None,
    transient: float | None = None,
    count: int | None = None,
    dt: float | None = None,
) -> LyapunovSpectrum:
    """Lyapunov exponents of a system whose equation is known, in float64 on state and tangent.

    Ordinary equations step by RK4, spectral fields by their own method, which a stiff equation does not limit. One step
    of a stiff field shrinks short waves below rounding: exponents below about -20 / dt have no meaning.

    Args:
        system: one of `lln.systems` or a `UserSystem`.
        time: units of time to average over, shared by all starts.
        starts: number of orbits that run side by side, each from a start of its own; None takes 200, and 20 for fields,
            whose exponents are smaller and show only along longer orbits.
        transient: units of time that each orbit runs before the average begins; None takes 50, and for fields twice
            their own burn-in if that is longer.
        count: how many exponents; None takes all n, and of fields the ten largest.
        dt: time step; None takes the system's own.
    """
    step = system.dt if dt is None else positive("dt", dt)
    orbits, settle, most, every = 200, 50.0, system.size, 10
    if isinstance(system, SpectralField):
        orbits, settle, most, every = 20, max(50.0, 2 * system.burn_in * system.dt), min(10, system.size), 1
    orbits = orbits if starts is None else check_int("starts", starts, 1)
    # RK4 shrinks no stable direction by more than 0.27 a step, so that after ten a direction keeps ten of its digits.
    return lyapunov_spectrum(
        stepper(system, step),
        np.stack([seeded_start(system, seed) for seed in range(orbits)]),
        max(round(positive("time", time) / (orbits * step)), 10 * BLOCKS),
        dt=step,
        count=most if count is None else count,
        transient=round(positive("transient", settle if transient is None else transient) / step),
        every=every,
    )


def _follow(
    tangent: Tangent, states: Array, steps: int, dt: float, count: int, transient: int, every: int
) -> LyapunovSpectrum:
    orbits, n = states.shape
    # Random directions, since a coordinate axis may be one that the map never leaves.
    frame = np.linalg.qr(np.random.default_rng(0).standard_normal((orbits, n, count)))[0]
    growth: list[Array] = []
    rounds, waiting = -(-steps // every), -(-transient // every)
    with np.errstate(over="ignore", invalid="ignore"):
        for turn in range(waiting + rounds):
            for _ in range(every):
                states, frame = tangent(states, frame)
            if not (np.isfinite(states).all() and np.isfinite(frame).all()):
                lost = np.full(count, np.nan)
                return LyapunovSpectrum(lost, lost, 0.0, (turn + 1) * every)
            frame, triangle = np.linalg.qr(frame)
            if turn >= waiting:
                sizes = np.abs(np.diagonal(triangle, axis1=-2, axis2=-1))
                growth.append(np.log(np.maximum(sizes, np.finfo(np.float64).tiny)) / (every * dt))
    # Orbits are independent of each other; of a few, long stretches have to stand in for them.
    parts = np.array_split(np.stack(growth), 1 if orbits >= BLOCKS else min(BLOCKS, rounds))
    means = np.concatenate([part.mean(axis=0) for part in parts])
    exponents = np.mean(growth, axis=(0, 1))
    error = means.std(axis=0, ddof=1) / np.sqrt(len(means)) if len(means) > 1 else np.full(count, np.nan)
    order = np.argsort(-exponents, kind="stable")
    return LyapunovSpectrum(exponents[order], error[order], orbits * rounds * every * dt)


def _differences(step: Map, unit: Array) -> Tangent:
    width: list[Array] = []

    def tangent(states: Array, frame: Array) -> tuple[Array, Array]:
        if not width:
            answer = np.asarray(step(states))
            _same_shape(answer, states)
            width.append(np.cbrt(np.finfo(answer.dtype).eps) * unit)
        moves = width[0] * np.swapaxes(frame, -1, -2)  # (B, count, n)
        here = states[:, None]
        points = np.concatenate([here, here + moves, here - moves], axis=1)
        values = np.asarray(step(points.reshape(-1, states.shape[1])), dtype=np.float64).reshape(points.shape)
        plus, minus = np.split(values[:, 1:], 2, axis=1)
        return values[:, 0], np.swapaxes((plus - minus) / (2.0 * width[0]), -1, -2)

    return tangent


def _given(step: Map, jacobian: Map, unit: Array) -> Tangent:
    def tangent(states: Array, frame: Array) -> tuple[Array, Array]:
        matrix = np.asarray(jacobian(states), dtype=np.float64)
        if matrix.shape != (*states.shape, states.shape[1]):
            raise InputError(f"the Jacobian must be {(*states.shape, states.shape[1])}, got {matrix.shape}")
        after = np.asarray(step(states), dtype=np.float64)
        _same_shape(after, states)
        return after, _scaled(matrix, unit) @ frame

    return tangent


def _autograd(step: Map, like: Tensor, unit: Array) -> Tangent:
    def tangent(states: Array, frame: Array) -> tuple[Array, Array]:
        x = torch.from_numpy(states).to(like.device, like.dtype)
        after, matrix = value_and_jacobian(step, x)
        _same_shape(after, states)
        return after.double().cpu().numpy(), _scaled(matrix.double().cpu().numpy(), unit) @ frame

    return tangent


def _scaled(matrix: Array, unit: Array) -> Array:
    """The Jacobian between coordinates in units of `unit`, in which all directions are of a size."""
    return matrix * unit / unit[:, None]


def value_and_jacobian(function: Map, x: Tensor) -> tuple[Tensor, Tensor]:
    """What `function` makes of each row of x, (B, p) -> (B, q), and its Jacobian at each row, (B, q, p).

    Each row is repeated for every output, so that one backward pass gives all of them, through any operator that has a
    gradient. Rows must not mix.
    """
    with torch.no_grad():
        value = function(x)
    outputs, rows = value.shape[-1], x.shape[0]
    points = x.detach().repeat(outputs, 1).requires_grad_()
    with torch.enable_grad():
        wanted = function(points).reshape(outputs, rows, outputs).diagonal(dim1=0, dim2=2)
        slopes = torch.autograd.grad(wanted.sum(), points)[0]
    return value, slopes.reshape(outputs, rows, -1).transpose(0, 1)


def _same_shape(after: Any, states: NDArray[Any]) -> None:
    if tuple(after.shape) != states.shape:
        raise InputError(f"a step must keep the shape {states.shape} of its states, got {tuple(after.shape)}")
