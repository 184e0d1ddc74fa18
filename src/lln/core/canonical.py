"""Plain data as canonical JSON, its digest, and lines with a checksum.

Canonical means: keys sorted, no spaces, ASCII only, floats as Python's shortest exact text. JSON has no infinity, so a
number that is not finite is written as the text "inf", "-inf" or "nan", and `number` reads it back.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

from lln.core.errors import InputError

SUM = "sum"
_NOT_FINITE = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


def canonical(value: Any) -> str:
    """`value` (plain data: mappings, sequences, text, numbers, None) as canonical JSON.

    >>> canonical({"b": [1.5, float("inf")], "a": None})
    '{"a":null,"b":[1.5,"inf"]}'
    """
    return json.dumps(plain(value), sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=True)


def sealed_line(content: Mapping[str, Any]) -> str:
    """`content` as one line of canonical JSON with a checksum, and its newline."""
    return canonical({**content, SUM: digest(content)}) + "\n"


def opened_line(line: str, keys: Iterable[str]) -> dict[str, Any]:
    """What `sealed_line` wrote; InputError if the line is torn, damaged, or holds other than `keys`."""
    try:
        content = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"not one JSON document ({error})") from None
    if not isinstance(content, dict):
        raise InputError("not a record: expected a JSON object")
    stored = content.pop(SUM, None)
    strangers = sorted(set(content) - set(keys))
    if strangers:
        raise InputError(f"it holds {strangers[0]!r}, which no such line does")
    if stored is not None and stored != digest(content):
        raise InputError("its checksum is not that of its content, so it was damaged")
    return content


def plain(value: Any) -> Any:
    """`value` with tuples as lists and numbers that are not finite as text."""
    if isinstance(value, Mapping):
        strangers = [key for key in value if not isinstance(key, str)]
        if strangers:
            raise InputError(f"a record's keys must be text, got {strangers[0]!r}")
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise InputError(f"a record holds plain data only, got {type(value).__name__}; convert it first")


def number(value: Any) -> float:
    """A number of a record as a float, also one that is not finite.

    >>> number("inf"), number(2)
    (inf, 2.0)
    """
    if isinstance(value, str) and value in _NOT_FINITE:
        return _NOT_FINITE[value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"expected a number or one of 'inf', '-inf', 'nan', got {value!r}")
    try:
        return float(value)
    except OverflowError:
        raise InputError("expected a number, got an integer too large for a float") from None


def numbers(values: Iterable[Any]) -> list[float]:
    """`number` of each value."""
    return [number(value) for value in values]


def digest(spec: Mapping[str, Any]) -> str:
    """The identity of a run: 32 hexadecimal digits of the SHA-256 of its canonical specification.

    >>> digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    True
    """
    return hashlib.sha256(canonical(spec).encode()).hexdigest()[:32]
