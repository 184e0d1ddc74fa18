"""The parameter and operation ratios of the paper's tables, computed from the counts alone and set beside the print.

`ratios_of` sees the sizes of a row and nothing printed; only `audit_ratios` puts its results next to the print.
The sizes themselves are not all independent of the print: `Ratio.inferred` marks the cells whose inputs were chosen by
looking at that very cell (`paper/ratios.toml` says which and why).
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from lln.models.counting import comparator_cost, lens_cost
from lln.paper.printed_values import RatioRow, all_depths, depth40, ratio_rows
from lln.systems import preset

COMPARATOR_WIDTH = 128
# The paper matches the operation columns at these sizes, whatever the row's own LLN has.
MATCHED_WIDTH, MATCHED_BASIS = 128, 12
# The row whose lowest printed MSE two comparators share; its operation ratio tells them apart.
TIE = (10, "advecdiff-32")


@dataclass(frozen=True)
class Ratio:
    """One cell of a ratio column: what the counts give, what is printed, both with the printed digits."""

    table: str
    depth: int
    system: str
    comparator: str
    column: str
    computed: Decimal
    printed: Decimal

    @property
    def agrees(self) -> bool:
        """Equal in every printed digit."""
        return self.computed == self.printed

    @property
    def inferred(self) -> bool:
        """Whether an input was chosen by the printed value of this cell, so that its agreement is no test."""
        if self.column == "parameters":
            return self.depth < 40
        return (self.depth, self.system) == TIE


def ratios_of(row: RatioRow) -> tuple[Fraction, Fraction]:
    """LLN over comparator for one row, exactly: parameters as deployed, operations at matched sizes."""
    n = preset(row.system).size
    other = comparator_cost(row.comparator, n, n, width=COMPARATOR_WIDTH, depth=row.depth)
    deployed = lens_cost(n, n, width=row.width, depth=row.depth, basis=row.basis)
    matched = lens_cost(n, n, width=MATCHED_WIDTH, depth=row.depth, basis=MATCHED_BASIS)
    return Fraction(deployed.parameters, other.parameters), Fraction(matched.operations, other.operations)


def rounded(value: Fraction, decimals: int) -> Decimal:
    """`value` with `decimals` decimals, a tie away from zero as in print; exact, since nothing is a float.

    >>> rounded(Fraction(1, 8), 2), rounded(Fraction(2, 3), 3)
    (Decimal('0.13'), Decimal('0.667'))
    """
    units = (2 * abs(value) * 10**decimals + 1) // 2
    return Decimal(units if value >= 0 else -units).scaleb(-decimals)


def audit_ratios() -> list[Ratio]:
    """All 100 ratios: 20 of the depth-40 table (percent, one decimal), then 80 of the all-depth table (three)."""
    inputs = {(row.depth, row.system): row for row in ratio_rows()}
    found: list[Ratio] = []
    for main in depth40():
        row = inputs[40, main.system]
        printed_pair = (main.parameter_ratio_percent, main.flop_ratio_percent)
        found += _cells("depth 40", row, printed_pair, percent=True)
    for printed in all_depths():
        row = inputs[printed.depth, printed.system]
        found += _cells("all depths", row, (printed.parameter_ratio, printed.flop_ratio), percent=False)
    return found


def _cells(table: str, row: RatioRow, printed: tuple[Decimal, Decimal], *, percent: bool) -> list[Ratio]:
    factor, decimals = (100, 1) if percent else (1, 3)
    return [
        Ratio(table, row.depth, row.system, row.comparator, column, rounded(value * factor, decimals), paper)
        for column, value, paper in zip(("parameters", "operations"), ratios_of(row), printed, strict=True)
    ]
