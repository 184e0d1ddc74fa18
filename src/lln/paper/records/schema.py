"""One finished run as one line of canonical JSON, known by the digest of its complete specification.

Canonical means: keys sorted, no spaces, ASCII only, floats as Python's shortest exact text. JSON has no infinity, so a
number that is not finite is written as the text "inf", "-inf" or "nan", and `number` reads it back. Nothing that
differs between two equal runs (times, machine, versions) is in a record; that is kept apart, as a `Timing`. Every line
ends with a checksum of its content, so that a damaged digit is no result; lines from before there were checksums are
read as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lln.core.canonical import digest, number, opened_line, sealed_line
from lln.core.errors import InputError

DONE, FAILED = "done", "failed"


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
            name, seconds, made = content["digest"], number(content["seconds"]), content["provenance"]
            if not isinstance(name, str) or not isinstance(made, dict):
                raise InputError("its digest must be text, and its provenance names and values")
            return cls(name, seconds, made)
        except (InputError, KeyError) as error:
            raise InputError(f"not a timing ({error})") from None
