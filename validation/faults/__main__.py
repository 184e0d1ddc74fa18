"""`python -m validation.faults`: all faults, the table, and exit code 1 if anything was found."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

RESULTS = Path(__file__).parents[1] / "results" / "faults.json"


def main() -> int:
    """Run the kinds that were asked for."""
    parser = argparse.ArgumentParser(prog="python -m validation.faults", description=__doc__)
    parser.add_argument("--only", nargs="*", help="kinds of fault, as in kill dask")
    parser.add_argument("--count", type=int, help="faults of each kind, in place of the usual number")
    parser.add_argument("--seed", type=int, default=0, help="of the moments and places")
    parser.add_argument("--short", action="store_true", help="about thirty faults over all kinds, in half a minute")
    parser.add_argument("--outcomes", type=Path, help="write every outcome to this file")
    parser.add_argument("--store", action="store_true", help=f"write {RESULTS.name}")
    chosen = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="lln-faults-"))
    os.environ["XDG_CACHE_HOME"] = str(home / "cache")
    from validation.faults import run

    began = time.monotonic()
    kinds = run.SHORT if chosen.short else run.KINDS
    outcomes = run.all_kinds(home / "work", kinds, chosen.only, chosen.count, chosen.seed)
    if chosen.outcomes:
        chosen.outcomes.write_text(json.dumps([asdict(one) for one in outcomes], default=str))
    rows = run.table(outcomes)
    print(run.drawn(rows))
    found = [finding for one in outcomes for finding in one.findings]
    print(f"{len(outcomes)} faults in {time.monotonic() - began:.0f} s, {len(found)} findings")
    if chosen.store:
        run.store(RESULTS, rows, chosen.seed, time.monotonic() - began)
    if not found:
        shutil.rmtree(home, ignore_errors=True)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
