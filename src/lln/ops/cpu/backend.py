"""The fused transport on the CPU, for NumPy arrays: forward, both backwards; instructions, threads and scratch memory.

S ensemble members with their own coefficients go through one call. Work is cut into tasks (a block of units of one
member), and a thread owns whole tasks, so no two threads add to the same gradient and the bits do not depend on how
many threads there are. All arrays are C-contiguous, float32 or float64. LLVM is not imported before the first call.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import math
import mmap
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from lln.core.errors import InputError, check_int, out_of_memory
from lln.ops.grid import Grid

if TYPE_CHECKING:
    from lln.ops.cpu.kernels import Kernel

Array = NDArray[np.floating[Any]]

_LLVMLITE = (0, 46)  # the first whose LLVM reads opaque pointers by default

# Below this many (element, layer) pairs or multiply-adds a second thread costs more than it saves: about 50 µs of work.
THREAD_WORK = 100_000
# A wide tile packs four times the coefficients of a tall one; beyond this many bytes that no longer fits the cache.
_WIDE_SCRATCH = 2**22
# Very deep stacks run on fewer threads rather than hold more scratch than this many bytes in all.
_ALL_SCRATCH = 2**25
# The gradient keeps the factors of all lenses of a tile up to this depth, beyond it only the positions.
KEPT_DEPTH = 2048

_DOUBLES = (np.dtype(np.float64), torch.float64)

# Scratch of up to this many bytes stays with its thread for the next call; more is given back.
_KEPT = 2**22
_LINE = 64  # bytes in a cache line; vectors that straddle two lines are slow

_local = threading.local()
_lock = threading.Lock()
_pool: ThreadPoolExecutor | None = None
_level: str | None = None


@lru_cache(maxsize=1)
def unavailable() -> str | None:
    """Why this backend cannot run here, in one sentence; None if it can."""
    if importlib.util.find_spec("llvmlite") is None:
        return "llvmlite is not installed (pip install llvmlite)"
    version = importlib.metadata.version("llvmlite")
    if tuple(map(int, version.split(".")[:2])) < _LLVMLITE:
        return f"llvmlite {version} is too old: it needs {'.'.join(map(str, _LLVMLITE))} or newer"
    try:
        from lln.ops.cpu.simd import target

        target()
    except Exception as error:
        if out_of_memory(error) is not None:
            raise  # another backend would compute other digits, and in all later calls
        return f"LLVM cannot compile for this processor ({type(error).__name__}: {error})"
    return None


def level() -> str:
    """The instructions in use: "avx512", "avx2" or "baseline"."""
    from lln.ops.cpu.simd import target

    return target(_level).name


def forced_level() -> str | None:
    """What `forced` asks for; None outside."""
    return _level


@contextmanager
def forced(name: str) -> Iterator[None]:
    """Use the instructions of a lesser processor inside the block: for tests and benchmarks, in all threads."""
    from lln.ops.cpu.simd import target

    global _level
    before, _level = _level, target(name).name
    try:
        yield
    finally:
        _level = before


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
        _do(jobs)
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
            return _first_line(large), large
        buffer = np.empty(size + _LINE, np.uint8)
        _local.buffer, _local.address = buffer, _first_line(buffer)
    return _local.address, buffer


def _first_line(buffer: NDArray[np.uint8]) -> int:
    address = int(buffer.ctypes.data)
    return address + -address % _LINE


def _executor() -> ThreadPoolExecutor:
    global _pool
    with _lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(os.cpu_count() or 1, "lln")
        return _pool


def transport(
    kind: str, inputs: Sequence[Any], outputs: Sequence[Any], grid: Grid, length: float, scale: float, threads: int
) -> None:
    """Run one kind of kernel, "forward", "backward" or "inverse".

    The third dimension of every operand is the units, and the last input is the coefficients. Operands are arrays, or
    tensors without gradients: reading the address of a tensor is ten times faster than that of an array.
    """
    members, batch, units = inputs[0].shape
    depth = inputs[-1].shape[1]
    if not members * batch * units:
        for operand in outputs:
            _array(operand).fill(0.0)
        return
    precision = "float64" if inputs[0].dtype in _DOUBLES else "float32"
    plan = _plan(kind, batch, units, depth, grid, length, scale, precision, _level)
    width = plan.kernel.width
    if units < width:
        narrow, outputs = outputs, [np.empty(_widened(a.shape, width), precision) for a in outputs]
        inputs = [padded_units(_array(a), width) for a in inputs]
    blocks = -(-max(units, width) // width)
    threads = min(threads, members * batch * units * depth // THREAD_WORK, _ALL_SCRATCH // plan.scratch)
    pointers = [*map(_address, inputs), *map(_address, outputs), plan.address]
    sizes = (batch, max(units, width), depth, blocks)
    if threads <= 1:
        plan.call(pointers, sizes, (0, members * blocks, 0, batch))
    else:
        parts = _split(members * blocks, batch, threads, kind)
        run([partial(plan.call, pointers, sizes, part) for part in parts], threads)
    if units < width:
        for small, wide in zip(narrow, outputs, strict=True):
            _array(small)[...] = wide[:, :, :units]


def _array(operand: Any) -> Array:
    array: Array = operand if isinstance(operand, np.ndarray) else operand.detach().numpy()
    return array


def _address(operand: Any) -> int:
    address: int = operand.ctypes.data if isinstance(operand, np.ndarray) else operand.data_ptr()
    return address


def _split(tasks: int, batch: int, threads: int, kind: str) -> list[tuple[int, int, int, int]]:
    """(first task, last task, first row, last row) of every thread; only the forward may share a task by rows."""
    pieces = max(1, min(threads, tasks))
    cuts = [tasks * k // pieces for k in range(pieces + 1)]
    if kind != "forward" or threads <= tasks:
        return [(a, b, 0, batch) for a, b in pairwise(cuts)]
    share = -(-batch // -(-threads // tasks))
    share += -share % 8
    return [(t, t + 1, row, min(row + share, batch)) for t in range(tasks) for row in range(0, batch, share)]


@dataclass(frozen=True)
class _Plan:
    """A compiled kernel with what it needs beside the arrays."""

    kernel: Kernel
    function: Any
    constants: Array
    address: int
    scratch: int

    def call(self, pointers: Sequence[int], sizes: Sequence[int], part: Sequence[int]) -> None:
        address, _owner = scratch(self.scratch)
        self.function(*pointers, address, *sizes, *part)


@lru_cache(maxsize=256)
def _plan(
    kind: str,
    batch: int,
    units: int,
    depth: int,
    grid: Grid,
    length: float,
    scale: float,
    precision: str,
    name: str | None,
) -> _Plan:
    from lln.ops.cpu.kernels import LONG, TALL, WIDE, Kernel, function
    from lln.ops.cpu.lens import Shape
    from lln.ops.cpu.simd import target

    goal, shape, size = target(name), Shape.of(grid), np.dtype(precision).itemsize
    wide = Kernel(kind, shape, WIDE, goal, False, precision)
    fits = batch < TALL.rows and units >= wide.width and size * wide.scratch(depth) <= _WIDE_SCRATCH
    keeps = kind == "backward" and not shape.far and depth <= KEPT_DEPTH
    tall = LONG if kind == "forward" and goal.lanes == 16 and batch >= LONG.rows else TALL
    kernel = Kernel(kind, shape, WIDE if fits else tall, goal, keeps, precision)
    numbers = constants(grid, length, scale, precision)
    return _Plan(kernel, function(kernel), numbers, numbers.ctypes.data, size * kernel.scratch(depth))


@lru_cache(maxsize=256)
def constants(grid: Grid, length: float, scale: float, precision: str = "float32") -> Array:
    """The numbers that a kernel reads, in the order of `lens.py`."""
    limit = min(grid.clamp / grid.kappa, float(np.finfo(precision).max))
    twist = 2.0 * grid.kappa * math.log(2.0)
    index = 2.0 / (grid.gamma * math.log(2.0)) if grid.gamma else 0.0
    scalars = (length, grid.kappa, grid.gamma, grid.gamma_low, grid.offset, limit, twist, index)
    weights = [scale * weight for group in grid.groups for weight in group.weights]
    anchors = [group.anchor for group in grid.groups]
    rounded = [_rounded(anchor, grid, precision) for anchor in anchors]
    shifts = [grid.kappa * (r - anchor) for r, anchor in zip(rounded, anchors, strict=True)]
    with np.errstate(over="ignore", under="ignore"):
        return np.array([*scalars, *weights, *rounded, *shifts], np.float64).astype(precision)


def _rounded(anchor: float, grid: Grid, precision: str) -> float:
    """An anchor with no more binary places than positions at the end of the grid have: their difference is exact."""
    groups = (grid.groups[0], grid.groups[-1])
    ends = [g.anchor + i * grid.spacing for g, i in zip(groups, (-groups[0].below, groups[1].above), strict=True)]
    place = float(np.spacing(np.dtype(precision).type(max(map(abs, ends)))))
    return round(anchor / place) * place


def _widened(shape: tuple[int, ...], width: int) -> tuple[int, ...]:
    return (*shape[:2], width, *shape[3:])


def padded_units(array: Array, width: int) -> Array:
    """Zeros behind the units, the third dimension, up to `width` of them; contiguous."""
    if array.shape[2] == width:
        return np.ascontiguousarray(array)
    out = np.zeros(_widened(array.shape, width), array.dtype)
    out[:, :, : array.shape[2]] = array
    return out


def _forget() -> None:
    """A forked child has none of its parent's threads: it starts a pool of its own if it needs one."""
    global _pool, _lock
    _pool, _lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
