"""One family of errors, and checks of numbers, shapes and free memory that raise them.

One alphabet for shapes everywhere: B batch, S ensemble members, n state, h width, D depth, K basis.
"""

from __future__ import annotations

import difflib
import errno
import math
import operator
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import SupportsFloat, SupportsIndex

LONGEST = 2000  # characters of a message
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# Phrases for a lack of memory of torch, ONNX Runtime, C++, the thread library, the dynamic loader and the interpreter.
_NO_MEMORY = (
    *("allocate memory", "not enough memory", "out of memory", "bad_alloc", "bad allocation"),
    *("can't start new thread", "failed to map segment", "without setting an exception", "without exception set"),
)


class InputError(ValueError):
    """The caller's input is wrong; the message says what, where, what was expected and what to do.

    Args:
        message: one sentence.
        topic: the part of the page on errors that says more, which `lln explain` prints; a traceback names it too.
    """

    def __init__(self, message: str, *, topic: str = "") -> None:
        # One line without control characters, whatever names of a hostile file are in it.
        plain = printable(message).replace("\n", "\\n")
        super().__init__(plain if len(plain) <= LONGEST else f"{plain[: LONGEST // 2]} ... {plain[-LONGEST // 2 :]}")
        self.topic = topic
        if topic:
            self.add_note(f"more: lln explain {topic}")


class RenamedWarning(FutureWarning):
    """An old name was used: it works, and the message says the new one."""


def printable(text: str) -> str:
    """`text` with control characters written as escapes, so that it cannot steer a terminal; line breaks stay."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one == "\n" else ascii(one)[1:-1] for one in text)


def reason(error: BaseException) -> str:
    """The first line of a library's error, for one of our messages, or its type if it has no text."""
    said = (str(error).splitlines() or [""])[0].strip()
    return (said if len(said) <= 200 else f"{said[:200]}...") or type(error).__name__


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The valid names, the nearest one first: ``"; did you mean 'lorenz-28'? known: ..."``."""
    known = list(known)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    near = near or [one for one in known if one.lower() == name.lower()]
    listing = ", ".join(repr(k) for k in known)
    return f"; did you mean {near[0]!r}? (known: {listing})" if near else f"; expected one of {listing}"


def choice(what: str, value: str, known: Iterable[str]) -> str:
    """Return `value` if it is one of `known`, else raise InputError with the known names."""
    known = list(known)
    if value in known:
        return value
    raise InputError(f"unknown {what} {value!r}{did_you_mean(str(value), known)}", topic="unknown-name")


def out_of_memory(error: BaseException) -> str | None:
    """The line by which an error, or one that it was raised from, reports a lack of memory; None if none does."""
    for one in _chain(error):
        lines = str(one).splitlines()
        if (line := next((line for line in lines if any(words in line for words in _NO_MEMORY)), None)) is not None:
            return line.strip()
        if isinstance(one, MemoryError):
            return (lines or [""])[0].strip()
    return None


def ask_for_memory(size: int = 1 << 24) -> None:
    """Raise MemoryError now if so many bytes are not free: a library that lacks them later may abort or hang."""
    bytearray(size)


def failure(error: Exception) -> str | None:
    """One sentence about what the machine could not do: memory, disk, file system. None for other errors."""
    line = out_of_memory(error)
    if line is not None:
        said = f" ({line})" if line else ""
        return f"out of memory{said}; close other programs, use less data or smaller sizes, or use a larger machine"
    if not isinstance(error, OSError):
        return None
    if error.errno in _FULL:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}; make room, and run the same command again"
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error and those that it was raised from, each once."""
    seen: list[BaseException] = []
    following: BaseException | None = error
    while following is not None and following not in seen:
        seen.append(following)
        yield following
        following = following.__cause__ or following.__context__


_DEVICES = ("cpu", "cuda", "mps", "xpu")
SMALL = 2**26  # bytes that are too few to be checked
_UNLIMITED = 2**63 - 1
_CGROUPS = Path("/sys/fs/cgroup")
# Folder, files of the limit and of what is used, and what the system gives back when asked, among the statistics.
_CGROUP_V2 = ("", "memory.max", "memory.current", "inactive_file")
_CGROUP_V1 = ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


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
    """Refuse `copies` arrays of `shape`, with `size` bytes a number, that do not fit into memory together.

    The message names the work that needs them, `what`, and ends with the `remedy`.
    """
    need = math.prod(shape) * size * copies
    if need >= SMALL and need > (have := available()):
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
        if controllers and "memory" not in controllers.split(","):
            continue
        root, *files = _CGROUP_V1 if controllers else _CGROUP_V2
        path = Path(name.lstrip("/"))
        left = min(left, *(_left_of(_CGROUPS / root / folder, *files) for folder in (path, *path.parents)))
    return left


def _left_of(folder: Path, limit: str, used: str, cache: str) -> int:
    try:
        most, now = int((folder / limit).read_text()), int((folder / used).read_text())
        words = [line.split() for line in (folder / "memory.stat").read_text().splitlines()]
    except (OSError, ValueError):  # "max" means no limit
        return _UNLIMITED
    return max(most - now + sum(int(count) for name, count in words if name == cache), 0)


def _gibibytes(count: int) -> str:
    return f"{count / 2**30:,.1f} GiB" if count < 2**60 else f"{count / 2**30:.1e} GiB"
