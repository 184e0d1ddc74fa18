"""A step as C99 text: header, source and self-test."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from lln import __version__
from lln.export.c.text import comment_words, literal, table
from lln.export.parts import Probe
from lln.step.field_frame import FieldFrame
from lln.step.frame import Array, Frame

Size = tuple[str, int, str]
FrameT = TypeVar("FrameT", Frame, FieldFrame)


@dataclass(frozen=True, eq=False)
class Model(ABC, Generic[FrameT]):
    """What is written in C.

    Attributes:
        name: stem of all names.
        precision: C type of weights and lenses.
        frame: units, history, inputs and linear part.
    """

    name: str
    precision: str
    frame: FrameT

    @abstractmethod
    def sizes(self) -> list[Size]:
        """Sizes beside those of states, history and inputs: a name, its value, and what it counts."""

    @abstractmethod
    def scratch(self) -> str:
        """Members of the struct beside the past."""

    @abstractmethod
    def body(self) -> str:
        """Tables and functions, up to a static `change(m, inputs)` that leaves x_{k+1} - x_k in m->change."""


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
