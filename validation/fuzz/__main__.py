"""``python -m validation.fuzz``: fuzz every reader and print a table; leaves with 1 if anything was found."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from validation.fuzz import campaign
from validation.fuzz.readers import READERS
from validation.fuzz.worker import ENGINES

FOUND = Path(__file__).parent / "found"
HEADS = ("reader", "cases", "past the header", "refused", "accepted", "findings", "seconds")


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m validation.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000, help="for each reader (default: 10000)")
    parser.add_argument("--seed", type=int, default=0, help="the same seed, the same cases (default: 0)")
    parser.add_argument("--readers", default=",".join(READERS), help="a comma-separated part of: %(default)s")
    parser.add_argument("--engines", default=",".join(ENGINES), help="a comma-separated part of: %(default)s")
    parser.add_argument("--found", type=Path, default=FOUND, help="folder for the cases that found something")
    parser.add_argument("--work", type=Path, help="folder for valid files and cases, whose valid files are used again")
    parser.add_argument("--json", type=Path, help="also write the table here, with machine, date and commit")
    options = parser.parse_args()
    names = options.readers.split(",")
    if set(names) - set(READERS):
        parser.error(f"readers are {', '.join(READERS)}, got {options.readers!r}")
    engines = campaign.engines_of(options.engines)
    with tempfile.TemporaryDirectory(prefix="lln-fuzz-") as folder:
        work = options.work or Path(folder)
        if not (work / "seeds").is_dir():
            campaign.write_seeds(work)
        rows: list[campaign.Row] = []

        def say(sentence: str) -> None:
            print(sentence, file=sys.stderr, flush=True)
            if options.json is not None:
                _store(rows, options)

        for name in names:
            rows.append(campaign.Row(name))
            campaign.run(rows[-1], options.cases, engines, options.seed, work, options.found, say)
    _show(rows)
    return 1 if any(row.findings or 3 * row.past < row.cases for row in rows) else 0


def _show(rows: list[campaign.Row]) -> None:
    cells = [HEADS]
    for row in rows:
        past = f"{row.past} ({row.past / max(1, row.cases):.0%})"
        counts = (row.refused, row.accepted, len(row.findings), f"{row.seconds:.0f}")
        cells.append((row.reader, str(row.cases), past, *map(str, counts)))
    widths = [max(len(line[k]) for line in cells) for k in range(len(HEADS))]
    for line in cells:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    for row in rows:
        for finding in row.findings[:20]:
            print(f"\n{row.reader} ({finding['engine']}): {finding['case']}\n{finding['text']}")
        if 3 * row.past < row.cases:
            print(f"\n{row.reader}: less than a third of its cases got past the header")


def _store(rows: list[campaign.Row], options: argparse.Namespace) -> None:
    """Write the rows; those of readers that were not fuzzed this time stay as they are."""
    from lln.core.provenance import provenance

    made = provenance("numpy", "h5py", "zarr", "pandas", "torch", "safetensors", "hypothesis", "atheris")
    held = json.loads(options.json.read_text())["rows"] if options.json.exists() else []
    known = {row["reader"]: row for row in held}
    command = f"python -m validation.fuzz --cases {options.cases} --seed {options.seed}"
    known |= {row.reader: {**row.record(), "command": command, "made": made} for row in rows}
    content = {"rows": [known[name] for name in READERS if name in known]}
    options.json.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
