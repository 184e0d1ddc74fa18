"""One process that reads cases of one reader, and tells its parent how each ended; what kills it kills no other.

Three engines choose the cases: a generator of random numbers, hypothesis, and atheris, which keeps the choices that
reach code that no case has reached before.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import json
import shutil
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

GUIDED, PROPERTIES, MUTATED = "guided", "properties", "mutated"
CONTAINED, AGAIN = "contained", "again"
ENGINES = (MUTATED, PROPERTIES, GUIDED)


@dataclass(frozen=True)
class Task:
    """What a worker is asked to do: `count` cases from number `first` on."""

    reader: str
    engine: str
    seed: int
    first: int
    count: int
    seeds: str
    folder: str
    found: str


class Choices(Random):
    """Random choices that are read off bytes, so that whoever changes the bytes changes the case a little."""

    def __init__(self, content: bytes) -> None:
        super().__init__(sha256(content).digest())
        self._content, self._at = content, 0

    def getrandbits(self, k: int) -> int:
        """The next bits; those of a generator where the bytes end."""
        size = (k + 7) // 8
        if self._at + size > len(self._content):
            return super().getrandbits(k)
        part = self._content[self._at : self._at + size]
        self._at += size
        return int.from_bytes(part, "little") & ((1 << k) - 1)

    def random(self) -> float:
        """The next number between 0 and 1."""
        return self.getrandbits(16) / 65536


class Session:
    """The reader, its cases, and what is told of them."""

    def __init__(self, task: Task) -> None:
        from validation.fuzz import guard
        from validation.fuzz.readers import READERS, Cases

        self.task, self.reader = task, READERS[task.reader]
        folder = Path(task.folder)
        self.cases = Cases(self.reader, Path(task.seeds), folder)
        self._judge = guard.judge
        guard.WATCH.folder = str(folder.resolve())

    @property
    def patience(self) -> float:
        """Seconds that a case may take; the child that contains a library ends by itself, later on a busy machine."""
        from lln.data.read.sandbox import SECONDS

        return self.reader.seconds + (4.0 * SECONDS if self.task.engine in (CONTAINED, AGAIN) else 0.0)

    def warm(self) -> None:
        """Read valid cases first, so that libraries load before there are limits."""
        from validation.fuzz import guard

        with contextlib.suppress(ImportError):  # xarray loads it with the first dates; it unpickles its own parts
            importlib.import_module("dask.base")
        for number in range(20):
            path = self.cases.write(Random(number))
            try:
                self.reader.read(path)
            except (Exception, guard.WorkBegins):
                continue
        for content in self.cases.files:
            try:
                self.reader.read(self.cases.write_bytes(content))
            except Exception:
                continue
        guard.limited()

    def one(self, write: Callable[[], Path], case: Any = None) -> None:
        """Make one case, read it and tell how it ended."""
        path = write()
        verdict = self._judge(self.reader.read, path, self.patience)
        told: dict[str, Any] = {"kind": verdict.kind, "past": verdict.past}
        if verdict.kind == "finding":
            told |= {"text": verdict.text, "case": str(keep(path, Path(self.task.found), verdict.text)), "number": case}
        print(json.dumps(told), flush=True)


def keep(path: Path, found: Path, text: str) -> Path:
    """A copy of a case with what was found, under a name that its content gives."""
    found.mkdir(parents=True, exist_ok=True)
    parts = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    name = sha256(b"".join(part.name.encode() + part.read_bytes() for part in parts)).hexdigest()[:12]
    place = found / f"{name}{path.suffix}"
    if path.is_dir():
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(path, place)
    else:
        shutil.copy(path, place)
    place.with_name(place.name + ".txt").write_text(text)
    return place


def mutated(session: Session) -> None:
    """Cases from a generator of random numbers, each from its own seed."""
    task = session.task
    for number in range(task.first, task.first + task.count):
        session.one(lambda number=number: session.cases.write(Random(f"{task.seed}/{task.reader}/{number}")), number)


def again(session: Session) -> None:
    """The case that is there already."""
    session.one(lambda: session.cases.target)


def properties(session: Session) -> None:
    """Cases that hypothesis chooses; the property is that a reader answers as it must, and `one` checks it."""
    import hypothesis
    from hypothesis import strategies

    @hypothesis.seed(session.task.seed + session.task.first)
    @hypothesis.settings(
        max_examples=session.task.count,
        deadline=None,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(rng=strategies.randoms(use_true_random=False))
    def answers(rng: Random) -> None:
        session.one(lambda: session.cases.write(rng))

    answers()


def guided(session: Session) -> None:
    """Cases that atheris finds: choices, or whole files, that reach new code are kept and changed further."""
    import atheris

    task = session.task
    corpus = Path(task.folder) / "corpus"
    corpus.mkdir(exist_ok=True)
    rng = Random(task.seed)
    for number in range(32):
        (corpus / f"choices{number}").write_bytes(b"\1" + rng.randbytes(160))
    for number, content in enumerate(session.cases.files if session.reader.name != "command" else []):
        (corpus / f"file{number}").write_bytes(b"\0" + content)
    left = task.count
    raw = bool(session.cases.files) and session.reader.name != "command"

    def case(content: bytes) -> None:
        nonlocal left
        if left <= 0:
            return
        left -= 1
        if raw and content[:1] == b"\0":
            session.one(lambda: session.cases.write_bytes(content[1:]))
        else:
            session.one(lambda: session.cases.write(Choices(content[1:])))

    options = [
        f"-runs={task.count}",
        f"-seed={task.seed + task.first + 1}",
        "-max_len=8192",
        "-timeout=0",
    ]
    # Signals are the parent's to see.
    options += [f"-handle_{name}=0" for name in ("segv", "bus", "abrt", "ill", "fpe", "int", "term", "xfsz")]
    options += ["-rss_limit_mb=0", "-malloc_limit_mb=0", "-verbosity=0", "-print_final_stats=0", str(corpus)]
    atheris.Setup(["fuzz", *options], case)
    atheris.Fuzz()


def main() -> None:
    """Do the task that the command line holds as JSON."""
    task = Task(**json.loads(sys.argv[1]))
    faulthandler.enable()
    faulthandler.register(signal.SIGALRM, chain=True)
    if task.engine == GUIDED:
        import atheris

        with atheris.instrument_imports(include=["lln", "tomllib", "zipfile"]):
            work(task)
    else:
        work(task)


def work(task: Task) -> None:
    """Read the cases of one task."""
    from validation.fuzz.readers import ready

    session = Session(task)
    with ready(session.reader, contained=task.engine in (CONTAINED, AGAIN)):
        if task.engine != AGAIN:
            session.warm()
        engine = {MUTATED: mutated, CONTAINED: mutated, AGAIN: again, PROPERTIES: properties, GUIDED: guided}
        engine[task.engine](session)


if __name__ == "__main__":
    main()
