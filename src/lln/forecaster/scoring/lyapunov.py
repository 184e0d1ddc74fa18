"""Lyapunov exponents of a learned step, from the Jacobian of what it computes."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from lln.core.errors import InputError
from lln.core.table import Table
from lln.evaluate.chaos import LyapunovSpectrum, lyapunov_spectrum
from lln.step.frame import Array
from lln.step.step import Step
from lln.systems import SpectralField, System, preset, stepper

# Networks compute in float32: differences have to be as much wider than in float64 as its rounding is coarser.
FLOAT32 = float(np.cbrt(np.finfo(np.float32).eps / np.finfo(np.float64).eps))

# Of `growth_rate`: distance in standard deviations, steps between renormalisations, their number, least log growth.
_NUDGE = 1e-5
_BLOCK = 10
_LEAST_BLOCKS, _MOST_BLOCKS, _VALUES = 6, 300, 200_000
_GROWTH = 3.0


def learned_lyapunov(
    surrogate: Any,
    windows: Array,
    steps: int,
    *,
    dt: float = 1.0,
    inputs: Array | None = None,
    count: int | None = None,
    transient: int | None = None,
    every: int = 1,
) -> LyapunovSpectrum:
    """Lyapunov exponents of a learned step, by QR on its Jacobian.

    A step that looks at H states is a map of windows, (H, n) -> (H, n), with n H exponents. The largest ones are those
    of the system it learned; the others measure how fast earlier states lose their influence.

    Args:
        surrogate: a `Step`, or anything with its `frame` and `rollout`, whose Jacobian is taken by differences.
        windows: where orbits start, one (H, n) or several (..., H, n), on the attractor.
        steps: length of the orbits that are averaged over.
        dt: time that one step takes.
        inputs: known inputs, held constant, (m,); None without inputs.
        count: how many exponents; None takes n, as many as the system has.
        transient: steps before the average begins; None takes a tenth of `steps`.
        every: steps between decompositions.
    """
    frame = surrogate.frame
    history, n = frame.history, frame.size
    given = np.asarray(windows, dtype=np.float64)
    if given.ndim < 2 or given.shape[-2] < history or given.shape[-1] != n:
        raise InputError(f"windows must be (..., {history}, {n}), oldest state first, got {given.shape}")
    starts = given[..., -history:, :].reshape(-1, history * n)
    forcing = None if inputs is None else np.asarray(inputs, dtype=np.float64).reshape(frame.inputs)
    known = None if forcing is None else torch.from_numpy(forcing)
    # A whole Jacobian costs as much as n differences forth and back; of a few directions differences are cheaper.
    exact = isinstance(surrogate, Step) and n <= 4 * (n if count is None else count)
    merged = surrogate.merged_step() if exact else surrogate

    def step(rows: Array) -> Array:
        now = None if forcing is None else np.broadcast_to(forcing, (len(rows), 1, frame.inputs))
        after = surrogate.rollout(rows.reshape(-1, history, n), 1, now)
        return np.concatenate([rows[:, n:], after[:, 0]], axis=1)

    def jacobian(rows: Array) -> Array:
        windows = torch.from_numpy(rows).to(merged.device).reshape(-1, history, n)
        now = None if known is None else known.to(merged.device).expand(len(rows), -1)
        # Each state of the window moves up by one place, and the last one makes its step.
        whole = np.broadcast_to(np.eye(history * n, k=n), (len(rows), history * n, history * n)).copy()
        whole[:, -n:] = merged.jacobian(windows, now).flatten(-2).cpu().numpy()
        return whole

    return lyapunov_spectrum(
        step, starts, steps, dt=dt, jacobian=jacobian if exact else None, count=n if count is None else count,
        transient=transient, every=every, scale=np.tile(frame.scale, history) * FLOAT32,
    )  # fmt: skip


def growth_rate(surrogate: Any, windows: Array, dt: float, seconds: float = math.inf) -> float | None:
    """Estimate the largest Lyapunov exponent of a step from how fast neighbouring rollouts separate, per unit of time.

    The rollouts start from windows (W, H, n) on the attractor, and are shortened to what takes the given seconds. The
    result is None where distances do not grow exponentially, inputs drive the step, or the time is too short.
    """
    frame = surrogate.frame
    if frame.inputs or not len(windows):
        return None
    history, scale = windows.shape[1], frame.scale
    blocks = int(np.clip(_VALUES // (_BLOCK * windows[:, -1].size), _LEAST_BLOCKS, _MOST_BLOCKS))
    if math.isfinite(seconds):
        began = time.monotonic()
        surrogate.rollout(windows, 2)
        each = max(time.monotonic() - began, 1e-9) / 2
        blocks = min(blocks, int(seconds / (2 * _BLOCK * each)))
        if blocks < _LEAST_BLOCKS:
            return None
    with np.errstate(all="ignore"):
        states = np.concatenate([windows, surrogate.rollout(windows, blocks * _BLOCK)], axis=1)
        apart = np.random.default_rng(0).standard_normal((len(windows), 1, frame.size)) * scale
        growth = []
        for first in range(0, blocks * _BLOCK, _BLOCK):
            apart = apart * (_NUDGE / _size(apart / scale))
            start = states[:, first : first + history] + apart
            after = np.concatenate([start, surrogate.rollout(start, _BLOCK)], axis=1)[:, -history:]
            apart = after - states[:, first + _BLOCK : first + _BLOCK + history]
            growth.append(np.log(_size(apart / scale) / _NUDGE).ravel())
    rates = np.asarray(growth)[blocks // 4 :].mean(axis=0)  # of each rollout, once directions have turned
    if not np.isfinite(rates).all():  # a rollout left the range of numbers
        return None
    total, error = float(rates.mean()), float(rates.std(ddof=1) / np.sqrt(len(rates))) if len(rates) > 1 else np.inf
    if not np.isfinite(total) or total * 0.75 * blocks < _GROWTH or total < 3.0 * error:
        return None
    return total / (_BLOCK * dt)


def _size(apart: Array) -> Array:
    """Root mean square of the last state of each window, (W, 1, 1); at least the smallest positive number."""
    return np.asarray(np.maximum(np.sqrt(np.mean(apart[:, -1:] ** 2, axis=-1, keepdims=True)), 1e-300))


def true_system(known: System | str | None, size: int) -> System | None:
    """The system that a name stands for, checked against the number of coordinates; None for no name."""
    system = preset(known) if known and isinstance(known, str) else known or None
    if system is not None and system.size != size:
        raise InputError(f"{system.name} has {system.size} coordinates but the data {size}; name the system it is of")
    return system


def spectra_beside(
    surrogate: Any, windows: Array, dt: float, system: System | None = None, *, count: int = 3
) -> dict[str, LyapunovSpectrum]:
    """The exponents of a learned step and, where it is known, of the system it learned, along orbits of equal starts.

    The size of the state determines how many orbits there are, and how long: 25 of 3000 steps for small states, fewer
    for large fields. This gives Lorenz's largest exponent to one or two percent in about ten seconds. The standard
    errors show the precision.

    Args:
        surrogate: as for `learned_lyapunov`.
        windows: states on the attractor, (W, H, n); of many an even choice is taken.
        dt: time that one learned step takes.
        system: the true one; its spectrum is under "true", that of the step under "learned".
        count: how many exponents, the largest ones.
    """
    n = surrogate.frame.size
    orbits = min(25, max(8, 800 // n), len(windows))
    steps = int(np.clip(1_500_000 // (orbits * n), 50, 3000))
    given = windows[np.linspace(0, len(windows) - 1, orbits).round().astype(int)]
    inputs = surrogate.frame.input_mean if surrogate.frame.inputs else None
    few = min(count, n)
    words: dict[str, Any] = {"count": few, "transient": steps // 3}
    found = {"learned": learned_lyapunov(surrogate, given, steps, dt=dt, inputs=inputs, **words)}
    if system is not None:
        # RK4 is cheap beside a network, and orbits that start on one trajectory part from each other with time.
        longer, every = (1, 1) if isinstance(system, SpectralField) else (5, 10)
        length = max(10 * every, round(longer * steps * dt / system.dt))
        words = {"count": few, "transient": length // 3, "every": every}
        found["true"] = lyapunov_spectrum(stepper(system), given[:, -1], length, dt=system.dt, **words)
    return found


def lyapunov_table(spectra: Mapping[str, LyapunovSpectrum], title: str = "Lyapunov exponents") -> Table:
    """Spectra side by side, as of a true system and of what was learned from it: three exponents and the dimension."""
    most = min(3, max(len(found.exponents) for found in spectra.values()))
    columns = ["", *(f"exponent {k + 1}" for k in range(most)), "dimension"]
    rows: list[list[str | float]] = []
    for name, found in spectra.items():
        pairs = zip(found.exponents[:most], found.error[:most], strict=True)
        cells = [f"{value:.3g} ± {error:.1g}" if np.isfinite(value) else "-" for value, error in pairs]
        rows.append([name, *cells, *["-"] * (most - len(cells)), found.dimension])
    return Table(columns, rows, title=title)
