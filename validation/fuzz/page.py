"""The table of a page, from the stored rows."""

from __future__ import annotations

import json
import re
from pathlib import Path

FULL = 10_000
_BLOCK = re.compile(r"(<!-- fuzz -->\n).*?(<!-- end of fuzz -->)", re.DOTALL)


def fill(page: Path, results: Path) -> None:
    """Replace what stands between the page's two marks by the table of `results`."""
    rows = json.loads(results.read_text())["rows"]
    lines = [
        "| reader | cases | past the header | refused | of them contained crashes or hangs | accepted | findings | s |"
    ]
    lines.append("|---|---:|---:|---:|---:|---:|---:|---:|")
    for row in rows:
        past = f"{row['past']:,} ({row['past'] / max(1, row['cases']):.0%})"
        counts = (row["refused"], row["contained"], row["accepted"], row["findings"], round(row["seconds"]))
        lines.append(f"| {row['reader']} | {row['cases']:,} | {past} | " + " | ".join(f"{n:,}" for n in counts) + " |")
    made = [row["made"] for row in rows]
    dates = sorted({one["date"][:10] for one in made})
    where = f"{made[0]['processor']}, {made[0]['cores']} cores, Python {made[0]['python']}"
    commits = ", ".join(sorted({str(one["commit"]) for one in made}))
    lines += ["", f"Measured on {where}, {' to '.join(dict.fromkeys((dates[0], dates[-1])))}, commit {commits}."]
    if any(row["cases"] < FULL for row in rows):
        lines[-1] += f" Rows of fewer than {FULL:,} cases are from shorter runs (`--cases`)."
    page.write_text(_BLOCK.sub(lambda match: match[1] + "\n".join(lines) + "\n" + match[2], page.read_text()))
