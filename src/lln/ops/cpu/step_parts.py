"""Parts of the kernel of a whole step: functions of single features, for vector fields, and lens blocks.

The functions are right to the last digit or two of float64.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from llvmlite import ir

from lln.ops.cpu.kernels import EXP2, Block, Shape, polynomial, tanh
from lln.ops.cpu.simd import INT, INT32, Code, Tile, Variable
from lln.ops.grid import LOG2E

if TYPE_CHECKING:
    from lln.ops.cpu.step_kernel import StepShape, StepWriter

_FARTHEST = 700.0  # of arguments: exponentials of less are zero for our purposes, of more infinite
# Pi in three pieces: a multiple of the first has no rounding error below 2^20.
_PI = (3.1415926534682512, 1.2154201012607932e-10, 4.044532497591901e-21)
_SINE = tuple((-1.0) ** k / math.factorial(2 * k + 1) for k in range(11))  # in the square of the argument
_ROUNDING = 1.5 * 2.0**52  # adding this rounds to an integer, which the lowest bits hold
_WIDEST = 2.0  # of a remainder; larger ones come from arguments beyond all precision


def gaussian(code: Code, x: Tile) -> Tile:
    """exp(-x^2 / 2)."""
    return _power(code, code.at_most(x * x, code.constant(2 * _FARTHEST)), -0.5 * LOG2E)


def exponential(code: Code, x: Tile) -> Tile:
    """exp(x)."""
    return _power(code, _clipped(code, x, _FARTHEST), LOG2E)


def kink(code: Code, x: Tile) -> Tile:
    """The absolute value of x."""
    return code.at_least(x, -x)


def reciprocal(code: Code, x: Tile) -> Tile:
    """1 / x."""
    return code.constant(1.0) / x


def saturation(code: Code, x: Tile) -> Tile:
    """The number x, clipped to -1 and 1."""
    return _clipped(code, x, 1.0)


def _clipped(code: Code, x: Tile, most: float) -> Tile:
    return code.at_least(code.at_most(x, code.constant(most)), code.constant(-most))


def _power(code: Code, x: Tile, rate: float) -> Tile:
    """2^(rate x)."""
    factor, magic = code.constant(rate), code.constant(code.magic)
    bits = code.exact_fma(x, factor, magic)
    f = code.exact_fma(x, factor, magic - bits)
    power = code.power(bits)
    return code.fma(polynomial(code, EXP2[code.precision], f) * f, power, power)


def sine(code: Code, x: Tile) -> Tile:
    """sin(x): the remainder r of a multiple k of pi, the odd polynomial of r, and the sign of k."""
    magic = code.constant(_ROUNDING)
    bits = code.exact_fma(x, code.constant(1.0 / math.pi), magic)
    multiple, rest = bits - magic, x
    for piece in _PI:
        rest = code.exact_fma(multiple, code.constant(-piece), rest)
    rest = _clipped(code, rest, _WIDEST)
    square = rest * rest
    value = code.fma(polynomial(code, _SINE[1:], square) * square, rest, rest)
    whole = ir.VectorType(INT, code.lanes)
    shift = ir.Constant(whole, [63] * code.lanes)

    def signed(part: ir.Value, odd: ir.Value) -> ir.Value:
        builder = code.builder
        flip = builder.shl(builder.bitcast(odd, whole), shift)
        return builder.bitcast(builder.xor(builder.bitcast(part, whole), flip), code.vector)

    return code.each(signed, value, bits)


_KINDS = (gaussian, sine, kink, tanh, exponential, reciprocal, saturation)


def write_functions(writer: StepWriter, seen: ir.Value) -> None:
    """Functions of single features, behind the features; a single start has several in a vector."""
    code, out, first = writer.code, writer.item(seen, writer.args["features"]), 0
    for kind in writer.shape.functions:
        last = writer.args[f"functions{kind}"]
        with code.loop(first, last, writer.shape.slots) as k:
            slope, shift = writer.parameter("function_slopes", k), writer.parameter("function_shifts", k)
            writer.store(_KINDS[kind](code, code.fma(slope, _features(writer, seen, k), shift)), out, k)
        first = last


def _features(step: StepWriter, seen: ir.Value, k: ir.Value) -> Tile:
    """The feature of function k, of every start; or, for a single start, those of a vector of functions."""
    code, builder, places = step.code, step.code.builder, step.args["function_places"]
    slots = [builder.gep(places, [code.plus(k, q)], source_etype=INT) for q in range(step.shape.slots)]
    items = [step.read(seen, builder.load(slot, typ=INT, align=8)) for slot in slots]
    if not step.shape.single:
        return items[0]
    vector = ir.Constant(code.vector, ir.Undefined)
    for lane, item in enumerate(items):
        vector = builder.insert_element(vector, item.parts[0], ir.Constant(INT32, lane))
    return Tile(code, [vector])


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
