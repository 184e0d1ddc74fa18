"""`lln audit`: the paper's ratio columns, recomputed."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from lln.core.table import Table
    from lln.paper.theory.audit import Ratio

TITLES = {"depth 40": "Depth-40 table, percent of the comparator's", "all depths": "All-depth table, D = {depth}"}
# The paper's names, which also keep the table within 80 columns.
LABELS = {
    "mlp": "Plain MLP",
    "residual": "ResMLP",
    "scaled-residual": "Scaled ResMLP",
    "residual-batchnorm": "ResMLP-BN",
    "layerscale": "LayerScale",
}


def audit(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document in place of tables.")] = False,
) -> None:
    """Recompute the paper's parameter and FLOP ratios from the counts, and show which agree.

    Exits with code 1 if one of the 100 ratios differs from the printed one in a printed digit.
    """
    from lln.paper.theory.audit import audit_ratios

    ratios = audit_ratios()
    if as_json:
        typer.echo(to_json(ratios))
    else:
        _show(ratios)
    if not all(ratio.agrees for ratio in ratios):
        raise typer.Exit(1)


def to_json(ratios: list[Ratio]) -> str:
    """Every ratio as text with its printed digits, and the count of those that agree."""
    import json
    from dataclasses import asdict

    rows = [
        {**asdict(ratio), "computed": str(ratio.computed), "printed": str(ratio.printed)}
        | {"agrees": ratio.agrees, "inferred": ratio.inferred}
        for ratio in ratios
    ]
    return json.dumps({"agree": sum(r.agrees for r in ratios), "of": len(ratios), "ratios": rows}, indent=2)


def verdict(ratios: list[Ratio]) -> str:
    """The last line: how many agree, and which do not."""
    wrong = [r for r in ratios if not r.agrees]
    lines = [
        f"differs: {r.table} table, D = {r.depth}, {r.system}, {r.column}: computed {r.computed}, printed {r.printed}"
        for r in wrong
    ]
    inferred = sum(r.inferred for r in ratios)
    lines.append(
        f"{inferred} of them had an input chosen by the printed value itself (below D = 40 the\n"
        "paper prints no LLN sizes) and agree by that choice; the others are tests."
    )
    return "\n".join([*lines, f"{len(ratios) - len(wrong)} of {len(ratios)} ratios agree with the printed ones."])


def _show(ratios: list[Ratio]) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    for (table, depth), group in groupby(ratios, key=lambda r: (r.table, r.depth)):
        console.print(_table(TITLES[table].format(depth=depth), group).to_rich())
        console.print()
    typer.echo(verdict(ratios))


def _table(title: str, ratios: Iterable[Ratio]) -> Table:
    from lln.core.table import Table

    rows = []
    for (system, comparator), pair in groupby(ratios, key=lambda r: (r.system, r.comparator)):
        parameters, operations = pair
        cells = [str(value) for r in (parameters, operations) for value in (r.computed, r.printed)]
        rows.append([system, LABELS[comparator], *cells, "yes" if parameters.agrees and operations.agrees else "NO"])
    return Table(["system", "comparator", "params", "printed", "FLOPs", "printed", "agree"], rows, title)
