"""`lln explain`: what an error means and how to fix it, from the page on errors that every installation carries."""

from __future__ import annotations

import re
import shutil
import textwrap
from importlib.resources import files
from typing import Annotated, NamedTuple

import typer

_SECTION = re.compile(r"^\((?P<topic>[\w-]+)\)=\n## (?P<title>.+)\n(?P<body>(?:(?!^\([\w-]+\)=$).*\n?)*)", re.MULTILINE)
_BLOCK = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\[([^\]]+)\]\(([^)]+)\)")
_EMPHASIS = re.compile(r"(?<![\w`*])\*(\w[^*`]*)\*(?!\w)")
_WIDEST = 100


class Topic(NamedTuple):
    """One part of the page: its heading, and its text as paragraphs without the examples."""

    title: str
    paragraphs: tuple[str, ...]


def topics() -> dict[str, Topic]:
    """Every part of the page on errors, by its name."""
    page = files("lln.cli").joinpath("errors.md").read_text(encoding="utf-8")
    found = {}
    for part in _SECTION.finditer(page):
        prose = _EMPHASIS.sub(r"\1", _LINK.sub(r"\1 (\2)", _BLOCK.sub("", part["body"])))
        paragraphs = [" ".join(one.split()) for one in re.split(r"\n\s*\n", prose)]
        found[part["topic"]] = Topic(part["title"], tuple(filter(None, paragraphs)))
    return found


def _complete(typed: str) -> list[str]:
    return [name for name in topics() if name.startswith(typed)]


def explain(
    topic: Annotated[
        str | None, typer.Argument(help="The name behind an error; all of them if left out.", autocompletion=_complete)
    ] = None,
) -> None:
    """Explain what an error means and how to fix it.

    Errors end in a line such as "more: lln explain transposed". The same text, with an example of each, is the
    documentation's page on errors.
    """
    from lln.cli.console import facts
    from lln.core.errors import choice

    known = topics()
    if topic is None:
        typer.echo("lln explain NAME says more about an error that holds these words:")
        facts({name: one.title for name, one in known.items()})
        return
    said = known[choice("topic", topic.lower(), known)]
    width = min(_WIDEST, shutil.get_terminal_size().columns)
    typer.echo(
        "\n\n".join(
            [
                said.title,
                *(textwrap.fill(one, width, break_long_words=False, break_on_hyphens=False) for one in said.paragraphs),
            ]
        )
    )
