"""The `lln` command. Each command imports what it needs inside its function, so that help is instant."""

import sys

from lln.cli.interrupts import INTERRUPTED, second_interrupt_leaves


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
            from lln.core.errors import failure

            try:
                from lln.cli.app import main as run
            except Exception as error:
                sentence = failure(error)
                if sentence is None:
                    raise
                sys.exit(f"lln: {sentence}")
            run()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


__all__ = ["command", "main"]
