"""Scores of a forecaster on rows that it has not seen, and which rows those are; skill against lead time.

A model and simple methods are scored by lead time from rolling origins over the same rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lln.core.errors import InputError, choice
from lln.core.table import OURS, Table, counted, human_time, plain
from lln.data.series import Dataset
from lln.data.stream import with_input_lags
from lln.evaluate.metrics import Metric, Metrics, apply_metric, mse_by_step, named_metrics, valid_prediction_steps
from lln.evaluate.rollout import Ending, Outcome, judge
from lln.fit.choice.holdout import (
    LEAST,
    LOST,
    WORST,
    Part,
    RolloutErrors,
    Windows,
    better_by,
    horizon_of,
    lead_columns,
    load,
)
from lln.fit.report.intervals import Intervals
from lln.forecaster.comparison.competitors import POLYNOMIAL, fit_reference, too_large
from lln.forecaster.references.simple import Persistence, SeasonalNaive
from lln.forecaster.scoring.scored_rows import (
    CHOICE,
    ORIGINS,
    TRAINING,
    UNSEEN,
    Window,
    choosing_windows,
    marked_rows,
    read_windows,
    rolling_origins,
    unmarked,
    windows_of,
)
from lln.forecaster.summary import lead_lines
from lln.step.frame import Array
from lln.step.step import Step

if TYPE_CHECKING:
    import pandas
    import xarray
    from matplotlib.figure import Figure

    from lln.forecaster.forecaster import LensForecaster


MODEL = "model"
UNFITTED = ("persistence", "mean", "seasonal")  # they need no training rows
BASELINES = ("persistence", "mean", "seasonal", "linear", POLYNOMIAL, "analog", "kernel")
LEVEL = 0.9
LONGEST = 200  # steps of a rollout where none are asked for
_NUMBERS = 4_000_000  # in the rollouts of one model
_SURE = 2.0  # standard errors by which a baseline must be better
_NOTICEABLE = 1.05  # factor by which it must be better
Roll = Callable[[Array, int, Array | None], Array]


@dataclass(frozen=True, eq=False)
class LeadSkill:
    """Errors of a model and of simple methods at several lead times."""

    errors: Mapping[str, RolloutErrors]  # by name, the model under "model" first
    by_step: Mapping[str, Array]  # root mean square error at each step, (steps,), by name
    origins: int  # number of rollouts, which may overlap
    rows: int  # rows that were predicted
    noisy: bool = False  # whether means over rollouts are arithmetic, as noise makes necessary
    covered: float | None = None  # fraction of true states within the 90 % intervals; None without intervals
    left_out: Mapping[str, str] = field(default_factory=dict)  # baselines that could not be fitted, with the reason

    @property
    def leads(self) -> tuple[int, ...]:
        """Lead times in steps."""
        return self.errors[MODEL].leads

    def by_lead(self, name: str = MODEL) -> Array:
        """Normalised mean square error of the first steps up to each lead time, (leads,)."""
        return self.errors[name].by_lead(noisy=self.noisy)

    @property
    def valid_steps(self) -> int:
        """The longest lead time at which the model still forecasts, in the mean over rollouts; 0 if it never does."""
        fine = np.flatnonzero(self.by_lead() < LOST)
        return int(self.leads[fine[-1]]) if len(fine) else 0

    @property
    def better(self) -> list[tuple[str, float]]:
        """Baselines that err clearly less than the model, and by what factor, the best first."""
        horizon = horizon_of(list(self.errors.values()))
        own = self.errors[MODEL].until(horizon)
        overlap = math.sqrt(max(1.0, self.origins * self.leads[-1] / max(1, self.rows)))
        found = []
        for name, one in self.errors.items():
            if name != MODEL:
                gain, error = better_by(one.until(horizon), own, noisy=self.noisy)
                if gain > math.log(_NOTICEABLE) and (gain > _SURE * overlap * error or self.origins < 3):
                    found.append((name, math.exp(gain)))
        return sorted(found, key=lambda one: -one[1])

    def sentence(self) -> str | None:
        """One sentence where a baseline is better than the model; None otherwise."""
        if not self.better:
            return None
        name, factor = self.better[0]
        others = ", ".join(one for one, _ in self.better[1:])
        also = f" (also better: {others})" if others else ""
        return f"{_words(name)} has an error {factor:.2g} times smaller on these rows{also}; prefer it there."

    def table(self) -> Table:
        """A row for the model and each baseline, a column for each lead time."""
        places = lead_columns(self.leads)
        values = [self.by_lead(name)[places] for name in self.errors]
        rows: list[list[str | float | int]] = [
            [_label(name), *map(float, row)] for name, row in zip(self.errors, values, strict=True)
        ]
        best = [(int(np.argmin([row[j] for row in values])), j + 1) for j in range(len(places))]
        title = f"normalised MSE by lead time in steps, {counted(self.origins, 'rolling origin')}"
        return Table(["", *(f"{self.leads[k]}" for k in places)], rows, title=title, best=best)

    def text(self) -> str:
        """The table as plain lines."""
        places = lead_columns(self.leads)
        errors = {_label(name): list(map(float, self.by_lead(name)[places])) for name in self.errors}
        return "\n".join(f"  {line}" for line in lead_lines([self.leads[k] for k in places], errors))

    def record(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "lead_times": list(self.leads),
            "skill": {name: self.by_lead(name).tolist() for name in self.errors},
            "origins": self.origins,
            "coverage_90": self.covered,
            "better_baselines": dict(self.better),
            "left_out": dict(self.left_out),
        }


def lead_skill(
    step: Step[Any, Any],
    dataset: Dataset,
    parts: Sequence[Part],
    *,
    steps: int | None = None,
    count: int | None = ORIGINS,
    baselines: Sequence[str] = UNFITTED,
    training: Sequence[Part] = (),
    intervals: Intervals | None = None,
    noisy: bool = False,
) -> LeadSkill | None:
    """Roll a model and baselines out from rolling origins in `parts` of the data; None where no rollout fits into them.

    Args:
        step: the model.
        dataset: the data.
        parts: rows of it that are predicted.
        steps: length of the rollouts; None takes 200, or six tenths of the longest part.
        count: the largest number of rollouts.
        baselines: names in `BASELINES`; `BASELINES` itself leaves out what is too large.
        training: rows of the data that trained the model, to which baselines are fitted.
        intervals: of the model.
        noisy: whether means over rollouts are arithmetic.
    """
    fitted, left_out = _fitted(baselines, dataset, training)
    own = step.frame.history
    histories = sorted({own, *(history for history, _ in fitted.values() if history > own)}, reverse=True)
    few = max(4, _NUMBERS // (dataset.size * LONGEST))
    for history in histories:
        fold = rolling_origins(dataset, parts, history, steps, few if count is None else min(count, few))
        if fold.windows:
            break
    else:
        return None
    if steps is None and fold.steps > LONGEST:
        fold = rolling_origins(dataset, parts, history, LONGEST, len(fold.windows))
    mean, scale = step.frame.mean, step.frame.scale
    windows = load(dataset, fold, own, scale)
    predicted = _roll(step.rollout, windows)
    rollouts = {MODEL: predicted}
    for name, (needed, roll) in fitted.items():
        if needed > history:
            left_out[name] = f"looks at {needed} states, more than there are before the scored rows"
            continue
        before = load(dataset, fold, needed, scale)
        rollouts[name] = np.broadcast_to(mean, windows.truth.shape) if roll is None else _roll(roll, before)
        if name == POLYNOMIAL and np.array_equal(rollouts[name], predicted):
            del rollouts[name]
            left_out[name] = f"the same forecasts as {OURS}"
    errors = {name: windows.errors(states) for name, states in rollouts.items()}
    by_step = {name: _by_step(states, windows, noisy) for name, states in rollouts.items()}
    covered = None
    if intervals is not None:
        spread = intervals.spread(step, windows.start, predicted, windows.inputs)
        covered = intervals.covered(predicted, windows.truth, LEVEL, spread)
    rows = sum(last - first for _, first, last in fold.held_out)
    return LeadSkill(errors, by_step, len(fold.windows), rows, noisy, covered, left_out)


def _fitted(
    names: Sequence[str], dataset: Dataset, training: Sequence[Part]
) -> tuple[dict[str, tuple[int, Roll | None]], dict[str, str]]:
    """History and rollout of each baseline (None for the mean), and why others are left out."""
    found: dict[str, tuple[int, Roll | None]] = {}
    left_out: dict[str, str] = {}
    rows = dataset.select(training) if training else None
    for name in names:
        try:
            if name == "mean":
                found[name] = (1, None)
            elif name == "seasonal":
                season = SeasonalNaive().fit(dataset if rows is None else rows)
                if season.history > 1:
                    found[name] = (season.history, season.rollout)
            elif name == "persistence":
                found[name] = (1, Persistence().rollout)
            elif rows is None:
                left_out[name] = "fitted to the training rows, which are not in this data"
            elif names is BASELINES and (large := too_large(name, rows)):  # what is named is fitted
                left_out[name] = large
            else:
                model = fit_reference(name, rows)
                found[name] = (model.history, model.rollout)
        except InputError as error:
            left_out[name] = str(error)
    return found, left_out


def _roll(roll: Roll, windows: Windows) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(roll(windows.start, windows.truth.shape[1], windows.inputs))


def _by_step(states: Array, windows: Windows, noisy: bool) -> Array:
    """Root of the mean over rollouts of the squared error at each step, (steps,)."""
    square = np.clip(mse_by_step(states, windows.truth, windows.scale), LEAST, WORST)
    return np.asarray(np.sqrt(square.mean(axis=0) if noisy else np.exp(np.log(square).mean(axis=0))))


def _label(name: str) -> str:
    return OURS if name == MODEL else name


def _words(name: str) -> str:
    words = {
        "mean": "The mean", "seasonal": "Repeating the last season", "linear": "A linear map (autoregression)",
        POLYNOMIAL: "A polynomial map", "analog": "The nearest analog", "kernel": "Kernel ridge regression",
        "esn": "An echo state network",
    }  # fmt: skip
    return words.get(name, name.capitalize())


_WARNINGS = {
    TRAINING: "These states trained the model: the error on unseen data will be larger "
    "(more: lln explain scores-training).",
    CHOICE: "These states helped to choose the model: the error on unseen data may be larger "
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
        scored: "unseen rows" (unseen rows of the data of training), "new data", "choice rows" (they helped to
            choose the model but did not train it) or "training data".
        windows: what was scored.
        outcomes: how each rollout ended.
        coverage: fraction of hidden positions outside the control points along the rollouts; None without lenses.
        metrics: further metrics by name.
        skill: errors by lead time of the model and of simple methods, from rolling origins; None where none was taken.
        choosing: the same scores on the rows that helped to choose, where those are scored apart.
        time_unit: unit of dt; empty if it is not known.
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
        """Root of the normalised mean square error at each step, (steps,)."""
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
            scored = counted(self.skill.origins, "rolling origin")
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
        valid = f"{self.valid_prediction_steps:.4g} of {counted(self.steps, 'step')}"
        return f"Evaluation({self.scored}, {self.many}: normalised MSE {self.nmse:.3g}, valid for {valid})"

    def _repr_html_(self) -> str:
        left = "text-align:left"
        page = _html_table(self.title, [
            f"<th style='{left};font-weight:normal'>{escape(label)}</th><td style='{left}'>{escape(value)}</td>"
            for label, value in self.facts().items()
        ])  # fmt: skip
        if self.skill is not None:
            page += self.skill.table()._repr_html_()
        return page + "".join(f"<p>{escape(text)}</p>" for text in self.remarks())

    def __str__(self) -> str:
        lines = [self.title, *([self.warning] if self.warning else [])]
        lines += [f"{name:<29} {value}" for name, value in self.facts().items()]
        if self.skill is not None:
            lines += [f"normalised mean square error by lead time, {counted(self.skill.origins, 'rolling origin')}",
                      self.skill.text()]  # fmt: skip
        return "\n".join([*lines, *self.remarks()])

    @property
    def many(self) -> str:
        """The number of windows as text."""
        return "one window" if len(self.windows) == 1 else f"{len(self.windows)} windows"

    @property
    def title(self) -> str:
        """What was scored, in one line."""
        return f"scored on {self.scored}: {self.many} of up to {counted(self.steps, 'step')}"

    @property
    def warning(self) -> str:
        """One sentence where the rows were not unseen; empty otherwise."""
        return _WARNINGS.get(self.scored, "")

    def facts(self) -> dict[str, str]:
        """The scores for a reader, by name."""
        span = human_time(self.valid_prediction_time, self.time_unit)
        chaotic = self.valid_lyapunov_times
        times = "" if chaotic is None else f", {chaotic:.3g} Lyapunov times"
        valid = f"{self.valid_prediction_steps:.4g} of {counted(self.steps, 'step')} ({span}{times})"
        found = {
            "normalised mean square error": f"{self.nmse:.3g}",
            "valid prediction time": f"{valid}, RMSE below {self.threshold:g}",
        }
        if self.skill is not None and self.skill.noisy:  # one noisy state ends the valid time of a single window
            steps, origins = self.skill.valid_steps, counted(self.skill.origins, "rolling origin")
            least = "at least " if steps == self.skill.leads[-1] else ""
            mean = f"{least}{counted(steps, 'step')} ({human_time(steps * self.dt, self.time_unit)})"
            mean = mean if steps else "not even one step"
            found["valid on average"] = f"{mean}, NMSE below {LOST:g}, {origins}"
        found |= {name: f"{value:.3g}" for name, value in self.metrics.items()}
        if self.interval_coverage is not None:
            found["90 % intervals"] = f"cover {100 * self.interval_coverage:.0f} % of the states"
        return {**found, "parameters": f"{self.parameters:,}"}

    def remarks(self) -> list[str]:
        """Remarks: divergence, choice rows, better baselines."""
        said = []
        if self.diverged or self.left:
            ended = f"rollouts that diverged: {self.diverged}; rollouts that left the training region: {self.left}"
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
    metrics: Metrics,
    baselines: Sequence[str] | str | None,
) -> Evaluation:
    """Score a fitted forecaster; see `LensForecaster.evaluate`."""
    wanted, beside = named_metrics(metrics), _baselines(baselines)
    dataset = with_input_lags(dataset, model.input_lags_)
    chosen, scored = windows_of(dataset, model.training_, model.history_, steps, windows)
    found = _scores(model, dataset, chosen, scored, threshold, wanted)
    if scored == UNSEEN:
        apart = choosing_windows(dataset, model.training_, model.history_, steps, windows)
        if apart:
            found = replace(found, choosing=_scores(model, dataset, apart, CHOICE, threshold, wanted))
    if beside is None:
        return found
    if scored == TRAINING:  # a baseline fitted to these rows would be scored on them too
        beside = tuple(name for name in beside if name in UNFITTED)
    trained, chose = marked_rows(dataset, model.training_)
    every = {
        CHOICE: [~rows for rows in chose],
        TRAINING: [np.zeros_like(rows) for rows in trained],
    }.get(scored, [one | other for one, other in zip(trained, chose, strict=True)])
    every = [rows | one.filled for rows, one in zip(every, dataset.series, strict=True)]
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
    given = names if isinstance(names, Iterable) else (names,)
    return tuple(choice("baseline", name, BASELINES) for name in given)


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
