"""Pieces of C: arrays of numbers, and names for comments and identifiers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from textwrap import wrap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lln.core.errors import InputError

WIDTH = 110
PRECISIONS = ("float", "double")
_RESERVED = """
    auto break case char const continue default do double else enum extern float for goto if inline int long main real
    register restrict return short signed sizeof static struct switch typedef union unsigned void volatile while
"""


def identifier(name: str) -> str:
    """`name` if C takes it as the stem of files, types and functions."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,62}", name) or name.lower() in _RESERVED.split():
        raise InputError(
            f"name {name!r} cannot be a C identifier; give letters, digits and underscores that start with a letter"
        )
    return name


def comment_words(names: Sequence[str]) -> str:
    """Names from a data file for use inside a comment: whatever could end the comment is left out."""
    kept = [re.sub(r"[^\w .,()\[\]+-]", "_", name, flags=re.ASCII)[:40] for name in names[:64]]
    return ", ".join(kept) + (", ..." if len(names) > 64 else "")


def literal(value: float, precision: str) -> str:
    """A number that a C compiler reads back to the same bits."""
    if precision == "double":
        return repr(float(value))
    return f"{np.float32(value)!s}f"


def table(name: str, values: NDArray[Any], precision: str, why: str) -> str:
    """`values` as a constant array of float, double or int with a comment above it."""
    rounded = values.astype({"float": np.float32, "double": np.float64, "int": np.int64}[precision])
    if not np.isfinite(rounded).all():
        raise InputError(f"{name} holds values that are not finite in {precision}; a diverged model has no export")
    sizes = "".join(f"[{size}]" for size in values.shape)
    return f"/* {why} */\nstatic const {precision} {name}{sizes} = {_braces(rounded)};\n"


def _braces(values: NDArray[Any], indent: str = "") -> str:
    if values.ndim == 1:
        suffix = "f" if values.dtype == np.float32 else ""
        text = ", ".join(f"{value!s}{suffix}" for value in (values if suffix else values.tolist()))
        if len(text) + len(indent) < WIDTH:
            return f"{{{text}}}"
        lines = wrap(text, WIDTH - len(indent), break_long_words=False, break_on_hyphens=False)
        return "{\n" + "\n".join(f"{indent}    {line}" for line in lines) + f"\n{indent}}}"
    inner = ",\n".join(f"{indent}    {_braces(row, indent + '    ')}" for row in values)
    return f"{{\n{inner}\n{indent}}}"
