"""All kinds of fault in a row, and their table."""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"  # before torch: a fork of a process with threads is not one to trust

import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import distributed
import h5netcdf
import h5py
import onnx
import optuna
import pandas
import torch
import xarray

import lln.cli
import lln.export.c.export
import lln.export.onnx
import lln.paper.reproduce
import lln.tuning.search
from lln.core.provenance import provenance
from lln.core.safe_files import whole_file
from validation.faults import clock, cluster, damage, kill, limits, together
from validation.faults.outcome import LOST, TRACE, WRONG, Kind, Outcome
from validation.faults.works import FIT, Bench

onnxruntime = lln.export.onnx.onnxruntime()
LOADED = (distributed, h5netcdf, h5py, onnx, onnxruntime, optuna, pandas, xarray, lln)  # by every fork, at no cost
KINDS: Mapping[str, tuple[Kind, int]] = {
    "kill": (kill.killed, 8),
    "disk": (limits.disk_full, 20),
    "read-only": (limits.read_only, 20),
    "memory": (limits.memory, 20),
    "cut": (damage.cut_short, 5),
    "flip": (damage.flipped, 10),
    "two-writers": (together.two_writers, 20),
    "dask": (cluster.lost, 20),
    "clock": (clock.clock, 20),
    "interrupt": (kill.interrupted, 20),
    "interrupt-twice": (kill.interrupted_twice, 20),
}
SHORT: Mapping[str, tuple[Kind, int]] = {
    "kill": (kill.killed, 1),
    "disk": (limits.disk_full, 3),
    "read-only": (limits.read_only, 3),
    "memory": (limits.memory, 3),
    "cut": (partial(damage.cut_short, only=damage.FEW), 1),
    "flip": (partial(damage.flipped, only=damage.FEW), 2),
    "two-writers": (together.two_writers, 2),
    "dask": (cluster.lost, 2),
    "clock": (clock.clock_here, 2),
    "interrupt": (kill.interrupted, 2),
    "interrupt-twice": (kill.interrupted_twice, 2),
}


def all_kinds(
    home: Path,
    kinds: Mapping[str, tuple[Kind, int]] = KINDS,
    only: Sequence[str] | None = None,
    count: int | None = None,
    seed: int = 0,
) -> list[Outcome]:
    """Every fault of the kinds in `only`, or of all."""
    torch.set_num_threads(1)
    home.mkdir(parents=True)
    _warm(home)
    bench = Bench(home)
    outcomes = []
    for name, (kind, usual) in kinds.items():
        if only and name not in only:
            continue
        for outcome in kind(bench, count or usual, seed):
            outcomes.append(outcome)
            print("!" if outcome.findings else ".", end="", file=sys.stderr, flush=True)
            for finding in outcome.findings:
                print(f"\n{outcome.kind}, {outcome.work}, {outcome.place}: {finding}", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return outcomes


def _warm(home: Path) -> None:
    """Do the work once in this process: what is compiled and imported now, no fork has to."""
    from lln.forecaster.forecaster import LensForecaster
    from lln.paper.expand import expand
    from lln.paper.run import execute
    from lln.paper.spec import load_study
    from lln.systems import preset, simulate
    from validation.faults.works import STUDY

    words = {word.removeprefix("--"): value for word, value in zip(FIT[::2], FIT[1::2], strict=True)}
    options: dict[str, Any] = {key: None if value == "none" else float(value) if "." in value else int(value)
                               for key, value in words.items()}  # fmt: skip
    states = simulate(preset("lorenz-28"), 200)
    LensForecaster(**options).fit(states, dt=0.01).rollout(steps=5)
    for batch in (64, 128, 256, 512):
        LensForecaster(**{**options, "batch_size": batch, "epochs": 1}).fit(states, dt=0.01)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    optuna.create_study(storage="sqlite://")
    (home / "warm.toml").write_text(STUDY)
    for one in expand(load_study(home / "warm.toml")):
        execute(one.content)


def table(outcomes: Iterable[Outcome]) -> list[dict[str, Any]]:
    """A row for each kind and work."""
    rows: dict[tuple[str, str], list[Outcome]] = {}
    for outcome in outcomes:
        rows.setdefault((outcome.kind, outcome.work), []).append(outcome)
    return [
        {
            "kind": kind,
            "work": work,
            "faults": len(group),
            LOST: sum(one.count(LOST) for one in group),
            WRONG: sum(one.count(WRONG) for one in group),
            "tracebacks": sum(one.count(TRACE) for one in group),
            "ended": dict(Counter(one.ended for one in group).most_common()),
        }
        for (kind, work), group in rows.items()
    ]


def drawn(rows: Sequence[Mapping[str, Any]]) -> str:
    """The table as text, with sums."""
    heads = ("kind", "work", "faults", LOST, WRONG, "tracebacks", "how it ended")
    cells = [
        [*(str(row[key]) for key in heads[:-1]), ", ".join(f"{n} {how}" for how, n in row["ended"].items())]
        for row in rows
    ]
    sums = [str(sum(row[key] for row in rows)) for key in heads[2:-1]]
    lines = [list(heads), *cells, ["all", "", *sums, ""]]
    widths = [max(len(line[i]) for line in lines) for i in range(len(heads))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
                     for line in lines)  # fmt: skip


def store(path: Path, rows: Sequence[Mapping[str, Any]], seed: int, seconds: float) -> None:
    """Write the table with where and when it was made; rows of kinds that did not run now stay as they are."""
    stamp = provenance("torch", "numpy", "h5py", "optuna", "distributed", "safetensors")
    before = json.loads(path.read_text()) if path.exists() else {"rows": []}
    ran = {row["kind"] for row in rows}
    others = [row for row in before["rows"] if row["kind"] not in ran]
    everything = [*others, *({**row, "date": stamp["date"], "commit": stamp["commit"]} for row in rows)]
    content = {
        "provenance": stamp,
        "seed": seed,
        "seconds": before["seconds"] if others else round(seconds),  # of the last run of the whole
        "faults": sum(row["faults"] for row in everything),
        "findings": sum(row[key] for row in everything for key in (LOST, WRONG, "tracebacks")),
        "rows": everything,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as partial_file:
        partial_file.write_text(json.dumps(content, indent=1) + "\n")
