"""Rollouts of a `StepProgram` on the CPU: packs its arrays once, then runs the kernel of `step_kernel.py`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lln.ops.cpu.backend import constants, forced_level, unavailable
from lln.ops.cpu.threads import run, scratch
from lln.ops.grid import Grid, even_grid
from lln.ops.step_program import Array, LensBlock, Polynomial, StepProgram

if TYPE_CHECKING:
    from lln.ops.cpu.step_kernel import LensShape, StepShape

MOST_BASIS = 128  # as for the transport
_THREAD_WORK = 100_000  # multiply-adds below which a second thread costs more than it saves
_ALIGN = 8  # numbers of float64 in a cache line


def serves(program: StepProgram) -> bool:
    """Whether the kernel can run this program here."""
    if unavailable() is not None:
        return False
    if not program.lenses:
        return True
    grids = (even_grid(block.centers, block.sigma, block.precision) for block in program.lenses)
    return all(isinstance(grid, Grid) and grid.basis <= MOST_BASIS for grid in grids)


def roll(
    program: StepProgram, window: Array, steps: int, inputs: Array | None, threads: int
) -> tuple[Array, NDArray[np.int64]]:
    """The states (B, steps, n) after windows (B, H, n), NaN from where they diverge, and that step (B,), or -1."""
    batch, size = window.shape[0], program.size
    if not batch or not steps:
        return np.empty((batch, steps, size)), np.full(batch, -1, np.int64)
    # One array holds all that moves: finding its address costs more than to make it.
    count = batch * steps * size
    moving = np.empty(count + batch * (1 + size * program.history))
    states = moving[:count].reshape(batch, steps, size)
    diverged: NDArray[np.int64] = moving[count : count + batch].view(np.int64)
    diverged.fill(-1)
    last = count + batch + batch * size
    moving[count + batch : last].reshape(batch, size)[:] = window[:, -1]
    if program.history > 1:
        z = (window - program.mean) / program.scale
        moving[last:].reshape(batch, program.history - 1, size)[:] = np.diff(z, axis=1)[:, ::-1]
    packed = _packed(program, batch, forced_level())
    begin = _address(moving)
    at = begin + 8 * count
    known = 0 if inputs is None else _address(inputs)
    pointers = (at + 8 * batch, begin + 8 * last, known, begin, at)

    def call(first: int, last: int) -> None:
        address, _owner = scratch(8 * packed.room)
        packed.function(*pointers, address, batch, steps, first, last, packed.stored[0])

    rows = packed.shape.rows
    if threads == 1 or batch <= rows:
        call(0, batch)
    else:
        threads = max(1, min(threads, batch * steps * packed.work // _THREAD_WORK))
        share = -(-batch // threads)
        share += -share % rows
        run([partial(call, first, min(first + share, batch)) for first in range(0, batch, share)], threads)
    if diverged.max() >= 0:
        for start in np.flatnonzero(diverged >= 0):
            states[start, diverged[start] :] = np.nan
    return states, diverged


def _address(array: NDArray[Any]) -> int:
    """Where the numbers begin; `array.ctypes` takes several times as long."""
    return int(array.__array_interface__["data"][0])


@dataclass(frozen=True, eq=False)
class _Packed:
    """A program laid out for one kernel.

    Attributes:
        program: what was packed.
        shape: the kernel's.
        function: its machine code.
        arrays: in the order of `StepShape.arrays`.
        offsets: where the pieces of scratch begin, in numbers of float64.
        room: numbers of float64 of scratch.
        work: multiply-adds of one step.
    """

    program: StepProgram
    shape: StepShape
    function: Any
    arrays: tuple[NDArray[Any], ...]
    offsets: tuple[int, ...]
    room: int
    work: int

    @cached_property
    def stored(self) -> tuple[int, NDArray[np.int64]]:
        """The addresses and integers that do not change, in the order of `StepShape`: their place and their owner."""
        program, shape = self.program, self.shape
        lenses = [
            number
            for lens, block in zip(shape.lenses, program.lenses, strict=True)
            for number in (_padded_size(block.coefficients.shape[1], shape.width(lens)), block.coefficients.shape[0])
        ]
        flow = program.flow
        frame = [
            program.size,
            _padded_size(program.size, shape.outputs),
            (program.history - 1) * program.size,
            program.features,
            0 if program.matrix is None else _padded_size(program.features, 4),
            program.inputs,
            _terms(program.polynomial),
            _terms(_field(program)),
            0 if flow is None else flow.substeps,
        ]
        values = [*map(_address, self.arrays), *frame, *lenses, *self.offsets, self.room]
        numbers = np.array(values, np.int64)
        return _address(numbers), numbers


@lru_cache(maxsize=8)
def _packed_tile(program: StepProgram, vectors: int, level: str | None) -> _Packed:
    from lln.ops.cpu.compile import target
    from lln.ops.cpu.lens import Shape
    from lln.ops.cpu.step_kernel import LensShape, StepShape

    grids = [_grid(block) for block in program.lenses]
    lenses = tuple(
        LensShape(Shape.of(grid), block.precision, block.angle_weight is not None)
        for grid, block in zip(grids, program.lenses, strict=True)
    )
    shape = StepShape(
        lenses, program.polynomial is not None, program.flow is not None,
        program.low is not None or program.high is not None, vectors,
        not vectors and program.size <= target(level).width("float64"), target(level),
    )  # fmt: skip
    arrays = [*_frame_arrays(program, shape)]
    for lens, block, grid in zip(lenses, program.lenses, grids, strict=True):
        arrays += _lens_arrays(block, lens, shape, grid)
    offsets, room = _layout(program, shape)
    work = program.size * (program.features + _terms(program.polynomial) + 4 * _terms(_field(program)))
    work += sum(block.coefficients.size for block in program.lenses)
    return _Packed(program, shape, _function(shape), tuple(arrays), offsets, room, work)


def _packed(program: StepProgram, batch: int, level: str | None) -> _Packed:
    """The program for tiles of one start, of one vector of starts or of several, as the number of starts asks for."""
    lanes, vectors = _tile(level)
    return _packed_tile(program, 0 if batch < lanes else 1 if batch == lanes else vectors, level)


@lru_cache(maxsize=8)
def _tile(level: str | None) -> tuple[int, int]:
    """Starts in a vector, and vectors in the largest tile."""
    from lln.ops.cpu.compile import target
    from lln.ops.cpu.step_kernel import VECTORS

    return target(level).width("float64"), VECTORS


@lru_cache(maxsize=64)
def _function(shape: StepShape) -> Any:
    from lln.ops.cpu.compile import compiled, signature
    from lln.ops.cpu.step_kernel import POINTERS, SIZES, emit

    kind = signature(len(POINTERS), len(SIZES) + 1)
    return compiled(emit(shape, "lln_step"), "lln_step", shape.target, kind)


def _grid(block: LensBlock) -> Grid:
    grid = even_grid(block.centers, block.sigma, block.precision)
    if isinstance(grid, str):
        raise TypeError(grid)  # `serves` has said so before
    return grid


def _frame_arrays(program: StepProgram, shape: StepShape) -> list[NDArray[Any]]:
    n, features = program.size, program.features
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
        vector(program.difference_scale, (program.history - 1) * n, 1.0),
        vector(program.input_mean, program.inputs, 0.0),
        vector(program.input_scale, program.inputs, 1.0),
        vector(program.low, n, -np.inf),
        vector(program.high, n, np.inf),
        _matrix(program.matrix, n, features, shape),
        vector(program.offset, n, 0.0),
        _table(program.polynomial),
        _polynomial_matrix(program.polynomial, n, shape),
        _table(_field(program)),
        _polynomial_matrix(_field(program), n, shape),
        np.array([step, step / 2.0, step / 6.0]),
    ]


def _matrix(matrix: Array | None, n: int, count: int, shape: StepShape) -> Array:
    """(n, count) as (outputs / block, padded count, block)."""
    block = shape.outputs
    out = np.zeros((_padded_size(n, block), _padded_size(count, 4)))
    if matrix is not None:
        out[:n, :count] = matrix
    return np.ascontiguousarray(out.reshape(-1, block, out.shape[1]).transpose(0, 2, 1))


def _field(program: StepProgram) -> Polynomial | None:
    return None if program.flow is None else program.flow.field


def _terms(polynomial: Polynomial | None) -> int:
    """Number of terms with the constant one in front, padded."""
    return 0 if polynomial is None else _padded_size(1 + len(polynomial.monomials), 4)


def _table(polynomial: Polynomial | None) -> NDArray[np.int64]:
    """(parent, feature) of every term; padding repeats the first feature."""
    table = np.zeros((max(1, _terms(polynomial)), 2), np.int64)
    if polynomial is not None:
        count = len(polynomial.monomials)
        table[1 : 1 + count] = polynomial.monomials
        table[1 : 1 + count, 0] += 1
        table[1 + count :, 0] = 0
    return table


def _polynomial_matrix(polynomial: Polynomial | None, n: int, shape: StepShape) -> Array:
    if polynomial is None:
        return np.zeros(1)
    offset = np.zeros(n) if polynomial.offset is None else polynomial.offset
    return _matrix(np.column_stack([offset, polynomial.weights]), n, 1 + len(polynomial.monomials), shape)


def _lens_arrays(block: LensBlock, lens: LensShape, shape: StepShape, grid: Grid) -> list[NDArray[Any]]:
    width, dtype = shape.width(lens), np.dtype(lens.precision)
    depth, units, basis = block.coefficients.shape
    padded = _padded_size(units, width)

    def rows(weight: Array | None, bias: Array | None) -> NDArray[Any]:
        if weight is None or bias is None:
            return np.zeros(1, dtype)
        out = np.zeros((1 + weight.shape[1], padded), dtype)
        out[0, :units], out[1:, :units] = bias, np.asarray(weight).T
        return out

    weights = np.array([w for group in grid.groups for w in group.weights]) * block.strength
    lenses = np.zeros((depth, basis, padded), dtype)
    rounded = np.asarray(block.coefficients, dtype).astype(np.float64)
    with np.errstate(under="ignore"):
        lenses[:, :, :units] = rounded.transpose(0, 2, 1) * weights[:, None]
    blocks = lenses.reshape(depth, basis, padded // width, width).transpose(2, 0, 1, 3)
    readout = np.zeros((block.readout.shape[0], padded), dtype)
    readout[:, :units] = block.readout
    gain = np.zeros(_padded_size(len(block.gain), shape.outputs))
    gain[: len(block.gain)] = block.gain
    return [
        rows(block.position_weight, block.position_bias),
        rows(block.angle_weight, block.angle_bias),
        np.ascontiguousarray(blocks),
        readout,
        np.asarray(block.bias, dtype),
        gain,
        constants(grid, block.length, block.strength, lens.precision),
    ]


def _layout(program: StepProgram, shape: StepShape) -> tuple[tuple[int, ...], int]:
    """Where each buffer begins, and the room for all of them."""
    lanes, rows = shape.target.width("float64"), shape.rows
    n = _padded_size(program.size, shape.outputs) + lanes
    features = _padded_size(program.features, 4) + 2 * lanes
    lags = (program.history - 1) * program.size + 2 * lanes
    terms = max(_terms(program.polynomial), _terms(_field(program)))
    units = max(
        (
            _padded_size(b.coefficients.shape[1], shape.width(s))
            for b, s in zip(program.lenses, shape.lenses, strict=True)
        ),
        default=0,
    )
    counts = {
        "x": n, "z": n, "lags": lags, "features": features, "change": n, "terms": terms,
        "work": features, "slope": n, "slopes": n, "now": program.inputs + 2 * lanes, "narrow": features,
        "positions": units, "output": n,
    }  # fmt: skip
    offsets, room = [], 0
    for name in shape.buffers:
        offsets.append(room)
        room += _padded_size(counts[name] * rows, _ALIGN)
    return tuple(offsets), room


def _padded_size(size: int, multiple: int) -> int:
    return size + -size % multiple
