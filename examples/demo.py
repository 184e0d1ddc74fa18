"""The main task end to end: simulate, fit a LensForecaster, compare it with simple methods, draw, write its page.

    python examples/demo.py --out demo

Two systems: the Lorenz attractor, over a stretch on which the state visits both wings, and a front that moves
(Fisher-KPP). The rollouts start from rows that the model has not seen. Beside the forecaster are the methods to try
first: persistence, the mean, a linear map and the nearest analog.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console

import lln
from lln.core.errors import InputError
from lln.core.safe_files import output_folder
from lln.data.series import Dataset, Series
from lln.forecaster.comparison.result import Comparison
from lln.plots import save_figure
from lln.systems import seeded_start

Array = NDArray[np.floating[Any]]

BASELINES = ("linear", "analog", "persistence", "mean")


@dataclass(frozen=True)
class Settings:
    """What the command line sets."""

    out: Path
    steps: int
    seconds: float
    pairs: int
    seed: int


@dataclass(frozen=True, eq=False)
class Task:
    """One system: what trains, what is unseen, and the row of the unseen data at which the rollout starts."""

    name: str
    train: Dataset
    test: Dataset
    start: int
    steps: int
    note: str


def lorenz(settings: Settings) -> Task:
    """The Lorenz attractor; the start is chosen so that the state changes wings most often."""
    system, history = lln.preset("lorenz-28"), 16
    unseen = 4 * settings.steps + history
    states = lln.simulate(system, 500 + settings.pairs + unseen, dtype="float64").states[500:]
    data = Dataset((Series(states),), system.dt, system.coordinates, source=system.name, system=system.name)
    train, test = data.cut(0, settings.pairs), data.cut(settings.pairs)
    x = states[settings.pairs :, 0]
    starts = range(history, len(x) - settings.steps - 1)
    changes = np.concatenate([[0], np.cumsum(np.diff(np.sign(x)) != 0)])
    start = max(starts, key=lambda row: int(changes[row + settings.steps] - changes[row]))
    count = int(changes[start + settings.steps] - changes[start])
    return Task(system.name, train, test, start, settings.steps, f"the state changes wings {count} times")


def front(settings: Settings) -> Task:
    """A population front that moves into empty space (Fisher-KPP), from starts that are all different."""
    system, history = lln.preset("fisher-kpp-128"), 16
    rows = min(settings.steps, 200) + history + 1
    seeds = range(settings.seed, settings.seed + 9)
    runs = [lln.simulate(system, rows, start=seeded_start(system, seed), dtype="float64").states for seed in seeds]
    kind: dict[str, Any] = {"space": (system.size,), "channels": ("u",), "coords": {"x": np.asarray(system.grid)}}
    make = {"dt": system.dt, "source": system.name, **kind}
    train = Dataset(tuple(Series(run) for run in runs[:-1]), **make)
    test = Dataset((Series(runs[-1]),), **make)
    steps = rows - history
    moved = float(np.abs(runs[-1][-1] - runs[-1][history]).max())
    return Task(system.name, train, test, history, steps, f"the field changes by up to {moved:.2f}")


def run(task: Task, settings: Settings, console: Console) -> tuple[Comparison, list[Path]]:
    """Fit, compare, draw, and write the page."""
    model = lln.LensForecaster(time_limit=settings.seconds, random_state=settings.seed)
    began = time.perf_counter()
    with console.status(f"{task.name}: fitting") as status:
        model.fit(task.train, progress=lambda event: status.update(f"{task.name}: {event}"))
    console.print(f"[bold]{task.name}[/]: fitted in {time.perf_counter() - began:.0f} s; {task.note}")
    console.print(model.summary(), markup=False, highlight=False, soft_wrap=True)
    step = SimpleNamespace(rollout=model.surrogate_.rollout, history=model.history_, parameters=model.parameters_)
    others = {"LensForecaster": step}
    with console.status(f"{task.name}: comparing"):
        found = lln.compare(
            task.train, task.test, models=BASELINES, others=others, steps=task.steps, starts=[task.start]
        )
    states = np.asarray(task.test.series[0].rows(0, len(task.test.series[0])), dtype=np.float64)
    first = task.start - model.history_ + 1
    future = model.rollout(states[first : task.start + 1], steps=task.steps)
    truth = states[task.start + 1 : task.start + 1 + task.steps]
    figures = {"forecast": future.plot(truth, title=f"{task.name}: forecast from an unseen start")}
    figures["error"] = found.figure(f"{task.name}: {found.title}")
    written = [save_figure(figure, settings.out / f"{task.name}-{kind}.png") for kind, figure in figures.items()]
    page = model.page(task.test, steps=task.steps, title=f"{task.name}, forecast by LensForecaster")
    return found, [*written, page.save(settings.out / f"{task.name}.html")]


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description="Fit LensForecaster to two systems, compare, draw, write its page.")
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder for figures, pages and results.md")
    parser.add_argument("--steps", type=int, default=500, help="steps of the rollout (default 500)")
    parser.add_argument("--seconds", type=float, default=60.0, help="time limit of one fit (default 60)")
    parser.add_argument("--pairs", type=int, default=3000, help="training rows of Lorenz (default 3000)")
    parser.add_argument("--seed", type=int, default=0, help="of starts and fits (default 0)")
    console = Console()
    torch.set_num_threads(1)  # layers this small gain little from a second thread
    settings = Settings(**vars(parser.parse_args(arguments)))
    try:
        output_folder(settings.out)
        tables, written = [], []
        for make in (lorenz, front):
            task = make(settings)
            found, files = run(task, settings, console)
            console.print(found.table.to_rich(narrow=True))
            tables.append(f"## {task.name}\n\n{task.note}\n\n{found.table.to_markdown()}")
            written += files
        summary = settings.out / "results.md"
        summary.write_text("\n\n".join(tables) + "\n", encoding="utf-8")
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    console.print("written: " + ", ".join(str(path) for path in [*written, summary]), soft_wrap=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
