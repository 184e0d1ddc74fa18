"""A field model in C: boundaries, convolutions, and the same lenses at every point of a fixed grid.

A grid of one or two directions is written as one of three with lengths of 1, so that one set of loops serves all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from lln.export.c.lens import carry_call, carry_functions, lens_tables
from lln.export.c.source import LINEAR, Model, Size, field_functions, field_scratch, table
from lln.export.parts import FieldStack, LensStack
from lln.step.field_frame import FieldFrame, free

_SIDES = ("periodic", "dirichlet", "neumann", "replicate")


@dataclass(frozen=True, eq=False)
class FieldModel(Model[FieldFrame]):
    """A field frame, and the networks whose mean corrects it."""

    stacks: tuple[FieldStack, ...]

    @property
    def seen(self) -> int:
        """Input channels of a network's first block: features and fixed fields."""
        return self.frame.features + (0 if self.frame.static is None else self.frame.static.shape[-1])

    def sizes(self) -> list[Size]:
        """Grid, channels and rays."""
        found = [
            ("POINTS", math.prod(self.frame.space), f"points of the grid, {' x '.join(map(str, self.frame.space))}"),
            ("CHANNELS", self.frame.channels, "fields at every point; a state runs through channels, then space"),
            ("FEATURES", self.frame.features, "features at every point: scaled states, differences, inputs"),
        ]
        if self.stacks:
            found.append(("RAYS", self.stacks[0].blocks[0].optics.rays, "rays of the lens network at every point"))
        return found

    def scratch(self) -> str:
        """Members of the struct beside the past."""
        points, kernels = math.prod(self.frame.space), [self.frame.kernel]
        channels = [self.frame.features]
        text = f"    double features[{points} * {self.frame.features}], moved[{points} * {self.frame.channels}];\n"
        text += field_scratch(self.frame)
        if self.stacks:
            first = self.stacks[0]
            rays, kernels = first.blocks[0].optics.rays, [*kernels, first.kernel]
            widest = max(self.seen, self.frame.outputs, *(len(block.readout.bias) for block in first.blocks))
            channels += [self.seen, rays, widest]
            text += f"    double correction[{points} * {self.frame.outputs}], field[{points} * {widest}];\n"
            text += f"    double rays[{points} * {rays}], theta[{rays}];\n    {self.precision} turn[{rays}];\n"
        room = max(math.prod(n + k - 1 for n, k in zip(self.frame.space, kernel, strict=True)) for kernel in kernels)
        return text + f"    double padded[2][{room} * {max(channels)}];\n"

    def body(self) -> str:
        """Tables and functions."""
        pieces = [self._tables()]
        if self.stacks or self.frame.matrix.any():
            pieces.append(self._padding())
        if self.stacks:
            pieces.append(LINEAR)
            for index, stack in enumerate(self.stacks):
                pieces += [lens_tables(block, self.precision, f"_{index}_{b}") for b, block in enumerate(stack.blocks)]
            pieces.append(carry_functions(self.stacks[0].blocks[0].optics, self.name, self.precision))
            pieces += [
                self._block(index, b, block)
                for index, stack in enumerate(self.stacks)
                for b, block in enumerate(stack.blocks)
            ]
            pieces.append(self._correct())
        if self.frame.polynomial is not None:
            pieces.append(field_functions(self.frame, self.name))
        return "\n".join([*pieces, self._look(), self._change()])

    def _tables(self) -> str:
        frame, points = self.frame, math.prod(self.frame.space)
        values = {
            "mean": (frame.channel_mean, "The state is standardised: z = (x - mean) / scale, channel by channel."),
            "scale": (frame.channel_scale, "In units of the data."),
            "offset": (frame.offset, "Standardised change in one step, constant part."),
        }
        if frame.history > 1:
            values["difference_scale"] = (frame.difference_scale, "Scale of the changes from one state to the next.")
        if frame.inputs:
            values["input_mean"] = (frame.input_mean, "Inputs are standardised, too.")
            values["input_scale"] = (frame.input_scale, "In units of the inputs.")
        if frame.matrix.any():
            values["matrix"] = (
                frame.matrix.T,
                "Standardised change, linear part: [kernel point and feature][channel].",
            )
        if self.stacks:
            values["gain"] = (frame.gain, "What one unit of the networks' output is worth.")
            if frame.static is not None:
                values["fixed"] = (frame.static.reshape(points, -1), "Fixed fields that networks see: [point][field].")
        for name, why in (("low", "No state is below."), ("high", "No state is above.")):
            if (bound := getattr(frame, name)) is not None:
                values[name] = (np.repeat(bound, points), why)
        held = free(frame.space, frame.boundary).reshape(-1)
        if not held.all():
            values["hold"] = (held.astype(np.float64), "0 where the field is prescribed, on Dirichlet sides.")
        return "\n".join(table(key, array, "double", why) for key, (array, why) in values.items())

    def _padding(self) -> str:
        codes = ", ".join(name.upper() for name in _SIDES)
        sides = [("replicate", "replicate")] * (3 - len(self.frame.space)) + list(self.frame.boundary)
        axes, grid = [], _three(self.frame.space)
        for axis in range(3):
            outer = " * ".join(["1", *(f"wide_{k}" for k in range(axis))])
            inner = " * ".join(["channels", *(str(n) for n in grid[axis + 1 :])])
            low, high = (side.upper() for side in sides[axis])
            axes.append(
                f"    pad({outer}, {grid[axis]}, {inner}, (kernel[{axis}] - 1) / 2, kernel[{axis}] / 2, {low}, {high}, "
                f"{'x' if axis == 0 else f'm->padded[{(axis + 1) % 2}]'}, m->padded[{axis % 2}]);"
            )
        wide = "\n".join(f"    const int wide_{k} = {grid[k]} + kernel[{k}] - 1;" for k in range(2))
        return f"""\
enum side {{ {codes} }};

/* x is [outer][points][inner]; out gets `before` and `after` points more, as the sides say: round and round, the odd
   or the even reflection about the last point, or that point again. */
static void pad(int outer, int points, int inner, int before, int after, enum side low, enum side high,
                const double *restrict x, double *restrict out)
{{
    for (int o = 0; o < outer; o++, x += points * inner)
        for (int i = -before; i < points + after; i++, out += inner) {{
            const enum side side = i < 0 ? low : high;
            const int edge = i < 0 ? 0 : points - 1;
            const int inside = i >= 0 && i < points;
            int at = inside ? i : side == REPLICATE ? edge : 2 * edge - i;
            if (side == PERIODIC)
                at = ((i % points) + points) % points;
            for (int c = 0; c < inner; c++)
                out[c] = !inside && side == DIRICHLET ? 2 * x[edge * inner + c] - x[at * inner + c] : x[at * inner + c];
        }}
}}

/* A field [point][channel] with what lies beyond its sides, in m->padded[0]. */
static void pad_all({self.name} *m, const int kernel[3], int channels, const double *x)
{{
{wide}
{chr(10).join(axes)}
}}

/* Where the patch around a point begins in the padded field. */
static inline const double *patch(const {self.name} *m, const int kernel[3], int channels, int point, int a, int b)
{{
    const int i = point / ({grid[1]} * {grid[2]}) + a, j = point / {grid[2]} % {grid[1]} + b, k = point % {grid[2]};
    return m->padded[0] + ((i * ({grid[1]} + kernel[1] - 1) + j) * ({grid[2]} + kernel[2] - 1) + k) * channels;
}}
"""

    def _block(self, index: int, b: int, block: LensStack) -> str:
        of, big, kernel = f"_{index}_{b}", self.name.upper(), _three(self.stacks[index].kernel)
        channels, out = block.position.weight.shape[1] // math.prod(kernel), len(block.readout.bias)
        last = len(self.stacks[index].blocks) - 1
        added = "" if b in (0, last) else "+"
        start = "tanh(m->theta[j])" if block.angle is not None else "0"

        def convolved(weight: str, bias: str, inputs: int, outputs: int | str, result: str) -> str:
            run = kernel[2] * inputs
            return f"""\
        for (int j = 0; j < {outputs}; j++)
            {result}[j] = {bias}[j];
        for (int a = 0; a < {kernel[0]}; a++)
            for (int b = 0; b < {kernel[1]}; b++)
                add_linear({run}, {outputs}, {weight}[(a * {kernel[1]} + b) * {run}],
                           patch(m, kernel, {inputs}, p, a, b), {result});
"""

        angle = (
            convolved(f"angle_weight{of}", f"angle_bias{of}", channels, f"{big}_RAYS", "m->theta")
            if block.angle is not None
            else ""
        )
        return f"""\
/* Rays leave the patches of m->field, and the next field is read off the patches of where they arrive. */
static void block{of}({self.name} *m)
{{
    static const int kernel[3] = {{{", ".join(map(str, kernel))}}};
    pad_all(m, kernel, {channels}, m->field);
    for (int p = 0; p < {big}_POINTS; p++) {{
        double *y = m->rays + p * {big}_RAYS;
{convolved(f"position_weight{of}", f"position_bias{of}", channels, f"{big}_RAYS", "y")}{angle}\
        for (int j = 0; j < {big}_RAYS; j++)
            m->theta[j] = {start};
        {carry_call(block.optics, "y", "m->theta", of)}
    }}
    pad_all(m, kernel, {big}_RAYS, m->rays);
    for (int p = 0; p < {big}_POINTS; p++) {{
        double read[{out}];
{convolved(f"readout_weight{of}", f"readout_bias{of}", block.optics.rays, out, "read")}\
        for (int j = 0; j < {out}; j++)
            m->field[p * {out} + j] {added}= read[j];
    }}
}}
"""

    def _correct(self) -> str:
        big, outputs, seen, features = self.name.upper(), self.frame.outputs, self.seen, self.frame.features
        fixed = seen - features
        static = f"""\
        for (int s = 0; s < {fixed}; s++)
            m->field[p * {seen} + {features} + s] = fixed[p][s];
"""
        members = "".join(
            f"""\
    for (int p = 0; p < {big}_POINTS; p++) {{
        for (int f = 0; f < {features}; f++)
            m->field[p * {seen} + f] = m->features[p * {features} + f];
{static if fixed else ""}    }}
{"".join(f"    block_{index}_{b}(m);{chr(10)}" for b in range(len(stack.blocks)))}\
    for (int i = 0; i < {big}_POINTS * {outputs}; i++)
        m->correction[i] += m->field[i] / {len(self.stacks)};
"""
            for index, stack in enumerate(self.stacks)
        )
        return f"""\
/* The mean of the networks. */
static void correct({self.name} *m)
{{
    for (int i = 0; i < {big}_POINTS * {outputs}; i++)
        m->correction[i] = 0;
{members}}}
"""

    def _look(self) -> str:
        name, big, frame = self.name, self.name.upper(), self.frame
        past = f"""\
            for (int age = 1; age < {big}_HISTORY; age++)
                f[age * {big}_CHANNELS + c] =
                    (standard(m, age - 1, c, p) - standard(m, age, c, p)) / difference_scale[age - 1][c];
"""
        inputs = f"""\
        for (int i = 0; i < {big}_INPUTS; i++)
            f[{big}_HISTORY * {big}_CHANNELS + i] = (inputs[i] - input_mean[i]) / input_scale[i];
"""
        return f"""\
/* Channel c at point p of the state `age` steps ago, standardised. */
static inline double standard(const {name} *m, int age, int c, int p)
{{
    return (m->past[{big}_HISTORY - 1 - age][c * {big}_POINTS + p] - mean[c]) / scale[c];
}}

/* Features at every point: the present state, differences of earlier states, and inputs. */
static void set_features({name} *m, const double *inputs)
{{
{"" if frame.inputs else "    (void)inputs;" + chr(10)}    for (int p = 0; p < {big}_POINTS; p++) {{
        double *f = m->features + p * {big}_FEATURES;
        for (int c = 0; c < {big}_CHANNELS; c++) {{
            f[c] = standard(m, 0, c, p);
{past if frame.history > 1 else ""}        }}
{inputs if frame.inputs else ""}    }}
}}
"""

    def _change(self) -> str:
        big, frame, kernel = self.name.upper(), self.frame, _three(self.frame.kernel)
        run = kernel[2] * frame.features
        linear = f"""\
    static const int kernel[3] = {{{", ".join(map(str, kernel))}}};
    pad_all(m, kernel, {big}_FEATURES, m->features);
    for (int p = 0; p < {big}_POINTS; p++)
        for (int a = 0; a < {kernel[0]}; a++)
            for (int b = 0; b < {kernel[1]}; b++) {{
                const double *x = patch(m, kernel, {big}_FEATURES, p, a, b);
                for (int i = 0; i < {run}; i++)
                    for (int c = 0; c < {big}_CHANNELS; c++)
                        m->moved[p * {big}_CHANNELS + c] += matrix[(a * {kernel[1]} + b) * {run} + i][c] * x[i];
            }}
"""
        conserve = f"""\
    for (int c = 0; c < {big}_CHANNELS; c++) {{
        double sum = 0;
        for (int p = 0; p < {big}_POINTS; p++)
            sum += m->moved[p * {big}_CHANNELS + c];
        for (int p = 0; p < {big}_POINTS; p++)
            m->moved[p * {big}_CHANNELS + c] -= sum / {big}_POINTS;
    }}
"""
        hold = "" if free(frame.space, frame.boundary).all() else "hold[p] * "
        return f"""\
/* How far the state moves in one step. */
static void change({self.name} *m, const double *inputs)
{{
    set_features(m, inputs);
    for (int p = 0; p < {big}_POINTS; p++)
        for (int c = 0; c < {big}_CHANNELS; c++)
            m->moved[p * {big}_CHANNELS + c] = offset[c];
{"    {" + chr(10) + linear + "    }" + chr(10) if frame.matrix.any() else ""}\
{"" if frame.polynomial is None else "    polynomial(m);" + chr(10)}\
{"    correct(m);" + chr(10) + self._worth() if self.stacks else ""}\
{conserve if frame.conserve != "none" else ""}\
    for (int p = 0; p < {big}_POINTS; p++)
        for (int c = 0; c < {big}_CHANNELS; c++)
            m->change[c * {big}_POINTS + p] = {hold}scale[c] * m->moved[p * {big}_CHANNELS + c];
}}
"""

    def _worth(self) -> str:
        """The correction, or the divergence of the flux that it is, times its gain, added to what moves."""
        big, frame = self.name.upper(), self.frame
        if frame.conserve != "flux":
            return f"""\
    for (int i = 0; i < {big}_POINTS * {big}_CHANNELS; i++)
        m->moved[i] += gain[i % {big}_CHANNELS] * m->correction[i];
"""
        text = "    /* A flux passes from each point to its neighbour ahead, and through no wall. */\n"
        for axis, (points, pair) in enumerate(zip(frame.space, frame.boundary, strict=True)):
            stride = math.prod(frame.space[axis + 1 :])
            wall = "" if pair[0] == "periodic" else f"        if (at == {points - 1})\n            continue;\n"
            text += f"""\
    for (int p = 0; p < {big}_POINTS; p++) {{
        const int at = p / {stride} % {points}, ahead = p + ((at + 1) % {points} - at) * {stride};
{wall}        for (int c = 0; c < {big}_CHANNELS; c++) {{
            const double flux = gain[c] * m->correction[p * {frame.outputs} + {axis * frame.channels} + c];
            m->moved[p * {big}_CHANNELS + c] -= flux;
            m->moved[ahead * {big}_CHANNELS + c] += flux;
        }}
    }}
"""
        return text


def _three(sizes: tuple[int, ...]) -> tuple[int, int, int]:
    """Sizes along three axes, the missing ones first and of length 1."""
    first, second, third = (1,) * (3 - len(sizes)) + tuple(sizes)
    return first, second, third
