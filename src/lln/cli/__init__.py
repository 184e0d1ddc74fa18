"""The `lln` command. Each command imports what it needs inside its function, so that help is instant."""

import sys


def main() -> None:
    """Run the command. Ctrl-C while it is being loaded ends it as quietly as later on."""
    try:
        from lln.cli.app import main as run
    except KeyboardInterrupt:
        sys.exit(130)
    run()


__all__ = ["main"]
