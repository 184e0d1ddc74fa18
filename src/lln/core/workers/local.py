"""Workers as processes of this machine.

Each worker is a fresh process with a pipe of its own. If a worker dies in a task (out of memory, a fault in native
code), only that task fails, and another worker replaces it. Workers leave Ctrl-C to the parent, and end when the parent
has ended.
"""

from __future__ import annotations

import _thread
import contextlib
import ctypes
import multiprocessing
import os
import signal
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import connection, resource_tracker
from multiprocessing.context import SpawnProcess
from typing import Any, Protocol

from lln.core.errors import check_int

Function = Callable[[Any], Any]


@dataclass(frozen=True)
class Task:
    """One call to make."""

    key: str  #: its name, different from every other's
    payload: Any  #: the function's only argument


@dataclass(frozen=True)
class Finished:
    """One call that came to an end."""

    key: str  #: the task's
    value: Any = None  #: what the function returned; None if it failed
    error: str | None = None  #: what went wrong, in words; None if it did not
    seconds: float = 0.0  #: wall time in the worker


class Pool(Protocol):
    """Workers that call one function on many tasks."""

    @property
    def running(self) -> int:
        """How many tasks are being worked on at this moment."""

    def close(self) -> None:
        """Release the workers."""

    def run(self, function: Function, tasks: Sequence[Task]) -> Iterator[Finished]:
        """Call `function` on every task, the first ones first; a call that fails is a result like any other."""


_DEATH_OF_PARENT = 1  # of prctl: which signal it sends
_WATCH_SECONDS = 0.5
_GOODBYE_SECONDS = 5.0


class LocalPool:
    """`jobs` processes of this machine, each meant to keep one core busy. Use it as a context, or close it."""

    def __init__(self, jobs: int = 2) -> None:
        self.jobs = check_int("jobs", jobs, 1)
        self._workers: list[_Worker] = []

    def __enter__(self) -> LocalPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def running(self) -> int:
        """How many tasks are being worked on at this moment."""
        return sum(worker.task is not None for worker in self._workers)

    def run(self, function: Function, tasks: Sequence[Task]) -> Iterator[Finished]:
        """Call `function`, which must be importable, on every task."""
        waiting = deque(tasks)
        try:
            self._hand_out(function, waiting)
            while self.running:
                found = self._collect()
                self._hand_out(function, waiting)  # before the results are looked at: no worker waits for the parent
                yield from found
        finally:
            self._dismiss([worker for worker in self._workers if worker.task is not None])

    def close(self) -> None:
        """Stop all workers. They are kept between calls of `run`, because starting one takes seconds."""
        self._dismiss(self._workers)

    def _hand_out(self, function: Function, waiting: deque[Task]) -> None:
        while waiting and self.running < self.jobs:
            idle = [worker for worker in self._workers if worker.task is None and worker.function is function]
            if not idle:
                idle.append(_Worker.start(function))
                self._workers += idle
            idle[0].give(waiting.popleft())

    def _collect(self) -> list[Finished]:
        busy = {worker.pipe: worker for worker in self._workers if worker.task is not None}
        found = []
        for pipe in connection.wait(list(busy)):
            worker = busy[pipe]  # type: ignore[index]
            finished = worker.take()
            if finished is None:
                finished = worker.lost()
                self._workers.remove(worker)
            found.append(finished)
        return found

    def _dismiss(self, workers: Sequence[_Worker]) -> None:
        for worker in workers:
            worker.pipe.close()  # an idle worker leaves when its pipe closes
            if worker.task is not None:
                worker.process.kill()
        for worker in workers:
            worker.process.join(_GOODBYE_SECONDS)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
        self._workers = [worker for worker in self._workers if worker not in workers]


@dataclass(eq=False)
class _Worker:
    """The parent's side of one worker."""

    process: SpawnProcess
    pipe: connection.Connection
    function: Function
    task: Task | None = None
    began: float = 0.0

    @classmethod
    def start(cls, function: Function) -> _Worker:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, function, os.getpid()), daemon=True)
        with _no_interrupts():
            process.start()
        theirs.close()
        return cls(process, ours, function)

    def give(self, task: Task) -> None:
        self.task, self.began = task, time.perf_counter()
        with contextlib.suppress(BrokenPipeError):  # it died while it was idle: `take` will find the pipe closed
            self.pipe.send(task)

    def take(self) -> Finished | None:
        """What the worker sent, or None if it is gone."""
        try:
            finished: Finished = self.pipe.recv()
        except (EOFError, OSError):
            return None
        self.task = None
        return finished

    def lost(self) -> Finished:
        """The report of a task whose worker died."""
        key = self.task.key if self.task is not None else ""
        self.task = None
        self.pipe.close()
        self.process.join()
        code, seconds = self.process.exitcode, time.perf_counter() - self.began
        manner = f"by {signal.Signals(-code).name}" if code is not None and code < 0 else f"with exit code {code}"
        return Finished(key, error=f"the worker process died {manner}", seconds=seconds)


@contextlib.contextmanager
def _no_interrupts() -> Iterator[None]:
    """Block Ctrl-C: a process that is started meanwhile never receives it, not even during its imports."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # to start it would let interrupts through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(pipe: connection.Connection, function: Function, parent: int) -> None:
    """The loop of a worker: read tasks from the pipe, and send results back."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _leave_with(parent)
    while True:
        try:
            task = pipe.recv()
        except (EOFError, OSError):
            return
        finished = call(function, task)
        try:
            pipe.send(finished)
        except OSError:
            return


def _leave_with(parent: int) -> None:
    """From now on, end this process when its parent has ended, also in the middle of a task."""
    if sys.platform == "linux":
        # The operating system does this; a thread would need memory, and there may be none left.
        ctypes.CDLL(None).prctl(_DEATH_OF_PARENT, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        return

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_WATCH_SECONDS)
        os._exit(1)

    _thread.start_new_thread(watch, ())


def call(function: Function, task: Task) -> Finished:
    """Call `function` on one task; an exception becomes the error in words, with the place where it arose."""
    began = time.perf_counter()
    value, text = None, None
    try:
        value = function(task.payload)
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{type(error).__name__}: {error} (in {place.name})"
    return Finished(task.key, value, text, time.perf_counter() - began)
