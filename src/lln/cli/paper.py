"""`lln reproduce`, `lln report`, `lln audit`: the runs of the paper, its tables and figures, its counted ratios."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lln.cli.console import Scheduler, console, option, show_json, switch
from lln.core.errors import InputError, choice

if TYPE_CHECKING:
    from lln.core.table import Table
    from lln.paper.reproduce import BlockProgress, Listener
    from lln.paper.spec import Study
    from lln.paper.theory.audit import Ratio

RECORDS = Path("results/paper")


def report(
    records: Path = option("Folder of records that `lln reproduce` wrote.", RECORDS, metavar="FOLDER"),
    out: Path | None = option("Folder to write to.", shown="that of the records", metavar="FOLDER"),
) -> None:
    """Write report.md, report.tex, report.html and the figures; missing runs are shown as missing."""
    for path in render(records, out):
        typer.echo(path)


def render(records: Path, out: Path | None = None) -> list[Path]:
    """Write the report with every column filled, the counted ratios too, and return its files."""
    from lln.paper.report import write_report
    from lln.paper.theory.audit import audit_ratios

    return write_report(records, out, audit_ratios())


TITLES = {"depth 40": "Depth-40 table, percent of the comparator's", "all depths": "All-depth table, D = {depth}"}


def audit(as_json: bool = switch("Print one JSON document in place of tables.", "--json")) -> None:
    """Recompute the paper's parameter and FLOP ratios from the counts, and show which agree.

    Exits with code 1 if one of the 100 ratios differs from the printed one in a printed digit.
    """
    from lln.paper.theory.audit import audit_ratios

    ratios = audit_ratios()
    if as_json:
        show_json(_record(ratios))
    else:
        _show(ratios)
    if not all(ratio.agrees for ratio in ratios):
        raise typer.Exit(1)


def _record(ratios: list[Ratio]) -> dict[str, Any]:
    """Every ratio as text with its printed digits, and the count of those that agree."""
    from dataclasses import asdict

    rows = [
        {**asdict(ratio), "computed": str(ratio.computed), "printed": str(ratio.printed)}
        | {"agrees": ratio.agrees, "inferred": ratio.inferred}
        for ratio in ratios
    ]
    return {"agree": sum(r.agrees for r in ratios), "of": len(ratios), "ratios": rows}


def verdict(ratios: list[Ratio]) -> str:
    """The last line: how many agree, and which do not."""
    wrong = [r for r in ratios if not r.agrees]
    lines = [
        f"differs: {r.table} table, D = {r.depth}, {r.system}, {r.column}: computed {r.computed}, printed {r.printed}"
        for r in wrong
    ]
    inferred = sum(r.inferred for r in ratios)
    lines.append(
        f"{inferred} of them had an input chosen by the printed value itself (below D = 40 the\n"
        "paper prints no LLN sizes) and agree by that choice; the others are tests."
    )
    return "\n".join([*lines, f"{len(ratios) - len(wrong)} of {len(ratios)} ratios agree with the printed ones."])


def _show(ratios: list[Ratio]) -> None:
    screen = console()
    for (table, depth), group in groupby(ratios, key=lambda r: (r.table, r.depth)):
        screen.print(_table(TITLES[table].format(depth=depth), group).to_rich())
        screen.print()
    typer.echo(verdict(ratios))


def _table(title: str, ratios: Iterable[Ratio]) -> Table:
    from lln.core.table import Table
    from lln.paper.printed_values import COMPARATOR_NAMES  # short enough for 80 columns

    rows = []
    for (system, comparator), pair in groupby(ratios, key=lambda r: (r.system, r.comparator)):
        parameters, operations = pair
        cells = [str(value) for r in (parameters, operations) for value in (r.computed, r.printed)]
        rows.append(
            [system, COMPARATOR_NAMES[comparator], *cells, "yes" if parameters.agrees and operations.agrees else "NO"]
        )
    return Table(["system", "comparator", "params", "printed", "FLOPs", "printed", "agree"], rows, title)


# Rollout tables first, because later blocks share their runs.
ORDER = ("R0", "SC-C", "L28-C", "ABL", "MT", "G0", "C0", "AS", "HP", "CS")
TABLES = dict.fromkeys(("depth-40", "all-depths", "depth-sweep"), ("R0", "SC-C", "L28-C")) | {
    "ablation": ("ABL",),
    "multi-trajectory": ("MT",),
    "gradients": ("G0",),
    "curves": ("C0",),
    "architecture": ("AS",),
    "profiles": ("HP",),
    "case-study": ("CS",),
}
QUIET_SECONDS = 15.0


def reproduce(
    blocks: Annotated[
        list[str] | None,
        typer.Argument(help=f"Protocol codes ({', '.join(ORDER)}) or tables ({', '.join(TABLES)}); all if left out."),
    ] = None,
    quick: bool = switch("The same shapes in minutes; the numbers mean nothing.", "--quick"),
    out: Path | None = option(
        "Folder of the records; a new one runs everything.", shown="results/paper", metavar="FOLDER"
    ),
    jobs: int = option("Worker processes, one core each.", 2, min=1),
    scheduler: Scheduler = None,
    study: Path | None = option("Run this study file in place of the paper's."),
    report: bool = option("Write the report at the end.", True),
) -> None:
    """Run the paper's studies and write the report. Finished runs are not repeated: run it again to resume.

    Exits with code 1 if a run crashed; the others are kept, and the next call tries it again.
    """
    from lln.core.workers import DaskPool, LocalPool
    from lln.paper.expand import shortened
    from lln.paper.records import RecordStore
    from lln.paper.reproduce import run_study

    studies = _studies(blocks or [], study)
    if quick:
        studies = [shortened(one) for one in studies]
    folder = out or Path("results/quick" if quick else "results/paper")
    began, failed = time.perf_counter(), 0
    with (
        RecordStore(folder) as store,
        _shown() as listener,
        closing(LocalPool(jobs) if scheduler is None else DaskPool(scheduler)) as pool,
    ):
        known = store.done
        for one in studies:
            progress = run_study(one, store, pool, listener)
            failed += progress.failed
            _summary(one, progress)
        store.settle()
        idle = not failed and store.done == known
    typer.echo(f"{'all':<6} {_clock(time.perf_counter() - began)}  records in {folder}")
    if idle:
        typer.echo(_nothing_run(folder))
    if report and study is None:
        for path in render(folder):
            typer.echo(f"wrote {path}")
    if failed:
        typer.echo(f"{failed} runs crashed; recorded as failed in {folder}; run the command again to retry", err=True)
        raise typer.Exit(1)


def _studies(names: list[str], file: Path | None) -> list[Study]:
    """Read and check every study before the first run."""
    from lln.paper.spec import load_study, paper_studies

    if file is not None:
        if names:
            raise InputError(f"give blocks or --study, not both: got {names[0]!r} and {file}")
        return [load_study(file)]
    known = paper_studies()
    by_name = {code.lower(): (code,) for code in ORDER} | TABLES
    wanted = {code for name in names for code in by_name[choice("block", name.lower(), by_name)]} or set(ORDER)
    return [known[code] for code in ORDER if code in wanted]


def _summary(study: Study, progress: BlockProgress) -> None:
    counts = f"{progress.done} of {progress.total} runs"
    lost = f", {progress.failed} failed" if progress.failed else ""
    typer.echo(f"{study.block:<6} {_clock(progress.seconds)}  {counts}{lost}: {study.title}")
    for error in progress.errors:
        typer.echo(f"  failed: {error}", err=True)


def _nothing_run(folder: Path) -> str:
    """The message if every run was stored before."""
    from lln.paper.records import read_times

    dates = sorted({str(timing.provenance.get("date", ""))[:10] for timing in read_times(folder).values()} - {""})
    made = f", made {' to '.join(dict.fromkeys((dates[0], dates[-1])))}" if dates else ""
    return (
        f"nothing was run: all of these runs are stored in {folder}{made}; to run them afresh give another folder, as "
        "in --out results/mine"
    )


@contextmanager
def _shown() -> Iterator[Listener]:
    """A live line on a terminal, a line now and then in a pipe."""
    screen = console(stderr=True)
    if screen.is_terminal:
        with screen.status("") as status:
            yield lambda progress: status.update(_line(progress))
        return
    last = time.monotonic()

    def now_and_then(progress: BlockProgress) -> None:
        nonlocal last
        if time.monotonic() - last >= QUIET_SECONDS:
            last = time.monotonic()
            typer.echo(_line(progress), err=True)

    yield now_and_then


def _line(progress: BlockProgress) -> str:
    left = "" if progress.seconds_left is None else f", {_clock(progress.seconds_left)} left"
    return (
        f"{progress.block}: {progress.done} of {progress.total} runs done, {progress.running} running, "
        f"{progress.failed} failed{left}"
    )


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes:3d} min {rest:02d} s"
