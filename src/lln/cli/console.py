"""What the commands read and write: models and data, checks of files before the work, bars, tables and sentences."""

from __future__ import annotations

import json
import os
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from lln.cli import INTERRUPTED
from lln.cli.options import MODEL_SUFFIX, Selection
from lln.core.errors import InputError, printable
from lln.forecaster.summary import bars_on

if TYPE_CHECKING:
    from rich.console import Console

    from lln.core.table import Table
    from lln.data.dataset import Dataset
    from lln.forecaster.forecaster import LensForecaster

Listener = Callable[[Any], None]


def console(*, stderr: bool = False) -> Console:
    """A terminal that does not colour numbers."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False)


def output_file(path: Path, *sources: Path | None) -> Path:
    """Check before the work that `path` can be written, and make its folder if it is missing.

    Every command that writes calls this. `sources` are the files that the command reads, which it must not overwrite.
    """
    from lln.core.safe_files import check_target, output_folder

    output_folder(path.parent)
    check_target(path)
    if path.is_dir() and path.suffix != ".zarr":
        raise InputError(f"{path}: a folder; give the name of a file to write")
    if any(one is not None and one.exists() and path.exists() and path.samefile(one) for one in sources):
        raise InputError(f"{path}: is read by this command, so it cannot be written to; choose another name")
    if path.is_file() and not os.access(path, os.W_OK):
        raise InputError(f"{path}: cannot be written to; choose another file or change its permissions")
    return path


def picture_file(
    path: Path | None, *sources: Path | None, what: str = "plot", suffixes: Sequence[str] = (".png", ".svg", ".pdf")
) -> None:
    """Check before the work that `path` can be written and names a format of pictures; None asks for no picture."""
    if path is None:
        return
    if path.suffix.lower() not in suffixes:
        raise InputError(
            f"{path}: a {what} is a {', '.join(suffixes[:-1])} or {suffixes[-1]} file, got {path.suffix!r}"
        )
    output_file(path, *sources)


def save_picture(draw: Callable[[], Any], path: Path | None) -> None:
    """Write the figure that `draw` returns to `path`, if a picture was asked for."""
    if path is not None:
        from lln.plots.style import save_figure

        save_figure(draw(), path)


def data_file(path: Path, *sources: Path | None) -> None:
    """Check before the work that trajectories can be written to `path`."""
    from lln.data.read.formats import check_written

    check_written(path)
    output_file(path, *sources)


def model_file(path: Path, *sources: Path | None) -> None:
    """Check a model file to write: a suffix of data is refused, because data might be overwritten."""
    from lln.data.read.formats import FORMATS

    if path.suffix.lower() in FORMATS:
        raise InputError(f"{path}: a name for data, but a model is written here; give it the suffix {MODEL_SUFFIX}")
    output_file(path, *sources)


def text_width() -> int:
    """Columns for running text: those of the terminal, and no more than reads well."""
    from lln.forecaster.summary import WIDTH

    screen = console()
    return max(40, min(screen.width, WIDTH)) if screen.is_terminal else WIDTH


def show_table(*tables: Table) -> None:
    """Print tables; a narrow terminal costs them room, but cuts no number. In a pipe they are as wide as they need."""
    for table in tables:
        screen, drawn = console(), table.to_rich()
        room = screen.options.update_width(1000)
        if screen.is_terminal and screen.measure(drawn, options=room).maximum > screen.width:
            drawn = table.to_rich(narrow=True)
        needed = screen.measure(drawn, options=room).maximum
        if not screen.is_terminal:
            screen.width = max(screen.width, needed)
        elif needed > screen.width:
            drawn.padding, drawn.columns[-1].no_wrap = (0, 0), False
        screen.print("", drawn, sep="\n")
    screen.print()


def show_json(record: Mapping[str, Any]) -> None:
    """Print one JSON document."""
    typer.echo(json.dumps(record, indent=2))


def facts(rows: Mapping[str, str]) -> None:
    """Print names and their values, one pair a line, wrapped to the width of the terminal."""
    width = max(map(len, rows))
    for name, value in rows.items():
        echo(f"  {name:<{width}}  {value}", indent=width + 4)


def echo(
    text: str,
    *,
    dim: bool = False,
    colour: str | None = None,
    err: bool = False,
    indent: int = 0,
    command: bool = False,
) -> None:
    """Print text, with control characters of names escaped.

    On a terminal lines are wrapped between words, with `indent` spaces before the rest of a line, and colours appear.
    The lines of a command can be copied together.
    """
    try:
        lines = _wrapped(printable(text), err, indent, " \\" if command else "")
        shown = typer.style(lines, fg=colour, bold=bool(colour) or None, dim=dim or None)
        typer.echo(shown, err=err)
    except MemoryError:
        if not err:
            raise
        os.write(2, printable(text).encode(errors="replace") + b"\n")  # the text may be about to say so


def _wrapped(text: str, err: bool, indent: int, end: str = "") -> str:
    """Lines that fit the terminal, broken between words, with `end` at each break; unchanged in a pipe."""
    if not (sys.stderr if err else sys.stdout).isatty():
        return text
    try:
        screen = console(stderr=err)
    except (ImportError, MemoryError, OSError):  # no memory is left to load it, which the text may be about to say
        return text
    if not screen.is_terminal:
        return text
    wrapper = textwrap.TextWrapper(
        screen.width - len(end), subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False,
        replace_whitespace=False,
    )  # fmt: skip
    lines = (wrapper.wrap(line) if len(line) > screen.width else [line] for line in text.split("\n"))
    return "\n".join(f"{end}\n".join(line) for line in lines)


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


def progress_bars() -> AbstractContextManager[Listener]:
    """A callback that draws a numbered bar for each phase on a terminal, and nothing in a pipe."""
    screen = console(stderr=True)
    return bars_on(screen) if screen.is_terminal and sys.stderr.isatty() else nullcontext(lambda _: None)


@contextmanager
def resumable(checkpoint: Path, resume: bool, work: str, kept: str) -> Iterator[Listener]:
    """Progress bars around work with a checkpoint; after Ctrl-C the command leaves and says what was kept."""
    if not resume:
        checkpoint.unlink(missing_ok=True)
    elif not checkpoint.exists():
        say(f"{checkpoint} does not exist, so the {work} starts from the beginning")
    try:
        with progress_bars() as progress:
            yield progress
    except KeyboardInterrupt:
        interrupted(kept if checkpoint.exists() else "there was nothing to keep yet")


def stopwatch() -> Callable[[], str]:
    """A function that returns the time since now, for a reader."""
    began = time.perf_counter()
    return lambda: clock(time.perf_counter() - began)


def read_data(paths: Sequence[Path], chosen: Selection) -> Dataset:
    """The trajectories of all files as one dataset."""
    from lln.data.dataset import as_dataset

    return as_dataset(paths[0] if len(paths) == 1 else list(paths), **chosen.words())


def read_model(path: Path) -> LensForecaster:
    """The forecaster in `path`."""
    from lln.core.safe_files import refuse_missing
    from lln.forecaster.fitted import load

    refuse_missing(path)
    return load(path)


def read_for(model: LensForecaster, path: Path, chosen: Selection) -> Dataset:
    """Data for a model: what the options leave open is looked for under the names that the model was fitted with."""
    return model.layout_.read(path, **chosen.words())
