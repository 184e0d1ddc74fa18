"""A whole step of a `StepProgram` as one kernel: units, lags, inputs, closed-form parts and lenses, step after step.

A tile holds either one or two vectors of float64 with one start in each lane, or a single start, whose coordinates
fill the lanes. Arrays of the tile are (index, start). The number 1 lies in front of the features and the products of
the polynomial behind them, so that all closed-form parts are one product with a matrix. The frame is computed in
float64, a lens block in its own precision: a block of units passes through all layers for every start of the tile
before the next block is read. The loop ends when every start of the tile has diverged.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import reduce

from llvmlite import ir

from lln.ops.cpu.kernels import WIDE, Form
from lln.ops.cpu.simd import INT, INT32, POINTER, Code, Target, Tile, Variable
from lln.ops.cpu.step_parts import LensPart, LensShape, write_functions

GROUP = 4  # outputs, or terms, that a product with a matrix handles side by side
VECTORS = 2  # of many starts in a tile: times the outputs of a group, the sums that hide a multiply-add's latency


@dataclass(frozen=True)
class StepShape:
    """The compiled part of a step."""

    lenses: tuple[LensShape, ...]  #: the lens blocks.
    flow: bool  #: whether there is a vector field.
    functions: tuple[int, ...]  #: the kinds of functions that the vector field has.
    bounded: bool  #: whether states have bounds.
    vectors: int  #: vectors of starts in a tile; 0 for a single start.
    few: bool  #: whether the coordinates of a single start fit one vector.
    target: Target  #: the processor's.

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

    @property
    def slots(self) -> int:
        """Functions of features that are computed at a time."""
        return self.target.width("float64") if self.single else 1

    def width(self, lens: LensShape) -> int:
        """Units in a block of a lens."""
        return self.form.columns * self.target.width(lens.precision)

    @property
    def arrays(self) -> list[str]:
        """Names of the arrays that do not change from call to call, in order."""
        frame = ["mean", "scale", "unit", "lag_unit", "input_mean", "input_unit", "low", "high"]
        frame += ["watch_low", "watch_high", "table", "weights", "flow_table", "flow_weights", "flow_steps"]
        frame += ["function_places", "function_slopes", "function_shifts"] if self.functions else []
        names = ("position", "angle", "lenses", "readout", "bias", "gain", "constants")
        return [*frame, *(f"{name}{k}" for k in range(len(self.lenses)) for name in names)]

    @property
    def buffers(self) -> list[str]:
        """Names of the pieces of scratch."""
        frame = ["x", "z", "lags", "one", "features", "change", "work_one", "work", "slope", "slopes", "now"]
        return [*frame, "narrow", "positions", "output"]

    @property
    def sizes(self) -> list[str]:
        """Names of the integers that do not change from call to call, in order."""
        frame = ["size", "outputs", "past_size", "features", "known", "substeps"]
        frame += ["linear", "products", "flow_linear", "flow_products"]
        frame += [f"functions{kind}" for kind in self.functions]
        lenses = [f"{name}{k}" for k in range(len(self.lenses)) for name in ("units", "depth")]
        return [*frame, *lenses, *(f"at_{name}" for name in self.buffers), "room"]


# What changes from call to call; an array of the addresses and integers of `StepShape` follows.
POINTERS = ("window", "past", "inputs", "states", "diverged", "left", "scratch")
SIZES = ("batch", "steps", "first_row", "last_row")


def emit(shape: StepShape, name: str) -> ir.Module:
    """The module that holds the step as the function `name`; it returns how many tiles had a start to mark."""
    module = ir.Module(name=name)
    module.triple = shape.target.triple
    arguments = [*((p, POINTER) for p in POINTERS), *((s, INT) for s in SIZES)]
    stored = [*((array, POINTER) for array in shape.arrays), *((s, INT) for s in shape.sizes)]
    code = Code(module, name, arguments, shape.target, "float64", stored, INT)
    code.finish(StepWriter(shape, code).write())
    return module


class StepWriter:
    """Writes the kernel."""

    def __init__(self, shape: StepShape, code: Code) -> None:
        self.shape, self.code, self.args, self.rows = shape, code, code.arguments, shape.rows
        self.buffer = {name: code.at(self.args["scratch"], self.args[f"at_{name}"]) for name in shape.buffers}
        self.lenses = [LensPart(code, k, shape, self.buffer) for k in range(len(shape.lenses))]
        with code.builder.goto_entry_block():
            self.alive, self.noticed = code.builder.alloca(INT), code.builder.alloca(INT)
        never = Tile(code, code.constant(-1.0).parts * shape.parts)
        self.diverged, self.left = Variable(code, never), Variable(code, never)
        self.x = Variable(code, code.constant(0.0))  # of a single start whose coordinates fit one vector

    def write(self) -> ir.Value:
        """All tiles, all steps; how many tiles had a start to mark."""
        code, args = self.code, self.args
        code.builder.store(code.number(0), self.noticed)
        with code.loop(args["first_row"], args["last_row"], self.rows) as row:
            last = code.minus(args["last_row"], 1)
            starts = [code.least(code.plus(row, r), last) for r in range(self.rows)]
            with code.loop(0, args["room"], code.lanes) as k:  # padding must hold numbers
                code.store(code.constant(0.0), args["scratch"], k)
            for values in ("features", "work"):
                self.store(code.constant(1.0), self.buffer[values], -1)
            stride = code.plus(args["past_size"], args["size"])
            self._gather(args["window"], starts, args["size"], stride, args["past_size"], self.buffer["x"])
            self._write_states(code.number(0), starts)
            self._gather(args["past"], starts, args["past_size"], args["past_size"], 0, self.buffer["lags"])
            self.x.set(code.load(self.buffer["x"]))
            code.builder.store(code.number(1), self.alive)
            self._begin()
            with code.loop(0, args["steps"], alive=self.alive) as step:
                self._features(step, starts)
                if self.shape.few:
                    self._advance(step, starts, self._increment_few())
                else:
                    self._increment()
                    self._advance(step, starts)
            self._write_marks(starts)
        return code.builder.load(self.noticed, typ=INT)

    def _begin(self) -> None:
        """No start has diverged; those outside the watched box have left it at step 0."""
        code, zero = self.code, self._zero()
        beyond = Variable(code, zero)
        with self._each(self.args["outputs"]) as i:
            beyond.set(beyond.get() + self._beyond(i, self._load(self.buffer["x"], i)))
        never = code.constant(-1.0)
        self.diverged.set(Tile(code, never.parts * self.shape.parts))
        self.left.set(code.where_less(zero, self._of_start(beyond.get()), zero, never))

    def _zero(self) -> Tile:
        return Tile(self.code, self.code.constant(0.0).parts * self.shape.parts)

    def _beyond(self, i: ir.Value, value: Tile) -> Tile:
        """How far coordinate i lies outside the watched box; zero inside."""
        below, above = self.parameter("watch_low", i) - value, value - self.parameter("watch_high", i)
        return self.code.at_least(self.code.at_least(below, above), self._zero())

    def _of_start(self, sums: Tile) -> Tile:
        """Sums over coordinates; those of a single start are still spread over the lanes."""
        return self.code.splat(self.code.total(sums.parts[0])) if self.shape.single else sums

    def _features(self, step: ir.Value, starts: list[ir.Value]) -> None:
        """z, the differences that the step before left, and the inputs."""
        args, features = self.args, self.buffer["features"]
        if self.shape.few:
            zero = self.code.number(0)
            z = (self.x.get() - self.parameter("mean", zero)) * self.parameter("unit", zero)
            self.code.store(z, features)
        else:
            self._scaled(self.buffer["x"], "mean", "unit", args["size"], features)
        lags = self.item(features, args["size"])
        self._scaled(self.buffer["lags"], None, "lag_unit", args["past_size"], lags)
        here = self.code.plus(args["size"], args["past_size"])
        first = self.code.times(step, args["known"])
        stride = self.code.times(args["steps"], args["known"])
        self._gather(args["inputs"], starts, args["known"], stride, first, self.buffer["now"])
        self._scaled(self.buffer["now"], "input_mean", "input_unit", args["known"], self.item(features, here))

    def _scaled(self, source: ir.Value, shift: str | None, unit: str, count: ir.Value, out: ir.Value) -> None:
        with self._each(count) as i:
            value = self._load(source, i)
            if shift is not None:
                value = value - self.parameter(shift, i)
            self.store(value * self.parameter(unit, i), out, i)

    def _increment(self) -> None:
        """The sum of all parts, standardised, to the array of changes."""
        seen = self.buffer["features"]
        self._product("", seen, self.buffer["change"])
        if self.shape.flow:
            self._flow(seen)
        self._add_lenses(seen)

    def _increment_few(self) -> Tile:
        """The same of a single start whose coordinates fit one vector, which stays in registers."""
        code, seen, out = self.code, self.buffer["features"], self.buffer["change"]
        change = self._sum_few("", seen)
        if self.shape.flow:
            change = change + self._flow_few(seen)
        if not self.lenses:
            return change
        code.store(change, out)
        self._add_lenses(seen)
        return code.load(out)

    def _add_lenses(self, seen: ir.Value) -> None:
        """Add the gain times the output of every lens block to the change."""
        change, output = self.buffer["change"], self.buffer["output"]
        for lens in self.lenses:
            lens.compute(seen)
            with self._each(self.args["outputs"]) as i:
                gain = self._parameter_of(lens.args["gain"], i)
                self.store(self.code.fma(gain, self._load(output, i), self._load(change, i)), change, i)

    def _advance(self, step: ir.Value, starts: list[ir.Value], change: Tile | None = None) -> None:
        """X += scale * change; shift the lags; store the state; notice what is not finite or not in the watched box."""
        code, args = self.code, self.args
        x, lags, features = self.buffer["x"], self.buffer["lags"], self.buffer["features"]
        lost, beyond = Variable(code, self._zero()), Variable(code, self._zero())

        def move(i: ir.Value, before: Tile, change: Tile) -> None:
            value = code.fma(self.parameter("scale", i), change, before)
            if self.shape.bounded:
                value = code.at_most(code.at_least(value, self.parameter("low", i)), self.parameter("high", i))
            self.store(value, x, i)
            if self.shape.few:
                self.x.set(value)
            lost.set(lost.get() + (value - value))  # zero for a finite number
            beyond.set(beyond.get() + self._beyond(i, value))

        if change is not None:
            move(code.number(0), self.x.get(), change)
        else:
            with self._each(args["outputs"]) as i:
                move(i, self._load(x, i), self._load(self.buffer["change"], i))
        with code.loop_down(code.minus(args["past_size"], args["size"])) as i:
            self._write(self.read(lags, i), lags, code.plus(i, args["size"]))
        with code.loop(0, code.least(args["size"], args["past_size"])) as i:
            z = (self.read(x, i) - self._number("mean", i)) * self._number("unit", i)
            self._write(z - self.read(features, i), lags, i)
        after = code.plus(step, 1)
        self._write_states(after, starts)
        self._notice(after, self._of_start(lost.get()), self._of_start(beyond.get()))

    def _notice(self, step: ir.Value, lost: Tile, beyond: Tile) -> None:
        """Note the first step of every start that is not finite or beyond; `alive` ends once all have diverged."""
        builder, code = self.code.builder, self.code
        now, zero = code.splat(builder.sitofp(step, code.scalar)), code.constant(0.0)

        def end(value: ir.Value, mark: ir.Value, now: ir.Value, zero: ir.Value) -> ir.Value:
            first = builder.and_(builder.fcmp_unordered("uno", value, value), builder.fcmp_ordered("<", mark, zero))
            return builder.select(first, now, mark)

        diverged = code.each(end, lost, self.diverged.get(), now, zero)
        left, finite = self.left.get(), code.where_less(diverged, zero, beyond, zero)
        self.left.set(code.where_less(left, zero, code.where_less(zero, finite, now, left), left))
        self.diverged.set(diverged)
        living = [builder.fcmp_ordered("<", part, zero.parts[0]) for part in diverged.parts]
        bits = ir.IntType(code.lanes)
        alive = builder.icmp_unsigned("!=", builder.bitcast(reduce(builder.or_, living), bits), bits(0))
        builder.store(builder.zext(alive, INT), self.alive)

    def _write_states(self, step: ir.Value, starts: list[ir.Value]) -> None:
        """The states of all starts as step number `step` of their rollouts, of which 0 is the start."""
        code, args = self.code, self.args
        for r, start in enumerate(starts):
            time = code.plus(code.times(start, code.plus(args["steps"], 1)), step)
            place = code.at(args["states"], code.times(time, args["size"]))
            with code.loop(0, args["size"]) as i:
                code.store(code.load_scalar(self.buffer["x"], code.plus(code.times(i, self.rows), r)), place, i)

    def _write_marks(self, starts: list[ir.Value]) -> None:
        """The marks of all starts, and whether there are any."""
        builder, code = self.code.builder, self.code
        zero = code.constant(0.0).parts[0]
        marks = [part for mark in (self.diverged, self.left) for part in mark.get().parts]
        some, bits = reduce(builder.or_, [builder.fcmp_ordered(">=", m, zero) for m in marks]), ir.IntType(code.lanes)
        found = builder.zext(builder.icmp_unsigned("!=", builder.bitcast(some, bits), bits(0)), INT)
        builder.store(code.plus(builder.load(self.noticed, typ=INT), found), self.noticed)
        for name, mark in (("diverged", self.diverged), ("left", self.left)):
            lanes = [(part, ir.Constant(INT32, lane)) for part in mark.get().parts for lane in range(self.code.lanes)]
            for start, (part, lane) in zip(starts, lanes, strict=False):  # a single start is the same in all lanes
                step = builder.fptosi(builder.extract_element(part, lane), INT)
                builder.store(step, builder.gep(self.args[name], [start], source_etype=INT), align=8)

    def _factors(self, kind: str, seen: ir.Value, m: ir.Value) -> tuple[Tile, Tile]:
        """The two numbers whose product is number m."""
        code, builder = self.code, self.code.builder
        row = builder.gep(self.args[f"{kind}table"], [code.times(m, 2)], source_etype=INT)
        places = (builder.gep(row, [code.number(k)], source_etype=INT) for k in (0, 1))
        one, other = (self.read(seen, builder.load(place, typ=INT, align=8)) for place in places)
        return one, other

    def _flow_few(self, seen: ir.Value) -> Tile:
        """As `_flow` for a single start whose coordinates fit one vector; the result is z(dt) - z(0).

        The coordinates move in the array of features, which holds its own values again at the end. The lanes behind
        hold other features; they do not change, as the weights of the padding are zero.
        """
        code, args = self.code, self.args
        first = code.load(seen)
        whole, half, sixth = (code.splat(code.load_scalar(args["flow_steps"], k)) for k in range(3))
        z = Variable(code, first)
        with code.loop(0, args["substeps"]):
            start, total = z.get(), code.constant(0.0)
            for ahead, weight in ((half, 1.0), (half, 2.0), (whole, 2.0), (None, 1.0)):
                self._compute_functions(seen)
                slope = self._sum_few("flow_", seen)
                total = code.fma(slope, code.constant(weight), total)
                moved = code.fma(sixth, total, start) if ahead is None else code.fma(ahead, slope, start)
                code.store(moved, seen)
            z.set(moved)
        code.store(first, seen)
        return z.get() - first

    def _flow(self, seen: ir.Value) -> None:
        """Add z(dt) - z(0) by Runge-Kutta steps; `work` holds the features with the moving z in front."""
        code, args, work = self.code, self.args, self.buffer["work"]
        with code.loop(0, args["features"]) as i:
            self._write(self.read(seen, i), work, i)
        with code.loop(0, args["size"]) as i:
            self._write(self.read(seen, i), self.buffer["z"], i)
        whole, half, sixth = (self._number("flow_steps", code.number(k)) for k in range(3))
        with code.loop(0, args["substeps"]):
            for stage, (ahead, weight) in enumerate(((half, 1.0), (half, 2.0), (whole, 2.0), (None, 1.0))):
                self._compute_functions(work)
                self._product("flow_", work, self.buffer["slope"])
                with code.loop(0, args["size"]) as i:
                    self._stage(i, stage, ahead, weight, sixth)
        with code.loop(0, args["size"]) as i:
            moved = self.read(self.buffer["z"], i) - self.read(seen, i)
            self._write(self.read(self.buffer["change"], i) + moved, self.buffer["change"], i)

    def _compute_functions(self, seen: ir.Value) -> None:
        if self.shape.functions:
            write_functions(self, seen)

    def _stage(self, i: ir.Value, stage: int, ahead: Tile | None, weight: float, sixth: Tile) -> None:
        """One coordinate of one Runge-Kutta stage."""
        slope, start = self.read(self.buffer["slope"], i), self.read(self.buffer["z"], i)
        weighted = slope * self._constant(weight)
        total = weighted if stage == 0 else self.read(self.buffer["slopes"], i) + weighted
        self._write(total, self.buffer["slopes"], i)
        if ahead is None:
            moved = start + sixth * total
            self._write(moved, self.buffer["z"], i)
        else:
            moved = start + ahead * slope
        self._write(moved, self.buffer["work"], i)

    def _product(self, kind: str, seen: ir.Value, out: ir.Value) -> None:
        """Out = weights * (1, features, products); weights are (outputs / block, terms, block), as `outputs` says."""
        code, products = self.code, self.item(seen, self.code.minus(self.args[f"{kind}linear"], 1))
        with code.loop(0, self.args[f"{kind}products"]) as m:
            one, other = self._factors(kind, seen, m)
            self._write(one * other, products, m)
        terms = code.plus(self.args[f"{kind}linear"], self.args[f"{kind}products"])
        source = self.item(seen, -1)
        with code.loop(0, self.args["outputs"], self.shape.outputs) as i:
            rows = code.at(self.args[f"{kind}weights"], code.times(i, terms))
            if self.shape.single:
                sums = Variable(code, Tile(code, code.constant(0.0).parts * GROUP))
                self._add_terms(sums, rows, source, terms)
                code.store(self._together(sums), out, i)
            else:
                self._product_tile(rows, source, terms, out, i)

    def _sum_few(self, kind: str, seen: ir.Value) -> Tile:
        """The same for outputs that fit one vector: each product is summed before its way through memory."""
        code, linear = self.code, self.args[f"{kind}linear"]
        rows, products = self.args[f"{kind}weights"], self.item(seen, code.minus(linear, 1))
        sums = Variable(code, Tile(code, code.constant(0.0).parts * GROUP))
        self._add_terms(sums, rows, self.item(seen, -1), linear)
        with code.loop(0, self.args[f"{kind}products"], GROUP) as m:
            terms, columns = [], []
            for place in (code.plus(m, q) for q in range(GROUP)):
                one, other = (code.splat(factor.parts[0]) for factor in self._factors(kind, seen, place))
                terms.append((one * other).parts[0])
                code.store(code.builder.extract_element(terms[-1], ir.Constant(INT32, 0)), products, place)
                columns.append(code.load(rows, code.times(code.plus(linear, place), code.lanes)).parts[0])
            sums.set(code.fma(Tile(code, columns), Tile(code, terms), sums.get()))
        return self._together(sums)

    def _add_terms(self, sums: Variable, rows: ir.Value, source: ir.Value, count: ir.Value) -> None:
        """Add weights times terms to four vectors of sums, four terms at a time."""
        code = self.code
        with code.loop(0, count, GROUP) as j:
            places = [code.plus(j, q) for q in range(GROUP)]
            terms = [code.splat(code.load_scalar(source, place)).parts[0] for place in places]
            columns = [code.load(rows, code.times(place, code.lanes)).parts[0] for place in places]
            sums.set(code.fma(Tile(code, columns), Tile(code, terms), sums.get()))

    def _together(self, sums: Variable) -> Tile:
        a, b, c, d = (Tile(self.code, [part]) for part in sums.get().parts)
        return (a + b) + (c + d)

    def _product_tile(self, rows: ir.Value, source: ir.Value, count: ir.Value, out: ir.Value, i: ir.Value) -> None:
        """Four outputs of every start, one term at a time."""
        code, vectors = self.code, self.shape.vectors
        sums = Variable(code, Tile(code, code.constant(0.0).parts * (GROUP * vectors)))
        with code.loop(0, count) as j:
            terms, row = self._load(source, j).parts * GROUP, code.at(rows, code.times(j, GROUP))
            numbers = [part for q in range(GROUP) for part in code.splat(code.load_scalar(row, q)).parts * vectors]
            sums.set(code.fma(Tile(code, numbers), Tile(code, terms), sums.get()))
        for q in range(GROUP):
            self.store(Tile(code, sums.get().parts[q * vectors : (q + 1) * vectors]), out, code.plus(i, q))

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

    def item(self, array: ir.Value, i: ir.Value | int) -> ir.Value:
        """The address of entry i of an array of the tile."""
        return self.code.at(array, self.code.times(i, self.rows))

    def _load(self, array: ir.Value, i: ir.Value) -> Tile:
        """Entry i of every start; or, for a single start, a vector of entries."""
        item, lanes = self.item(array, i), self.code.lanes
        return Tile(self.code, [self.code.load(item, v * lanes).parts[0] for v in range(self.shape.parts)])

    def store(self, value: Tile, array: ir.Value, i: ir.Value | int) -> None:
        """The way back; a tile of one part goes to every start."""
        item, lanes = self.item(array, i), self.code.lanes
        for v, part in enumerate(value.parts * (self.shape.parts // len(value.parts))):
            self.code.store(part, item, v * lanes)

    def parameter(self, name: str, i: ir.Value) -> Tile:
        """A parameter of entry i, to go with `_load`."""
        return self._parameter_of(self.args[name], i)

    def _parameter_of(self, array: ir.Value, i: ir.Value) -> Tile:
        if self.shape.single:
            return self.code.load(array, i)
        return self.code.splat(self.code.load_scalar(array, i))

    def read(self, array: ir.Value, i: ir.Value) -> Tile:
        """Entry i alone, of every start; or, for a single start, a scalar."""
        if self.shape.single:
            return Tile(self.code, [self.code.load_scalar(array, i)])
        return self._load(array, i)

    def _write(self, value: Tile, array: ir.Value, i: ir.Value | int) -> None:
        """The way back."""
        if self.shape.single:
            self.code.store(value, array, i)
        else:
            self.store(value, array, i)

    def _number(self, name: str, i: ir.Value) -> Tile:
        """A parameter of entry i, to go with `read`."""
        value = self.code.load_scalar(self.args[name], i)
        return Tile(self.code, [value]) if self.shape.single else self.code.splat(value)

    def _constant(self, value: float) -> Tile:
        """A constant, to go with `read`."""
        return (
            Tile(self.code, [ir.Constant(self.code.scalar, value)]) if self.shape.single else self.code.constant(value)
        )
