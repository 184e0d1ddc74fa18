"""From a kernel's text to a function that Python can call: LLVM, a cache of machine code on disk, ctypes.

ctypes releases the interpreter lock while the function runs, so threads run kernels side by side. Machine code is
stored under a name that hashes everything it depends on.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import sys
import threading
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import llvmlite
from llvmlite import binding, ir

from lln.core.errors import choice
from lln.core.safe_files import UserCache
from lln.ops.cpu.simd import Target

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


def compiled(module: ir.Module, name: str, goal: Target, signature: Any) -> Callable[..., Any]:
    """The function `name` of `module` as a ctypes function of type `signature`."""
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
        function: Callable[..., Any] = signature(engine.get_function_address(name))
        return function


def _optimise(text: str, machine: Any) -> bytes:
    module = binding.parse_assembly(text)
    module.verify()
    options = binding.create_pipeline_tuning_options(speed_level=2)
    # The kernels are vectors and unrolled already; more of either only costs registers.
    options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = options.loop_interleaving = False
    builder = binding.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return bytes(machine.emit_object(module))


def signature(pointers: int, sizes: int, result: Any = None) -> Any:
    """A C function of `pointers` addresses and `sizes` integers."""
    return ctypes.CFUNCTYPE(result, *[ctypes.c_void_p] * pointers, *[ctypes.c_int64] * sizes)


def _forget() -> None:
    """A forked child may find the lock taken by a thread that it does not have."""
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
