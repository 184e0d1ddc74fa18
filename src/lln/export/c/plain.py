"""A dense step in C: features, closed-form parts, and the networks on them."""

from __future__ import annotations

from dataclasses import dataclass

from lln.export.c.closed import closed_calls, closed_functions, closed_scratch
from lln.export.c.dense import dense_functions, dense_tables
from lln.export.c.lens import lens_functions, lens_tables
from lln.export.c.source import LINEAR, Model, Size
from lln.export.c.text import table
from lln.export.parts import DenseStack, LensStack, Stack
from lln.step.frame import Frame


@dataclass(frozen=True, eq=False)
class PlainModel(Model):
    """Closed-form parts and the networks that correct them: one lens network, several comparators, or none."""

    plain: Frame
    stacks: tuple[Stack, ...]

    @property
    def frame(self) -> Frame:
        """Units, history, inputs and linear part."""
        return self.plain

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
        found = [("FEATURES", self.plain.features, "what the model makes of states and inputs")]
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
        text += closed_scratch(self.plain)
        return text + (f"    double correction[{big}_STATES];\n" if self.stacks else "")

    def body(self) -> str:
        """Tables and functions."""
        pieces = [_frame_tables(self.plain, bool(self.stacks))]
        if self.stacks:
            pieces.append(LINEAR)
        if self.lens is not None:
            pieces += [lens_tables(self.lens, self.precision), lens_functions(self.lens, self.name, self.precision)]
        elif self.dense:
            pieces += [dense_tables(self.dense, self.precision), dense_functions(self.dense, self.name)]
        closed = closed_functions(self.plain, self.name)
        pieces += [closed] if closed else []
        return "\n".join([*pieces, _features(self.plain, self.name), self._change()])

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
        parts = (linear if self.plain.matrix.any() else "") + closed_calls(self.plain)
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
    values = {
        "mean": (frame.mean, "The state is standardised: z = (x - mean) / scale."),
        "scale": (frame.scale, "In units of the data."),
        "offset": (frame.offset, "Standardised change in one step, constant part."),
    }
    if frame.history > 1:
        values["difference_scale"] = (frame.difference_scale, "Scale of the changes from one past state to the next.")
    if frame.inputs:
        values["input_mean"] = (frame.input_mean, "Inputs are standardised, too.")
        values["input_scale"] = (frame.input_scale, "In units of the inputs.")
    if frame.matrix.any():
        values["matrix"] = (frame.matrix.T, "Standardised change in one step, linear part: [feature][state].")
    for name, why in (("low", "No state is below."), ("high", "No state is above.")):
        if (bound := getattr(frame, name)) is not None:
            values[name] = (bound, why)
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
