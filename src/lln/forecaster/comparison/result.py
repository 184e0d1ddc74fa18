"""The result of a comparison: scores, tables, a figure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lln.core.statistics import geometric_mean
from lln.core.table import Table, counted, human_time, label, number, plain
from lln.fit.choice.holdout import LEAST, RolloutErrors, better_by, horizon_of, lead_columns, lead_times
from lln.models.factory import state_networks
from lln.step.frame import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SURE = 2.0  # standard errors by which two models must differ


@dataclass(frozen=True, eq=False)
class Score:
    """How one model did."""

    name: str  #: of the model.
    #: normalised squared error of every rollout at every step, (seeds, windows, steps); infinite from where a rollout
    #: diverged.
    errors: Array
    valid: NDArray[np.int64]  #: valid prediction steps of every rollout, (seeds, windows).
    history: int  #: states that one step looks at.
    parameters: int | None  #: values that the fit chose, the largest over seeds; None where it is not known.
    seconds: float  #: of one fit, the mean over seeds.
    note: str = ""  #: what the fit chose, as short text.
    noisy: bool = False  #: whether the fit found noise that matters.
    parts: tuple[str, ...] = ()  #: the kind of part that forecasts, for each seed; () for references.

    @property
    def label(self) -> str:
        """The name in tables and figures."""
        return label(self.name)

    @property
    def by_lead(self) -> RolloutErrors:
        """Errors of all rollouts at lead times of 1, 2, 4, ... steps, as the fitter scores them."""
        steps = self.errors.shape[-1]
        return RolloutErrors.of_squares(self.errors.reshape(-1, steps), lead_times(steps))

    @property
    def nmse_by_window(self) -> Array:
        """Mean over the steps of each rollout, (seeds, windows)."""
        return np.asarray(self.errors.mean(axis=-1))

    @property
    def nmse(self) -> float:
        """Geometric mean over windows and seeds."""
        return steady_mean(self.nmse_by_window)

    @property
    def rmse(self) -> float:
        """Root of `nmse`."""
        return math.sqrt(self.nmse)

    @property
    def rmse_by_step(self) -> Array:
        """Root of the geometric mean over windows and seeds at each step, (steps,); infinite where one diverged."""
        return np.array([math.sqrt(steady_mean(errors)) for errors in np.moveaxis(self.errors, -1, 0)])

    @property
    def valid_steps(self) -> float:
        """Mean over windows and seeds."""
        return float(self.valid.mean())

    @property
    def diverged(self) -> int:
        """How many rollouts did not stay finite."""
        return int(np.isinf(self.errors).any(axis=-1).sum())

    def quartiles(self) -> tuple[Array, Array]:
        """Root mean square error by step that a quarter, and three quarters, of the rollouts stay below."""
        roots = np.sqrt(self.errors).reshape(-1, self.errors.shape[-1])
        low, high = np.quantile(roots, [0.25, 0.75], axis=0, method="inverted_cdf")
        return low, high


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Models side by side."""

    scores: tuple[Score, ...]  #: one for each model, the best first.
    references: tuple[str, ...]  #: names of the simple methods.
    steps: int  #: length of the rollouts.
    windows: int  #: number of rollouts, which may overlap.
    seeds: tuple[int, ...]  #: of the networks.
    dt: float  #: time step.
    threshold: float  #: error that ends a valid prediction.
    exponent: float | None  #: largest Lyapunov exponent of the true system, if it was given.
    scored: str  #: what was scored on.
    rows: int = 0  #: rows that were predicted; 0 where that is not known.
    time_unit: str = ""  #: unit of dt, "" if it is not known.
    #: models of the default choice that were not fitted, with the reason.
    left_out: Mapping[str, str] = field(default_factory=dict)
    filled: str = ""  #: a sentence on gaps that were filled in for every model; "" where none was.

    @property
    def best(self) -> Score:
        """The model with the lowest error."""
        return self.scores[0]

    def __repr__(self) -> str:
        return "\n".join([f"{self.table}\n\n{self.leads}", *self.remarks])

    def _repr_html_(self) -> str:
        page = self.table._repr_html_() + self.leads._repr_html_()
        return page + "".join(f"<p>{escape(text)}</p>" for text in self.remarks)

    def __getitem__(self, name: str) -> Score:
        """The score of one model."""
        return {score.name: score for score in self.scores}[name]

    @property
    def noisy(self) -> bool:
        """Whether a fit found noise that matters; errors are then averaged arithmetically."""
        return any(score.noisy for score in self.scores)

    @property
    def horizon(self) -> int:
        """The lead time in steps up to which models are ranked: where the best of them loses the truth."""
        return horizon_of([score.by_lead for score in self.scores])

    def error(self, name: str) -> float:
        """The error by which models are ranked: the mean over lead times up to the horizon of the log error."""
        return math.exp(self._errors(self[name]).score(noisy=self.noisy))

    def against_best(self, name: str) -> tuple[float, float]:
        """How many times the error of the best model, and the standard error of that factor, paired by rollout."""
        best, other = self._errors(self.best), self._errors(self[name])
        count = math.lcm(len(best.values), len(other.values))  # references have one seed, networks several
        best, other = (RolloutErrors(one.leads, np.tile(one.values, (count // len(one.values), 1)))
                       for one in (best, other))  # fmt: skip
        gain, error = better_by(best, other, noisy=self.noisy)
        overlap = max(1.0, self.windows * self.steps / self.rows) if self.rows else 1.0
        return math.exp(gain), math.exp(gain) * error * math.sqrt(overlap)

    def _errors(self, score: Score) -> RolloutErrors:
        return score.by_lead.until(self.horizon)

    def ranked(self) -> Comparison:
        """The same with the best model first."""
        horizon = self.horizon
        order = sorted(self.scores, key=lambda score: score.by_lead.until(horizon).score(noisy=self.noisy))
        return replace(self, scores=tuple(order))

    @property
    def title(self) -> str:
        """What was scored, in one line."""
        rollouts = "one rollout" if self.windows == 1 else f"{self.windows} rollouts"
        many = f", {len(self.seeds)} seeds" if len(self.seeds) > 1 else ""
        return f"{rollouts} of {counted(self.steps, 'step')} on {self.scored}{many}"

    @property
    def table(self) -> Table:
        """A row for each model; the best values in bold."""
        columns = ["model", "error", "NMSE", "valid steps", "valid time", "parameters", "seconds"]
        chaos = self.exponent if self.exponent is not None and self.exponent > 0 else None
        if chaos is not None:
            columns.insert(5, "Lyapunov times")
        rows: list[list[str | float | int]] = []
        for score in self.scores:
            span = score.valid_steps * self.dt
            time = human_time(span, self.time_unit) if self.time_unit else number(span)
            kept: str | int = "-" if score.parameters is None else score.parameters
            more = [time] if chaos is None else [time, span * chaos]
            rows.append([score.label, self.error(score.name), score.nmse, score.valid_steps, *more, kept,
                         f"{score.seconds:.1f}"])  # fmt: skip
        # Errors are best small, times are best long; valid times are as good as the steps.
        signed = [[row[1], row[2], *[-float(row[3])] * (2 if chaos is None else 3)] for row in rows]
        return Table(columns, rows, title=self.title, best=_best_cells(signed))

    @property
    def leads(self) -> Table:
        """Error against lead time: the normalised mean square error of the first steps, a row for each model."""
        every = self.best.by_lead.leads
        places = lead_columns(every)
        heads = [f"{every[k]}" for k in places]
        values = [score.by_lead.by_lead(noisy=self.noisy)[places] for score in self.scores]
        rows: list[list[str | float | int]] = []
        for score, errors in zip(self.scores, values, strict=True):
            factor, error = self.against_best(score.name)
            beside = "best" if score is self.best else f"{_rounded(factor, 3)} ± {_rounded(error, 2)}"
            rows.append([score.label, *map(float, errors), beside])
        columns = ["model", *heads, "times the best"]
        return Table(columns, rows, title="normalised MSE by lead time, in steps", best=_best_cells(values))

    @property
    def remarks(self) -> list[str]:
        """Remarks: networks that are not used, models that do not differ, divergence."""
        networks = state_networks()
        unused: dict[str, list[str]] = {}
        for one in self.scores:
            if one.name in networks and one.parts and not {"network", "lens"} & set(one.parts):
                unused.setdefault(" and ".join(map(_article, dict.fromkeys(one.parts))), []).append(one.label)
        said = [
            f"{', '.join(names)}: {kinds} did best on held-out rollouts, so no network is used"
            for kinds, names in unused.items()
        ]
        close = [
            one.label for one in self.scores[1:]
            if (beside := self.against_best(one.name))[0] * math.log(beside[0]) < _SURE * beside[1] < math.inf
        ]  # fmt: skip
        if close:
            said.append(f"not clearly worse than {self.best.label} on these rollouts: {', '.join(close)}")
        lost = [f"{one.diverged} of {one.label}" for one in self.scores if one.diverged]
        said += [f"rollouts that did not stay finite: {', '.join(lost)}"] if lost else []
        said += [self.filled] if self.filled else []
        return [*said, *left_out_words("compared", self.left_out)]

    def figure(self, title: str | None = None) -> Figure:
        """Draw the error against the step for every model; the middle half of the best network's rollouts is shaded."""
        from lln.plots.forecasts import comparison_figure

        networks = [score for score in self.scores if score.name not in self.references]
        shaded = networks[:1] if self.windows * len(self.seeds) > 3 else []
        return comparison_figure(
            {score.name: self._curve(score) for score in self.scores},
            bands={score.name: score.quartiles() for score in shaded},
            references=self.references,
            threshold=self.threshold,
            dt=self.dt,
            time_unit=self.time_unit,
            title=self.title if title is None else title,
        )

    def _curve(self, score: Score) -> Array:
        """Root mean square error by step, averaged over rollouts as the table averages it."""
        return np.asarray(np.sqrt(score.errors.mean(axis=(0, 1)))) if self.noisy else score.rmse_by_step

    def record(self) -> dict[str, Any]:
        """Plain values for JSON; what is not finite becomes None."""
        names = ("scored", "steps", "windows", "seeds", "dt", "threshold", "exponent", "noisy", "horizon")
        return {
            **{name: plain(getattr(self, name)) for name in names},
            "lead_times": list(self.best.by_lead.leads),
            "left_out": dict(self.left_out),
            "models": [self._model_record(score) for score in self.scores],
        }

    def _model_record(self, score: Score) -> dict[str, Any]:
        found = {
            "name": score.name,
            "error": self.error(score.name),
            "nmse_by_lead": score.by_lead.by_lead(noisy=self.noisy),
            "times_the_best": self.against_best(score.name),
            "nmse": score.nmse,
            "rmse": score.rmse,
            "valid_prediction_steps": score.valid_steps,
            "valid_prediction_time": score.valid_steps * self.dt,
        }
        others = ("parameters", "seconds", "history", "diverged", "note", "nmse_by_window", "rmse_by_step")
        record: dict[str, Any] = plain({**found, **{name: getattr(score, name) for name in others}})
        return record


def _rounded(value: float, digits: int) -> str:
    """A factor: no more than `digits` digits that are not zero, also before the point."""
    return number(round(float(f"{value:.{digits}g}"))) if 1e3 <= value < 1e5 else number(value, digits)


def steady_mean(errors: Array) -> float:
    """Geometric mean in which a rollout that is exact by chance does not hide the others; zero if all are exact."""
    return 0.0 if not errors.any() else geometric_mean(np.maximum(errors, LEAST * errors.max()))


def left_out_words(done: str, left_out: Mapping[str, str]) -> list[str]:
    """A sentence for each reason for which models were left out: "not scored: kernel, analog: ..."."""
    reasons = dict.fromkeys(left_out.values())
    return [f"not {done}: {', '.join(name for name in left_out if left_out[name] == why)}: {why}" for why in reasons]


def _article(part: str) -> str:
    """A kind of closed form with its article, for a sentence."""
    words = {"linear": "a linear map", "polynomial": "a polynomial", "flow": "a vector field"}
    return words.get(part, part if part in ("persistence", "drift") else f"the part {part!r}")


def _best_cells(rows: Sequence[Any]) -> list[tuple[int, int]]:
    """Row and column of the smallest finite numbers of each column; the columns of a table follow its names."""
    values = np.array(rows, dtype=np.float64)
    least = np.where(np.isfinite(values), values, np.inf).min(axis=0)
    return [(int(i), int(j) + 1) for j, i in np.argwhere(((values == least) & np.isfinite(values)).T)]
