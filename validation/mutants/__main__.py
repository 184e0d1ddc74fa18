"""Mutation testing: how many small changes of the code do the tests notice?

    python -m validation.mutants         # what `make mutants` runs: 300 mutants, about half an hour of one core

Works in a private copy of the tree, never in the tree itself. Results are stored as they come, so a run that was
stopped goes on where it was: a mutant stays killed while its function and the test that killed it are what they were,
and a survivor is tried again when the tests have changed, unless `survivors.toml` says why it lives. Every survivor
needs such a reason.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before any library is loaded

import argparse
import ast
import compileall
import hashlib
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

from validation.mutants import cover, find, serve

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RESULTS = HERE.parent / "results" / "mutants.json"
BAR = 0.85

Pairs = list[tuple[find.Mutant, dict[str, Any]]]


def main() -> int:
    """Run, report, and say by the exit code whether the bar was met."""
    parser = argparse.ArgumentParser(prog="python -m validation.mutants", description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=ROOT, help="the tree to test; the one this file lies in otherwise")
    parser.add_argument("--count", type=int, default=find.COUNT, help="how many mutants")
    parser.add_argument("--budget", type=float, default=12.0, help="seconds of tests for one mutant")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the results are kept")
    parser.add_argument("--work", type=Path, default=None, help="where the copy lies; a temporary folder otherwise")
    parser.add_argument("--fresh", action="store_true", help="forget stored results")
    parser.add_argument("--list", action="store_true", help="print the sample and stop")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that a child in flight is ended too
    if options.list:
        for mutant in find.sample(options.root, count=options.count):
            print(mutant.key, mutant.operator, mutant, sep="  ")
        return 0
    work = options.work or Path(tempfile.gettempdir()) / f"lln-mutants-{os.getuid()}"
    work.mkdir(mode=0o700, parents=True, exist_ok=True)
    run = Run(options.root.resolve(), work.resolve(), options.out, options.budget)
    if options.fresh:
        options.out.unlink(missing_ok=True)
    run.all(options.count)
    return run.report()


class Run:
    """One run over a sample."""

    def __init__(self, root: Path, work: Path, out: Path, budget: float) -> None:
        self.root, self.work, self.out, self.budget = root, work, out, budget
        self.tree = work / "tree"
        copy(root, self.tree)
        compileall.compile_dir(str(self.tree / "src"), quiet=2)
        serve.warm()
        self.server = serve.Server(self.tree, work)
        self.tests_hash = cover.digest(sorted((self.tree / "tests").rglob("*.py")))
        self.all_mutants = find.every(self.tree)
        self.made = provenance(root)
        self.reasons = survivors_with_reasons()
        self.records: list[dict[str, Any]] = []

    def all(self, count: int) -> None:
        """Try every mutant of the sample that is not known yet."""
        sample = find.sample(self.tree, count=count)
        tests = [file.relative_to(self.tree).as_posix() for file in cover.files(self.tree)]
        self.server.prepare(tests)
        stored = self._stored()
        self.records = [self._record(mutant, stored.get(mutant.key)) for mutant in sample]
        pairs = list(zip(sample, self.records, strict=True))
        self._try_each([(mutant, record) for mutant, record in pairs if not record["status"]], set())
        self._alibis(pairs)
        self._store()

    def map(self, code: set[str]) -> cover.Seen:
        """What every file of tests runs; what was stored serves while neither it nor `code` has changed."""
        folder = self.work / "map"
        folder.mkdir(exist_ok=True)
        parts = []
        for file in cover.files(self.tree):
            name = file.relative_to(self.tree).as_posix()
            result = folder / f"{name.replace('/', '-')}.json"
            if not result.exists() or not cover.Seen.read(result).serves(self.tree, name, code):
                seconds, ended = self.server.child(partial(cover.watch, self.tree, name, result), 600, keep=True)
                print(f"{seconds:6.1f} s  {name}{f': {ended}' if ended else ''}", flush=True)
                if ended:
                    continue
            parts.append(cover.Seen.read(result))
        return cover.Seen.joined(parts)

    def _stored(self) -> dict[str, dict[str, Any]]:
        if not self.out.exists():
            return {}
        return {record["key"]: record for record in json.loads(self.out.read_text())["mutants"]}

    def _record(self, mutant: find.Mutant, stored: dict[str, Any] | None) -> dict[str, Any]:
        """A mutant with what is known of it; its status is empty if it has to be tried."""
        record = {
            "key": mutant.key, "file": mutant.file, "line": mutant.line, "function": mutant.function,
            "operator": mutant.operator, "before": mutant.before, "after": mutant.after, "status": "", "by": "",
            "seconds": 0.0, "tests": 0, "code": mutant.context, "proof": "", "suite": self.tests_hash[:16],
        }  # fmt: skip
        if stored is None or stored["code"] != mutant.context:
            return record
        unexplained = stored["key"] not in self.reasons
        if stored["status"] == "survived" and stored["suite"] != record["suite"] and unexplained:
            return record
        if stored["proof"] != proof(self.tree, stored["by"]):
            return record
        return record | {name: stored[name] for name in ("status", "by", "seconds", "tests", "proof", "suite")}

    def _try_each(self, pairs: Pairs, without: set[str]) -> None:
        """Try these mutants, without some tests."""
        print(f"{len(pairs)} of {len(self.records)} mutants to try", flush=True)
        if pairs:
            seen = self.map({mutant.file for mutant, _ in pairs})
            for mutant, record in pairs:
                self._try(mutant, record, seen, without)

    def _try(self, mutant: find.Mutant, record: dict[str, Any], seen: cover.Seen, without: set[str]) -> None:
        tests = [test for test in cover.choose(mutant, seen, self.budget) if test not in without]
        if tests:
            limit = 10 + 3 * sum(seen.seconds[test] for test in tests)
            with self.server.changed(mutant.file, mutant.applied((self.tree / mutant.file).read_bytes())):
                verdict = self.server.test(tests, limit)
        else:
            verdict = serve.Verdict("survived", "no test runs it", 0.0)
        record |= {"status": verdict.status, "by": verdict.by, "seconds": round(verdict.seconds, 1)}
        record |= {"tests": len(tests), "proof": proof(self.tree, verdict.by), "suite": self.tests_hash[:16]}
        self._store()
        place = self.records.index(record) + 1
        print(f"{place:4d} {verdict.status:8s} {verdict.seconds:5.1f} s  {mutant}  {verdict.by}", flush=True)

    def _alibis(self, pairs: Pairs) -> None:
        """A test that fails without any change has killed nothing: its mutants are tried again without it."""
        guilty: set[str] = set()
        while True:
            killers = sorted({record["by"] for record in self.records if record["proof"]})
            fresh = self.server.failing([test for test in killers if test not in guilty])
            if not fresh:
                return
            guilty |= fresh
            print("fail without a mutant, or one time in some:", *sorted(fresh), sep="\n  ", flush=True)
            self._try_each([(mutant, record) for mutant, record in pairs if record["by"] in fresh], guilty)

    def _store(self) -> None:
        done = [record for record in self.records if record["status"]]
        content = {
            "format": 1,
            "made": self.made,
            "seed": find.SEED,
            "drawn_from": len(self.all_mutants),
            "left_out": [{"file": file, "names": names or "all", "reason": why} for file, names, why in find.KERNELS],
            "folders": scores(done),
            "mutants": done,
        }
        self.out.parent.mkdir(parents=True, exist_ok=True)
        partial = self.out.with_suffix(".partial")
        partial.write_text(json.dumps(content, indent=1) + "\n")
        partial.replace(self.out)

    def report(self) -> int:
        """Print the table and the survivors; 0 if enough were killed and every survivor has its reason."""
        table = scores(self.records)
        print(f"\n{'folder':<22}{'mutants':>8}{'killed':>8}{'survived':>10}{'score':>8}")
        for name, row in table.items():
            share = row["killed"] / row["mutants"]
            print(f"{name:<22}{row['mutants']:>8}{row['killed']:>8}{row['survived']:>10}{share:>8.1%}")
        survivors = [record for record in self.records if record["status"] == "survived"]
        open_ones = [record for record in survivors if record["key"] not in self.reasons]
        print(f"\n{len(survivors)} survivors, {len(open_ones)} of them without a reason")
        for record in survivors:
            change = f"{' '.join(record['before'].split())}  ->  {record['after']}"
            reason = self.reasons.get(record["key"], "NO REASON GIVEN")
            print(
                f"{record['key']}  {record['file']}:{record['line']} {record['function']}\n    {change}\n    {reason}"
            )
        stale = sorted(set(self.reasons) - {record["key"] for record in survivors})
        if stale:
            print("survivors.toml gives reasons for mutants that are not among them:", ", ".join(stale))
        whole = table["all"]
        return 0 if whole["killed"] >= BAR * whole["mutants"] and not open_ones else 1


def scores(records: list[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """Counts a folder, and of all."""
    counts: Counter[tuple[str, str]] = Counter()
    for record in records:
        for name in (folder(record["file"]), "all"):
            counts[name, record["status"]] += 1
    names = [*sorted({name for name, _ in counts} - {"all"}), "all"]
    return {
        name: {
            "mutants": counts[name, "killed"] + counts[name, "survived"],
            "killed": counts[name, "killed"],
            "survived": counts[name, "survived"],
        }
        for name in names
    }


def folder(file: str) -> str:
    """`ops` of `src/lln/ops/grid.py`; a scope that is one file by its own name."""
    scope = next(place for place in find.SCOPE if file == place or file.startswith(f"{place}/"))
    return scope.removeprefix("src/lln/").removesuffix(".py")


def survivors_with_reasons() -> dict[str, str]:
    """The reason why each known survivor may live."""
    stored = tomllib.loads((HERE / "survivors.toml").read_text())
    return {entry["key"]: f"{entry['kind']}: {entry['reason']}" for entry in stored.get("survivor", [])}


def copy(root: Path, target: Path) -> None:
    """What git knows of the tree, or may come to know; a folder outside git as it is."""
    if (root / ".git").exists():
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, cwd=root, capture_output=True, check=True).stdout.decode().split("\0")
        files = [root / name for name in listed if name]
    else:
        files = [file for file in root.rglob("*") if "__pycache__" not in file.parts]
    wanted = {file.relative_to(root): file for file in files if file.is_file()}
    for old in target.rglob("*"):
        if old.is_file() and old.suffix != ".pyc" and old.relative_to(target) not in wanted:
            old.unlink()
    for name, file in wanted.items():
        place = target / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if not place.exists() or place.read_bytes() != file.read_bytes():
            shutil.copy2(file, place)


def proof(tree: Path, by: str) -> str:
    """A hash of the test that killed a mutant, of its whole file where it is defined elsewhere; nothing if none did."""
    file, _, name = by.partition("::")
    if not name or not (tree / file).exists():
        return ""
    body: list[ast.stmt] = ast.parse((tree / file).read_bytes()).body
    for part in name.partition("[")[0].split("::"):
        found = [node for node in body if getattr(node, "name", "") == part]
        if not found:
            return cover.digest([tree / file])[:16]
        body = getattr(found[0], "body", [])
    return hashlib.sha256(ast.dump(found[0]).encode()).hexdigest()[:16]


def provenance(root: Path) -> dict[str, Any]:
    """Machine, versions, commit and date, as the package itself notes them; asked for in another process."""
    code = "import json; from lln.core.provenance import provenance as p; print(json.dumps(p('torch', 'pytest')))"
    environment = {**os.environ, "PYTHONPATH": str(root / "src")}
    answer = subprocess.run([sys.executable, "-c", code], cwd=root, env=environment, capture_output=True, check=True)
    return {**json.loads(answer.stdout), "command": "python -m validation.mutants"}


if __name__ == "__main__":
    sys.exit(main())
