"""Workers one after another over every reader, and the table of what they told."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from validation.fuzz.worker import AGAIN, CONTAINED, ENGINES, GUIDED, MUTATED, PROPERTIES, Task, keep

CHAINED = ("HDF5", "NetCDF", "Zarr")  # read through the process that contains them, too
SHARES = {MUTATED: 0.5, PROPERTIES: 0.2, GUIDED: 0.3}
CRASHES = 25  # after so many dead workers a reader is given up


@dataclass
class Row:
    """What became of the cases of one reader."""

    reader: str
    cases: int = 0
    past: int = 0
    refused: int = 0
    accepted: int = 0
    contained: int = 0
    findings: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0
    engines: dict[str, int] = field(default_factory=dict)

    def hear(self, told: dict[str, Any], engine: str) -> None:
        """Count one case."""
        self.cases += 1
        self.past += bool(told["past"])
        self.refused += told["kind"] == "refused"
        self.accepted += told["kind"] == "accepted"
        self.engines[engine] = self.engines.get(engine, 0) + 1
        if told["kind"] == "finding":
            self.findings.append({"engine": engine, **{key: told.get(key) for key in ("text", "case", "number")}})

    def record(self) -> dict[str, Any]:
        """The row as plain values."""
        return {**asdict(self), "findings": len(self.findings), "seconds": round(self.seconds, 1)}


def run(
    row: Row, cases: int, engines: tuple[str, ...], seed: int, work: Path, found: Path, say: Callable[[str], None]
) -> None:
    """`cases` cases of the row's reader, shared out over `engines`; `say` is told after each worker."""
    reader, began = row.reader, time.perf_counter()
    total = sum(SHARES[engine] for engine in engines)
    wanted = {engine: round(cases * SHARES[engine] / total) for engine in engines}
    wanted[engines[0]] += cases - sum(wanted.values())
    if reader in CHAINED:
        wanted[CONTAINED] = max(1, cases // 20)
    for engine, count in wanted.items():
        folder = work / f"{reader}-{engine}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        done, crashes = 0, 0
        while done < count and crashes < CRASHES:
            # Another generator for the cases that go through the containing process: they are to be new ones.
            begin = done + (10**6 if engine == CONTAINED else 0)
            task = Task(
                reader, engine, seed, begin, count - done, str(work / "seeds"), str(folder), str(found / reader)
            )
            heard, death = _worker(task, row)
            done += heard
            if death is not None and "exit code 1\n" in death:
                raise SystemExit(f"fuzz: the worker of {reader} ({engine}) is broken itself: {death}")
            if death is not None:
                crashes += 1
                done += 1
                row.hear(_after(task, row, heard, death), engine)
            elif heard == 0:
                break
            row.seconds = time.perf_counter() - began
            say(f"{reader}, {engine}: {done} of {count} cases, {len(row.findings)} findings")


def _after(task: Task, row: Row, heard: int, death: str) -> dict[str, Any]:
    """What is told of the case that killed a worker.

    A crash of a library is no finding where lln contains it: then the same file, read as users read it, is refused.
    """
    case = next(iter(sorted(Path(task.folder).glob("case.*"))), None)
    told: dict[str, Any] = {"kind": "finding", "past": False, "text": death, "number": task.first + heard}
    if case is None:
        return told
    if task.reader in CHAINED and task.engine != CONTAINED:
        second = Row(task.reader)
        _worker(replace(task, engine=AGAIN), second)
        if second.refused:
            row.contained += 1
            keep(case, Path(task.found) / "contained", death)
            return {**told, "kind": "refused"}
    return {**told, "case": str(keep(case, Path(task.found), death))}


def _worker(task: Task, row: Row) -> tuple[int, str | None]:
    """Run one worker; how many cases it told of, and how it died if it did."""
    environment = {
        **os.environ,
        "PYTHONHASHSEED": "0",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "TERM": "dumb",
        "COLUMNS": "80",
    }
    environment |= {"XDG_CACHE_HOME": str(Path(task.folder).resolve() / "cache"), "HDF5_USE_FILE_LOCKING": "FALSE"}
    errors = Path(task.folder) / "stderr"
    heard = 0
    with errors.open("wb") as log:
        words = [sys.executable, "-m", "validation.fuzz.worker", json.dumps(asdict(task))]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=log, env=environment) as process:
            assert process.stdout is not None
            for line in process.stdout:
                told = json.loads(line) if line.startswith(b"{") else {"kind": "noise"}
                if told["kind"] in ("accepted", "refused", "finding"):
                    row.hear(told, task.engine)
                    heard += 1
    code = process.returncode
    if code == 0 and heard:
        return heard, None
    why = "it hung" if code == -signal.SIGALRM else f"signal {-code}" if code < 0 else f"exit code {code}"
    return heard, f"the process ended: {why}\n{errors.read_text(errors='replace')[-3000:]}"


def write_seeds(work: Path) -> None:
    """Valid files, made in a process of their own: fitting takes libraries that readers do without."""
    program = "import sys, pathlib, validation.fuzz.readers as r; r.write_seeds(pathlib.Path(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", program, str(work / "seeds")], check=True)


def engines_of(names: str) -> tuple[str, ...]:
    """The engines that a comma-separated list names."""
    chosen = tuple(name for name in names.split(",") if name)
    strangers = [name for name in chosen if name not in ENGINES]
    if strangers or not chosen:
        raise SystemExit(f"fuzz: engines are {', '.join(ENGINES)}, got {names!r}")
    return chosen
