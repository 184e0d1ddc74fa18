"""The entry point of `lln`. One Ctrl-C ends a command in order, a second one at once, and neither prints a traceback.

Each command imports what it needs inside its function, so that help is instant.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

INTERRUPTED = 130  # exit code
_NO_MEMORY = b"lln: out of memory; close other programs, use less data or smaller sizes, or use a larger machine\n"
_LEAST = 4 << 20  # bytes: with less, the library that parses the command line aborts the process
_AGAIN = 0.02  # seconds after which a lost interrupt is sent again


def command() -> None:
    """Run the command as the whole of a process."""
    main(last=True)


def main(*, last: bool = False) -> None:
    """Run the command. Ctrl-C or a lack of memory while it is loaded ends it in the same way as later.

    Args:
        last: whether the process ends after it.
    """
    try:
        with second_interrupt_leaves(last=last):
            from lln.core.errors import ask_for_memory, failure

            try:
                from lln.cli.app import main as run

                ask_for_memory(_LEAST)
            except Exception as error:
                sentence = failure(error)
                if sentence is None:
                    raise
                fail(f"lln: {sentence}\n".encode(errors="replace"), last=last)
            run(last=last)
    except (MemoryError, SystemError) as error:
        # "error return without exception set": no memory was left for the exception
        if isinstance(error, SystemError) and "without" not in str(error):
            raise
        fail(_NO_MEMORY, last=last)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def fail(sentence: bytes, *, last: bool) -> NoReturn:
    """Write a sentence and end with exit code 1. Both work if no memory is left, when Python's own functions may fail.

    If the process ends after it, not even SystemExit is raised; what was open is closed already.
    """
    os.write(2, sentence)
    if last:
        os._exit(1)
    sys.exit(1)


@contextmanager
def second_interrupt_leaves(*, last: bool = False) -> Iterator[None]:
    """Let a second Ctrl-C end the command at once, even while the first one still cleans up.

    That is as safe as a kill, because incomplete files are never accepted. If Python cannot raise the first interrupt,
    as in a callback of a library, it is sent again a moment later.

    Args:
        last: whether the process ends after it; then nothing is left to clean up, and an interrupt ends it at once.
    """
    usual, unraisable = signal.default_int_handler, sys.unraisablehook
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) is not usual:
        yield
        return
    before, over = 0, False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal before
        before += 1
        if over:
            os._exit(INTERRUPTED)
        if before > 1:
            os.write(2, b"lln: interrupted again, so it leaves at once\n")
            os._exit(INTERRUPTED)
        usual(number, frame)

    def again(lost: sys.UnraisableHookArgs) -> None:
        nonlocal before
        if not isinstance(lost.exc_value, KeyboardInterrupt):
            unraisable(lost)
            return
        before = 0
        later = threading.Timer(_AGAIN, os.kill, (os.getpid(), signal.SIGINT))
        later.daemon = True
        later.start()

    signal.signal(signal.SIGINT, interrupt)
    sys.unraisablehook = again
    try:
        yield
    finally:
        over = last
        if not (before or last):  # else a second one may still come while the interpreter cleans up
            signal.signal(signal.SIGINT, usual)
            sys.unraisablehook = unraisable


__all__ = ["command", "main"]
