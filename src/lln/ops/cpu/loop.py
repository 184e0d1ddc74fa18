"""The closed loop as one kernel: embedding, stack, readout and feedback, step after step, without leaving the cache.

A tile of starts stays in the kernel for all its steps. The units are padded with zeros to whole blocks (a padded unit
has no embedding, no lens and no readout, so it stays at zero), and so are the components of the state.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

from llvmlite import ir

from lln.ops.cpu.kernels import Block, Form, Shape, pack, tanh
from lln.ops.cpu.simd import Code, Target, Tile, Variable, written

POINTERS = (
    "starts",  # (S, B, n)
    "states",  # (S, steps, B, n)
    "position",  # (S, 1 + n, units): bias, then one row per component of the state
    "angle",  # likewise
    "coefficients",  # (S, D, units, K)
    "readout",  # (S, n, units)
    "scaling",  # (S, 5, padded n): bias of the readout, mean, deviation, factor, shift
    "constants",
    "scratch",
)
SIZES = ("batch", "size", "padded", "units", "depth", "steps", "member", "first_row", "last_row")
BIAS, MEAN, DEVIATION, FACTOR, SHIFT = range(5)


@dataclass(frozen=True)
class Loop:
    """Names one machine function."""

    shape: Shape  #: the grid's compiled part.
    form: Form  #: the tile's.
    target: Target  #: the processor's.
    angles: bool  #: whether the initial angles are embedded; zero otherwise.
    increments: bool  #: whether the readout is added to the state or replaces it.
    precision: str = "float32"  #: "float32" or "float64".

    @property
    def lanes(self) -> int:
        """Numbers in a vector."""
        return self.target.width(self.precision)

    @property
    def width(self) -> int:
        """Units in a block."""
        return self.form.columns * self.lanes

    def scratch(self, units: int, depth: int, padded: int) -> int:
        """Numbers of scratch that one call needs: lenses, positions, and three states of every row."""
        return units * depth * self.shape.basis + self.form.rows * (units + 3 * padded)


@lru_cache(maxsize=64)
def function(loop: Loop) -> Any:
    """The machine function that `loop` names."""
    return written("lln_rollout", POINTERS, SIZES, loop.target, loop.precision, partial(_Writer, loop))


class _Writer(Block):
    """Writes the kernel."""

    def __init__(self, loop: Loop, code: Code) -> None:
        super().__init__(code, loop.shape, loop.form)
        self.loop, args = loop, code.arguments
        self.lenses = args["scratch"]
        size = code.times(args["units"], code.times(args["depth"], self.basis))
        self.positions = code.at(self.lenses, size)
        rows = loop.form.rows
        self.state = code.at(self.positions, code.times(rows, args["units"]))
        self.scaled = code.at(self.state, code.times(rows, args["padded"]))
        self.output = code.at(self.scaled, code.times(rows, args["padded"]))
        embedding = code.times(args["member"], code.times(args["units"], code.plus(args["size"], 1)))
        self.position, self.angle = (code.at(args[key], embedding) for key in ("position", "angle"))
        self.readout = code.at(args["readout"], code.times(args["member"], code.times(args["size"], args["units"])))
        self.scaling = code.at(args["scaling"], code.times(args["member"], code.times(5, args["padded"])))

    def emit(self) -> None:
        code, args = self.code, self.args
        lenses = code.times(code.times(args["member"], args["depth"]), code.times(args["units"], self.basis))
        with code.loop(0, args["units"], self.width) as unit:
            source = code.at(args["coefficients"], code.plus(lenses, code.times(unit, self.basis)))
            pack(code, self.form.columns, self.basis, source, self._block(unit), args)
        with code.loop(args["first_row"], args["last_row"], self.form.rows) as row:
            last = code.minus(args["last_row"], 1)
            rows = [code.least(code.plus(row, r), last) for r in range(self.form.rows)]
            first = code.times(args["member"], args["batch"])
            self._copy(args["starts"], first, rows, inward=True)
            with code.loop(0, args["steps"]) as step:
                self._scale_in()
                with code.loop(0, args["units"], self.width) as unit:
                    self._transport(unit)
                self._read_out()
                self._feed_back()
                time = code.plus(code.times(args["member"], args["steps"]), step)
                self._copy(args["states"], code.times(time, args["batch"]), rows, inward=False)

    def _block(self, unit: ir.Value) -> ir.Value:
        """Where the packed lenses of a block lie."""
        return self.code.at(self.lenses, self.code.times(unit, self.code.times(self.args["depth"], self.basis)))

    def _copy(self, array: ir.Value, first: ir.Value, rows: list[ir.Value], inward: bool) -> None:
        """Between the states of the tile's rows and the rows `first` + rows of an array."""
        code, args = self.code, self.args
        for r, row in enumerate(rows):
            outside = code.at(array, code.times(code.plus(first, row), args["size"]))
            inside = code.at(self.state, code.times(r, args["padded"]))
            source, target = (outside, inside) if inward else (inside, outside)
            with code.loop(0, args["size"]) as k:
                code.store(code.load_scalar(source, k), target, k)

    def _scaling(self, what: int, k: ir.Value) -> Tile:
        return self.code.load(self.scaling, self.code.plus(self.code.times(what, self.args["padded"]), k))

    def _scale_in(self) -> None:
        code, args = self.code, self.args
        with code.loop(0, args["padded"], self.lanes) as k:
            mean, deviation = self._scaling(MEAN, k), self._scaling(DEVIATION, k)
            for r in range(self.form.rows):
                place = code.plus(code.times(r, args["padded"]), k)
                code.store((code.load(self.state, place) - mean) / deviation, self.scaled, place)

    def _transport(self, unit: ir.Value) -> None:
        """A block of units from the scaled states to their last positions."""
        code, args, rows = self.code, self.args, self.form.rows
        y = Variable(code, self._embedding(self.position, unit, None))
        zero = Tile(code, code.constant(0.0).parts * len(y.get().parts))
        theta = Variable(code, self._embedding(self.angle, unit, None) if self.loop.angles else zero)
        with code.loop(0, args["size"]) as k:
            states = [code.load_scalar(self.scaled, code.plus(code.times(r, args["padded"]), k)) for r in range(rows)]
            parts = [part for state in states for part in code.splat(state).parts * self.form.columns]
            state, row = Tile(code, parts), code.times(code.plus(k, 1), args["units"])
            y.set(code.fma(state, self._embedding(self.position, unit, row), y.get()))
            if self.loop.angles:
                theta.set(code.fma(state, self._embedding(self.angle, unit, row), theta.get()))
        if self.loop.angles:
            theta.set(tanh(code, theta.get()))
        self.forward(y, theta, self._block(unit))
        places = [code.plus(code.times(r, args["units"]), unit) for r in range(rows)]
        self.store(y.get(), [code.at(self.positions, place) for place in places])

    def _embedding(self, matrix: ir.Value, unit: ir.Value, row: ir.Value | None) -> Tile:
        place = unit if row is None else self.code.plus(row, unit)
        return Tile(self.code, self.load([self.code.at(matrix, place)]).parts * self.form.rows)

    def _read_out(self) -> None:
        """Every component of the output: a sum over all units."""
        code, args, columns = self.code, self.args, self.form.columns
        with code.loop(0, args["size"]) as k:
            weights = code.at(self.readout, code.times(k, args["units"]))
            zero = Tile(code, code.constant(0.0).parts * (columns * self.form.rows))
            sums = Variable(code, zero)
            with code.loop(0, args["units"], self.width) as unit:
                places = [code.plus(code.times(r, args["units"]), unit) for r in range(self.form.rows)]
                y = self.load([code.at(self.positions, place) for place in places])
                weight = self.load([code.at(weights, unit)])
                sums.set(code.fma(Tile(code, weight.parts * self.form.rows), y, sums.get()))
            bias = code.load_scalar(self.scaling, k)
            for r in range(self.form.rows):
                parts = list(sums.get().parts[r * columns : (r + 1) * columns])
                while len(parts) > 1:
                    parts = [code.builder.fadd(a, b) for a, b in zip(parts[::2], parts[1::2], strict=True)]
                value = code.builder.fadd(code.total(parts[0]), bias)
                code.store(value, self.output, code.plus(code.times(r, args["padded"]), k))

    def _feed_back(self) -> None:
        code, args = self.code, self.args
        with code.loop(0, args["padded"], self.lanes) as k:
            factor, shift = self._scaling(FACTOR, k), self._scaling(SHIFT, k)
            for r in range(self.form.rows):
                place = code.plus(code.times(r, args["padded"]), k)
                state = code.load(self.output, place) * factor + shift
                if self.loop.increments:
                    state = code.load(self.state, place) + state
                code.store(state, self.state, place)
