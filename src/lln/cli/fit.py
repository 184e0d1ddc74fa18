"""`lln fit`: a surrogate from trajectories."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lln.cli.console import echo, model_file, output_file, read_data, resumable, say, show_json, text_width
from lln.cli.options import MODEL_SUFFIX, AsJson, DataFiles, FitOptions, Scheduler, Selection, option, switch
from lln.core.errors import InputError

if TYPE_CHECKING:
    from lln.data.dataset import Dataset
    from lln.forecaster.forecaster import LensForecaster

SMALL = 256
_GOOD, _POOR = 0.1, 1.0  # normalised errors at which the verdict changes its colour
_ALIKE = 1.02  # ratio of errors below which two methods do equally well


def fit(
    data: DataFiles,
    out: Annotated[Path, typer.Option("--out", "-o", help=f"Model to write, as in model{MODEL_SUFFIX}.")],
    options: FitOptions,
    selection: Selection,
    resume: bool = switch("Continue from the checkpoint of a fit that was interrupted.", "--resume"),
    test: float = option(
        "Last fraction of each trajectory to keep unseen, for lln evaluate.", 0.0, min=0, max=0.9, metavar="FRACTION"
    ),
    threads: int | None = option("CPU threads for training networks.", shown="1, and all for large states", min=1),
    scheduler: Scheduler = None,
    as_json: AsJson = False,
) -> None:
    """Learn a surrogate from trajectories and write it to one file.

    Sizes, ridge, history and when to stop are chosen on held-out rollouts; every option below overrides one choice.
    Ctrl-C leaves a checkpoint beside the model, and --resume continues from it to the same model.
    """
    from lln.forecaster.forecaster import LensForecaster

    most = 4 * (os.cpu_count() or 1)
    if threads is not None and threads > most:  # the libraries crash where so many cannot be started
        raise InputError(f"--threads must be at most {most}, four times the cores of this machine, got {threads}")
    forecaster = LensForecaster(**options.words())
    model_file(out, *data)
    output_file(_checkpoint(out))
    terminal = sys.stderr.isatty()
    if terminal:
        echo(f"reading {', '.join(map(str, data))}", dim=True, err=True)
    dataset = read_data(data, selection)
    training = dataset.split(test)[0] if test else dataset
    if terminal:
        many = f"{dataset.size:,} coordinates" if dataset.size > 1 else "one coordinate"
        echo(f"fitting {training.rows:,} states of {many}", dim=True, err=True)
    with _threads(threads, dataset.size):
        train(forecaster, training, out, resume=resume, scheduler=scheduler)
    _show(forecaster, dataset, data[0], out, as_json)


@contextmanager
def _threads(wanted: int | None, size: int) -> Iterator[None]:
    """Set the threads of torch; by default one for small states, where more would wait for each other."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(wanted or (1 if size <= SMALL else before))
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _checkpoint(out: Path) -> Path:
    return out.with_name(f"{out.name}.checkpoint")


def train(
    forecaster: LensForecaster, dataset: Dataset, out: Path, *, resume: bool = False, scheduler: str | None = None
) -> None:
    """Fit with progress and a checkpoint beside `out`, and save the model there."""
    checkpoint = _checkpoint(out)
    kept = f"{checkpoint} is kept, and the same command with --resume continues from it"
    with resumable(checkpoint, resume, "fit", kept) as progress:
        forecaster.fit(dataset, progress=progress, checkpoint=checkpoint, scheduler=scheduler)
    forecaster.save(out)
    checkpoint.unlink(missing_ok=True)


def _show(forecaster: LensForecaster, dataset: Dataset, data: Path, out: Path, as_json: bool) -> None:
    """Print the details dim, one coloured sentence, and the next commands."""
    if as_json:
        from lln.cli.model import describe

        show_json(describe(forecaster, out))
        return
    if not sys.stdout.isatty():  # on a terminal the summary below shows them
        for note in dataset.notes:
            say(note)
    echo(forecaster.summary(text_width()), dim=True)
    sentence, colour = verdict(forecaster)
    if sentence:
        echo(sentence, colour=colour)
    echo(f"wrote {out}")
    if sys.stdout.isatty():
        echo(f"next: lln evaluate {out} {data}", dim=True, indent=8, command=True)
        steps = forecaster.report_.lead_times[-1] if forecaster.report_.lead_times else 500
        known = " --future INPUTS" if forecaster.input_names_ else ""
        interval, suffix = ("", "nc") if forecaster.space_ else (" --level 0.9", "csv")
        words = f"--steps {steps}{interval}{known} -o forecast.{suffix} --plot forecast.png"
        echo(f"      lln rollout {out} {words}", dim=True, indent=8, command=True)
        echo(f"      lln page {out} --data {data} --open", dim=True, indent=8, command=True)


def verdict(forecaster: LensForecaster) -> tuple[str, str]:
    """One sentence about the held-out rollouts, and its colour; no sentence without held-out rows."""
    import numpy as np

    from lln.core.table import human_time

    report, layout = forecaster.report_, forecaster.layout_
    error = report.held_out_nmse
    if math.isnan(error):
        return "", "green"
    beside, colour = "", "green" if error < _GOOD else "yellow" if error < _POOR else "red"
    skill = report.skill
    if {"model", "persistence"} <= skill.keys():
        # The lead times up to which the model forecasts, at least the first one.
        count = max(1, sum(lead <= report.valid_steps for lead in report.lead_times))
        ratio = math.exp(float(np.mean(np.log(skill["persistence"][:count]) - np.log(skill["model"][:count]))))
        beside = f", {_factor(ratio)} below persistence" if ratio >= _ALIKE else ", no better than persistence"
        colour = colour if ratio >= _ALIKE else "red"
    if not report.valid_steps:
        return f"held-out error {error:.2g}{beside}; not valid even for one step", "red"
    span = human_time(report.valid_steps * layout.dt, layout.time_unit)
    longest = report.lead_times and report.valid_steps == report.lead_times[-1]
    least = "at least " if longest else ""
    if report.exponent is not None:
        times = report.valid_steps * layout.dt * report.exponent
        span = f"{times:.2g} Lyapunov times ({span})"
    return f"held-out error {error:.2g}{beside}; valid on average for {least}{span}", colour


def _factor(ratio: float) -> str:
    """A factor in words that people use.

    >>> _factor(1.84), _factor(2512.0), _factor(2.3e6), _factor(7e22)
    ('1.8 times', '2,500 times', '2 million times', 'more than a billion times')
    """
    ratio = float(f"{ratio:.2g}")
    if ratio >= 1e9:
        return "more than a billion times"
    if ratio >= 1e6:
        return f"{ratio / 1e6:.0f} million times"
    return f"{ratio:,g} times"
