"""Output of the commands: checks of files before the work, progress bars, tables and sentences."""

from __future__ import annotations

import os
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from lln.core.errors import InputError
from lln.core.text import printable

if TYPE_CHECKING:
    from rich.console import Console

    from lln.core.table import Table

Listener = Callable[[Any], None]
INTERRUPTED = 130
PICTURES = (".png", ".svg", ".pdf")
_LONG_MESSAGE = 24  # columns; longer messages have a line of their own above the bars


def console(*, stderr: bool = False) -> Console:
    """A terminal that does not colour numbers."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False)


def output_file(path: Path, *sources: Path | None) -> Path:
    """Check before the work that `path` can be written, and make its folder if it is missing.

    Every command that writes calls this. `sources` are the files that the command reads, which it must not overwrite.
    """
    from lln.core.folders import check_target, output_folder

    output_folder(path.parent)
    check_target(path)
    if path.is_dir() and path.suffix != ".zarr":
        raise InputError(f"{path}: a folder; give the name of a file to write")
    if any(one is not None and one.exists() and path.exists() and path.samefile(one) for one in sources):
        raise InputError(f"{path}: is read by this command, so it cannot be written to; choose another name")
    if path.is_file() and not os.access(path, os.W_OK):
        raise InputError(f"{path}: cannot be written to; choose another file or change its permissions")
    return path


def picture_file(path: Path, *sources: Path | None) -> Path:
    """Check before the work that `path` can be written and names a format of pictures."""
    if path.suffix.lower() not in PICTURES:
        raise InputError(f"{path}: a plot is a {', '.join(PICTURES[:-1])} or {PICTURES[-1]} file, got {path.suffix!r}")
    return output_file(path, *sources)


def data_file(path: Path, *sources: Path | None) -> Path:
    """Check a file of trajectories to write: its suffix must name a format."""
    from lln.core.errors import did_you_mean
    from lln.data.read.formats import FORMATS

    if path.suffix.lower() not in FORMATS:
        hint = did_you_mean(path.suffix or path.name, FORMATS)
        raise InputError(
            f"{path}: the suffix names the format, and {path.suffix!r} names none{hint}", topic="no-suffix"
        )
    return output_file(path, *sources)


def model_file(path: Path, *sources: Path | None) -> Path:
    """Check a model file to write: a suffix of data is refused, because data might be overwritten."""
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
    """Print names and their values, one pair a line, wrapped to the width of the terminal."""
    width, screen = max(map(len, rows)), console()
    room = screen.width if screen.is_terminal else 10_000
    for name, value in rows.items():
        text = f"  {name:<{width}}  {value}"
        indent = " " * (width + 4)
        echo("\n".join(textwrap.wrap(text, room, subsequent_indent=indent, break_long_words=False)) or text)


def echo(text: str, *, dim: bool = False, colour: str | None = None, err: bool = False) -> None:
    """Print text, with control characters of names escaped; colours appear on a terminal only."""
    typer.echo(typer.style(printable(text), fg=colour, bold=bool(colour) or None, dim=dim or None), err=err)


def say(sentence: str) -> None:
    """Print one sentence for the person to standard error."""
    echo(f"lln: {sentence}", err=True)


def interrupted(sentence: str) -> NoReturn:
    """Leave after Ctrl-C, with a sentence about what was kept."""
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
def progress_bars(quiet: bool = False) -> Iterator[Listener]:
    """A callback that draws a numbered bar for each phase on a terminal, and nothing in a pipe."""
    screen = console(stderr=True)
    if quiet or not screen.is_terminal or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.live import Live

    bars = Bars()
    with Live(bars, console=screen, transient=True):
        yield bars.listen


class Bars:
    """Bars of the phases of a command, and the latest long message above them."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

        self.progress = Progress(
            SpinnerColumn(finished_text="✓"),
            TextColumn("{task.description:<21}", markup=False),
            BarColumn(bar_width=20),
            TimeRemainingColumn(elapsed_when_finished=True),
            TextColumn("{task.fields[message]}", markup=False, style="dim"),
        )
        self.message = ""
        self._bars: dict[tuple[str, str], Any] = {}
        self._groups: dict[str, tuple[int, Any]] = {}
        self._before = self.progress.get_time()

    def __rich__(self) -> Any:
        """The message, if there is one, above the bars."""
        from rich.console import Group
        from rich.text import Text

        bars = self.progress.get_renderable()
        return Group(Text(printable(self.message), style="dim"), bars) if self.message else bars

    def listen(self, event: Any) -> None:
        """Show one event of progress: phase, done, total, message, and the group if there are several models."""
        group, phase = getattr(event, "group", ""), str(event.phase)
        if getattr(event, "parts", 0):
            phase = f"{phase} {event.part}/{event.parts}"
        bar = self._bars.get((group, phase))
        if bar is None:
            if group in self._groups:  # one line for each model of a comparison
                self.progress.update(self._groups[group][1], visible=False)
            number = 1 + len(self._groups if group else self._bars)
            number = self._groups[group][0] if group in self._groups else number
            title = f"{number}. {printable(group or phase)}"
            bar = self._bars[group, phase] = self.progress.add_task(title, total=event.total, message="")
            # The first event of a phase arrives after some of its work: the phase began when the one before ended.
            self.progress.tasks[-1].start_time = self._before
            if group:
                self._groups[group] = (number, bar)
        said = ", ".join(part for part in (phase if group else "", event.message) if part)
        self.message = said if len(said) > _LONG_MESSAGE else ""
        short = "" if self.message else printable(said)
        self.progress.update(bar, completed=event.done, total=event.total, message=short)
        self._before = self.progress.get_time()


@contextmanager
def stopwatch() -> Iterator[Callable[[], str]]:
    """A function that returns the time that the block has taken, for a reader."""
    began = time.perf_counter()
    yield lambda: clock(time.perf_counter() - began)
