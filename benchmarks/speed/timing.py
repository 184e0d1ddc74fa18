"""Contenders timed side by side: interleaved, in one process, one thread, with the garbage collector out of the way.

On a CPU the clock is the processor time of this process. With one thread that is the time by the clock on the wall,
less what other programs took meanwhile: long samples are never free of those, short ones can be, and a ratio would lean
towards the short ones. On a GPU it is the clock on the wall, from idle to idle.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch

Contender = Callable[[], object]

_SAMPLE = 2e-3  # a sample is as many calls as take this long, so that the clock's own cost vanishes
_LONG = 4  # a race that lasts this many times its seconds ends after three rounds
_PER_ROUND = 6  # samples that a quick contender takes in one round, while a slow one takes one


@dataclass(frozen=True)
class Times:
    """Seconds of one call, sample by sample."""

    seconds: tuple[float, ...]

    def quantile(self, q: float) -> float:
        """The q-quantile of the samples."""
        return float(np.quantile(self.seconds, q))

    @property
    def minimum(self) -> float:
        """The fastest sample: on a shared machine the one that others disturbed least."""
        return min(self.seconds)


def race(
    contenders: Mapping[str, Contender], *, seconds: float, device: str = "cpu", least: int = 5
) -> dict[str, Times]:
    """Time all contenders in turns until `seconds` have passed and `least` rounds are done, three if they are long.

    Every contender is called twice first, which compiles what it compiles. Whatever disturbs the machine falls on all
    contenders alike, because they take turns.
    """
    once = {name: _warm(call, device) for name, call in contenders.items()}
    slowest = max(once.values())
    calls = {name: max(1, round(_SAMPLE / cost)) for name, cost in once.items()}
    turns = {name: int(min(_PER_ROUND, max(1, slowest / (cost * calls[name])))) for name, cost in once.items()}
    samples: dict[str, list[float]] = {name: [] for name in contenders}
    with _no_collection():
        start, rounds = time.perf_counter(), 0
        while True:
            spent = time.perf_counter() - start
            if (rounds >= least and spent > seconds) or (rounds >= 3 and spent > _LONG * seconds):
                break
            rounds += 1
            for name, call in contenders.items():
                samples[name] += [_sample(call, calls[name], device) for _ in range(turns[name])]
    return {name: Times(tuple(values)) for name, values in samples.items()}


def _warm(call: Contender, device: str) -> float:
    _sample(call, 1, device)
    return _sample(call, 1, device)


def _sample(call: Contender, calls: int, device: str) -> float:
    clock = time.perf_counter if device == "cuda" else time.process_time
    synchronise(device)
    start = clock()
    for _ in range(calls):
        call()
    synchronise(device)
    return (clock() - start) / calls


def synchronise(device: str) -> None:
    """Wait for a GPU; a CPU has nothing to wait for."""
    if device == "cuda":
        torch.cuda.synchronize()


@contextmanager
def _no_collection() -> Iterator[None]:
    was = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


@contextmanager
def threads(count: int) -> Iterator[None]:
    """So many torch threads inside the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
