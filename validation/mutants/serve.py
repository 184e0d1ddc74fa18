"""Runs tests in forked children of a process that has imported everything but the code under test."""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import resource
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

LIBRARIES = (
    "numpy", "scipy.linalg", "scipy.signal", "scipy.spatial", "scipy.interpolate", "scipy.stats", "torch",
    "torch._dynamo", "torch.func", "pandas", "xarray", "h5py", "h5netcdf", "zarr", "sklearn.base", "sklearn.neighbors",
    "llvmlite.binding", "pydantic", "safetensors.torch", "hypothesis",
    "hypothesis.strategies", "_hypothesis_pytestplugin",
)  # fmt: skip
# A library that was loaded before pytest can no longer be rewritten by it, which is no error here.
OPTIONS = (
    *("-q", "-p", "no:cacheprovider", "-p", "_hypothesis_pytestplugin", "--hypothesis-seed=0"),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),
)
MEMORY = 16 << 30  # bytes of address space; a mutant that asks for more is found out
IDLE = 90.0  # seconds without any processor time after which a child hangs
LATE = "it did not end in time"


def warm() -> None:
    """Import what tests and code import anyway; what is missing is theirs to report."""
    for name in LIBRARIES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()  # else every child walks through all of it again and again
    loaded = [name for name in sys.modules if name.partition(".")[0] == "lln"]
    assert not loaded, f"the code under test is loaded already: {loaded}"


@dataclass(frozen=True)
class Verdict:
    """What a child came to.

    Attributes:
        status: "killed" or "survived".
        by: the test that failed, or how else it ended.
        seconds: wall clock.
    """

    status: str
    by: str
    seconds: float


class _Failures:
    """A plugin that keeps what failed."""

    def __init__(self) -> None:
        self.failed: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.failed.append(f"{report.nodeid} (cannot be imported)")


class _Chosen:
    """A plugin that runs some tests of their files; `wanted` keeps those that are not there."""

    def __init__(self, wanted: set[str]) -> None:
        self.wanted = wanted

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if item.nodeid in self.wanted]
        self.wanted -= {item.nodeid for item in items}


def ticks(session: int) -> int:
    """Processor time that the processes of a session have used so far, in the system's ticks."""
    total = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[3]) == session:
                total += int(fields[11]) + int(fields[12])
    return total


class Server:
    """A private copy of the tree, and children that run its tests.

    Args:
        tree: the copy, with `src` and `tests`.
        work: a folder for logs and for what the children write.
    """

    def __init__(self, tree: Path, work: Path) -> None:
        self.tree, self.work = tree, work
        self.cache = work / "cache"  # compiled kernels, as the unchanged code makes them
        self.cache.mkdir(exist_ok=True, mode=0o700)

    @contextlib.contextmanager
    def changed(self, file: str, content: bytes) -> Iterator[None]:
        """The tree with one file replaced, and without what was compiled from it."""
        path = self.tree / file
        original, times = path.read_bytes(), path.stat()
        compiled = list((path.parent / "__pycache__").glob(f"{path.stem}.cpython-*.pyc"))
        kept = {one: one.read_bytes() for one in compiled}
        for one in compiled:
            one.unlink()
        path.write_bytes(content)
        try:
            yield
        finally:
            path.write_bytes(original)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
            for one, code in kept.items():
                one.write_bytes(code)

    def test(self, tests: Sequence[str], limit: float) -> Verdict:
        """Whether the tests pass, up to the first that does not."""
        answer = self.work / "answer"
        answer.unlink(missing_ok=True)

        def body() -> None:
            failures = _Failures()
            code = int(pytest.main([*OPTIONS, "-x", "--tb=short", *tests], plugins=[failures]))
            answer.write_text(json.dumps([code, failures.failed]))

        seconds, ended = self.child(body, limit)
        if ended:
            return Verdict("killed", ended, seconds)
        code, failed = json.loads(answer.read_text())
        if code == 0:
            return Verdict("survived", "", seconds)
        return Verdict("killed", failed[0] if failed else f"the tests could not start (pytest's code {code})", seconds)

    def prepare(self, files: Sequence[str]) -> None:
        """Compile the tests once; no child after this one writes bytecode."""
        self.child(lambda: pytest.main([*OPTIONS, "--collect-only", *files]), 600, keep=True)

    def failing(self, tests: Sequence[str]) -> set[str]:
        """Which of these tests fail as the tree is, or are no longer there."""
        answer = self.work / "answer"
        answer.unlink(missing_ok=True)

        def body() -> None:
            failures, chosen = _Failures(), _Chosen(set(tests))
            pytest.main([*OPTIONS, *sorted({test.partition("::")[0] for test in tests})], plugins=[failures, chosen])
            answer.write_text(json.dumps([*failures.failed, *chosen.wanted]))

        _, ended = self.child(body, 3600)
        if ended:
            raise RuntimeError(f"the tests did not run through as the tree is: {ended}; see {self.work / 'log'}")
        return set(json.loads(answer.read_text())) if tests else set()

    def child(self, body: Callable[[], Any], limit: float, *, keep: bool = False) -> tuple[float, str]:
        """Run `body` in a child inside the tree: its seconds, and how it ended if not well.

        Args:
            body: what to run.
            limit: seconds of processor time; ten times as many on the clock.
            keep: whether bytecode and kernels that it compiles stay for the children after it.
        """
        scratch = self.work / "scratch"
        shutil.rmtree(scratch, ignore_errors=True)
        (scratch / "tmp").mkdir(parents=True)
        if not keep:
            shutil.copytree(self.cache, scratch / "cache", copy_function=os.link)
        started = time.monotonic()
        child = os.fork()
        if child == 0:
            try:
                os.setsid()
                self._settle(scratch, self.cache if keep else scratch / "cache", limit, keep)
                body()
                code = 0
            except BaseException:
                import traceback

                traceback.print_exc()
                code = 99
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        try:
            return self._awaited(child, started, limit)
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            raise

    def _awaited(self, child: int, started: float, limit: float) -> tuple[float, str]:
        """Wait for a child. One that hangs uses no processor time; one that waits for its turn uses a little."""
        ended, used, moved, look = "", 0, started, started
        while True:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                break
            now = time.monotonic()
            if now >= look:
                look, before, used = now + 5, used, ticks(child)
                moved = now if used != before else moved
            if now - moved > IDLE or now - started > 10 * limit:
                ended = LATE
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child, signal.SIGKILL)
                _, status = os.waitpid(child, 0)
                break
            time.sleep(0.02)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)  # what its tests started and left behind
        if not ended and os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            late = number in (signal.SIGXCPU, signal.SIGKILL)
            ended = LATE if late else f"the interpreter died of {signal.Signals(number).name}"
        elif not ended and os.WEXITSTATUS(status):
            ended = f"the interpreter ended with {os.WEXITSTATUS(status)}"
        return time.monotonic() - started, ended

    def _settle(self, scratch: Path, cache: Path, limit: float, keep: bool) -> None:
        """Make this child a fresh interpreter of the tree."""
        log = os.open(self.work / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.chdir(self.tree)
        source = str(self.tree / "src")
        sys.path.insert(0, source)
        sys.argv = ["pytest"]
        sys.dont_write_bytecode = not keep
        os.environ |= {
            "PYTHONPATH": source,
            "XDG_CACHE_HOME": str(cache),
            "TMPDIR": str(scratch / "tmp"),
            "HYPOTHESIS_STORAGE_DIRECTORY": str(scratch / "hypothesis"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # others cost a second of every child
        }
        import tempfile

        tempfile.tempdir = None
        signal.signal(signal.SIGINT, signal.default_int_handler)
        soft = int(limit) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (soft, soft + 5))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.RLIM_INFINITY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
