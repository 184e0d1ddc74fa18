"""Workers of a Dask cluster: any scheduler address will do, on one machine, on SLURM or in a cloud.

Needs the extra `cluster`. Dask moves the tasks of a worker that is lost to the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from lln.core.errors import InputError
from lln.workers.base import Finished, Function, Task
from lln.workers.local import call

_CONNECT_SECONDS = 10


class DaskCrew:
    """The workers of the Dask scheduler at `address`, as in ``tcp://10.0.0.5:8786``.

    Args:
        address: of the scheduler.
    """

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
        distributed = _distributed()
        try:
            self._client = distributed.Client(self.address, timeout=_CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError) as error:
            raise InputError(f"no Dask scheduler answers at {self.address!r}: {error}") from None
        try:
            futures = {
                self._client.submit(call, function, task, pure=False, priority=-index): task.key
                for index, task in enumerate(tasks)
            }
            self._left = len(futures)
            for future in distributed.as_completed(futures, loop=self._client.loop):
                self._left -= 1
                yield _outcome(future, futures.pop(future))
                future.release()
        finally:
            self._left = 0
            self.close()

    def close(self) -> None:
        """Leave the scheduler; its workers stay."""
        client, self._client = self._client, None
        if client is not None:
            client.close()


def _outcome(future: Any, key: str) -> Finished:
    error = future.exception()
    if error is not None:
        return Finished(key, error=f"{type(error).__name__}: {error}")
    finished: Finished = future.result()
    return finished


def _distributed() -> Any:
    try:
        import distributed
    except ImportError:
        raise InputError("a Dask cluster needs dask.distributed; install lln with the extra 'cluster'") from None
    return distributed
