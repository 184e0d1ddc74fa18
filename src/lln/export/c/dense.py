"""A dense step in C: features, closed-form parts, and the networks on them, lens networks or layers of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lln.export.c.lens import lens_functions, lens_tables
from lln.export.c.source import LINEAR, Model, Size, closed_calls, closed_functions, closed_scratch, table
from lln.export.parts import DenseStack, LensStack, Stack
from lln.step.frame import Array, Frame


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
        found = [("FEATURES", self.frame.features, "what the model makes of states and inputs")]
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
    look(m, inputs);
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

/* The present state, how it came about, and the inputs. */
static void look({name} *m, const double *inputs)
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
