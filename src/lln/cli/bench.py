"""`lln bench`: speed and memory, measured after the operator's own tests, and how well the recipe forecasts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

FORECAST = "forecast"


def bench(
    device: Annotated[str, typer.Option(help="Where to measure: cpu or cuda.")] = "cpu",
    out: Annotated[
        Path | None, typer.Option(help="Folder of the rows and the plot; benchmarks/results in a checkout.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="One group of measurements, or forecast; may be given several times.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A small part, in under a minute.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Leave with 1 when a ratio falls under its bar.")] = False,
    commit: Annotated[str | None, typer.Option(help="The commit to store, where there is no checkout to ask.")] = None,
    page: Annotated[
        Path | None, typer.Option(help="Measure nothing; fill this page's tables from the stored rows.")
    ] = None,
) -> None:
    """Measure speed and memory side by side: naive, compiled, fused, and the plain MLP.

    The operator's tests run first; while one fails, nothing is measured. Ratios are taken between the fastest samples,
    which a busy machine disturbs least.

    How well the recipe forecasts, beside every comparator, is a matter of hours and measured only when it is named:
    --only forecast runs what no stored row tells, and shows the tables. An interrupted run goes on from its rows.
    """
    from lln.bench.command import main
    from lln.bench.suite import GROUPS
    from lln.core.errors import InputError, choice

    try:
        for name in only or ():
            choice("group of measurements", name, (*GROUPS, FORECAST))
    except InputError as error:
        typer.echo(f"lln: {error}", err=True)
        raise typer.Exit(2) from None
    words = ["--device", device]
    for flag, value in (("--out", out), ("--commit", commit), ("--page", page)):
        words += [] if value is None else [flag, str(value)]
    groups = [name for name in only or () if name != FORECAST]
    words += ["--only", *groups] if groups else []
    words += [flag for flag, wanted in (("--quick", quick), ("--check", check)) if wanted]
    code = main(words, "lln bench") if groups or FORECAST not in (only or ()) else 0
    if only and FORECAST in only and not code:
        code = _forecast(device, out, commit, quick)
    raise typer.Exit(code)


def _forecast(device: str, out: Path | None, commit: str | None, quick: bool) -> int:
    from lln.bench.forecast import main
    from lln.bench.suite import DEVICES, default_folder
    from lln.cli.console import interrupted
    from lln.core.errors import InputError, choice

    if quick:
        raise InputError("--quick does not go with --only forecast, whose rows are whole or of no use; leave it out")
    words = ["--device", choice("device", device, DEVICES), "--out", str(default_folder() if out is None else out)]
    try:
        return main([*words, *(["--commit", commit] if commit else [])], "lln bench --only forecast")
    except KeyboardInterrupt:
        interrupted("the rows that were finished are stored, and the same command goes on from them")
