"""The lens stack in C: rays side by side in memory, so that a compiler carries many of them at once.

The Gaussians of a lens are not summed one exponential each. They are factored as `lln.ops.grid` derives it: two
exponentials and a reciprocal for each ray, whatever K, and K multiply-adds. Everything here is text with numbers in it.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from lln.export.c.source import literal, table
from lln.export.parts import LensArrays, LensStack
from lln.ops.grid import LOG2E, Grid, Group, even_grid

# precision -> (bits of the mantissa, exponent bias, unsigned type, libm's suffix, macro of a fast fma, Taylor terms)
_KINDS = {
    "float": (23, 127, "uint32_t", "f", "FP_FAST_FMAF", 8),
    "double": (52, 1023, "uint64_t", "", "FP_FAST_FMA", 14),
}


def lens_tables(stack: LensStack, precision: str, of: str = "") -> str:
    """Embeddings, lenses and readout as arrays; `of` ends their names where there are several networks."""
    tables = [
        table(f"position_weight{of}", stack.position.weight.T, precision, "Rays' first positions: [input][ray]."),
        table(f"position_bias{of}", stack.position.bias, precision, "Rays' first positions, offset."),
    ]
    if stack.angle is not None:
        tables += [
            table(f"angle_weight{of}", stack.angle.weight.T, precision, "Rays' first angles before tanh."),
            table(f"angle_bias{of}", stack.angle.bias, precision, "Rays' first angles, offset."),
        ]
    optics = stack.optics
    if optics.bends:
        why = "Lenses: [layer][control point][ray], times the lens scale; the last one changes angles that are not read"
        grid = _grid(optics, precision)
        weights = np.ones(len(optics.centers))
        if isinstance(grid, Grid):
            weights = np.concatenate([np.array(group.weights) for group in grid.groups])
            why = f"{why}.\n   Times w_i of the factored Gaussians, too: see bend below"
        lenses = (optics.coefficients[:-1] * optics.scale * weights).transpose(0, 2, 1)
        tables.append(table(f"lenses{of}", lenses, precision, f"{why}."))
    tables += [
        table(f"readout_weight{of}", stack.readout.weight.T, precision, "Read off the positions: [ray][output]."),
        table(f"readout_bias{of}", stack.readout.bias, precision, "The readout's offset."),
    ]
    return "\n".join(tables)


def carry_functions(optics: LensArrays, name: str, precision: str) -> str:
    """The C functions that carry rays through all lenses: `carry(y, theta, turn, lenses)`."""
    grid = _grid(optics, precision)
    pieces = []
    if optics.bends:
        if isinstance(grid, Grid):
            pieces.append(_powers(precision))
            pieces += [_bend(index, group, grid, name, precision) for index, group in enumerate(grid.groups)]
        else:
            pieces.append(_plain_bend(optics, name, precision))
    pieces.append(_carry(optics, grid, name))
    return "\n".join(pieces)


def carry_call(optics: LensArrays, rays: str, theta: str, of: str = "") -> str:
    """The call of `carry`; without visible lenses there are none to hand over."""
    return f"carry({rays}, {theta}, m->turn, lenses{of});" if optics.bends else f"carry({rays}, {theta});"


def lens_functions(stack: LensStack, name: str, precision: str) -> str:
    """The C functions that turn features into the network's output."""
    return "\n".join([carry_functions(stack.optics, name, precision), _network(stack, name)])


def _grid(optics: LensArrays, precision: str) -> Grid | str:
    """The constants of the factored Gaussians, with kappa exact: rays are double here, so that nothing rounds it."""
    kind = np.float32 if precision == "float" else np.float64
    grid = even_grid(tuple(optics.centers), optics.sigma, np.dtype(kind).name)
    if isinstance(grid, str):
        return grid
    kappa = math.sqrt(LOG2E) / optics.sigma
    step = kappa * grid.spacing
    groups = [
        replace(
            group,
            weights=tuple(2.0 ** (-((step * i) ** 2) - grid.offset) for i in range(-group.below, group.above + 1)),
        )
        for group in grid.groups
    ]
    return replace(grid, kappa=kappa, gamma=float(kind(2.0 * step)), groups=tuple(groups))


def _powers(precision: str) -> str:
    mantissa, bias, word, suffix, fast, terms = _KINDS[precision]
    series = [literal(math.log(2.0) ** k / math.factorial(k), precision) for k in range(terms)]
    horner = "\n".join(f"    sum = MULTIPLY_ADD(sum, rest, {value});" for value in reversed(series[:-1]))
    product = "(float)((double)a * b + c)" if precision == "float" else "a * b + c"
    return f"""\
#ifdef {fast}
#define MULTIPLY_ADD(a, b, c) fma{suffix}((a), (b), (c))
#else
#define MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
#endif

/* a * b + c where rounding a * b would show: exponents are large, and what remains of them is small. */
static inline real careful(real a, real b, real c)
{{
#ifdef {fast}
    return fma{suffix}(a, b, c);
#else
    return {product};
#endif
}}

/* The whole number next to x, without a branch: exponents are above -2048. */
static inline int32_t nearest(real x)
{{
    return (int32_t)(x + {literal(2048.5, precision)}) - 2048;
}}

/* 2^(whole + rest), |rest| <= 1/2: the series of 2^rest, then the exponent written into the bits of a number. */
static inline real power_of_two(int32_t whole, real rest)
{{
    union {{
        {word} bits;
        real value;
    }} scale;
    real sum = {series[-1]};
{horner}
    scale.bits = ({word})(whole + {bias}) << {mantissa};
    return sum * scale.value;
}}
"""


def _bend(index: int, group: Group, grid: Grid, name: str, precision: str) -> str:
    def text(value: float) -> str:
        return literal(value, precision)

    first, anchor, last = group.first, group.first + group.below, group.first + group.count - 1
    lines = [
        "const real z = turn[j];",
        f"const int32_t m = nearest({text(grid.offset)} - z * z);",
        f"const real bell = power_of_two(m, careful(-z, z, {text(grid.offset)} - (real)m));",
    ]
    if group.count > 1:
        lines += [
            f"const int32_t k = nearest({text(grid.gamma)} * z);",
            f"const real rest = careful({text(grid.gamma)}, z, -(real)k) + {text(grid.gamma_low)} * z;",
            "const real e = power_of_two(k, rest);",
        ]
    lines.append(f"real sum = lens[{last}][j];")
    lines += [f"sum = MULTIPLY_ADD(sum, e, lens[{i}][j]);" for i in range(last - 1, anchor - 1, -1)]
    if group.below:
        lines += [f"const real inverse = {text(1.0)} / e;", f"real below = lens[{first}][j];"]
        lines += [f"below = MULTIPLY_ADD(below, inverse, lens[{i}][j]);" for i in range(first + 1, anchor)]
        lines.append("sum = MULTIPLY_ADD(below, inverse, sum);")
    lines.append("turn[j] = bell * sum;")
    body = "\n".join(f"        {line}" for line in lines)
    return f"""\
/* Control points {first} to {last} of a lens bend every ray. With z the distance to the middle one of them,
   exp(-((y - c_i) / sigma)^2) = 2^(C - z^2) * e^i * w_i, e = 2^(gamma z): two powers serve all control points, and
   the sum is a polynomial in e (i >= 0) and in 1 / e (i < 0). Rays too far to feel the lens are clamped, where the bell
   is zero; the clamp has a loop of its own, or compilers make a branch of it and carry one ray at a time. Rays are
   double, so that only the turn is rounded to real, which is small beside them. */
static void bend_{index}(const double *restrict y, double *restrict theta, real *restrict turn,
                   const real lens[][{name.upper()}_RAYS])
{{
    for (int j = 0; j < {name.upper()}_RAYS; j++) {{
        const real z = (real)((y[j] - {literal(group.anchor, "double")}) * {literal(grid.kappa, "double")});
        const real below = z < {text(grid.clamp)} ? z : {text(grid.clamp)};
        turn[j] = below > -{text(grid.clamp)} ? below : -{text(grid.clamp)};
    }}
    for (int j = 0; j < {name.upper()}_RAYS; j++) {{
{body}
    }}
    for (int j = 0; j < {name.upper()}_RAYS; j++)
        theta[j] += turn[j];
}}
"""


def _plain_bend(optics: LensArrays, name: str, precision: str) -> str:
    """One exponential for each control point, for widths so far from the spacing that factors would overflow."""
    exponential = "expf" if precision == "float" else "exp"
    centers = table("centers", np.array(optics.centers), "double", "Control points.")
    count = len(optics.centers)
    return f"""\
{centers}
static void bend_0(const double *restrict y, double *restrict theta, real *restrict turn,
                   const real lens[][{name.upper()}_RAYS])
{{
    for (int j = 0; j < {name.upper()}_RAYS; j++)
        turn[j] = 0;
    for (int i = 0; i < {count}; i++)
        for (int j = 0; j < {name.upper()}_RAYS; j++) {{
            const real u = (real)((y[j] - centers[i]) / {literal(optics.sigma, "double")});
            turn[j] += lens[i][j] * {exponential}(-u * u);
        }}
    for (int j = 0; j < {name.upper()}_RAYS; j++)
        theta[j] += turn[j];
}}
"""


def _carry(optics: LensArrays, grid: Grid | str, name: str) -> str:
    rays, depth = f"{name.upper()}_RAYS", len(optics.coefficients)
    groups = len(grid.groups) if isinstance(grid, Grid) else 1
    calls = "".join(f"            bend_{index}(y, theta, turn, lenses[layer]);\n" for index in range(groups))
    more = f",\n                  real *restrict turn, const real lenses[][{len(optics.centers)}][{rays}]"
    refraction = f"        if (layer < {depth - 1}) {{\n{calls}        }}\n"
    return f"""\
/* Rays fly and are bent, {depth} times. */
static void carry(double *restrict y, double *restrict theta{more if optics.bends else ""})
{{
    for (int layer = 0; layer < {depth}; layer++) {{
        for (int j = 0; j < {rays}; j++)
            y[j] += {literal(optics.length, "double")} * theta[j];
{refraction if optics.bends else ""}    }}
}}
"""


def _network(stack: LensStack, name: str) -> str:
    big, rays = name.upper(), f"{name.upper()}_RAYS"
    start = "tanh(m->theta[j])" if stack.angle is not None else "0"
    embed = f"    linear({big}_FEATURES, {rays}, angle_weight[0], angle_bias, m->features, m->theta);\n"
    return f"""\
/* Rays leave the features, and the correction is read off where they arrive. */
static void correct({name} *m)
{{
    linear({big}_FEATURES, {rays}, position_weight[0], position_bias, m->features, m->y);
{embed if stack.angle is not None else ""}    for (int j = 0; j < {rays}; j++)
        m->theta[j] = {start};
    {carry_call(stack.optics, "m->y", "m->theta")}
    linear({rays}, {big}_STATES, readout_weight[0], readout_bias, m->y, m->correction);
}}
"""
