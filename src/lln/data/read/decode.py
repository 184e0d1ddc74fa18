"""Decoding of CF attributes by xarray: fill values, scale factors, offsets and unsigned integers."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lln.core.errors import InputError, reason

SCALES, FILLS = ("scale_factor", "add_offset"), ("_FillValue", "missing_value")
CODED = (*SCALES, *FILLS, "_Unsigned")


@cache
def _file_array() -> Any:
    """The adapter from an h5py or Zarr array to xarray's lazy indexing; xarray is imported where it is needed."""
    from xarray.backends import BackendArray
    from xarray.core import indexing

    class FileArray(BackendArray):
        def __init__(self, array: Any) -> None:
            self.array, self.shape, self.dtype = array, tuple(array.shape), np.dtype(array.dtype)

        def __getitem__(self, key: Any) -> Any:
            basic = indexing.IndexingSupport.BASIC
            return indexing.explicit_indexing_adapter(key, self.shape, basic, lambda one: np.asarray(self.array[one]))

    return lambda array: indexing.LazilyIndexedArray(FileArray(array))


def decode(name: str, array: Any, attrs: Mapping[str, Any], source: str) -> Any:
    """Return `array` as its CF attributes define it, lazily; `array` itself if it has none.

    Times stay numbers in the units of the file.
    """
    coded = {key: attrs[key] for key in CODED if key in attrs}
    if not coded or np.dtype(array.dtype).kind not in "fiu":
        return array
    import xarray

    try:
        dims = tuple(f"axis{i}" for i in range(len(array.shape)))
        given = xarray.Variable(dims, _file_array()(array), _checked(array.dtype, coded))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return xarray.conventions.decode_cf_variable(name, given, decode_times=False, decode_timedelta=False)
    except (TypeError, ValueError, ArithmeticError) as error:
        raise InputError(
            f"{source}: the attributes {', '.join(coded)} of {name!r} cannot be applied ({reason(error)}); correct or "
            "remove them"
        ) from error


def _checked(kind: Any, attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Bring the attributes to the types that CF asks for: one number for a scale, stored values for fills."""
    unsigned = str(plain(attrs.get("_Unsigned", ""))).lower() == "true"
    found: dict[str, Any] = {"_Unsigned": "true"} if unsigned else {}
    for key, value in attrs.items():
        numbers = _numbers(value)
        if key in SCALES and numbers is not None and numbers.size:
            if numbers.size != 1:
                raise ValueError(f"{key} holds {numbers.size} numbers")
            found[key] = float(numbers[0])
        elif key in SCALES and numbers is None:
            raise ValueError(f"{key} is {str(plain(value))[:40]!r}, not a number")
        elif key in FILLS and numbers is not None:
            fills = _stored(numbers, np.dtype(kind), unsigned)
            if fills.size:
                found[key] = fills if fills.size > 1 else fills[0]
    return found


def _numbers(value: Any) -> NDArray[Any] | None:
    """An attribute as real numbers, also those written as text; None if it holds none."""
    array = np.atleast_1d(np.asarray(value)).reshape(-1)
    if array.dtype.kind in "OSU":
        try:
            array = np.array([float(plain(one)) for one in array.tolist()])
        except (TypeError, ValueError):
            return None
    return array if array.dtype.kind in "fiu" else array.astype(int) if array.dtype.kind == "b" else None


def _stored(values: NDArray[Any], kind: np.dtype[Any], unsigned: bool) -> NDArray[Any]:
    """Those values that an array of this type can hold, as that type."""
    if kind.kind == "f":
        with np.errstate(over="ignore"):
            cast = values.astype(kind)
        return np.asarray(cast[np.isfinite(cast)])
    limits = np.iinfo(kind)
    most = int(np.iinfo(f"u{kind.itemsize}").max) if unsigned else int(limits.max)
    exact = [int(one) for one in values.tolist() if np.isfinite(one) and int(one) == one]
    bits = [one % 2 ** (8 * kind.itemsize) for one in exact if limits.min <= one <= most]
    return np.array(bits, dtype=f"u{kind.itemsize}").view(kind.newbyteorder("="))


def plain(value: Any) -> Any:
    """Convert bytes to text; leave other values."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value
