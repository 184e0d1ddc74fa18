"""A full disk, a folder that cannot be written to, and memory that runs out."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import shutil
import signal
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from validation.faults.forks import Command, Hook, command
from validation.faults.outcome import WRONG, Outcome, aftermath
from validation.faults.works import Bench, Work

WRITERS = ("fit", "simulate npz", "simulate csv", "simulate nc", "export onnx", "study", "simulate zarr", "export c",
           "search", "rollout nc", "simulate npy")  # fmt: skip
NOBODY = 65534


def _mounted(place: Path, options: str) -> bool:
    """Whether a file system in memory could be put at `place`."""
    words = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
    with contextlib.suppress(OSError):
        return os.geteuid() == 0 and subprocess.run(words, capture_output=True, check=False).returncode == 0
    return False


def _unmount(place: Path) -> None:
    # Lazily: a process that is just being ended may still stand in it.
    subprocess.run(["umount", "--lazy", str(place)], capture_output=True, check=True)


def disk_full(bench: Bench, count: int, seed: int) -> Iterator[Outcome]:
    """A disk with room for a part of the work; where none can be mounted, a limit to the size of each file."""
    draw = random.Random(f"{seed} disk")
    for index in range(count):
        work = bench.works[WRITERS[index % len(WRITERS)]]
        older = bool(index // len(WRITERS) % 2) and bool(work.other)
        yield _disk_full(bench, work, older, draw.random())


def _disk_full(bench: Bench, work: Work, older: bool, share: float) -> Outcome:
    place, expected = bench.begin(work, older), bench.expected(work)
    sizes = [path.stat().st_size for path in expected.folder.rglob("*") if path.is_file()]
    disk = bench.folder()
    pages = max(1, int(share * _pages(sizes)))  # and room for what is there already
    pages += _pages(path.stat().st_size for path in place.rglob("*") if path.is_file())
    if _mounted(disk, f"size={4 * pages}k,nr_inodes=1000"):
        try:
            shutil.copytree(place, disk, dirs_exist_ok=True)
            ended = command(work.words, disk, work.before)
            shutil.rmtree(place)
            shutil.copytree(disk, place, symlinks=True)
        finally:
            _unmount(disk)
    else:
        most = max(1, int(share * max(sizes)))
        ended = command(work.words, place, _limited(work.before, resource.RLIMIT_FSIZE, most))
    return _told(aftermath(bench, "disk full", work, place, ended, older), ended)


def _pages(sizes: Iterable[int]) -> int:
    return sum(-(-size // 4096) for size in sizes)


def _limited(before: Hook | None, which: int, most: int) -> Hook:
    def install() -> None:
        if before is not None:
            before()
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(which, (most, most))

    return install


def _told(outcome: Outcome, ended: object) -> Outcome:
    """A command that did not finish must have said why, in its last line."""
    code, said = getattr(ended, "code", 0), getattr(ended, "said", "")
    if code not in (0, 1, 2) or (code and not said.startswith("lln: ") and "runs crashed" not in said):
        outcome.findings.append(f"{WRONG}: it did not say in a sentence why it failed ({code}): {ended}"[:1500])
    return outcome


def read_only(bench: Bench, count: int, seed: int) -> Iterator[Outcome]:
    """A folder that cannot be written to: mounted so, or another user's."""
    for index in range(count):
        work = bench.works[WRITERS[(index + seed) % len(WRITERS)]]
        older = bool(index // len(WRITERS) % 2) and bool(work.other)
        place, disk = bench.begin(work, older), bench.folder()
        with _closed(place, disk) as (closed, before):
            ended = command(work.words, closed, _hooks(work.before, before))
        outcome = _told(aftermath(bench, "read-only", work, place, ended, older), ended)
        if ended.code == 0:
            outcome.findings.append(f"{WRONG}: a folder that cannot be written to was written to")
        yield outcome


@contextmanager
def _closed(place: Path, disk: Path) -> Iterator[tuple[Path, Hook | None]]:
    """The content of `place` in a folder that a command cannot write to, and how to start the command there."""
    if _mounted(disk, "size=16m"):
        shutil.copytree(place, disk, dirs_exist_ok=True)
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], capture_output=True, check=True)
        try:
            yield disk, None
        finally:
            _unmount(disk)
        return
    place.chmod(0o555)
    try:
        yield place, (lambda: os.setuid(NOBODY)) if os.geteuid() == 0 else None
    finally:
        place.chmod(0o755)


def _hooks(*hooks: Hook | None) -> Hook:
    def install() -> None:
        for hook in hooks:
            if hook is not None:
                hook()

    return install


def memory(bench: Bench, count: int, seed: int) -> Iterator[Outcome]:
    """A hard limit to memory, from hardly any more than the program has to what is nearly enough."""
    draw = random.Random(f"{seed} memory")
    names = ("simulate long", "fit", "export onnx", "export c", "simulate nc", "study", "search", "simulate zarr")
    for index in range(count):
        work = bench.works[names[index % len(names)]]
        place = bench.begin(work, False)
        spare = int(2 ** (20 + 5 * draw.random()))  # 1 to 32 MB: from less than a command needs to nearly enough
        ended = Command(work.words, place, _hooks(work.before, lambda spare=spare: _use_up(spare))).end()
        yield _told(aftermath(bench, "out of memory", work, place, ended, False), ended)


_held: list[bytearray] = []


def _use_up(spare: int) -> None:
    """Forbid more memory and take what the process has and does not use, but for `spare` bytes."""
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    given = bytearray(spare)
    resource.setrlimit(resource.RLIMIT_AS, (size + spare, size + spare))
    for block in (1 << 20, 1 << 16, 1 << 12, 1 << 10):
        with contextlib.suppress(MemoryError):
            while True:
                _held.append(bytearray(block))
    del given
