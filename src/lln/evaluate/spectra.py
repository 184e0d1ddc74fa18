"""Power spectra of long trajectories. A rollout that has lost its phase can still be right about its rhythms."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from lln.core.errors import InputError, check_int, positive
from lln.evaluate.metrics import Array, finite_truth

SEGMENTS = 8


@dataclass(frozen=True, eq=False)
class PowerSpectrum:
    """Power by frequency.

    Attributes:
        frequencies: (bins,), in cycles for each unit of time, zero left out.
        density: (bins, n), power for each unit of frequency, averaged over segments and trajectories.
    """

    frequencies: Array
    density: Array


def power_spectrum(states: ArrayLike, dt: float = 1.0, *, segment: int | None = None) -> PowerSpectrum:
    """Welch's estimate: half-overlapping segments under a Hann window, each without its mean.

    Args:
        states: (..., time, n), finite; every leading index is a trajectory of its own.
        dt: time between rows.
        segment: rows of one segment; None takes an eighth of the trajectory, at least 16 rows where there are as many.
    """
    rows, step = _long("states", states), positive("dt", dt)
    if not np.isfinite(rows).all():
        raise InputError("a power spectrum needs finite states, got NaN or infinity; cut the trajectory before them")
    return _welch(rows, step, _segment(segment, rows.shape[-2]))


def spectrum_distance(predicted: ArrayLike, truth: ArrayLike, dt: float = 1.0, *, segment: int | None = None) -> float:
    """How different two trajectories' power spectra are, from 0 (the same) to 1 (nothing in common).

    With P and Q the powers by frequency of one coordinate, its distance is
    ``sqrt(sum (sqrt P - sqrt Q)^2 / (sum P + sum Q))``: Hellinger's distance, except that the spectra keep their total
    power, so that a rollout that dies down or swings too far is seen as well. The result is the mean over coordinates.

    Args:
        predicted: (..., time, n); the number of rows may differ from the truth's.
        truth: (..., time, n), finite.
        dt: time between rows of both.
        segment: rows of one segment, for both; None takes an eighth of the shorter one.

    Returns:
        The distance; infinite if a prediction is not finite.
    """
    guess, right = _long("predicted", predicted), _long("truth", truth)
    if guess.shape[-1] != right.shape[-1]:
        raise InputError(f"predicted and truth must have as many columns, got {guess.shape} and {right.shape}")
    finite_truth(right)
    if not np.isfinite(guess).all():
        return float(np.inf)
    length = _segment(segment, min(guess.shape[-2], right.shape[-2]))
    with np.errstate(over="ignore", invalid="ignore"):
        p, q = (_welch(rows, positive("dt", dt), length).density for rows in (guess, right))
        apart, total = np.square(np.sqrt(p) - np.sqrt(q)).sum(axis=0), p.sum(axis=0) + q.sum(axis=0)
        # Two constants have no power at all, and no difference in it.
        distance = float(np.sqrt(np.divide(apart, total, out=np.zeros_like(total), where=total > 0)).mean())
    return distance if np.isfinite(distance) else float(np.inf)


def _welch(rows: Array, dt: float, segment: int) -> PowerSpectrum:
    window = np.hanning(segment + 2)[1:-1]
    starts = range(0, rows.shape[-2] - segment + 1, max(segment // 2, 1))
    flat = rows.reshape(-1, *rows.shape[-2:])
    density = np.zeros((segment // 2 + 1, rows.shape[-1]))
    for start in starts:
        part = flat[:, start : start + segment]
        part = (part - part.mean(axis=1, keepdims=True)) * window[:, None]
        density += np.square(np.abs(np.fft.rfft(part, axis=1))).mean(axis=0)
    density *= 2.0 * dt / (np.square(window).sum() * len(starts))
    if segment % 2 == 0:
        density[-1] /= 2.0  # the highest frequency has no partner of negative sign
    return PowerSpectrum(np.fft.rfftfreq(segment, dt)[1:], density[1:])


def _segment(segment: int | None, rows: int) -> int:
    if segment is None:
        return max(rows // SEGMENTS, min(16, rows))
    length = check_int("segment", segment, 4)
    if length > rows:
        raise InputError(f"segment must be at most the {rows} rows of the trajectory, got {length}")
    return length


def _long(name: str, states: ArrayLike) -> Array:
    rows = np.asarray(states, dtype=np.float64)
    if rows.ndim < 2 or rows.shape[-2] < 4 or rows.shape[-1] < 1:
        raise InputError(f"{name} must be (..., time, n) with at least 4 rows, got {rows.shape}")
    return rows
