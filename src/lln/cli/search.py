"""`lln search`: the options that fit these data best."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from lln.cli.console import echo, interrupted, model_file, progress_bars, say, show_json, show_table
from lln.cli.options import (
    AsJson,
    Choices,
    DataFiles,
    Scheduler,
    Seed,
    Selection,
    option,
    recipe_choices,
    renamed,
    switch,
)
from lln.core.errors import InputError

if TYPE_CHECKING:
    from lln.tuning.search import SearchResult


def search(
    data: DataFiles,
    selection: Selection,
    budget: str = option("Number of trials, or a time as in 90s, 20min or 2h.", "20"),
    out: Path | None = option("Fit with the best options and write the model here.", None, "--out", "-o"),
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
    searched; trials that fall behind are stopped. The row "defaults" is LensForecaster without options, scored alike.
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
    words = selection.words()
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
        interrupted(
            f"the trials that ended are in {without_password(storage)}, and the same command with --resume continues"
        )
    except RuntimeError as error:
        say(str(error))
        raise typer.Exit(1) from None
    _show(found, as_json)
    if out is not None:
        _fit(found, where, words, out, state)


def _show(found: SearchResult, as_json: bool) -> None:
    if as_json:
        show_json(found.record())
        return
    show_table(found.table)
    words = {k: "none" if v is None else f"{v:.6g}" if isinstance(v, float) else v for k, v in found.options.items()}
    options = " ".join(f"--{k.replace('_', '-')} {word}" for k, word in words.items())
    echo(f"best: lln fit DATA -o MODEL {options}", indent=8, command=True)
    if found.defaults is not None and found.defaults["rollout"] <= found.best.values["rollout"]:
        echo("no trial has a lower error than the defaults: lln fit DATA -o MODEL")
    echo(f"trials in {found.storage}")


def _fit(found: SearchResult, data: Any, words: dict[str, Any], out: Path, random_state: int) -> None:
    from lln.cli.fit import train
    from lln.data.dataset import as_dataset
    from lln.forecaster.forecaster import LensForecaster

    train(LensForecaster(**{"random_state": random_state, **found.options}), as_dataset(data, **words), out)
    typer.echo(f"wrote {out}", err=True)
