"""Metrics by name, for `LensForecaster.evaluate(metrics=...)` and `lln evaluate --metrics`.

A metric from another package is registered in a running program or by an entry point in the group "lln.metrics":

    METRICS.register("largest-error", largest_error)

It is a function ``metric(predicted, truth, scale, dt) -> float`` of rollouts of equal length. `predicted` and `truth`
are arrays (windows, steps, n) of states in the units of the data, `scale` (n,) is the standard deviation of each
coordinate in the training data, and `dt` the time step. Smaller values are better. A metric is NaN where a rollout
diverged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lln.core.errors import InputError
from lln.core.registry import Registry
from lln.evaluate.metrics import distribution_distance, normalized_mse, normalized_rmse, sliced_distance
from lln.evaluate.spectra import spectrum_distance

Array = NDArray[np.floating[Any]]
Metric = Callable[[Array, Array, Array, float], float]


def _distribution(predicted: Array, truth: Array, scale: Array, _: float) -> float:
    return float(np.mean([distribution_distance(a, b, scale) for a, b in zip(predicted, truth, strict=True)]))


def _sliced(predicted: Array, truth: Array, scale: Array, _: float) -> float:
    return float(np.mean([sliced_distance(a, b, scale) for a, b in zip(predicted, truth, strict=True)]))


def _spectrum(predicted: Array, truth: Array, _: Array, dt: float) -> float:
    return float(np.mean([spectrum_distance(a, b, dt) for a, b in zip(predicted, truth, strict=True)]))


METRICS: Registry[Metric] = Registry(
    "metric",
    "lln.metrics",
    {
        "nmse": lambda predicted, truth, scale, _: normalized_mse(predicted, truth, scale),
        "rmse": lambda predicted, truth, scale, _: normalized_rmse(predicted, truth, scale),
        "mae": lambda predicted, truth, scale, _: float(np.mean(np.abs(predicted - truth) / scale)),
        "distribution": _distribution,
        "sliced-distribution": _sliced,
        "spectrum": _spectrum,
    },
)


def named_metrics(metrics: Sequence[str | Metric] | str | None) -> dict[str, Metric]:
    """Metrics by name: registered names, or functions, which are called by their own name."""
    given: Sequence[str | Metric] = [metrics] if isinstance(metrics, str) else list(metrics or ())
    found: dict[str, Metric] = {}
    for one in given:
        if isinstance(one, str):
            found[one] = METRICS.get(one)
        elif callable(one):
            found[getattr(one, "__name__", type(one).__name__)] = one
        else:
            raise InputError(f"a metric is a registered name or a function, got {one!r}")
    return found


def apply_metric(name: str, metric: Metric, predicted: Array, truth: Array, scale: Array, dt: float) -> float:
    """The value of a metric; NaN where a rollout diverged."""
    if not np.isfinite(predicted).all():
        return float("nan")
    try:
        return float(metric(predicted, truth, scale, dt))
    except (TypeError, ValueError) as error:
        raise InputError(f"the metric {name!r} failed on rollouts of shape {predicted.shape}: {error}") from error
