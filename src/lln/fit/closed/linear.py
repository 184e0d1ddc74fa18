"""The linear part of a step in closed form, in float64: units, ridge, naive forecasts and, on a grid, its radius.

A naive forecast (the mean, the last state, the last season, exponential smoothing) is a linear map without fitted
coefficients, given as weights of past states. A ridge shrinks fitted maps towards it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lln.core.errors import InputError
from lln.data.series import Dataset
from lln.data.stream import Moments, Pairs, moments
from lln.step.frame import Array, Frame

Mask = NDArray[np.bool_]
Block = tuple[Array, Array, Array | None]  # features (P, F), increments (P, n), weights (P,)

# Sums of products lose what is smaller than the root of a rounding error, so a ridge below this would be noise.
LEAST_RIDGE_OF_SUMS = 1e-13
EXACT_BELOW = 1e-6  # a larger ridge hides what sums of products lose
LEAST_SCALE = 1e-140  # squares of less vanish


@dataclass(frozen=True, eq=False)
class Units:
    """The units of states, of differences between states, and of inputs; 1 for a coordinate that does not vary."""

    mean: Array
    scale: Array
    difference_scale: Array
    input_mean: Array
    input_scale: Array

    @property
    def history(self) -> int:
        """Number of states H that a step looks at."""
        return len(self.difference_scale) + 1

    def frame(self, matrix: Array | None = None, offset: Array | None = None, gain: Array | None = None) -> Frame:
        """A frame in these units; zero wherever nothing is given."""
        n = len(self.mean)
        features = n * self.history + len(self.input_mean)
        return Frame(
            self.mean,
            self.scale,
            self.history,
            self.difference_scale,
            self.input_mean,
            self.input_scale,
            np.zeros((n, features)) if matrix is None else matrix,
            np.zeros(n) if offset is None else offset,
            np.zeros(n) if gain is None else gain,
        )


def units_of_pairs(data: Pairs) -> Units:
    """Mean and standard deviation over the pairs' present states, differences and inputs."""
    weights = data.weights
    history, n = data.window.shape[1:]
    mean, scale = _mean_and_scale(data.window[:, -1], weights)
    steps = (data.window[:, -j] - data.window[:, -j - 1] for j in range(1, history))
    # Differences are near zero in the mean, and a mean of their own would hide a drift from the network.
    sizes = [_root_mean_square(step / scale, weights) for step in steps]
    inputs = np.zeros((len(data), 0)) if data.inputs is None else data.inputs
    input_mean, input_scale = _mean_and_scale(inputs, weights)
    return Units(mean, scale, np.reshape(sizes, (history - 1, n)), input_mean, input_scale)


def units_of_moments(sums: Moments) -> Units:
    """The same from sums over data that does not fit into memory."""
    n, history = sums.size, sums.history
    std = np.where(sums.std > 1e-12 * np.abs(sums.mean), sums.std, 0.0)
    wide_enough(sums.most - sums.least, std[:n])
    square = std**2 + sums.mean**2
    scale = _ones_for_zeros(std[:n])
    steps = [_ones_for_zeros(np.sqrt(square[j * n : (j + 1) * n]) / scale) for j in range(1, history)]
    inputs = slice(n * history, sums.features)
    return Units(
        sums.mean[:n],
        scale,
        np.reshape(steps, (history - 1, n)),
        sums.mean[inputs],
        _ones_for_zeros(std[inputs]),
    )


def units_of(dataset: Dataset, history: int = 1) -> Units:
    """The same in one pass over the data, without products of coordinates."""
    return units_of_moments(moments(dataset, history, products=False))


@dataclass(frozen=True, eq=False)
class Regression:
    """Least squares of standardised increments on features, ready to be solved for any ridge.

    Attributes:
        units: of everything here.
        centre: mean feature, (F,).
        change: mean increment, (n,).
        gram: mean of centred f f^T, (F, F).
        cross: mean of centred f y^T, (F, n).
        variance: mean of the squared centred increments, (n,).
        weight: sum of the weights of all rows.
        blocks: makes the features (P, F), increments (P, n) and weights (P,) or None of all rows, a block at a time;
            None if only sums are known.
    """

    units: Units
    centre: Array
    change: Array
    gram: Array
    cross: Array
    variance: Array
    weight: float = 1.0
    blocks: Callable[[], Iterable[Block]] | None = None
    _known: dict[int, tuple[Array, Array]] = field(init=False, repr=False, default_factory=dict)

    @property
    def least_ridge(self) -> float:
        """Below this a ridge makes no difference that could be trusted."""
        return 0.0 if self.blocks is not None else LEAST_RIDGE_OF_SUMS

    def solve(self, ridge: float, allowed: Mask | None = None, prior: Array | None = None) -> tuple[Array, Array]:
        """Matrix (n, F) and offset (n,).

        Args:
            ridge: weight of the squared entries of the matrix against the mean squared error; an infinite one leaves
                `prior` and an offset.
            allowed: which features each coordinate may use, (n, F); None for all.
            prior: the matrix from which entries differ as little as possible, (n, F); None for zeros. It is used with
                all features only.
        """
        ridge = max(ridge, self.least_ridge)
        matrix = self._dense(ridge, prior) if allowed is None else self._local(ridge, allowed)
        return matrix, self.change - matrix @ self.centre

    def solve_rest(self, first: int, ridge: float, prior: Array | None = None) -> tuple[Array, Array]:
        """The same from the features from `first` on: the columns before it are those of `prior`, or zero."""
        start = np.zeros_like(self.cross.T) if prior is None else prior
        if math.isinf(ridge):
            return start, self.change - start @ self.centre
        squares, directions = self._directions(first)
        rest = self.cross[first:] - self.gram[first:] @ start.T
        inverse = _inverse(squares, max(ridge, LEAST_RIDGE_OF_SUMS))[:, None]
        matrix = start.copy()
        matrix[:, first:] += (directions @ (inverse * (directions.T @ rest))).T
        return matrix, self.change - matrix @ self.centre

    def along(self, basis: Array) -> Along:
        """The regression on the rows of `basis`, (K, F): sums of features."""
        gram = basis @ self.gram @ basis.T
        size = _ones_for_zeros(np.sqrt(np.maximum(np.diagonal(gram), 0.0)))  # rounding may go below zero
        return Along(self, basis / size[:, None], *np.linalg.eigh(gram / np.outer(size, size)))

    def freedom(self, ridge: float, first: int = 0) -> float:
        """Effective number of fitted coefficients of one coordinate at `ridge`, of the features from `first` on."""
        squares = self._directions(first)[0] if first else self._spectrum_for(ridge)[0]
        return float(np.sum(squares * _inverse(squares, max(ridge, self.least_ridge))))

    def unexplained(self, matrix: Array, offset: Array) -> Array:
        """Mean squared one-step error of a linear map on the rows of the fit, (n,), in standardised units."""
        spread = self.variance - 2 * np.sum(matrix.T * self.cross, axis=0)
        spread += np.sum((matrix @ self.gram) * matrix, axis=1)
        shift = self.change - matrix @ self.centre - offset
        return np.asarray(np.maximum(spread, 0.0) + shift**2)

    @cached_property
    def _spectrum(self) -> tuple[Array, Array, Array]:
        """Squared singular values, directions (F, r), and the increments along them, (r, n)."""
        if self.blocks is None:
            return self._spectrum_of_sums
        rows, values = np.zeros((0, len(self.centre))), np.zeros((0, len(self.change)))
        for features, increments, weights in self.blocks():
            root = np.sqrt(shares(len(features), weights, self.weight))[:, None]
            more, rest = features - self.centre, (increments / self.units.scale - self.change) * root
            more *= root
            rows, values = np.concatenate([rows, more]) if len(rows) else more, np.concatenate([values, rest])
            if len(rows) > 2 * rows.shape[1]:
                # Triangular first: the singular values of a tall matrix are those of its small factor.
                basis, rows = np.linalg.qr(rows)
                values = basis.T @ values
        left, singular, right = singular_values(rows)
        return singular**2, right.T, singular[:, None] * (left.T @ values)

    @cached_property
    def _spectrum_of_sums(self) -> tuple[Array, Array, Array]:
        """The same from sums of products, in a fraction of the time."""
        values, vectors = np.linalg.eigh(self.gram)
        return np.maximum(values, 0.0), vectors, vectors.T @ self.cross

    def _spectrum_for(self, ridge: float) -> tuple[Array, Array, Array]:
        return self._spectrum if ridge < EXACT_BELOW else self._spectrum_of_sums

    def _directions(self, first: int) -> tuple[Array, Array]:
        """Squared singular values and directions of the features from `first` on."""
        if first not in self._known:
            values, vectors = np.linalg.eigh(self.gram[first:, first:])
            self._known[first] = np.maximum(values, 0.0), vectors
        return self._known[first]

    def _dense(self, ridge: float, prior: Array | None = None) -> Array:
        if math.isinf(ridge):
            return np.zeros_like(self.cross.T) if prior is None else prior
        squares, directions, along = self._spectrum_for(ridge)
        inverse = _inverse(squares, ridge)[:, None]
        if prior is None:
            return np.asarray((directions @ (inverse * along)).T)
        rest = along - squares[:, None] * (directions.T @ prior.T)
        return np.asarray(prior + (directions @ (inverse * rest)).T)

    def _local(self, ridge: float, allowed: Mask) -> Array:
        matrix = np.zeros((self.cross.shape[1], self.cross.shape[0]))
        for row, near, squares, directions, along in self._patches(allowed):
            matrix[row, near] = directions @ (_inverse(squares, ridge) * along)
        return matrix

    def _patches(self, allowed: Mask) -> list[tuple[int, NDArray[np.intp], Array, Array, Array]]:
        key = allowed.tobytes()
        known: dict[bytes, list[tuple[int, NDArray[np.intp], Array, Array, Array]]]
        known = self.__dict__.setdefault("_known_patches", {})
        if key not in known:
            found = []
            for row, mask in enumerate(allowed):
                near = np.flatnonzero(mask)
                squares, directions = np.linalg.eigh(self.gram[np.ix_(near, near)])
                found.append((row, near, np.maximum(squares, 0.0), directions, directions.T @ self.cross[near, row]))
            known[key] = found
        return known[key]


@dataclass(frozen=True, eq=False)
class Along:
    """A regression on a few sums of features.

    Attributes:
        whole: the one on all features.
        basis: the sums, of mean square 1, (K, F).
        squares: eigenvalues of the mean of their products.
        directions: the eigenvectors.
    """

    whole: Regression
    basis: Array
    squares: Array
    directions: Array

    def solve(self, ridge: float, prior: Array | None = None) -> tuple[Array, Array]:
        """Matrix (n, F) and offset (n,): a ridge fit of what `prior` leaves over."""
        whole = self.whole
        matrix = np.zeros_like(whole.cross.T) if prior is None else prior
        rest = self.directions.T @ (self.basis @ (whole.cross - whole.gram @ matrix.T))
        inverse = _inverse(np.maximum(self.squares, 0.0), max(ridge, LEAST_RIDGE_OF_SUMS))[:, None]
        matrix = matrix + (self.basis.T @ (self.directions @ (inverse * rest))).T
        return matrix, whole.change - matrix @ whole.centre

    def freedom(self, ridge: float) -> float:
        """Effective number of fitted coefficients of one coordinate."""
        return float(np.sum(self.squares / (self.squares + max(ridge, LEAST_RIDGE_OF_SUMS))))


def singular_values(matrix: Array) -> tuple[Array, Array, Array]:
    """The thin singular value decomposition.

    LAPACK's quicker routine does not converge for some matrices of low rank on some processors; then the other is used.
    """
    try:
        return np.linalg.svd(matrix, full_matrices=False)
    except np.linalg.LinAlgError:
        from scipy.linalg import svd

        left, singular, right = svd(matrix, full_matrices=False, lapack_driver="gesvd")
        return left, singular, right


def regression_of_block(units: Units, block: Block) -> Regression:
    """From features (P, F), increments (P, n) and weights (P,) or None of all rows at once."""
    features, increments, weights = block
    total = float(len(features)) if weights is None else float(weights.sum())
    share, increments = shares(len(features), weights, total), increments / units.scale
    centre, change = share @ features, share @ increments
    root = np.sqrt(share)[:, None]
    rows, values = features - centre, (increments - change) * root
    rows *= root
    gram, cross, variance = rows.T @ rows, rows.T @ values, np.sum(values**2, axis=0)
    return Regression(units, centre, change, gram, cross, variance, total)


def regression_of_moments(units: Units, sums: Moments) -> Regression:
    """From sums over data of more than one block."""
    n, count = sums.size, sums.features
    shift = np.concatenate([units.mean, np.zeros(n * (units.history - 1)), units.input_mean])
    unit = np.concatenate([units.scale, (units.difference_scale * units.scale).ravel(), units.input_scale])
    scatter = sums.scatter / sums.weight
    gram = scatter[:count, :count] / np.outer(unit, unit)
    cross = scatter[:count, count:] / np.outer(unit, units.scale)
    centre, change = (sums.mean[:count] - shift) / unit, sums.mean[count:] / units.scale
    variance = np.diagonal(scatter)[count:] / units.scale**2
    return Regression(units, centre, change, gram, cross, variance, sums.weight)


def neighbours(dataset: Dataset, radius: int) -> Mask:
    """Which columns of a grid lie within `radius` points of each other, around the edges too, (n, n)."""
    points = int(np.prod(dataset.space))
    near = np.ones((points, points), dtype=bool)
    for place, length in zip(np.unravel_index(np.arange(points), dataset.space), dataset.space, strict=True):
        apart = np.abs(place[:, None] - place[None, :])
        near &= np.minimum(apart, length - apart) <= radius
    channels = dataset.size // points
    return np.tile(near, (channels, channels))


def allowed_features(near: Mask, history: int, inputs: int) -> Mask:
    """The same for features: every past state likewise, and all inputs, (n, F)."""
    return np.concatenate([np.tile(near, (1, history)), np.ones((len(near), inputs), dtype=bool)], axis=1)


def spectral_radius(frame: Frame) -> float:
    """How much the linear part of a frame can grow in one step at most, in the long run."""
    n, history = frame.size, frame.history
    matrix = frame.matrix[:, : n * history]
    step = np.zeros((n * history, n * history))
    present = np.eye(n) + matrix[:, :n]
    change = [matrix[:, j * n : (j + 1) * n] / frame.difference_scale[j - 1] for j in range(1, history)]
    # Coordinates: z_k, z_{k-1}, ...; a difference takes from one and gives to the next.
    step[:n, :n] = present + (change[0] if change else 0.0)
    for j, block in enumerate(change, start=1):
        after = change[j] if j < len(change) else 0.0
        step[:n, j * n : (j + 1) * n] = after - block
    for j in range(1, history):
        step[j * n : (j + 1) * n, (j - 1) * n : j * n] = np.eye(n)
    return float(np.abs(np.linalg.eigvals(step)).max())


def _inverse(squares: Array, ridge: float) -> Array:
    if ridge > 0:
        return np.asarray(1.0 / (squares + ridge))
    # Directions of rounding alone are left out.
    trusted = squares > squares.max(initial=0.0) * (np.finfo(np.float64).eps * len(squares)) ** 2
    return np.where(trusted, 1.0 / np.where(trusted, squares, 1.0), 0.0)


def _mean_and_scale(values: Array, weights: Array | None) -> tuple[Array, Array]:
    share = shares(len(values), weights)
    mean = share @ values
    scale = np.sqrt(share @ (values - mean) ** 2)
    # Twelve digits: below that a spread is what rounding left of a constant.
    varies = np.ptp(values, axis=0) > 1e-12 * np.abs(values).max(axis=0) if values.shape[1] else np.zeros(0, dtype=bool)
    wide_enough(np.where(varies, np.ptp(values, axis=0), 0.0), scale)
    return mean, np.where(varies & (scale > 0), scale, 1.0)


def wide_enough(extent: Array, scale: Array) -> None:
    """Refuse what varies, but by so little that its squares vanish: it would pass for a constant."""
    lost = np.flatnonzero((extent > 0) & (scale < LEAST_SCALE) & (extent < LEAST_SCALE))
    if len(lost):
        raise InputError(
            f"column {lost[0]} varies by only {extent[lost[0]]:.1e}, and below {LEAST_SCALE:.0e} nothing can be "
            "learned in double precision; give it in smaller units"
        )


def _root_mean_square(values: Array, weights: Array | None) -> Array:
    share = shares(len(values), weights)
    return _ones_for_zeros(np.sqrt(share @ values**2))


def shares(count: int, weights: Array | None, total: float | None = None) -> Array:
    """Parts of the total weight, (count,); None for the weight of these rows."""
    if total is None:
        total = count if weights is None else float(weights.sum())
    return np.full(count, 1.0 / total) if weights is None else weights / total


def _ones_for_zeros(values: Array) -> Array:
    return np.where(values > 0, values, 1.0)


_WEIGHTS_PER_LEVEL = 3.0  # lags of a smoothed level, times its weight of the newest state
_WEIGHTS_PER_TREND = 6.0


def lag_weights(naive: str, season: int = 0, smoothing: Sequence[float] = ()) -> Array:
    """The weights (H,) of past states in the next one, the newest first.

    Args:
        naive: "mean" (no past state; the offset is the mean), "last" (the last state), "season" (the state one season
            before the next one), "change" (the last state plus the change of one season ago), "level" (exponential
            smoothing), "trend" (exponential smoothing with a damped trend), "smooth" (the smoothed state one season
            before the next one, plus a part of what the last state differs from the one before it), "curve" (the
            curve through the last rows by least squares, plus a part of what the last state differs from it).
        season: in steps; "level" and a season smooth the difference to the season before.
        smoothing: of "season" and "change" the number of seasons that are averaged, (count,); of "season" also the part
            of the last state's difference to the season before that the next one keeps, (count, rho); of "level" the
            weight of the newest state and the number of seasons, (alpha,) or (alpha, count); of "trend" the weights of
            level and trend and the factor of the trend at each step, (alpha, beta, phi); of "smooth" the steps on both
            sides that are averaged, that part and the number of seasons, (width, rho) or (width, rho, count); of
            "curve" the number of rows, the harmonics of the season and the degree of the trend in it, and that part,
            (rows, harmonics, degree, rho).
    """
    if naive == "mean":
        return np.zeros(1)
    if naive in ("season", "change"):
        kept = np.ones(1) if naive == "change" else np.asarray(smoothing[1:])
        return _seasonal(kept, season, _count(smoothing))
    if naive == "level":
        level = _level(smoothing[0])
        return level if not season else _seasonal(level, season, _count(smoothing[1:]))
    if naive == "trend":
        alpha, beta, phi = smoothing
        return _trend(alpha, beta, phi)
    if naive == "smooth":
        return _smooth_season(season, int(smoothing[0]), smoothing[1], _count(smoothing[2:]))
    if naive == "curve":
        rows, harmonics, degree, rho = smoothing
        return _curve(int(rows), season, int(harmonics), int(degree), rho)
    return np.ones(1)


def lags_of(naive: str, season: int = 0, smoothing: Sequence[float] = ()) -> int:
    """How many past states a naive forecast looks at."""
    if naive == "curve":
        return int(smoothing[0])
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


def _smooth_season(season: int, width: int, rho: float, count: int) -> Array:
    """The mean of the states around one to `count` seasons ago, plus `rho` times the difference to that before."""
    weights = np.zeros(count * season + width + 1)
    part = 1.0 / (2 * width + 1) / count
    for place in range(season, count * season + 1, season):
        weights[place - 1 - width : place + width] += part
        weights[place - width : place + width + 1] -= rho * part
    weights[0] += rho
    return weights


def _curve(rows: int, season: int, harmonics: int, degree: int, rho: float) -> Array:
    """The next value of the curve through the last rows, plus `rho` times the last state's difference to it."""
    values = curve_values(rows, season, harmonics, degree, 2)
    weights = values[0] - rho * values[1]
    weights[0] += rho
    return np.asarray(weights)


def curve_values(rows: int, season: int, harmonics: int, degree: int, count: int) -> Array:
    """The next value of the curve through the last rows and those at the last of them, by weights of the rows.

    The newest come first, (count, rows).
    """
    place = 1.0 - np.arange(rows + 1)  # the next row, then the last ones
    columns = [(place / rows) ** power for power in range(degree + 1)]
    for k in range(1, harmonics + 1):
        columns.append(np.cos(2 * np.pi * k * place / season))
        if 2 * k < season:
            columns.append(np.sin(2 * np.pi * k * place / season))
    design = np.stack(columns, axis=1)
    return np.asarray(design[:count] @ np.linalg.pinv(design[1:]))
