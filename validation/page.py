"""Writes the stored results of fuzz, faults, soak and mutants into a page, between `<!-- fuzz -->` and its end mark.

python -m validation.page docs/trust.md
"""

from __future__ import annotations

import json
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lln.core.safe_files import whole_file

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
REASONS = HERE / "mutants" / "survivors.toml"
FULL = 10_000  # cases of each reader in a full run of `make fuzz`
COUNTS = ("faults", "lost", "wrong", "tracebacks")


def fuzz(stored: Mapping[str, Any]) -> list[str]:
    """A line for each reader."""
    rows = stored["rows"]
    lines = table("reader|cases|past the header|refused|of them contained crashes or hangs|accepted|findings|s", 1)
    for row in rows:
        past = f"{row['past']:,} ({row['past'] / max(1, row['cases']):.0%})"
        counts = (row["refused"], row["contained"], row["accepted"], row["findings"], round(row["seconds"]))
        lines.append(cells(row["reader"], f"{row['cases']:,}", past, *(f"{count:,}" for count in counts)))
    lines += ["", source("fuzz", *(row["made"] for row in rows))]
    if any(row["cases"] < FULL for row in rows):
        lines[-1] += f" Rows of fewer than {FULL:,} cases are from shorter runs (`--cases`)."
    return lines


def faults(stored: Mapping[str, Any]) -> list[str]:
    """A line for each kind of fault."""
    rows = stored["rows"]
    lines = [
        "| fault | during | faults | lost | wrong | tracebacks | how it ended |",
        "|---|---|---:|---:|---:|---:|---|",
    ]
    for kind in dict.fromkeys(row["kind"] for row in rows):
        some = [row for row in rows if row["kind"] == kind]
        ended: Counter[str] = Counter()
        for row in some:
            ended.update(row["ended"])
        how = "; ".join(f"{count} {word.replace(';', ',')}" for word, count in ended.most_common())
        lines.append(cells(kind, ", ".join(row["work"].replace(", ", " ") for row in some), *total(some), how))
    lines += [cells("all", "", *total(rows), ""), "", source("faults", stored["provenance"])]
    lines[-1] += f" One run of {stored['seconds']} s."
    return lines


def soak(stored: Mapping[str, Any]) -> list[str]:
    """What was measured after the warm-up."""
    lines = ["| measured | value |", "|---|---|"]
    lines.append(cells("rounds, of them after the warm-up", f"{stored['rounds']}, {stored['steady_rounds']}"))
    lines.append(cells("tasks, wrong among them", f"{sum(stored['done'].values())}, {len(stored['wrong'])}"))
    memory = ", ".join(str(value) for value in stored["memory_mib"])
    lines.append(cells("memory: first round after the warm-up, largest, last", f"{memory} MiB"))
    growth = f"{stored['slope_mib_per_hour']} MiB an hour; {stored['rise_mib']} MiB"
    lines.append(cells("slope; rise from the first quarter to the last", growth))
    for name, key in {
        "file handles": "handles",
        "threads": "threads",
        "child processes": "children",
        "temporary files": "left",
    }.items():
        lines.append(cells(f"{name}: most in the first half, in the last quarter", "{}, {}".format(*stored[key])))
    return [*lines, "", source("soak", stored)]


def mutants(stored: Mapping[str, Any]) -> list[str]:
    """A line for each folder."""
    lines = table("code|changes|detected|undetected|detected, %", 1)
    for name, row in stored["folders"].items():
        share = f"{100 * row['killed'] / row['mutants']:.1f}"
        lines.append(cells(name, str(row["mutants"]), str(row["killed"]), str(row["survived"]), share))
    kinds = {entry["key"]: entry["kind"] for entry in tomllib.loads(REASONS.read_text())["survivor"]}
    left = Counter(kinds.get(one["key"], "no reason") for one in stored["mutants"] if one["status"] == "survived")
    why = ", ".join(f"{count} {kind}" for kind, count in left.most_common())
    return [*lines, "", f"Undetected, by the reason given: {why}. {source('mutants', stored['made'])}"]


def table(heads: str, words: int) -> list[str]:
    """The head of a table: some columns of words, the others of numbers."""
    names = heads.split("|")
    return [cells(*names), "|" + "---|" * words + "---:|" * (len(names) - words)]


def cells(*texts: str) -> str:
    """One line of a table."""
    return f"| {' | '.join(texts)} |"


def total(rows: list[dict[str, Any]]) -> list[str]:
    """The counts of several rows of faults."""
    return [str(sum(row[key] for row in rows)) for key in COUNTS]


def source(name: str, *made: Mapping[str, Any]) -> str:
    """Where and when the numbers were made, and where they are stored."""
    first = made[0]
    dates = " and ".join(sorted({one["date"][:10] for one in made}))
    commits = ", ".join(sorted({str(one["commit"]) for one in made}))
    where = f"{first['processor']}, {first['cores']} cores, Python {first['python']}, {dates}, commit {commits}"
    return f"{where}; `make {name}`, stored in `validation/results/{name}.json`."


CHECKS: dict[str, Callable[[Mapping[str, Any]], list[str]]] = {
    "fuzz": fuzz, "faults": faults, "soak": soak, "mutants": mutants,
}  # fmt: skip


def marks(name: str) -> tuple[str, str]:
    """What stands before and after a table in the page."""
    return f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"


def filled(text: str) -> str:
    """The text of a page with all tables from the stored results."""
    for name, told in CHECKS.items():
        first, last = marks(name)
        before, _, rest = text.partition(first)
        _, found, after = rest.partition(last)
        if not found:
            raise SystemExit(f"the page has no marks {first.strip()} and {last.strip()} to write the table between")
        lines = told(json.loads((RESULTS / f"{name}.json").read_text()))
        text = before + first + "\n".join(lines) + "\n" + last + after
    return text


def main() -> None:
    """Fill the page that the command line names."""
    if len(sys.argv) != 2:
        raise SystemExit("usage: python -m validation.page PAGE")
    page = Path(sys.argv[1])
    text = filled(page.read_text())
    with whole_file(page) as partial:
        partial.write_text(text)


if __name__ == "__main__":
    main()
