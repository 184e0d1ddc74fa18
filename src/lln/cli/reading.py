"""Data and models from the files that a command was given."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lln.cli.options import Selection

if TYPE_CHECKING:
    from lln.data.dataset import Dataset
    from lln.forecaster.forecaster import LensForecaster


def read_data(paths: Sequence[Path], chosen: Selection) -> Dataset:
    """The trajectories of all files as one dataset."""
    from lln.data.dataset import as_dataset

    return as_dataset(paths[0] if len(paths) == 1 else list(paths), **chosen.words())


def read_model(path: Path) -> LensForecaster:
    """The forecaster in `path`."""
    from lln.data.read.formats import refuse_missing
    from lln.forecaster.model_file import load

    refuse_missing(path)
    return load(path)


def read_for(model: LensForecaster, path: Path, chosen: Selection) -> Dataset:
    """Data for a model: what the options leave open is looked for under the names that the model was fitted with."""
    return model.layout_.read(path, **chosen.words())


def recipe_choices(pairs: Sequence[str] | None) -> dict[str, Any]:
    """`key=value` words as choices of the recipe; numbers become numbers, none becomes None."""
    import json

    from lln.core.errors import InputError

    chosen = {}
    for pair in pairs or ():
        key, equals, text = pair.partition("=")
        if not equals or not key:
            raise InputError(f"--set must be a choice and its value, as in epochs=30, got {pair!r}")
        try:
            value = json.loads("null" if text.lower() == "none" else text)
        except ValueError:
            value = text
        chosen[key.strip().replace("-", "_")] = value
    return chosen
