"""Small damages: to bytes, to decoded values, to text."""

from __future__ import annotations

import copy
import json
import re
import struct
from collections.abc import Sequence
from random import Random
from typing import Any

NUMBERS = (0, 1, -1, 2, 3, 7, 255, 2**15, 2**31 - 1, 2**31, 2**32, 10**12, 2**63 - 1, 2**63, 2**64, 10**30, 10**400)
REALS = (0.5, -0.0, 1e-320, 1e308, -1e308, 1e39, float("inf"), float("-inf"), float("nan"))
TEXTS = (
    "",
    " ",
    "x",
    "states",
    "time",
    "../../etc/passwd",
    "a\nb",
    "\0",
    "\ud7ff\uffff",
    "é" * 50,
    "9" * 5000,
    "nan",
    "None",
    "{}",
    "%s%n",
    "1e999",
)
ODD: tuple[Any, ...] = (
    *NUMBERS,
    *REALS,
    *TEXTS,
    None,
    True,
    False,
    [],
    {},
    [[]],
    [None],
    {"": None},
    [0] * 50,
    "[" * 3000,
)


def damaged(rng: Random, content: bytes, others: Sequence[bytes] = ()) -> bytes:
    """`content` after one to four damages; `others` are files to splice with."""
    buffer = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        rng.choice((_flip, _flip, _set, _number, _number, _cut, _drop, _repeat, _splice))(rng, buffer, others)
    return bytes(buffer)


def _place(rng: Random, buffer: bytearray) -> int:
    # Headers are at the start, so half of all damages go there.
    end = len(buffer) if rng.random() < 0.5 else min(len(buffer), 512)
    return rng.randrange(max(1, end))


def _flip(rng: Random, buffer: bytearray, _: Sequence[bytes]) -> None:
    if buffer:
        buffer[_place(rng, buffer)] ^= 1 << rng.randrange(8)


def _set(rng: Random, buffer: bytearray, _: Sequence[bytes]) -> None:
    if buffer:
        buffer[_place(rng, buffer)] = rng.choice((0, 1, 0x20, 0x2C, 0x7F, 0x80, 0xFF, rng.randrange(256)))


def _number(rng: Random, buffer: bytearray, _: Sequence[bytes]) -> None:
    """A whole number of 1, 2, 4 or 8 bytes, in either order, where one may have been."""
    code = rng.choice("BHIQ")
    packed = struct.pack(rng.choice("<>") + code, rng.choice(NUMBERS[:-2]) % (1 << 8 * struct.calcsize("=" + code)))
    at = _place(rng, buffer) // len(packed) * len(packed)
    buffer[at : at + len(packed)] = packed


def _cut(rng: Random, buffer: bytearray, _: Sequence[bytes]) -> None:
    del buffer[rng.randrange(len(buffer) + 1) :]


def _drop(rng: Random, buffer: bytearray, _: Sequence[bytes]) -> None:
    at = _place(rng, buffer)
    del buffer[at : at + rng.choice((1, 2, 8, 64))]


def _repeat(rng: Random, buffer: bytearray, _: Sequence[bytes]) -> None:
    at, length = _place(rng, buffer), rng.choice((1, 8, 64, 300))
    buffer[at:at] = buffer[at : at + length] * rng.choice((1, 2, 10))


def _splice(rng: Random, buffer: bytearray, others: Sequence[bytes]) -> None:
    other = rng.choice(others) if others else bytes(64)
    at, length = _place(rng, buffer), rng.choice((4, 16, 100, len(other)))
    begin = rng.randrange(len(other) + 1)
    buffer[at : at + length] = other[begin : begin + length]


def altered(rng: Random, value: Any, times: int = 0) -> Any:
    """A copy of a decoded value (mappings, lists, text, numbers) with one to three of its parts changed."""
    value = copy.deepcopy(value)
    for _ in range(times or rng.choice((1, 1, 2, 3))):
        value = _altered(rng, value)
    return value


def _altered(rng: Random, value: Any) -> Any:
    inside = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else []
    if inside and rng.random() < 0.85:
        key = rng.choice(inside)
        action = rng.random()
        if action < 0.1:
            del value[key]
        elif action < 0.2 and isinstance(value, dict):
            value[rng.choice((str(key) + "s", "lln", "", "__class__", rng.choice(TEXTS)))] = value.pop(key)
        elif action < 0.25 and isinstance(value, list):
            value.insert(key, copy.deepcopy(rng.choice(value)))
        elif action < 0.3:
            other = rng.choice(inside)
            value[key], value[other] = value[other], value[key]
        else:
            value[key] = _altered(rng, value[key])
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool) and rng.random() < 0.6:
        small = abs(value) < 1e6
        return rng.choice(
            (value + 1, value - 1, -value, value * 2, float(value) if small else 0, str(value), [value], 0)
        )
    if isinstance(value, str) and rng.random() < 0.4:
        return rng.choice((value[:-1], value + "x", value.upper(), [value], {value[:9]: value}, rng.choice(TEXTS)))
    return copy.deepcopy(rng.choice(ODD))


def as_json(value: Any) -> str:
    """JSON that also holds what JSON does not know: NaN, infinities, numbers beyond every type."""
    return json.dumps(value, skipkeys=True, default=str)


def retyped(rng: Random, text: str) -> str:
    """Text with one of its numbers, or one of its words, replaced."""
    found = list(re.finditer(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|\w+", text[:4000]))
    if not found:
        return text + rng.choice(TEXTS)
    spot = rng.choice(found)
    new = rng.choice((*map(str, NUMBERS[:-1]), *map(str, REALS), *TEXTS, spot.group() * 2, ""))
    return text[: spot.start()] + new + text[spot.end() :]
