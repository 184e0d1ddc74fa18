"""Workers of a Dask cluster: any scheduler address will do, on one machine, on SLURM or in a cloud.

Needs the extra `cluster`. Dask moves the tasks of a worker that is lost to the others.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any

from lln.core.errors import InputError
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
        """Leave the scheduler; its workers stay."""
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
