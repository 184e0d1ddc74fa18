"""What a reader may do to the machine, and what its answer must be like."""

from __future__ import annotations

import contextlib
import importlib
import os
import resource
import signal
import sys
import sysconfig
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lln.core.errors import InputError

MEMORY = 768 << 20  # bytes that reading one of these small files may take beyond what the libraries take
STARTS = ("os.system", "os.exec", "os.posix_spawn", "os.fork", "subprocess.Popen")
RUNS_CODE = (*STARTS, "pickle.find_class", "os.startfile", "socket.connect", "webbrowser.open")
WRITES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.symlink", "os.link", "os.truncate", "shutil.rmtree")
# Names that the standard library gives to code that it makes for its own classes (dataclasses, named tuples).
GENERATED = ("<string>", "<attrs generated>")
LONGEST = 2010  # characters of a sentence for people
LIBRARIES = tuple(str(Path(sysconfig.get_path(name)).resolve()) for name in ("stdlib", "purelib", "platlib"))
REPOSITORY = str(Path(__file__).resolve().parents[2])


class CodeRunError(BaseException):
    """A reader was about to run what it had been given; not an Exception, so that no reader can swallow it."""


class WorkBegins(BaseException):
    """A command has read all its words and would start the work that they ask for."""


@dataclass
class Watch:
    """What happens while a case is read."""

    listening: bool = False
    active: bool = False
    past: bool = False
    ran: str = ""
    folder: str = "/nowhere"
    spawns: bool = False

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Python's own report of what it is about to do."""
        if not self.active:
            return
        if event in RUNS_CODE and not (self.spawns and event in STARTS):
            self._refuse(f"{event} {arguments!r:.200}")
        elif event == "exec":
            file = str(getattr(arguments[0], "co_filename", ""))
            if not file.startswith((*LIBRARIES, REPOSITORY, "<frozen")) and file not in GENERATED:
                self._refuse(f"exec of code from {file!r}")
        elif event in WRITES or (event == "open" and _writing(arguments)):
            place = os.path.normpath(Path.cwd() / arguments[0]) if isinstance(arguments[0], (str, os.PathLike)) else ""
            if place and not place.startswith((self.folder, "/dev/null")):
                raise PermissionError(13, "outside of what a case may write to", place)

    def _refuse(self, what: str) -> None:
        self.ran = what
        raise CodeRunError(what)


WATCH = Watch()


def _writing(arguments: tuple[Any, ...]) -> bool:
    mode, flags = arguments[1], arguments[2]
    if isinstance(mode, str):
        return any(letter in mode for letter in "wax+")
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


@dataclass(frozen=True)
class Verdict:
    """How one case ended.

    Attributes:
        kind: "accepted", "refused" or "finding".
        past: whether it got past the header.
        text: what was found, with its traceback.
    """

    kind: str
    past: bool
    text: str = ""


def judge(read: Callable[[Path], Any], path: Path, seconds: float) -> Verdict:
    """Read one case under every limit. A hang ends this process by SIGALRM, which its parent takes for what it is."""
    WATCH.past, WATCH.ran = False, ""
    signal.setitimer(signal.ITIMER_REAL, seconds)
    WATCH.active = True
    try:
        read(path)
        kind, text = "accepted", ""
    except WorkBegins:
        kind, text = "accepted", ""
    except InputError as error:
        text = _unfit(error)
        kind = "finding" if text else "refused"
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        kind, text = "finding", f"{type(error).__name__}: {error}\n{traceback.format_exc(limit=-12)}"
    finally:
        WATCH.active = False
        signal.setitimer(signal.ITIMER_REAL, 0)
    if WATCH.ran:
        kind, text = "finding", f"code was run: {WATCH.ran}"
    return Verdict(kind, WATCH.past or kind == "accepted", text)


def _unfit(error: InputError) -> str:
    """What is wrong with a refusal; nothing if it is as it should be."""
    message = str(error)
    if not message.strip() or len(message.splitlines()) != 1 or len(message) > LONGEST:
        return f"a refusal that is not one line: {message[:300]!r}\n{traceback.format_exc(limit=-6)}"
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, MemoryError) or "can't allocate memory" in str(cause):
            return f"memory was asked for before it was refused\n{traceback.format_exc()}"
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return ""


def limited(memory: int = MEMORY) -> None:
    """From now on this process may take so much more address space, and hears what Python is about to do."""
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + memory
    resource.setrlimit(resource.RLIMIT_AS, (most, resource.getrlimit(resource.RLIMIT_AS)[1]))
    if not WATCH.listening:
        sys.addaudithook(WATCH.hear)
        WATCH.listening = True


@contextlib.contextmanager
def marked(places: tuple[str, ...]) -> Iterator[None]:
    """Have `WATCH.past` set when one of these functions ("module:name" or "module:class.name") is called."""
    undo = []
    for place in places:
        module, _, name = place.partition(":")
        owner: Any = importlib.import_module(module)
        *outer, last = name.split(".")
        for part in outer:
            owner = getattr(owner, part)
        kept = owner.__dict__.get(last, getattr(owner, last))
        setattr(owner, last, _marking(kept))
        undo.append((owner, last, kept))
    try:
        yield
    finally:
        for owner, last, kept in undo:
            setattr(owner, last, kept)


def _marking(kept: Any) -> Any:
    inner = kept.__func__ if isinstance(kept, (classmethod, staticmethod)) else kept

    def call(*arguments: Any, **options: Any) -> Any:
        WATCH.past = True
        return inner(*arguments, **options)

    return type(kept)(call) if isinstance(kept, (classmethod, staticmethod)) else call
