"""What a comparison found: numbers, a table, a figure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lln.core.statistics import geometric_mean
from lln.core.table import Table
from lln.step.frame import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, eq=False)
class Score:
    """How one model did.

    Attributes:
        name: of the model.
        errors: normalised squared error of every rollout at every step, (seeds, windows, steps); infinite from where a
            rollout diverged.
        valid: valid prediction steps of every rollout, (seeds, windows).
        history: states that one step looks at.
        parameters: values that the fit chose, the largest over seeds; None where it is not known.
        seconds: of one fit, the mean over seeds.
        note: what the fit decided, in a few words.
    """

    name: str
    errors: Array
    valid: NDArray[np.int64]
    history: int
    parameters: int | None
    seconds: float
    note: str = ""

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


@dataclass(frozen=True, eq=False)
class Comparison:
    """Models side by side.

    Attributes:
        scores: one for each model, the lowest error first.
        references: names of those that are no networks.
        steps: length of the rollouts.
        windows: number of rollouts.
        seeds: of the networks.
        dt: time step.
        threshold: error that ends a valid prediction.
        exponent: largest Lyapunov exponent of the true system, if it was given.
        scored: what was judged on.
    """

    scores: tuple[Score, ...]
    references: tuple[str, ...]
    steps: int
    windows: int
    seeds: tuple[int, ...]
    dt: float
    threshold: float
    exponent: float | None
    scored: str

    @property
    def best(self) -> Score:
        """The model with the lowest error."""
        return self.scores[0]

    def __getitem__(self, name: str) -> Score:
        """The score of one model."""
        for score in self.scores:
            if score.name == name:
                return score
        raise KeyError(name)

    @property
    def title(self) -> str:
        """What was judged, in one line."""
        rollouts = "one rollout" if self.windows == 1 else f"{self.windows} rollouts"
        many = f", {len(self.seeds)} seeds" if len(self.seeds) > 1 else ""
        return f"{rollouts} of {self.steps} steps on {self.scored}{many}"

    @property
    def table(self) -> Table:
        """A row for each model; the best in bold."""
        chaotic = self.exponent is not None and self.exponent > 0
        columns = ["model", "nMSE", "RMSE", "valid steps", "valid time", "parameters", "seconds"]
        if chaotic:
            columns.insert(5, "Lyapunov times")
        rows: list[list[str | float | int]] = []
        for score in self.scores:
            span = score.valid_steps * self.dt
            kept: str | int = "-" if score.parameters is None else score.parameters
            row: list[str | float | int] = [score.name, score.nmse, score.rmse, score.valid_steps, span]
            row += [span * self.exponent] if self.exponent is not None and chaotic else []
            rows.append([*row, kept, f"{score.seconds:.1f}"])
        signs = [1, 1, -1, -1, -1][: 5 if chaotic else 4]  # errors are best small, times are best long
        best = [(i, j) for j, sign in enumerate(signs, start=1) for i in _best(rows, j, sign)]
        return Table(columns, rows, title=self.title, best=best)

    @property
    def remarks(self) -> list[str]:
        """What the numbers alone do not say: networks that the recipe left out, rollouts that diverged."""
        idle = [one.name for one in self.scores if one.note and _shares(one.note) == {"0"}]
        said = []
        if idle:
            said.append(
                f"{', '.join(idle)}: no network did better than the linear part on held-out rollouts, so the linear "
                "part is what is scored"
            )
        lost = [f"{one.diverged} of {one.name}" for one in self.scores if one.diverged]
        return [*said, f"rollouts that did not stay finite: {', '.join(lost)}"] if lost else said

    def figure(self, title: str | None = None) -> Figure:
        """Error against the step for every model; the shade holds the middle half of the best network's rollouts."""
        from lln.plots.forecast_figures import comparison_figure

        networks = [score for score in self.scores if score.name not in self.references]
        shaded = networks[:1] if self.windows * len(self.seeds) > 3 else []
        return comparison_figure(
            {score.name: score.rmse_by_step for score in self.scores},
            bands={score.name: score.quartiles() for score in shaded},
            references=self.references,
            threshold=self.threshold,
            dt=self.dt,
            title=self.title if title is None else title,
        )

    def record(self) -> dict[str, Any]:
        """Plain values for JSON; what is not finite becomes None."""
        return {
            "scored": self.scored,
            "steps": self.steps,
            "windows": self.windows,
            "seeds": list(self.seeds),
            "dt": self.dt,
            "threshold": self.threshold,
            "exponent": self.exponent,
            "models": [
                {
                    "name": score.name,
                    "nmse": _plain(score.nmse),
                    "rmse": _plain(score.rmse),
                    "valid_prediction_steps": score.valid_steps,
                    "valid_prediction_time": score.valid_steps * self.dt,
                    "parameters": score.parameters,
                    "seconds": score.seconds,
                    "history": score.history,
                    "diverged": score.diverged,
                    "note": score.note,
                    "nmse_by_window": [[_plain(value) for value in row] for row in score.nmse_by_window.tolist()],
                    "rmse_by_step": [_plain(value) for value in score.rmse_by_step.tolist()],
                }
                for score in self.scores
            ],
        }


def steady_mean(errors: Array) -> float:
    """Geometric mean in which a rollout that is exact by chance does not hide the others; zero if all are exact."""
    return 0.0 if not errors.any() else geometric_mean(np.maximum(errors, TINY))


def _best(rows: list[list[str | float | int]], column: int, sign: int) -> list[int]:
    """The rows whose number is the smallest (or with sign -1 the largest) of its column."""
    values = [sign * float(row[column]) for row in rows]
    return [i for i, value in enumerate(values) if value == min(values) and math.isfinite(value)]


def _shares(note: str) -> set[str]:
    """The shares of the network that the fits of several seeds ended with."""
    return {part.removeprefix("share ") for part in note.split(", ") if part.startswith("share ")}


def _plain(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
