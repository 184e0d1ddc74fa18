"""`lln compare`: the forecaster, simple references and the networks of the paper on the same data."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from lln.cli.console import echo, output_file, picture_file, read_data, resumable, save_picture, show_json, show_table
from lln.cli.options import (
    AsJson,
    Choices,
    DataFiles,
    ErrorPlot,
    Seeds,
    Selection,
    Threshold,
    Windows,
    option,
    recipe_choices,
    renamed,
    several,
    switch,
)
from lln.core.errors import InputError

if TYPE_CHECKING:
    from lln.forecaster.comparison.result import Comparison


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
    windows on which the forecaster makes its choices. The model "lens" is LensForecaster with these options, and the
    tables call it so. With the five comparators of the paper beside it a comparison takes minutes; --models chooses.
    Each model's score is stored when it is known: after Ctrl-C or a kill, the same command with --resume continues
    with the others.
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
    _show(found, plot, as_json)


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


def _show(found: Comparison, plot: Path | None, as_json: bool) -> None:
    save_picture(found.figure, plot)
    if as_json:
        show_json(found.record())
        return
    show_table(found.table, found.leads)
    for remark in found.remarks:
        echo(remark)
    if plot is not None:
        echo(f"wrote {plot}")
