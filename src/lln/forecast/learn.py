"""Which trainer serves a dataset: the one seam between dense states and fields on a grid."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from lln.core.errors import InputError, did_you_mean
from lln.data.series import Dataset
from lln.forecast.field_recipe import FieldOptions, fit_field_surrogate
from lln.forecast.options import Fit, Recipe
from lln.forecast.recipe import fit_surrogate

# Up to here a point can afford weights of its own, and does better with them; beyond, points share theirs.
DENSE_POINTS = 128

Field = str | bool | Mapping[str, Any]


def learn(
    dataset: Dataset,
    recipe: Recipe,
    *,
    field: Field = "auto",
    static: Any = None,
    progress: Callable[[Any], None] | None = None,
    checkpoint: Path | None = None,
) -> Fit:
    """Fit a dense surrogate, or on a grid one of convolutions.

    Args:
        dataset: what to learn from.
        recipe: how.
        field: "auto" takes convolutions on grids of more than 128 points; True and False insist; a mapping insists and
            gives their options (see `FieldOptions`).
        static: fixed fields (*space, s) that field networks also see.
        progress: called with small events.
        checkpoint: a file from which a killed fit goes on.
    """
    if not on_grid(dataset, recipe, field):
        if static is not None:
            raise InputError("static fields are seen by field networks alone; fit with field=True")
        return fit_surrogate(dataset, recipe, progress=progress, checkpoint=checkpoint)
    given = dict(field) if isinstance(field, Mapping) else {}
    known = [one.name for one in fields(FieldOptions)]
    for name in given:
        if name not in known:
            raise InputError(f"field has no option {name!r}{did_you_mean(str(name), known)}")
    if static is not None:
        given["static"] = static
    return fit_field_surrogate(dataset, recipe, options=FieldOptions(**given), progress=progress, checkpoint=checkpoint)


def on_grid(dataset: Dataset, recipe: Recipe, field: Field) -> bool:
    """Whether points of a grid share their weights."""
    if field is False:
        return False
    if field == "auto":
        ours = recipe.recipe == "lens" and recipe.model == "lens"
        return bool(dataset.space) and ours and math.prod(dataset.space) > DENSE_POINTS
    if field is not True and not isinstance(field, Mapping):
        raise InputError(f'field must be "auto", True, False or a mapping of options, got {field!r}')
    if not dataset.space:
        raise InputError("field networks need states on a grid: give grid=, or an xarray object with space dimensions")
    return True
