"""Data prepared for one choice of history: units, sums or rows for the linear part, batches for the networks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view

from lln.data.series import Dataset
from lln.data.stream import Pairs, check_range, moments, pair_batches, pairs, rows_in_batch, span_batches, span_weights
from lln.fit.choice.holdout import Part
from lln.fit.closed.linear import (
    Block,
    Mask,
    Regression,
    Units,
    allowed_features,
    curve_values,
    lag_weights,
    neighbours,
    regression_of_block,
    regression_of_moments,
    shares,
    units_of_moments,
    units_of_pairs,
)
from lln.fit.closed.ridge import RIDGES
from lln.step.frame import Array, Frame
from lln.step.step import DenseStep
from lln.train.batches import Batches, InMemoryBatches, StreamedBatches

_MEMORY = 1 << 28  # bytes of features that may be held at once
_SVD_COST = 4e10


@dataclass(frozen=True)
class FrameChoice:
    """One choice of frame."""

    history: int  #: states that a step looks at.
    #: of the neighbourhood on a grid that a coordinate looks at, in points; None for the whole grid.
    radius: int | None
    #: of the linear part, which shrinks it towards the naive forecast; infinite for the naive forecast with an offset,
    #: None for the naive forecast alone.
    ridge: float | None
    #: whether the linear part is the mean of those at this ridge, ten times less and ten times more.
    blended: bool = False
    naive: str = "last"  #: the naive forecast, as `lln.fit.closed.linear.lag_weights` names it.
    season: int = 0  #: in steps; 0 for none.
    #: whether the change depends on the present state itself; else on past changes alone, as of a random walk.
    level: bool = True
    smoothing: tuple[float, ...] = ()  #: constants of the naive forecast.
    drift: bool = True  #: whether the change has an offset.
    #: whether weights of the known inputs alone are fitted, beside the naive forecast.
    inputs_alone: bool = False
    #: differences of the last states to the naive forecast's season or curve whose weights are fitted; 0 for none.
    differences: int = 0
    #: other candidates and their weights, whose weighted mean this one is; empty for a single map.
    members: tuple[tuple[FrameChoice, float], ...] = ()

    @property
    def is_naive(self) -> bool:
        """Whether it is a naive forecast, but for an offset."""
        return not self.members and (self.ridge is None or math.isinf(self.ridge))

    def first_fitted(self, size: int) -> int:
        """The first feature with a fitted weight, where a state has `size` coordinates."""
        return size * (self.history if self.inputs_alone else 0 if self.level else 1)

    def structure(self) -> dict[str, Any]:
        """Every field as a plain value, from which `from_structure` makes the candidate again."""
        ridge = "infinite" if self.ridge == math.inf else self.ridge
        members = [[one.structure(), weight] for one, weight in self.members]
        return {**asdict(self), "ridge": ridge, "smoothing": list(self.smoothing), "members": members}

    @classmethod
    def from_structure(cls, values: Mapping[str, Any]) -> FrameChoice:
        """The candidate that `structure` wrote down."""
        members = tuple((cls.from_structure(one), weight) for one, weight in values.get("members", ()))
        ridge = math.inf if values["ridge"] == "infinite" else values["ridge"]
        return cls(**{**values, "ridge": ridge, "smoothing": tuple(values.get("smoothing", ())), "members": members})

    def record(self) -> dict[str, Any]:
        """As plain values."""
        if self.members:
            every = [{**one.record(), "weight": weight} for one, weight in self.members]
            return {"history": self.history, "radius": None, "ridge": None, "members": every}
        finite = self.ridge is not None and math.isfinite(self.ridge)
        plain: dict[str, Any] = {
            "history": self.history, "radius": self.radius, "ridge": self.ridge if finite else None,
        }  # fmt: skip
        if self.naive != "last":
            plain |= {"naive": self.naive, "season": self.season}
        plain |= {"smoothing": list(self.smoothing)} if self.smoothing else {}
        plain |= {} if self.level else {"level": False}
        plain |= {} if self.drift else {"drift": False}
        plain |= {"inputs_alone": True} if self.inputs_alone else {}
        plain |= {"differences": self.differences} if self.differences else {}
        return {**plain, "blended": True} if self.blended else plain


@dataclass(frozen=True, eq=False)
class PreparedData:
    """One part of the data for one history."""

    dataset: Dataset  #: that part.
    units: Units  #: of its features.
    regression: Regression  #: of its increments on them.
    in_memory: bool  #: whether its pairs fit into memory.
    pairs: int  #: how many.
    left_out: int  #: how many touch a gap.
    low: Array  #: smallest value of each coordinate.
    high: Array  #: largest.

    @property
    def held(self) -> Pairs | None:
        """Its pairs, if they fit into memory: gathered at each call, because those of many histories would not."""
        return pairs(self.dataset, self.units.history) if self.in_memory else None

    def blocks(self) -> Iterator[Block]:
        """Features, increments and weights of its pairs, a block at a time."""
        return feature_blocks(self.dataset, self.units)

    def some(self, units: Units, most: int) -> Block:
        """Features in `units`, increments and weights of up to `most` pairs, evenly spread."""
        count, at, found = self.dataset.transitions(units.history), 0, []
        keep = np.linspace(0, count - 1, min(most, count)).round().astype(int)
        for block in feature_blocks(self.dataset, units):
            if count <= len(block[0]) and count <= most:
                return block
            rows = keep[(keep >= at) & (keep < at + len(block[0]))] - at
            found.append(tuple(None if part is None else part[rows] for part in block))
            at += len(block[0])
        features, increments, weights = zip(*found, strict=True)
        weight = None if weights[0] is None else np.concatenate(weights)
        return np.concatenate(features), np.concatenate(increments), weight

    def near(self, radius: int | None) -> Mask | None:
        """Which coordinates are neighbours, (n, n); None for all."""
        return None if radius is None else neighbours(self.dataset, radius)

    def linear(self, candidate: FrameChoice) -> Frame:
        """The frame with its linear part and no network."""
        prior = None if candidate.naive == "last" else naive_matrix(self.units, candidate)
        if candidate.ridge is None:
            return self.units.frame(prior)
        near = self.near(candidate.radius)
        allowed = None if near is None else allowed_features(near, candidate.history, self.dataset.inputs)
        ridges = [candidate.ridge]
        if candidate.blended:
            ridges += [ridge for ridge in (candidate.ridge / 10, candidate.ridge * 10) if ridge >= 0.9 * RIDGES[0]]
        first = candidate.first_fitted(self.dataset.size)
        if candidate.differences:
            basis = differences(self.units, candidate)
            solved = [self.regression.along(basis).solve(candidate.ridge, prior)]
        elif first:
            solved = [self.regression.solve_rest(first, candidate.ridge, prior)]
        else:
            solved = [self.regression.solve(ridge, allowed, prior) for ridge in ridges]
        matrix, offset = (sum(parts[1:], start=parts[0]) / len(parts) for parts in zip(*solved, strict=True))
        return self.units.frame(matrix, offset if candidate.drift else None)

    def with_gain(self, frame: Frame) -> Frame:
        """The frame with the spread of what its linear part leaves over as the network's gain."""
        if self.in_memory:
            plain, gain, total = replace(frame, gain=np.zeros(frame.size)), np.zeros(frame.size), self.regression.weight
            for batch in pair_batches(self.dataset, frame.history):
                rest = residuals(plain, batch)[1]
                gain += shares(len(batch), batch.weights, total) @ rest**2
            return replace(frame, gain=np.sqrt(gain))
        return replace(frame, gain=np.sqrt(self.regression.unexplained(frame.matrix, frame.offset)))

    def unexplained(self, frame: Frame) -> float:
        """What the linear part leaves of the change, root mean square against root mean square, median over columns."""
        change = self.with_gain(self.units.frame()).gain
        moves = change > 0
        return float(np.median(self.with_gain(frame).gain[moves] / change[moves])) if moves.any() else 0.0

    def source(self, frame: Frame, device: str, seed: int) -> Batches:
        """Batches of the residuals of the frame's linear part."""
        held = self.held
        if held is not None:
            return InMemoryBatches(*residuals(frame, held), held.weights, device)
        convert = partial(residuals, frame)
        return StreamedBatches(self.dataset, frame.history, frame.features, convert, device, seed)


class Preparer:
    """Prepares parts of one dataset, each once."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset
        self._parts: dict[tuple[Part, ...] | None, Dataset] = {None: dataset}
        self._made: dict[tuple[tuple[Part, ...] | None, int], PreparedData] = {}

    def prepare(self, parts: tuple[Part, ...] | None, history: int) -> PreparedData:
        """Those parts, or all, for `history` states."""
        key = (parts, history)
        if key not in self._made:
            self._made[key] = prepare(self._selected(parts), history)
        return self._made[key]

    def linear(self, parts: tuple[Part, ...] | None, candidate: FrameChoice) -> Frame:
        """The frame of `candidate`, or of the weighted mean of its members, solved from those parts, or from all."""
        ready = self.prepare(parts, candidate.history)
        if not candidate.members:
            return ready.linear(candidate)
        frames = [self.prepare(parts, one.history).linear(one) for one, _ in candidate.members]
        return mean_frame(ready.units, frames, [weight for _, weight in candidate.members])

    def transitions(self, parts: tuple[Part, ...] | None, history: int) -> int:
        """How many pairs those parts have for `history` states."""
        return self._selected(parts).transitions(history)

    def _selected(self, parts: tuple[Part, ...] | None) -> Dataset:
        if parts not in self._parts:
            self._parts[parts] = self.dataset.select(parts or ())
        return self._parts[parts]

    def __getstate__(self) -> dict[str, Any]:
        return {"dataset": self.dataset, "_parts": {None: self.dataset}, "_made": {}}


def prepare(dataset: Dataset, history: int) -> PreparedData:
    """One dataset for one history."""
    count, features = dataset.transitions(history), dataset.size * history + dataset.inputs
    in_memory = not dataset.lazy and count * features * 8 <= _MEMORY
    if in_memory and count <= rows_in_batch(dataset, history):
        held = pairs(dataset, history)
        units, present, left_out = units_of_pairs(held), held.window[:, -1], held.left_out
        low, high = present.min(axis=0), present.max(axis=0)
        del held, present
        made = regression_of_block(units, next(feature_blocks(dataset, units)))
    else:
        sums = moments(dataset, history)
        units, low, high, left_out = units_of_moments(sums), sums.least, sums.most, sums.left_out
        made = regression_of_moments(units, sums)
    # With very many rows the sums are exact enough and far cheaper.
    if in_memory and count * float(features) ** 2 <= _SVD_COST:
        made = replace(made, blocks=partial(feature_blocks, dataset, units))
    return PreparedData(dataset, units, made, in_memory, count, left_out, low, high)


def naive_matrix(units: Units, candidate: FrameChoice) -> Array:
    """The naive forecast of `candidate` as a map from features to standardised increments, (n, F)."""
    matrix = _of_features(units, _weights_before(candidate.naive, candidate.season, candidate.smoothing))
    places = np.arange(len(units.mean))
    matrix[places, places] -= 1.0
    return matrix


def differences(units: Units, candidate: FrameChoice) -> Array:
    """How the last states differ from a curve or from the mean of the seasons before, as sums of features: (K n, F)."""
    weights = np.eye(candidate.differences, candidate.history)
    if candidate.naive == "curve":
        rows, harmonics, degree, _ = map(int, candidate.smoothing)
        weights -= curve_values(rows, candidate.season, harmonics, degree, len(weights) + 1)[1:]
    else:
        season, count = candidate.season, int(candidate.smoothing[0])
        for lag, row in enumerate(weights):
            row[lag + season : lag + count * season + 1 : season] -= 1.0 / count
    return np.concatenate([_of_features(units, np.cumsum(row[::-1])[::-1]) for row in weights])


def _of_features(units: Units, rest: Array) -> Array:
    """A weighted sum of past states of each coordinate as sums of features, (n, F).

    Args:
        units: of the features.
        rest: the sums of the weights from each lag on.
    """
    n = len(units.mean)
    matrix = np.zeros((n, n * units.history + len(units.input_mean)))
    each, places = matrix[:, : n * units.history].reshape(n, -1, n), np.arange(n)
    each[places, 0, places] = rest[0]
    # Feature block j holds the change from j steps ago to j - 1 steps ago, divided by its scale.
    each[places, 1 : len(rest), places] = -(rest[1:, None] * units.difference_scale[: len(rest) - 1]).T
    return matrix


@lru_cache(maxsize=256)
def _weights_before(naive: str, season: int, smoothing: tuple[float, ...]) -> Array:
    """Sums of the weights of a naive forecast from each lag on."""
    weights = lag_weights(naive, season, smoothing)
    return np.array([weights[lag:].sum() for lag in range(len(weights))])


def mean_frame(units: Units, frames: Sequence[Frame], weights: Sequence[float]) -> Frame:
    """The weighted mean of linear maps of the same or fewer lags, in `units`."""
    n = len(units.mean)
    count = n * units.history
    matrix, offset = np.zeros((n, count + len(units.input_mean))), np.zeros(n)
    for frame, weight in zip(frames, weights, strict=True):
        states = n * frame.history
        part = np.zeros_like(matrix)
        # From its units, in which features are divided by their scales, to these.
        ours = np.concatenate([units.scale, (units.scale * units.difference_scale[: frame.history - 1]).ravel()])
        theirs = np.concatenate([frame.scale, (frame.scale * frame.difference_scale).ravel()])
        part[:, :states] = frame.matrix[:, :states] * ours / theirs
        part[:, count:] = frame.matrix[:, states:] * units.input_scale / frame.input_scale
        moved = frame.matrix[:, :n] @ ((units.mean - frame.mean) / frame.scale)
        moved = moved + frame.matrix[:, states:] @ ((units.input_mean - frame.input_mean) / frame.input_scale)
        factor = weight * frame.scale / units.scale
        matrix += factor[:, None] * part
        offset += factor * (frame.offset + moved)
    return units.frame(matrix, offset)


def residuals(frame: Frame, batch: Pairs) -> tuple[Array, Array]:
    """Features (P, F), and what the linear part leaves of the increments, in units of the gain, (P, n)."""
    features = frame.feature_rows(batch.window, batch.inputs)
    known = DenseStep(frame).closed_form(torch.from_numpy(features)).numpy()
    rest = (batch.increments - known) / frame.scale
    return features, rest / np.where(frame.gain > 0, frame.gain, 1.0)


def feature_blocks(dataset: Dataset, units: Units) -> Iterator[Block]:
    """Features (P, F), increments (P, n) and weights (P,) or None of all pairs in order.

    Features are those of `Frame.feature_rows`, bit for bit; increments are in the units of the data.
    """
    history, n, m = units.history, len(units.mean), len(units.input_mean)
    for spans in span_batches(dataset, history):
        count = sum(b - a for _, a, b in spans)
        features, increments, at = np.empty((count, n * history + m)), np.empty((count, n)), 0
        for i, a, b in spans:
            here = slice(at, at + b - a)
            states = np.asarray(dataset.series[i].rows(a - history + 1, b + 1), dtype=np.float64)
            known = dataset.series[i].input_rows(a, b)
            check_range(dataset, states, known)
            increments[here] = states[history:] - states[history - 1 : -1]
            z = (states[:-1] - units.mean) / units.scale
            features[here, :n] = z[history - 1 :]
            if history > 1:
                past = sliding_window_view(np.diff(z, axis=0), history - 1, axis=0)[..., ::-1].swapaxes(1, 2)
                out = features[here, n : n * history].reshape(b - a, history - 1, n)
                np.divide(past, units.difference_scale, out=out)
            if known is not None:
                features[here, n * history :] = (known - units.input_mean) / units.input_scale
            at += b - a
        yield features, increments, span_weights(dataset, history, spans)
