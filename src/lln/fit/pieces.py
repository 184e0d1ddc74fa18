"""Independent pieces of one fit (settings, folds, candidates), here or on a Dask cluster, to the same bits."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from lln.core.workers.mapping import DaskMap, Item, Mapper, Shared, Value, serial

# Of torch and of the libraries of linear algebra. Sums are taken in an order that depends on these numbers.
Threads = tuple[int, int]

_one_piece = threading.Lock()  # numbers of threads belong to the process


@contextmanager
def pieces_of(scheduler: str | None) -> Iterator[Mapper]:
    """What calls the pieces of a fit.

    Args:
        scheduler: address of a Dask scheduler; None for this process.
    """
    if scheduler is None:
        yield serial
        return
    with DaskMap(scheduler) as cluster:

        def mapper(function: Callable[[Shared, Item], Value], shared: Shared, items: Iterable[Item]) -> Iterator[Value]:
            threads = _threads()
            values: Iterator[Value] = cluster(_piece, shared, ((function, threads, item) for item in items))
            return values

        yield mapper


def _piece(shared: Any, piece: tuple[Callable[[Any, Any], Any], Threads, Any]) -> Any:
    """One call in a worker, with as many threads as the process that asked for it."""
    from threadpoolctl import ThreadpoolController

    function, (ours, theirs), item = piece
    with _one_piece:
        before = torch.get_num_threads()
        with ThreadpoolController().limit(limits=theirs, user_api="blas"):
            torch.set_num_threads(ours)
            try:
                return function(shared, item)
            finally:
                torch.set_num_threads(before)


def _threads() -> Threads:
    from threadpoolctl import ThreadpoolController

    found = [one["num_threads"] for one in ThreadpoolController().info() if one["user_api"] == "blas"]
    return torch.get_num_threads(), max(found, default=1)
