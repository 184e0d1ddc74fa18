"""The clock set back, and forward, in the middle of a work and between a work and going on with it."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from lln.export.c.export import compiler
from validation.faults.forks import Command, Hook
from validation.faults.kill import _both
from validation.faults.outcome import WRONG, Outcome, aftermath
from validation.faults.works import Bench, ways

FILE = "LLN_CLOCK_FILE"  # where clock.c looks for the shift, if it is loaded
KIND = "clock set"
SHIFTS = (-3600, -86400, -30 * 86400, -20 * 365 * 86400, 86400)


def clock(bench: Bench, count: int, seed: int) -> Iterator[Outcome]:
    """As `clock_here`, in a process of its own whose calls to the system's clock are moved; needs a C compiler.

    libfaketime would do, but under it Python's own `sleep` fails.
    """
    tool, place = compiler(), bench.folder()
    if tool is None or FILE in os.environ:
        yield from clock_here(bench, count, seed)
        return
    library, file = place / "clock.so", place / "clock"
    file.write_bytes(bytes(8))
    source = Path(__file__).with_name("clock.c")
    subprocess.run([tool, "-shared", "-fPIC", "-O1", str(source), "-o", str(library)], check=True)
    words = ["--only", "clock", "--count", str(count), "--seed", str(seed), "--outcomes", str(place / "outcomes")]
    subprocess.run(
        [sys.executable, "-m", "validation.faults", *words],
        env={**os.environ, "LD_PRELOAD": str(library), FILE: str(file)},
        stdout=subprocess.DEVNULL,
        check=False,
    )
    for fields in json.loads((place / "outcomes").read_text()):
        yield Outcome(**fields)


def clock_here(bench: Bench, count: int, seed: int) -> Iterator[Outcome]:
    """The clock moves while the work is under way, which is then killed, and moves again before it goes on."""
    draw = random.Random(f"{seed} clock")
    names = ("fit", "search", "study", "simulate zarr", "simulate npz")
    for index in range(count):
        work = bench.works[names[index % len(names)]]
        older = bool(index // len(names) % 2) and bool(work.other)
        place, expected = bench.begin(work, older), bench.expected(work)
        shift = SHIFTS[index // len(names) % len(SHIFTS)]
        with _Clock() as set_to:
            running = Command(work.words, place, _both(work.before, set_to.moved_after(0.3 * expected.seconds, shift)))
            running.wait(0.3 * expected.seconds)
            set_to(shift)
            running.wait((0.1 + draw.random()) * expected.seconds)
            running.send(signal.SIGKILL)
            ended = running.end()
            set_to(2 * shift)
            before = _both(work.before, set_to.moved_after(0.0, 2 * shift))
            yield aftermath(bench, KIND, work, place, ended, older, before)
    yield _budget(bench)


class _Clock:
    """The clock of all forks: the system's where clock.c is loaded, Python's own elsewhere."""

    def __enter__(self) -> _Clock:
        self(0)
        return self

    def __exit__(self, *_: object) -> None:
        self(0)

    def __call__(self, shift: int) -> None:
        if FILE in os.environ:
            with Path(os.environ[FILE]).open("r+b") as file:
                file.write(shift.to_bytes(8, "little", signed=True))

    def moved_after(self, seconds: float, shift: int) -> Hook:
        """A clock of Python's own that jumps after so many seconds; nothing where the library does it."""

        def install() -> None:
            if FILE in os.environ:
                return
            usual, usual_ns, start = time.time, time.time_ns, time.monotonic()

            def moved() -> int:
                return shift if time.monotonic() - start >= seconds else 0

            time.time = lambda: usual() + moved()
            time.time_ns = lambda: usual_ns() + moved() * 10**9

        return install


def _budget(bench: Bench) -> Outcome:
    """A search that may take a second must not take an hour because the clock was set back."""
    words = (*bench.works["search"].words, "--budget", "1s")
    with _Clock() as set_to:
        running = Command(words, bench.folder(), set_to.moved_after(0.5, -3600))
        running.wait(0.5)
        set_to(-3600)
        hung = not running.wait(120)
        running.send(signal.SIGKILL)
        ended = running.end()
    outcome = Outcome(KIND, "search with a time to keep", ways(ended))
    outcome.traces(ended)
    if hung or ended.code not in (0, 1):
        outcome.findings.append(f"{WRONG}: a search of a second did not end in two minutes: {ended.text[-500:]}")
    return outcome
