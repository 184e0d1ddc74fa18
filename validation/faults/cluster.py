"""A Dask worker, and then the scheduler, lost in the middle of a study or a search."""

from __future__ import annotations

import json
import random
import signal
import sqlite3
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from validation.faults.forks import Command
from validation.faults.outcome import LOST, Outcome, aftermath
from validation.faults.works import Bench, Work, ways


class Cluster:
    """A scheduler and two workers, each a process of its own."""

    def __init__(self, home: Path) -> None:
        self.home, self.file = home, home / "scheduler.json"
        here = ("--host", "127.0.0.1", "--no-dashboard", "--scheduler-file", str(self.file))
        self.scheduler = self._start("dask_scheduler", *here, "--port", "0")
        self.address = self._address()
        self._words = (*here, "--nthreads", "1", "--no-nanny", "--local-directory", str(home))
        self.workers = [self.worker() for _ in range(2)]

    def worker(self) -> Command:
        """One more worker."""
        return self._start("dask_worker", *self._words)

    def _start(self, module: str, *words: str) -> Command:
        def run() -> None:
            import importlib

            sys.argv = [module, *words]
            importlib.import_module(f"distributed.cli.{module}").main()

        return Command((), self.home, run=run)

    def _address(self) -> str:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            try:
                return str(json.loads(self.file.read_text())["address"])
            except (OSError, ValueError):
                time.sleep(0.02)
        raise TimeoutError("the scheduler did not come up")

    def close(self) -> None:
        """End all that still runs."""
        for one in (*self.workers, self.scheduler):
            one.send(signal.SIGKILL)
            one.end()


def lost(bench: Bench, count: int, seed: int) -> Iterator[Outcome]:
    """In each work first a worker is lost and then the scheduler: two faults."""
    draw = random.Random(f"{seed} dask")
    for index in range((count + 1) // 2):
        work = bench.works["long search" if index % 5 == 4 else "long study"]
        yield from _lose(bench, work, draw)


def _lose(bench: Bench, work: Work, draw: random.Random) -> Iterator[Outcome]:
    place, home = bench.begin(work, False), bench.folder()
    cluster = Cluster(home)
    try:
        words = (*work.words, "--scheduler", cluster.address)
        running = Command(words, place)
        enough = draw.randint(1, 8 if work.name == "long study" else 2)
        running.wait(until=lambda: len(_kept(work, place)) >= enough)
        cluster.workers[0].send(signal.SIGKILL)
        # It must go on with the worker that is left.
        over = running.wait(until=lambda: len(_kept(work, place)) > enough)
        cluster.scheduler.send(signal.SIGKILL)
        kept = _kept(work, place)
        outcome = Outcome("Dask worker lost", work.name, "finished" if over else "went on")
        if len(kept) <= enough:
            outcome.findings.append(f"{LOST}: nothing more was finished after a worker was lost")
        ended = running.end()
        yield outcome
    finally:
        cluster.close()
    outcome = aftermath(bench, "Dask scheduler lost", work, place, ended, False)
    if ended.code not in (0, 1) or (ended.code and "lln: " not in ended.text):
        outcome.findings.append(f"{LOST}: it ended as {ways(ended)}: {ended.text[-1500:]}")
    yield outcome


def _kept(work: Work, place: Path) -> Mapping[str, Any]:
    """What is finished so far; a database that is just being made has nothing."""
    try:
        return work.kept(place)
    except sqlite3.Error:
        return {}
