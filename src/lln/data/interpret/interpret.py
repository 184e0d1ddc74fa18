"""The one place where data become a `Dataset`: arrays, tables, files and xarray objects alike."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from lln.data.interpret.arrays import Arrays, describe_arrays
from lln.data.interpret.description import Choices, Description, examined, refuse_swapped
from lln.data.interpret.even_steps import even_steps, join
from lln.data.interpret.tables import describe_table
from lln.data.interpret.variables import describe_store, groups
from lln.data.read.store import ReadTable, Store
from lln.data.series import Dataset

SAME_STEP = 1e-6  # relative difference between the step of rounded times and the step that a file states
# What a description says of a dataset under the same name.
SHARED = {one.name for one in fields(Dataset)} & {one.name for one in fields(Description)} - {"dt"}


def interpret(given: Store | ReadTable | Arrays, choices: Choices) -> Dataset:
    """Make a dataset of what a reader returned (variables, a table) or the caller holds (arrays).

    The roles of variables, columns and axes are found first (`describe_*`); then times are brought to one even step,
    and the columns are examined.
    """
    if isinstance(given, Store):
        parts = groups(given, choices)
        if parts:
            return join([interpret(part, choices) for part in parts], given.source)
        found = describe_store(given, choices)
    elif isinstance(given, ReadTable):
        found = describe_table(given, choices)
    else:
        found = describe_arrays(given, choices)
    untimed = all(one.times is None for one in found.parts)
    dt = found.dt if choices.dt is None and untimed else choices.dt
    series, step, found = even_steps(found, dt, choices.resample)
    if found.dt is not None and abs(found.dt - step) <= SAME_STEP * step:
        step = found.dt  # the times of a file are rounded; the step that was written beside them is not
    first = series[0].states if series else None
    if found.turnable and isinstance(first, np.ndarray):
        refuse_swapped(first, found.source)
    known = {name: getattr(found, name) for name in SHARED} | ({"names": tuple(choices.names)} if choices.names else {})
    return examined(Dataset(series, step, **known))
