"""Shared code of the commands: options, reading of models and data, checks of files, progress bars, tables, messages.

Options that belong together are fields of a dataclass. A command takes the dataclass as one parameter, and
`lln.cli.app` makes an option of each field.
"""

from __future__ import annotations

import json
import os
import re
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeVar

import typer

from lln.cli import INTERRUPTED
from lln.core.errors import InputError, printable
from lln.forecaster.summary import bars_on

if TYPE_CHECKING:
    from rich.console import Console

    from lln.core.table import Table
    from lln.data.series import Dataset
    from lln.forecaster.forecaster import LensForecaster


MODEL_SUFFIX = ".lln"

T = TypeVar("T")


def preset_names(incomplete: str) -> Iterator[str]:
    """Names of presets that begin with the typed text, for shell completion."""
    from lln.systems import SYSTEMS

    yield from (name for name in SYSTEMS if name.startswith(incomplete.lower()))


def model_files(incomplete: str) -> Iterator[str]:
    """Model files and folders that begin with the typed text, for shell completion."""
    typed = Path(incomplete)
    folder = typed if incomplete.endswith("/") else typed.parent
    begin = "" if incomplete.endswith("/") else typed.name
    if not folder.is_dir():
        return
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith(begin) and (entry.is_dir() or entry.suffix == MODEL_SUFFIX):
            # As typed: a path without its leading "./" stays without it.
            path = entry.name if str(folder) == "." and not incomplete.startswith("./") else f"{folder}/{entry.name}"
            yield f"{path}/" if entry.is_dir() else path


_FORMATS = ".npz .npy .csv .h5 .nc .zarr"
DataFiles = Annotated[
    list[Path], typer.Argument(help=f"Trajectories: {_FORMATS}; several files, several trajectories.")
]
DataFile = Annotated[Path, typer.Argument(help=f"Trajectories: {_FORMATS}.")]
DataOut = Annotated[Path, typer.Option("--out", "-o", help=f"File to write: {_FORMATS}.")]
ModelFile = Annotated[
    Path, typer.Argument(help=f"A model that `lln fit` wrote ({MODEL_SUFFIX}).", autocompletion=model_files)
]
Choices = Annotated[
    list[str] | None,
    typer.Option("--set", help="An option of the forecaster, as in epochs=30; may be given several times."),
]
Seed = Annotated[int | None, typer.Option(min=0, hidden=True, help="Former name of --random-state.")]
Seeds = Annotated[list[int] | None, typer.Option(min=0, hidden=True, help="Former name of --random-state.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document in place of text.")]
Windows = Annotated[int, typer.Option(min=1, help="Largest number of rollouts, evenly spread.")]
Threshold = Annotated[float, typer.Option(help="Normalised RMSE of a state up to which a forecast counts as valid.")]
ErrorPlot = Annotated[Path | None, typer.Option(help="Draw the error against lead time to this file: .png .svg .pdf.")]
Scheduler = Annotated[
    str | None, typer.Option(help="Run on the Dask cluster at this address, as in tcp://10.0.0.5:8786.")
]


_READING = "Reading the data"
_RECIPE = "by the recipe"


def option(text: str, default: Any = None, *names: str, shown: str = "", panel: str | None = None, **more: Any) -> Any:
    """An option of a command.

    Args:
        text: what it is for.
        default: its value if it is not given.
        names: its names, where they are not that of the parameter.
        shown: the default as text, where the command finds it itself; one word is a value that can be given.
        panel: the part of the help that lists it.
        **more: what else `typer.Option` takes.
    """
    return typer.Option(default, *names, help=text, show_default=shown or True, rich_help_panel=panel, **more)


def switch(text: str, name: str, **more: Any) -> Any:
    """An option that takes no value, and that only its name turns on."""
    return option(text, False, name, **more)


_reading, _network, _training = (partial(option, panel=panel) for panel in (_READING, "The model", "Training"))


@dataclass(frozen=True)
class Selection:
    """Options of every command that reads data: which part of a file is what; None leaves it to the reader."""

    time: str | None = _reading(
        "The array, variable or column of time, or none if the rows have no times; of arrays "
        "alone, the axis of time (0 or 1)."
    )
    states: list[str] | None = _reading(
        "The array, variables or columns of the state, as in a,b; may be given several times."
    )
    trajectory: str | None = _reading("The dimension or column that tells trajectories apart.")
    inputs: list[str] | None = _reading(
        "The array, variables or columns of known inputs, as in a,b; may be given several times."
    )
    dt: float | None = _reading("Time between rows, where the data has no time.")
    resample: bool = switch("Interpolate unevenly sampled data to equal time steps.", "--resample", panel=_READING)

    def keywords(self) -> dict[str, Any]:
        """Keyword arguments of `lln.as_dataset`."""
        return {**vars(self), "states": several(self.states), "inputs": several(self.inputs)}


@dataclass(frozen=True)
class FitOptions:
    """Options of `lln fit`, one for each keyword argument of `LensForecaster`; None leaves the choice to the recipe."""

    recipe: str = option("lens, or paper for the recipe of the paper.", "lens")
    model: str = _network("lens, or another network by name.", "lens")
    history: str = _network("Past states that a step uses: a number or auto.", "auto")
    ridge: str = _network("Ridge of the linear part: a number, auto, or none to leave it out.", "auto")
    width: int | None = _network("Rays of a network.", shown=_RECIPE, min=1)
    depth: int | None = _network("Layers of a network.", shown=_RECIPE, min=1)
    basis: int | None = _network("Control points of a lens.", shown=_RECIPE, min=1)
    optical_length: float | None = _network("Total distance that rays propagate.", shown=_RECIPE)
    horizon: float | None = option("Former name of --optical-length.", hidden=True)
    members: int | None = _network("Networks in the ensemble.", shown="3; fields: 2; recipe paper: 1", min=1)
    parts: list[str] | None = _network("Closed-form and learned parts to try, as in linear,lens.", shown="all of them")
    field: bool | None = _network("Whether all grid points share weights.", shown="whichever is better")
    boundary: str | None = _network("Boundary condition of a field, as in periodic.", shown="detected in the data")
    conserve: str | None = _network("What a field conserves: none, mean or flux.", shown="detected in the data")
    epochs: str = _training("Passes over the data: a number or auto.", "auto")
    batch_size: int | None = _training("Pairs of states in one update.", shown=_RECIPE, min=1)
    learning_rate: float | None = _training("Learning rate at the start.", shown=_RECIPE)
    unroll: str | None = _training("Steps of each rollout in fine-tuning: a number, 0 for none, or auto.", shown="auto")
    validation: float | None = _training("Fraction of the data held out to choose the model.", shown="0.2")
    time_limit: float | None = _training("Seconds that the fit may take.", shown="no limit")
    random_state: int | None = _training("The same number gives the same model.", shown="0", min=0)
    seed: Seed = None
    device: str = _training("cpu or cuda.", "cpu")

    def keywords(self) -> dict[str, Any]:
        """Keyword arguments of `LensForecaster` for the options that were given."""
        grid = {key: getattr(self, key) for key in ("boundary", "conserve") if getattr(self, key) is not None}
        parts = several(self.parts)
        joined = ("boundary", "conserve", "seed", "horizon")
        found = {name: value for name, value in vars(self).items() if name not in joined} | {
            "history": number("history", self.history, int, "auto"),
            "ridge": number("ridge", self.ridge, float, "auto", "none"),
            "epochs": number("epochs", self.epochs, int, "auto"),
            "unroll": None if self.unroll is None else number("unroll", self.unroll, int, "auto"),
            "field": grid or self.field,
            "parts": [parts] if isinstance(parts, str) and parts != "auto" else parts,
            "random_state": renamed("random-state", self.random_state, "seed", self.seed),
            "optical_length": renamed("optical-length", self.optical_length, "horizon", self.horizon),
        }
        if grid and self.field is False:
            raise InputError(f"--{next(iter(grid))} is about fields, so it does not go with --no-field")
        return {name: value for name, value in found.items() if value is not None or name == "ridge"}


def renamed(name: str, value: T | None, former: str, old: T | None) -> T | None:
    """The value of an option that has a former name; None where neither name is given."""
    given = [one for one in (value, old) if one is not None and one != []]
    if len(given) == 2:
        raise InputError(f"--{former} is the old name of --{name}; give one of the two")
    return given[0] if given else None


def number(what: str, text: str, kind: type[int] | type[float], *words: str) -> Any:
    """A number, or one of the words; "none" means None."""
    if text.lower() in words:
        return None if text.lower() == "none" else text.lower()
    try:
        return kind(text)
    except ValueError:
        raise InputError(f"--{what} must be a number or {' or '.join(words)}, got {text!r}") from None


def several(names: list[str] | None) -> Any:
    """None, one name, or a list of names, as readers of data expect; `--states a,b` is two names."""
    if not names:
        return None
    split = [part.strip() for name in names for part in name.split(",") if part.strip()]
    return split[0] if len(split) == 1 else split


def recipe_choices(pairs: Sequence[str] | None) -> dict[str, Any]:
    """Texts `key=value` as options of the recipe; numbers become numbers, none becomes None, `a,b` a list."""
    chosen = {}
    for pair in pairs or ():
        key, equals, text = pair.partition("=")
        if not equals or not key:
            raise InputError(f"--set must be an option and its value, as in epochs=30, got {pair!r}")
        try:
            value = json.loads("null" if text.lower() == "none" else text)
        except ValueError:
            value = several([text]) or text
        chosen[key.strip().replace("-", "_")] = value
    return chosen


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
    """Check before the work that `path` can be written and names a format of pictures; None draws no picture."""
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
    """Width of running text: that of the terminal, up to a readable maximum."""
    from lln.forecaster.summary import WIDTH

    screen = console()
    return max(40, min(screen.width, WIDTH)) if screen.is_terminal else WIDTH


def show_table(*tables: Table) -> None:
    """Print tables. A narrow terminal shrinks columns but cuts no number; in a pipe tables have their full width."""
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
        os.write(2, printable(text).encode(errors="replace") + b"\n")  # the text may be the message about it


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
    if end:  # an option of a command stays with its value
        text = re.sub(r"( --?\w[\w-]*) (?!-)", "\\1\xa0", text)
    lines = (wrapper.wrap(line) if len(line) > screen.width else [line] for line in text.split("\n"))
    return "\n".join(f"{end}\n".join(line) for line in lines).replace("\xa0", " ")


def say(sentence: str) -> None:
    """Print one sentence to standard error."""
    echo(f"lln: {sentence}", err=True)


def interrupted(sentence: str) -> NoReturn:
    """End after Ctrl-C with a sentence that says what was kept."""
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
    """Progress bars around work with a checkpoint; after Ctrl-C the command ends and says what was kept."""
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
    from lln.data.read.formats import as_dataset

    return as_dataset(paths[0] if len(paths) == 1 else list(paths), **chosen.keywords())


def read_model(path: Path) -> LensForecaster:
    """The forecaster in `path`."""
    from lln.core.safe_files import refuse_missing
    from lln.forecaster.file import load

    refuse_missing(path)
    return load(path)


def read_for(model: LensForecaster, path: Path, chosen: Selection) -> Dataset:
    """Data for a model; roles that no option sets are found by the names that the model was fitted with."""
    return model.layout_.read(path, **chosen.keywords())
