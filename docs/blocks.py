"""The code blocks of a page, run from top to bottom as a reader would: the tests do it, and so can you.

Blocks of ``python`` share their names; blocks of ``bash`` run a line at a time in the same folder, those marked
``bash fails`` end in an error; a block of ``text`` is what the block above it printed, a block of ``text example`` what
it may print, of which only the first line is sure. Blocks of ``sh`` are for other machines or take long: their words
are held against the command's own options and the Makefile's targets. To put what a page prints now into its blocks of
text: ``python docs/blocks.py docs/tour.md``.
"""

import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

FENCE = re.compile(r"^```(?P<kind>\w+)(?: (?P<mark>\w+))?\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE)
NUMBER = re.compile(r"[-+]?\d[\d,]*(\.\d+)?(e[-+]?\d+)?%?|\bnan\b", re.IGNORECASE)
RUN, OUTPUT = ("python", "bash"), "text"


class Block(NamedTuple):
    """One fenced block: its language, its mark, its text, and where its text begins in the page."""

    kind: str
    mark: str
    code: str
    at: int


class MissingToolError(Exception):
    """A page needs a program that this machine has not got."""


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a page."""
    return [Block(m["kind"], m["mark"] or "", m["code"], m.start("code")) for m in FENCE.finditer(text)]


def commands(code: str) -> Iterator[str]:
    """The commands of a shell block, with continued lines joined and comments left out."""
    for line in code.replace("\\\n", " ").splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            yield line.strip()


def outputs(page: Path) -> Iterator[tuple[Block, str]]:
    """Run the page in the present folder; yields each block that was run and what it printed."""
    names: dict[str, Any] = {"__name__": "__page__"}
    for block in blocks(page.read_text(encoding="utf-8")):
        if block.kind not in RUN:
            continue
        said = io.StringIO()
        try:
            with redirect_stdout(said), redirect_stderr(said):
                if block.kind == "python":
                    exec(compile(block.code, f"{page.name}", "exec"), names)
                else:
                    _shell(block, said)
        except MissingToolError:
            raise
        except (Exception, SystemExit) as error:
            raise AssertionError(
                f"{page.name}: this block failed ({error!r})\n{block.code}\n{said.getvalue()}"
            ) from error
        yield block, said.getvalue()


def _shell(block: Block, said: io.StringIO) -> None:
    lines = list(commands(block.code))
    for index, line in enumerate(lines):
        code = _lln(line) if line.startswith("lln ") and not re.search(r"[|&;<>$*]", line) else _bash(line, said)
        expected = block.mark == "fails" and index == len(lines) - 1
        if (code != 0) != expected:
            raise AssertionError(f"exit code {code} of: {line}")


def _lln(line: str) -> int:
    """The command in this process, where torch is loaded already: a page of ten commands then takes seconds."""
    from lln.cli.app import main

    before, sys.argv = sys.argv, shlex.split(line, comments=True)
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    finally:
        sys.argv = before
    return 0


def _bash(line: str, said: io.StringIO) -> int:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for word in (part.split()[0] for part in line.split("&&")):
        if word != "cd" and not word.startswith("./") and shutil.which(word, path=path) is None:
            raise MissingToolError(f"{word} is not installed here")
    done = subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, env={**os.environ, "PATH": path}, check=False
    )
    said.write(done.stdout + done.stderr)
    return done.returncode


def words(text: str) -> str:
    """A text without its numbers and its line breaks: what is the same on every machine."""
    text = re.sub(r"\d+ min \d+ s", "0 s", text)
    return re.sub(r"\s+", " ", NUMBER.sub("#", text)).strip()


def shown(page: Path) -> dict[int, Block]:
    """The block of text behind each block that runs, by where that begins."""
    found = blocks(page.read_text(encoding="utf-8"))
    return {above.at: below for above, below in pairwise(found) if above.kind in RUN and below.kind == OUTPUT}


def differs(block: Block, printed: str) -> str | None:
    """The first part of a text whose words were not printed, in order; a line of three dots stands for anything."""
    rest = words(printed)
    expected = block.code.partition("\n")[0] if block.mark == "example" else block.code
    for part in re.split(r"^\s*\.\.\.\s*$", expected, flags=re.MULTILINE):
        wanted = words(part)
        if wanted not in rest:
            return wanted
        rest = rest[rest.index(wanted) + len(wanted) :]
    return None


def _tidy(printed: str) -> str:
    return "\n".join(line.rstrip() for line in printed.rstrip().splitlines()) + "\n"


def refresh(page: Path) -> None:
    """Write what the page prints now into its blocks of text, except those that leave parts out."""
    text, expected = page.read_text(encoding="utf-8"), shown(page)
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        found = [(expected[block.at], printed) for block, printed in outputs(page) if block.at in expected]
    for block, printed in reversed(found):
        if re.search(r"^\s*\.\.\.\s*$", block.code, flags=re.MULTILINE):
            print(f"{page}: left as it is:\n{block.code}\nprinted:\n{printed}")
            continue
        text = text[: block.at] + _tidy(printed) + text[block.at + len(block.code) :]
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        refresh(Path(name).resolve())
