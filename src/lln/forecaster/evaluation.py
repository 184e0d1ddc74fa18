"""Score a forecaster on what it has not seen, or say that it has."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lln.core.checks import whole
from lln.core.errors import InputError
from lln.data.series import Dataset
from lln.data.windows import HORIZON
from lln.evaluate.metrics import VALID_RMSE, mse_by_step, valid_prediction_steps
from lln.evaluate.registry import Metric, apply_metric
from lln.evaluate.rollout import Ending, Outcome, Region, judged
from lln.forecaster import display
from lln.forecaster.fingerprint import Training
from lln.step.frame import Array

if TYPE_CHECKING:
    import pandas
    import xarray
    from matplotlib.figure import Figure

HELD_OUT, TRAINING, NEW = "held-out rows", "training data", "new data"
WINDOWS = 64
_VISITED = 8_000_000


class Window(NamedTuple):
    """Where one scored rollout lies: its truth is rows first to first + steps - 1 of a trajectory."""

    series: int
    first: int
    steps: int


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """How far rollouts are from the truth, in units of the training data's standard deviations.

    Attributes:
        nmse: normalised mean square error, the mean over windows of the mean over their steps.
        nmse_by_step: (steps,), the mean over the windows that are as long.
        nmse_by_window: (windows,).
        valid_prediction_steps: steps until the root of it first exceeds `threshold`, the mean over windows; a window
            that stays below counts all its steps.
        valid_by_window: the same for each window, (windows,).
        threshold: of the valid prediction time.
        dt: time step.
        parameters: numbers that the model learned, all members and the linear part together.
        scored: "held-out rows", "training data" or "new data".
        windows: what was scored.
        outcomes: how each rollout ended.
        coverage: fraction of hidden positions outside the control points along the rollouts; None without lenses.
    """

    nmse: float
    nmse_by_step: Array
    nmse_by_window: Array
    valid_prediction_steps: float
    valid_by_window: NDArray[np.int64]
    threshold: float
    dt: float
    parameters: int
    scored: str
    windows: tuple[Window, ...]
    outcomes: tuple[Outcome, ...]
    coverage: float | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)

    @property
    def steps(self) -> int:
        """Length of the longest window."""
        return len(self.nmse_by_step)

    @property
    def rmse(self) -> float:
        """Root of the normalised mean square error."""
        return math.sqrt(self.nmse)

    @property
    def rmse_by_step(self) -> Array:
        """Its root for each step, (steps,)."""
        return np.sqrt(self.nmse_by_step)

    @property
    def geometric_nmse(self) -> float:
        """Geometric mean over windows: one bad window does not decide it alone."""
        with np.errstate(divide="ignore"):
            return float(np.exp(np.log(self.nmse_by_window).mean()))

    @property
    def valid_prediction_time(self) -> float:
        """The valid prediction steps in units of time."""
        return self.valid_prediction_steps * self.dt

    @property
    def diverged(self) -> int:
        """How many rollouts diverged."""
        return sum(outcome.ending is Ending.DIVERGED for outcome in self.outcomes)

    @property
    def left(self) -> int:
        """How many rollouts left the region that training covered."""
        return sum(outcome.left is not None for outcome in self.outcomes)

    def record(self) -> dict[str, Any]:
        """Plain values for JSON; what is not finite becomes None."""
        return {
            "nmse": _plain(self.nmse),
            "rmse": _plain(self.rmse),
            "geometric_nmse": _plain(self.geometric_nmse),
            "nmse_by_step": [_plain(value) for value in self.nmse_by_step],
            "rmse_by_step": [_plain(value) for value in self.rmse_by_step],
            "nmse_by_window": [_plain(value) for value in self.nmse_by_window],
            "valid_prediction_steps": self.valid_prediction_steps,
            "valid_prediction_time": self.valid_prediction_time,
            "valid_by_window": [int(value) for value in self.valid_by_window],
            "threshold": self.threshold,
            "dt": self.dt,
            "parameters": self.parameters,
            "scored": self.scored,
            "windows": [window._asdict() for window in self.windows],
            "steps": self.steps,
            "diverged": self.diverged,
            "left_the_region": self.left,
            "coverage": self.coverage,
            "metrics": {name: _plain(value) for name, value in self.metrics.items()},
        }

    def plot(self, title: str | None = None) -> Figure:
        """Draw the error against lead time, with the threshold of valid prediction."""
        return display.plot_evaluation(self, title)

    def to_pandas(self) -> pandas.DataFrame:
        """Error by lead time: columns time, nmse and rmse, one row for each step."""
        return display.evaluation_table(self)

    def to_xarray(self) -> xarray.Dataset:
        """Error by lead time as an xarray Dataset."""
        return self.to_pandas().to_xarray()

    def __repr__(self) -> str:
        return display.evaluation_words(self)

    def _repr_html_(self) -> str:
        return display.evaluation_html(self)

    def __str__(self) -> str:
        many = f"{len(self.windows)} windows" if len(self.windows) != 1 else "one window"
        valid = f"{self.valid_prediction_steps:.4g} of {self.steps} steps ({self.valid_prediction_time:.4g} time units)"
        lines = [
            f"scored on {self.scored}: {many} of up to {self.steps} steps",
            f"normalised mean square error  {self.nmse:.3g}",
            f"valid prediction time         {valid}, threshold {self.threshold:g}",
            f"parameters                    {self.parameters:,}",
        ]
        lines[3:3] = [f"{name:<29} {value:.3g}" for name, value in self.metrics.items()]
        if self.scored == TRAINING:
            warning = "These states trained the model: the error on unseen data will be larger"
            lines.insert(1, f"{warning} (more: lln explain scores-training).")
        if self.diverged or self.left:
            ended = f"rollouts that diverged: {self.diverged}, that left the region of training: {self.left}"
            lines.append(f"{ended} (more: lln explain diverged)")
        return "\n".join(lines)


def _plain(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def windows_of(
    dataset: Dataset, training: Training | None, history: int, steps: int | None, most: int | None
) -> tuple[list[Window], str]:
    """The windows to score, and what they are.

    Rows that trained are left out; if that leaves nothing, all rows are taken and called training data. A window starts
    from the `history` rows before it, which may have trained: they are given, not predicted.

    Args:
        dataset: what to score on.
        training: what the model remembers; None if all is new to it.
        history: rows given before each window.
        steps: length of a window; None takes 500, or what there is.
        most: at most so many windows, evenly chosen; None takes all.
    """
    seen = [np.zeros(len(one), dtype=bool) if training is None else training.seen(one) for one in dataset.series]
    shown = any(rows.any() for rows in seen)
    found, kind = _cut(dataset, seen, history, steps), HELD_OUT if shown else NEW
    if not found and shown:
        found, kind = _cut(dataset, [np.zeros_like(rows) for rows in seen], history, steps), TRAINING
    if not found:
        least = history + (1 if steps is None else steps)
        raise InputError(
            f"{dataset.source}: no {least} neighbouring rows without a gap to score ({history} to start from, then the "
            "truth); give longer data or fewer steps"
        )
    if most is not None and len(found) > whole("windows", most, 1):
        found = [found[int(k)] for k in np.linspace(0, len(found) - 1, most).round()]
    return found, kind


def _cut(dataset: Dataset, seen: Sequence[Any], history: int, steps: int | None) -> list[Window]:
    """Unseen runs of rows without a gap, cut into windows; leftovers shorter than half the longest are dropped."""
    length = HORIZON if steps is None else whole("steps", steps, 1)
    pieces: list[Window] = []
    for index, first, last in dataset.stretches(history + 1):
        fresh = np.flatnonzero(np.diff(np.r_[True, seen[index][first + history : last], True].astype(np.int8)))
        for begin, end in fresh.reshape(-1, 2) + first + history:
            pieces += [Window(index, k, min(length, int(end) - k)) for k in range(int(begin), int(end), length)]
    longest = max((piece.steps for piece in pieces), default=0)
    least = longest / 2 if steps is None else length
    return [piece for piece in pieces if piece.steps >= least]


def evaluation(
    surrogate: Any,
    dataset: Dataset,
    windows: Sequence[Window],
    *,
    scored: str,
    parameters: int,
    region: Region | None = None,
    threshold: float = VALID_RMSE,
    metrics: Mapping[str, Metric] | None = None,
) -> tuple[Evaluation, Array]:
    """Roll out over every window and compare; also returns rows of features on the way, for the coverage."""
    history, scale = surrogate.frame.history, surrogate.frame.scale
    errors: list[Array] = [np.empty(0)] * len(windows)
    valid = np.zeros(len(windows), dtype=np.int64)
    outcomes: list[Outcome] = [Outcome()] * len(windows)
    features = []
    more: dict[str, list[tuple[float, int]]] = {name: [] for name in metrics or {}}
    for steps in sorted({window.steps for window in windows}):
        here = [i for i, window in enumerate(windows) if window.steps == steps]
        rows, inputs = read_windows(dataset, [windows[i] for i in here], history)
        predicted = surrogate.rollout(rows[:, :history], steps, inputs)
        run = judged(np.concatenate([rows[:, history - 1 : history], predicted], axis=1), region=region)
        truth = rows[:, history:]
        for name, metric in (metrics or {}).items():
            value = apply_metric(name, metric, np.asarray(run.predicted), truth, scale, float(dataset.dt))
            more[name].append((value, len(here)))
        mse, steps_valid = (
            mse_by_step(run.predicted, truth, scale),
            valid_prediction_steps(run.predicted, truth, scale, threshold),
        )
        features.append(visited(surrogate.frame, rows[:, :history], predicted, inputs))
        for j, i in enumerate(here):
            errors[i], valid[i], outcomes[i] = mse[j], steps_valid[j], run.outcomes[j]
    by_window = np.array([error.mean() for error in errors])
    by_step = [
        np.mean([error[k] for error in errors if len(error) > k])
        for k in range(max(window.steps for window in windows))
    ]
    scores = Evaluation(
        float(by_window.mean()), np.array(by_step), by_window, float(valid.mean()), valid, threshold,
        float(dataset.dt), parameters, scored, tuple(windows), tuple(outcomes),
        metrics={name: sum(v * w for v, w in parts) / len(windows) for name, parts in more.items()},
    )  # fmt: skip
    return scores, np.concatenate(features)


def visited(frame: Any, window: Array, predicted: Array, inputs: Array | None) -> Array:
    """Features of states from which a rollout stepped, (rows, F) or (rows, *space, F); of very many an even selection.

    Args:
        frame: whose features they are.
        window: (B, H, n).
        predicted: (B, steps, n).
        inputs: (B, steps, m), or None.
    """
    states = np.concatenate([window, predicted[:, :-1]], axis=1)
    every = -(-states.size * frame.history // _VISITED)
    sliding = np.lib.stride_tricks.sliding_window_view(states, frame.history, axis=1)[:, ::every]
    known = None if inputs is None else inputs[:, ::every]
    rows = frame.feature_rows(np.moveaxis(sliding, -1, -2).copy(), known)
    return np.asarray(rows.reshape(-1, *rows.shape[2:]))


def read_windows(dataset: Dataset, windows: Sequence[Window], history: int) -> tuple[Array, Array | None]:
    """Given and true states (W, H + steps, n), and the inputs of each step (W, steps, m)."""
    rows, inputs = [], []
    for index, first, steps in windows:
        series = dataset.series[index]
        rows.append(np.asarray(series.rows(first - history, first + steps), dtype=np.float64))
        known = series.input_rows(first - 1, first + steps - 1)
        if known is not None:
            inputs.append(np.asarray(known, dtype=np.float64))
    return np.stack(rows), np.stack(inputs) if inputs else None
