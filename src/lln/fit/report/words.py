"""The report of a fit in one line, and as a small page for notebooks."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING

from lln.core.table import OURS, counted, number

if TYPE_CHECKING:
    from lln.fit.options import FitReport


def report_line(report: FitReport) -> str:
    """What forecasts, its error on held-out rows, and how long it is valid there."""
    return f"FitReport({'; '.join(f'{name} {value}'.strip() for name, value in _facts(report).items())})"


def report_page(report: FitReport) -> str:
    """The same as HTML, with errors by lead time and the notes."""
    left = "text-align:left"
    rows = [
        f"<th style='{left};font-weight:normal'>{escape(name or 'model')}</th><td style='{left}'>{escape(value)}</td>"
        for name, value in _facts(report).items()
    ]
    page = f"<div><b>FitReport</b><table>{_rows(rows)}</table></div>"
    if report.skill:
        head = "".join(f"<th>{escape(str(cell))}</th>" for cell in ("steps ahead", *report.lead_times))
        errors = [
            f"<th style='{left}'>{escape(OURS if name == 'model' else name)}</th>"
            + "".join(f"<td>{escape(number(value))}</td>" for value in values)
            for name, values in report.skill.items()
            if name == "model" or values != report.skill.get("model")  # a linear model once
        ]
        title = "normalised mean square error on held-out rows by lead time"
        page += f"<div><b>{title}</b><table>{_rows([head, *errors])}</table></div>"
    return page + "".join(f"<p>{escape(note)}</p>" for note in report.notes)


def _facts(report: FitReport) -> dict[str, str]:
    """The most important values, by name; the first has none."""
    many = "present state" if report.history == 1 else f"last {report.history} states"
    part = "vector field" if report.part == "flow" else report.part or "model"
    found = {"": f"{part} of the {many}", "parameters": f"{report.parameters:,}"}
    if not math.isnan(report.held_out_nmse):
        found["held-out error"] = f"{report.held_out_nmse:.3g}, averaged up to {counted(report.held_out_steps, 'step')}"
        found["valid for"] = counted(report.valid_steps, "step")
    if report.notes:
        found["notes"] = f"{len(report.notes)}"
    return {**found, "took": f"{report.seconds:.1f} s"}


def _rows(rows: list[str]) -> str:
    return "".join(f"<tr>{row}</tr>" for row in rows)
