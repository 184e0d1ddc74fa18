"""Stored groups as tables and a figure. Works on the records, so that a page made later shows the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

Record = Mapping[str, Any]
Cells = list[list[str]]

BAR_COLUMNS = ["what", "sizes", "against", "value", "by medians", "bar", "holds"]


def bars_of(groups: Iterable[Record]) -> list[tuple[Record, Record]]:
    """(row, bar) of everything that has a bar."""
    return [(row, bar) for group in groups for row in group["rows"] for bar in row["bars"]]


def misses(groups: Iterable[Record]) -> list[str]:
    """A sentence for every row that misses its bar."""
    found = []
    for row, bar in bars_of(groups):
        if not bar["passed"]:
            who = f" against {bar['against']}" if bar["against"] else ""
            asked = f"{'at least' if bar['at_least'] else 'at most'} {value(bar['bound'], row, bar)}"
            found.append(f"{bar['bar']}, {sizes(row)}{who}: {value(bar['value'], row, bar)}, asked {asked}")
    return found


def bar_rows(groups: Iterable[Record]) -> Cells:
    """The cells of the table of bars, under `BAR_COLUMNS`."""
    return [
        [
            bar["bar"],
            sizes(row),
            bar["against"] or "-",
            value(bar["value"], row, bar),
            value(bar["by_median"], row, bar),
            ("≥ " if bar["at_least"] else "≤ ") + value(bar["bound"], row, bar),
            "yes" if bar["passed"] else "NO",
        ]
        for row, bar in bars_of(groups)
    ]


def time_columns(group: Record) -> list[str]:
    """The columns of a group's table: what, sizes, the contenders, spread."""
    return ["what", "sizes", *dict.fromkeys(row["contender"] for row in group["rows"]), "spread"]


def time_rows(group: Record) -> Cells:
    """The cells of a group's table: every contender's median, then the widest spread among them.

    The spread is the range from the 20th to the 80th percentile, over the median.
    """
    lines: dict[tuple[str, str], dict[str, Record]] = {}
    for row in group["rows"]:
        lines.setdefault((row["quantity"], sizes(row)), {})[row["contender"]] = row
    cells = []
    for named, rows in lines.items():
        medians = {name: amount(row["median"], row["unit"]) for name, row in rows.items()}
        spreads = [(row["p80"] - row["p20"]) / row["median"] for row in rows.values() if row["samples"] > 1]
        spread = f"{max(spreads):.1%}" if spreads else "-"
        cells.append([*named, *(medians.get(name, "-") for name in time_columns(group)[2:-1]), spread])
    return cells


def made(group: Record) -> str:
    """Where and how a group was measured, in one line."""
    m = group["made"]
    where = m["gpu"] or f"{m['processor']} ({m['instructions']}, one thread)"
    return f"{where}, torch {m['torch']}, {m['date'][:10]}, commit {m['commit']}, `{m['command']}`"


def sizes(row: Record) -> str:
    """The shape as text, less the sizes that nearly all rows share."""
    usual = {"D": 40, "K": 12, "n": 32, "S": 10, "steps": 500}
    return " ".join(f"{key}={size}" for key, size in row["shape"].items() if usual.get(key) != size)


def value(number: float, row: Record, bar: Record) -> str:
    """A bar's value: a ratio as "76x", else with the row's unit."""
    return f"{number:.3g}x" if bar["against"] else amount(number, row["unit"])


def amount(number: float, unit: str) -> str:
    """A number with its unit, three digits."""
    if unit == "s":
        for factor, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
            if number >= factor or name == "us":
                return f"{number / factor:.3g} {name}"
    digits = f"{number:,.0f}" if number >= 1000 else f"{number:.3g}"
    return f"{digits} MiB" if unit == "MiB" else digits


def show(groups: Sequence[Record]) -> None:
    """Print the table of bars and the medians of everything, drawn by rich where it is installed."""
    titles = [("Against the bars", BAR_COLUMNS, bar_rows(groups))]
    titles += [(f"{group['group']}: medians", time_columns(group), time_rows(group)) for group in groups]
    for title, columns, rows in titles:
        if rows:
            _print(title, columns, rows)


def _print(title: str, columns: list[str], rows: Cells) -> None:
    try:
        from rich.console import Console

        from lln.core.table import Table
    except ImportError:
        widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
        print(f"\n{title}")
        for row in [columns, *rows]:
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    else:
        Console(highlight=False).print(Table(columns, rows, title).to_rich())


def draw(groups: Sequence[Record], path: Path) -> Path | None:
    """Every value over its bar, on a log axis; None where matplotlib is missing or nothing has a bar."""
    pairs = bars_of(groups)
    try:
        from matplotlib.figure import Figure
        from matplotlib.ticker import LogLocator, NullFormatter

        from lln.plots.style import BLACK, BLUE, VERMILION, WIDTH, figure_style, save_figure
    except ImportError:
        return None
    if not pairs:
        return None
    # One line for each kind of bar, one point for each size. What must stay below its bound counts as bound over value.
    order = list(dict.fromkeys((bar["bar"], bar["against"]) for _, bar in pairs))
    with figure_style():
        figure = Figure(figsize=(WIDTH, 1.2 + 0.19 * len(order)), layout="constrained")
        axis = figure.subplots()
        axis.axvline(1.0, color=BLACK, linewidth=1.4, label="bar")
        for holds, colour, marker, label in ((True, BLUE, "o", "holds"), (False, VERMILION, "X", "below its bar")):
            found = [(bar, order.index((bar["bar"], bar["against"]))) for _, bar in pairs if bar["passed"] == holds]
            over = [bar["value"] / bar["bound"] if bar["at_least"] else bar["bound"] / bar["value"] for bar, _ in found]
            look = {"c": colour, "marker": marker, "s": 26, "zorder": 3, "alpha": 0.7, "linewidths": 0}
            axis.scatter(over, [place for _, place in found], label=label, **look)
        axis.set_yticks(range(len(order)), [", against ".join(filter(None, names)) for names in order], fontsize=7.5)
        axis.set_ylim(len(order) - 0.4, -0.6)
        axis.set_xscale("log")
        axis.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.xaxis.set_major_formatter(lambda over, _: f"{over:g}")
        axis.xaxis.set_minor_formatter(NullFormatter())
        axis.set_xlabel("times its bar, one point for each size")
        figure.legend(loc="outside lower right", ncols=3)
        machine = groups[0]["made"]["gpu"] or "one CPU thread"
        figure.suptitle(f"Speed and memory against their bars: {machine}")
    return save_figure(figure, path)
