"""Polynomials and polynomial vector fields in C."""

from __future__ import annotations

import numpy as np

from lln.export.c.text import table
from lln.step.field_frame import FieldFrame
from lln.step.frame import Frame
from lln.step.polynomial import Polynomial


def closed_scratch(frame: Frame) -> str:
    """Members of the struct that the closed-form parts need."""
    counts = [len(part.table) for part in _polynomials(frame).values()]
    text = f"    double terms[{max(counts)}];\n" if counts else ""
    if frame.flow is not None:
        n, m = frame.size, frame.inputs
        text += f"    double seen[{n + m}], now[{n}], slope[4][{n}];\n"
    return text


def closed_functions(frame: Frame, name: str) -> str:
    """Tables, and a function for each part that adds its increment to m->change."""
    parts = _polynomials(frame)
    if not parts:
        return ""
    pieces = [_MONOMIALS, *(_tables(of, part, "state") for of, part in parts.items())]
    if frame.polynomial is not None:
        pieces.append(_polynomial(len(frame.polynomial.table), name))
    if frame.flow is not None:
        pieces += [table("flow_offset", frame.flow.offset, "double", "Constant part of the vector field.")]
        pieces.append(_flow(frame, name))
    return "\n".join(pieces)


def field_scratch(frame: FieldFrame) -> str:
    """Members of the struct that the polynomial of a field needs."""
    return "" if frame.polynomial is None else f"    double terms[{len(frame.polynomial.table)}];\n"


def field_functions(frame: FieldFrame, name: str) -> str:
    """Tables, and the function that adds the polynomial of every point's features to m->moved."""
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
    calls = [("polynomial", frame.polynomial), ("flow", frame.flow)]
    return "".join(f"    {call}(m);\n" for call, part in calls if part is not None)


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


def _flow(frame: Frame, name: str) -> str:
    assert frame.flow is not None
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
            monomials({count}, flow_table, m->seen, m->terms);
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
