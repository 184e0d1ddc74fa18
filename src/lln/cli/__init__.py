"""The `lln` command. Each command imports what it needs inside its function, so that help is instant."""

from lln.cli.app import main

__all__ = ["main"]
