"""Naive forecasts as weights of past states: the mean, the last state, the last season, exponential smoothing.

Each is a linear map without fitted coefficients, towards which a ridge shrinks fitted maps.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lln.step.frame import Array

_WEIGHTS_PER_LEVEL = 3.0  # lags of a smoothed level, times its weight of the newest state
_WEIGHTS_PER_TREND = 6.0


def lag_weights(naive: str, season: int = 0, smoothing: Sequence[float] = ()) -> Array:
    """The weights (H,) of past states in the next one, the newest first.

    Args:
        naive: "mean" (no past state; the offset is the mean), "last" (the last state), "season" (the state one season
            before the next one), "change" (the last state plus the change of one season ago), "level" (exponential
            smoothing), "trend" (exponential smoothing with a damped trend), "smooth" (the smoothed state one season
            before the next one, plus a part of what the last state differs from the one before it).
        season: in steps; "level" and a season smooth the difference to the season before.
        smoothing: of "season" and "change" the number of seasons that are averaged, (count,); of "level" the weight of
            the newest state and the number of seasons, (alpha,) or (alpha, count); of "trend" the weights of level and
            trend and the factor of the trend at each step, (alpha, beta, phi); of "smooth" the steps on both sides that
            are averaged and that part, (width, rho).
    """
    if naive == "mean":
        return np.zeros(1)
    if naive in ("season", "change"):
        return _seasonal(np.ones(1) if naive == "change" else np.zeros(0), season, _count(smoothing))
    if naive == "level":
        level = _level(smoothing[0])
        return level if not season else _seasonal(level, season, _count(smoothing[1:]))
    if naive == "trend":
        alpha, beta, phi = smoothing
        return _trend(alpha, beta, phi)
    if naive == "smooth":
        return _smooth_season(season, int(smoothing[0]), smoothing[1])
    return np.ones(1)


def lags_of(naive: str, season: int = 0, smoothing: Sequence[float] = ()) -> int:
    """How many past states a naive forecast looks at."""
    return len(lag_weights(naive, season, smoothing))


def _count(smoothing: Sequence[float]) -> int:
    return int(smoothing[0]) if smoothing else 1


def _level(alpha: float) -> Array:
    weights = alpha * (1 - alpha) ** np.arange(max(2, int(_WEIGHTS_PER_LEVEL / alpha)))
    return np.asarray(weights / weights.sum())


def _seasonal(level: Array, season: int, count: int) -> Array:
    """The mean of the last seasons, plus the level of what differs from it."""
    weights = np.zeros(count * season + len(level))
    weights[: len(level)] += level
    for k in range(1, count + 1):
        weights[k * season - 1] += 1 / count
        weights[k * season : k * season + len(level)] -= level / count
    return weights


def _trend(alpha: float, beta: float, phi: float) -> Array:
    """Weights of damped Holt smoothing; the oldest lag takes what the truncation leaves."""
    count = max(4, int(_WEIGHTS_PER_TREND / alpha))
    weights = np.zeros(count)
    level, slope = alpha, alpha * beta  # response to a unit at the newest state
    for lag in range(count):
        weights[lag] = level + phi * slope
        level, slope = (1 - alpha) * (level + phi * slope), phi * slope - alpha * beta * (level + phi * slope)
    weights[-1] += 1 - weights.sum()
    return weights


def _smooth_season(season: int, width: int, rho: float) -> Array:
    """The mean of the states around one season ago, plus `rho` times the difference to the mean around that before."""
    weights = np.zeros(season + width + 1)
    part = 1.0 / (2 * width + 1)
    weights[season - 1 - width : season + width] += part
    weights[season - width : season + width + 1] -= rho * part
    weights[0] += rho
    return weights
