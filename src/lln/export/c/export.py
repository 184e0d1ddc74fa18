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
from lln.export.c.field import FieldModel
from lln.export.c.lens import lens_functions, lens_tables
from lln.export.c.source import (
    LINEAR,
    PRECISIONS,
    Model,
    Size,
    closed_calls,
    closed_functions,
    closed_scratch,
    header,
    identifier,
    selftest,
    source,
    table,
)
from lln.export.parts import DenseStack, Difference, LensStack, Probe, Stack, field_stacks, stacks
from lln.step.frame import Array, Frame
from lln.step.step import AnyStep


@dataclass(frozen=True, eq=False)
class DenseModel(Model[Frame]):
    """Closed-form parts and the networks that correct them: one lens network, several comparators, or none."""

    stacks: tuple[Stack, ...]

    @property
    def lens(self) -> LensStack | None:
        """The lens network, if that is what corrects the frame."""
        return self.stacks[0] if self.stacks and isinstance(self.stacks[0], LensStack) else None

    @property
    def dense(self) -> tuple[DenseStack, ...]:
        """The comparators, if those correct the frame."""
        return tuple(stack for stack in self.stacks if isinstance(stack, DenseStack))

    def sizes(self) -> list[Size]:
        """Features, and rays or units."""
        found = [("FEATURES", self.frame.features, "features of a step: scaled states, differences, inputs")]
        if self.lens is not None:
            found.append(("RAYS", self.lens.optics.rays, "rays of the lens network, all members together"))
        if self.dense:
            found.append(("WIDTH", len(self.dense[0].embedding.bias), "units of one layer"))
        return found

    def scratch(self) -> str:
        """Members of the struct beside the past."""
        big, text = self.name.upper(), f"    double features[{self.name.upper()}_FEATURES];\n"
        if self.lens is not None:
            text += f"    double y[{big}_RAYS], theta[{big}_RAYS];\n    {self.precision} turn[{big}_RAYS];\n"
        if self.dense:
            text += f"    double wide[{big}_WIDTH], next[{big}_WIDTH], readout[{big}_STATES];\n"
        text += closed_scratch(self.frame)
        return text + (f"    double correction[{big}_STATES];\n" if self.stacks else "")

    def body(self) -> str:
        """Tables and functions."""
        pieces = [_frame_tables(self.frame, bool(self.stacks))]
        if self.stacks:
            pieces.append(LINEAR)
        if self.lens is not None:
            pieces += [lens_tables(self.lens, self.precision), lens_functions(self.lens, self.name, self.precision)]
        elif self.dense:
            pieces += [dense_tables(self.dense, self.precision), dense_functions(self.dense, self.name)]
        closed = closed_functions(self.frame, self.name)
        pieces += [closed] if closed else []
        return "\n".join([*pieces, _features(self.frame, self.name), self._change()])

    def _change(self) -> str:
        big = self.name.upper()
        linear = f"""\
    for (int f = 0; f < {big}_FEATURES; f++)
        for (int i = 0; i < {big}_STATES; i++)
            m->change[i] += matrix[f][i] * m->features[f];
"""
        correction = f"""\
    correct(m);
    for (int i = 0; i < {big}_STATES; i++)
        m->change[i] += gain[i] * m->correction[i];
"""
        parts = (linear if self.frame.matrix.any() else "") + closed_calls(self.frame)
        parts += correction if self.stacks else ""
        return f"""\
/* How far the state moves in one step. */
static void change({self.name} *m, const double *inputs)
{{
    set_features(m, inputs);
    for (int i = 0; i < {big}_STATES; i++)
        m->change[i] = offset[i];
{parts}    for (int i = 0; i < {big}_STATES; i++)
        m->change[i] *= scale[i];
}}
"""


def _frame_tables(frame: Frame, corrected: bool) -> str:
    what, (mean, scale) = "state" if frame.logarithm is None else "logarithm of the state", frame.units
    values = {
        "mean": (mean, f"The {what} is standardised: z = (x - mean) / scale."),
        "scale": (scale, f"In units of the {what}."),
        "offset": (frame.offset, "Standardised change in one step, constant part."),
    }
    if frame.history > 1:
        values["difference_scale"] = (frame.difference_scale, "Scale of the changes from one past state to the next.")
    if frame.inputs:
        values["input_mean"] = (frame.input_mean, "Inputs are standardised, too.")
        values["input_scale"] = (frame.input_scale, "In units of the inputs.")
    if frame.matrix.any():
        values["matrix"] = (frame.matrix.T, "Standardised change in one step, linear part: [feature][state].")
    if frame.logarithm is not None:
        values["least"] = (frame.logarithm.floor, "In units of the data: a state below counts as this.")
    for name, why in (("low", "No state is below."), ("high", "No state is above.")):
        if (bound := getattr(frame, name)) is not None:
            values[name] = (bound if frame.logarithm is None else frame.logarithm.of(bound), why)
    if corrected:
        values["gain"] = (frame.gain, "What one unit of the network's output is worth.")
    return "\n".join(table(key, array, "double", why) for key, (array, why) in values.items())


def _features(frame: Frame, name: str) -> str:
    big = name.upper()
    past = (
        f"""\
    for (int age = 1; age < {big}_HISTORY; age++)
        for (int i = 0; i < {big}_STATES; i++)
            m->features[age * {big}_STATES + i] =
                (standard(m, age - 1, i) - standard(m, age, i)) / difference_scale[age - 1][i];
"""
        if frame.history > 1
        else ""
    )
    inputs = (
        f"""\
    for (int i = 0; i < {big}_INPUTS; i++)
        m->features[{big}_HISTORY * {big}_STATES + i] = (inputs[i] - input_mean[i]) / input_scale[i];
"""
        if frame.inputs
        else "    (void)inputs;\n"
    )
    return f"""\
/* Coordinate i of the state `age` steps ago, standardised. */
static inline double standard(const {name} *m, int age, int i)
{{
    return (m->past[{big}_HISTORY - 1 - age][i] - mean[i]) / scale[i];
}}

/* Features: the present state, differences of earlier states, and inputs. */
static void set_features({name} *m, const double *inputs)
{{
    for (int i = 0; i < {big}_STATES; i++)
        m->features[i] = standard(m, 0, i);
{past}{inputs}}}
"""


def dense_tables(stacks: Sequence[DenseStack], precision: str) -> str:
    """Weights of all members as arrays, the input before the output so that sums run side by side."""

    def pile(name: str, values: Sequence[Array], why: str) -> str:
        return table(name, np.stack(values), precision, why)

    gains = np.stack([stack.gains for stack in stacks])
    tables = [table("gain_of_layer", gains, "double", "What a layer adds is multiplied by this.")]
    norms = [stack.norms for stack in stacks if stack.norms is not None]
    if norms:
        tables.append(table("norm_of_layer", np.stack(norms), "double", "Normalisation: factor and shift."))
    return "\n".join(
        [
            *tables,
            pile("embedding_weight", [s.embedding.weight.T for s in stacks], "[member][feature][unit]"),
            pile("embedding_bias", [s.embedding.bias for s in stacks], "[member][unit]"),
            pile(
                "layer_weight", [np.stack([x.weight.T for x in s.layers]) for s in stacks], "[member][layer][in][out]"
            ),
            pile("layer_bias", [np.stack([x.bias for x in s.layers]) for s in stacks], "[member][layer][unit]"),
            pile("readout_weight", [s.readout.weight.T for s in stacks], "[member][unit][state]"),
            pile("readout_bias", [s.readout.bias for s in stacks], "[member][state]"),
        ]
    )


def dense_functions(stacks: Sequence[DenseStack], name: str) -> str:
    """The C function that turns features into the mean output of the members."""
    big, depth, kept = name.upper(), len(stacks[0].layers), "z[j] +" if stacks[0].kept else ""
    normed = "m->next[j]"
    if stacks[0].norms is not None:
        normed = "norm_of_layer[member][layer][0][j] * m->next[j] + norm_of_layer[member][layer][1][j]"
    assign = f"{kept} gain_of_layer[member][layer][j] * (sum < 0 ? 0 : sum)".strip()
    return f"""\
static void correct({name} *m)
{{
    double *z = m->wide;
    for (int i = 0; i < {big}_STATES; i++)
        m->correction[i] = 0;
    for (int member = 0; member < {len(stacks)}; member++) {{
        linear({big}_FEATURES, {big}_WIDTH, embedding_weight[member][0], embedding_bias[member], m->features, z);
        for (int j = 0; j < {big}_WIDTH; j++)
            z[j] = z[j] < 0 ? 0 : z[j];
        for (int layer = 0; layer < {depth}; layer++) {{
            linear({big}_WIDTH, {big}_WIDTH, layer_weight[member][layer][0], layer_bias[member][layer], z, m->next);
            for (int j = 0; j < {big}_WIDTH; j++) {{
                const double sum = {normed};
                z[j] = {assign};
            }}
        }}
        linear({big}_WIDTH, {big}_STATES, readout_weight[member][0], readout_bias[member], z, m->readout);
        for (int i = 0; i < {big}_STATES; i++)
            m->correction[i] += m->readout[i] / {len(stacks)};
    }}
}}
"""


FLAGS = ("-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror")
FAST = ("-O3", "-march=native")


@dataclass(frozen=True)
class CExport:
    """What was written, and how it compares."""

    files: tuple[Path, ...]  #: source, header, self-test.
    difference: Difference | None  #: against the float64 rollout; None where no compiler was found to try it with.
    command: str  #: how to compile and run the self-test.


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
    """Write ``name.c``, ``name.h`` and ``name_selftest.c`` into `folder`; with a compiler, compile and replay them.

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
    define = f"#define {word} 0x{mark}u /* the source files check it */\n"
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


def replay(program: Path, probe: Probe, surrogate: AnyStep) -> Array:
    """The states (B, steps, n) that a self-test of `compile_c` computes from the starts of `probe`."""
    with tempfile.TemporaryDirectory() as place:
        starts, ends = Path(place) / "starts", Path(place) / "ends"
        rows = [probe.window.reshape(len(probe.window), -1)]
        if probe.inputs is not None:
            rows.append(probe.inputs.reshape(len(probe.window), -1))
        np.concatenate(rows, axis=1).astype(np.float64).tofile(starts)
        command = [str(program.resolve()), str(starts), str(ends), str(probe.steps)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise InputError(f"{program}: exited with code {done.returncode} ({done.stderr.strip() or 'no message'})")
        return np.fromfile(ends).reshape(len(probe.window), probe.steps, surrogate.frame.size)
