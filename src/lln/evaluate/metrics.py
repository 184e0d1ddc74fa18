"""How far a rollout is from the truth: step by step, in distribution, spectrum and conserved quantities.

A prediction that is not finite counts as infinitely wrong, so that a diverged rollout can never hide in a mean.

`METRICS` holds metrics by name, for `LensForecaster.evaluate(metrics=...)` and ``lln evaluate --metrics``. A metric
from another package is registered in a running program or by an entry point in the group "lln.metrics":

    METRICS.register("largest-error", largest_error)

It is a function ``metric(predicted, truth, scale, dt) -> float`` of rollouts of equal length. `predicted` and `truth`
are arrays (windows, steps, n) of states in the units of the data, `scale` (n,) is the standard deviation of each
coordinate in the training data, and `dt` the time step. Smaller values are better. A metric is NaN where a rollout
diverged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lln.core.errors import InputError, check_int, positive
from lln.core.registry import Registry
from lln.data import Standardizer

Array = NDArray[np.floating[Any]]

VALID_RMSE = 0.4


def finite_truth(truth: Array) -> Array:
    """`truth` itself, which must be finite: only predictions may fail."""
    if not np.isfinite(truth).all():
        raise InputError("truth must be finite, got NaN or infinity")
    return truth


def unit_of(scale: ArrayLike | None, truth: Array) -> Array:
    """`scale` as one number above zero for each column of `truth`, (n,); ones where it is None."""
    unit = np.ones(truth.shape[-1]) if scale is None else np.asarray(scale, dtype=np.float64)
    if unit.shape != truth.shape[-1:] or not (unit > 0).all():
        raise InputError(f"scale must be {truth.shape[-1]} numbers above zero, got shape {unit.shape}")
    return unit


def mse_by_step(predicted: ArrayLike, truth: ArrayLike, scale: ArrayLike | None = None) -> Array:
    """Mean over coordinates of the squared error in units of `scale`, for each step.

    Args:
        predicted: states after the start, (..., steps, n).
        truth: the true ones, (..., steps, n) or (steps, n).
        scale: unit of each coordinate, (n,): the standard deviations of the training inputs. None if
            the states are standardised already.

    Returns:
        (..., steps), in float64.
    """
    guess, right = np.asarray(predicted, dtype=np.float64), np.asarray(truth, dtype=np.float64)
    if right.ndim < 2 or guess.shape[-2:] != right.shape[-2:]:
        raise InputError(f"predicted and truth must both be (..., steps, n), got {guess.shape} and {right.shape}")
    unit = unit_of(scale, finite_truth(right))
    with np.errstate(over="ignore", invalid="ignore"):
        error = np.square((guess - right) / unit).mean(axis=-1)
    return np.where(np.isfinite(error), error, np.inf)


def rmse_by_step(predicted: ArrayLike, truth: ArrayLike, scale: ArrayLike | None = None) -> Array:
    """Root of `mse_by_step`: the size of the error at each step in units of `scale`, (..., steps)."""
    return np.sqrt(mse_by_step(predicted, truth, scale))


def normalized_mse(predicted: ArrayLike, truth: ArrayLike, scale: ArrayLike | None = None) -> float:
    """The paper's score: `mse_by_step` averaged over all steps (and starts, if there are several)."""
    return float(mse_by_step(predicted, truth, scale).mean())


def normalized_rmse(predicted: ArrayLike, truth: ArrayLike, scale: ArrayLike | None = None) -> float:
    """Root of `normalized_mse`: the typical size of the error over all steps and starts."""
    return float(np.sqrt(normalized_mse(predicted, truth, scale)))


def valid_prediction_steps(
    predicted: ArrayLike, truth: ArrayLike, scale: ArrayLike | None = None, threshold: float = VALID_RMSE
) -> NDArray[np.int64]:
    """How many steps pass before the normalised root mean square error first exceeds `threshold`.

    A rollout that stays below it to the end scores all its steps, so the number is at most the length of the window.
    Shape (...): one number for each start, a zero-dimensional array for one rollout.
    """
    wrong = np.sqrt(mse_by_step(predicted, truth, scale)) > positive("threshold", threshold)
    steps = np.where(wrong.any(axis=-1), wrong.argmax(axis=-1), wrong.shape[-1])
    return np.asarray(steps, dtype=np.int64)


DIRECTIONS = 64


def distribution_distance(predicted: ArrayLike, truth: ArrayLike, scale: ArrayLike | None = None) -> float:
    """Mean over coordinates of Wasserstein's distance between visited values, in units of `scale`.

    It is the mean distance that values have to be moved to turn one histogram into the other: 0.1 means a tenth of a
    standard deviation. It looks at each coordinate alone; `sliced_distance` compares the joint distribution.

    Args:
        predicted: visited states, (..., n); every leading index is a sample.
        truth: the true ones, (..., n), finite; their number may differ.
        scale: unit of each coordinate, (n,); None takes the truth's standard deviations (1 for a
            coordinate that does not vary).

    Returns:
        The distance; infinite if a prediction is not finite.
    """
    return _mean_distance(*_standard(predicted, truth, scale))


def sliced_distance(
    predicted: ArrayLike,
    truth: ArrayLike,
    scale: ArrayLike | None = None,
    *,
    directions: int = DIRECTIONS,
    seed: int = 0,
) -> float:
    """Mean of Wasserstein's distance between both sets of states along random directions, in units of `scale`.

    Args:
        predicted: as for `distribution_distance`, like `truth` and `scale`.
        truth: the true states.
        scale: unit of each coordinate.
        directions: how many, drawn evenly from the sphere.
        seed: of the directions; the same ones for every model.
    """
    guess, right = _standard(predicted, truth, scale)
    size = (check_int("directions", directions, 1), right.shape[1])
    draws = np.random.default_rng(check_int("seed", seed, 0)).standard_normal(size)
    return _mean_distance(guess, right, draws / np.linalg.norm(draws, axis=1, keepdims=True))


def _mean_distance(guess: Array, right: Array, axes: Array | None = None) -> float:
    """Mean of Wasserstein's distance between (p, n) and (q, n) along directions (d, n), or along each coordinate."""
    from scipy.stats import wasserstein_distance

    if not np.isfinite(guess).all():
        return float(np.inf)
    if axes is not None:
        guess, right = guess @ axes.T, right @ axes.T
    return float(np.mean([wasserstein_distance(a, b) for a, b in zip(guess.T, right.T, strict=True)]))


def _standard(predicted: ArrayLike, truth: ArrayLike, scale: ArrayLike | None) -> tuple[Array, Array]:
    guess, right = np.asarray(predicted, dtype=np.float64), np.asarray(truth, dtype=np.float64)
    if min(guess.ndim, right.ndim) < 2 or guess.shape[-1] != right.shape[-1] or 0 in (guess.size, right.size):
        raise InputError(f"predicted and truth must be (..., n) with one n, got {guess.shape} and {right.shape}")
    flat = finite_truth(right).reshape(-1, right.shape[-1])
    unit = unit_of(Standardizer.fit(flat).scale if scale is None else scale, flat)
    return guess.reshape(-1, right.shape[-1]) / unit, flat / unit


Invariant = Callable[[Array], ArrayLike]


@dataclass(frozen=True, eq=False)
class Drift:
    """How far an invariant went from its value at the start."""

    values: Array  #: the invariant along the rollout, (..., time).
    #: its difference from the value at the start in units of `scale`, (..., time); infinite where the rollout is not
    #: finite.
    drift: Array
    scale: float  #: unit of the drift.

    @property
    def largest(self) -> float:
        """The largest absolute drift over all times and starts."""
        return float(np.abs(self.drift).max())

    @property
    def last(self) -> float:
        """The largest absolute drift at the end of the rollouts."""
        return float(np.abs(self.drift[..., -1]).max())


def invariant_drift(states: ArrayLike, invariant: Invariant, *, scale: float | None = None) -> Drift:
    """Follow an invariant along rollouts.

    Args:
        states: (..., time, n), the start first.
        invariant: a function of states, (..., n) -> (...). `System.invariants` gives those of the built-in systems.
        scale: unit of the drift; None takes the mean absolute value at the starts, so that the drift is relative (or 1
            where that is zero).

    >>> energy = lambda x: 0.5 * (x**2).sum(-1)
    >>> invariant_drift([[1.0, 0.0], [0.0, 2.0]], energy).largest
    3.0
    """
    rows = np.asarray(states, dtype=np.float64)
    if rows.ndim < 2 or 0 in rows.shape:
        raise InputError(f"states must be (..., time, n), the start first, got {rows.shape}")
    if not np.isfinite(rows[..., 0, :]).all():
        raise InputError("the first row of the states must be finite, got NaN or infinity")
    with np.errstate(over="ignore", invalid="ignore"):
        values = np.asarray(invariant(rows), dtype=np.float64)
        if values.shape != rows.shape[:-1]:
            raise InputError(f"the invariant must map {rows.shape} to {rows.shape[:-1]}, got {values.shape}")
        first = values[..., :1]
        unit = positive("scale", scale) if scale is not None else float(np.abs(first).mean()) or 1.0
        drift = (values - first) / unit
    sound = np.isfinite(drift) & np.isfinite(rows).all(axis=-1)
    return Drift(values, np.where(sound, drift, np.inf), unit)


@dataclass(frozen=True, eq=False)
class SpreadSkill:
    """Spread and error of an ensemble by step, over all starts and coordinates, in units of the scale."""

    #: root of the mean variance between members, (steps,), corrected for their number: it equals `error` on average
    #: when the truth could have been one more member.
    spread: Array
    error: Array  #: root mean square error of the members' mean, (steps,).
    #: continuous ranked probability score, (steps,): the error of the whole ensemble as a distribution, in the form
    #: that is fair to small ensembles. Lower is better; for one certain answer it is the absolute error.
    crps: Array
    #: how often the truth lay below all members, between each two neighbours, above all: shares, (S + 1,). Even if the
    #: ensemble is honest; high at the ends if it is overconfident.
    ranks: Array

    @property
    def ratio(self) -> Array:
        """Spread over error at each step, (steps,): below one the ensemble is overconfident.

        One where both are zero; zero where the ensemble has diverged.
        """
        lost = ~np.isfinite(self.error)
        exact = (self.error == 0) & (self.spread == 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(lost, 0.0, np.where(exact, 1.0, self.spread / self.error))

    @property
    def overall(self) -> float:
        """Spread over error with both averaged over the steps in the square; zero if the ensemble has diverged."""
        spread, error = np.square(self.spread).mean(), np.square(self.error).mean()
        if not np.isfinite(error):
            return 0.0
        return float(np.sqrt(spread / error)) if error > 0 else float(spread == 0) or float(np.inf)


def spread_skill(members: ArrayLike, truth: ArrayLike, scale: ArrayLike | None = None) -> SpreadSkill:
    """Compare the spread of an ensemble's rollouts with their error.

    Args:
        members: (S, ..., steps, n), at least two members.
        truth: (..., steps, n), finite.
        scale: unit of each coordinate, (n,); None if the states are standardised already.
    """
    cloud, right = _standard_cloud(members, truth, scale)
    size = len(cloud)
    with np.errstate(over="ignore", invalid="ignore"):
        centre, variance = cloud.mean(axis=0), cloud.var(axis=0, ddof=1)
        # A mean of S members errs by one member's variance over S more than the true mean would.
        spread = np.sqrt(_by_step((size + 1) / size * variance))
        error = np.sqrt(_by_step(np.square(centre - right)))
        crps = _by_step(_fair_crps(cloud, right))
    lost = ~(np.isfinite(error) & np.isfinite(spread))
    spread, error, crps = (np.where(lost, np.inf, values) for values in (spread, error, crps))
    return SpreadSkill(spread, error, crps, _ranks(cloud, right))


def _fair_crps(cloud: Array, right: Array) -> Array:
    """Mean distance to the truth less half the mean distance between two different members."""
    size = len(cloud)
    ordered = np.sort(cloud, axis=0)
    # In sorted order the sum of all distances between pairs is one weighted sum.
    weights = (2.0 * np.arange(size) - (size - 1)).reshape(-1, *[1] * right.ndim)
    between = np.sum(weights * ordered, axis=0) / (size * (size - 1))
    return np.asarray(np.abs(cloud - right).mean(axis=0) - between)


def _ranks(cloud: Array, right: Array) -> Array:
    """Shares of the ranks; a tie is shared evenly between the ranks that it spans, a diverged member lies above all."""
    size = len(cloud)
    known = np.where(np.isnan(cloud), np.inf, cloud)
    below, upto = ((compare(known, right)).sum(axis=0).ravel() for compare in (np.less, np.less_equal))
    counts = np.zeros(size + 2)
    share = 1.0 / (upto - below + 1)
    np.add.at(counts, below, share)
    np.subtract.at(counts, upto + 1, share)
    return np.cumsum(counts)[:-1] / right.size


def _by_step(values: Array) -> Array:
    """Mean over starts and coordinates: (..., steps, n) -> (steps,)."""
    return np.asarray(np.moveaxis(values, -2, 0).reshape(values.shape[-2], -1).mean(axis=1))


def _standard_cloud(members: ArrayLike, truth: ArrayLike, scale: ArrayLike | None) -> tuple[Array, Array]:
    cloud, right = np.asarray(members, dtype=np.float64), np.asarray(truth, dtype=np.float64)
    if right.ndim < 2 or cloud.shape[1:] != right.shape or len(cloud) < 2:
        raise InputError(
            f"members must be (S, ..., steps, n) with at least 2 members and truth (..., steps, n), "
            f"got {cloud.shape} and {right.shape}"
        )
    unit = unit_of(scale, finite_truth(right))
    return cloud / unit, right / unit


SEGMENTS = 8


@dataclass(frozen=True, eq=False)
class PowerSpectrum:
    """Power by frequency."""

    frequencies: Array  #: (bins,), in cycles for each unit of time, zero left out.
    density: Array  #: (bins, n), power for each unit of frequency, averaged over segments and trajectories.


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
    power, so that a rollout whose amplitude decays or grows counts as different too. The result is the mean over
    coordinates.

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
    from scipy.signal import welch

    window, overlap = np.hanning(segment + 2)[1:-1], segment - max(segment // 2, 1)
    flat = rows.reshape(-1, *rows.shape[-2:])
    frequencies, density = welch(flat, 1.0 / dt, window, noverlap=overlap, detrend="constant", axis=1)
    return PowerSpectrum(frequencies[1:], density.mean(axis=0)[1:])


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


Metric = Callable[[Array, Array, Array, float], float]


def _each_window(distance: Metric) -> Metric:
    """The mean of a distance over the windows."""

    def metric(predicted: Array, truth: Array, scale: Array, dt: float) -> float:
        return float(np.mean([distance(a, b, scale, dt) for a, b in zip(predicted, truth, strict=True)]))

    return metric


METRICS: Registry[Metric] = Registry(
    "metric",
    "lln.metrics",
    {
        "nmse": lambda predicted, truth, scale, _: normalized_mse(predicted, truth, scale),
        "rmse": lambda predicted, truth, scale, _: normalized_rmse(predicted, truth, scale),
        "mae": lambda predicted, truth, scale, _: float(np.mean(np.abs(predicted - truth) / scale)),
        "distribution": _each_window(lambda a, b, scale, _: distribution_distance(a, b, scale)),
        "sliced-distribution": _each_window(lambda a, b, scale, _: sliced_distance(a, b, scale)),
        "spectrum": _each_window(lambda a, b, _, dt: spectrum_distance(a, b, dt)),
    },
)


Metrics = Mapping[str, Metric] | Sequence[str | Metric] | Metric | str | None


def named_metrics(metrics: Metrics) -> dict[str, Metric]:
    """Metrics by name: registered names, or functions, which are called by their own name or that in a mapping."""
    if isinstance(metrics, Mapping):
        return {str(name): named_metrics([one]).popitem()[1] for name, one in metrics.items()}
    several = not (isinstance(metrics, str) or callable(metrics)) and isinstance(metrics, Iterable)
    given: list[Any] = list(metrics) if several else [] if metrics is None else [metrics]  # type: ignore[arg-type]
    found: dict[str, Metric] = {}
    for one in given:
        if isinstance(one, str):
            found[one] = METRICS.get(one)
        elif callable(one):
            found[getattr(one, "__name__", type(one).__name__)] = one
        else:
            names = ", ".join(map(repr, METRICS))
            raise InputError(f"a metric is a registered name ({names}) or a function, got {one!r}")
    return found


def apply_metric(name: str, metric: Metric, predicted: Array, truth: Array, scale: Array, dt: float) -> float:
    """The value of a metric; NaN where a rollout diverged."""
    if not np.isfinite(predicted).all():
        return float("nan")
    try:
        return float(metric(predicted, truth, scale, dt))
    except (TypeError, ValueError) as error:
        raise InputError(f"the metric {name!r} failed on rollouts of shape {predicted.shape}: {error}") from error
