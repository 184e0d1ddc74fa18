"""The `lln` command. Each command imports what it needs inside its function, so that help is instant."""

import sys

from lln.cli.interrupts import INTERRUPTED, second_interrupt_leaves


def main() -> None:
    """Run the command. Ctrl-C or a lack of memory while it is loaded ends it in the same way as later."""
    try:
        with second_interrupt_leaves():
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


__all__ = ["main"]
