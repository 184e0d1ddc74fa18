"""Checks of numbers, shapes and free memory, each with one sentence that says what was expected.

One alphabet for shapes everywhere: B batch, S ensemble members, n state, h width, D depth, K basis.
"""

from __future__ import annotations

import math
import operator
import os
import sys
from pathlib import Path
from typing import SupportsFloat, SupportsIndex

from lln.core.errors import InputError

_DEVICES = ("cpu", "cuda", "mps", "xpu")
SMALL = 2**26  # bytes that are too few to be checked
_UNLIMITED = 2**63 - 1
_CGROUPS = Path("/sys/fs/cgroup")


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


def available() -> int:
    """Bytes that this process can still use: free memory of the machine, and what the limit of its cgroup leaves."""
    return min(_free_memory(), _left_of_cgroup())


def check_memory(
    what: str,
    shape: tuple[int, ...],
    *,
    size: int = 8,
    copies: int = 1,
    remedy: str = "ask for fewer steps or starts at a time, and continue from the last state",
) -> None:
    """Refuse arrays that do not fit into memory.

    Args:
        what: the work that needs them, for the message.
        shape: shape of one array.
        size: bytes of a number.
        copies: number of such arrays at the same time.
        remedy: advice at the end of the message.
    """
    need = math.prod(shape) * size * copies
    if need < SMALL:
        return
    have = available()
    if need > have:
        raise InputError(f"{what} needs {_gibibytes(need)} of memory, and {_gibibytes(have)} are free; {remedy}")


def _free_memory() -> int:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024 * int(line.split()[1])
    except (OSError, ValueError, IndexError):
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return _UNLIMITED


def _left_of_cgroup() -> int:
    """What the memory limits of this process's cgroup and of those above it leave, version 2 or 1."""
    try:
        lines = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    except OSError:
        return _UNLIMITED
    left = _UNLIMITED
    for _, controllers, name in (line for line in lines if len(line) == 3):
        if controllers == "":
            root, limit, used, cache = _CGROUPS, "memory.max", "memory.current", "inactive_file"
        elif "memory" in controllers.split(","):
            root, limit, used, cache = (
                _CGROUPS / "memory",
                "memory.limit_in_bytes",
                "memory.usage_in_bytes",
                "total_inactive_file",
            )
        else:
            continue
        path = Path(name.lstrip("/"))
        for folder in (root / path, *(root / parent for parent in path.parents)):
            left = min(left, _left_of(folder, limit, used, cache))
    return left


def _left_of(folder: Path, limit: str, used: str, cache: str) -> int:
    try:
        most, now = int((folder / limit).read_text()), int((folder / used).read_text())
        words = [line.split() for line in (folder / "memory.stat").read_text().splitlines()]
    except (OSError, ValueError):  # "max" means no limit
        return _UNLIMITED
    freed = sum(int(count) for name, count in words if name == cache)  # the system gives it back when asked
    return max(most - now + freed, 0)


def _gibibytes(count: int) -> str:
    return f"{count / 2**30:,.1f} GiB" if count < 2**60 else f"{count / 2**30:.1e} GiB"
