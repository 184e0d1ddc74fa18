import importlib.util
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from lln.cli.app import COMMANDS

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def script():
    place = importlib.util.spec_from_file_location("wheel_script", ROOT / "validation" / "wheel.py")
    module = importlib.util.module_from_spec(place)
    place.loader.exec_module(module)
    return module


def test_every_command_is_tried(script):
    assert {command.function.__name__ for command in COMMANDS} <= {line.split()[0] for line, _ in script.TRIED}


def test_what_commands_read_is_among_the_files_of_the_package(script):
    needed = {"lln/view/page/template.html", "lln/view/page/bundle.js", "lln/view/page/page.css"}
    needed |= {"lln/cli/errors.md", "lln/py.typed"}
    needed |= {"lln/paper/studies/ratios.toml", "lln/paper/printed/depth40.toml"}
    assert needed <= script.expected()
    left_out = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"][
        "exclude"
    ]
    assert [str(folder.relative_to(ROOT)) for folder in script.LEFT_OUT] == left_out


def test_a_file_too_few_and_one_too_many_are_named(script, tmp_path):
    *kept, lost = sorted(script.expected())
    with zipfile.ZipFile(tmp_path / "a.whl", "w") as archive:
        for name in [*kept, "lln-0.1.0.dist-info/METADATA", "lln/secret.txt"]:
            archive.writestr(name, "")
    assert script.differs(tmp_path / "a.whl") == [f"the wheel lacks {lost}", "the wheel should not hold lln/secret.txt"]


def test_a_command_that_fails_prints_a_traceback_or_writes_nothing_is_found(script, tmp_path):
    def done(code, err=""):
        return subprocess.CompletedProcess([], code, "", err)

    assert script._wrong(done(0), []) == ""
    assert script._wrong(done(2, "lln: no such file"), []) == "left with 2: lln: no such file"
    assert "Traceback" in script._wrong(done(0, "Traceback (most recent call last):"), [])
    assert script._wrong(done(0), [tmp_path / "a.nc"]) == "did not write a.nc"


@pytest.mark.slow
def test_the_wheel_works_where_it_is_installed():
    done = subprocess.run(
        [sys.executable, ROOT / "validation" / "wheel.py"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
