"""Vectors as Python values: a thin layer over the LLVM builder, so that the kernels read like their mathematics.

The kernels are written in Python and compiled by LLVM (through llvmlite). A `Tile` is a handful of
SIMD vectors that go through the same arithmetic side by side: one alone would wait for every result of the last
instruction, four of them keep the processor's ports busy. Python loops in a kernel's text unroll; `Code.loop` makes a
loop of the machine.

`compiled` turns a kernel's text into a function that Python can call. ctypes releases the interpreter lock while it
runs, so threads run kernels side by side. Machine code is stored on disk under a name that hashes everything it depends
on.
"""

from __future__ import annotations

import contextlib
import copy
import ctypes
import hashlib
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import llvmlite
from llvmlite import binding, ir

from lln.core.errors import choice
from lln.core.safe_files import UserCache

FLOAT, DOUBLE, INT = ir.FloatType(), ir.DoubleType(), ir.IntType(64)
INT32, VOID, POINTER = ir.IntType(32), ir.VoidType(), ir.PointerType()

# Bits of the control register of x86: treat subnormal operands as zero, flush subnormal results to zero.
_FLUSH = 0x8040


@dataclass(frozen=True)
class Target:
    """What the code is compiled for."""

    name: str  #: "avx512", "avx2" or "baseline".
    lanes: int  #: float32 numbers in a vector.
    fused: bool  #: whether the processor multiplies and adds with one rounding.
    x86: bool  #: whether subnormals are switched by the control register of x86.
    triple: str  #: LLVM's name of the platform.
    cpu: str  #: LLVM's name of the processor.

    def width(self, precision: str) -> int:
        """Numbers of that precision in a vector; four at least, which packing needs."""
        return self.lanes if precision == "float32" else max(4, self.lanes // 2)


class Tile:
    """Vectors that are computed side by side; a tile of one part combines with tiles of any size."""

    __slots__ = ("code", "parts")

    def __init__(self, code: Code, parts: Sequence[ir.Value]) -> None:
        self.code, self.parts = code, tuple(parts)

    def __add__(self, other: Tile) -> Tile:
        return self.code.each(self.code.builder.fadd, self, other)

    def __sub__(self, other: Tile) -> Tile:
        return self.code.each(self.code.builder.fsub, self, other)

    def __mul__(self, other: Tile) -> Tile:
        return self.code.each(self.code.builder.fmul, self, other)

    def __truediv__(self, other: Tile) -> Tile:
        return self.code.each(self.code.builder.fdiv, self, other)

    def __neg__(self) -> Tile:
        return self.code.each(self.code.builder.fneg, self)


class Variable:
    """A tile that changes in a loop; LLVM turns it into registers."""

    def __init__(self, code: Code, tile: Tile) -> None:
        self._code = code
        with code.builder.goto_entry_block():
            self._slots = [code.builder.alloca(code.vector) for _ in tile.parts]
        self.set(tile)

    def get(self) -> Tile:
        """The value now."""
        return Tile(self._code, [self._code.builder.load(slot, typ=self._code.vector) for slot in self._slots])

    def set(self, tile: Tile) -> None:
        """Change the value."""
        for slot, part in zip(self._slots, tile.parts, strict=True):
            self._code.builder.store(part, slot)


class Code:
    """The body of one machine function: its arguments, and the operations that it may use.

    Args:
        module: where the function goes.
        name: its name; `name` is the symbol to call.
        arguments: name and type of every argument, in order.
        target: what it is compiled for.
        precision: of the numbers, "float32" or "float64"; `as_precision` gives the same body with the other.
        stored: name and type of further arguments of the body, which the symbol to call takes as one array of addresses
            and integers behind its own arguments: ctypes converts every argument of every call.
        result: type of what `finish` returns.
    """

    def __init__(
        self,
        module: ir.Module,
        name: str,
        arguments: Sequence[tuple[str, ir.Type]],
        target: Target,
        precision: str = "float32",
        stored: Sequence[tuple[str, ir.Type]] = (),
        result: ir.Type = VOID,
    ) -> None:
        self.module, self.target = module, target
        self._set(precision)
        everything = [*arguments, *stored]
        body = ir.Function(module, ir.FunctionType(result, [kind for _, kind in everything]), f"{name}_body")
        body.linkage = "internal"
        body.attributes.add("noinline")
        body.attributes.add("nounwind")
        body.attributes.alignstack = 4 * target.lanes  # vectors that do not fit the registers must not straddle lines
        self.arguments = dict(zip((key for key, _ in everything), body.args, strict=True))
        for value in body.args:
            if isinstance(value.type, ir.PointerType):
                value.add_attribute("noalias")
        self.builder = ir.IRBuilder(body.append_basic_block("entry"))
        self._enter(name, [kind for _, kind in arguments], [kind for _, kind in stored], body)

    def _set(self, precision: str) -> None:
        single = precision == "float32"
        self.precision, self.lanes = precision, self.target.width(precision)
        self.scalar, self._whole = (FLOAT, INT32) if single else (DOUBLE, INT)
        self.bytes, self._mantissa, self._bias = (4, 23, 127) if single else (8, 52, 1023)
        self.vector = ir.VectorType(self.scalar, self.lanes)

    def as_precision(self, precision: str) -> Code:
        """The same function body, with numbers of another precision."""
        other = copy.copy(self)
        other._set(precision)
        return other

    @property
    def magic(self) -> float:
        """Adding this rounds to an integer m and leaves the biased exponent of 2^m in the lowest bits."""
        return float(1.5 * 2.0**self._mantissa + self._bias)

    def _enter(self, name: str, given: list[ir.Type], stored: list[ir.Type], body: ir.Function) -> None:
        """The symbol to call: switches subnormals off around the body, which LLVM therefore cannot move out."""
        result = body.function_type.return_type
        entry = ir.Function(self.module, ir.FunctionType(result, [*given, *([POINTER] if stored else [])]), name)
        builder = ir.IRBuilder(entry.append_basic_block("entry"))
        arguments = list(entry.args[: len(given)])
        for k, kind in enumerate(stored):
            value = builder.load(builder.gep(entry.args[-1], [self.number(k)], source_etype=INT), typ=INT, align=8)
            arguments.append(builder.inttoptr(value, POINTER) if isinstance(kind, ir.PointerType) else value)
        if not self.target.x86:
            _return(builder, builder.call(body, arguments))
            return
        control = ir.FunctionType(VOID, [POINTER])
        store = self.module.declare_intrinsic("llvm.x86.sse.stmxcsr", (), control)
        load = self.module.declare_intrinsic("llvm.x86.sse.ldmxcsr", (), control)
        before, inside = builder.alloca(INT32), builder.alloca(INT32)
        builder.call(store, [before])
        builder.store(builder.or_(builder.load(before, typ=INT32), ir.Constant(INT32, _FLUSH)), inside)
        builder.call(load, [inside])
        value = builder.call(body, arguments)
        builder.call(load, [before])
        _return(builder, value)

    def finish(self, value: ir.Value | None = None) -> None:
        """Return to the caller."""
        _return(self.builder, value)

    def each(self, operation: Callable[..., ir.Value], *tiles: Tile) -> Tile:
        """Apply `operation` part by part; a tile of one part goes with every part of the others."""
        count = max(len(tile.parts) for tile in tiles)
        columns = [tile.parts * (count // len(tile.parts)) for tile in tiles]
        return Tile(self, [operation(*column) for column in zip(*columns, strict=True)])

    def fma(self, a: Tile, b: Tile, c: Tile) -> Tile:
        """The sum a * b + c, with one rounding where the processor can."""
        if not self.target.fused:
            return a * b + c
        kind = f"llvm.fma.v{self.lanes}f{8 * self.bytes}"
        function = self.module.globals.get(kind) or ir.Function(
            self.module, ir.FunctionType(self.vector, [self.vector] * 3), kind
        )
        return self.each(lambda *parts: self.builder.call(function, parts), a, b, c)

    def exact_fma(self, a: Tile, b: Tile, c: Tile) -> Tile:
        """The sum a * b + c with one rounding, or as good as one, on every processor."""
        if self.target.fused:
            return self.fma(a, b, c)
        if self.precision == "float64":
            return self._compensated(a, b, c)
        wide = ir.VectorType(DOUBLE, self.lanes)

        def one(*parts: ir.Value) -> ir.Value:
            x, y, z = (self.builder.fpext(part, wide) for part in parts)
            return self.builder.fptrunc(self.builder.fadd(self.builder.fmul(x, y), z), self.vector)

        return self.each(one, a, b, c)

    def _compensated(self, a: Tile, b: Tile, c: Tile) -> Tile:
        """A * b + c with the rounding errors of product and sum added at the end (Dekker, Knuth)."""
        split = self.constant(2.0**27 + 1.0)
        product = a * b
        halves = []
        for factor in (a, b):
            big = factor * split
            high = big - (big - factor)
            halves.append((high, factor - high))
        (a1, a2), (b1, b2) = halves
        lost = a2 * b2 - (((product - a1 * b1) - a2 * b1) - a1 * b2)
        total = product + c
        back = total - product
        return total + (((product - (total - back)) + (c - back)) + lost)

    def at_most(self, x: Tile, limit: Tile) -> Tile:
        """min(x, limit), where NaN stays NaN."""
        return self.each(lambda a, b: self.builder.select(self.builder.fcmp_ordered(">", a, b), b, a), x, limit)

    def at_least(self, x: Tile, limit: Tile) -> Tile:
        """max(x, limit), where NaN stays NaN."""
        return self.each(lambda a, b: self.builder.select(self.builder.fcmp_ordered("<", a, b), b, a), x, limit)

    def where_less(self, x: Tile, limit: Tile, then: Tile, otherwise: Tile) -> Tile:
        """`then` where x < limit, else `otherwise`."""

        def one(a: ir.Value, b: ir.Value, c: ir.Value, d: ir.Value) -> ir.Value:
            return self.builder.select(self.builder.fcmp_ordered("<", a, b), c, d)

        return self.each(one, x, limit, then, otherwise)

    def power(self, bits: Tile, negative: bool = False) -> Tile:
        """2^m (or 2^-m) from a number whose lowest bits hold the biased exponent of 2^m."""
        whole = ir.VectorType(self._whole, self.lanes)
        values = (self._mantissa, 2 * self._bias << self._mantissa)
        shift, twice = (ir.Constant(whole, [value] * self.lanes) for value in values)

        def one(part: ir.Value) -> ir.Value:
            exponent = self.builder.shl(self.builder.bitcast(part, whole), shift)
            if negative:
                exponent = self.builder.sub(twice, exponent)
            return self.builder.bitcast(exponent, self.vector)

        return self.each(one, bits)

    def constant(self, value: float) -> Tile:
        """The same number in every lane."""
        return Tile(self, [ir.Constant(self.vector, [value] * self.lanes)])

    def splat(self, scalar: ir.Value) -> Tile:
        """The same scalar in every lane."""
        one = self.builder.insert_element(ir.Constant(self.vector, ir.Undefined), scalar, ir.Constant(INT32, 0))
        return Tile(self, [self.shuffle(one, one, [0] * self.lanes)])

    def shuffle(self, a: ir.Value, b: ir.Value, order: Sequence[int]) -> ir.Value:
        """Lanes picked from a (first) and b (behind it)."""
        mask = ir.Constant(ir.VectorType(INT32, len(order)), list(order))
        return self.builder.shuffle_vector(a, b, mask)

    def join(self, parts: Sequence[ir.Value]) -> ir.Value:
        """Short vectors, a power of two of them, one behind the other."""
        while len(parts) > 1:
            size = parts[0].type.count
            parts = [self.shuffle(a, b, range(2 * size)) for a, b in zip(parts[::2], parts[1::2], strict=True)]
        return parts[0]

    def total(self, part: ir.Value) -> ir.Value:
        """Sum over the lanes of one vector, always in the same order."""
        size = self.lanes
        while size > 1:
            size //= 2
            low, high = (self.shuffle(part, part, range(start, start + size)) for start in (0, size))
            part = self.builder.fadd(low, high)
        return self.builder.extract_element(part, ir.Constant(INT32, 0))

    def at(self, pointer: ir.Value, offset: ir.Value | int) -> ir.Value:
        """The address of number `offset` behind `pointer`."""
        return self.builder.gep(pointer, [self.number(offset)], source_etype=self.scalar)

    def load(self, pointer: ir.Value, offset: ir.Value | int = 0) -> Tile:
        """One vector from memory."""
        return Tile(self, [self.builder.load(self.at(pointer, offset), typ=self.vector, align=self.bytes)])

    def load_short(self, pointer: ir.Value, offset: ir.Value | int) -> ir.Value:
        """Four numbers from memory."""
        return self.builder.load(self.at(pointer, offset), typ=ir.VectorType(self.scalar, 4), align=self.bytes)

    def load_scalar(self, pointer: ir.Value, offset: ir.Value | int) -> ir.Value:
        """One number from memory."""
        return self.builder.load(self.at(pointer, offset), typ=self.scalar, align=self.bytes)

    def store(self, value: Tile | ir.Value, pointer: ir.Value, offset: ir.Value | int = 0) -> None:
        """A tile of one part, a short vector or a scalar to memory."""
        part = value.parts[0] if isinstance(value, Tile) else value
        self.builder.store(part, self.at(pointer, offset), align=self.bytes)

    def number(self, value: ir.Value | int) -> ir.Value:
        """An integer of the machine."""
        return ir.Constant(INT, value) if isinstance(value, int) else value

    def plus(self, a: ir.Value | int, b: ir.Value | int) -> ir.Value:
        """Sum of integers."""
        return self.builder.add(self.number(a), self.number(b))

    def minus(self, a: ir.Value | int, b: ir.Value | int) -> ir.Value:
        """Difference of integers."""
        return self.builder.sub(self.number(a), self.number(b))

    def times(self, a: ir.Value | int, b: ir.Value | int) -> ir.Value:
        """Product of integers."""
        return self.builder.mul(self.number(a), self.number(b))

    def least(self, a: ir.Value | int, b: ir.Value | int) -> ir.Value:
        """Lesser of two integers."""
        a, b = self.number(a), self.number(b)
        return self.builder.select(self.builder.icmp_signed("<", a, b), a, b)

    def pick(self, a: ir.Value | int, below: ir.Value | int, then: ir.Value, otherwise: ir.Value) -> ir.Value:
        """`then` if a < below, else `otherwise` (addresses, usually)."""
        return self.builder.select(self.builder.icmp_signed("<", self.number(a), self.number(below)), then, otherwise)

    @contextmanager
    def loop(
        self, start: ir.Value | int, stop: ir.Value | int, step: ir.Value | int = 1, *, alive: ir.Value | None = None
    ) -> Iterator[ir.Value]:
        """A loop over range(start, stop, step), whose body is what is emitted inside.

        With `alive`, the address of an integer, it ends as soon as that is zero.
        """
        before = self.builder.block
        head, body, done = (self.builder.append_basic_block(name) for name in ("head", "body", "done"))
        self.builder.branch(head)
        self.builder.position_at_end(head)
        index = self.builder.phi(INT)
        index.add_incoming(self.number(start), before)
        more = self.builder.icmp_signed("<", index, self.number(stop))
        if alive is not None:
            living = self.builder.icmp_signed("!=", self.builder.load(alive, typ=INT), self.number(0))
            more = self.builder.and_(more, living)
        self.builder.cbranch(more, body, done)
        self.builder.position_at_end(body)
        yield index
        index.add_incoming(self.plus(index, step), self.builder.block)
        self.builder.branch(head)
        self.builder.position_at_end(done)

    @contextmanager
    def loop_down(self, stop: ir.Value) -> Iterator[ir.Value]:
        """A loop over reversed(range(stop))."""
        with self.loop(0, stop) as index:
            yield self.minus(self.minus(stop, 1), index)


def _return(builder: ir.IRBuilder, value: ir.Value | None) -> None:
    if value is None or value.type == VOID:
        builder.ret_void()
    else:
        builder.ret(value)


cache = UserCache("kernels")
LEVELS = ("avx512", "avx2", "baseline")

_lock = threading.RLock()
_engines: list[Any] = []  # they own the memory of the functions


@lru_cache(maxsize=1)
def _prepare() -> None:
    with contextlib.suppress(RuntimeError):  # newer versions prepare themselves and say so
        binding.initialize()
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()


@lru_cache(maxsize=8)
def target(level: str | None = None) -> Target:
    """The named target, or the best one that this processor can run."""
    _prepare()
    triple = str(binding.get_process_triple())
    if not triple.startswith(("x86_64", "amd64")):
        # Every 64-bit ARM and POWER processor has vectors of four floats and fused multiply-adds.
        choice("level", level or "baseline", ["baseline"])
        fused = triple.startswith(("aarch64", "arm64", "ppc64", "powerpc64"))
        return Target("baseline", 4, fused, False, triple, str(binding.get_host_cpu_name()))
    highest = best(dict(binding.get_host_cpu_features()))
    level = choice("level", level or highest, levels(highest))
    lanes, cpu = {"avx512": (16, "x86-64-v4"), "avx2": (8, "x86-64-v3"), "baseline": (4, "x86-64")}[level]
    return Target(level, lanes, level != "baseline", True, triple, cpu)


def levels(highest: str | None = None) -> tuple[str, ...]:
    """The levels up to `highest`, or up to what this processor can run."""
    return LEVELS[LEVELS.index(highest or target().name) :]


def best(features: dict[str, bool]) -> str:
    """The highest level that an x86 processor with these features can run."""
    wide = ("avx512f", "avx512vl", "avx512bw", "avx512dq", "avx512cd")
    narrow = ("avx2", "fma", "bmi", "bmi2", "lzcnt", "movbe", "f16c")
    if not all(features.get(name) for name in narrow):
        return "baseline"
    return "avx512" if all(features.get(name) for name in wide) else "avx2"


def compiled(
    module: ir.Module, name: str, goal: Target, pointers: int, sizes: int, result: Any = None
) -> Callable[..., Any]:
    """The function `name` of `module` for ctypes: it takes `pointers` addresses and `sizes` integers."""
    with _lock:
        _prepare()
        text = str(module)
        machine = binding.Target.from_triple(goal.triple).create_target_machine(
            cpu=goal.cpu, opt=3, reloc="default", codemodel="jitdefault", jit=True
        )
        versions = (llvmlite.__version__, binding.llvm_version_info, sys.platform, goal)
        file = f"{name}-{hashlib.sha256(repr((versions, text)).encode()).hexdigest()[:32]}.bin"
        code = cache.read(file)
        if code is None:
            code = _optimise(text, machine)
            cache.write(file, code)
        engine = binding.create_mcjit_compiler(binding.parse_assembly(f'target triple = "{goal.triple}"'), machine)
        engine.add_object_file(binding.ObjectFileRef.from_data(code))
        engine.finalize_object()
        _engines.append(engine)
        kind = ctypes.CFUNCTYPE(result, *[ctypes.c_void_p] * pointers, *[ctypes.c_int64] * sizes)
        return kind(engine.get_function_address(name))


def written(
    name: str, pointers: Sequence[str], sizes: Sequence[str], goal: Target, precision: str, body: Callable[[Code], Any]
) -> Callable[..., Any]:
    """The compiled function `name` of these addresses and integers, whose text `body(code).emit()` writes."""
    module = ir.Module(name=name)
    module.triple = goal.triple
    code = Code(module, name, [*((p, POINTER) for p in pointers), *((s, INT) for s in sizes)], goal, precision)
    body(code).emit()
    code.finish()
    return compiled(module, name, goal, len(pointers), len(sizes))


def _optimise(text: str, machine: Any) -> bytes:
    module = binding.parse_assembly(text)
    module.verify()
    options = binding.create_pipeline_tuning_options(speed_level=2)
    # The kernels are vectors and unrolled already; more of either only costs registers.
    options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = options.loop_interleaving = False
    builder = binding.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return bytes(machine.emit_object(module))


def _forget() -> None:
    """A forked child may find the lock taken by a thread that it does not have."""
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
