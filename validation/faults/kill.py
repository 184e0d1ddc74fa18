"""kill -9 at random moments, before a touch of a file and in the middle of a write; Ctrl-C once and twice."""

from __future__ import annotations

import os
import random
import resource
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

from validation.faults.forks import Command, Hook, file_events, kill_at
from validation.faults.outcome import LOST, Outcome, aftermath
from validation.faults.works import Bench, Work, ways

ATTEMPTS = 5  # to hit a command that is done before the fault comes
WORKS = ("fit", "search", "study", "export", "conversion")
PARTS = {
    "export": ("export onnx", "export c"),
    "conversion": ("simulate npz", "simulate npy", "simulate csv", "simulate nc", "simulate h5", "simulate zarr",
                   "rollout npz", "rollout csv", "rollout nc"),
}  # fmt: skip


def killed(bench: Bench, count: int, seed: int) -> Iterator[Outcome]:
    """`count` kills of each of the five kinds of work."""
    for group in WORKS:
        draw = random.Random(f"{seed} kill {group}")
        names = PARTS.get(group, (group,))
        for index in range(count):
            work = bench.works[names[index % len(names)]]
            yield _kill(bench, work, index // len(names), draw)


def _kill(bench: Bench, work: Work, turn: int, draw: random.Random) -> Outcome:
    older = bool(turn % 2) and bool(work.other)
    place, expected = bench.begin(work, older), bench.expected(work)
    manner = ("moment", "file", "write")[turn % 3]
    if manner == "write" and work.name in ("search", "study"):
        manner = "moment"  # their files grow by pieces; a limit would not be a kill
    before: Hook | None = work.before
    if manner == "file":
        before = _both(work.before, kill_at(draw.randint(1, max(1, _events(bench, work)))))
    elif manner == "write":
        before = _both(work.before, _killed_in_writing(draw.random()))
    for attempt in range(ATTEMPTS):
        running = Command(work.words, place, before)
        if manner == "moment":
            running.wait(draw.random() * expected.seconds / 2**attempt)
            running.send(signal.SIGKILL)
        ended = running.end()
        if ended.code or attempt == ATTEMPTS - 1:
            break
        place = bench.begin(work, older)  # it came too late and was none
        before = _both(work.before, kill_at(1)) if manner == "write" else before
    return aftermath(bench, f"kill -9: {_group(work)}", work, place, ended, older)


def interrupted(bench: Bench, count: int, seed: int) -> Iterator[Outcome]:
    """Ctrl-C at a random moment or before a touch of a file."""
    yield from _interrupted(bench, count, seed, "Ctrl-C", twice=False)


def interrupted_twice(bench: Bench, count: int, seed: int) -> Iterator[Outcome]:
    """Ctrl-C, and again while the first is being dealt with."""
    yield from _interrupted(bench, count, seed, "Ctrl-C twice", twice=True)


def _interrupted(bench: Bench, count: int, seed: int, kind: str, twice: bool) -> Iterator[Outcome]:
    draw = random.Random(f"{seed} {kind}")
    names = ("fit", "study", "simulate csv", "search", "export c", "simulate nc", "export onnx", "rollout npz",
             "simulate zarr")  # fmt: skip
    for index in range(count):
        work = bench.works[names[index % len(names)]]
        older = bool(index // len(names) % 2) and bool(work.other)
        place, expected = bench.begin(work, older), bench.expected(work)
        at_file = index % 3 == 2 and work.name != "search"
        trap = kill_at(draw.randint(1, max(1, _events(bench, work))), signal.SIGINT) if at_file else None
        for attempt in range(ATTEMPTS):
            running = Command(work.words, place, _both(work.before, trap))
            # Not while the fork is still on its way to the command: a shell would not have it either.
            running.wait(0.1 + draw.random() * max(0.0, expected.seconds - 0.1) / 2**attempt)
            if not at_file:
                running.send(signal.SIGINT)
            if twice:
                running.wait(draw.random() * 0.03)
                running.send(signal.SIGINT)
            ended = running.end()
            if ended.code or attempt == ATTEMPTS - 1:
                break
            place = bench.begin(work, older)  # it came too late and was none
        outcome = aftermath(bench, kind, work, place, ended, older)
        if ended.code not in (0, 130) and not outcome.findings:
            outcome.findings.append(f"{LOST}: an interrupt ended as {ways(ended)}: {ended.text[-500:]}")
        yield outcome


def _group(work: Work) -> str:
    return next((group for group, names in PARTS.items() if work.name in names), work.name)


_known_events: dict[str, int] = {}


def _events(bench: Bench, work: Work) -> int:
    """How often the work touches files in its folder."""
    if work.name not in _known_events:
        _known_events[work.name] = file_events(work.words, bench.folder())
    return _known_events[work.name]


def _both(*hooks: Hook | None) -> Hook:
    def install() -> None:
        for hook in hooks:
            if hook is not None:
                hook()

    return install


def _killed_in_writing(share: float) -> Hook:
    """The system kills the process when a file grows beyond a limit: in the middle of a write."""

    def install() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        most = int(64 * 1024**share)
        # The machine code of kernels and such is not what is to be cut.
        os.environ["XDG_CACHE_HOME"] = str(Path(tempfile.gettempdir()) / "none" / "such")
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    return install
