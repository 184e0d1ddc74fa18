"""What is kept of a measurement, and how it stands against its bars."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.speed.bars import Bar
from benchmarks.speed.timing import Times


@dataclass(frozen=True)
class Row:
    """One contender at one quantity and shape.

    Attributes:
        quantity: what was measured, a name of `bars.QUANTITIES`.
        contender: who ran.
        shape: sizes by the alphabet B, h, D, K, n, S, steps.
        unit: "s", "MiB", "relative error", "slope" or "ratio".
        median: of the samples.
        p20: their 20th percentile.
        p80: their 80th percentile.
        minimum: the smallest sample; ratios are taken between minima.
        samples: how many.
        note: what a reader must know beside the numbers.
    """

    quantity: str
    contender: str
    shape: dict[str, int]
    unit: str
    median: float
    p20: float
    p80: float
    minimum: float
    samples: int
    note: str = ""

    @property
    def sizes(self) -> str:
        """The shape as text: "B=64 h=128"."""
        return " ".join(f"{key}={value}" for key, value in self.shape.items())


@dataclass(frozen=True)
class Check:
    """A row against a bar: the ratio (or the value itself, where the bar is not relative), and whether it holds."""

    bar: str
    row: Row
    against: str
    value: float
    by_median: float
    bound: float
    at_least: bool

    @property
    def passed(self) -> bool:
        """Whether the bar holds, by minima."""
        return self.value >= self.bound if self.at_least else self.value <= self.bound


def timed(
    quantity: str, shape: Mapping[str, int], times: Mapping[str, Times], notes: Mapping[str, str] | None = None
) -> list[Row]:
    """One row a contender."""
    return [
        Row(
            quantity,
            name,
            dict(shape),
            "s",
            t.quantile(0.5),
            t.quantile(0.2),
            t.quantile(0.8),
            t.minimum,
            len(t.seconds),
            (notes or {}).get(name, ""),
        )
        for name, t in times.items()
    ]


def single(
    quantity: str, contender: str, shape: Mapping[str, int], unit: str, values: Sequence[float], note: str = ""
) -> Row:
    """A row of values that were not raced."""
    t = Times(tuple(values))
    stats = (t.quantile(0.5), t.quantile(0.2), t.quantile(0.8), t.minimum)
    return Row(quantity, contender, dict(shape), unit, *stats, len(values), note)


def checks(rows: Sequence[Row], bars: Iterable[Bar], level: str) -> list[Check]:
    """Every bar against every row that it is about, on a machine of the given `level` (see `Bar.level`)."""
    return [
        check
        for bar in bars
        if bar.level == level
        for row in rows
        if bar.about(row.quantity, row.contender, row.shape)
        for check in _against(bar, row, rows)
    ]


def _against(bar: Bar, row: Row, rows: Sequence[Row]) -> list[Check]:
    if not bar.against:
        return [Check(bar.name, row, "", row.minimum, row.median, bar.bound, bar.at_least)]
    others = [r for r in rows if r.contender in bar.against and (r.quantity, r.shape) == (row.quantity, row.shape)]
    if not others:
        return []
    best = min(others, key=lambda r: r.minimum)
    ratio, by_median = best.minimum / row.minimum, best.median / row.median
    return [Check(bar.name, row, best.contender, ratio, by_median, bar.bound, bar.at_least)]


def ratio_to_naive(row: Row, rows: Iterable[Row]) -> float | None:
    """How many times the naive form's minimum this row's fits into; None where there was no naive form."""
    for other in rows:
        if (other.contender, other.quantity, other.shape) == ("naive", row.quantity, row.shape) and row.minimum > 0:
            return other.minimum / row.minimum
    return None


def as_record(row: Row, rows: Sequence[Row], held: Sequence[Check]) -> dict[str, Any]:
    """The row as plain values, with its ratio to the naive form and its bars."""
    mine = [
        {"bar": c.bar, "against": c.against, "value": c.value, "by_median": c.by_median, "bound": c.bound}
        | {"at_least": c.at_least, "passed": c.passed}
        for c in held
        if c.row is row
    ]
    return {**asdict(row), "ratio": ratio_to_naive(row, rows), "bars": mine}
