"""`lln compare`: the house's forecaster beside simple references and the paper's networks, on the same data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lln.cli.options import (
    AsJson,
    Choices,
    DataFiles,
    InputNames,
    Resample,
    StateNames,
    StepLength,
    TimeName,
    TrajectoryName,
    several,
)

if TYPE_CHECKING:
    from lln.forecaster.comparison import Comparison

KEPT = "lln-compare.checkpoint"
PICTURES = (".png", ".svg", ".pdf")


def compare(
    data: DataFiles,
    test: Annotated[
        Path | None, typer.Option(help="Data to score on [default: the last fifth of each trajectory, kept back].")
    ] = None,
    models: Annotated[
        list[str] | None,
        typer.Option(help="Which ones, as in lens,linear,mlp [default: all networks and references]."),
    ] = None,
    seed: Annotated[
        list[int] | None, typer.Option(min=0, help="A fit of each network for each seed; may be given several times.")
    ] = None,
    depths: Annotated[
        list[int] | None, typer.Option(min=1, help="Depths to choose from for each network, on held-out rollouts.")
    ] = None,
    steps: Annotated[int, typer.Option(min=1, help="Length of each rollout; shorter if the data is.")] = 500,
    windows: Annotated[int, typer.Option(min=1, help="At most so many rollouts, evenly chosen.")] = 64,
    threshold: Annotated[float, typer.Option(help="Normalised error up to which a prediction counts as valid.")] = 0.4,
    lyapunov: Annotated[
        float | None, typer.Option(help="The system's largest exponent, to show valid times in Lyapunov times.")
    ] = None,
    choices: Choices = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the error against the step to this file: .png .svg .pdf.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help=f"Go on from {KEPT} here, which a comparison that was cut off left.")
    ] = False,
    as_json: AsJson = False,
    time: TimeName = None,
    states: StateNames = None,
    trajectory: TrajectoryName = None,
    inputs: InputNames = None,
    dt: StepLength = None,
    resample: Resample = False,
) -> None:
    """Fit several models to the same data under the same recipe, and say whose rollouts are nearest the truth.

    References: linear (least squares), analog (nearest neighbour), persistence and the training mean. With the paper's
    five networks beside the lens network it takes minutes; --models chooses. Each model's score is kept as it comes:
    after Ctrl-C or a kill, the same command with --resume goes on with the others.
    """
    from lln.cli.console import interrupted, output_file, say, shown
    from lln.cli.reading import Selection, read_data, recipe_choices
    from lln.fit.options import Recipe
    from lln.forecaster.compare import ALL
    from lln.forecaster.compare import compare as run

    if plot is not None:
        _picture(plot, *data, test)
    chosen = Selection(time, states, trajectory, inputs, dt, resample)
    train = read_data(data, chosen)
    unseen = None if test is None else read_data([test], chosen)
    names = several(models) or ALL
    kept = output_file(Path(KEPT))
    if not resume:
        kept.unlink(missing_ok=True)
    elif not kept.exists():
        say(f"{kept} is not there, so the comparison begins anew")
    try:
        with shown() as progress:
            found = run(
                train,
                unseen,
                models=[names] if isinstance(names, str) else names,
                recipe=Recipe.from_record(recipe_choices(choices)),
                seeds=seed or (0,),
                depths=depths or None,
                steps=steps,
                windows=windows,
                threshold=threshold,
                exponent=lyapunov,
                progress=progress,
                checkpoint=kept,
            )
    except KeyboardInterrupt:
        interrupted(
            f"the models that were finished are in {kept}, and the same command with --resume goes on with the others"
            if kept.exists()
            else "there was nothing to keep yet"
        )
    kept.unlink(missing_ok=True)
    _show(found, plot, as_json)


def _picture(path: Path, *sources: Path | None) -> None:
    from lln.cli.console import output_file
    from lln.core.errors import InputError

    if path.suffix.lower() not in PICTURES:
        raise InputError(f"{path}: a plot is a {', '.join(PICTURES[:-1])} or {PICTURES[-1]} file, got {path.suffix!r}")
    output_file(path, *sources)


def _show(found: Comparison, plot: Path | None, as_json: bool) -> None:
    if plot is not None:
        from lln.plots.style import save_figure

        save_figure(found.figure(), plot)
    if as_json:
        import json

        typer.echo(json.dumps(found.record(), indent=2))
        return
    from lln.cli.console import show_table

    show_table(found.table)
    for remark in found.remarks:
        typer.echo(remark)
    if plot is not None:
        typer.echo(f"wrote {plot}")
