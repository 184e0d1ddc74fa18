"""Whether an array fits into this machine, asked before it is made: a process that takes too much is killed."""

from __future__ import annotations

import math
import os
from pathlib import Path

from lln.core.errors import InputError


def available() -> int:
    """Bytes that this machine can still give, or all that it has where it does not tell."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024 * int(line.split()[1])
    except (OSError, ValueError, IndexError):
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 2**63 - 1


def afford(what: str, shape: tuple[int, ...], *, size: int = 8, copies: int = 1) -> None:
    """Refuse arrays that cannot fit into memory.

    Args:
        what: that needs them, for the message.
        shape: of one of them.
        size: bytes of a number.
        copies: how many there are at once.
    """
    need = math.prod(shape) * size * copies
    if need < 2**26:  # not worth asking
        return
    have = available()
    if need > have:
        raise InputError(
            f"{what} needs {_gibibytes(need)} of memory, and {_gibibytes(have)} are free; ask for fewer steps or "
            "starts at a time, and go on from the last state"
        )


def _gibibytes(count: int) -> str:
    return f"{count / 2**30:,.1f} GiB" if count < 2**60 else f"{count / 2**30:.1e} GiB"
