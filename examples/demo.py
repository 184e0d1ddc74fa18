"""The main job end to end: simulate, train a lens network and two comparators, roll out 500 steps, judge, draw.

    python examples/demo.py --out demo

On a reaction-diffusion front and on the Lorenz attractor, three networks of the same depth and width learn the
standardised increments of one trajectory and are rolled out from where the training data end. Two predictors that need
no training by iteration stand beside them: the training mean and a linear map in closed form.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from torch import nn

from lln.core.errors import InputError
from lln.core.folders import output_folder
from lln.core.table import Table, number
from lln.data import Split, Standardizer, Trajectory, increments, simulated, split
from lln.evaluate import Outcome, mse_by_step, rollout, valid_prediction_steps
from lln.evaluate.metrics import VALID_RMSE
from lln.models import build
from lln.plots import error_figure, field_figure, portrait_figure, save_figure, trajectory_figure
from lln.systems import System, preset
from lln.train import Epoch, LinearMap, TrainConfig, TrainingMean, fit

Array = NDArray[np.floating[Any]]

SYSTEMS = ("reactiondiff-48", "lorenz-28")
NETWORKS = {"lens network": "lens", "scaled ResMLP": "scaled-residual", "plain MLP": "mlp"}
LEARNING_RATES = {"lens": 3e-3, "scaled-residual": 1e-3, "mlp": 1e-3}


@dataclass(frozen=True)
class Settings:
    """What the command line sets."""

    out: Path
    epochs: int
    depth: int
    width: int
    pairs: int
    horizon: int
    seed: int


@dataclass(frozen=True, eq=False)
class Judged:
    """One predictor on one system: its rollout in physical units and its scores."""

    name: str
    states: Array
    outcome: Outcome
    errors: Array
    valid: int
    parameters: int
    seconds: float

    @property
    def nmse(self) -> float:
        """Normalised MSE over the whole rollout."""
        return float(self.errors.mean())


@dataclass(frozen=True, eq=False)
class IncrementStep:
    """One step of a network that predicts standardised increments of a standardised state.

    The state is carried in float64: an increment is thousands of times smaller than the state it is added to.
    """

    network: nn.Module
    scaling: Standardizer

    def __call__(self, state: Array) -> Array:
        """(..., n) -> (..., n)."""
        change = self.network(torch.from_numpy(state).float()).double().numpy()
        return state + self.scaling.inverse(change)


def study(
    system: System, settings: Settings, report: Callable[[str, Epoch], None]
) -> tuple[Trajectory, Split, list[Judged]]:
    """Simulate `system`, train every network, roll everything out."""
    steps = 500 + settings.pairs + settings.horizon
    trajectory = simulated(system, steps)
    part = split(trajectory, pairs=settings.pairs, horizon=settings.horizon)
    scaling = Standardizer.fit(part.inputs)
    inputs, targets = scaling.transform(part.inputs), scaling.transform(part.targets)
    changes = increments(inputs, targets)
    change_scaling = Standardizer.fit(changes)
    x = torch.from_numpy(inputs).float()
    y = torch.from_numpy(change_scaling.transform(changes)).float()

    def judge(name: str, step: Callable[[Array], Array], parameters: int, seconds: float) -> Judged:
        run = rollout(step, scaling.transform(part.start), settings.horizon)
        truth = scaling.transform(part.truth)
        valid = int(valid_prediction_steps(run.predicted, truth))
        errors = mse_by_step(run.predicted, truth)
        return Judged(name, scaling.inverse(run.predicted), run.outcome, errors, valid, parameters, seconds)

    judged = []
    for name, kind in NETWORKS.items():
        source = torch.Generator().manual_seed(settings.seed)
        network = build(kind, system.size, system.size, width=settings.width, depth=settings.depth, generator=source)
        recipe = TrainConfig(
            epochs=settings.epochs, learning_rate=LEARNING_RATES[kind], schedule="cosine", seed=settings.seed
        )
        history = fit(network, x, y, recipe, progress=partial(report, name))
        size = sum(parameter.numel() for parameter in network.parameters())
        judged.append(judge(name, IncrementStep(network.eval(), change_scaling), size, history.seconds))
    began = time.perf_counter()
    linear = LinearMap.fit(inputs, targets)
    judged.append(judge("linear least squares", linear, linear.parameters, time.perf_counter() - began))
    judged.append(judge("training mean", TrainingMean.fit(inputs), system.size, 0.0))
    return trajectory, part, judged


def table(system: System, judged: Sequence[Judged], horizon: int) -> Table:
    """The scores of one system, the lowest error in bold."""
    rows: list[list[str | float | int]] = [
        [
            one.name,
            number(one.nmse) if one.outcome.step is None else str(one.outcome),
            f"{one.valid} of {horizon}",
            one.parameters,
            f"{one.seconds:.1f}",
        ]
        for one in judged
    ]
    best = min(range(len(judged)), key=lambda i: judged[i].nmse)
    columns = ("predictor", "normalised MSE", "valid steps", "parameters", "seconds")
    return Table(
        columns,
        rows,
        title=f"{system.name}: rollout over {horizon} steps of {system.dt:g}",
        best=[(best, 0), (best, 1)],
    )


def draw(system: System, before: Array, part: Split, judged: Sequence[Judged], out: Path) -> list[Path]:
    """The figures of one system."""
    networks = {one.name: one.states for one in judged if one.name in NETWORKS}
    curves = {one.name: one.errors for one in judged}
    title = f"{system.name}: free-running rollout over {len(part.truth)} steps"
    figures = {"error": error_figure(curves, title=title, threshold=VALID_RMSE**2)}
    if system.grid is not None:
        figures["field"] = field_figure(
            part.truth, networks, dt=system.dt, grid=system.grid, before=before, title=title
        )
    else:
        names = system.coordinates
        figures["trajectories"] = trajectory_figure(part.truth, networks, dt=system.dt, names=names, title=title)
        figures["portrait"] = portrait_figure(part.truth, networks, names=names, title=title)
    return [save_figure(figure, out / f"{system.name}-{kind}.png") for kind, figure in figures.items()]


def run(settings: Settings, console: Console) -> None:
    """Both systems, with live progress, then the tables and the list of figures."""
    output_folder(settings.out)
    tables, written = [], []
    columns = (
        TextColumn("{task.fields[system]:<16}"),
        TextColumn("{task.description:<14}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("epochs  loss {task.fields[loss]:.2e}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        for system in map(preset, SYSTEMS):
            tasks = {
                name: progress.add_task(name, start=False, total=settings.epochs, system=system.name, loss=float("nan"))
                for name in NETWORKS
            }

            def report(name: str, epoch: Epoch, tasks: dict[str, Any] = tasks, title: str = system.name) -> None:
                progress.start_task(tasks[name])
                progress.update(tasks[name], completed=epoch.number, loss=epoch.loss)
                if not console.is_terminal and epoch.number == epoch.total:
                    console.print(
                        f"{title}: {name}, loss {epoch.loss:.2e} after {epoch.total} epochs, {epoch.seconds:.1f} s"
                    )

            trajectory, part, judged = study(system, settings, report)
            tables.append(table(system, judged, settings.horizon))
            written += draw(system, trajectory.states[: -settings.horizon], part, judged, settings.out)
    for each in tables:
        console.print()
        console.print(each.to_rich())
    summary = settings.out / "results.md"
    summary.write_text("\n\n".join(each.to_markdown() for each in tables) + "\n", encoding="utf-8")
    console.print("\nnormalised MSE: 1 is the variance of the training data; lower is better, the lowest is bold.")
    console.print(f"valid steps: until the normalised RMS error first exceeds {VALID_RMSE:g}; seconds: of training.")
    console.print("written: " + ", ".join(str(path) for path in [*written, summary]), soft_wrap=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description="Train a lens network and two comparators, roll them out, draw.")
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder for figures and results.md")
    parser.add_argument("--epochs", type=int, default=20, help="passes over the training pairs (default 20)")
    parser.add_argument("--depth", type=int, default=40, help="depth of every network (default 40)")
    parser.add_argument("--width", type=int, default=128, help="width of every network (default 128)")
    parser.add_argument("--pairs", type=int, default=3000, help="training pairs (default 3000)")
    parser.add_argument("--horizon", type=int, default=500, help="steps of the rollout (default 500)")
    parser.add_argument("--seed", type=int, default=0, help="of initial values and batches (default 0)")
    console = Console()
    # Layers this small gain little from a second thread, and lose a lot to waiting for it on a busy machine.
    torch.set_num_threads(1)
    try:
        run(Settings(**vars(parser.parse_args(arguments))), console)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
