"""Commands as forks of a process that has imported everything: a fault then costs what the work costs, and no more."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

LIMIT = 300.0  # seconds after which a command counts as hung
Hook = Callable[[], None]


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit code, negative for a signal, and all that it printed."""

    code: int
    text: str
    seconds: float

    @property
    def trace(self) -> bool:
        """Whether the user saw the inside of the program."""
        return "Traceback (most recent call last)" in self.text or "Exception ignored" in self.text

    @property
    def said(self) -> str:
        """The last line, which says what went wrong."""
        lines = [line for line in self.text.splitlines() if line.strip() and not line.startswith("more: ")]
        return lines[-1] if lines else ""


class Command:
    """`lln` with these words, at work in `folder`, in a process group of its own.

    Args:
        words: of the command line.
        folder: to work in.
        before: called in the fork before the command, to set a limit or a trap.
        run: what to call in place of the command.
    """

    def __init__(
        self, words: tuple[str, ...], folder: Path, before: Hook | None = None, run: Hook | None = None
    ) -> None:
        self.began = time.monotonic()
        self.log = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `wait`
        sys.stdout.flush()
        sys.stderr.flush()
        self.process = os.fork()
        if self.process == 0:
            _work(words, folder, self.log.fileno(), before, run)
        with contextlib.suppress(OSError):
            os.setpgid(self.process, self.process)
        self._status: int | None = None

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the command and all its processes, as a terminal does."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process, number)

    @property
    def over(self) -> bool:
        """Whether the command has ended."""
        if self._status is None:
            done, status = os.waitpid(self.process, os.WNOHANG)
            self._status = status if done else None
        return self._status is not None

    def wait(self, limit: float = LIMIT, until: Callable[[], bool] = lambda: False) -> bool:
        """Wait for the end or for a condition; returns whether the command has ended."""
        deadline = time.monotonic() + limit
        while not self.over and not until() and time.monotonic() < deadline:
            time.sleep(0.005)
        return self.over

    def end(self) -> Ended:
        """How it ended; one that hangs is killed, and says so."""
        hung = not self.wait()
        self.send(signal.SIGKILL)  # also what it left running
        if hung:
            os.waitpid(self.process, 0)
        self.log.seek(0)
        text = self.log.read().decode(errors="replace") + ("Traceback (most recent call last): hung" if hung else "")
        self.log.close()
        code = -9 if self._status is None else os.waitstatus_to_exitcode(self._status)
        return Ended(code, text, time.monotonic() - self.began)


def command(words: tuple[str, ...], folder: Path, before: Hook | None = None) -> Ended:
    """Run a command to its end."""
    return Command(words, folder, before).end()


def ask(question: Callable[..., Any], *arguments: Any) -> Any:
    """The answer, as JSON has it, of a function, called in a fork so that this process stays as it was."""
    with tempfile.TemporaryDirectory() as place:
        answer = Path(place) / "answer"

        def run() -> None:
            answer.write_text(json.dumps(question(*arguments)))

        ended = Command((), Path(place), run=run).end()
        if not answer.exists():
            raise RuntimeError(f"a question of the harness itself failed: {ended.text}")
        return json.loads(answer.read_text())


def _work(words: tuple[str, ...], folder: Path, log: int, before: Hook | None, run: Hook | None) -> NoReturn:
    code = 1
    try:
        os.setpgid(0, 0)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.chdir(folder)
        sys.argv = ["lln", *words]
        if before is not None:
            before()
        code = _call(run)
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _call(run: Hook | None) -> int:
    """What the interpreter makes of the command's end."""
    from lln.cli import command

    try:
        (run or command)()
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def on_file_events(action: Callable[[int], None]) -> Hook:
    """A trap: `action`, with a count, just before the command opens for writing, moves or removes a file of its own."""

    def install() -> None:
        count, here = 0, Path.cwd()

        def listen(event: str, arguments: tuple[Any, ...]) -> None:
            nonlocal count
            if _writes(event, arguments) and here in (here / arguments[0]).parents:
                count += 1
                action(count)

        sys.addaudithook(listen)

    return install


def kill_at(number: int, sign: signal.Signals = signal.SIGKILL) -> Hook:
    """A trap: the command gets a signal just before its n-th touch of a file."""
    return on_file_events(lambda count: os.kill(os.getpid(), sign) if count == number else None)


def file_events(words: tuple[str, ...], folder: Path) -> int:
    """How many such moments a command has when nothing goes wrong."""
    with tempfile.NamedTemporaryFile() as tally:

        def write(_: int) -> None:
            os.write(handle, b".")

        handle = os.open(tally.name, os.O_WRONLY | os.O_APPEND)
        command(words, folder, on_file_events(write))
        os.close(handle)
        return Path(tally.name).stat().st_size


def _writes(event: str, arguments: tuple[Any, ...]) -> bool:
    if not arguments or not isinstance(arguments[0], (str, os.PathLike)):
        return False
    if event == "open":
        return bool(arguments[2] & (os.O_WRONLY | os.O_RDWR))
    return event in ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "shutil.rmtree")
