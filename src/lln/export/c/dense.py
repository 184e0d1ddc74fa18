"""The comparators in C: dense layers with a rectifier, summed in double whatever the weights are stored in."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lln.export.c.text import table
from lln.export.parts import DenseStack
from lln.step.frame import Array


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
