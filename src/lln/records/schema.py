"""One finished run as one line of canonical JSON, known by the digest of its complete specification.

Canonical means: keys sorted, no spaces, ASCII only, floats as Python's shortest exact text. JSON has no infinity, so a
number that is not finite is written as the text "inf", "-inf" or "nan", and `number` reads it back. Nothing that
differs between two equal runs (times, machine, versions) is in a record; that is kept apart, as a `Timing`. Every line
ends with a checksum of its content, so that a damaged digit is no result; lines from before there were checksums are
read as they are.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lln.core.errors import InputError

DONE, FAILED = "done", "failed"
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
    told = content.pop(SUM, None)
    strangers = sorted(set(content) - set(keys))
    if strangers:
        raise InputError(f"it holds {strangers[0]!r}, which no such line does")
    if told is not None and told != digest(content):
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
        raise InputError("expected a number, got a whole number beyond every float") from None


def numbers(values: Iterable[Any]) -> list[float]:
    """`number` of each value."""
    return [number(value) for value in values]


def digest(spec: Mapping[str, Any]) -> str:
    """The identity of a run: 32 hexadecimal digits of the SHA-256 of its canonical specification.

    >>> digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    True
    """
    return hashlib.sha256(canonical(spec).encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Record:
    """What one run left behind.

    Attributes:
        spec: everything that determines the run, as plain data; `spec["kind"]` says which sort of run it is.
        result: its numbers, by name; empty if it failed.
        status: "done", also if a rollout diverged (that is a result), or "failed" if the run crashed.
        error: the crash in words; None if it is done.
    """

    spec: Mapping[str, Any]
    result: Mapping[str, Any] = field(default_factory=dict)
    status: str = DONE
    error: str | None = None

    @property
    def digest(self) -> str:
        """The identity of the run."""
        return digest(self.spec)

    @property
    def kind(self) -> str:
        """Which sort of run it is."""
        return str(self.spec["kind"])

    @property
    def done(self) -> bool:
        """Whether it has a result."""
        return self.status == DONE

    def line(self) -> str:
        """The record as one line of canonical JSON, with its newline."""
        content: dict[str, Any] = {"digest": self.digest, "spec": self.spec, "status": self.status}
        content |= {"error": self.error} if self.status == FAILED else {"result": self.result}
        return sealed_line(content)

    @classmethod
    def parse(cls, line: str) -> Record:
        """The record of one line; InputError if it is torn, damaged, or of another specification than it says."""
        content = opened_line(line, ("digest", "spec", "status", "result", "error"))
        if not isinstance(content.get("spec"), dict):
            raise InputError("not a record: a record is an object with digest, spec, status and result or error")
        if content.get("status") not in (DONE, FAILED) or "kind" not in content["spec"]:
            raise InputError("not a record: its status must be 'done' or 'failed' and its spec must name its kind")
        record = cls(content["spec"], content.get("result", {}), content["status"], content.get("error"))
        if content.get("digest") != record.digest:
            raise InputError(f"the digest {content.get('digest')!r} is not that of its specification, {record.digest}")
        return record


@dataclass(frozen=True)
class Timing:
    """When, where and how long a run took; kept apart from its record.

    Attributes:
        digest: of the run.
        seconds: wall time in its worker.
        provenance: date, machine, versions, commit.
    """

    digest: str
    seconds: float
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def line(self) -> str:
        """The timing as one line of canonical JSON, with its newline."""
        return sealed_line({"digest": self.digest, "seconds": self.seconds, "provenance": self.provenance})

    @classmethod
    def parse(cls, line: str) -> Timing:
        """The timing of one line."""
        try:
            content = opened_line(line, ("digest", "seconds", "provenance"))
            told, seconds, made = content["digest"], number(content["seconds"]), content["provenance"]
            if not isinstance(told, str) or not isinstance(made, dict):
                raise InputError("its digest must be text, and its provenance names and values")
            return cls(told, seconds, made)
        except (InputError, KeyError) as error:
            raise InputError(f"not a timing ({error})") from None
