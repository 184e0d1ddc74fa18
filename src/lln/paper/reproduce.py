"""A whole study: what is not done yet goes to the workers, and every result is on disk before the next is awaited.

Only this process writes. A run that crashes is recorded as failed, with its specification, and the study continues; the
next call tries it again. Stopping at any moment loses the runs under way and nothing else.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from lln.core.canonical import numbers
from lln.core.provenance import provenance
from lln.core.workers import Pool, Task
from lln.paper.expand import RunSpec, expand
from lln.paper.records import DONE, FAILED, Entry, Record, RecordStore, Timing, read_records
from lln.paper.run import execute
from lln.paper.spec import Confirm, Study, family_of

PACKAGES = ("torch", "numpy", "llvmlite", "scipy", "scikit-learn")


@dataclass
class BlockProgress:
    """How far a block is; the same object is shown again and again."""

    block: str  #: its name.
    total: int = 0  #: number of runs.
    done: int = 0  #: finished ones, also those of earlier calls.
    failed: int = 0  #: crashed ones of this call.
    running: int = 0  #: being worked on now.
    seconds_left: float | None = None  #: estimated from the cost of what is done; None until the first run is.
    seconds: float = 0.0  #: since the block began.
    errors: list[str] = field(default_factory=list)


Listener = Callable[[BlockProgress], None]


def run_study(study: Study, store: RecordStore, pool: Pool, listener: Listener | None = None) -> BlockProgress:
    """Bring `study` to its end in the folder of `store`; returns the last progress."""
    show = listener or (lambda _: None)
    progress, began = BlockProgress(study.block), time.perf_counter()
    runs = expand(study)
    _run_stage(runs, store, pool, progress, show, began)
    if study.confirm is not None:
        more = confirmations(runs, read_records(store.folder), study.confirm)
        runs = [*runs, *more]
        _run_stage(runs, store, pool, progress, show, began)
    return progress


def _run_stage(
    runs: Sequence[RunSpec], store: RecordStore, pool: Pool, progress: BlockProgress, show: Listener, began: float
) -> None:
    store.set_blocks({progress.block: [Entry(run.digest, run.role) for run in runs]})
    wanted = {run.digest: run for run in runs}
    todo = longest_first(run for digest, run in wanted.items() if digest not in store.done)
    progress.total, progress.done = len(wanted), len(wanted) - len(todo)
    progress.failed, progress.errors = 0, []
    show(progress)
    stamp = provenance(*PACKAGES)
    clock, spent, left = time.perf_counter(), 0.0, sum(run.cost for run in todo)
    tasks = [Task(run.digest, run.content) for run in todo]
    for finished in pool.run(execute, tasks) if tasks else ():
        run = wanted[finished.key]
        status = DONE if finished.error is None else FAILED
        record = Record(run.content, finished.value or {}, status, finished.error)
        store.add(record, Timing(run.digest, finished.seconds, stamp))
        spent, left = spent + run.cost, left - run.cost
        if finished.error is None:
            progress.done += 1
        else:
            progress.failed += 1
            progress.errors.append(f"{describe(run)}: {finished.error}")
        progress.running = pool.running
        progress.seconds = time.perf_counter() - began
        progress.seconds_left = left * (time.perf_counter() - clock) / spent
        show(progress)
    progress.running, progress.seconds_left, progress.seconds = 0, 0.0, time.perf_counter() - began
    show(progress)


def longest_first(runs: Iterable[RunSpec]) -> list[RunSpec]:
    """By falling cost, so that no long run is left alone at the end; ties by digest."""
    return sorted(runs, key=lambda run: (-run.cost, run.digest))


def describe(run: RunSpec) -> str:
    """The run in a few words, for a message."""
    content = run.content
    options = ", ".join(f"{key}={value}" for key, value in content.get("options", {}).items() if value is not None)
    words = [str(content[key]) for key in ("kind", "system", "model") if key in content]
    return f"run {run.digest[:8]} ({' '.join(words)}{': ' + options if options else ''})"


def mean_score(record: Record) -> float:
    """Mean over seeds of the rollout error; infinite if any seed diverged or the run failed."""
    if not record.done:
        return math.inf
    scores = numbers(record.result["mse"])
    return sum(scores) / len(scores)


def lowest(runs: Iterable[RunSpec], records: Mapping[str, Record]) -> RunSpec:
    """The run with the lowest mean; among equals, also infinite ones, the first in the study's order."""
    return min(runs, key=lambda run: mean_score(records[run.digest]) if run.digest in records else math.inf)


def confirmations(runs: Iterable[RunSpec], records: Mapping[str, Record], confirm: Confirm) -> list[RunSpec]:
    """The lowest run of each system and family, on the seeds that confirm; references need none."""
    groups: dict[tuple[str, str], list[RunSpec]] = {}
    for run in runs:
        if family_of(run.content["model"]) == "reference":
            continue
        groups.setdefault((run.content["system"], family_of(run.content["model"])), []).append(run)
    other = {"seeds": list(confirm.seeds), "curve": confirm.curve}
    return [RunSpec({**lowest(group, records).content, **other}, "confirmation") for group in groups.values()]
