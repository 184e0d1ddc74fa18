"""Checks of numbers and shapes, each with one sentence that says what was expected.

One alphabet for shapes everywhere: B batch, S ensemble members, n state, h width, D depth, K basis.
"""

from __future__ import annotations

import operator
import sys
from typing import SupportsFloat, SupportsIndex

from lln.core.errors import InputError

_DEVICES = ("cpu", "cuda", "mps", "xpu")


def check_int(what: str, value: SupportsIndex, least: int) -> int:
    """`value` as an integer of at least `least`; True, 2.0 and "2" are not integers."""
    if isinstance(value, bool):
        raise InputError(f"{what} must be an integer of at least {least}, got {value!r}")
    try:
        number = operator.index(value)
    except TypeError:
        raise InputError(f"{what} must be an integer of at least {least}, got {value!r}") from None
    if number < least:
        raise InputError(f"{what} must be an integer of at least {least}, got {number}")
    return number


def finite(what: str, value: SupportsFloat) -> float:
    """`value` as a finite float."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise InputError(f"{what} must be a finite number, got {value!r}") from None
    if not abs(number) <= sys.float_info.max:  # math.isfinite cannot be traced by torch.compile
        raise InputError(f"{what} must be a finite number, got {number}")
    return number


def positive(what: str, value: SupportsFloat) -> float:
    """`value` as a finite float above zero."""
    number = finite(what, value)
    if number <= 0:
        raise InputError(f"{what} must be above zero, got {number}")
    return number


def interval(what: str, value: tuple[float, float]) -> tuple[float, float]:
    """`value` as (low, high) with low < high, both finite."""
    try:
        low, high = value
    except (TypeError, ValueError):
        raise InputError(f"{what} must be a pair (low, high), got {value!r}") from None
    low, high = finite(f"{what}[0]", low), finite(f"{what}[1]", high)
    if low >= high:
        raise InputError(f"{what} must be (low, high) with low < high, got ({low}, {high})")
    return low, high


def check_device(value: str) -> str:
    """`value` as the name of a device that can hold networks: "cpu", "cuda", "cuda:1", ..."""
    kind, colon, index = str(value).partition(":")
    if kind not in _DEVICES or (colon and not (index.isascii() and index.isdigit())):
        raise InputError(f"device must be one of {', '.join(_DEVICES)}, with an index as in cuda:1, got {value!r}")
    return str(value)
