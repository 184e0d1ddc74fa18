"""`lln search`: which recipe fits these data best."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
)

if TYPE_CHECKING:
    from lln.search.results import SearchResult


def search(
    data: DataFiles,
    budget: Annotated[str, typer.Option(help="Number of trials, or a time as in 90s, 20min or 2h.")] = "20",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Fit the best recipe and write the model here.")
    ] = None,
    storage: Annotated[
        str, typer.Option(help="SQLite file or any Optuna storage URL, as in postgresql://user@host/name.")
    ] = "lln-search.db",
    name: Annotated[str, typer.Option(help="Name of this search in the storage.")] = "lln",
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the search of that name.")] = False,
    objective: Annotated[
        list[str] | None,
        typer.Option(help="rollout, parameters or latency; give two to see what each costs the other."),
    ] = None,
    choices: Choices = None,
    jobs: Annotated[int, typer.Option(min=1, help="Worker processes on this machine.")] = 1,
    scheduler: Annotated[
        str | None, typer.Option(help="Run on the Dask cluster at this address, as in tcp://10.0.0.5:8786.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the proposals and of the training.")] = 0,
    as_json: AsJson = False,
    time: TimeName = None,
    states: StateNames = None,
    trajectory: TrajectoryName = None,
    inputs: InputNames = None,
    dt: StepLength = None,
    resample: Resample = False,
) -> None:
    """Try sizes and training options on held-out rollouts, and say which do best. Needs the extra `search`.

    Every trial is stored as it ends: after Ctrl-C or a kill, --resume goes on. What --set fixes is not searched;
    trials that fall behind are given up.
    """
    from lln.cli.console import interrupted, model_file, shown
    from lln.cli.reading import Selection, recipe_choices
    from lln.search.search import search as run
    from lln.search.storage import without_password

    if out is not None:
        model_file(out, *data)
    paths = [str(path) for path in data]
    words = Selection(time, states, trajectory, inputs, dt, resample).words()
    where: Any = paths[0] if len(paths) == 1 else paths
    try:
        with shown() as progress:
            found = run(
                where,
                budget,
                storage=storage,
                study_name=name,
                objectives=_objectives(objective),
                jobs=jobs,
                scheduler=scheduler,
                random_state=seed,
                resume=resume,
                fixed=recipe_choices(choices),
                progress=progress,
                **words,
            )
    except KeyboardInterrupt:
        interrupted(
            f"the trials that ended are in {without_password(storage)}, and the same command with --resume goes on"
        )
    except RuntimeError as error:
        typer.echo(f"lln: {error}", err=True)
        raise typer.Exit(1) from None
    _show(found, as_json)
    if out is not None:
        _fit(found, where, words, out, seed)


def _objectives(names: list[str] | None) -> tuple[str, ...]:
    """The rollout error first, whether it was named or not."""
    return ("rollout", *(name for name in names or () if name != "rollout"))


def _show(found: SearchResult, as_json: bool) -> None:
    if as_json:
        import json

        typer.echo(json.dumps(found.record(), indent=2))
        return
    from lln.cli.console import show_table

    show_table(found.table)
    options = " ".join(f"--{key.replace('_', '-')} {_word(value)}" for key, value in found.options.items())
    typer.echo(f"best: lln fit DATA -o MODEL {options}")
    typer.echo(f"trials in {found.storage}")


def _word(value: Any) -> str:
    return "none" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)


def _fit(found: SearchResult, data: Any, words: dict[str, Any], out: Path, seed: int) -> None:
    from lln.cli.fit import train
    from lln.data.dataset import as_dataset
    from lln.forecaster.forecaster import LensForecaster

    train(LensForecaster(**{"random_state": seed, **found.options}), as_dataset(data, **words), out)
    typer.echo(f"wrote {out}", err=True)
