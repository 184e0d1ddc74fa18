"""`lln bench`: speed and memory, measured after the operator's own tests."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def bench(
    device: Annotated[str, typer.Option(help="Where to measure: cpu or cuda.")] = "cpu",
    out: Annotated[
        Path | None, typer.Option(help="Folder of the rows and the plot; benchmarks/results in a checkout.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="One group of measurements; may be given several times.")
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
    """
    from lln.bench.command import main

    words = ["--device", device]
    for flag, value in (("--out", out), ("--commit", commit), ("--page", page)):
        words += [] if value is None else [flag, str(value)]
    words += ["--only", *only] if only else []
    words += [flag for flag, wanted in (("--quick", quick), ("--check", check)) if wanted]
    raise typer.Exit(main(words, "lln bench"))
