"""Between the layout of the coefficients, units then basis, and that of the kernels, basis then units.

Four coefficients of four neighbouring units at a time are transposed in registers; one number at a time, packing would
cost as much as a whole forward pass of a single row.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from lln.ops.cpu.lens import SCALARS
from lln.ops.cpu.simd import INT32, Code, Tile


def pack(code: Code, columns: int, basis: int, source: ir.Value, packed: ir.Value, args: dict[str, ir.Value]) -> None:
    """Copy (D, units, K) to (D, K, units of the block), multiplied by the weights."""
    width = columns * code.lanes
    weights = code.at(args["constants"], SCALARS)
    with code.loop(0, args["depth"]) as layer:
        start = code.at(source, code.times(layer, code.times(args["units"], basis)))
        out = code.at(packed, code.times(layer, basis * width))
        for column in range(columns):
            units = code.at(start, column * code.lanes * basis)
            for k, part in _columns(code, units, basis):
                weight = code.splat(code.load_scalar(weights, k))
                code.store(Tile(code, [part]) * weight, out, k * width + column * code.lanes)


def unpack(code: Code, columns: int, basis: int, packed: ir.Value, target: ir.Value, args: dict[str, ir.Value]) -> None:
    """The way back: (D, K, units of the block), multiplied by the weights, to (D, units, K)."""
    width = columns * code.lanes
    weights = code.at(args["constants"], SCALARS)
    with code.loop(0, args["depth"]) as layer:
        start = code.at(packed, code.times(layer, basis * width))
        out = code.at(target, code.times(layer, code.times(args["units"], basis)))
        for column in range(columns):
            units = code.at(out, column * code.lanes * basis)
            parts = []
            for k in range(basis):
                weight = code.splat(code.load_scalar(weights, k))
                parts.append((code.load(start, k * width + column * code.lanes) * weight).parts[0])
            _scatter(code, parts, units, basis)


def _quads(basis: int) -> list[int]:
    """Where to take four coefficients at a time; the last four may overlap those before them."""
    return [*range(0, basis - 3, 4), *([basis - 4] if basis % 4 else [])]


def _columns(code: Code, units: ir.Value, basis: int) -> list[tuple[int, ir.Value]]:
    """(k, coefficient k of neighbouring units) from units that lie one behind the other."""
    if basis < 4:
        out = []
        for k in range(basis):
            part = ir.Constant(code.vector, ir.Undefined)
            for unit in range(code.lanes):
                value = code.load_scalar(units, unit * basis + k)
                part = code.builder.insert_element(part, value, ir.Constant(INT32, unit))
            out.append((k, part))
        return out
    columns = {}
    for first in _quads(basis):
        rows = [
            code.join([code.load_short(units, (unit + j) * basis + first) for unit in range(0, code.lanes, 4)])
            for j in range(4)
        ]
        columns.update({first + j: part for j, part in enumerate(_transpose(code, rows))})
    return sorted(columns.items())


def _scatter(code: Code, parts: Sequence[ir.Value], units: ir.Value, basis: int) -> None:
    """The inverse of `_columns`."""
    if basis < 4:
        for k, part in enumerate(parts):
            for unit in range(code.lanes):
                code.store(code.builder.extract_element(part, ir.Constant(INT32, unit)), units, unit * basis + k)
        return
    for first in _quads(basis):
        for j, row in enumerate(_transpose(code, parts[first : first + 4])):
            for unit in range(0, code.lanes, 4):
                short = code.shuffle(row, row, range(unit, unit + 4))
                code.store(short, units, (unit + j) * basis + first)


def _transpose(code: Code, rows: Sequence[ir.Value]) -> list[ir.Value]:
    """Transpose the 4 x 4 blocks that four vectors hold in each of their 128-bit pieces."""

    def mix(a: ir.Value, b: ir.Value, order: Sequence[int]) -> ir.Value:
        picked = [q + o % 4 + (code.lanes if o >= 4 else 0) for q in range(0, code.lanes, 4) for o in order]
        return code.shuffle(a, b, picked)

    a, b, c, d = rows
    low_ab, high_ab = mix(a, b, (0, 4, 1, 5)), mix(a, b, (2, 6, 3, 7))
    low_cd, high_cd = mix(c, d, (0, 4, 1, 5)), mix(c, d, (2, 6, 3, 7))
    front, back = (0, 1, 4, 5), (2, 3, 6, 7)
    pairs = ((low_ab, low_cd), (high_ab, high_cd))
    return [mix(x, y, order) for x, y in pairs for order in (front, back)]
