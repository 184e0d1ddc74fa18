"""`lln fit`: a surrogate from trajectories; `lln compare`, `lln search`: other models and options on the same data."""

from __future__ import annotations

import hashlib
import math
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lln.cli.console import (
    MODEL_SUFFIX,
    AsJson,
    Choices,
    DataFiles,
    ErrorPlot,
    FitOptions,
    Scheduler,
    Seed,
    Seeds,
    Selection,
    Threshold,
    Windows,
    echo,
    interrupted,
    model_file,
    option,
    output_file,
    picture_file,
    progress_bars,
    read_data,
    recipe_choices,
    renamed,
    resumable,
    save_picture,
    say,
    several,
    show_json,
    show_table,
    switch,
    text_width,
)
from lln.core.errors import InputError

if TYPE_CHECKING:
    from lln.data.series import Dataset
    from lln.forecaster.comparison.result import Comparison
    from lln.forecaster.forecaster import LensForecaster
    from lln.tuning.search import SearchResult


SMALL = 256
_GOOD, _POOR = 0.1, 1.0  # normalised errors at which the verdict changes its colour
_SIMPLE = {"persistence": "persistence", "mean": "the mean", "seasonal": "repeating the last season"}
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
    forecaster = LensForecaster(**options.keywords())
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
        suffix = "nc" if forecaster.space_ else "csv"
        words = f"--steps {steps} --level 0.9{known} -o forecast.{suffix} --plot forecast.png"
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
        own = np.log(skill["model"][:count])
        ratios = {
            name: math.exp(float(np.mean(np.log(skill[name][:count]) - own)))
            for name in _SIMPLE if name in skill and None not in skill[name]
        }  # fmt: skip
        nearest = min(ratios, key=lambda name: ratios[name])
        beside = f", {_factor(ratios['persistence'])} below persistence"
        if ratios[nearest] < _ALIKE:
            beside = f", no better than {_SIMPLE[nearest]}"
            colour = colour if nearest == "seasonal" else "red"
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


def compare(
    data: DataFiles,
    selection: Selection,
    test: str | None = option(
        "Last fraction of each trajectory to keep unseen and to score on.",
        shown="0.2 without --test-data",
        metavar="FRACTION",
    ),
    test_data: Path | None = option("File of other data to score on, in place of --test."),
    models: list[str] | None = option("Models to compare, as in lens,linear,mlp.", shown="all networks and references"),
    random_state: list[int] | None = option(
        "Seed of one fit of each network; may be given several times.", shown="0", min=0
    ),
    depths: list[int] | None = option(
        "Depths to choose from for each network, on held-out rollouts.", shown="that of the recipe alone", min=1
    ),
    steps: int | None = option(
        "Length of each rollout; shorter if the data is.", shown="500, or six tenths of the unseen rows", min=1
    ),
    windows: Windows = 64,
    threshold: Threshold = 0.4,
    exponent: float | None = option("The system's largest Lyapunov exponent, to show valid times in Lyapunov times."),
    choices: Choices = None,
    plot: ErrorPlot = None,
    resume: bool = switch("Continue from the checkpoint of the same comparison that was interrupted.", "--resume"),
    as_json: AsJson = False,
    seed: Seeds = None,
    lyapunov: str | None = option("Former name of --exponent.", hidden=True),
) -> None:
    """Fit several models to the same data with the same options, and rank their rollouts on unseen data.

    References: persistence, mean, seasonal (the last season), linear (autoregression, on large grids a convolution),
    polynomial, analog (nearest neighbour), kernel (ridge regression) and esn (a reservoir), each tuned on the held-out
    windows on which the forecaster makes its choices. The model "lens" is LensForecaster with these options; the
    tables call it LensForecaster. With the five comparators of the paper beside it a comparison takes minutes; --models
    chooses. Each model's score is stored when it is known: after Ctrl-C or a kill, the same command with --resume
    continues with the others.
    """
    from lln.forecaster.comparison.compare import ALL
    from lln.forecaster.comparison.compare import compare as run

    seeds = renamed("random-state", random_state, "seed", seed)
    exponent = renamed("exponent", exponent, "lyapunov", _former_exponent(lyapunov))
    fraction, test_data = _test(test, test_data)
    picture_file(plot, *data, test_data)
    options = recipe_choices(choices)
    for key, own in (("random_state", "--random-state"), ("seed", "--random-state"), ("model", "--models")):
        if key in options:
            raise InputError(f"--set {key} has no effect on a comparison, which fits each model; use {own}")
    train = read_data(data, selection)
    unseen = fraction if test_data is None else read_data([test_data], selection)
    names = several(models) or ALL
    asked = (Path.cwd(), data, names, fraction, test_data, selection, options, seeds, depths, steps, windows, threshold)
    name = hashlib.sha256(repr(asked).encode()).hexdigest()[:8]  # two comparisons in one folder have two checkpoints
    checkpoint = output_file(Path(f"lln-compare-{name}.checkpoint"))
    kept = f"finished models are in {checkpoint}, and the same command with --resume continues with the others"
    with resumable(checkpoint, resume, "comparison", kept) as progress:
        found = run(
            train,
            unseen,
            models=[names] if isinstance(names, str) else names, recipe=options, seeds=seeds or (0,),
            depths=depths or None, steps=steps, windows=windows, threshold=threshold, exponent=exponent,
            progress=progress, checkpoint=checkpoint,
        )  # fmt: skip
    checkpoint.unlink(missing_ok=True)
    _show_comparison(found, plot, as_json)


def _former_exponent(text: str | None) -> float | None:
    """The number of `--lyapunov`, which `lln evaluate` takes as a switch."""
    try:
        return None if text is None else float(text)
    except ValueError:
        raise InputError(
            "--lyapunov is a switch of lln evaluate, which estimates exponents; lln compare takes the exponent of the "
            "system as a number, as in --exponent 0.906"
        ) from None


def _test(test: str | None, test_data: Path | None) -> tuple[float | None, Path | None]:
    """What to score on: a fraction of the data or a file; `--test FILE` is the older form of `--test-data FILE`."""
    if test is None:
        return None, test_data
    if test_data is not None:
        raise InputError("give --test FRACTION or --test-data FILE, not both")
    try:
        fraction = float(test)
    except ValueError:
        return None, Path(test)
    if not 0 < fraction < 1:
        raise InputError(f"--test must be a fraction between 0 and 1, got {test}")
    return fraction, None


def _show_comparison(found: Comparison, plot: Path | None, as_json: bool) -> None:
    save_picture(found.figure, plot)
    if as_json:
        show_json(found.record())
        return
    show_table(found.table, found.leads)
    for remark in found.remarks:
        echo(remark)
    if plot is not None:
        echo(f"wrote {plot}")


def search(
    data: DataFiles,
    selection: Selection,
    budget: str = option("Number of trials, or a time as in 90s, 20min or 2h.", "20"),
    out: Path | None = option(
        "Fit with the best options, of a trial or the defaults, and write the model here.", None, "--out", "-o"
    ),
    storage: str = option("SQLite file or any Optuna storage URL, as in postgresql://user@host/name.", "lln-search.db"),
    name: str = option("Name of this search in the storage.", "lln"),
    resume: bool = switch("Continue the search of that name.", "--resume"),
    objective: list[str] | None = option(
        "rollout, parameters or latency; may be given several times, for a Pareto front.", shown="rollout"
    ),
    choices: Choices = None,
    jobs: int = option("Worker processes on this machine.", 1, min=1),
    scheduler: Scheduler = None,
    random_state: int | None = option("The same number gives the same model.", shown="0", min=0),
    seed: Seed = None,
    as_json: AsJson = False,
) -> None:
    """Try sizes and training options on held-out rollouts, and rank them. Needs the extra `search`.

    Every trial is stored when it ends: after Ctrl-C or a kill, --resume continues. Options given by --set are not
    searched; trials that fall behind are stopped. The row "defaults" is LensForecaster without options, scored in
    the same way.
    """
    from lln.tuning.search import search as run
    from lln.tuning.storage import without_password

    random_state = renamed("random-state", random_state, "seed", seed)
    fixed = recipe_choices(choices)
    if random_state is not None and {"random_state", "seed"} & fixed.keys():
        raise InputError("--random-state is also given by --set; give one of the two")
    state = random_state or 0
    if out is not None:
        model_file(out, *data)
    paths = [str(path) for path in data]
    words = selection.keywords()
    where: Any = paths[0] if len(paths) == 1 else paths
    try:
        with progress_bars() as progress:
            found = run(
                where,
                budget,
                storage=storage,
                study_name=name,
                objectives=("rollout", *(one for one in objective or () if one != "rollout")),
                jobs=jobs,
                scheduler=scheduler,
                random_state=state,
                resume=resume,
                fixed=fixed,
                progress=progress,
                **words,
            )
    except KeyboardInterrupt:
        kept = f"the trials that ended are in {without_password(storage)}, and the same command with --resume continues"
        interrupted(kept if "://" in storage or Path(storage).exists() else "there was nothing to keep yet")
    except RuntimeError as error:
        say(str(error))
        raise typer.Exit(1) from None
    _show_search(found, " ".join(paths), as_json)
    if out is not None:
        _fit(found, where, words, out, state)


def _show_search(found: SearchResult, data: str, as_json: bool) -> None:
    if as_json:
        show_json(found.record())
        return
    show_table(found.table)
    words = {k: "none" if v is None else f"{v:.6g}" if isinstance(v, float) else v for k, v in found.options.items()}
    options = " ".join(f"--{k.replace('_', '-')} {word}" for k, word in words.items())
    command = f"best: lln fit {data} -o best.lln {options}".rstrip()
    echo(command, indent=8, command=True)
    if found.defaults_win:
        echo("that is with the defaults: no trial has a lower error")
    echo(f"trials in {found.storage}")


def _fit(found: SearchResult, data: Any, words: dict[str, Any], out: Path, random_state: int) -> None:
    from lln.data.read.formats import as_dataset
    from lln.forecaster.forecaster import LensForecaster

    train(LensForecaster(**{"random_state": random_state, **found.options}), as_dataset(data, **words), out)
    options = "the default options" if found.defaults_win else f"the options of trial {found.best.number}"
    typer.echo(f"wrote {out}, fitted with {options}", err=True)
