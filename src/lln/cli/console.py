"""What the commands share towards a person: files checked before the work, progress, and facts in two columns."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from lln.core.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from lln.plots.table import Table

Listener = Callable[[Any], None]
INTERRUPTED = 130


def console(*, stderr: bool = False) -> Console:
    """A terminal that leaves numbers in the colour of their sentence."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False)


def output_file(path: Path) -> Path:
    """`path`, whose folder is made if it is missing and can be written to: asked before the work, not after it."""
    from lln.core.folders import output_folder

    if path.is_dir() and path.suffix != ".zarr":
        raise InputError(f"{path}: a folder; give the name of a file to write")
    output_folder(path.parent)
    if path.is_file() and not os.access(path, os.W_OK):
        raise InputError(f"{path}: cannot be written to; choose another file or change its permissions")
    return path


def data_file(path: Path) -> Path:
    """A file of trajectories to write: a suffix that names a format, in a folder that can be written to."""
    from lln.core.errors import did_you_mean
    from lln.data.formats import FORMATS

    if path.suffix.lower() not in FORMATS:
        hint = did_you_mean(path.suffix or path.name, FORMATS)
        raise InputError(f"{path}: the suffix names the format, and {path.suffix!r} names none{hint}")
    return output_file(path)


def show_table(table: Table) -> None:
    """Print a table; in a pipe nothing is cut off, however wide it is."""
    screen, drawn = console(), table.to_rich()
    if not screen.is_terminal:
        screen.width = max(screen.width, screen.measure(drawn, options=screen.options.update_width(1000)).maximum)
    screen.print(drawn)


def facts(rows: Mapping[str, str]) -> None:
    """Print names and what they are, one a line."""
    width = max(map(len, rows))
    for name, value in rows.items():
        typer.echo(f"  {name:<{width}}  {value}")


def say(sentence: str) -> None:
    """One sentence for the person, apart from what a program reads."""
    typer.echo(f"lln: {sentence}", err=True)


def interrupted(sentence: str) -> NoReturn:
    """Leave after Ctrl-C, with what is left to build on."""
    say(f"interrupted; {sentence}")
    raise typer.Exit(INTERRUPTED)


def clock(seconds: float) -> str:
    """A time for a reader.

    >>> clock(3.21), clock(75), clock(3725)
    ('3.2 s', '1 min 15 s', '1 h 02 min')
    """
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


@contextmanager
def shown(quiet: bool = False) -> Iterator[Listener]:
    """A listener that draws bars on a terminal, one for each phase, and keeps silent in a pipe."""
    screen = console(stderr=True)
    if quiet or not screen.is_terminal or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

    columns = (
        SpinnerColumn(finished_text="✓"),
        TextColumn("{task.description:<18}"),
        BarColumn(bar_width=28),
        TimeRemainingColumn(elapsed_when_finished=True),
        TextColumn("[dim]{task.fields[message]}"),
    )
    bars: dict[str, Any] = {}
    with Progress(*columns, console=screen, transient=True) as progress:

        def listen(event: Any) -> None:
            bar = bars.get(event.phase)
            if bar is None:
                bar = bars[event.phase] = progress.add_task(event.phase, total=event.total, message="")
            progress.update(bar, completed=event.done, total=event.total, message=event.message)

        yield listen


@contextmanager
def stopwatch() -> Iterator[Callable[[], str]]:
    """A function that says how long the block has taken."""
    began = time.perf_counter()
    yield lambda: clock(time.perf_counter() - began)
