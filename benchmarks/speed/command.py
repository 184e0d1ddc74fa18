"""The benchmark as a command, with argparse: it must run where only torch and NumPy are installed."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.speed import page, report, store
from benchmarks.speed.gate import BrokenOperatorError
from benchmarks.speed.setting import progress
from benchmarks.speed.suite import DEVICES, GROUPS, Outcome, default_folder, run
from lln.core.errors import InputError


def main(words: Sequence[str], program: str = "python -m benchmarks.speed") -> int:
    """Run the benchmark; the exit code is 1 when the operator is broken or, with --check, when a bar is missed."""
    options = _parser(program).parse_args(words)
    folder = options.out or default_folder()
    try:
        if options.page is not None:
            page.refresh(options.page, folder)
            return 0
        outcome = run(
            folder,
            device=options.device,
            only=options.only,
            quick=options.quick,
            say=progress(),
            command=shlex.join([*program.split(), *words]),
            commit=options.commit,
        )
    except BrokenOperatorError as error:
        print(f"lln: {error}", file=sys.stderr)
        return 1
    except InputError as error:
        print(f"lln: {error}", *getattr(error, "__notes__", ()), sep="\n", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nlln: interrupted; the groups that were finished are stored", file=sys.stderr)
        return 130
    missed = _tell(outcome, folder, options.device, options.quick)
    return 1 if options.check and missed else 0


def _tell(outcome: Outcome, folder: Path, device: str, quick: bool) -> list[str]:
    """Print tables, files and the verdict; the sentences about missed bars."""
    everything = store.read_groups(folder, device, quick)
    measured = [group for name, group in everything.items() if name in outcome.groups]
    report.show(measured)
    for line in outcome.skipped:
        print(f"not measured: {line}")
    drawn = report.draw(list(everything.values()), folder / f"{'quick-' if quick else ''}{device}.png")
    for path in (*outcome.files, *([drawn] if drawn else [])):
        print(f"wrote {path}")
    missed = report.misses(measured)
    for line in missed:
        print(f"under its bar: {line}")
    total = len(report.bars_of(measured))
    if total:
        print(f"{total - len(missed)} of {total} bars hold.")
    else:
        print(
            f"no bars are set for this machine ({measured[0]['made']['level']})." if measured else "nothing measured."
        )
    return missed


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=program, description="Measure speed and memory, after the operator's tests.")
    parser.add_argument("--device", default="cpu", help=f"{' or '.join(DEVICES)} (default: cpu)")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="where rows go (default: benchmarks/results)")
    parser.add_argument("--only", nargs="+", default=[], metavar="GROUP", help=f"some of: {', '.join(GROUPS)}")
    parser.add_argument("--quick", action="store_true", help="a small part, in under a minute")
    parser.add_argument("--check", action="store_true", help="leave with 1 when a ratio falls under its bar")
    parser.add_argument("--commit", help="the commit to store, where there is no checkout to ask")
    parser.add_argument("--page", type=Path, metavar="FILE", help="measure nothing; fill this page from stored rows")
    return parser
