"""A whole step of a `StepProgram` as one kernel: units, lags, inputs, closed-form parts and lenses, step after step.

A tile holds either one or two vectors of float64 with one start in each lane, or a single start, whose coordinates
fill the lanes. Arrays of the tile are (index, start). The frame is computed in float64, a lens block in its own
precision: a block of units passes through all layers for every start of the tile before the next block is read. The
loop ends when every start of the tile has diverged.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass

from llvmlite import ir

from lln.ops.cpu.functions import tanh
from lln.ops.cpu.kernels import WIDE, Block, Form
from lln.ops.cpu.lens import Shape
from lln.ops.cpu.simd import INT, INT32, POINTER, Code, Target, Tile, Variable

GROUP = 4  # outputs, or terms, that a product with a matrix handles side by side
VECTORS = 2  # of many starts in a tile: times the outputs of a group, the sums that hide a multiply-add's latency


@dataclass(frozen=True)
class LensShape:
    """The compiled part of a lens block: its grid, its precision, and whether it embeds angles."""

    grid: Shape
    precision: str
    angles: bool


@dataclass(frozen=True)
class StepShape:
    """The compiled part of a step.

    Attributes:
        lenses: the lens blocks.
        polynomial: whether there is a polynomial part.
        flow: whether there is a vector field.
        bounded: whether states have bounds.
        vectors: vectors of starts in a tile; 0 for a single start.
        few: whether the coordinates of a single start fit one vector.
        target: the processor's.
    """

    lenses: tuple[LensShape, ...]
    polynomial: bool
    flow: bool
    bounded: bool
    vectors: int
    few: bool
    target: Target

    @property
    def single(self) -> bool:
        """Whether a tile is one start."""
        return self.vectors == 0

    @property
    def rows(self) -> int:
        """Starts in a tile."""
        return 1 if self.single else self.vectors * self.target.width("float64")

    @property
    def parts(self) -> int:
        """Vectors that `_load` takes from an array of the tile."""
        return max(1, self.vectors)

    @property
    def form(self) -> Form:
        """The tile of a lens block: some starts of the step's tile."""
        return WIDE if self.single else Form(self.target.width("float64"), 1)

    @property
    def outputs(self) -> int:
        """What the number of coordinates is padded to a multiple of."""
        return self.target.width("float64") if self.single else GROUP

    def width(self, lens: LensShape) -> int:
        """Units in a block of a lens."""
        return self.form.columns * self.target.width(lens.precision)

    @property
    def arrays(self) -> list[str]:
        """Names of the arrays that do not change from call to call, in order."""
        frame = ["mean", "scale", "lag_scale", "input_mean", "input_scale", "low", "high", "matrix", "offset"]
        frame += ["table", "weights", "flow_table", "flow_weights", "flow_steps"]
        names = ("position", "angle", "lenses", "readout", "bias", "gain", "constants")
        return [*frame, *(f"{name}{k}" for k in range(len(self.lenses)) for name in names)]

    @property
    def buffers(self) -> list[str]:
        """Names of the pieces of scratch."""
        frame = ["x", "z", "lags", "features", "change", "terms", "work", "slope", "slopes", "now"]
        return [*frame, "narrow", "positions", "output"]

    @property
    def sizes(self) -> list[str]:
        """Names of the integers that do not change from call to call, in order."""
        frame = ["size", "outputs", "past_size", "features", "padded", "known", "terms", "flow_terms", "substeps"]
        lenses = [f"{name}{k}" for k in range(len(self.lenses)) for name in ("units", "depth")]
        return [*frame, *lenses, *(f"at_{name}" for name in self.buffers), "room"]


# What changes from call to call; an array of the addresses and integers of `StepShape` follows.
POINTERS = ("state", "past", "inputs", "states", "diverged", "scratch")
SIZES = ("batch", "steps", "first_row", "last_row")


def emit(shape: StepShape, name: str) -> ir.Module:
    """The module that holds the step as the function `name`."""
    module = ir.Module(name=name)
    module.triple = shape.target.triple
    arguments = [*((p, POINTER) for p in POINTERS), *((s, INT) for s in SIZES)]
    stored = [*((array, POINTER) for array in shape.arrays), *((s, INT) for s in shape.sizes)]
    code = Code(module, name, arguments, shape.target, "float64", stored)
    _Step(shape, code).write()
    code.finish()
    return module


class _Step:
    """Writes the kernel."""

    def __init__(self, shape: StepShape, code: Code) -> None:
        self.shape, self.code, self.args, self.rows = shape, code, code.arguments, shape.rows
        self.buffer = {name: code.at(self.args["scratch"], self.args[f"at_{name}"]) for name in shape.buffers}
        self.lenses = [_LensPart(self, k) for k in range(len(shape.lenses))]
        with code.builder.goto_entry_block():
            self.alive = code.builder.alloca(INT)

    def write(self) -> None:
        """All tiles, all steps."""
        code, args = self.code, self.args
        with code.loop(args["first_row"], args["last_row"], self.rows) as row:
            last = code.minus(args["last_row"], 1)
            starts = [code.least(code.plus(row, r), last) for r in range(self.rows)]
            with code.loop(0, args["room"], code.lanes) as k:  # padding must hold numbers
                code.store(code.constant(0.0), args["scratch"], k)
            self._gather(args["state"], starts, args["size"], args["size"], 0, self.buffer["x"])
            self._gather(args["past"], starts, args["past_size"], args["past_size"], 0, self.buffer["lags"])
            code.builder.store(code.number(1), self.alive)
            with code.loop(0, args["steps"], alive=self.alive) as step:
                self._features(step, starts)
                self._increment()
                self._advance(step, starts)

    def _features(self, step: ir.Value, starts: list[ir.Value]) -> None:
        """z, the differences that the step before left, and the inputs."""
        args, features = self.args, self.buffer["features"]
        self._scaled(self.buffer["x"], "mean", "scale", args["size"], features)
        lags = self._item(features, args["size"])
        self._scaled(self.buffer["lags"], None, "lag_scale", args["past_size"], lags)
        here = self.code.plus(args["size"], args["past_size"])
        first = self.code.times(step, args["known"])
        stride = self.code.times(args["steps"], args["known"])
        self._gather(args["inputs"], starts, args["known"], stride, first, self.buffer["now"])
        self._scaled(self.buffer["now"], "input_mean", "input_scale", args["known"], self._item(features, here))

    def _scaled(self, source: ir.Value, shift: str | None, scale: str, count: ir.Value, out: ir.Value) -> None:
        with self._each(count) as i:
            value = self._load(source, i)
            if shift is not None:
                value = value - self._parameter(shift, i)
            self._store(value / self._parameter(scale, i), out, i)

    def _increment(self) -> None:
        """The sum of all parts, standardised."""
        args, change = self.args, self.buffer["change"]
        with self._each(args["outputs"]) as i:
            self._store(self._parameter("offset", i), change, i)
        self._product("matrix", self.buffer["features"], args["padded"])
        seen = self.buffer["features"]
        if self.shape.polynomial:
            self._monomials("table", seen, args["terms"])
            self._product("weights", self.buffer["terms"], args["terms"])
        if self.shape.flow:
            (self._flow_few if self.shape.few else self._flow)(seen)
        for lens in self.lenses:
            lens.add(seen)

    def _advance(self, step: ir.Value, starts: list[ir.Value]) -> None:
        """X += scale * change; shift the lags; store the state; notice what is no longer finite."""
        code, args = self.code, self.args
        x, lags, features = self.buffer["x"], self.buffer["lags"], self.buffer["features"]
        lost = Variable(code, Tile(code, code.constant(0.0).parts * self.shape.parts))
        with self._each(args["outputs"]) as i:
            value = code.fma(self._parameter("scale", i), self._load(self.buffer["change"], i), self._load(x, i))
            if self.shape.bounded:
                value = code.at_most(code.at_least(value, self._parameter("low", i)), self._parameter("high", i))
            self._store(value, x, i)
            lost.set(lost.get() + (value - value))  # zero for a finite number
        with code.loop_down(code.minus(args["past_size"], args["size"])) as i:
            self._write(self._read(lags, i), lags, code.plus(i, args["size"]))
        with code.loop(0, code.least(args["size"], args["past_size"])) as i:
            z = (self._read(x, i) - self._number("mean", i)) / self._number("scale", i)
            self._write(z - self._read(features, i), lags, i)
        for r, start in enumerate(starts):
            time = code.plus(code.times(start, args["steps"]), step)
            place = code.at(args["states"], code.times(time, args["size"]))
            with code.loop(0, args["size"]) as i:
                code.store(code.load_scalar(x, code.plus(code.times(i, self.rows), r)), place, i)
        self._notice(step, starts, lost.get())

    def _notice(self, step: ir.Value, starts: list[ir.Value], lost: Tile) -> None:
        """Note the step at which a start diverged; `alive` ends once all have."""
        builder, code = self.code.builder, self.code
        lanes = [ir.Constant(INT32, lane) for lane in range(code.lanes)]
        sums = (
            [code.total(lost.parts[0])]
            if self.shape.single
            else [builder.extract_element(part, lane) for part in lost.parts for lane in lanes]
        )
        alive = code.number(0)
        for start, value in zip(starts, sums, strict=True):
            place = builder.gep(self.args["diverged"], [start], source_etype=INT)
            before = builder.load(place, typ=INT, align=8)
            first = builder.and_(
                builder.fcmp_unordered("uno", value, value), builder.icmp_signed("<", before, code.number(0))
            )
            now = builder.select(first, step, before)
            builder.store(now, place, align=8)
            alive = builder.or_(alive, builder.zext(builder.icmp_signed("<", now, code.number(0)), INT))
        builder.store(alive, self.alive)

    def _monomials(self, table: str, seen: ir.Value, count: ir.Value) -> None:
        """terms[0] = 1, then every term an earlier one times a feature; the table holds addresses."""
        code = self.code
        self._write(self._constant(1.0), self.buffer["terms"], 0)
        for m in range(1, GROUP):
            self._monomial(table, seen, code.number(m))
        with code.loop(GROUP, count, GROUP) as m:
            for q in range(GROUP):
                self._monomial(table, seen, code.plus(m, q))

    def _monomial(self, table: str, seen: ir.Value, m: ir.Value) -> None:
        code, builder, terms = self.code, self.code.builder, self.buffer["terms"]
        parent, feature = (
            builder.load(
                builder.gep(self.args[table], [code.plus(code.times(m, 2), k)], source_etype=INT), typ=INT, align=8
            )
            for k in (0, 1)
        )
        self._write(self._read(terms, parent) * self._read(seen, feature), terms, m)

    def _flow_few(self, seen: ir.Value) -> None:
        """As `_flow` for a single start whose coordinates fit one vector, which stays in registers.

        The coordinates move in the array of features, which holds its own values again at the end. The lanes behind
        hold other features; they do not change, as the weights of the padding are zero.
        """
        code, args, change = self.code, self.args, self.buffer["change"]
        first = code.load(seen)
        whole, half, sixth = (code.splat(code.load_scalar(args["flow_steps"], k)) for k in range(3))
        z = Variable(code, first)
        with code.loop(0, args["substeps"]):
            start, total = z.get(), code.constant(0.0)
            for ahead, weight in ((half, 1.0), (half, 2.0), (whole, 2.0), (None, 1.0)):
                self._monomials("flow_table", seen, args["flow_terms"])
                slope = self._sum_single(args["flow_weights"], self.buffer["terms"], args["flow_terms"])
                total = code.fma(slope, code.constant(weight), total)
                moved = code.fma(sixth, total, start) if ahead is None else code.fma(ahead, slope, start)
                code.store(moved, seen)
            z.set(moved)
        code.store(first, seen)
        code.store(code.load(change) + (z.get() - first), change)

    def _flow(self, seen: ir.Value) -> None:
        """Add z(dt) - z(0) by Runge-Kutta steps; `work` holds the features with the moving z in front."""
        code, args, work = self.code, self.args, self.buffer["work"]
        with code.loop(0, args["features"]) as i:
            self._write(self._read(seen, i), work, i)
        with code.loop(0, args["size"]) as i:
            self._write(self._read(seen, i), self.buffer["z"], i)
        whole, half, sixth = (self._number("flow_steps", code.number(k)) for k in range(3))
        with code.loop(0, args["substeps"]):
            for stage, (ahead, weight) in enumerate(((half, 1.0), (half, 2.0), (whole, 2.0), (None, 1.0))):
                self._monomials("flow_table", work, args["flow_terms"])
                with self._each(args["outputs"]) as i:
                    self._store(code.constant(0.0), self.buffer["slope"], i)
                self._product("flow_weights", self.buffer["terms"], args["flow_terms"], self.buffer["slope"])
                with code.loop(0, args["size"]) as i:
                    self._stage(i, stage, ahead, weight, sixth)
        with code.loop(0, args["size"]) as i:
            moved = self._read(self.buffer["z"], i) - self._read(seen, i)
            self._write(self._read(self.buffer["change"], i) + moved, self.buffer["change"], i)

    def _stage(self, i: ir.Value, stage: int, ahead: Tile | None, weight: float, sixth: Tile) -> None:
        """One coordinate of one Runge-Kutta stage."""
        slope, start = self._read(self.buffer["slope"], i), self._read(self.buffer["z"], i)
        weighted = slope * self._constant(weight)
        total = weighted if stage == 0 else self._read(self.buffer["slopes"], i) + weighted
        self._write(total, self.buffer["slopes"], i)
        if ahead is None:
            moved = start + sixth * total
            self._write(moved, self.buffer["z"], i)
        else:
            moved = start + ahead * slope
        self._write(moved, self.buffer["work"], i)

    def _product(self, weights: str, source: ir.Value, count: ir.Value, out: ir.Value | None = None) -> None:
        """Out += weights * source; weights are (outputs / block, count, block), blocks as wide as `outputs`."""
        code, out = self.code, self.buffer["change"] if out is None else out
        with code.loop(0, self.args["outputs"], self.shape.outputs) as i:
            rows = code.at(self.args[weights], code.times(i, count))
            (self._product_single if self.shape.single else self._product_tile)(rows, source, count, out, i)

    def _product_single(self, rows: ir.Value, source: ir.Value, count: ir.Value, out: ir.Value, i: ir.Value) -> None:
        """A vector of outputs."""
        self.code.store(self.code.load(out, i) + self._sum_single(rows, source, count), out, i)

    def _sum_single(self, rows: ir.Value, source: ir.Value, count: ir.Value) -> Tile:
        """A vector of sums of weights times terms, four terms at a time."""
        code = self.code
        sums = Variable(code, Tile(code, code.constant(0.0).parts * GROUP))
        with code.loop(0, count, GROUP) as j:
            places = [code.plus(j, q) for q in range(GROUP)]
            terms = [code.splat(code.load_scalar(source, place)).parts[0] for place in places]
            columns = [code.load(rows, code.times(place, code.lanes)).parts[0] for place in places]
            sums.set(code.fma(Tile(code, columns), Tile(code, terms), sums.get()))
        a, b, c, d = (Tile(code, [part]) for part in sums.get().parts)
        return (a + b) + (c + d)

    def _product_tile(self, rows: ir.Value, source: ir.Value, count: ir.Value, out: ir.Value, i: ir.Value) -> None:
        """Four outputs of every start, one term at a time."""
        code, vectors = self.code, self.shape.vectors
        outputs = [code.plus(i, q) for q in range(GROUP)]
        sums = Variable(code, Tile(code, [part for place in outputs for part in self._load(out, place).parts]))
        with code.loop(0, count) as j:
            terms, row = self._load(source, j).parts * GROUP, code.at(rows, code.times(j, GROUP))
            numbers = [part for q in range(GROUP) for part in code.splat(code.load_scalar(row, q)).parts * vectors]
            sums.set(code.fma(Tile(code, numbers), Tile(code, terms), sums.get()))
        for q, place in enumerate(outputs):
            self._store(Tile(code, sums.get().parts[q * vectors : (q + 1) * vectors]), out, place)

    def _gather(
        self,
        source: ir.Value,
        starts: list[ir.Value],
        count: ir.Value,
        stride: ir.Value,
        first: ir.Value | int,
        out: ir.Value,
    ) -> None:
        """Numbers of every start of the tile, from rows of `stride` numbers, to (count, start)."""
        code = self.code
        for r, start in enumerate(starts):
            place = code.at(source, code.plus(code.times(start, stride), first))
            with code.loop(0, count) as i:
                code.store(code.load_scalar(place, i), out, code.plus(code.times(i, self.rows), r))

    def _each(self, count: ir.Value) -> AbstractContextManager[ir.Value]:
        """A loop over indices: one at a time for tiles of starts, a vector of them for a single start."""
        return self.code.loop(0, count, self.code.lanes if self.shape.single else 1)

    def _item(self, array: ir.Value, i: ir.Value | int) -> ir.Value:
        """The address of entry i of an array of the tile."""
        return self.code.at(array, self.code.times(i, self.rows))

    def _load(self, array: ir.Value, i: ir.Value) -> Tile:
        """Entry i of every start; or, for a single start, a vector of entries."""
        item, lanes = self._item(array, i), self.code.lanes
        return Tile(self.code, [self.code.load(item, v * lanes).parts[0] for v in range(self.shape.parts)])

    def _store(self, value: Tile, array: ir.Value, i: ir.Value | int) -> None:
        """The way back; a tile of one part goes to every start."""
        item, lanes = self._item(array, i), self.code.lanes
        for v, part in enumerate(value.parts * (self.shape.parts // len(value.parts))):
            self.code.store(part, item, v * lanes)

    def _parameter(self, name: str, i: ir.Value) -> Tile:
        """A parameter of entry i, to go with `_load`."""
        return self._parameter_of(self.args[name], i)

    def _parameter_of(self, array: ir.Value, i: ir.Value) -> Tile:
        if self.shape.single:
            return self.code.load(array, i)
        return self.code.splat(self.code.load_scalar(array, i))

    def _read(self, array: ir.Value, i: ir.Value) -> Tile:
        """Entry i alone, of every start; or, for a single start, a scalar."""
        if self.shape.single:
            return Tile(self.code, [self.code.load_scalar(array, i)])
        return self._load(array, i)

    def _write(self, value: Tile, array: ir.Value, i: ir.Value | int) -> None:
        """The way back."""
        if self.shape.single:
            self.code.store(value, array, i)
        else:
            self._store(value, array, i)

    def _number(self, name: str, i: ir.Value) -> Tile:
        """A parameter of entry i, to go with `_read`."""
        value = self.code.load_scalar(self.args[name], i)
        return Tile(self.code, [value]) if self.shape.single else self.code.splat(value)

    def _constant(self, value: float) -> Tile:
        """A constant, to go with `_read`."""
        return (
            Tile(self.code, [ir.Constant(self.code.scalar, value)]) if self.shape.single else self.code.constant(value)
        )


class _LensPart(Block):
    """One lens block inside the step."""

    def __init__(self, step: _Step, index: int) -> None:
        shape, args = step.shape.lenses[index], step.args
        code = step.code.as_precision(shape.precision)
        names = ("position", "angle", "lenses", "readout", "bias", "gain", "constants", "units", "depth")
        code.arguments = {**args, **{name: args[f"{name}{index}"] for name in names}}
        super().__init__(code, shape.grid, step.shape.form)
        self.step, self.angles, self.frame = step, shape.angles, step.code

    def add(self, seen: ir.Value) -> None:
        """Add gain * lens(seen) to the change."""
        source = self._narrowed(seen)
        with self.code.loop(0, self.args["units"], self.width) as unit, self._starts() as first:
            self._transport(unit, first, source)
        with self._starts() as first:
            self._read_out(first)
        step, change = self.step, self.step.buffer["change"]
        with step._each(self.args["outputs"]) as i:
            gain, output = step._parameter_of(self.args["gain"], i), step._load(step.buffer["output"], i)
            step._store(step.code.fma(gain, output, step._load(change, i)), change, i)

    def _starts(self) -> AbstractContextManager[ir.Value]:
        """A loop over the starts of the tile, as many at a time as the form has rows."""
        return self.code.loop(0, self.step.rows, self.form.rows)

    def _narrowed(self, seen: ir.Value) -> ir.Value:
        """The features in the precision of the block."""
        frame = self.frame
        if self.code.precision == frame.precision:
            return seen
        narrow = self.step.buffer["narrow"]
        kind = ir.VectorType(self.code.scalar, frame.lanes)
        with frame.loop(0, frame.times(self.args["features"], self.step.rows), frame.lanes) as i:
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
            values = [code.load_scalar(source, code.plus(code.times(j, self.step.rows), r)) for r in rows]
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
        self.store(y.get(), [code.at(self.step.buffer["positions"], place) for place in places])

    def _embedding(self, name: str, place: ir.Value) -> Tile:
        return Tile(self.code, self.load([self.code.at(self.args[name], place)]).parts * self.form.rows)

    def _read_out(self, first: ir.Value) -> None:
        """Every coordinate of some starts: a sum over all units."""
        code, args, columns, rows = self.code, self.args, self.form.columns, self.form.rows
        places = [code.plus(first, r) for r in range(rows)]
        output, positions = self.step.buffer["output"], self.step.buffer["positions"]
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
                self.frame.store(value, output, self.frame.plus(self.frame.times(i, self.step.rows), place))
