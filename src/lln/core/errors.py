"""One family of errors, so that a caller and the command line can tell bad input from a bug."""

from __future__ import annotations

import difflib
import errno
from collections.abc import Iterable, Iterator

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
        super().__init__(_one_line(message))
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


def _one_line(message: str) -> str:
    """`message` as one line without control characters, whatever names of a hostile file are in it."""
    plain = printable(message).replace("\n", "\\n")
    return plain if len(plain) <= LONGEST else f"{plain[: LONGEST // 2]} ... {plain[-LONGEST // 2 :]}"


def reason(error: BaseException) -> str:
    """What a library said, for a message of ours: the first line of it, or its kind where it said nothing."""
    said = (str(error).splitlines() or [""])[0].strip()
    return (said if len(said) <= 200 else f"{said[:200]}...") or type(error).__name__


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The valid names, the nearest one first: ``"; did you mean 'lorenz-28'? known: ..."``."""
    known = list(known)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    listing = ", ".join(repr(k) for k in known)
    return f"; did you mean {near[0]!r}? (known: {listing})" if near else f"; expected one of {listing}"


def choice(what: str, value: str, known: Iterable[str]) -> str:
    """Return `value` if it is one of `known`, else say which names there are."""
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
