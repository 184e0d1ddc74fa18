"""What readers return: a lazy description of named variables with axes and attributes, or a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lln.core.errors import InputError, reason

CLAIMED_RATIO = 2000  # largest ratio of claimed to stored bytes that is believed
CLAIMED_ALWAYS = 1 << 24  # bytes that any file may claim


@dataclass(frozen=True, eq=False)
class Variable:
    """An array in a file.

    Attributes:
        array: object with shape, dtype and slicing.
        dims: names of its axes, None where the file does not name them.
        attrs: attributes, such as units.
        coordinate: True for a variable that only locates the others.
    """

    array: Any
    dims: tuple[str, ...] | None = None
    attrs: Mapping[str, Any] = field(default_factory=dict)
    coordinate: bool = False

    @property
    def numeric(self) -> bool:
        """Whether it holds real numbers."""
        return np.dtype(self.array.dtype).kind in "fiu"


@dataclass(frozen=True, eq=False)
class Store:
    """The variables of one file or xarray object, by name.

    Attributes:
        source: name for messages.
        variables: by name.
        attrs: attributes of the file.
        reopen: function that opens the file again and returns its arrays by name, for rows that are read later.
        notes: sentences for the user.
    """

    source: str
    variables: Mapping[str, Variable]
    attrs: Mapping[str, Any]
    reopen: Callable[[], Mapping[str, Any]]
    notes: tuple[str, ...] = ()

    def read(self, name: str) -> NDArray[Any]:
        """Read a variable completely."""
        try:
            return np.asarray(self.variables[name].array[...])
        except Exception as error:  # each library raises its own errors for a damaged chunk
            raise InputError(
                f"{self.source}: variable {name!r} cannot be read ({reason(error)}); the file was cut short or "
                "is damaged"
            ) from error


@dataclass(frozen=True, eq=False)
class Table:
    """A table before its columns have roles.

    Attributes:
        frame: a DataFrame, or a Series of pandas.
        source: name for messages.
        headed: whether the columns have names of their own.
        first_row: number of the first row in messages.
        row_numbers: name of a column that only counts the rows.
        notes: sentences for the user.
    """

    frame: Any
    source: str = "frame"
    headed: bool = True
    first_row: int = 0
    row_numbers: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Held:
    """Arrays in memory or open arrays of the caller, by name; the `reopen` of a store that needs none."""

    arrays: Mapping[str, Any]

    def __call__(self) -> Mapping[str, Any]:
        """Return the arrays."""
        return self.arrays


def held(source: str, arrays: Mapping[str, NDArray[Any]]) -> Store:
    """Make a store of arrays in memory."""
    return Store(source, {name: Variable(array) for name, array in arrays.items()}, {}, Held(arrays))


def xarray_store(data: Any, source: str, reopen: Callable[[], Mapping[str, Any]] | None = None) -> Store:
    """Make a store of an xarray.Dataset; arrays of Dask stay lazy."""
    variables = {
        str(name): Variable(one, tuple(map(str, one.dims)), dict(one.attrs), name in data.coords)
        for name, one in data.variables.items()
    }
    return Store(source, variables, dict(data.attrs), reopen or Held(dict(data.variables)))


def size_of(shape: Sequence[int], dtype: Any) -> int:
    """Count the bytes of an array as a Python integer, which a shape from a damaged header cannot overflow."""
    return math.prod(int(length) for length in shape) * int(np.dtype(dtype).itemsize)


def check_claimed_size(arrays: Mapping[str, Any], stored: int, source: str) -> None:
    """Refuse shapes that a file of `stored` bytes cannot fill: reading them would take unlimited time and memory."""
    for name, array in arrays.items():
        if np.dtype(array.dtype).hasobject:
            continue
        if size_of(array.shape, array.dtype) > CLAIMED_RATIO * stored + CLAIMED_ALWAYS:
            raise InputError(
                f"{source}: array {name!r} claims the shape {tuple(array.shape)}, which a file of {stored:,} bytes "
                "cannot hold; it is damaged or was never filled, so write it again"
            )
