"""Names from files that strangers wrote, and requests that no machine can serve."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from lln.core.safe_files import sealed
from lln.forecaster.forecaster import LensForecaster

NAMES = ["\x1b[31mRED\x1b]0;owned\x07", "[/nope]", "=cmd|' /C calc'!A0"]
FIT = ("--members", "1", "--epochs", "1", "--history", "1", "--depth", "2", "--width", "4")


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    time = 0.1 * np.arange(120)
    states = np.stack([np.sin(time), np.cos(time), np.sin(2 * time)], 1)
    with Path("x.csv").open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["time", *NAMES])
        out.writerows(np.column_stack([time, states]).tolist())
    return tmp_path


def test_escapes_in_names_reach_no_terminal_and_formulas_no_spreadsheet(table, lln):
    done = [lln("fit", "x.csv", "-o", "m.lln", *FIT), lln("inspect", "m.lln"), lln("evaluate", "m.lln", "x.csv")]
    done.append(lln("rollout", "m.lln", "--steps", "5", "-o", "r.csv"))
    for one in done:
        assert one.code == 0, one
        assert not [c for c in one.out + one.err if not c.isprintable() and c != "\n"]
    assert "\\x1b[31mRED" in done[0].out
    assert "[/nope]" in done[0].out
    header = next(csv.reader((table / "r.csv").read_text().splitlines()))
    assert not [name for name in header if name.startswith(("=", "+", "-", "@"))]


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--threads", "100000"), "--threads must be at most"),
        (("--device", "meta"), "device must be one of cpu, cuda"),
        (("--width", "1000000000", "--members", "1", "--epochs", "1", "--history", "1"), "choose smaller sizes"),
    ],
)
def test_requests_that_no_machine_can_serve(refused, words, sentence):
    refused(("fit", "x.csv", "-o", "m.lln", *words), sentence)


@pytest.mark.usefixtures("table")
def test_a_name_that_is_too_long_is_refused_before_the_work(refused, monkeypatch):
    monkeypatch.setattr(LensForecaster, "fit", lambda *_, **__: pytest.fail("the work began"))
    refused(("fit", "x.csv", "-o", "m" * 252 + ".lln"), "File name too long")
    refused(("fit", "x.csv", "-o", "m" * 245 + ".lln"), "File name too long")  # of its checkpoint


def test_a_name_of_221_characters_is_written(table, lln):
    name = "m" * 217 + ".lln"
    assert lln("fit", "x.csv", "-o", name, *FIT).code == 0
    assert (table / name).exists()
    assert not [path for path in table.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("candidates", True, "candidates should be a list"),
        ("structure", "members", "structure should be a table, got str"),
        ("structure", {"members": 3}, "structure.members should be a list"),
        ("intervals", 7, "intervals should be a table, got int"),
    ],
)
def test_a_resealed_model_with_other_kinds_of_values_is_refused(table, lln, refused, name, value, said):
    assert lln("fit", "x.csv", "-o", "m.lln", *FIT).code == 0
    content = (table / "m.lln").read_bytes()
    length = int.from_bytes(content[:8], "little")
    outer = json.loads(content[8 : 8 + length])
    inner = json.loads(outer["__metadata__"]["lln"])
    inner["report"][name] = value
    outer["__metadata__"] = {"lln": json.dumps(inner), "sha256": "0" * 64}
    text = json.dumps(outer, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    (table / "m.lln").write_bytes(sealed(len(text).to_bytes(8, "little") + text + content[8 + length :]))
    refused(("inspect", "m.lln"), said)


@pytest.mark.usefixtures("table")
def test_an_unreadable_checkpoint_is_not_called_missing(refused):
    Path("m.lln.checkpoint").mkdir()
    refused(("fit", "x.csv", "-o", "m.lln", "--resume", *FIT), "m.lln.checkpoint", "folder")
