"""The forecasting benchmark in words: who came to what error, and how that stands against the bars."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.forecast.data import NONLINEAR
from lln.models.factory import COMPARATORS
from lln.systems.presets import PRESETS

Row = Mapping[str, Any]
Tables = Mapping[str, Sequence[Row]]

# Largest error that the recipe may have on several trajectories.
BARS = {
    "lorenz-24": 3e-5,
    "lorenz-28": 2e-3,
    "burgers-32": 3e-3,
    "burgers-48": 3e-3,
    "reactiondiff-32": 2.6e-3,
    "reactiondiff-48": 1e-3,
}
SPLIT_BAR = 0.015  # Lorenz-28 on one trajectory
TIMES_LINEAR = 2.0  # wherever the linear map is below
LINEAR_BELOW = 1e-3
LOSS = 1.1
PARAMETER_SHARE = 0.2
LEAST_WINS = 4
LINEAR = ("linear", "linear-wide")  # of the present state, and as `lln compare` fits it


def show(tables: Tables) -> str:
    """Both tables and the verdict as text."""
    lines = []
    for table in ("split", "trajectories"):
        found = _by_system(tables.get(table, ()))
        models = list(dict.fromkeys(model for rows in found.values() for model in rows))
        if not models:
            continue
        lines += [f"{table}: normalised mean square error over 500 steps, geometric mean"]
        lines.append("  ".join([f"{'system':16}", *(f"{model:>18}" for model in models), "share"]))
        for system in PRESETS:
            rows = found.get(system, {})
            if rows:
                cells = [f"{_error(rows.get(model)):18.2e}" if model in rows else f"{'':18}" for model in models]
                share = rows["lens"]["share"] if "lens" in rows else ""
                lines.append("  ".join([f"{system:16}", *cells, str(share)]))
        lines.append("")
    return "\n".join([*lines, *verdict(tables)])


def verdict(tables: Tables) -> list[str]:
    """One sentence for each bar, beginning with "holds" or "missed"."""
    return [*_split(_by_system(tables.get("split", ()))), *_trajectories(_by_system(tables.get("trajectories", ())))]


def _split(found: Mapping[str, Mapping[str, Row]]) -> list[str]:
    lines = []
    for system, rows in found.items():
        if "lens" not in rows:
            continue
        ours = _error(rows["lens"])
        if system == "lorenz-28":
            lines.append(_line(ours <= SPLIT_BAR, f"{system}, one trajectory: {ours:.2e} (at most {SPLIT_BAR})"))
        if "linear-best" in rows:
            linear = _error(rows["linear-best"])
            if linear < LINEAR_BELOW:
                ok = ours <= TIMES_LINEAR * linear
                lines.append(_line(ok, f"{system}, one trajectory: {ours:.2e} (linear map at its best {linear:.2e})"))
    return lines


def _trajectories(found: Mapping[str, Mapping[str, Row]]) -> list[str]:
    lines, wins, twice, complete = [], 0, 0, True
    for system, rows in found.items():
        if "lens" not in rows:
            continue
        lens = rows["lens"]
        ours, linear = _error(lens), min(_error(rows.get(name)) for name in LINEAR)
        bar = BARS.get(system, 1.005 * linear)
        lines.append(_line(ours <= bar, f"{system}, several trajectories: {ours:.2e} (at most {bar:.2e})"))
        if system not in NONLINEAR:
            continue
        others = {name: _error(row) for name, row in rows.items() if name in (*LINEAR, "analog", *COMPARATORS)}
        complete &= len(others) == len(LINEAR) + 1 + len(COMPARATORS)
        best = min(others, key=others.__getitem__) if others else ""
        wins += all(ours < error for error in others.values())
        twice += 2 * ours <= linear and min(lens["share"]) > 0
        lines.append(_line(ours <= LOSS * min(others.values(), default=math.inf), f"{system}: next best is {best}"))
        for name in COMPARATORS:
            if name in rows and rows[name].get("parameters_per_member"):
                ratio = lens["parameters_per_member"] / rows[name]["parameters_per_member"]
                lines.append(_line(ratio <= PARAMETER_SHARE, f"{system}: {ratio:.3f} of the parameters of {name}"))
    if complete and found:
        lines.append(_line(wins >= LEAST_WINS, f"lowest of all on {wins} of {len(NONLINEAR)} nonlinear systems"))
    if found:
        lines.append(_line(twice >= 3, f"network used and twice as good as both linear maps on {twice} systems"))
    return lines


def _line(ok: bool, text: str) -> str:
    return f"{'holds' if ok else 'missed'}: {text}"


def _by_system(rows: Sequence[Row]) -> dict[str, dict[str, Row]]:
    found: dict[str, dict[str, Row]] = {}
    for row in rows:
        if row["role"] == "reporting":
            found.setdefault(row["system"], {})[row["model"]] = row
    return found


def _error(row: Row | None) -> float:
    value = None if row is None else row.get("nmse")
    return math.inf if value is None else float(value)
