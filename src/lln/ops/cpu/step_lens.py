"""A lens block inside the step of `step_kernel.py`: from the features of a tile to the output of the network."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from llvmlite import ir

from lln.ops.cpu.kernels import Block
from lln.ops.cpu.lens import Shape, tanh
from lln.ops.cpu.simd import Code, Tile, Variable

if TYPE_CHECKING:
    from lln.ops.cpu.step_kernel import StepShape


@dataclass(frozen=True)
class LensShape:
    """The compiled part of a lens block: its grid, its precision, and whether it embeds angles."""

    grid: Shape
    precision: str
    angles: bool


class LensPart(Block):
    """One lens block inside the step."""

    def __init__(self, frame: Code, index: int, shape: StepShape, buffer: dict[str, ir.Value]) -> None:
        lens, args = shape.lenses[index], frame.arguments
        code = frame.as_precision(lens.precision)
        names = ("position", "angle", "lenses", "readout", "bias", "gain", "constants", "units", "depth")
        code.arguments = {**args, **{name: args[f"{name}{index}"] for name in names}}
        super().__init__(code, lens.grid, shape.form)
        self.rows, self.angles, self.frame, self.buffer = shape.rows, lens.angles, frame, buffer

    def compute(self, seen: ir.Value) -> None:
        """The output of the network without its gain, in float64, to the array of outputs."""
        source = self._narrowed(seen)
        with self.code.loop(0, self.args["units"], self.width) as unit, self._starts() as first:
            self._transport(unit, first, source)
        with self._starts() as first:
            self._read_out(first)

    def _starts(self) -> AbstractContextManager[ir.Value]:
        """A loop over the starts of the tile, as many at a time as the form has rows."""
        return self.code.loop(0, self.rows, self.form.rows)

    def _narrowed(self, seen: ir.Value) -> ir.Value:
        """The features in the precision of the block."""
        frame = self.frame
        if self.code.precision == frame.precision:
            return seen
        narrow = self.buffer["narrow"]
        kind = ir.VectorType(self.code.scalar, frame.lanes)
        with frame.loop(0, frame.times(self.args["features"], self.rows), frame.lanes) as i:
            value = frame.builder.fptrunc(frame.load(seen, i).parts[0], kind)
            self.code.store(value, narrow, i)
        return narrow

    def _transport(self, unit: ir.Value, first: ir.Value, source: ir.Value) -> None:
        """A block of units of some starts, from the features to their last positions."""
        code, args = self.code, self.args
        rows = [code.plus(first, r) for r in range(self.form.rows)]
        y = Variable(code, self._embedding("position", unit))
        zero = Tile(code, code.constant(0.0).parts * len(y.get().parts))
        theta = Variable(code, self._embedding("angle", unit) if self.angles else zero)
        with code.loop(0, args["features"]) as j:
            values = [code.load_scalar(source, code.plus(code.times(j, self.rows), r)) for r in rows]
            feature = Tile(code, [part for v in values for part in code.splat(v).parts * self.form.columns])
            row = code.plus(code.times(code.plus(j, 1), args["units"]), unit)
            y.set(code.fma(feature, self._embedding("position", row), y.get()))
            if self.angles:
                theta.set(code.fma(feature, self._embedding("angle", row), theta.get()))
        if self.angles:
            theta.set(tanh(code, theta.get()))
        packed = code.at(args["lenses"], code.times(unit, code.times(args["depth"], self.basis)))
        self.forward(y, theta, packed)
        places = [code.plus(code.times(r, args["units"]), unit) for r in rows]
        self.store(y.get(), [code.at(self.buffer["positions"], place) for place in places])

    def _embedding(self, name: str, place: ir.Value) -> Tile:
        return Tile(self.code, self.load([self.code.at(self.args[name], place)]).parts * self.form.rows)

    def _read_out(self, first: ir.Value) -> None:
        """Every coordinate of some starts: a sum over all units."""
        code, args, columns, rows = self.code, self.args, self.form.columns, self.form.rows
        places = [code.plus(first, r) for r in range(rows)]
        output, positions = self.buffer["output"], self.buffer["positions"]
        with code.loop(0, args["size"]) as i:
            weights = code.at(args["readout"], code.times(i, args["units"]))
            sums = Variable(code, Tile(code, code.constant(0.0).parts * (columns * rows)))
            with code.loop(0, args["units"], self.width) as unit:
                y = self.load([code.at(positions, code.plus(code.times(r, args["units"]), unit)) for r in places])
                weight = self.load([code.at(weights, unit)])
                sums.set(code.fma(Tile(code, weight.parts * rows), y, sums.get()))
            bias = code.load_scalar(args["bias"], i)
            for r, place in enumerate(places):
                parts = list(sums.get().parts[r * columns : (r + 1) * columns])
                while len(parts) > 1:
                    parts = [code.builder.fadd(a, b) for a, b in zip(parts[::2], parts[1::2], strict=True)]
                value = code.builder.fadd(code.total(parts[0]), bias)
                if code.precision == "float32":
                    value = code.builder.fpext(value, self.frame.scalar)
                self.frame.store(value, output, self.frame.plus(self.frame.times(i, self.rows), place))
