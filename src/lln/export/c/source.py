"""A step as C99 text, what dense states and fields share: header, source, self-test, tables, closed-form parts."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from lln import __version__
from lln.core.errors import InputError
from lln.export.parts import Probe
from lln.step.field_frame import FieldFrame
from lln.step.frame import Array, Frame, Functions, Polynomial

WIDTH = 110
PRECISIONS = ("float", "double")
_RESERVED = """
    auto break case char const continue default do double else enum extern float for goto if inline int long main real
    register restrict return short signed sizeof static struct switch typedef union unsigned void volatile while
"""

Size = tuple[str, int, str]
FrameT = TypeVar("FrameT", Frame, FieldFrame)


@dataclass(frozen=True, eq=False)
class Model(ABC, Generic[FrameT]):
    """What is written in C."""

    name: str  #: stem of all names.
    precision: str  #: C type of weights and lenses.
    frame: FrameT  #: units, history, inputs and linear part.

    @abstractmethod
    def sizes(self) -> list[Size]:
        """Sizes beside those of states, history and inputs: a name, its value, and what it counts."""

    @abstractmethod
    def scratch(self) -> str:
        """Members of the struct beside the past."""

    @abstractmethod
    def body(self) -> str:
        """Tables and functions, up to a static `change(m, inputs)` that leaves ``x_{k+1} - x_k`` in ``m->change``."""


def header(model: Model[Any], names: Sequence[str] = (), input_names: Sequence[str] = ()) -> str:
    """The text of the header."""
    name, big, frame = model.name, model.name.upper(), model.frame
    sizes = [
        ("STATES", frame.size, "coordinates of the state"),
        ("HISTORY", frame.history, "states that one step looks at, the present one included"),
        ("INPUTS", frame.inputs, "known inputs of one step"),
        *model.sizes(),
    ]
    defines = "\n".join(f"#define {big}_{key} {value} /* {why} */" for key, value, why in sizes)
    past = " (logarithms)" if getattr(frame, "logarithm", None) is not None else ""
    known = f"\n   Coordinates: {comment_words(names)}." if names else ""
    known += f"\n   Inputs: {comment_words(input_names)}." if input_names else ""
    return f"""\
/* {name}: one learned step of a dynamical system, and rollouts of it. Written by lln {__version__}.
   Plain C99: no dependency but libm, no allocation, no global that changes. States, inputs, sums and
   rays are double; weights and lenses are {model.precision}. Compile {name}.c with -O3 -march=native, test it with
   {name}_selftest.c.{known} */
#ifndef {big}_H
#define {big}_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {{
#endif

{defines}

/* Everything that changes: one for each trajectory. Only `past`{past}, oldest state first, lives on between steps. */
typedef struct {{
    double past[{big}_HISTORY][{big}_STATES];
    double change[{big}_STATES];
{model.scratch()}}} {name};

/* Start from {big}_HISTORY states in a row, oldest first, the present one last. */
void {name}_init({name} *m, const double *window);

/* One step. inputs: {big}_INPUTS values at the present, NULL if there are none. next: {big}_STATES values, or NULL. */
void {name}_step({name} *m, const double *inputs, double *next);

/* Many steps. inputs: [steps][{big}_INPUTS], NULL where there are none. states: [steps][{big}_STATES]. */
void {name}_rollout({name} *m, size_t steps, const double *inputs, double *states);

#ifdef __cplusplus
}}
#endif

#endif
"""


def source(model: Model[Any]) -> str:
    """The text of the source."""
    name, big = model.name, model.name.upper()
    bounds = [f"state {sign} {bound}[i] ? {bound}[i] : " for sign, bound in (("<", "low"), (">", "high"))
              if getattr(model.frame, bound, None) is not None]  # fmt: skip
    logarithms = getattr(model.frame, "logarithm", None) is not None
    given = f"window[k * {big}_STATES + i]"
    kept, shown = (f"log(fmax({given}, least[i]))", "exp(state)") if logarithms else (given, "state")
    clip = f"        state = {''.join(bounds)}state;\n" if bounds else ""
    return f"""\
/* See {name}.h. */
#include "{name}.h"

#include <math.h>
#include <stdint.h>

typedef {model.precision} real;

{model.body()}
void {name}_init({name} *m, const double *window)
{{
    for (int k = 0; k < {big}_HISTORY; k++)
        for (int i = 0; i < {big}_STATES; i++)
            m->past[k][i] = {kept};
}}

void {name}_step({name} *m, const double *inputs, double *next)
{{
    change(m, inputs);
    for (int i = 0; i < {big}_STATES; i++) {{
        {"" if bounds else "const "}double state = m->past[{big}_HISTORY - 1][i] + m->change[i];
{clip}        for (int k = 1; k < {big}_HISTORY; k++)
            m->past[k - 1][i] = m->past[k][i];
        m->past[{big}_HISTORY - 1][i] = state;
        if (next != NULL)
            next[i] = {shown};
    }}
}}

void {name}_rollout({name} *m, size_t steps, const double *inputs, double *states)
{{
    for (size_t k = 0; k < steps; k++)
        {name}_step(m, inputs == NULL ? NULL : inputs + k * {big}_INPUTS, states + k * {big}_STATES);
}}
"""


LINEAR = """\
/* result += weight x, summed in double; weight is [in][out], so that the sums run side by side. */
static inline void add_linear(int in, int out, const real *restrict weight, const double *restrict x,
                              double *restrict result)
{
    for (int i = 0; i < in; i++)
        for (int j = 0; j < out; j++)
            result[j] += weight[i * out + j] * x[i];
}

/* result = weight x + bias. */
static inline void linear(int in, int out, const real *restrict weight, const real *restrict bias,
                          const double *restrict x, double *restrict result)
{
    for (int j = 0; j < out; j++)
        result[j] = bias[j];
    add_linear(in, out, weight, x, result);
}
"""


def selftest(model: Model[Any], probe: Probe, truth: Array, tolerance: float) -> str:
    """A program that replays the first start of the probe and compares with the stored float64 rollout."""
    name, big, every = model.name, model.name.upper(), max(1, probe.steps // 10)
    tables = [
        table("window", probe.window[0], "double", "Where the rollout starts."),
        table("expected", truth[0, every - 1 :: every], "double", f"Every {every}th state of the float64 rollout."),
        table(
            "spread", model.frame.scale, "double", "Differences are counted in these units, coordinate by coordinate."
        ),
    ]
    if probe.inputs is not None:
        tables.append(table("inputs", probe.inputs[0], "double", "Known inputs of every step."))
    return f"""\
/* Replays a stored rollout of {name}.c: prints the largest difference, returns 1 if it is too large. With file names
   as arguments it rolls out other starts: `{name}_selftest STARTS STATES STEPS` reads windows (and behind each the
   inputs of its steps) and writes states, all as raw doubles. */
#include "{name}.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define STEPS {probe.steps}
#define EVERY {every}
#define TOLERANCE {literal(tolerance, "double")} /* standard deviations */

{chr(10).join(tables)}
static {name} m;

static int replay(const char *starts, const char *ends, long steps)
{{
    static double first[{big}_HISTORY * {big}_STATES], state[{big}_STATES], given[{big}_INPUTS + 1];
    FILE *in = fopen(starts, "rb"), *out = fopen(ends, "wb");
    if (in == NULL || out == NULL) {{
        fprintf(stderr, "cannot open %s\\n", in == NULL ? starts : ends);
        return 2;
    }}
    while (fread(first, sizeof first, 1, in) == 1) {{
        {name}_init(&m, first);
        for (long k = 0; k < steps; k++) {{
            if ({big}_INPUTS != 0 && fread(given, sizeof(double), {big}_INPUTS, in) != {big}_INPUTS)
                return 2;
            {name}_step(&m, given, state);
            if (fwrite(state, sizeof state, 1, out) != 1)
                return 2;
        }}
    }}
    fclose(in);
    return fclose(out) == 0 ? 0 : 2;
}}

int main(int count, char **words)
{{
    static double states[STEPS][{big}_STATES];
    double largest = 0;
    if (count == 4)
        return replay(words[1], words[2], strtol(words[3], NULL, 10));
    {name}_init(&m, window[0]);
    {name}_rollout(&m, STEPS, {"inputs[0]" if probe.inputs is not None else "NULL"}, states[0]);
    for (int k = EVERY - 1, row = 0; k < STEPS; k += EVERY, row++)
        for (int i = 0; i < {big}_STATES; i++) {{
            const double difference = fabs(states[k][i] - expected[row][i]) / spread[i];
            if (!(difference <= largest))
                largest = difference;
        }}
    printf("{name}: at most %.1e standard deviations from the float64 rollout over %d steps\\n", largest, STEPS);
    return largest <= TOLERANCE ? 0 : 1;
}}
"""


def identifier(name: str) -> str:
    """`name` if C takes it as the stem of files, types and functions."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,62}", name) or name.lower() in _RESERVED.split():
        raise InputError(
            f"name {name!r} cannot be a C identifier; give letters, digits and underscores that start with a letter"
        )
    return name


def comment_words(names: Sequence[str]) -> str:
    """Names from a data file for use inside a comment: whatever could end the comment is left out."""
    kept = [re.sub(r"[^\w .,()\[\]+-]", "_", name, flags=re.ASCII)[:40] for name in names[:64]]
    return ", ".join(kept) + (", ..." if len(names) > 64 else "")


def literal(value: float, precision: str) -> str:
    """A number that a C compiler reads back to the same bits."""
    if precision == "double":
        return repr(float(value))
    return f"{np.float32(value)!s}f"


def table(name: str, values: NDArray[Any], precision: str, why: str) -> str:
    """`values` as a constant array of float, double or int with a comment above it."""
    rounded = values.astype({"float": np.float32, "double": np.float64, "int": np.int64}[precision])
    if not np.isfinite(rounded).all():
        raise InputError(f"{name} holds values that are not finite in {precision}; a diverged model has no export")
    sizes = "".join(f"[{size}]" for size in values.shape)
    return f"/* {why} */\nstatic const {precision} {name}{sizes} = {_braces(rounded)};\n"


def _braces(values: NDArray[Any], indent: str = "") -> str:
    if values.ndim == 1:
        suffix = "f" if values.dtype == np.float32 else ""
        text = ", ".join(f"{value!s}{suffix}" for value in (values if suffix else values.tolist()))
        if len(text) + len(indent) < WIDTH:
            return f"{{{text}}}"
        lines = wrap(text, WIDTH - len(indent), break_long_words=False, break_on_hyphens=False)
        return "{\n" + "\n".join(f"{indent}    {line}" for line in lines) + f"\n{indent}}}"
    inner = ",\n".join(f"{indent}    {_braces(row, indent + '    ')}" for row in values)
    return f"{{\n{inner}\n{indent}}}"


def closed_scratch(frame: Frame) -> str:
    """Members of the struct that the closed-form parts need."""
    counts = [len(part.table) for part in _polynomials(frame).values()]
    text = f"    double terms[{max(counts)}];\n" if counts else ""
    if frame.flow is not None:
        n, functions = frame.size, frame.flow.functions
        seen = n + frame.inputs + (0 if functions is None else len(functions))
        text += f"    double seen[{seen}], now[{n}], slope[4][{n}];\n"
    return text


def closed_functions(frame: Frame, name: str) -> str:
    """Tables, and a function for each part that adds its increment to ``m->change``."""
    parts = _polynomials(frame)
    if not parts:
        return ""
    pieces = [_MONOMIALS, *(_tables(of, part, "state") for of, part in parts.items())]
    if frame.polynomial is not None:
        pieces.append(_polynomial(len(frame.polynomial.table), name))
    if frame.flow is not None:
        pieces += [table("flow_offset", frame.flow.offset, "double", "Constant part of the vector field.")]
        if frame.flow.functions is not None:
            pieces.append(_function_values(frame.flow.functions, frame.size + frame.inputs))
        pieces.append(_flow(frame, name))
    return "\n".join(pieces)


def field_scratch(frame: FieldFrame) -> str:
    """Members of the struct that the polynomial of a field needs."""
    return "" if frame.polynomial is None else f"    double terms[{len(frame.polynomial.table)}];\n"


def field_functions(frame: FieldFrame, name: str) -> str:
    """Tables, and the function that adds the polynomial of every point's features to ``m->moved``."""
    assert frame.polynomial is not None
    count, big = len(frame.polynomial.table), name.upper()
    function = f"""\
/* Weighted monomials of the features of every point. */
static void polynomial({name} *m)
{{
    for (int p = 0; p < {big}_POINTS; p++) {{
        monomials({count}, polynomial_table, m->features + p * {big}_FEATURES, m->terms);
        for (int j = 0; j < {count}; j++)
            for (int c = 0; c < {big}_CHANNELS; c++)
                m->moved[p * {big}_CHANNELS + c] += polynomial_weights[j][c] * m->terms[j];
    }}
}}
"""
    return "\n".join([_MONOMIALS, _tables("polynomial", frame.polynomial, "channel"), function])


def closed_calls(frame: Frame) -> str:
    """The calls of those functions."""
    return "".join(f"    {part}(m);\n" for part in _polynomials(frame))


def _polynomials(frame: Frame) -> dict[str, Polynomial]:
    found = {} if frame.polynomial is None else {"polynomial": frame.polynomial}
    return found if frame.flow is None else {**found, "flow": frame.flow.polynomial}


def _tables(of: str, part: Polynomial, output: str) -> str:
    monomials = table(f"{of}_table", part.table, "int", "Monomials: [monomial][earlier one or -1, factor].")
    return monomials + "\n" + table(f"{of}_weights", part.weights.T, "double", f"[monomial][{output}].")


_MONOMIALS = """\
/* Each monomial is an earlier one, or 1, times a factor. */
static void monomials(int count, const int table[][2], const double *factor, double *term)
{
    for (int j = 0; j < count; j++)
        term[j] = (table[j][0] < 0 ? 1.0 : term[table[j][0]]) * factor[table[j][1]];
}
"""


def _polynomial(count: int, name: str) -> str:
    return f"""\
/* Weighted monomials of the features. */
static void polynomial({name} *m)
{{
    monomials({count}, polynomial_table, m->features, m->terms);
    for (int j = 0; j < {count}; j++)
        for (int i = 0; i < {name.upper()}_STATES; i++)
            m->change[i] += polynomial_weights[j][i] * m->terms[j];
}}
"""


# Functions of `a`, by kind.
_FUNCTIONS = ("exp(-0.5 * a * a)", "sin(a)", "fabs(a)", "tanh(a)", "exp(a)", "1.0 / a", "a < -1 ? -1 : a > 1 ? 1 : a")


def _function_values(functions: Functions, first: int) -> str:
    places = table("function_table", functions.table, "int", "Functions: [function][variable, kind].")
    numbers = table("function_arguments", functions.arguments, "double", "Their arguments: [function][slope, shift].")
    kinds = "\n".join(
        f"        {f'case {kind}' if number else 'default'}: seen[{first} + k] = {_FUNCTIONS[kind]}; break;"
        for number, kind in enumerate(sorted(set(functions.table[:, 1].tolist())))
    )
    return f"""\
{places}
{numbers}
/* Functions of single variables, which stand behind the variables. */
static void functions(double *seen)
{{
    for (int k = 0; k < {len(functions)}; k++) {{
        const double a = function_arguments[k][0] * seen[function_table[k][0]] + function_arguments[k][1];
        switch (function_table[k][1]) {{
{kinds}
        }}
    }}
}}
"""


def _flow(frame: Frame, name: str) -> str:
    assert frame.flow is not None
    functions = "" if frame.flow.functions is None else "            functions(m->seen);\n"
    count, big, h = len(frame.flow.polynomial.table), name.upper(), np.float64(1.0 / frame.flow.substeps).item()
    inputs = f"""\
    for (int i = 0; i < {big}_INPUTS; i++)
        m->seen[{big}_STATES + i] = m->features[{big}_HISTORY * {big}_STATES + i];
"""
    return f"""\
/* The vector field in standardised states over one step, by the classical Runge-Kutta method. */
static void flow({name} *m)
{{
    static const double ahead[4] = {{0, {h / 2!r}, {h / 2!r}, {h!r}}};
{inputs if frame.inputs else ""}    for (int i = 0; i < {big}_STATES; i++)
        m->now[i] = m->features[i];
    for (int part = 0; part < {frame.flow.substeps}; part++) {{
        for (int stage = 0; stage < 4; stage++) {{
            for (int i = 0; i < {big}_STATES; i++) {{
                m->seen[i] = m->now[i] + (stage == 0 ? 0 : ahead[stage] * m->slope[stage - 1][i]);
                m->slope[stage][i] = flow_offset[i];
            }}
{functions}            monomials({count}, flow_table, m->seen, m->terms);
            for (int j = 0; j < {count}; j++)
                for (int i = 0; i < {big}_STATES; i++)
                    m->slope[stage][i] += flow_weights[j][i] * m->terms[j];
        }}
        for (int i = 0; i < {big}_STATES; i++)
            m->now[i] += {h / 6!r} * (m->slope[0][i] + 2 * (m->slope[1][i] + m->slope[2][i]) + m->slope[3][i]);
    }}
    for (int i = 0; i < {big}_STATES; i++)
        m->change[i] += m->now[i] - m->features[i];
}}
"""
