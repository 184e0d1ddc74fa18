"""One block of a field network as one kernel: a convolution to rays, their lenses, and a convolution back to a field.

A field is an array (points, channels) with room for what lies beyond its sides, so that the neighbours of every point
lie at the same distances in memory, and those along the last axis side by side. `fill` puts the boundary conditions
there. A convolution is a product of patches and a matrix, whose sums stay in registers: those of the embedding go
through tanh and all layers before they are stored. One field after another passes through the whole block, and its
rays stay in the cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

from llvmlite import ir

from lln.ops.cpu.kernels import LONG, TALL, Block, Form, Shape, tanh
from lln.ops.cpu.simd import INT, Code, Target, Tile, Variable, written

POINTERS = (
    "field",  # (B, padded, channels); the kernel fills the room beyond its sides
    "rays",  # (padded, units), or with B in front
    "out",  # (B, padded, outputs)
    "places",  # (points,): where each point lies in a padded field
    "offsets",  # (segments,): places that a patch reads, relative to its point; a run of numbers begins at each
    "filled",  # (fills, 3): a place beyond a side, and one or two places that make its value; -1 for no second one
    "embedding",  # (units / width, 1 + patch, 1 or 2, width): bias first, for positions and angles
    "lenses",  # (units / width, D, K, width)
    "readout",  # groups of (1 + rays of a patch, columns, lanes), bias first; or (outputs, 1 + rays of a patch)
    "constants",
)
SIZES = (
    *("channels", "units", "depth", "outputs", "padded", "segments", "side", "fills", "rays_of_field"),
    *("first_field", "last_field", "first_point", "last_point", "stages"),
)
FILL_FIELD, RAYS, FILL_RAYS, READ = 1, 2, 4, 8  # stages of a block, which a call selects
COLUMNS = 3  # vectors of outputs that a tile of four rows sums up in 16 registers, one of eight rows in 32


@dataclass(frozen=True)
class FieldShape:
    """Names one machine function."""

    grid: Shape  #: the compiled part of the grid of control points.
    angles: bool  #: whether the initial angles are embedded; zero otherwise.
    outputs: int  #: channels that go out; 0 where they are fewer than the lanes of a vector, any number.
    target: Target  #: the processor's.
    precision: str  #: "float32" or "float64".

    @property
    def form(self) -> Form:
        """The tile: points, and one vector of units."""
        return LONG if self.lanes == 16 else TALL

    @property
    def lanes(self) -> int:
        """Numbers in a vector, which is units in a block."""
        return self.target.width(self.precision)

    @property
    def groups(self) -> tuple[int, ...]:
        """Vectors of outputs that are summed up side by side, in groups of about the same size."""
        vectors = -(-self.outputs // self.lanes)
        count = -(-vectors // COLUMNS)
        return tuple((vectors + k) // count for k in range(count)) if count else ()


@lru_cache(maxsize=64)
def function(shape: FieldShape) -> Any:
    """The machine function that `shape` names."""
    return written("lln_field", POINTERS, SIZES, shape.target, shape.precision, partial(_FieldBlock, shape))


class _FieldBlock(Block):
    """Writes the kernel."""

    def __init__(self, shape: FieldShape, code: Code) -> None:
        super().__init__(code, shape.grid, shape.form)
        self.field_shape = shape

    def emit(self) -> None:
        code, args = self.code, self.args
        with code.loop(args["first_field"], args["last_field"]) as index:
            field = self._item("field", code.times(index, args["padded"]), args["channels"])
            rays = self._item("rays", index, args["rays_of_field"])
            out = self._item("out", code.times(index, args["padded"]), args["outputs"])
            with self._stage(FILL_FIELD):
                self._fill(field, args["channels"])
            with self._stage(RAYS):
                self._rays(field, rays)
            with self._stage(FILL_RAYS):
                self._fill(rays, args["units"])
            with self._stage(READ):
                if self.field_shape.outputs:
                    self._read(rays, out)
                else:
                    self._read_few(rays, out)

    def _stage(self, bit: int) -> AbstractContextManager[Any]:
        builder, stages = self.code.builder, self.args["stages"]
        return builder.if_then(builder.icmp_signed("!=", builder.and_(stages, INT(bit)), INT(0)))  # type: ignore[no-any-return]

    def _item(self, name: str, index: ir.Value, size: ir.Value) -> ir.Value:
        return self.code.at(self.args[name], self.code.times(index, size))

    def _integer(self, name: str, index: ir.Value) -> ir.Value:
        builder = self.code.builder
        return builder.load(builder.gep(self.args[name], [index], source_etype=INT), typ=INT, align=8)

    def _fill(self, field: ir.Value, channels: ir.Value) -> None:
        """Values beyond the sides: copies of a, or 2 a - b."""
        code = self.code
        with code.loop(0, self.args["fills"]) as k:
            place, a, b = (self._integer("filled", code.plus(code.times(k, 3), column)) for column in range(3))
            copied = code.builder.icmp_signed("<", b, code.number(0))
            out, one, other = (
                code.at(field, code.times(at, channels)) for at in (place, a, code.builder.select(copied, a, b))
            )
            with code.loop(0, channels) as c:
                value = code.load_scalar(one, c)
                mirrored = code.builder.fsub(code.builder.fadd(value, value), code.load_scalar(other, c))
                code.store(code.builder.select(copied, value, mirrored), out, c)

    def _tiles(self, rows: int) -> AbstractContextManager[ir.Value]:
        return self.code.loop(self.args["first_point"], self.args["last_point"], rows)

    def _places(self, point: ir.Value, rows: int) -> list[ir.Value]:
        """Where the points of a tile lie; those beyond the last one repeat it."""
        code, last = self.code, self.code.minus(self.args["last_point"], 1)
        return [self._integer("places", code.least(code.plus(point, r), last)) for r in range(rows)]

    def _rays(self, field: ir.Value, rays: ir.Value) -> None:
        code, args, rows = self.code, self.args, self.form.rows
        columns = 2 if self.field_shape.angles else 1
        patch = code.times(args["segments"], code.times(args["side"], args["channels"]))
        with code.loop(0, args["units"], self.width) as unit, self._tiles(rows) as point:
            places = self._places(point, rows)
            sources = [code.at(field, code.times(place, args["channels"])) for place in places]
            matrix = code.at(args["embedding"], code.times(code.times(unit, columns), code.plus(patch, 1)))
            sums = self._product(sources, args["channels"], matrix, columns).get().parts
            y, angle = Variable(code, Tile(code, sums[:rows])), Tile(code, sums[rows:])
            zero = Tile(code, code.constant(0.0).parts * rows)
            theta = Variable(code, tanh(code, angle) if self.field_shape.angles else zero)
            self.forward(y, theta, code.at(args["lenses"], code.times(unit, code.times(args["depth"], self.basis))))
            self.store(y.get(), [code.at(rays, code.plus(code.times(p, args["units"]), unit)) for p in places])

    def _read(self, rays: ir.Value, out: ir.Value) -> None:
        """One neighbour after the other, so that its weights stay in the nearest cache for all points."""
        code, args, rows, lanes = self.code, self.args, self.form.rows, self.lanes
        patch, first = code.times(args["segments"], code.times(args["side"], args["units"])), 0
        for columns in self.field_shape.groups:
            row = columns * lanes
            bias = code.at(args["readout"], code.times(code.plus(patch, 1), first * lanes))
            with code.loop(0, patch, args["units"]) as at, self._tiles(rows) as point:
                segment = code.builder.sdiv(at, code.times(args["side"], args["units"]))
                begin = code.times(self._integer("offsets", segment), args["units"])
                begin = code.plus(begin, code.minus(at, code.times(segment, code.times(args["side"], args["units"]))))
                places = self._places(point, rows)
                sources = [code.at(rays, code.plus(code.times(place, args["units"]), begin)) for place in places]
                targets = [code.at(out, code.times(place, args["outputs"])) for place in places]
                starts = [code.pick(at, 1, bias, code.at(target, first * lanes)) for target in targets]
                sums = Variable(
                    code, Tile(code, [code.load(start, c * lanes).parts[0] for c in range(columns) for start in starts])
                )
                self._add(sums, sources, args["units"], code.at(bias, code.times(code.plus(at, 1), row)), columns)
                for k, part in enumerate(sums.get().parts):
                    self._store_some(part, targets[k % rows], (first + k // rows) * lanes)
            first += columns

    def _store_some(self, part: ir.Value, target: ir.Value, first: int) -> None:
        """As much of a vector as there are outputs."""
        code, count = self.code, min(self.lanes, self.field_shape.outputs - first)
        if count == self.lanes:
            code.store(part, target, first)
            return
        at, size = 0, self.lanes
        while size := size // 2:
            if count & size:
                piece = code.shuffle(part, part, range(at, at + size))
                code.store(piece, target, first + at)
                at += size

    def _read_few(self, rays: ir.Value, out: ir.Value) -> None:
        """One output at a time, with the rays of a patch in the lanes."""
        code, args, rows = self.code, self.args, 2 * TALL.rows
        run = code.times(args["side"], args["units"])
        with code.loop(0, args["outputs"]) as output, self._tiles(rows) as point:
            places = self._places(point, rows)
            sources = [code.at(rays, code.times(place, args["units"])) for place in places]
            weights = code.at(args["readout"], code.times(output, code.plus(code.times(args["segments"], run), 1)))
            sums = Variable(code, Tile(code, code.constant(0.0).parts * rows))
            with code.loop(0, args["segments"]) as segment:
                begin = code.times(self._integer("offsets", segment), args["units"])
                row = code.at(weights, code.plus(code.times(segment, run), 1))
                with code.loop(0, run, self.lanes) as j:
                    values = [code.load(source, code.plus(begin, j)).parts[0] for source in sources]
                    sums.set(code.fma(code.load(row, j), Tile(code, values), sums.get()))
            bias = code.load_scalar(weights, 0)
            for place, part in zip(places, sums.get().parts, strict=True):
                value = code.builder.fadd(code.total(part), bias)
                code.store(value, out, code.plus(code.times(place, args["outputs"]), output))

    def _product(self, sources: Sequence[ir.Value], channels: ir.Value, matrix: ir.Value, columns: int) -> Variable:
        """Patches times a matrix (1 + patch, columns, lanes): the sums of column 0 for every source, and so on."""
        code, row = self.code, columns * self.lanes
        run = code.times(self.args["side"], channels)
        sums = Variable(code, self._weights(matrix, columns, len(sources)))
        with code.loop(0, self.args["segments"]) as segment:
            begin = code.times(self._integer("offsets", segment), channels)
            start = code.at(matrix, code.times(code.plus(code.times(segment, run), 1), row))
            self._add(sums, [code.at(source, begin) for source in sources], run, start, columns)
        return sums

    def _add(
        self, sums: Variable, sources: Sequence[ir.Value], count: ir.Value, matrix: ir.Value, columns: int
    ) -> None:
        """Add the products of so many numbers from every source and as many rows of the matrix."""
        code, row = self.code, columns * self.lanes
        with code.loop(0, count) as j:
            start, before, after = code.at(matrix, code.times(j, row)), sums.get().parts, []
            weights = Tile(code, [code.load(start, c * self.lanes).parts[0] for c in range(columns)])
            for r, source in enumerate(sources):  # in this order, which needs the fewest registers
                value = code.splat(code.load_scalar(source, j))
                after.append(code.fma(weights, value, Tile(code, before[r :: len(sources)])).parts)
            sums.set(Tile(code, [part for column in zip(*after, strict=True) for part in column]))

    def _weights(self, start: ir.Value, columns: int, rows: int) -> Tile:
        parts = [self.code.load(start, c * self.lanes).parts[0] for c in range(columns)]
        return Tile(self.code, [part for part in parts for _ in range(rows)])
