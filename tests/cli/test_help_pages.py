"""Every rendered help page, read at two widths as a person would."""

import re

import pytest
import typer
from typer.testing import CliRunner

from lln.cli.app import COMMANDS, app

COMMAND = typer.main.get_command(app)
NAMES = sorted(COMMAND.commands)


def words(text):
    """The words of a page without its frames, so that a sentence over several lines of a cell is one sentence."""
    return " ".join(re.sub(r"[│╭╮╰╯─]", " ", text).split())


def page(name, columns):
    done = CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": str(columns), "TERM": "dumb", "NO_COLOR": "1"})
    assert done.exit_code == 0
    return done.stdout


def cells(text):
    """The last column of every table: its lines joined, one text for each option."""
    found = []
    for line in text.splitlines():
        inner = line.strip("│").rstrip() if line.startswith("│") else ""
        begins = re.match(r"\s*\*?\s*(--?\w|\w[\w-]*(\.\.\.)?\s{2,})", inner)
        if begins:
            found.append("")
        if found:
            found[-1] += " " + inner
    return [" ".join(one.split()) for one in found]


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("name", NAMES)
def test_every_help_text_and_default_can_be_read(name, columns):
    text = page(name, columns)
    assert max(map(len, text.splitlines())) <= columns
    assert "…" not in text
    assert not re.search(r"<\w", text), "a name of a Python type"
    shown = words(text)
    for paragraph in filter(None, (COMMAND.commands[name].help or "").split("\n\n")):
        assert " ".join(paragraph.split()) in shown
    entries = cells(text)
    for parameter in COMMAND.commands[name].params:
        if getattr(parameter, "hidden", False):
            assert not re.search(rf"{parameter.opts[-1]}\b", text)
            continue
        said = (getattr(parameter, "help", None) or "").split()
        long = parameter.opts[-1]
        entry = next(one for one in entries if one.removeprefix("* ").split()[0].rstrip(".") in parameter.opts)
        missing = [word for word in said if word not in entry.split()]
        assert not missing, (long, missing, entry)
        if isinstance(parameter.show_default, str):
            assert f"[default: {parameter.show_default}]" in entry, entry


def test_no_help_text_holds_markup():
    for command in COMMANDS:
        for parameter in COMMAND.commands[command.function.__name__].params:
            assert "[" not in (getattr(parameter, "help", None) or ""), (command.function.__name__, parameter.name)


def test_the_front_page_lists_every_command():
    done = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "80", "TERM": "dumb"})
    assert {name for name in NAMES if re.search(rf"│ {name} ", done.stdout)} == set(NAMES)
