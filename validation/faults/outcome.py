"""What a fault did: the questions asked after each, and one row of the table."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from validation.faults.forks import Ended, Hook, command
from validation.faults.works import Bench, Work, look, pieces, ways

LOST, WRONG, TRACE = "lost", "wrong", "traceback"


@dataclass
class Outcome:
    """One fault.

    Attributes:
        kind: of fault.
        work: that it hit.
        ended: how the command ended.
        findings: what is wrong with that, each beginning with "lost", "wrong" or "traceback"; empty if all is well.
        place: where its files are.
    """

    kind: str
    work: str
    ended: str
    findings: list[str] = field(default_factory=list)
    place: Path | None = None

    def count(self, what: str) -> int:
        """Whether this was found, as a number."""
        return int(any(finding.startswith(what) for finding in self.findings))

    def traces(self, *ends: Ended) -> None:
        """Note what the user should not have seen."""
        self.findings += [f"{TRACE}: {one.text[-1500:]}" for one in ends if one.trace]


Kind = Callable[[Bench, int, int], Iterator[Outcome]]


def aftermath(
    bench: Bench, kind: str, work: Work, place: Path, first: Ended, older: bool, before: Hook | None = None
) -> Outcome:
    """Look at what a fault left, go on, and look again.

    Args:
        bench: knows the right result.
        kind: of fault.
        work: that was hit.
        place: where it worked.
        first: how it ended.
        older: whether an older result was there before.
        before: called in the fork that goes on; the work's own by default.
    """
    outcome, expected = Outcome(kind, work.name, ways(first), place=place), bench.expected(work)
    outcome.traces(first)
    previous = expected.older_result if older else None
    try:
        result, kept = look(work, place)
    except RuntimeError as error:
        outcome.findings.append(f"{WRONG}: what was left cannot be read: {error}")
        result, kept = None, {}
    if result is None and previous is not None:
        outcome.findings.append(f"{LOST}: the older result is gone")
    if result not in (expected.result, previous, None) and not unfinished(work, place):
        outcome.findings.append(f"{WRONG}: something half-written is taken for whole ({result})")
    if first.code == 0 and result != expected.result:
        outcome.findings.append(f"{WRONG}: it said that it was done, and was not: {first.text[-500:]}")
    second = command(work.again, place, before or work.before)
    outcome.traces(second)
    if second.code:
        outcome.findings.append(f"{LOST}: it cannot go on ({second.code}): {second.text[-1500:]}")
        return outcome
    result, later = look(work, place)
    if result != expected.result:
        outcome.findings.append(f"{WRONG}: going on ended in another result")
    if any(later.get(key) != value for key, value in kept.items()):
        outcome.findings.append(f"{LOST}: finished items are gone or changed")
    if left := pieces(place):
        outcome.findings.append(f"{WRONG}: left lying about: {left}")
    if not outcome.findings:
        shutil.rmtree(place, ignore_errors=True)
    return outcome


def unfinished(work: Work, place: Path) -> bool:
    """Whether a result that is not the whole one can be told from it: by its reader, or by a compiler."""
    if work.name.endswith(("study", "search")):
        return True  # their finished items are compared one by one
    if work.name == "export c":
        return not _compiles(place / work.target)
    return False


def _compiles(folder: Path) -> bool:
    from lln.export.c.export import compiler

    tool = compiler()
    files = [folder / "model.c", folder / "model_selftest.c"]
    if tool is None:
        return all(path.exists() for path in (*files, folder / "model.h"))
    return all(
        path.exists()
        and subprocess.run([tool, "-fsyntax-only", path], capture_output=True, check=False).returncode == 0
        for path in files
    )
