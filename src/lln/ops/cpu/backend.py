"""The CPU backend: whether it can run here, threads and scratch memory for all kernels, and rollouts of a whole step.

Rollouts of a `StepProgram` pack its arrays once, then run the kernel of `step_kernel.py`, which takes all steps of all
starts in one call. What networks alone need is in `networks.py`. LLVM is not imported before the first call.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
import mmap
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lln.core.errors import InputError, check_int, out_of_memory
from lln.ops.grid import Grid, even_grid

if TYPE_CHECKING:
    from lln.ops.cpu.step_kernel import StepShape
    from lln.ops.cpu.step_parts import LensShape
    from lln.ops.rollout import LensBlock, Polynomial, StepProgram


Array = NDArray[np.floating[Any]]

_LLVMLITE = (0, 46)  # the first whose LLVM reads opaque pointers by default

# Below this many (element, layer) pairs or multiply-adds a second thread costs more than it saves: about 50 µs of work.
THREAD_WORK = 100_000
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


def _forget() -> None:
    """A forked child has none of its parent's threads: it starts a pool of its own if it needs one."""
    global _pool, _lock
    _pool, _lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


MOST_BASIS = 128  # as for the transport
_ALIGN = 8  # numbers of float64 in a cache line
GROUP = 4  # terms that a product with a matrix handles side by side


def serves(program: StepProgram) -> bool:
    """Whether the kernel can run this program here."""
    if unavailable() is not None:
        return False
    if not program.lenses:
        return True
    grids = (even_grid(block.centers, block.sigma, block.precision) for block in program.lenses)
    return all(isinstance(grid, Grid) and grid.basis <= MOST_BASIS for grid in grids)


def track(
    program: StepProgram, window: Array, steps: int, inputs: Array | None, threads: int
) -> tuple[NDArray[np.float64], NDArray[np.int64] | None]:
    """Roll out from windows (B, H, n) with inputs (B, steps, m): the states and marks of a `Track`."""
    batch, size = window.shape[0], program.size
    # One array holds all that the kernel writes: finding the address of another costs more than to cut this one.
    count = batch * (steps + 1) * size
    written = np.empty(count + 2 * batch)
    states = written[:count].reshape(batch, steps + 1, size)
    if not batch:
        return states, None
    past = None
    if program.history > 1:
        z = (window - program.mean) / program.scale
        past = np.ascontiguousarray(np.diff(z, axis=1)[:, ::-1])
    packed = _packed(program, batch, forced_level())
    begin = _address(written)
    at = begin + 8 * count
    arrays = (_address(window), _address(past), _address(inputs), begin, at, at + 8 * batch)
    stored, function, room = packed.stored[0], packed.function, 8 * packed.room
    noticed = 0

    def call(first: int, last: int) -> None:
        nonlocal noticed
        address, _owner = scratch(room)
        if function(*arrays, address, batch, steps, first, last, stored):
            noticed = 1

    rows = packed.shape.rows
    if threads == 1 or batch <= rows:
        call(0, batch)
    else:
        threads = max(1, min(threads, batch * steps * packed.work // THREAD_WORK))
        share = -(-batch // threads)
        share += -share % rows
        run([partial(call, first, min(first + share, batch)) for first in range(0, batch, share)], threads)
    if not noticed:
        return states, None
    marks: NDArray[np.int64] = written[count:].view(np.int64).reshape(2, batch)
    for start in np.flatnonzero(marks[0] >= 0):
        states[start, marks[0, start] :] = np.nan
    return states, marks


def _address(array: Any) -> int:
    """Where the numbers begin, 0 for no array; `array.ctypes` takes many times as long."""
    if array is None:
        return 0
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(array))
    except (TypeError, ValueError):  # an array that is read-only or empty
        return int(array.__array_interface__["data"][0])


def _aligned(array: NDArray[Any]) -> NDArray[Any]:
    """A copy that begins with a cache line: vectors that straddle two lines are slow."""
    line = 8 * _ALIGN
    room = np.empty(array.nbytes + line, np.uint8)
    first = -_address(room) % line
    copied = room[first : first + array.nbytes].view(array.dtype).reshape(array.shape)
    copied[...] = array
    return copied


@dataclass(frozen=True, eq=False)
class _Packed:
    """A program laid out for one kernel."""

    program: StepProgram  #: what was packed.
    shape: StepShape  #: the kernel's.
    function: Any  #: its machine code.
    arrays: tuple[NDArray[Any], ...]  #: in the order of `StepShape.arrays`.
    offsets: tuple[int, ...]  #: where the pieces of scratch begin, in numbers of float64.
    room: int  #: numbers of float64 of scratch.
    work: int  #: multiply-adds of one step.

    @cached_property
    def stored(self) -> tuple[int, NDArray[np.int64]]:
        """The addresses and integers that do not change, in the order of `StepShape`: their place and their owner."""
        program, shape = self.program, self.shape
        lenses = [
            number
            for lens, block in zip(shape.lenses, program.lenses, strict=True)
            for number in (padded_size(block.coefficients.shape[1], shape.width(lens)), block.coefficients.shape[0])
        ]
        flow = program.flow
        frame = [
            program.size,
            padded_size(program.size, shape.outputs),
            (program.history - 1) * program.size,
            program.features,
            program.inputs,
            0 if flow is None else flow.substeps,
            *_counts(program, program.polynomial, program.matrix, program.offset),
            *_flow_counts(program, shape),
            *_slots(program, shape)[1],
        ]
        values = [*map(_address, self.arrays), *frame, *lenses, *self.offsets, self.room]
        numbers = np.array(values, np.int64)
        return _address(numbers), numbers


@lru_cache(maxsize=8)
def _packed_tile(program: StepProgram, vectors: int, level: str | None) -> _Packed:
    from lln.ops.cpu.kernels import Shape
    from lln.ops.cpu.simd import target
    from lln.ops.cpu.step_kernel import StepShape
    from lln.ops.cpu.step_parts import LensShape

    grids = [lens_grid(block) for block in program.lenses]
    lenses = tuple(
        LensShape(Shape.of(grid), block.precision, block.angle_weight is not None)
        for grid, block in zip(grids, program.lenses, strict=True)
    )
    shape = StepShape(
        lenses, program.flow is not None, _kinds(program),
        program.low is not None or program.high is not None, vectors,
        not vectors and program.size <= target(level).width("float64"), target(level),
    )  # fmt: skip
    arrays = [*_frame_arrays(program, shape)]
    for lens, block, grid in zip(lenses, program.lenses, grids, strict=True):
        arrays += _lens_arrays(block, lens, shape, grid)
    offsets, room = _layout(program, shape)
    terms, slopes = sum(_counts(program, program.polynomial, program.matrix)), sum(_flow_counts(program, shape))
    work = program.size * (terms + 4 * slopes)
    work += sum(block.coefficients.size for block in program.lenses)
    return _Packed(program, shape, _function(shape), tuple(map(_aligned, arrays)), offsets, room, work)


def _packed(program: StepProgram, batch: int, level: str | None) -> _Packed:
    """The program for tiles of one start, of one vector of starts or of several, as the number of starts asks for."""
    lanes, vectors = _tile(level)
    return _packed_tile(program, 0 if batch < lanes else 1 if batch == lanes else vectors, level)


@lru_cache(maxsize=8)
def _tile(level: str | None) -> tuple[int, int]:
    """Starts in a vector, and vectors in the largest tile."""
    from lln.ops.cpu.simd import target
    from lln.ops.cpu.step_kernel import VECTORS

    return target(level).width("float64"), VECTORS


@lru_cache(maxsize=64)
def _function(shape: StepShape) -> Any:
    from lln.ops.cpu.simd import compiled
    from lln.ops.cpu.step_kernel import POINTERS, SIZES, emit

    module = emit(shape, "lln_step")
    return compiled(module, "lln_step", shape.target, len(POINTERS), len(SIZES) + 1, ctypes.c_int64)


def lens_grid(block: LensBlock) -> Grid:
    """The grid of a block's control points."""
    grid = even_grid(block.centers, block.sigma, block.precision)
    if isinstance(grid, str):
        raise TypeError(grid)  # `serves` has said so before
    return grid


def _frame_arrays(program: StepProgram, shape: StepShape) -> list[NDArray[Any]]:
    n = program.size
    lanes = shape.target.width("float64")

    def vector(values: Any, count: int, fill: float) -> Array:
        out = np.full(count + 2 * lanes, fill)
        if values is not None:
            out[:count] = np.ravel(values)
        return out

    flow = program.flow
    step = 0.0 if flow is None else flow.dt / flow.substeps
    return [
        vector(program.mean, n, 0.0),
        vector(program.scale, n, 1.0),
        1.0 / vector(program.scale, n, 1.0),
        1.0 / vector(program.difference_scale, (program.history - 1) * n, 1.0),
        vector(program.input_mean, program.inputs, 0.0),
        1.0 / vector(program.input_scale, program.inputs, 1.0),
        vector(program.low, n, -np.inf),
        vector(program.high, n, np.inf),
        vector(program.watch_low, n, -np.inf),
        vector(program.watch_high, n, np.inf),
        *_polynomial_arrays(program, shape, program.polynomial, program.matrix, program.offset),
        *_polynomial_arrays(program, shape, _field(program), of_flow=True),
        np.array([step, step / 2.0, step / 6.0]),
        *_function_arrays(program, shape),
    ]


def _field(program: StepProgram) -> Polynomial | None:
    return None if program.flow is None else program.flow.field


def _counts(
    program: StepProgram, polynomial: Polynomial | None, *linear: Array | None, functions: int = 0
) -> tuple[int, int]:
    """Numbers of linear terms (the number 1, features, functions) and of products, padded; none without a part."""
    if polynomial is None and all(array is None for array in linear):
        return 0, 0
    products = 0 if polynomial is None else int((polynomial.monomials[:, 0] >= 0).sum())
    return padded_size(1 + program.features + functions, GROUP), padded_size(products, GROUP)


def _flow_counts(program: StepProgram, shape: StepShape) -> tuple[int, int]:
    _, ends = _slots(program, shape)
    return _counts(program, _field(program), functions=ends[-1] if ends else 0)


def _kinds(program: StepProgram) -> tuple[int, ...]:
    """Kinds of functions that occur."""
    functions = None if program.flow is None else program.flow.functions
    return () if functions is None else tuple(np.unique(functions[:, 1]).tolist())


def _slots(program: StepProgram, shape: StepShape) -> tuple[NDArray[np.int64], list[int]]:
    """The slot of every function, by kind, and the padded end of every kind that occurs."""
    slots = np.zeros(0, np.int64)
    ends: list[int] = []
    if program.flow is not None and program.flow.functions is not None and program.flow.function_count:
        kinds, slots = program.flow.functions[:, 1], np.zeros(program.flow.function_count, np.int64)
        for kind in shape.functions:
            which = np.flatnonzero(kinds == kind)
            first = ends[-1] if ends else 0
            slots[which] = first + np.arange(len(which))
            ends.append(first + padded_size(len(which), shape.slots))
    return slots, ends


def _function_arrays(program: StepProgram, shape: StepShape) -> list[NDArray[Any]]:
    """The feature, slope and shift of every slot; padding is a function of 1, which is finite."""
    slots, ends = _slots(program, shape)
    flow = program.flow
    if not ends or flow is None or flow.functions is None or flow.arguments is None:
        return []
    places, slopes, shifts = np.zeros(ends[-1], np.int64), np.zeros(ends[-1]), np.ones(ends[-1])
    places[slots], slopes[slots], shifts[slots] = flow.functions[:, 0], flow.arguments[:, 0], flow.arguments[:, 1]
    return [places, slopes, shifts]


def _products(
    polynomial: Polynomial, first: int, place_of: NDArray[np.int64]
) -> tuple[list[tuple[int, int]], list[int]]:
    """Monomials of degree two and more as products of two earlier numbers, and the place of every monomial.

    A place is that of a feature or function, from `place_of`, or of a product from `first` on.
    """
    table: list[tuple[int, int]] = []
    places: list[int] = []
    for parent, factor in polynomial.monomials.tolist():
        feature = int(place_of[factor])
        if parent >= 0:
            table.append((places[parent], feature))
        places.append(feature if parent < 0 else first + len(table) - 1)
    return table, places


def _polynomial_arrays(
    program: StepProgram,
    shape: StepShape,
    polynomial: Polynomial | None,
    matrix: Array | None = None,
    offset: Array | None = None,
    *,
    of_flow: bool = False,
) -> tuple[NDArray[np.int64], Array]:
    """The table of products, and the weights (n, terms) as (outputs / block, terms, block)."""
    linear, products = _flow_counts(program, shape) if of_flow else _counts(program, polynomial, matrix, offset)
    table = np.full((max(1, products), 2), -1, np.int64)  # padding multiplies 1 by 1
    block = shape.outputs
    if not linear:
        return table, np.zeros(1)
    weights = np.zeros((padded_size(program.size, block), linear + products))
    own = weights[: program.size]
    if offset is not None:
        own[:, 0] = offset
    if matrix is not None:
        own[:, 1 : 1 + program.features] = matrix
    if polynomial is not None:
        own[:, 0] += 0.0 if polynomial.offset is None else polynomial.offset
        place_of = np.concatenate([np.arange(program.features), program.features + _slots(program, shape)[0]])
        pairs, places = _products(polynomial, linear - 1, place_of)
        table[: len(pairs)] = np.reshape(pairs, (-1, 2))
        np.add.at(own.T, np.array(places, np.int64) + 1, polynomial.weights.T)
    return table, np.ascontiguousarray(weights.reshape(-1, block, linear + products).transpose(0, 2, 1))


def _lens_arrays(block: LensBlock, lens: LensShape, shape: StepShape, grid: Grid) -> list[NDArray[Any]]:
    from lln.ops.cpu.kernels import constants

    width, dtype = shape.width(lens), np.dtype(lens.precision)
    units = block.coefficients.shape[1]
    padded = padded_size(units, width)

    def rows(weight: Array | None, bias: Array | None) -> NDArray[Any]:
        if weight is None or bias is None:
            return np.zeros(1, dtype)
        out = np.zeros((1 + weight.shape[1], padded), dtype)
        out[0, :units], out[1:, :units] = bias, np.asarray(weight).T
        return out

    readout = np.zeros((block.readout.shape[0], padded), dtype)
    readout[:, :units] = block.readout
    gain = np.zeros(padded_size(len(block.gain), shape.outputs))
    gain[: len(block.gain)] = block.gain
    return [
        rows(block.position_weight, block.position_bias),
        rows(block.angle_weight, block.angle_bias),
        lens_rows(block, grid, width),
        readout,
        np.asarray(block.bias, dtype),
        gain,
        constants(grid, block.length, block.strength, lens.precision),
    ]


def lens_rows(block: LensBlock, grid: Grid, width: int) -> NDArray[Any]:
    """The coefficients with the weights folded in, in blocks of `width` units: (blocks, D, K, width)."""
    depth, units, basis = block.coefficients.shape
    padded, dtype = padded_size(units, width), np.dtype(block.precision)
    weights = np.array([w for group in grid.groups for w in group.weights]) * block.strength
    lenses = np.zeros((depth, basis, padded), dtype)
    rounded = np.asarray(block.coefficients, dtype).astype(np.float64)
    with np.errstate(under="ignore"):
        lenses[:, :, :units] = rounded.transpose(0, 2, 1) * weights[:, None]
    return np.ascontiguousarray(lenses.reshape(depth, basis, padded // width, width).transpose(2, 0, 1, 3))


def _layout(program: StepProgram, shape: StepShape) -> tuple[tuple[int, ...], int]:
    """Where each buffer begins, and the room for all of them."""
    lanes, rows = shape.target.width("float64"), shape.rows
    n = padded_size(program.size, shape.outputs) + lanes
    counts = _counts(program, program.polynomial), _flow_counts(program, shape)
    linear = max(padded_size(1 + program.features, GROUP), *(count[0] for count in counts))
    features = linear + max(count[1] for count in counts) + 2 * lanes
    lags = (program.history - 1) * program.size + 2 * lanes
    units = max(
        (
            padded_size(b.coefficients.shape[1], shape.width(s))
            for b, s in zip(program.lenses, shape.lenses, strict=True)
        ),
        default=0,
    )
    sizes = {
        "x": n, "z": n, "lags": lags, "one": 1, "features": features, "change": n,
        "work_one": 1, "work": features, "slope": n, "slopes": n, "now": program.inputs + 2 * lanes, "narrow": features,
        "positions": units, "output": n,
    }  # fmt: skip
    offsets, room = [], 0
    for name in shape.buffers:
        offsets.append(room)
        room += padded_size(sizes[name] * rows, _ALIGN)
    return tuple(offsets), room


def padded_size(size: int, multiple: int) -> int:
    """The next multiple of `multiple` from `size` on."""
    return size + -size % multiple
