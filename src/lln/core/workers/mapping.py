"""How the pieces of one computation run: in order in this process, with one thread, or on a Dask cluster.

Any Dask scheduler address will do, on one machine, on SLURM or in a cloud; it needs the extra `cluster`. Dask moves the
tasks of a worker that is lost to the others.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import ContextDecorator, contextmanager
from typing import Any, Protocol, Self, TypeVar

from lln.core.errors import InputError, reason
from lln.core.workers.local import Finished, Function, Task, call

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
