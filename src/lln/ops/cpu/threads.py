"""Threads and scratch memory of the CPU kernels."""

from __future__ import annotations

import mmap
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait

import numpy as np
from numpy.typing import NDArray

from lln.core.checks import check_int
from lln.core.errors import InputError

# Scratch of up to this many bytes stays with its thread for the next call; more is given back.
_KEPT = 2**22
_LINE = 64  # bytes in a cache line; vectors that straddle two lines are slow

_local = threading.local()
_lock = threading.Lock()
_pool: ThreadPoolExecutor | None = None


def checked_threads(count: int) -> int:
    """`count` as a number of threads that this machine can start; torch's own library crashes where it cannot."""
    cores = os.cpu_count() or 1
    most = max(64, 4 * cores)
    if check_int("threads", count, 1) > most:
        raise InputError(f"threads must be at most {most} on this machine of {cores} cores, got {count:,}")
    return count


def run(jobs: Sequence[Callable[[], None]], threads: int) -> None:
    """Do all jobs, every `threads`-th of them in one thread: this one and some of the pool."""
    if threads <= 1 or len(jobs) == 1:
        for job in jobs:
            job()
        return
    futures = [_executor().submit(_do, jobs[k::threads]) for k in range(1, min(threads, len(jobs)))]
    try:
        _do(jobs[::threads])
    finally:
        wait(futures)  # they write to the caller's arrays
    for future in futures:
        future.result()


def _do(jobs: Sequence[Callable[[], None]]) -> None:
    for job in jobs:
        job()


def scratch(size: int) -> tuple[int, NDArray[np.uint8]]:
    """Address and owner of `size` bytes for this thread, valid while the owner lives until the thread asks again."""
    buffer: NDArray[np.uint8] | None = getattr(_local, "buffer", None)
    if buffer is None or buffer.size < size + _LINE:
        if size > _KEPT:
            # Straight from the system and back to it: from the heap it would lie between tensors of a similar size,
            # and what it leaves when it is freed could not be given back.
            large = np.frombuffer(mmap.mmap(-1, size + _LINE), np.uint8)
            return _aligned(large), large
        buffer = np.empty(size + _LINE, np.uint8)
        _local.buffer, _local.address = buffer, _aligned(buffer)
    return _local.address, buffer


def _aligned(buffer: NDArray[np.uint8]) -> int:
    address = int(buffer.ctypes.data)
    return address + -address % _LINE


def _executor() -> ThreadPoolExecutor:
    global _pool
    with _lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(os.cpu_count() or 1, "lln")
        return _pool


def _forget() -> None:
    """A forked child has none of its parent's threads: it starts a pool of its own if it needs one."""
    global _pool, _lock
    _pool, _lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
