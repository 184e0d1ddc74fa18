"""Arguments and options of the commands, each with one meaning.

Options that belong together are fields of a dataclass. A command takes the dataclass as one parameter, and
`lln.cli.app` makes an option of each field.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from lln.core.errors import InputError

MODEL_SUFFIX = ".lln"

T = TypeVar("T")


def preset_names(incomplete: str) -> Iterator[str]:
    """Presets that begin as typed, for the shell."""
    from lln.systems import SYSTEMS

    yield from (name for name in SYSTEMS if name.startswith(incomplete.lower()))


def model_files(incomplete: str) -> Iterator[str]:
    """Model files and folders that begin as typed, for the shell."""
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
Threshold = Annotated[float, typer.Option(help="Normalised RMSE of a state up to which a prediction counts as valid.")]
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
        shown: words for a default that the command finds itself.
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
    states: list[str] | None = _reading("The array, variables or columns of the state: a,b or several times.")
    trajectory: str | None = _reading("The dimension or column that tells trajectories apart.")
    inputs: list[str] | None = _reading("The array, variables or columns of known inputs: a,b or several times.")
    dt: float | None = _reading("Time between rows, where the data has no time.")
    resample: bool = switch("Interpolate unevenly sampled data to equal time steps.", "--resample", panel=_READING)

    def words(self) -> dict[str, Any]:
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
    members: int | None = _network("Networks in the ensemble.", shown="3, of fields 2, of recipe paper 1", min=1)
    parts: list[str] | None = _network("Closed-form and learned parts to try, as in linear,lens.", shown="all")
    field: bool | None = _network("Whether all grid points share weights.", shown="whichever is better")
    boundary: str | None = _network("Boundary condition of a field, as in periodic.", shown="detected in the data")
    conserve: str | None = _network("What a field conserves: none, mean or flux.", shown="detected in the data")
    epochs: str = _training("Passes over the data: a number or auto.", "auto")
    batch_size: int | None = _training("Pairs of states in one update.", shown=_RECIPE, min=1)
    learning_rate: float | None = _training("Learning rate at the start.", shown=_RECIPE)
    unroll: str | None = _training("Steps of each rollout in fine-tuning: a number, 0 for none, or auto.", shown="auto")
    validation: float | None = _training("Fraction of the data held out to choose the model.", shown="0.2")
    time_limit: float | None = _training("Seconds that the fit may take.", shown="none")
    random_state: int | None = _training("The same number gives the same model.", shown="0", min=0)
    seed: Seed = None
    device: str = _training("cpu or cuda.", "cpu")

    def words(self) -> dict[str, Any]:
        """Keyword arguments of `LensForecaster`; what was left open is left out."""
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
    """`key=value` words as choices of the recipe; numbers become numbers, none becomes None, `a,b` a list."""
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
