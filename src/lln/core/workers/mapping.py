"""How the pieces of one computation run: in order in this process, with one thread, or on a Dask cluster."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import ContextDecorator
from typing import Any, Protocol, Self, TypeVar

from lln.core.errors import InputError, reason
from lln.core.workers.dask import connect, lost, silent

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
    raised where its value is taken.
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
        """What stands for an object in calls."""
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
    """One thread for the libraries of linear algebra, until all that asked for it have ended.

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
