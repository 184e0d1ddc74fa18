"""One family of errors, so that a caller and the command line can tell bad input from a bug."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """The caller's input is wrong; the message says what, where, what was expected and what to do."""


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
    raise InputError(f"unknown {what} {value!r}{did_you_mean(str(value), known)}")
