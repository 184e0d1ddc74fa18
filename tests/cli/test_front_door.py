import subprocess
import sys

import pytest
from typer.testing import CliRunner

import lln
from lln import InputError
from lln.cli import app as app_module


def test_version():
    done = CliRunner().invoke(app_module.app, ["--version"])
    assert done.exit_code == 0
    assert done.stdout.strip() == f"lln {lln.__version__}"


def test_no_arguments_show_help():
    done = CliRunner().invoke(app_module.app, [])
    assert "Usage" in done.output
    assert "audit" in done.output


def test_bad_input_leaves_with_one_sentence_and_2(monkeypatch, capsys):
    def refuse():
        raise InputError("width must be an integer of at least 1, got 0")

    monkeypatch.setattr(app_module, "app", refuse)
    with pytest.raises(SystemExit) as caught:
        app_module.main()
    assert caught.value.code == 2
    assert capsys.readouterr().err == "lln: width must be an integer of at least 1, got 0\n"


def test_unknown_command():
    done = subprocess.run(
        [sys.executable, "-c", "from lln.cli import main; main()", "audti"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "No such command" in done.stderr
