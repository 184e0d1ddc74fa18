"""How well the recipe forecasts: the paper's split, its multi-trajectory protocol, and noise, with every comparator.

Run it as ``python -m benchmarks.forecast.run``. Rows are stored as they come; what is stored is not run again. The
networks of all seeds of a configuration train in one pass. It needs torch, NumPy, pydantic and safetensors (and SciPy
for the analog forecast).
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.forecast.data import NONLINEAR, Problem, noisy_problem, problem_of
from benchmarks.speed.store import write_whole
from lln.core.provenance import provenance
from lln.core.workers import LocalPool, Task
from lln.fit.choice.holdout import bounded, folds
from lln.fit.choice.models import LinearChoice, choose_linear
from lln.fit.closed.ridge import RIDGES
from lln.fit.defaults import VALIDATION
from lln.fit.fitter import Fit, Recipe, fit_many, linear_choice
from lln.fit.prepare import FrameChoice, Preparer, prepare
from lln.fit.trials import rate_of
from lln.models.counting import comparator_cost
from lln.models.factory import COMPARATORS
from lln.step.step import DenseStep
from lln.systems.presets import PRESETS
from lln.train.loop import Checkpoint

FORMAT = 1
TABLES = ("split", "trajectories", "noise")
DEPTHS = (2, 5, 10, 20, 40)
RATES = (5e-4, 1e-2)  # tried beside the recipe's own for networks, at their best depth; the second is that of lenses
CHOOSING = (0, 1, 2)
REPORTING = {"split": (0, 1, 2, 3, 4), "trajectories": (0, 1, 2, 3, 4, 5), "noise": (0,)}
NOISE = 0.01
REFERENCES = ("linear", "linear-wide", "linear-best", "analog")


def tasks(tables: Sequence[str], models: Sequence[str], systems: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Everything that is asked for, what takes longest last."""
    for table in tables:
        if table == "noise":
            yield from ({"table": table, "system": s, "model": "lens"} for s in ("lorenz-28", "burgers-48"))
            continue
        own = [model for model in models if model not in COMPARATORS]
        yield from ({"table": table, "system": s, "model": m} for m in sorted(own, key="lens".__ne__) for s in systems)
        # On one trajectory the bar is the linear map; the networks are compared on several, a whole system at a time.
        rivals = [model for model in models if model in COMPARATORS] if table == "trajectories" else []
        yield from ({"table": table, "system": s, "model": m} for s in systems if s in NONLINEAR for m in rivals)


def run_task(task: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows of one task; what a worker calls."""
    torch.set_num_threads(task.get("threads", 1))
    table, model = task["table"], task["model"]
    began, cpu = time.perf_counter(), time.process_time()
    if table == "noise":
        rows = [_noise_row(task)]
    elif model in REFERENCES:
        rows = [_reference_row(task)]
    else:
        rows = _network_rows(task)
    taken = {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - cpu}
    return [{**{key: task[key] for key in ("table", "system", "model", "device")}, **row, **taken} for row in rows]


def _network_rows(task: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A network under the recipe; a comparator at the depth and learning rate that do best on held-out rollouts."""
    problem = problem_of(task["table"], task["system"])
    seeds = REPORTING[task["table"]]
    recipe = Recipe(model=task["model"], device=task["device"])
    linear = _linear(task["table"], task["system"])
    rows: list[dict[str, Any]] = []
    frames: list[FrameChoice] | None = None
    done: dict[Recipe, Checkpoint] = {recipe: Checkpoint(None, "")}
    if task["model"] in COMPARATORS:
        for depth in DEPTHS:
            tried = replace(recipe, depth=depth)
            frames, held_out = _tried(task, tried, seeds, frames, linear, done)
            rows.append({"role": "choosing", "depth": depth, "seeds": list(CHOOSING), "held_out": held_out})
        recipe = replace(recipe, depth=min(rows, key=lambda row: row["held_out"])["depth"])
        found = {recipe: min(row["held_out"] for row in rows)}
        for rate in RATES:
            tried = replace(recipe, learning_rate=rate)
            found[tried] = _tried(task, tried, seeds, frames, linear, done)[1]
            chosen = {"role": "choosing", "depth": recipe.depth, "learning_rate": rate, "seeds": list(CHOOSING)}
            rows.append({**chosen, "held_out": found[tried]})
        recipe = min(found, key=found.__getitem__)
    shallow = recipe.depth in (None, DEPTHS[0]) and recipe.learning_rate is None
    fits = fit_many(
        problem.dataset,
        recipe,
        seeds,
        linear=linear,
        frames=None if shallow else frames,
        checkpoint=done[recipe],
    )
    described = {"learning_rate": recipe.learning_rate or rate_of(recipe.model), **_described(fits, problem, seeds)}
    return [*rows, {"role": "reporting", **described}]


def _tried(
    task: Mapping[str, Any],
    recipe: Recipe,
    seeds: Sequence[int],
    frames: list[FrameChoice] | None,
    linear: LinearChoice,
    done: dict[Recipe, Checkpoint],
) -> tuple[list[FrameChoice], float]:
    """The frames to go on with, and the held-out error of the seeds that choose; what was trained stays in `done`."""
    began = time.perf_counter()
    done[recipe] = Checkpoint(None, "")
    dataset = problem_of(task["table"], task["system"]).dataset
    tried = replace(recipe, refit=False)
    fits = fit_many(dataset, tried, seeds, frames=frames, linear=linear, checkpoint=done[recipe])
    held_out = _mean([fit.report.held_out_nmse for fit in fits[: len(CHOOSING)]])
    what = f"depth {recipe.depth}" + ("" if recipe.learning_rate is None else f", rate {recipe.learning_rate:g}")
    title = f"{task['table']} {task['system']} {task['model']}"
    taken = time.perf_counter() - began
    print(f"{title}: {what}, held-out {held_out:.2e} in {taken:.0f} s", file=sys.stderr, flush=True)
    # The frame is chosen with the shallowest, by each seed; deeper ones are tried in what was chosen.
    return frames or list(dict.fromkeys(_frame_of(fit) for fit in fits)), held_out


@lru_cache(maxsize=4)
def _linear(table: str, system: str) -> LinearChoice:
    """The linear part is the same for every network."""
    return linear_choice(problem_of(table, system).dataset, Recipe())


def _described(fits: Sequence[Fit], problem: Problem, seeds: Sequence[int]) -> dict[str, Any]:
    errors = [problem.errors(fit.surrogate.rollout, fit.surrogate.frame.history) for fit in fits]
    reports = [fit.report for fit in fits]
    return {
        "seeds": list(seeds),
        "nmse": _mean([_mean(each) for each in errors]),
        "nmse_of_seeds": [_mean(each) for each in errors],
        "nmse_of_windows": [[float(value) for value in each] for each in errors],
        "held_out": _mean([report.held_out_nmse for report in reports]),
        "linear_held_out": _mean([report.linear_nmse for report in reports]),
        "share": [report.correction_weight for report in reports],
        "history": [report.history for report in reports],
        "reach": [report.radius for report in reports],
        "ridge": [report.ridge for report in reports],
        "width": [report.width for report in reports],
        "depth": fits[0].recipe.depth,
        "members": max(report.members for report in reports),
        "parameters_per_member": max(_parameters(fit) for fit in fits),
        "linear_parameters": max(report.linear_parameters for report in reports),
        "coverage": [report.coverage for report in reports],
    }


def _parameters(fit: Fit) -> int:
    """Of one member; of the one that was tried if none is used."""
    name, frame = fit.recipe.model, fit.surrogate.frame
    if name in COMPARATORS and fit.recipe.depth is not None:
        return comparator_cost(name, frame.features, frame.size, width=128, depth=fit.recipe.depth).parameters
    return fit.report.parameters_per_member


def _frame_of(fit: Fit) -> FrameChoice:
    return FrameChoice(fit.report.history, fit.report.radius, fit.report.ridge)


def _reference_row(task: Mapping[str, Any]) -> dict[str, Any]:
    from lln.forecaster.references.simple import Analog, LinearReference

    problem = problem_of(task["table"], task["system"])
    if task["model"] == "linear-best":
        return {"role": "reporting", **_best_linear(problem)}
    if task["model"] == "linear":
        return {"role": "reporting", **_plain_linear(problem)}
    reference = LinearReference() if task["model"] == "linear-wide" else Analog()
    reference.fit(problem.dataset)
    errors = problem.errors(reference.rollout, reference.history)
    return {"role": "reporting", "nmse": _mean(errors), "nmse_of_windows": [[float(value) for value in errors]]}


def _plain_linear(problem: Problem) -> dict[str, Any]:
    """The linear map of the present state, of everything at once, its ridge chosen on held-out rollouts."""
    preparer = Preparer(problem.dataset)
    scale = preparer.prepare(None, 1).units.scale
    ways = folds(problem.dataset, VALIDATION)
    best = choose_linear(preparer, ways, (1,), (None,), RIDGES, scale).best
    surrogate = DenseStep(preparer.prepare(None, 1).linear(best))
    errors = problem.errors(surrogate.rollout, 1)
    windows = [[float(value) for value in errors]]
    return {"nmse": _mean(errors), "nmse_of_windows": windows, "ridge": [best.ridge], "history": [1]}


def _best_linear(problem: Problem) -> dict[str, Any]:
    """The plain linear map at the ridge that happens to be best on the test itself: no one could choose so well."""
    ready = prepare(problem.dataset, 1)
    found = {}
    for ridge in (0.0, *RIDGES):
        surrogate = DenseStep(ready.linear(FrameChoice(1, None, ridge)))
        found[ridge] = _mean(problem.errors(surrogate.rollout, 1))
    best = min(found, key=found.__getitem__)
    return {"nmse": found[best], "ridge": [best], "history": [1]}


def _noise_row(task: Mapping[str, Any]) -> dict[str, Any]:
    clean, noisy = problem_of("split", task["system"]), noisy_problem(task["system"], NOISE)
    recipe = Recipe(device=task["device"])
    row: dict[str, Any] = {"role": "reporting", "noise": NOISE}
    for name, problem in (("clean", clean), ("noisy", noisy)):
        fit = fit_many(problem.dataset, recipe, REPORTING["noise"])[0]
        history = fit.surrogate.frame.history
        states = np.asarray(problem.dataset.series[0].states, dtype=np.float64)
        row[name] = {
            "nmse": _mean(problem.errors(fit.surrogate.rollout, history)),
            "held_out": fit.report.held_out_nmse,
            "share": fit.report.correction_weight,
            "history": history,
            "ridge": fit.report.ridge,
            "reach": fit.report.radius,
            "unroll": fit.report.unroll,
            "estimated_noise": fit.report.noise,
            "found_noisy": fit.report.noisy,
            "bounded_for_10000_steps": bounded(fit.surrogate, states[-history:]),
        }
    return row


def _mean(values: Sequence[float] | np.ndarray[Any, Any]) -> float:
    """Geometric; infinite if one is."""
    logs = [math.log(value) if value > 0 else -math.inf for value in map(float, values)]
    return math.exp(sum(logs) / len(logs)) if all(map(math.isfinite, logs)) else math.inf


class Rows:
    """Stored rows, one file a table, written anew after every task."""

    def __init__(self, folder: Path, command: str, device: str, commit: str | None) -> None:
        self.folder, self.command = folder, command
        gpu = torch.cuda.get_device_name() if device == "cuda" else None
        self.made = {**provenance("numpy"), "torch": torch.__version__, "gpu": gpu, "command": command}
        if commit is not None:
            self.made["commit"] = commit
        self.tables = {table: self._read(table) for table in TABLES}

    def path(self, table: str) -> Path:
        """Where a table is stored."""
        return self.folder / f"forecast-{table}.json"

    def done(self, task: Mapping[str, Any]) -> bool:
        """Whether the task's last row is there."""
        return any(
            row["role"] == "reporting" and all(row[key] == task[key] for key in ("system", "model"))
            for row in self.tables[task["table"]]
        )

    def add(self, rows: Sequence[dict[str, Any]]) -> None:
        """Store the rows of one task."""
        table = rows[0]["table"]
        self.tables[table] += [{**row, "made": self.made} for row in rows]
        self.tables[table].sort(key=lambda row: (list(PRESETS).index(row["system"]), row["model"], row["role"]))
        content = {"format": FORMAT, "table": table, "rows": _plain(self.tables[table])}
        write_whole(self.path(table), json.dumps(content, indent=1) + "\n")

    def _read(self, table: str) -> list[dict[str, Any]]:
        path = self.path(table)
        return list(json.loads(path.read_text())["rows"]) if path.is_file() else []


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def main(words: Sequence[str], program: str = "python -m benchmarks.forecast.run") -> int:
    """Run what is missing and print how it stands; 1 if a task failed."""
    options = _parser(program).parse_args(words)
    rows = Rows(options.out, " ".join([program, *_repeatable(words)]), options.device, options.commit)
    wanted = [
        {**task, "device": options.device, "threads": options.threads}
        for task in tasks(
            options.only or TABLES, options.models or ("lens", *REFERENCES, *COMPARATORS), options.systems
        )
    ]
    waiting = [task for task in wanted if not rows.done(task)]
    failed = 0
    if waiting:
        with LocalPool(options.jobs) as pool:
            for finished in pool.run(run_task, [Task(str(index), task) for index, task in enumerate(waiting)]):
                failed += not _keep(finished, waiting, rows)
    from benchmarks.forecast.table import show

    print(show(rows.tables))
    return 1 if failed else 0


def _repeatable(words: Sequence[str]) -> list[str]:
    """What another machine would be told too: not where the rows went, nor from which commit."""
    skipped = {place + after for place, word in enumerate(words) if word in ("--out", "--commit") for after in (0, 1)}
    return [word for place, word in enumerate(words) if place not in skipped]


def _keep(finished: Any, waiting: Sequence[Mapping[str, Any]], rows: Rows) -> bool:
    task = waiting[int(finished.key)]
    title = f"{task['table']} {task['system']} {task['model']}"
    if finished.error is not None:
        print(f"{title}: failed\n{finished.error}", file=sys.stderr, flush=True)
        return False
    rows.add(finished.value)
    last = finished.value[-1]
    print(f"{title}: {last.get('nmse', float('nan')):.2e} in {last['seconds']:.0f} s", flush=True)
    return True


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=program, description="Measure how well the recipe forecasts.")
    parser.add_argument("--device", default="cpu", help="where networks train: cpu or cuda (default: cpu)")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time (default: 1)")
    parser.add_argument("--threads", type=int, default=1, help="threads of each (default: 1)")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"), metavar="FOLDER", help="where rows go")
    parser.add_argument("--only", nargs="+", choices=TABLES, metavar="TABLE", help=f"some of: {', '.join(TABLES)}")
    known = ("lens", *REFERENCES, *COMPARATORS)
    parser.add_argument("--models", nargs="+", choices=known, metavar="MODEL", help=f"some of: {', '.join(known)}")
    parser.add_argument("--systems", nargs="+", choices=list(PRESETS), default=list(PRESETS), metavar="SYSTEM")
    parser.add_argument("--commit", help="the commit to store, where there is no checkout to ask")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
