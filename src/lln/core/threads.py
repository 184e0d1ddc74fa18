"""How many threads the libraries of linear algebra take."""

from __future__ import annotations

import threading
from contextlib import ContextDecorator
from typing import Any


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
