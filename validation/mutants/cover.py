"""Which tests run which lines, and which of them could notice a mutant."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from validation.mutants.find import Mutant
from validation.mutants.serve import OPTIONS

# The tests of the code in scope. Others run it too, a fit of seconds for every line that they could notice.
TESTS = (
    *("tests/ops", "tests/models", "tests/evaluate", "tests/data", "tests/step"),
    *(f"tests/contracts/test_{name}.py" for name in ("backends", "formats_contract", "networks", "operator", "parts")),
    "tests/train/test_ensemble_training.py",  # of models/factory.py
)
# Half a minute.
LEFT_OUT = "tests/data/test_dataset_larger_than_memory.py::test_data_beyond_a_hard_memory_limit_streams"
# What runs in the child that `sandbox.py` asks is seen by nobody here: the tests that ask it stand in.
ASKED_BY = dict.fromkeys(
    (f"src/lln/data/read/{name}.py" for name in ("sandbox_worker", "hdf5", "zarr", "store", "decode")),
    "src/lln/data/read/sandbox.py",
)
LONG = 5.0  # seconds; a test beyond is taken only where no other runs the line


@dataclass(frozen=True)
class Seen:
    """What one run of a file of tests showed.

    Attributes:
        seconds: processor time of every test that passed.
        lines: for every file of the code and every line, the tests that run it.
        state: hashes of the file of tests and of the files of the code that it runs.
    """

    seconds: dict[str, float]
    lines: dict[str, dict[int, list[str]]]
    state: dict[str, str]

    def write(self, path: Path) -> None:
        """Store it."""
        path.write_text(json.dumps({"seconds": self.seconds, "lines": self.lines, "state": self.state}))

    def serves(self, root: Path, tests: str, code: Iterable[str]) -> bool:
        """Whether it still holds for these files of the code: neither they nor the tests have changed since."""
        if self.state.get(tests) != digest([root / tests]):
            return False
        return all(self.state[file] == digest([root / file]) for file in code if file in self.state)

    @classmethod
    def read(cls, path: Path) -> Seen:
        """What `write` stored."""
        stored = json.loads(path.read_text())
        lines = {name: {int(line): tests for line, tests in kept.items()} for name, kept in stored["lines"].items()}
        return cls(stored["seconds"], lines, stored["state"])

    @classmethod
    def joined(cls, parts: Iterable[Seen]) -> Seen:
        """What several files of tests showed."""
        seconds: dict[str, float] = {}
        lines: dict[str, dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
        for part in parts:
            seconds |= part.seconds
            for name, kept in part.lines.items():
                for line, tests in kept.items():
                    lines[name][line] += tests
        return cls(seconds, lines, {})


class Watcher:
    """A plugin that tells the coverage tool which test, or which shared fixture, is running."""

    def __init__(self, coverage: Any) -> None:
        self.coverage = coverage
        self.seconds: dict[str, float] = {}
        self.needs: dict[str, set[str]] = {}
        self.failed: set[str] = set()
        self.current = ""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Around one test."""
        self.current = item.nodeid
        self.needs[item.nodeid] = {f"fixture {name}" for name in getattr(item, "fixturenames", ())}
        self.coverage.switch_context(item.nodeid)
        started = sum(os.times()[:4])  # processor time, children too: the clock would count what else the machine does
        result = yield
        self.seconds[item.nodeid] = sum(os.times()[:4]) - started
        self.coverage.switch_context("")
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Generator[None, Any, Any]:
        """Around a fixture that several tests may share."""
        if fixturedef.scope == "function":
            return (yield)
        self.coverage.switch_context(f"fixture {fixturedef.argname}")
        result = yield
        self.coverage.switch_context(self.current)
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note what did not pass: it can kill nothing."""
        if report.outcome != "passed":
            self.failed.add(report.nodeid)

    def seen(self, root: Path, tests: str) -> Seen:
        """What was seen, with the lines of a shared fixture credited to every test that asks for it."""
        passed = [test for test in self.seconds if test not in self.failed]
        users: dict[str, list[str]] = defaultdict(list)
        for test in passed:
            for context in (test, *self.needs[test]):
                users[context].append(test)
        data = self.coverage.get_data()
        lines: dict[str, dict[int, list[str]]] = {}
        for file in data.measured_files():
            contexts = data.contexts_by_lineno(file)
            kept = {line: sorted({t for c in names for t in users.get(c, ())}) for line, names in contexts.items()}
            lines[Path(file).relative_to(root).as_posix()] = {line: tests for line, tests in kept.items() if tests}
        state = {name: digest([root / name]) for name in (tests, *(name for name, kept in lines.items() if kept))}
        return Seen({test: round(self.seconds[test], 3) for test in passed}, lines, state)


def digest(files: Iterable[Path]) -> str:
    """A hash of the contents."""
    whole = hashlib.sha256()
    for file in files:
        whole.update(hashlib.sha256(file.read_bytes()).digest())
    return whole.hexdigest()


def files(root: Path) -> list[Path]:
    """The files of tests that are looked at."""
    found = [f for name in TESTS for f in ([root / name] if name.endswith(".py") else (root / name).rglob("test_*.py"))]
    return sorted(found)


def watch(root: Path, file: str, result: Path) -> None:
    """Run one file of tests and write down what it ran."""
    import coverage

    tool = coverage.Coverage(data_file=None, source=[str(root / "src" / "lln")], config_file=False)
    watcher = Watcher(tool)
    tool.start()
    pytest.main([*OPTIONS, "-m", "not slow and not gpu", f"--deselect={LEFT_OUT}", file], plugins=[watcher])
    tool.stop()
    sys.settrace(None)
    watcher.seen(root, file).write(result)


def choose(mutant: Mutant, seen: Seen, budget: float) -> list[str]:
    """The tests for one mutant, those that are likely to notice it first; `budget` in seconds.

    Those that run its line come first, then others of their files (they may use what a cached helper once made). Of
    each kind the tests of its own folder go first, of one parametrised test the first case, and the quick ones.
    """
    lines = seen.lines.get(mutant.file, {})
    direct = {test for line in mutant.reached for test in lines.get(line, ())}
    if not direct or mutant.file in ASKED_BY:
        others = seen.lines.get(ASKED_BY.get(mutant.file, mutant.file), {})
        direct |= {test for tests in others.values() for test in tests}
    files = {test.partition("::")[0] for test in direct}
    near = {test for test in seen.seconds if test.partition("::")[0] in files} - direct
    chosen: list[str] = []
    for group, allowed in ((direct, 0.8 * budget), (near, 0.2 * budget)):
        for test in _ordered(group, mutant, seen):
            cost = seen.seconds[test]
            if (cost <= LONG and cost <= allowed) or not chosen:
                chosen.append(test)
                allowed -= cost
    return chosen


def _ordered(tests: set[str], mutant: Mutant, seen: Seen) -> list[str]:
    folder = PurePosixPath(mutant.file).parts[2]
    cases: Counter[str] = Counter()
    keys = {}
    for test in sorted(tests, key=lambda one: (seen.seconds[one], one)):
        name = test.partition("[")[0]
        keys[test] = (
            seen.seconds[test] > LONG,
            not test.startswith(f"tests/{folder}/"),
            cases[name],
            seen.seconds[test],
        )
        cases[name] += 1
    return sorted(tests, key=lambda test: keys[test])
