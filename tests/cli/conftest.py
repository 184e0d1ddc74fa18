import sys
from dataclasses import dataclass

import pytest

from lln.cli import main


@dataclass
class Done:
    code: int
    out: str
    err: str


@pytest.fixture
def lln(monkeypatch, capsys):
    """The command as a shell would call it, in this process: words in, exit code and both streams out."""

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["lln", *map(str, words)])
        monkeypatch.setenv("COLUMNS", "80")
        monkeypatch.setenv("TERM", "dumb")
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            main()
        streams = capsys.readouterr()
        return Done(left.value.code or 0, streams.out, streams.err)

    return call


@pytest.fixture
def refused(lln):
    """Call with `words`; exit code 2 and one sentence that holds every part, perhaps with where to read more."""

    def check(words, *parts):
        done = lln(*words)
        assert done.code == 2, done
        assert done.out == ""
        assert done.err.startswith("lln: ")
        _, *more = done.err.splitlines()
        assert len(more) <= 1, done.err
        assert all(line.startswith("more: lln explain ") for line in more), done.err
        for part in parts:
            assert part in done.err, done.err

    return check
