"""Records of the runs of a study in one folder: appended as runs finish, and readable at any time. No torch here.

A finished run is one line of canonical JSON (see `lln.core.canonical`), known by the digest of its complete
specification. Nothing that differs between two equal runs (times, machine, versions) is in a record; that is kept
apart, as a `Timing`. Every line ends with a checksum of its content; lines from before there were checksums are read as
they are.

`records.jsonl` is append-only while a study runs: one record is one write, flushed to the disk before the run counts as
finished. A kill in the middle leaves a torn last line at worst; readers ignore it and the next writer cuts it off. One
writer at a time holds the lock. `settle` sorts the lines by digest, so that the same study gives the same bytes in
whatever order its runs finished. Times and versions go to `times.jsonl`, and `blocks.json` says which runs serve
which part of the study.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from lln.core.canonical import SUM, canonical, digest, number, opened_line, sealed_line
from lln.core.errors import InputError
from lln.core.safe_files import output_folder, sync_folder, whole_file

RECORDS, TIMES, BLOCKS, LOCK = "records.jsonl", "times.jsonl", "blocks.json", ".lock"
DONE, FAILED = "done", "failed"


@dataclass(frozen=True)
class Record:
    """The result of one run."""

    #: everything that determines the run, as plain data; ``spec["kind"]`` says which sort of run it is.
    spec: Mapping[str, Any]
    result: Mapping[str, Any] = field(default_factory=dict)  #: its numbers, by name; empty if it failed.
    status: str = DONE  #: "done", also if a rollout diverged (that is a result), or "failed" if the run crashed.
    error: str | None = None  #: the crash in words; None if it is done.

    @property
    def digest(self) -> str:
        """The identity of the run."""
        return digest(self.spec)

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
    """When, where and how long a run took; kept apart from its record."""

    digest: str  #: of the run.
    seconds: float  #: wall time in its worker.
    provenance: Mapping[str, Any] = field(default_factory=dict)  #: date, machine, versions, commit.

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


Line = TypeVar("Line", Record, Timing)


@dataclass(frozen=True)
class Entry:
    """One run's part in a block."""

    digest: str  #: of the run.
    role: str  #: what it is there for, as in "row" or "no-lens".


def read_records(folder: Path | str) -> dict[str, Record]:
    """Every record in `folder` by digest, done ones and failed ones; empty if nothing has run yet."""
    return {record.digest: record for record in _read(Path(folder) / RECORDS, Record)}


def read_times(folder: Path | str) -> dict[str, Timing]:
    """Every timing in `folder` by digest."""
    return {timing.digest: timing for timing in _read(Path(folder) / TIMES, Timing)}


def read_blocks(folder: Path | str) -> dict[str, list[Entry]]:
    """Which runs serve which block."""
    path = Path(folder) / BLOCKS
    if not path.exists():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        stored = content.pop(SUM, None)
        if stored is not None and stored != digest(content):
            raise ValueError("its checksum is not that of its content")
        return {block: [Entry(entry["digest"], entry["role"]) for entry in runs] for block, runs in content.items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise InputError(f"{path}: damaged ({error}); delete it, and the next lln reproduce writes it again") from None


class RecordStore:
    """The one writer of a folder of records, made if it is not there. Use it as a context; it holds the lock."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = output_folder(folder)
        self._lock = os.open(self.folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise InputError(f"{self.folder}: another study is writing here; wait for it or choose --out") from None
        for name in (RECORDS, TIMES):
            _cut_torn_line(self.folder / name)
        self._done = {digest for digest, record in read_records(self.folder).items() if record.done}

    def __enter__(self) -> RecordStore:
        return self

    def __exit__(self, *error: object) -> None:
        """Give the lock back."""
        os.close(self._lock)

    @property
    def done(self) -> frozenset[str]:
        """Digests of the runs that need not be run again; a failed run may be tried again."""
        return frozenset(self._done)

    def add(self, record: Record, timing: Timing | None = None) -> bool:
        """Append `record` unless that run is done already; returns whether it was written.

        The time goes first: a kill in between leaves a time without a record, which the next attempt replaces.
        """
        if record.digest in self._done:
            return False
        if timing is not None:
            _append(self.folder / TIMES, timing.line())
        _append(self.folder / RECORDS, record.line())
        if record.done:
            self._done.add(record.digest)
        return True

    def set_blocks(self, blocks: Mapping[str, Sequence[Entry]]) -> None:
        """Replace what `blocks.json` says about these blocks and keep the others."""
        known = {
            name: [asdict(entry) for entry in runs] for name, runs in {**read_blocks(self.folder), **blocks}.items()
        }
        lines = [f"{json.dumps(name)}:{canonical(known[name])}" for name in sorted(known)]
        lines.append(f'"{SUM}":"{digest(known)}"')
        _replace(self.folder / BLOCKS, "{\n" + ",\n".join(lines) + "\n}\n")

    def settle(self) -> None:
        """Sort the lines by digest, one for each run; a run that failed and then succeeded keeps its success."""
        for name, lines in ((RECORDS, read_records(self.folder)), (TIMES, read_times(self.folder))):
            _replace(self.folder / name, "".join(lines[key].line() for key in sorted(lines)))


def _replace(path: Path, text: str) -> None:
    """Write `text` to `path` whole or not at all."""
    with whole_file(path) as partial:
        partial.write_text(text, encoding="utf-8")


def _append(path: Path, line: str) -> None:
    new = not path.exists()
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        left = memoryview(line.encode())
        while left:
            left = left[os.write(descriptor, left) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    if new:
        sync_folder(path.parent)


def _cut_torn_line(path: Path) -> None:
    """Drop what follows the last newline: a write that a kill interrupted."""
    if not path.exists():
        return
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        os.truncate(path, whole)


def _read(path: Path, kind: type[Line]) -> list[Line]:
    """Every whole line; the text behind the last newline is a write still under way or torn, and does not count."""
    if not path.exists():
        return []
    lines = path.read_bytes().split(b"\n")[:-1]
    found: list[Line] = []
    for index, line in enumerate(lines, start=1):
        try:
            found.append(kind.parse(line.decode()))
        except (InputError, UnicodeDecodeError, RecursionError) as error:
            raise InputError(f"{path}, line {index}: {error}; remove that line to run it again") from None
    return found
