"""Results of a search: trials, the front of the best ones, and the options of the best."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lln.core.table import Table

_SHOWN = 10


@dataclass(frozen=True)
class Trial:
    """One set of options and its scores."""

    number: int  #: index in the study
    state: str  #: "complete", "pruned" or "failed"
    options: Mapping[str, Any]  #: keyword arguments of `LensForecaster` that were tried
    values: Mapping[str, float]  #: score by objective; empty unless the trial is complete


@dataclass(frozen=True)
class SearchResult:
    """Trials of a search."""

    name: str  #: name of the study
    storage: str  #: its database, without a password
    objectives: tuple[str, ...]  #: what was minimised
    fixed: Mapping[str, Any]  #: options that the caller set
    trials: tuple[Trial, ...]  #: all trials that ended, in order
    front: tuple[Trial, ...]  #: trials that no other beats in every objective, the lowest rollout error first
    #: score by objective of `LensForecaster` without options, on the same held-out rows; None if it could not be fitted
    defaults: Mapping[str, float] | None = None

    @property
    def best(self) -> Trial:
        """The trial with the lowest held-out rollout error."""
        return self.front[0]

    @property
    def options(self) -> dict[str, Any]:
        """Fixed options and those of the best trial, as keyword arguments of `LensForecaster`."""
        return {**self.fixed, **self.best.options}

    @property
    def table(self) -> Table:
        """The ten best trials and the defaults, the lowest rollout error first; trials of the front are bold."""
        done = sorted((t for t in self.trials if t.values), key=lambda t: t.values["rollout"])[:_SHOWN]
        keys = sorted({key for trial in done for key in trial.options})
        shown = [(str(t.number), t.values, t.options, t in self.front) for t in done]
        if self.defaults is not None:
            shown.append(("defaults", self.defaults, {}, False))
            shown.sort(key=lambda row: row[1]["rollout"])
        rows = [
            [name, *(values[o] for o in self.objectives), *(options.get(k, "-") for k in keys)]
            for name, values, options, _ in shown
        ]
        bold = [(index, 1) for index, row in enumerate(shown) if row[3]]
        heads = {"rollout": "held-out NMSE", "latency": "seconds a step"}
        columns = ["trial", *(heads.get(o, o) for o in self.objectives), *(key.replace("_", " ") for key in keys)]
        return Table(columns, rows, f"Search {self.name!r}: {_counts(self.trials)}", bold)

    def record(self) -> dict[str, Any]:
        """Plain values for JSON; a score that is not finite becomes None."""

        def finite(values: Mapping[str, float]) -> dict[str, float | None]:
            return {key: value if math.isfinite(value) else None for key, value in values.items()}

        def plain(trial: Trial) -> dict[str, Any]:
            scores = finite(trial.values)
            return {"number": trial.number, "state": trial.state, "options": dict(trial.options), "values": scores}

        return {
            "name": self.name,
            "storage": self.storage,
            "objectives": list(self.objectives),
            "options": self.options,
            "best": plain(self.best),
            "defaults": None if self.defaults is None else finite(self.defaults),
            "front": [plain(trial) for trial in self.front],
            "trials": [plain(trial) for trial in self.trials],
        }


def _counts(trials: Sequence[Trial]) -> str:
    by_state = {state: sum(trial.state == state for trial in trials) for state in ("complete", "pruned", "failed")}
    return ", ".join(f"{count} {state}" for state, count in by_state.items() if count)
