"""The stored table in a page of the documentation: a line for each kind of fault."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lln.core.safe_files import whole_file

MARK = "<!-- faults -->"
COUNTS = ("faults", "lost", "wrong", "tracebacks")


def fill(path: Path, stored: Mapping[str, Any]) -> None:
    """Put the table and where it was made between the two marks of `path`."""
    before, _, after = path.read_text().split(MARK)
    lines = "\n".join(told(stored))
    with whole_file(path) as partial:
        partial.write_text(f"{before}{MARK}\n{lines}\n{MARK}{after}")


def told(stored: Mapping[str, Any]) -> list[str]:
    """The lines of the table and one sentence below it."""
    rows = stored["rows"]
    lines = [
        "| fault | strikes | faults | lost | wrong | tracebacks | how it ended |",
        "|---|---|---:|---:|---:|---:|---|",
    ]
    for kind in dict.fromkeys(row["kind"] for row in rows):
        some = [row for row in rows if row["kind"] == kind]
        ended: Counter[str] = Counter()
        for row in some:
            ended.update(row["ended"])
        works = ", ".join(row["work"] for row in some)
        counts = [str(sum(row[key] for row in some)) for key in COUNTS]
        how = ", ".join(f"{count} {word}" for word, count in ended.most_common())
        lines.append("| " + " | ".join([kind, works, *counts, how]) + " |")
    sums = " | ".join(str(sum(row[key] for row in rows)) for key in COUNTS)
    made = stored["provenance"]
    where = f"{made['processor']}, {made['cores']} cores, {made['date'][:10]}"
    return [*lines, f"| all | | {sums} | |", "", f"{where}, `make faults`; stored in `validation/results/faults.json`."]
