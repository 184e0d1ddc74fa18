"""Scores of a forecaster on rows that it has not seen, and which rows those are."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lln.core.errors import choice
from lln.core.table import OURS, human_time, plain
from lln.data.series import Dataset
from lln.data.stream import with_input_lags
from lln.evaluate.metrics import Metric, apply_metric, mse_by_step, named_metrics, valid_prediction_steps
from lln.evaluate.rollout import Ending, Outcome, judge
from lln.fit.choice.holdout import LOST
from lln.fit.report.intervals import Intervals
from lln.forecaster.scoring.lead_skill import BASELINES, MODEL, UNFITTED, LeadSkill, lead_skill
from lln.forecaster.scoring.scored_rows import (
    CHOOSING,
    HELD_OUT,
    TRAINING,
    Window,
    choosing_windows,
    marked_rows,
    read_windows,
    unmarked,
    windows_of,
)
from lln.step.frame import Array

if TYPE_CHECKING:
    import pandas
    import xarray
    from matplotlib.figure import Figure

    from lln.forecaster.forecaster import LensForecaster

_WARNINGS = {
    TRAINING: "These states trained the model: the error on unseen data will be larger "
    "(more: lln explain scores-training).",
    CHOOSING: "These states helped to choose the model: the error on unseen data may be larger "
    "(more: lln explain scores-training).",
}
_VISITED = 8_000_000


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
        scored: "held-out rows" (unseen rows of the data of training), "new data", "choosing rows" (they helped to
            choose the model but did not train it) or "training data".
        windows: what was scored.
        outcomes: how each rollout ended.
        coverage: fraction of hidden positions outside the control points along the rollouts; None without lenses.
        metrics: further metrics by name.
        skill: errors by lead time of the model and of simple methods, from rolling origins; None where none was taken.
        choosing: the same scores on the rows that helped to choose, where those are scored apart.
        time_unit: unit of dt, "" if it is not known.
        exponent: largest Lyapunov exponent, per unit of time; None where the model is not chaotic.
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
    skill: LeadSkill | None = None
    choosing: Evaluation | None = None
    time_unit: str = ""
    exponent: float | None = None

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
    def valid_lyapunov_times(self) -> float | None:
        """The valid prediction time in Lyapunov times; None where the model is not chaotic."""
        return None if self.exponent is None else self.valid_prediction_time * self.exponent

    @property
    def interval_coverage(self) -> float | None:
        """Fraction of the true states within the 90 % intervals; None without intervals."""
        return None if self.skill is None else self.skill.covered

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
        names = (
            "nmse", "rmse", "geometric_nmse", "nmse_by_step", "rmse_by_step", "nmse_by_window",
            "valid_prediction_steps", "valid_prediction_time", "valid_by_window", "threshold", "dt", "parameters",
            "scored",
        )  # fmt: skip
        return {
            **{name: plain(getattr(self, name)) for name in names},
            "windows": [window._asdict() for window in self.windows],
            "steps": self.steps,
            "diverged": self.diverged,
            "left_the_region": self.left,
            "coverage": self.coverage,
            "metrics": plain(self.metrics),
            "lyapunov_exponent": self.exponent,
            "valid_lyapunov_times": self.valid_lyapunov_times,
            **({} if self.skill is None else self.skill.record()),
            **({} if self.choosing is None else {"choosing": self.choosing.record()}),
        }

    def plot(self, title: str | None = None) -> Figure:
        """Draw the error against lead time, with the threshold of valid prediction."""
        from lln.plots.forecasts import comparison_figure

        errors, scored = {OURS: self.rmse_by_step}, self.many
        if self.skill is not None:
            errors = {OURS if name == MODEL else name: curve for name, curve in self.skill.by_step.items()}
            scored = f"{self.skill.origins} rolling origins"
        return comparison_figure(
            errors, references=list(errors)[1:], threshold=self.threshold, dt=self.dt, time_unit=self.time_unit,
            title=f"scored on {self.scored}: {scored}" if title is None else title,
        )  # fmt: skip

    def to_pandas(self) -> pandas.DataFrame:
        """Error by lead time: columns time, nmse and rmse, one row for each step."""
        import pandas as pd

        steps = pd.Index(np.arange(1, self.steps + 1), name="step")
        columns = {"time": steps * self.dt, "nmse": self.nmse_by_step, "rmse": self.rmse_by_step}
        return pd.DataFrame(columns, index=steps)

    def to_xarray(self) -> xarray.Dataset:
        """Error by lead time as an xarray Dataset."""
        return self.to_pandas().to_xarray()

    def __repr__(self) -> str:
        valid = f"{self.valid_prediction_steps:.4g} of {self.steps} steps"
        return f"Evaluation({self.scored}, {self.many}: normalised MSE {self.nmse:.3g}, valid for {valid})"

    def _repr_html_(self) -> str:
        left = "text-align:left"
        page = _html_table(self.title, [
            f"<th style='{left};font-weight:normal'>{escape(label)}</th><td style='{left}'>{escape(value)}</td>"
            for label, value in self.facts().items()
        ])  # fmt: skip
        if self.skill is not None:
            table = self.skill.table()
            head = "".join(f"<th>{escape(name)}</th>" for name in table.columns)
            rows = ["".join(f"<td>{escape(cell)}</td>" for cell in row) for row in table.cells()]
            page += _html_table(table.title, [head, *rows])
        return page + "".join(f"<p>{escape(text)}</p>" for text in self.remarks())

    def __str__(self) -> str:
        lines = [self.title, *([self.warning] if self.warning else [])]
        lines += [f"{name:<29} {value}" for name, value in self.facts().items()]
        if self.skill is not None:
            lines += [f"normalised mean square error by lead time, {self.skill.origins} rolling origins",
                      self.skill.text()]  # fmt: skip
        return "\n".join([*lines, *self.remarks()])

    @property
    def many(self) -> str:
        """The number of windows in words."""
        return "one window" if len(self.windows) == 1 else f"{len(self.windows)} windows"

    @property
    def title(self) -> str:
        """What was scored, in one line."""
        return f"scored on {self.scored}: {self.many} of up to {self.steps} steps"

    @property
    def warning(self) -> str:
        """One sentence where the rows were not unseen; "" otherwise."""
        return _WARNINGS.get(self.scored, "")

    def facts(self) -> dict[str, str]:
        """The scores for a reader, by name."""
        span = human_time(self.valid_prediction_time, self.time_unit)
        chaotic = self.valid_lyapunov_times
        times = "" if chaotic is None else f", {chaotic:.3g} Lyapunov times"
        valid = f"{self.valid_prediction_steps:.4g} of {self.steps} steps ({span}{times})"
        found = {
            "normalised mean square error": f"{self.nmse:.3g}",
            "valid prediction time": f"{valid}, RMSE below {self.threshold:g}",
        }
        if self.skill is not None and self.skill.noisy:  # one noisy state ends the valid time of a single window
            steps = self.skill.valid_steps
            least = "at least " if steps == self.skill.leads[-1] else ""
            mean = f"{least}{steps} steps ({human_time(steps * self.dt, self.time_unit)})"
            mean = mean if steps else "not even one step"
            found["valid on average"] = f"{mean}, NMSE below {LOST:g}, {self.skill.origins} rolling origins"
        found |= {name: f"{value:.3g}" for name, value in self.metrics.items()}
        if self.interval_coverage is not None:
            found["90 % intervals"] = f"cover {self.interval_coverage:.0%} of the states"
        return {**found, "parameters": f"{self.parameters:,}"}

    def remarks(self) -> list[str]:
        """Sentences on what the numbers do not say."""
        said = []
        if self.diverged or self.left:
            ended = f"rollouts that diverged: {self.diverged}; that left the region of the training data: {self.left}"
            said.append(f"{ended} (more: lln explain diverged)")
        beaten = None if self.skill is None or self.scored == TRAINING else self.skill.sentence()
        if beaten is not None:
            said.append(beaten)
        if self.choosing is not None:
            other = self.choosing
            said.append(
                f"separately, on {len(other.windows)} windows of the rows that helped to choose: normalised mean "
                f"square error {other.nmse:.3g}, valid for {other.valid_prediction_steps:.4g} of {other.steps} steps"
            )
        return said


def _html_table(title: str, rows: Sequence[str]) -> str:
    """A title, and a table of rows that are cells in HTML."""
    return f"<div><b>{escape(title)}</b><table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table></div>"


def evaluate_model(
    model: LensForecaster,
    dataset: Dataset,
    *,
    steps: int | None,
    windows: int | None,
    threshold: float,
    metrics: Sequence[str | Metric] | str | None,
    baselines: Sequence[str] | str | None,
) -> Evaluation:
    """Score a fitted forecaster; see `LensForecaster.evaluate`."""
    wanted, beside = named_metrics(metrics), _baselines(baselines)
    dataset = with_input_lags(dataset, model.input_lags_)
    chosen, scored = windows_of(dataset, model.training_, model.history_, steps, windows)
    found = _scores(model, dataset, chosen, scored, threshold, wanted)
    if scored == HELD_OUT:
        apart = choosing_windows(dataset, model.training_, model.history_, steps, windows)
        if apart:
            found = replace(found, choosing=_scores(model, dataset, apart, CHOOSING, threshold, wanted))
    if beside is None:
        return found
    if scored == TRAINING:  # a baseline fitted to these rows would be scored on them too
        beside = tuple(name for name in beside if name in UNFITTED)
    trained, chose = marked_rows(dataset, model.training_)
    every = {
        CHOOSING: [~rows for rows in chose],
        TRAINING: [np.zeros_like(rows) for rows in trained],
    }.get(scored, [one | other for one, other in zip(trained, chose, strict=True)])
    report = model.report_
    skill = lead_skill(
        model.surrogate_, dataset, unmarked(every), steps=steps, count=windows, baselines=beside,
        training=unmarked([~rows for rows in trained]), noisy=report.noisy,
        intervals=Intervals.from_record(report.intervals) if report.intervals else None,
    )  # fmt: skip
    return replace(found, skill=skill)


def _baselines(names: Sequence[str] | str | None) -> tuple[str, ...] | None:
    """Names of baselines: "auto" takes those that need no fit, "all" those that are not too large; None takes none."""
    if isinstance(names, str):
        names = {"auto": UNFITTED, "all": BASELINES}.get(names, (names,))
    if names is None or names is BASELINES:
        return names  # `lead_skill` knows by it that none was named
    return tuple(choice("baseline", name, BASELINES) for name in names)


def _scores(
    model: LensForecaster,
    dataset: Dataset,
    windows: Sequence[Window],
    scored: str,
    threshold: float,
    metrics: Mapping[str, Metric],
) -> Evaluation:
    """Roll out over every window and compare."""
    surrogate = model.surrogate_
    history, scale = surrogate.frame.history, surrogate.frame.scale
    errors: list[Array] = [np.empty(0)] * len(windows)
    valid = np.zeros(len(windows), dtype=np.int64)
    outcomes: list[Outcome] = [Outcome()] * len(windows)
    features = []
    more: dict[str, list[tuple[float, int]]] = {name: [] for name in metrics}
    for steps in sorted({window.steps for window in windows}):
        here = [i for i, window in enumerate(windows) if window.steps == steps]
        rows, inputs = read_windows(dataset, [windows[i] for i in here], history)
        predicted = surrogate.rollout(rows[:, :history], steps, inputs)
        run = judge(np.concatenate([rows[:, history - 1 : history], predicted], axis=1), region=model.region_)
        truth = rows[:, history:]
        for name, metric in metrics.items():
            value = apply_metric(name, metric, np.asarray(run.predicted), truth, scale, float(dataset.dt))
            more[name].append((value, len(here)))
        mse = mse_by_step(run.predicted, truth, scale)
        steps_valid = valid_prediction_steps(run.predicted, truth, scale, threshold)
        features.append(visited(surrogate.frame, rows[:, :history], predicted, inputs))
        for j, i in enumerate(here):
            errors[i], valid[i], outcomes[i] = mse[j], steps_valid[j], run.outcomes[j]
    by_window = np.array([error.mean() for error in errors])
    longest = max(window.steps for window in windows)
    by_step = [np.mean([error[k] for error in errors if len(error) > k]) for k in range(longest)]
    outside = model._coverage(np.concatenate(features))
    return Evaluation(
        float(by_window.mean()), np.array(by_step), by_window, float(valid.mean()), valid, threshold,
        float(dataset.dt), model.parameters_, scored, tuple(windows), tuple(outcomes),
        coverage=None if outside is None else outside.outside,
        metrics={name: sum(v * w for v, w in parts) / len(windows) for name, parts in more.items()},
        time_unit=model.layout_.time_unit, exponent=model.report_.exponent,
    )  # fmt: skip


def visited(frame: Any, window: Array, predicted: Array, inputs: Array | None) -> Array:
    """Features of states from which a rollout stepped, (rows, F) or (rows, *space, F); of very many an even selection.

    The window is (B, H, n), what was predicted (B, steps, n), and the inputs are (B, steps, m) or None.
    """
    states = np.concatenate([window, predicted[:, :-1]], axis=1)
    every = -(-states.size * frame.history // _VISITED)
    sliding = np.lib.stride_tricks.sliding_window_view(states, frame.history, axis=1)[:, ::every]
    known = None if inputs is None else inputs[:, ::every]
    rows = frame.feature_rows(np.moveaxis(sliding, -1, -2).copy(), known)
    return np.asarray(rows.reshape(-1, *rows.shape[2:]))
