"""`lln report`: the paper's tables and figures from records, beside the printed numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

RECORDS = Path("results/paper")


def report(
    records: Annotated[
        Path, typer.Option(help="Folder of records that `lln reproduce` wrote.", metavar="FOLDER")
    ] = RECORDS,
    out: Annotated[
        Path | None, typer.Option(help="Folder to write to.", metavar="FOLDER", show_default="that of the records")
    ] = None,
) -> None:
    """Write report.md, report.tex, report.html and the figures; missing runs are shown as missing."""
    for path in render(records, out):
        typer.echo(path)


def render(records: Path, out: Path | None = None) -> list[Path]:
    """Write the report with every column filled, the counted ratios too, and return its files."""
    from lln.paper.report import write_report
    from lln.paper.theory.audit import audit_ratios

    return write_report(records, out, audit_ratios())
