"""Many calls of one function, whatever it computes: in order in this process, on processes of this machine, or on Dask.

A `Pool` reports each call when it ends, also one that failed; a `Mapper` gives values in order and raises what a call
raises. `one_thread` keeps the linear algebra of a call to one thread.

Each local worker is a fresh process with a pipe of its own. A worker that dies in a task (out of memory, a fault in
native code) takes that task down and no other: its task is reported as failed, and another worker takes its place.
Workers leave Ctrl-C to the parent, and leave by themselves when the parent is gone, however it went.

Any Dask scheduler address will do, on one machine, on SLURM or in a cloud; it needs the extra `cluster`. Dask moves
the tasks of a worker that is lost to the others.
"""

from __future__ import annotations

import _thread
import contextlib
import ctypes
import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import ContextDecorator, contextmanager
from dataclasses import dataclass
from multiprocessing import connection, resource_tracker
from multiprocessing.context import SpawnProcess
from typing import Any, Protocol, Self, TypeVar

from lln.core.errors import InputError, check_int, reason

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


@contextmanager
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


_CONNECT_SECONDS = 10
_GOODBYE_SECONDS = 2
_TALKERS = ("distributed", "tornado", "asyncio")


class DaskPool:
    """The workers of the Dask scheduler at `address`, as in ``tcp://10.0.0.5:8786``."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._client: Any = None
        self._left = 0

    @property
    def running(self) -> int:
        """How many tasks the cluster can be working on: not more than it has threads."""
        if self._client is None:
            return 0
        return min(self._left, int(sum(self._client.nthreads().values())))

    def run(self, function: Function, tasks: Sequence[Task]) -> Iterator[Finished]:
        """Call `function`, which every worker must be able to import, on every task."""
        self._client = connect(self.address)
        distributed = _distributed()
        with silent():
            try:
                futures = {
                    self._client.submit(call, function, task, pure=False, priority=-index): task.key
                    for index, task in enumerate(tasks)
                }
                self._left = len(futures)
                for future in distributed.as_completed(futures, loop=self._client.loop):
                    self._left -= 1
                    yield self._outcome(future, futures.pop(future))
                    future.release()
            finally:
                self._left = 0
                self.close()

    def _outcome(self, future: Any, key: str) -> Finished:
        """The result of one task; OSError if the scheduler is gone."""
        try:
            found: Finished = future.result()
        except (OSError, CancelledError) as error:
            raise lost(self.address) from error
        except Exception as error:
            return Finished(key, error=f"{type(error).__name__}: {error}")
        return found

    def close(self) -> None:
        """Disconnect from the scheduler; its workers stay."""
        client, self._client = self._client, None
        if client is not None:
            client.close(timeout=_GOODBYE_SECONDS)


def connect(address: str) -> Any:
    """A client of the scheduler at `address`."""
    distributed = _distributed()
    try:
        distributed.comm.get_address_host_port(address)  # a client of a wrong address prints a traceback as it ends
        return distributed.Client(address, timeout=_CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        raise InputError(f"no Dask scheduler answers at {address!r}: {error}") from None


def lost(address: str) -> OSError:
    """The error of work whose scheduler no longer answers."""
    kept = "what had finished is kept, so start a cluster and the same work again"
    return OSError(f"the Dask scheduler at {address} was lost; {kept}")


@contextmanager
def silent() -> Iterator[None]:
    """Keep Dask's own log, with its tracebacks, from the terminal: what matters is raised."""
    known = [logging.getLogger(name) for name in logging.root.manager.loggerDict if name.partition(".")[0] in _TALKERS]
    before = [log.level for log in known]
    for log in known:
        log.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for log, level in zip(known, before, strict=True):
            log.setLevel(level)


def _distributed() -> Any:
    try:
        import distributed
    except ModuleNotFoundError:
        raise InputError("a Dask cluster needs dask.distributed; install lln with the extra 'cluster'") from None
    return distributed


Shared = TypeVar("Shared")
Item = TypeVar("Item")
Value = TypeVar("Value")


class Mapper(Protocol):
    """Calls a function on many items."""

    def __call__(
        self, function: Callable[[Shared, Item], Value], shared: Shared, items: Iterable[Item]
    ) -> Iterator[Value]:
        """The values of function(shared, item), in the order of the items.

        Args:
            function: importable by its name.
            shared: what all calls read, such as the data; it must not change between calls.
            items: one for each call.
        """


def serial(function: Callable[[Shared, Item], Value], shared: Shared, items: Iterable[Item]) -> Iterator[Value]:
    """Call the function here, each time a value is asked for."""
    return (function(shared, item) for item in items)


class DaskMap:
    """A `Mapper` on the workers of the Dask scheduler at `address`, as in ``tcp://10.0.0.5:8786``. Use it as a context.

    `shared` is sent to each worker once, and stays there with the caches that it fills. An exception of a call is
    raised when its value is read.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self._client: Any = None
        self._sent: list[tuple[Any, Any]] = []

    def __enter__(self) -> Self:
        self._client = connect(self.address)
        return self

    def __exit__(self, *_: object) -> None:
        self._sent.clear()
        client, self._client = self._client, None
        with silent():
            client.close(timeout=2)

    def __call__(
        self, function: Callable[[Shared, Item], Value], shared: Shared, items: Iterable[Item]
    ) -> Iterator[Value]:
        """See `Mapper`. All calls are submitted at the first value that is taken."""
        with silent():
            futures: list[Any] = []
            try:
                data = self._send(shared)
                for index, item in enumerate(items):
                    futures.append(self._client.submit(function, data, item, pure=False, priority=-index))
                for future in futures:
                    yield future.result()
            except (OSError, CancelledError) as error:
                raise lost(self.address) from error
            finally:
                self._client.cancel(futures)

    def _send(self, shared: Any) -> Any:
        """A reference to an object, for calls."""
        for known, data in self._sent:
            if known is shared:
                return data
        try:
            data = self._client.scatter(shared, broadcast=True, hash=False)
        except (OSError, CancelledError):
            raise
        except Exception as error:  # each kind of object fails to be serialised in its own way
            raise InputError(
                f"the data cannot be sent to a cluster ({reason(error)}); read it into memory, or use no scheduler"
            ) from error
        self._sent.append((shared, data))
        return data


class _OneThread(ContextDecorator):
    """One thread for the libraries of linear algebra, until all users of this limit have ended.

    Several gain little on the small matrices of a fit, and on cores that other programs use they wait for each other: a
    fit of seconds would take a minute. With one, the digits of a fit in closed form do not depend on the
    number of cores.
    """

    def __init__(self) -> None:
        self._lock, self._count = threading.Lock(), 0
        self._limits: Any = None

    def __enter__(self) -> None:
        from threadpoolctl import threadpool_limits

        with self._lock:
            self._count += 1
            self._limits = self._limits or threadpool_limits(1, user_api="blas")

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._count -= 1
            if not self._count:
                self._limits.unregister()
                self._limits = None


one_thread = _OneThread()
"""A context manager and decorator; there is one for the whole process, as for its threads."""
