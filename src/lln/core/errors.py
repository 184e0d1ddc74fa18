"""One family of errors, so that a caller and the command line can tell bad input from a bug."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from lln.core.text import printable

LONGEST = 2000  # characters of a message


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
