"""`lln fit`: a surrogate from trajectories."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lln.cli.options import (
    MODEL_SUFFIX,
    AsJson,
    DataFiles,
    InputNames,
    Resample,
    StateNames,
    StepLength,
    TimeName,
    TrajectoryName,
)

if TYPE_CHECKING:
    from lln.data.dataset import Dataset
    from lln.forecaster.forecaster import LensForecaster

SIZES, TRAINING = "The network", "Training"
SMALL = 256


def fit(
    data: DataFiles,
    out: Annotated[Path, typer.Option("--out", "-o", help=f"Model to write, as in model{MODEL_SUFFIX}.")],
    recipe: Annotated[str, typer.Option(help="lens, the house recipe, or paper, the paper's own.")] = "lens",
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the checkpoint of a fit that was cut off.")
    ] = False,
    test: Annotated[
        float, typer.Option(min=0, max=0.9, help="Last fraction of each trajectory to keep unseen, for lln evaluate.")
    ] = 0.0,
    as_json: AsJson = False,
    model: Annotated[str, typer.Option(help="lens, or a comparator of the paper.", rich_help_panel=SIZES)] = "lens",
    history: Annotated[
        str, typer.Option(help="Past states that a step looks at: a number or auto.", rich_help_panel=SIZES)
    ] = "auto",
    ridge: Annotated[
        str, typer.Option(help="Of the linear part: a number, auto, or none to leave it out.", rich_help_panel=SIZES)
    ] = "auto",
    width: Annotated[int | None, typer.Option(min=1, help="Rays of a member.", rich_help_panel=SIZES)] = None,
    depth: Annotated[int | None, typer.Option(min=1, help="Layers.", rich_help_panel=SIZES)] = None,
    basis: Annotated[int | None, typer.Option(min=1, help="Control points.", rich_help_panel=SIZES)] = None,
    horizon: Annotated[float | None, typer.Option(help="Propagation distance.", rich_help_panel=SIZES)] = None,
    members: Annotated[int | None, typer.Option(min=1, help="Networks in the ensemble.", rich_help_panel=SIZES)] = None,
    field: Annotated[
        bool | None,
        typer.Option(help="Points of a grid share weights [default: if that does better].", rich_help_panel=SIZES),
    ] = None,
    boundary: Annotated[
        str | None, typer.Option(help="Of a field, as in periodic; found if left out.", rich_help_panel=SIZES)
    ] = None,
    conserve: Annotated[
        str | None, typer.Option(help="What a field conserves: none, mean or flux.", rich_help_panel=SIZES)
    ] = None,
    epochs: Annotated[
        str, typer.Option(help="Passes over the data: a number or auto.", rich_help_panel=TRAINING)
    ] = "auto",
    batch_size: Annotated[
        int | None, typer.Option(min=1, help="Pairs in one update.", rich_help_panel=TRAINING)
    ] = None,
    learning_rate: Annotated[float | None, typer.Option(help="At the start.", rich_help_panel=TRAINING)] = None,
    unroll: Annotated[
        str | None,
        typer.Option(help="Steps of fine-tuning over several steps: a number, 0 or auto.", rich_help_panel=TRAINING),
    ] = None,
    validation: Annotated[
        float | None,
        typer.Option(help="Fraction of the data that chooses and does not train.", rich_help_panel=TRAINING),
    ] = None,
    time_limit: Annotated[
        float | None, typer.Option(help="Seconds that training may take.", rich_help_panel=TRAINING)
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed, the same model.", rich_help_panel=TRAINING)] = 0,
    threads: Annotated[
        int | None,
        typer.Option(min=1, help="CPU threads [default: 1, and all for large states].", rich_help_panel=TRAINING),
    ] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.", rich_help_panel=TRAINING)] = "cpu",
    time: TimeName = None,
    states: StateNames = None,
    trajectory: TrajectoryName = None,
    inputs: InputNames = None,
    dt: StepLength = None,
    resample: Resample = False,
) -> None:
    """Learn a surrogate from trajectories and write it to one file.

    Sizes, ridge, history and when to stop are chosen on held-out rollouts; every option below overrules one choice.
    Ctrl-C leaves a checkpoint beside the model, and --resume goes on from it to the same model.
    """
    from lln.cli.console import model_file
    from lln.cli.reading import Selection, read_data
    from lln.forecaster.forecaster import LensForecaster

    model_file(out, *data)
    dataset = read_data(data, Selection(time, states, trajectory, inputs, dt, resample))
    wishes: dict[str, Any] = {
        "width": width,
        "depth": depth,
        "basis": basis,
        "horizon": horizon,
        "members": members,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "unroll": None if unroll is None else _number("unroll", unroll, int, "auto"),
        "time_limit": time_limit,
        "validation": validation,
        "field": _field(field, boundary, conserve),
    }
    forecaster = LensForecaster(
        recipe=recipe,
        model=model,
        history=_number("history", history, int, "auto"),
        ridge=_number("ridge", ridge, float, "auto", "none"),
        epochs=_number("epochs", epochs, int, "auto"),
        device=device,
        random_state=seed,
        **{name: wish for name, wish in wishes.items() if wish is not None},
    )
    with _threads(threads, dataset.size):
        train(forecaster, dataset.split(test)[0] if test else dataset, out, resume=resume)
    _show(forecaster, dataset, out, as_json)


@contextmanager
def _threads(wanted: int | None, size: int) -> Iterator[None]:
    """So many threads of torch; by default one where more would mostly wait for each other."""
    import torch

    from lln.ops import checked_threads

    before = torch.get_num_threads()
    torch.set_num_threads(checked_threads(wanted) if wanted else (1 if size <= SMALL else before))
    try:
        yield
    finally:
        torch.set_num_threads(before)


def train(forecaster: LensForecaster, dataset: Dataset, out: Path, *, resume: bool = False) -> None:
    """Fit with progress and a checkpoint beside `out`, and save the model there."""
    from lln.cli.console import interrupted, say, shown

    checkpoint = out.with_name(f"{out.name}.checkpoint")
    if not resume:
        checkpoint.unlink(missing_ok=True)
    elif not checkpoint.exists():
        say(f"{checkpoint} is not there, so the fit begins anew")
    try:
        with shown() as progress:
            forecaster.fit(dataset, progress=progress, checkpoint=checkpoint)
    except KeyboardInterrupt:
        kept = checkpoint.exists()
        interrupted(
            f"{checkpoint} is kept, and the same command with --resume goes on from it"
            if kept
            else "there was nothing to keep yet"
        )
    forecaster.save(out)
    checkpoint.unlink(missing_ok=True)


def _show(forecaster: LensForecaster, dataset: Dataset, out: Path, as_json: bool) -> None:
    if as_json:
        from lln.cli.inspect_model import describe, to_json

        typer.echo(to_json(describe(forecaster, out)))
        return
    from lln.cli.console import say, text_width

    for note in dataset.notes:
        say(note)
    typer.echo(forecaster.summary(text_width()))
    typer.echo(f"wrote {out}")


def _field(wanted: bool | None, boundary: str | None, conserve: str | None) -> bool | dict[str, str] | None:
    """What the options say about fields; None leaves it to the recipe."""
    from lln.core.errors import InputError

    options = {key: value for key, value in (("boundary", boundary), ("conserve", conserve)) if value is not None}
    if options and wanted is False:
        raise InputError(f"--{next(iter(options))} is about fields, so it does not go with --no-field")
    return options or wanted


def _number(what: str, text: str, kind: type[int] | type[float], *words: str) -> Any:
    """A number, or one of the words; "none" means None."""
    from lln.core.errors import InputError

    if text.lower() in words:
        return None if text.lower() == "none" else text.lower()
    try:
        return kind(text)
    except ValueError:
        raise InputError(f"--{what} must be a number or {' or '.join(words)}, got {text!r}") from None
