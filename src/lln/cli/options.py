"""Arguments and options that several commands take, each with one meaning, one help text and one completion."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

MODEL_SUFFIX = ".lln"


def preset_names(incomplete: str) -> Iterator[str]:
    """Presets that begin as typed, for the shell."""
    from lln.systems import EVERY_PRESET

    yield from (name for name in EVERY_PRESET if name.startswith(incomplete.lower()))


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


DataFiles = Annotated[
    list[Path], typer.Argument(help="Trajectories: .npz .npy .csv .h5 .nc .zarr; several files, several trajectories.")
]
DataFile = Annotated[Path, typer.Argument(help="Trajectories: .npz .npy .csv .h5 .nc .zarr.")]
ModelFile = Annotated[
    Path, typer.Argument(help=f"A model that `lln fit` wrote ({MODEL_SUFFIX}).", autocompletion=model_files)
]
_READING = "Reading the data"
TimeName = Annotated[
    str | None,
    typer.Option(
        "--time",
        help="Which array, variable or column is the time; of arrays alone, which axis (0 or 1).",
        rich_help_panel=_READING,
    ),
]
StateNames = Annotated[
    list[str] | None,
    typer.Option(
        "--states",
        help="Which array, variables or columns are the states: a,b or several times.",
        rich_help_panel=_READING,
    ),
]
TrajectoryName = Annotated[
    str | None,
    typer.Option("--trajectory", help="Which dimension or column tells trajectories apart.", rich_help_panel=_READING),
]
InputNames = Annotated[
    list[str] | None,
    typer.Option(
        "--inputs",
        help="Which array, variables or columns are known forcing: a,b or several times.",
        rich_help_panel=_READING,
    ),
]
StepLength = Annotated[
    float | None,
    typer.Option("--dt", help="Time between rows, where the data has no time.", rich_help_panel=_READING),
]
Resample = Annotated[
    bool,
    typer.Option(
        "--resample", help="Interpolate unevenly sampled data to equal steps of time.", rich_help_panel=_READING
    ),
]
Choices = Annotated[
    list[str] | None,
    typer.Option("--set", help="A choice of the recipe, as in epochs=30; may be given several times."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document in place of text.")]


def several(names: list[str] | None) -> Any:
    """What the reader of data expects: None, one name, or a list; `--states a,b` is two names."""
    if not names:
        return None
    split = [part.strip() for name in names for part in name.split(",") if part.strip()]
    return split[0] if len(split) == 1 else split
