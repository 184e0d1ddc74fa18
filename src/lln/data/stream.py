"""From trajectories to pairs of states, all at once or a block at a time; sums for linear fits; lags of known inputs.

A step sees one row of inputs. Where it also needs the inputs of earlier steps, these are columns of that row, so that
rollouts, kernels and exports see a wider row and nothing else. The columns are all inputs at the present, then all
inputs one step before, and so on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lln.core.errors import InputError, check_int
from lln.data.series import BLOCK_BYTES, Array, Dataset, Rows, Series

Float64 = NDArray[np.float64]
PIECES = 16  # places from which a shuffled batch is taken
LARGEST = 1e140  # squares of more, summed over many rows, overflow
Span = tuple[int, int, int]  # trajectory, first present row, last present row + 1


@dataclass(frozen=True, eq=False)
class Pairs:
    """Windows of states and what came next, in the units of the data, float64."""

    window: Float64  #: (P, H, n), oldest first, the present state last
    inputs: Float64 | None  #: known inputs at the present, (P, m), or None
    target: Float64  #: the state after the window, (P, n)
    weights: Float64 | None  #: (P,), or None
    left_out: int  #: pairs that were not used because they touch a gap (or a row of weight zero)
    index: NDArray[np.int64]  #: trajectory and row of the present state, (P, 2)

    def __len__(self) -> int:
        return int(self.target.shape[0])

    @property
    def increments(self) -> Float64:
        """Target minus present state, (P, n)."""
        return self.target - self.window[:, -1]


@dataclass(frozen=True, eq=False)
class Moments:
    """Weighted mean and scatter of the rows of a linear fit, exact over any number of blocks.

    The vector of one pair is ``v = [x_k, x_k - x_{k-1}, ..., x_{k-H+2} - x_{k-H+1}, u_k, x_{k+1} - x_k]``. Differences
    are summed as differences: from sums over states, small ones would be lost in rounding.
    """

    pairs: int  #: number of pairs
    weight: float  #: sum of their weights
    mean: Float64  #: of v, (n (H + 1) + m,)
    scatter: Float64  #: sum of ``w (v - mean)(v - mean)^T``, (V, V), or its diagonal alone, (V,)
    size: int  #: n
    history: int  #: H
    left_out: int  #: pairs that touch a gap
    least: Float64  #: smallest value of each coordinate, (n,)
    most: Float64  #: largest

    @property
    def features(self) -> int:
        """Number of entries of v before the increment, F = n H + m."""
        return int(self.mean.shape[0]) - self.size

    @property
    def std(self) -> Float64:
        """Standard deviation of each entry of v, (V,)."""
        squares = self.scatter if self.scatter.ndim == 1 else np.diagonal(self.scatter)
        return np.sqrt(np.maximum(squares, 0.0) / self.weight)


def pairs(dataset: Dataset, history: int = 1) -> Pairs:
    """Every usable pair of `dataset`; those that touch a gap are left out and counted."""
    history = check_int("history", history, 1)
    spans = _spans(dataset, history)
    if not spans:
        raise InputError(_no_pairs(dataset, history))
    return _gather(dataset, history, spans, _left_out(dataset, history))


def pair_batches(
    dataset: Dataset, history: int = 1, *, rows: int | None = None, shuffle: int | None = None
) -> Iterator[Pairs]:
    """The usable pairs a batch at a time, so that data on the disk never has to fit into memory.

    Args:
        dataset: where they come from.
        history: number of states in a window.
        rows: pairs in a batch; by default what fits into 16 MiB. The last batch may be smaller.
        shuffle: seed of the order. A batch is then put together from up to 16 random places and mixed, and every pair
            comes once in a pass; None keeps the order of time.
    """
    history = check_int("history", history, 1)
    left_out = _left_out(dataset, history)
    rng = None if shuffle is None else np.random.default_rng(check_int("shuffle", shuffle, 0))
    for spans in span_batches(dataset, history, rows, rng):
        yield _mixed(_gather(dataset, history, spans, left_out), rng)
        left_out = 0


def rows_in_batch(dataset: Dataset, history: int) -> int:
    """Pairs in a batch of 16 MiB."""
    return max(1, BLOCK_BYTES // (8 * dataset.size * (history + 1)))


def span_batches(
    dataset: Dataset, history: int, rows: int | None = None, rng: np.random.Generator | None = None
) -> Iterator[list[Span]]:
    """The runs of pairs that make up each batch; see `pair_batches`."""
    rows = rows_in_batch(dataset, history) if rows is None else check_int("rows", rows, 1)
    longest = rows if rng is None else max(1, rows // PIECES)
    spans = [(i, a, min(a + longest, b)) for i, first, b in _spans(dataset, history) for a in range(first, b, longest)]
    if not spans:
        raise InputError(_no_pairs(dataset, history))
    order = np.arange(len(spans)) if rng is None else rng.permutation(len(spans))
    held: list[Span] = []
    count = 0
    for position in order.tolist():
        i, a, b = spans[position]
        while a < b:
            take = min(b - a, rows - count)
            held.append((i, a, a + take))
            a, count = a + take, count + take
            if count == rows:
                yield held
                held, count = [], 0
    if held:
        yield held


def moments(dataset: Dataset, history: int = 1, *, rows: int | None = None, products: bool = True) -> Moments:
    """Mean and scatter of windows, inputs and increments in one pass over `dataset`, in float64.

    Without `products` of different entries the scatter is its diagonal: of thousands of coordinates the whole matrix
    would take gigabytes.
    """
    weight, count, left_out = 0.0, 0, 0
    mean = scatter = np.zeros(0)
    least, most = np.full(dataset.size, np.inf), np.full(dataset.size, -np.inf)
    for batch in pair_batches(dataset, history, rows=rows):
        present, past = batch.window[:, -1], batch.window
        parts = [present, *(past[:, -j] - past[:, -j - 1] for j in range(1, history))]
        parts += [batch.inputs] if batch.inputs is not None else []
        v = np.concatenate([*parts, batch.increments], axis=1)
        w = np.ones(len(v)) if batch.weights is None else batch.weights
        total = float(w.sum())
        centre = w @ v / total
        spread = (v - centre) * np.sqrt(w)[:, None]
        if not count:
            mean, scatter = np.zeros(v.shape[1]), np.zeros((v.shape[1],) * (2 if products else 1))
        # The scatter of two parts is the sum of theirs and that of their means.
        shift = centre - mean
        between = weight * total / (weight + total)
        if products:
            scatter += spread.T @ spread + np.outer(shift, shift) * between
        else:
            scatter += np.square(spread).sum(axis=0) + np.square(shift) * between
        mean += shift * (total / (weight + total))
        weight, count, left_out = weight + total, count + len(v), left_out + batch.left_out
        least, most = np.minimum(least, present.min(axis=0)), np.maximum(most, present.max(axis=0))
    return Moments(count, weight, mean, scatter, dataset.size, history, left_out, least, most)


def _spans(dataset: Dataset, history: int) -> list[Span]:
    """Runs of usable pairs."""
    return dataset.pair_runs(history)


def _left_out(dataset: Dataset, history: int) -> int:
    """Number of pairs that touch a gap."""
    return sum(max(0, length - history) for length in dataset.lengths) - dataset.transitions(history)


def _gather(dataset: Dataset, history: int, spans: list[Span], left_out: int) -> Pairs:
    """The pairs of `spans`, in that order."""
    count, n = sum(b - a for _, a, b in spans), dataset.size
    window, target = np.empty((count, history, n)), np.empty((count, n))
    inputs = np.empty((count, dataset.inputs)) if dataset.inputs else None
    weights = span_weights(dataset, history, spans)
    index = np.empty((count, 2), dtype=np.int64)
    at = 0
    for i, a, b in spans:
        one, here = dataset.series[i], slice(at, at + b - a)
        states, known = one.rows(a - history + 1, b + 1), one.input_rows(a, b)
        check_range(dataset, states, known)
        window[here] = np.lib.stride_tricks.sliding_window_view(states[:-1], history, axis=0).swapaxes(1, 2)
        target[here] = states[history:]
        if inputs is not None:
            inputs[here] = known
        index[here, 0], index[here, 1] = i, np.arange(a, b)
        at += b - a
    return Pairs(window, inputs, target, weights, left_out, index)


def span_weights(dataset: Dataset, history: int, spans: list[Span]) -> Float64 | None:
    """Weights of the pairs of `spans`, (P,): of the lightest row of each; None where all count alike."""
    if all(one.weights is None for one in dataset.series):
        return None
    found = []
    for i, a, b in spans:
        weights = dataset.series[i].weights
        rows = np.ones(b - a + history) if weights is None else weights[a - history + 1 : b + 1]
        found.append(np.lib.stride_tricks.sliding_window_view(rows, history + 1).min(axis=1))
    return np.concatenate(found)


def check_range(dataset: Dataset, states: NDArray[Any], inputs: NDArray[Any] | None = None) -> None:
    """Refuse numbers whose squares, summed, would overflow."""
    for block, names in ((states, dataset.names), (inputs, dataset.input_names)):
        if block is None or not block.size:
            continue
        most = max(float(block.max()), -float(block.min()))
        if most > LARGEST:
            column = int(np.abs(block).max(axis=0).argmax())
            raise InputError(
                f"{dataset.source}: {names[column]!r} reaches {most:.1e}, and beyond {LARGEST:.0e} nothing can be "
                "learned in double precision; give it in larger units"
            )


def _mixed(batch: Pairs, rng: np.random.Generator | None) -> Pairs:
    if rng is None:
        return batch
    order = rng.permutation(len(batch))
    arrays: dict[str, Any] = {name: one for name, one in vars(batch).items() if isinstance(one, np.ndarray)}
    return replace(batch, **{name: one[order] for name, one in arrays.items()})


def _no_pairs(dataset: Dataset, history: int) -> str:
    longest = max(dataset.lengths)
    if longest == 1:
        return f"{dataset.source}: one time step (one sample) has no transition to learn from; give at least two rows"
    if longest <= history:
        return (
            f"{dataset.source}: a history of {history} needs at least {history + 1} rows, the longest trajectory has "
            f"{longest}; give longer ones or a shorter history"
        )
    return (
        f"{dataset.source}: every pair of states touches a gap (NaN), none is left to learn from; look at the columns "
        "for one that is missing throughout"
    )


def lagged_rows(inputs: NDArray[Any], lags: int) -> NDArray[np.float64]:
    """Rows of inputs beside the `lags` rows before each: (..., lags + R, m) -> (..., R, (lags + 1) m)."""
    count = inputs.shape[-2] - lags
    parts = [inputs[..., lags - lag : lags - lag + count, :] for lag in range(lags + 1)]
    return np.concatenate(parts, axis=-1, dtype=np.float64)


def lagged_names(names: Sequence[str], lags: int) -> tuple[str, ...]:
    """Names of the columns of `lagged_rows`.

    >>> lagged_names(["u"], 2)
    ('u', 'u 1 step before', 'u 2 steps before')
    """
    before = [f" {lag} step{'s' if lag > 1 else ''} before" for lag in range(1, lags + 1)]
    return tuple(f"{name}{suffix}" for suffix in ("", *before) for name in names)


def with_input_lags(dataset: Dataset, lags: int, *, hold: bool = False) -> Dataset:
    """The same trajectories with the inputs of `lags` earlier steps as further input columns.

    With `hold` the first row counts as the inputs before it; else they are NaN, a gap in each of the first `lags` rows.
    """
    if not lags:
        return dataset
    series = [replace(one, inputs=_lagged(one, lags, hold)) for one in dataset.series]
    names = lagged_names(dataset.input_names, lags)
    return replace(dataset, series=tuple(series), input_names=names, input_lags=lags)


def _lagged(one: Series, lags: int, hold: bool) -> Array | Rows | None:
    if one.inputs is None:
        return None
    rows = _LaggedRows(one.inputs, lags, hold)
    return rows[0 : len(one)] if isinstance(one.inputs, np.ndarray) else rows


@dataclass(frozen=True, eq=False)
class _LaggedRows:
    """Inputs with their lags, read when asked for."""

    inputs: Array | Rows
    lags: int
    hold: bool

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.inputs.shape[0], (self.lags + 1) * self.inputs.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.float64)

    def __getitem__(self, rows: slice, /) -> NDArray[np.float64]:
        begin, end, _ = rows.indices(self.shape[0])
        known = np.asarray(self.inputs[max(0, begin - self.lags) : end], dtype=np.float64)
        missing = max(0, self.lags - begin)
        before = np.full((missing, self.inputs.shape[1]), np.nan)
        if self.hold:
            before[:] = self.inputs[0:1]
        return lagged_rows(np.concatenate([before, known]), self.lags)


@dataclass(frozen=True, eq=False)
class Standardizer:
    """``z = (x - mean) / scale``, column by column, in float64.

    A column that does not vary has no scale of its own: its scale is 1, so that it becomes all zeros and keeps its
    units, and its index is listed in `constant`.
    """

    mean: Array  #: (n,)
    scale: Array  #: (n,), above zero
    constant: tuple[int, ...] = ()  #: indices of the columns that did not vary

    @classmethod
    def fit(cls, values: ArrayLike) -> Standardizer:
        """Mean and standard deviation of each column of `values`, (samples, n)."""
        array = np.asarray(values, dtype=np.float64)
        if array.ndim != 2 or array.shape[0] < 2 or array.shape[1] < 1:
            raise InputError(f"standardising needs values of shape (samples, n), at least 2 samples, got {array.shape}")
        if not np.isfinite(array).all():
            row, column = map(int, np.argwhere(~np.isfinite(array))[0])
            raise InputError(f"standardising needs finite values, got {array[row, column]} at ({row}, {column})")
        # Twelve digits: below that a spread is what rounding left of a constant.
        constant = np.ptp(array, axis=0) <= 1e-12 * np.abs(array).max(axis=0)
        scale = np.where(constant, 1.0, array.std(axis=0))
        return cls(array.mean(axis=0), scale, tuple(int(i) for i in np.flatnonzero(constant)))

    def transform(self, values: ArrayLike) -> Array:
        """Physical to standardised units, (..., n) -> (..., n)."""
        array = np.asarray(values, dtype=np.float64)
        if array.ndim < 1 or array.shape[-1] != self.mean.shape[0]:
            raise InputError(f"this scaling is for {self.mean.shape[0]} columns, got values of shape {array.shape}")
        return (array - self.mean) / self.scale
