"""The kernels of the transport: elementary functions, one lens, and the loops around it.

A lens is the factored Gaussians of `grid.py`, their sum and slopes, in vector arithmetic. It is emitted once per tile
and layer; around it are loops over blocks of units, tiles of rows, and layers.

Units never meet inside the stack, so a block of neighbouring units goes through all layers for all rows before the
next block starts: its coefficients, packed so that a vector holds one coefficient of neighbouring units, stay in the
nearest cache. A block is as wide as a tile; the last one is moved back to end with the last unit, so the units that
it shares with its neighbour are computed twice, to the same bits, and nothing is read or written beyond an array.

Packing transposes four coefficients of four neighbouring units at a time in registers; one number at a time, it would
cost as much as a whole forward pass of a single row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
from llvmlite import ir
from numpy.typing import NDArray

from lln.ops.cpu.simd import INT32, Code, Target, Tile, Variable, written
from lln.ops.grid import LOG2E, Grid

# A kernel's array of constants begins with: L, kappa, gamma, its remainder, C, the clamp (of y - anchor), 2 kappa ln 2
# (of the slope) and 2 / (gamma ln 2) (from log E to an index). There follow the weights, folded with the scale, the
# anchors, and kappa times what rounding added to these.
SCALARS = 8

_FAR = 8.0  # |z_i| of one group that float32 can hold stay below

Layer = Callable[[int], Tile]

# 2^f = 1 + f (c1 + c2 f + ...) on [-1/2, 1/2]. In float32 the best fit errs by 2e-9, relative; one degree less would
# err by 9e-8, more than rounding does, and the outermost Gaussian takes the sixth power of that. In float64 the fit
# through eleven Chebyshev points errs by 2e-17; one degree less by 6e-16.
EXP2 = {
    "float32": (
        0.6931472028550453,
        0.24022647913632128,
        0.055503324711589724,
        0.009618437357427498,
        0.00133988744036809,
        0.0001535336195104794,
    ),
    "float64": (
        0.6931471805599453,
        0.24022650695910097,
        0.0555041086648216,
        0.009618129107606888,
        0.0013333558146416936,
        0.0001540353044173605,
        1.525273382983612e-05,
        1.321544258792169e-06,
        1.0178062445845774e-07,
        7.072585949269223e-09,
        4.4549605981865186e-10,
    ),
}


def polynomial(code: Code, coefficients: Sequence[float], x: Tile) -> Tile:
    """Horner's scheme, constant term first."""
    value = code.constant(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        value = code.fma(value, x, code.constant(c))
    return value


def tanh(code: Code, x: Tile) -> Tile:
    """The hyperbolic tangent to the last digit or two: (e^(2x) - 1) / (e^(2x) + 1).

    With 2 x log2(e) = m + f, e^(2x) - 1 = 2^m (2^f - 1) + (2^m - 1) has no cancellation for small x, where m = 0.
    """
    one, magic, rate = code.constant(1.0), code.constant(code.magic), code.constant(2.0 * LOG2E)
    limit = code.constant(34.0)  # 2^100 is infinite for our purposes
    x = code.at_least(code.at_most(x, limit), -limit)
    bits = code.exact_fma(x, rate, magic)
    f = code.exact_fma(x, rate, magic - bits)
    power = code.power(bits)
    grown = code.fma(power, polynomial(code, EXP2[code.precision], f) * f, power - one)
    return grown / (grown + code.constant(2.0))


@dataclass(frozen=True)
class Shape:
    """The part of a grid that is compiled in: how many centres lie where around which anchor."""

    groups: tuple[tuple[int, int, int], ...]  #: (first, below, above) of every group.
    wide: bool = False  #: whether Gaussians far from y count as much as the nearest.
    far: bool = False  #: whether centres lie so far from their anchor that rounding of z must not reach the slope.

    @classmethod
    def of(cls, grid: Grid) -> Shape:
        """The shape of `grid`."""
        groups = tuple((group.first, group.below, group.above) for group in grid.groups)
        farthest = max(above for _, _, above in groups)
        return cls(groups, grid.wide, len(groups) > 1 or abs(grid.gamma) * farthest / 2.0 > _FAR)

    @property
    def basis(self) -> int:
        """Number of centres K."""
        return sum(below + 1 + above for _, below, above in self.groups)


@dataclass(frozen=True)
class Factors:
    """What the Gaussians of one group are made of."""

    z: Tile  #: scaled distance to the anchor.
    prefactor: Tile  #: 2^(C - z^2).
    up: Tile  #: E, of no meaning in a group of one centre.
    down: Tile  #: 1 / E, likewise.
    rest: Tile | None = None  #: what rounding took from z; None where the slope can do without.


class Lens:
    """Emits lenses of one shape; reads the constants once, in front of all loops."""

    def __init__(self, code: Code, shape: Shape, constants: ir.Value) -> None:
        self.code, self.shape = code, shape
        self.length, self._kappa, self._gamma, self._gamma_low, offset, self._limit, self.twist, self._index = (
            code.splat(code.load_scalar(constants, k)) for k in range(SCALARS)
        )
        self._exp2 = EXP2[code.precision]
        self._magic = code.constant(code.magic)
        self._top = offset + self._magic  # exact: both are integers that the precision holds
        self._slip = self._gamma * code.constant(-math.log(2.0))
        first, count = SCALARS + shape.basis, len(shape.groups)
        anchors = [code.splat(code.load_scalar(constants, first + k)) for k in range(2 * count)]
        self._anchors = list(zip(anchors[:count], anchors[count:], strict=True))

    def factors(self, y: Tile, group: int) -> Factors:
        """The factors of one group at positions y.

        The distance to the anchor is exact as a rule, and clamped where 2^(C - z^2) is zero. Scaled to z it is
        rounded, which at the end of the grid would cost as much as all the rest: the remainder is carried along.
        """
        code = self.code
        anchor, shift = self._anchors[group]
        distance = code.at_least(code.at_most(y - anchor, self._limit), -self._limit)
        z = distance * self._kappa
        _, below, above = self.shape.groups[group]
        if not (below or above):
            return Factors(z, self._prefactor(z, None), z, z)
        rest = code.exact_fma(distance, self._kappa, -z) + shift
        if self.shape.far:
            rest = code.fma(self._lost(y, anchor), self._kappa, rest)
        nearest = z * self._index
        up, down, slip = self._both_powers(z, rest, nearest)
        # In a wide grid no centre stands out, and correcting E for one of them would wrong the others.
        lost = self._slip * rest if self.shape.wide else code.fma(self._slip, rest, slip)
        prefactor = self._prefactor(z, (nearest, lost))
        return Factors(z, prefactor, up, down, rest if self.shape.far else None)

    def _lost(self, y: Tile, anchor: Tile) -> Tile:
        """What rounding took from y - anchor where y is the smaller.

        Bounded, so that infinities (whose difference is not a number here) stay without effect.
        """
        code = self.code
        lost = y - ((y - anchor) + anchor)
        bound = self._limit * code.constant(2.0**-24 if code.precision == "float32" else 2.0**-53)
        lost = code.where_less(lost, bound, lost, bound)
        return code.where_less(-bound, lost, lost, -bound)

    def _prefactor(self, z: Tile, correction: tuple[Tile, Tile] | None) -> Tile:
        """2^(C - z^2); zero at the clamp, where the exponent is -127.

        The i-th power of E multiplies its rounding error by i. Times the (fractional) index of the nearest centre,
        that error is taken out of the exponent here; so only the distance to that centre multiplies what is left.
        """
        code = self.code
        bits = code.exact_fma(-z, z, self._top)
        f = code.exact_fma(-z, z, self._top - bits)
        if correction is not None:
            f = code.fma(*correction, f)
        return code.exact_fma(polynomial(code, self._exp2, f), f, code.constant(1.0)) * code.power(bits)

    def _both_powers(self, z: Tile, rest: Tile, nearest: Tile) -> tuple[Tile, Tile, Tile]:
        """E = 2^(gamma (z + rest)), 1 / E, and the rounding error of the greater of them, for `_prefactor`."""
        code = self.code
        bits = code.exact_fma(self._gamma, z, self._magic)
        f = code.fma(self._gamma_low, z, code.exact_fma(self._gamma, z, self._magic - bits))
        f = code.fma(self._gamma, rest, f)
        square = f * f
        even, odd = (polynomial(code, self._exp2[k::2], square) for k in (0, 1))
        one = code.constant(1.0)
        rise, fall = code.fma(odd, f, even), code.fma(odd, -f, even)
        up, down = code.exact_fma(rise, f, one), code.exact_fma(fall, -f, one)
        slips = code.exact_fma(fall, f, down - one), code.exact_fma(rise, f, one - up)
        slip = code.where_less(nearest, code.constant(0.0), *slips)
        return up * code.power(bits), down * code.power(bits, negative=True), slip

    def refract(self, y: Tile, theta: Tile, layer: Layer) -> Tile:
        """The angles behind a lens, theta + s phi(y), with the K packed coefficients of the layer.

        The groups are summed before they are added to the angles, so that there is one rounding at the angles' size.
        """
        last = len(self.shape.groups) - 1
        if not last:
            return self.bend(self.factors(y, 0), theta, layer, 0)
        total = self.code.constant(0.0)
        for group in range(last + 1):
            total = self.bend(self.factors(y, group), total, layer, group)
        return theta + total

    def bend(self, factors: Factors, theta: Tile, layer: Layer, group: int, back: bool = False) -> Tile:
        """The angles with what one group adds to them; or, back, without it."""
        prefactor = -factors.prefactor if back else factors.prefactor
        return self.code.fma(prefactor, self._sum(factors, layer, group), theta)

    def _sum(self, factors: Factors, layer: Layer, group: int) -> Tile:
        """Both Horner schemes of one group, without the prefactor."""
        first, below, above = self.shape.groups[group]
        total = layer(first + below + above)
        for k in range(first + below + above - 1, first + below - 1, -1):
            total = self.code.fma(total, factors.up, layer(k))
        if not below:
            return total
        lower = layer(first)
        for k in range(first + 1, first + below):
            lower = self.code.fma(lower, factors.down, layer(k))
        return self.code.fma(lower, factors.down, total)

    def gaussians(self, factors: Factors, group: int) -> Iterator[tuple[int, Tile, Tile]]:
        """(k, 2^(C - z^2) E^i, z_i - z) for every centre k of a group, each emitted when it is asked for."""
        first, below, above = self.shape.groups[group]
        anchor = first + below
        yield anchor, factors.prefactor, self._distance(factors, 0)
        for steps, power, sign in ((above, factors.up, 1), (below, factors.down, -1)):
            value = factors.prefactor
            for i in range(1, steps + 1):
                value = value * power
                yield anchor + sign * i, value, self._distance(factors, sign * i)

    def _distance(self, factors: Factors, i: int) -> Tile:
        """z_i - z without the cancellation."""
        code, half = self.code, self.code.constant(i / 2.0)
        near = code.exact_fma(self._gamma, half, -factors.z) if i else -factors.z
        if factors.rest is not None:
            near = near - factors.rest
        return code.fma(self._gamma_low, half, near) if i else near


@dataclass(frozen=True)
class Form:
    """How a tile lies on (rows, units): `rows` rows of `columns` vectors side by side."""

    rows: int
    columns: int


TALL = Form(4, 1)  # batches: four rows share every coefficient that is loaded
LONG = Form(8, 1)  # the forward alone, where registers are many: more rows hide more of each other's latency
WIDE = Form(1, 4)  # single rows: only units are left to fill the processor with


@dataclass(frozen=True)
class Kernel:
    """Names one machine function."""

    kind: str  #: "forward", "backward" or "inverse".
    shape: Shape  #: the grid's compiled part.
    form: Form  #: the tile's.
    target: Target  #: the processor's.
    #: whether the forward sweep of "backward" stores the factors of a lens (of one group), or its position.
    keeps: bool
    precision: str = "float32"  #: "float32" or "float64".

    @property
    def width(self) -> int:
        """Units in a block."""
        return self.form.columns * self.target.width(self.precision)

    def scratch(self, depth: int) -> int:
        """Numbers of scratch that one call needs."""
        packed = depth * self.shape.basis * self.width
        if self.kind == "forward":
            return packed
        tile = self.form.rows * self.width
        path = depth * tile * (4 if self.keeps else 1) if self.kind == "backward" else 0
        return 2 * self.width + 2 * packed + path


FORWARD = ("y", "theta", "coefficients", "y_out", "theta_out", "constants", "scratch")
BACKWARD = (
    *("y", "theta", "grad_y", "grad_theta", "coefficients"),
    *("grad_y_out", "grad_theta_out", "grad_coefficients", "constants", "scratch"),
)
SIZES = ("batch", "units", "depth", "blocks", "first_task", "last_task", "first_row", "last_row")


@lru_cache(maxsize=256)
def function(kernel: Kernel) -> Any:
    """The machine function that `kernel` names."""
    pointers = FORWARD if kernel.kind == "forward" else BACKWARD
    return written(f"lln_{kernel.kind}", pointers, SIZES, kernel.target, kernel.precision, partial(_Transport, kernel))


class Block:
    """A block of units on its way through the layers: how tiles are loaded, stored and refracted."""

    def __init__(self, code: Code, shape: Shape, form: Form) -> None:
        self.code, self.shape, self.form, self.args = code, shape, form, code.arguments
        self.basis, self.lanes, self.width = shape.basis, code.lanes, form.columns * code.lanes
        self.lens = Lens(code, shape, self.args["constants"])

    def load(self, rows: Sequence[ir.Value]) -> Tile:
        """A tile whose rows start at these addresses."""
        columns = range(self.form.columns)
        return Tile(self.code, [self.code.load(row, c * self.lanes).parts[0] for row in rows for c in columns])

    def store(self, tile: Tile, rows: Sequence[ir.Value]) -> None:
        """The way back."""
        places = [self.code.at(row, c * self.lanes) for row in rows for c in range(self.form.columns)]
        for part, place in zip(tile.parts, places, strict=True):
            self.code.store(part, place)

    def layer(self, packed: ir.Value, layer: ir.Value) -> Layer:
        """What loads the packed coefficients k of one layer; next to their use, or they would fill the registers."""
        start = self.code.at(packed, self.code.times(layer, self.basis * self.width))
        return lambda k: self.load([self.code.at(start, k * self.width)])

    def forward(self, y: Variable, theta: Variable, packed: ir.Value) -> None:
        """All layers, one after the other."""
        with self.code.loop(0, self.args["depth"]) as layer:
            y.set(self.code.fma(self.lens.length, theta.get(), y.get()))
            theta.set(self.lens.refract(y.get(), theta.get(), self.layer(packed, layer)))


class _Transport(Block):
    """Writes one kernel. A task is a block of units of one member; a call works through a range of tasks."""

    def __init__(self, kernel: Kernel, code: Code) -> None:
        super().__init__(code, kernel.shape, kernel.form)
        self.kernel, self.packed = kernel, self.args["scratch"]

    def emit(self) -> None:
        code, args = self.code, self.args
        with code.loop(args["first_task"], args["last_task"]) as task:
            member = code.builder.sdiv(task, args["blocks"])
            block = code.minus(task, code.times(member, args["blocks"]))
            unit = code.least(code.times(block, self.width), code.minus(args["units"], self.width))
            rows = code.plus(code.times(member, code.times(args["batch"], args["units"])), unit)
            lenses = code.times(member, code.times(args["depth"], code.times(args["units"], self.basis)))
            lenses = code.plus(lenses, code.times(unit, self.basis))
            pack(self.code, self.form.columns, self.basis, code.at(args["coefficients"], lenses), self.packed, args)
            if self.kernel.kind == "forward":
                self._forward(rows)
            else:
                self._backward(rows, lenses)

    def _forward(self, rows: ir.Value) -> None:
        code, args = self.code, self.args
        with code.loop(args["first_row"], args["last_row"], self.form.rows) as row:
            valid = [code.least(code.plus(row, r), code.minus(args["last_row"], 1)) for r in range(self.form.rows)]
            places = [code.plus(rows, code.times(r, args["units"])) for r in valid]
            y = Variable(code, self.load([code.at(args["y"], place) for place in places]))
            theta = Variable(code, self.load([code.at(args["theta"], place) for place in places]))
            self.forward(y, theta, self.packed)
            # Rows beyond the last repeat it, so they may overwrite it with the same bits.
            self.store(y.get(), [code.at(args["y_out"], place) for place in places])
            self.store(theta.get(), [code.at(args["theta_out"], place) for place in places])

    def _backward(self, rows: ir.Value, lenses: ir.Value) -> None:
        code, args = self.code, self.args
        size = code.times(args["depth"], self.basis * self.width)
        sums = code.at(self.packed, size)
        zeros = code.at(sums, size)  # rows beyond the last take their gradients from here ...
        sink = code.at(zeros, self.width)  # ... and leave them there
        path = code.at(sink, self.width)
        with code.loop(0, code.plus(size, 2 * self.width), self.lanes) as k:
            code.store(code.constant(0.0), sums, k)
        with code.loop(args["first_row"], args["last_row"], self.form.rows) as row:
            self._rows(rows, row, sums, zeros, sink, path)
        unpack(code, self.form.columns, self.basis, sums, code.at(args["grad_coefficients"], lenses), args)

    def _rows(
        self, rows: ir.Value, row: ir.Value, sums: ir.Value, zeros: ir.Value, sink: ir.Value, path: ir.Value
    ) -> None:
        """Gradients of one tile of rows."""
        code, args = self.code, self.args
        wanted = [code.plus(row, r) for r in range(self.form.rows)]
        last = code.minus(args["last_row"], 1)
        places = [code.plus(rows, code.times(code.least(r, last), args["units"])) for r in wanted]

        def lines(name: str, beyond: ir.Value) -> list[ir.Value]:
            inside = [code.at(args[name], place) for place in places]
            return [code.pick(r, args["last_row"], p, beyond) for r, p in zip(wanted, inside, strict=True)]

        y = Variable(code, self.load([code.at(args["y"], place) for place in places]))
        theta = Variable(code, self.load([code.at(args["theta"], place) for place in places]))
        grad_y = Variable(code, self.load(lines("grad_y", zeros)))
        grad_theta = Variable(code, self.load(lines("grad_theta", zeros)))
        if self.kernel.kind == "backward":
            with code.loop(0, args["depth"]) as layer:
                self._record(y, theta, layer, path)
        with code.loop_down(args["depth"]) as layer:
            coefficients = self.layer(self.packed, layer)
            change, before = code.constant(0.0), theta.get()
            single = len(self.kernel.shape.groups) == 1
            bent = before if single else code.constant(0.0)
            for group in range(len(self.kernel.shape.groups)):
                factors = self._recall(y, layer, path, group)
                # The slope is a sum over distances to the centres: a Horner scheme for the derivative would subtract
                # 2 z phi from a sum of nearly the same size and lose a digit.
                for k, value, distance in self.lens.gaussians(factors, group):
                    self._gather(k, value, grad_theta.get(), layer, sums)
                    change = code.fma(value * coefficients(k), distance, change)
                if self.kernel.kind == "inverse":
                    bent = self.lens.bend(factors, bent, coefficients, group, back=True)
            grad_y.set(code.fma(grad_theta.get(), change * self.lens.twist, grad_y.get()))
            grad_theta.set(code.fma(self.lens.length, grad_y.get(), grad_theta.get()))
            if self.kernel.kind == "inverse":
                before = bent if single else before + bent
                theta.set(before)
                y.set(code.fma(-self.lens.length, before, y.get()))
        self.store(grad_y.get(), lines("grad_y_out", sink))
        self.store(grad_theta.get(), lines("grad_theta_out", sink))

    def _record(self, y: Variable, theta: Variable, layer: ir.Value, path: ir.Value) -> None:
        """One layer forward; what its gradient needs goes to the scratch."""
        code, lens = self.code, self.lens
        y.set(code.fma(lens.length, theta.get(), y.get()))
        coefficients = self.layer(self.packed, layer)
        if not self.kernel.keeps:
            self.store(y.get(), self._slots(layer, path, 1)[0])
            theta.set(lens.refract(y.get(), theta.get(), coefficients))
            return
        factors = lens.factors(y.get(), 0)
        parts = (factors.z, factors.prefactor, factors.up, factors.down)
        for part, slot in zip(parts, self._slots(layer, path, 4), strict=True):
            self.store(part, slot)
        theta.set(lens.bend(factors, theta.get(), coefficients, 0))

    def _recall(self, y: Variable, layer: ir.Value, path: ir.Value, group: int) -> Factors:
        """The factors of a layer on the way back."""
        if self.kernel.kind == "inverse":
            return self.lens.factors(y.get(), group)
        if not self.kernel.keeps:
            return self.lens.factors(self.load(self._slots(layer, path, 1)[0]), group)
        return Factors(*(self.load(slot) for slot in self._slots(layer, path, 4)))

    def _slots(self, layer: ir.Value, path: ir.Value, count: int) -> list[list[ir.Value]]:
        """Where the `count` tiles of a layer lie in the scratch, row by row."""
        size = self.form.rows * self.width
        start = self.code.at(path, self.code.times(layer, count * size))
        rows = range(self.form.rows)
        return [[self.code.at(start, c * size + r * self.width) for r in rows] for c in range(count)]

    def _gather(self, k: int, value: Tile, gradient: Tile, layer: ir.Value, sums: ir.Value) -> None:
        """Add the gradient of coefficient k, summed over the rows of the tile."""
        code, columns = self.code, self.form.columns
        place = code.at(sums, code.plus(code.times(layer, self.basis * self.width), k * self.width))
        total = self.load([place])
        for r in range(self.form.rows):
            row = slice(r * columns, (r + 1) * columns)
            total = code.fma(Tile(code, gradient.parts[row]), Tile(code, value.parts[row]), total)
        self.store(total, [place])


def pack(code: Code, columns: int, basis: int, source: ir.Value, packed: ir.Value, args: dict[str, ir.Value]) -> None:
    """Copy (D, units, K) to (D, K, units of the block), multiplied by the weights."""
    width = columns * code.lanes
    weights = code.at(args["constants"], SCALARS)
    with code.loop(0, args["depth"]) as layer:
        start = code.at(source, code.times(layer, code.times(args["units"], basis)))
        out = code.at(packed, code.times(layer, basis * width))
        for column in range(columns):
            units = code.at(start, column * code.lanes * basis)
            for k, part in _columns(code, units, basis):
                weight = code.splat(code.load_scalar(weights, k))
                code.store(Tile(code, [part]) * weight, out, k * width + column * code.lanes)


def unpack(code: Code, columns: int, basis: int, packed: ir.Value, target: ir.Value, args: dict[str, ir.Value]) -> None:
    """The way back: (D, K, units of the block), multiplied by the weights, to (D, units, K)."""
    width = columns * code.lanes
    weights = code.at(args["constants"], SCALARS)
    with code.loop(0, args["depth"]) as layer:
        start = code.at(packed, code.times(layer, basis * width))
        out = code.at(target, code.times(layer, code.times(args["units"], basis)))
        for column in range(columns):
            units = code.at(out, column * code.lanes * basis)
            parts = []
            for k in range(basis):
                weight = code.splat(code.load_scalar(weights, k))
                parts.append((code.load(start, k * width + column * code.lanes) * weight).parts[0])
            _scatter(code, parts, units, basis)


def _quads(basis: int) -> list[int]:
    """Where to take four coefficients at a time; the last four may overlap those before them."""
    return [*range(0, basis - 3, 4), *([basis - 4] if basis % 4 else [])]


def _columns(code: Code, units: ir.Value, basis: int) -> list[tuple[int, ir.Value]]:
    """(k, coefficient k of neighbouring units) from units that lie one behind the other."""
    if basis < 4:
        out = []
        for k in range(basis):
            part = ir.Constant(code.vector, ir.Undefined)
            for unit in range(code.lanes):
                value = code.load_scalar(units, unit * basis + k)
                part = code.builder.insert_element(part, value, ir.Constant(INT32, unit))
            out.append((k, part))
        return out
    columns = {}
    for first in _quads(basis):
        rows = [
            code.join([code.load_short(units, (unit + j) * basis + first) for unit in range(0, code.lanes, 4)])
            for j in range(4)
        ]
        columns.update({first + j: part for j, part in enumerate(_transpose(code, rows))})
    return sorted(columns.items())


def _scatter(code: Code, parts: Sequence[ir.Value], units: ir.Value, basis: int) -> None:
    """The inverse of `_columns`."""
    if basis < 4:
        for k, part in enumerate(parts):
            for unit in range(code.lanes):
                code.store(code.builder.extract_element(part, ir.Constant(INT32, unit)), units, unit * basis + k)
        return
    for first in _quads(basis):
        for j, row in enumerate(_transpose(code, parts[first : first + 4])):
            for unit in range(0, code.lanes, 4):
                short = code.shuffle(row, row, range(unit, unit + 4))
                code.store(short, units, (unit + j) * basis + first)


def _transpose(code: Code, rows: Sequence[ir.Value]) -> list[ir.Value]:
    """Transpose the 4 x 4 blocks that four vectors hold in each of their 128-bit pieces."""

    def mix(a: ir.Value, b: ir.Value, order: Sequence[int]) -> ir.Value:
        picked = [q + o % 4 + (code.lanes if o >= 4 else 0) for q in range(0, code.lanes, 4) for o in order]
        return code.shuffle(a, b, picked)

    a, b, c, d = rows
    low_ab, high_ab = mix(a, b, (0, 4, 1, 5)), mix(a, b, (2, 6, 3, 7))
    low_cd, high_cd = mix(c, d, (0, 4, 1, 5)), mix(c, d, (2, 6, 3, 7))
    front, back = (0, 1, 4, 5), (2, 3, 6, 7)
    pairs = ((low_ab, low_cd), (high_ab, high_cd))
    return [mix(x, y, order) for x, y in pairs for order in (front, back)]


@lru_cache(maxsize=256)
def constants(grid: Grid, length: float, scale: float, precision: str = "float32") -> NDArray[np.floating[Any]]:
    """The numbers that a kernel reads, in the order that `SCALARS` describes."""
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
