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

    from lln.core.table import Table

Listener = Callable[[Any], None]
INTERRUPTED = 130


def console(*, stderr: bool = False) -> Console:
    """A terminal that leaves numbers in the colour of their sentence."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False)


def output_file(path: Path, *sources: Path | None) -> Path:
    """`path`, whose folder is made if it is missing and can be written to: asked before the work, not after it.

    Every command that writes asks here. `sources` are the files that it reads, over which it must not write.
    """
    from lln.core.folders import output_folder

    if path.is_dir() and path.suffix != ".zarr":
        raise InputError(f"{path}: a folder; give the name of a file to write")
    output_folder(path.parent)
    if any(one is not None and one.exists() and path.exists() and path.samefile(one) for one in sources):
        raise InputError(f"{path}: is read by this command, so it cannot be written to; choose another name")
    if path.is_file() and not os.access(path, os.W_OK):
        raise InputError(f"{path}: cannot be written to; choose another file or change its permissions")
    return path


def data_file(path: Path, *sources: Path | None) -> Path:
    """A file of trajectories to write: a suffix that names a format, in a folder that can be written to."""
    from lln.core.errors import did_you_mean
    from lln.data.read.formats import FORMATS

    if path.suffix.lower() not in FORMATS:
        hint = did_you_mean(path.suffix or path.name, FORMATS)
        raise InputError(
            f"{path}: the suffix names the format, and {path.suffix!r} names none{hint}", topic="no-suffix"
        )
    return output_file(path, *sources)


def model_file(path: Path, *sources: Path | None) -> Path:
    """A model to write: under no suffix that names data, which it might overwrite."""
    from lln.cli.options import MODEL_SUFFIX
    from lln.data.read.formats import FORMATS

    if path.suffix.lower() in FORMATS:
        raise InputError(f"{path}: a name for data, but a model is written here; give it the suffix {MODEL_SUFFIX}")
    return output_file(path, *sources)


def text_width() -> int:
    """Columns for running text: those of the terminal, and no more than reads well."""
    from lln.forecaster.summary import WIDTH

    screen = console()
    return max(40, min(screen.width, WIDTH)) if screen.is_terminal else WIDTH


def show_table(table: Table) -> None:
    """Print a table; on a narrow terminal it loses its lines before its numbers, in a pipe nothing."""
    from rich import box

    screen, drawn = console(), table.to_rich()

    def needed() -> int:
        return screen.measure(drawn, options=screen.options.update_width(1000)).maximum

    if screen.is_terminal and needed() > screen.width:
        drawn = table.to_rich(narrow=True)
    if screen.is_terminal and needed() > screen.width:
        drawn.box, drawn.padding = box.SIMPLE_HEAD, (0, 0)
    screen.width = max(screen.width, needed())
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
    bars: dict[tuple[str, str], Any] = {}
    groups: dict[str, Any] = {}
    with Progress(*columns, console=screen, transient=True) as progress:
        before = progress.get_time()

        def listen(event: Any) -> None:
            nonlocal before
            group, phase = getattr(event, "group", ""), str(event.phase)
            if getattr(event, "parts", 0):
                phase = f"{phase} {event.part}/{event.parts}"
            bar = bars.get((group, phase))
            if bar is None:
                if group in groups:
                    # Of ten models with several phases each, a terminal has room for one line a model.
                    progress.update(groups[group], visible=False)
                bar = bars[group, phase] = progress.add_task(group or phase, total=event.total, message="")
                # A phase is first heard of when some of it is done: it began when the one before it ended.
                progress.tasks[-1].start_time = before
                if group:
                    groups[group] = bar
            said = ", ".join(part for part in (phase if group else "", event.message) if part)
            progress.update(bar, completed=event.done, total=event.total, message=said)
            before = progress.get_time()

        yield listen


@contextmanager
def stopwatch() -> Iterator[Callable[[], str]]:
    """A function that says how long the block has taken."""
    began = time.perf_counter()
    yield lambda: clock(time.perf_counter() - began)
