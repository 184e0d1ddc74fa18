"""A step as C99: one source, one header and a self-test that replays a stored rollout."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lln.core.errors import InputError, choice
from lln.core.safe_files import output_folder, whole_file
from lln.export.c.dense import DenseModel
from lln.export.c.field import FieldModel
from lln.export.c.source import PRECISIONS, Model, header, identifier, selftest, source
from lln.export.parts import Difference, Probe, field_stacks, stacks
from lln.step.base import AnyStep
from lln.step.frame import Array

FLAGS = ("-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror")
FAST = ("-O3", "-march=native")


@dataclass(frozen=True)
class CExport:
    """What was written, and how it compares.

    Attributes:
        files: source, header, self-test.
        difference: against the float64 rollout; None where no compiler was found to try it with.
        command: how to compile and run the self-test.
    """

    files: tuple[Path, ...]
    difference: Difference | None
    command: str


def export_c(
    surrogate: AnyStep,
    folder: str | os.PathLike[str],
    precision: str | None = None,
    *,
    name: str = "model",
    window: Array | None = None,
    names: Sequence[str] = (),
    input_names: Sequence[str] = (),
    check: bool = True,
) -> CExport:
    """Write `name`.c, `name`.h and `name`_selftest.c into `folder`, and compile and replay them if there is a compiler.

    Args:
        surrogate: what to write.
        folder: made if it is missing.
        precision: of the networks, "float" or "double"; None takes their own. States, inputs and closed-form parts are
            double either way.
        name: stem of the files, of the functions and of the type.
        window: a start for the self-test, (H, n); near the training mean if left out.
        names: of the coordinates, for the header's comment.
        input_names: of the inputs, for the header's comment.
        check: whether to compile and replay.
    """
    double = surrogate.dtype == torch.float64
    precision = choice("precision", precision or ("double" if double else "float"), PRECISIONS)
    if double and surrogate.corrected and precision == "float":
        raise InputError(
            "precision='float' would lose the digits of networks that were solved in float64; use precision='double'"
        )
    model = _model(surrogate, identifier(name), precision)
    probe = Probe.of(surrogate, window)
    truth = surrogate.to_dtype(torch.float64).rollout(probe.window, probe.steps, probe.inputs)
    # PyTorch's own rounding sets the scale of what is right; the floor is float64's, for frames without a network.
    usual = probe.compare("", surrogate, truth).torch
    if not np.isfinite(usual):
        raise InputError(
            f"the model grows without bound within {probe.steps} steps of its start, so a self-test has nothing to "
            "compare; give a window near the training data"
        )
    files = [
        (f"{name}.c", source(model)),
        (f"{name}.h", header(model, names, input_names)),
        (f"{name}_selftest.c", selftest(model, probe, truth, 2.0 * usual + 1e-9)),
    ]
    home = output_folder(folder)
    for file, text in _of_one_export(name, files):
        with whole_file(home / file) as partial:
            partial.write_text(text, encoding="ascii")
    command = f"cc {' '.join((*FLAGS, *FAST))} {name}.c {name}_selftest.c -lm -o {name}_selftest && ./{name}_selftest"
    difference = None
    if check and compiler() is not None:
        with tempfile.TemporaryDirectory() as place:
            program = compile_c(folder, name, Path(place) / "selftest")
            states = replay(program, probe, surrogate)
        difference = probe.compare(f"{name}.c ({precision})", surrogate, states)
    return CExport(tuple(home / file for file, _ in files), difference, command)


def _of_one_export(name: str, files: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The same files, which a compiler refuses to take together with those of another export.

    Three files cannot replace three older ones in one operation, so a kill in between may leave some of each.
    """
    mark = hashlib.sha256("".join(text for _, text in files).encode()).hexdigest()[:8]
    word, include = f"{name.upper()}_EXPORT", f'#include "{name}.h"\n'
    define = f"#define {word} 0x{mark}u /* the sources ask for it */\n"
    check = f'#if {word} != 0x{mark}u\n#error "{name}.h is of another export"\n#endif\n'
    guard = f"#define {name.upper()}_H\n"
    return [(file, text.replace(guard, guard + define, 1).replace(include, include + check, 1)) for file, text in files]


def _model(surrogate: AnyStep, name: str, precision: str) -> Model[Any]:
    if surrogate.kind == "field":
        return FieldModel(name, precision, surrogate.frame, field_stacks(surrogate))
    return DenseModel(name, precision, surrogate.frame, stacks(surrogate))


def compiler() -> str | None:
    """The C compiler to try an export with: $CC, or the first of cc, gcc and clang that is installed."""
    named = os.environ.get("CC")
    return next((found for found in map(shutil.which, [named] if named else ["cc", "gcc", "clang"]) if found), None)


def compile_c(
    folder: str | os.PathLike[str], name: str, program: Path, flags: Sequence[str] | None = None, shared: bool = False
) -> Path:
    """Compile an export with its self-test into `program`; or without it, into a shared library."""
    tool = compiler()
    if tool is None:
        raise InputError("no C compiler was found; install gcc or clang, or name one in the variable CC")
    sources = [f"{name}.c"] if shared else [f"{name}.c", f"{name}_selftest.c"]
    more = ["-shared", "-fPIC"] if shared else []
    command = [tool, *FLAGS, *(FAST if flags is None else flags), *more, *sources, "-lm", "-o", str(program.resolve())]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        first = next(iter(done.stderr.strip().splitlines()), "no message")
        raise InputError(f"{Path(folder) / name}.c: {tool} refused it ({first}); compile it by hand to see more")
    return program


def replay(program: Path, probe: Probe, surrogate: AnyStep, run: Sequence[str] = ()) -> Array:
    """The states (B, steps, n) that a compiled self-test computes from the starts of `probe`.

    Args:
        program: from `compile_c`.
        probe: where to start.
        surrogate: what was exported.
        run: words to put before the program, such as valgrind's.
    """
    with tempfile.TemporaryDirectory() as place:
        starts, ends = Path(place) / "starts", Path(place) / "ends"
        rows = [probe.window.reshape(len(probe.window), -1)]
        if probe.inputs is not None:
            rows.append(probe.inputs.reshape(len(probe.window), -1))
        np.concatenate(rows, axis=1).astype(np.float64).tofile(starts)
        command = [*run, str(program.resolve()), str(starts), str(ends), str(probe.steps)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise InputError(f"{program}: exited with code {done.returncode} ({done.stderr.strip() or 'no message'})")
        return np.fromfile(ends).reshape(len(probe.window), probe.steps, surrogate.frame.size)
