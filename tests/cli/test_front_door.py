import os
import shlex
import subprocess
import sys
import textwrap

import pytest
import typer
from typer.testing import CliRunner

import lln
from lln import InputError
from lln.cli import app as app_module


def test_version():
    done = CliRunner().invoke(app_module.app, ["--version"])
    assert done.exit_code == 0
    assert done.stdout.strip() == f"lln {lln.__version__}"


def test_the_package_runs_as_the_command():
    done = subprocess.run([sys.executable, "-m", "lln", "--version"], capture_output=True, text=True, check=True)
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


def test_the_first_example_stands_on_one_line_of_80_columns():
    shown = CliRunner().invoke(app_module.app, ["--help"], env={"COLUMNS": "80", "TERM": "dumb"}).stdout
    example = shown.partition("Example: ")[2].strip()
    assert "\n" not in example
    assert example.endswith(app_module.COMMANDS[1].example)


def test_each_command_has_an_example_that_parses():
    for command in app_module.COMMANDS:
        name = command.function.__name__
        shown = CliRunner().invoke(app_module.app, [name, "--help"], env={"COLUMNS": "200", "TERM": "dumb"})
        assert shown.exit_code == 0
        assert f"Example: {command.example}" in shown.stdout
        program, word, *rest = shlex.split(command.example)
        assert (program, word) == ("lln", name)
        found = typer.main.get_command(app_module.app).commands[name]
        found.make_context(name, rest)  # raises where an option or an argument is wrong


def test_the_example_keeps_rows_back_for_evaluate():
    example = next(command.example for command in app_module.COMMANDS if command.function.__name__ == "fit")
    assert example in app_module.app.info.epilog
    fit = typer.main.get_command(app_module.app).commands["fit"]
    assert fit.make_context("fit", shlex.split(example)[2:]).params["test"] > 0


def test_help_breaks_lines_where_the_terminal_ends_and_nowhere_else():
    shown = CliRunner().invoke(app_module.app, ["rollout", "--help"], env={"COLUMNS": "90", "TERM": "dumb"}).stdout
    body = shown[shown.index("Without --from") : shown.index("Arguments")].splitlines()[:3]
    assert all(len(line.rstrip()) > 70 for line in body[:-1]), shown


def test_failed_work_leaves_with_one_sentence_and_1(monkeypatch, capsys):
    def full():
        raise OSError(28, "No space left on device", "b.nc")

    monkeypatch.setattr(app_module, "app", full)
    with pytest.raises(SystemExit) as caught:
        app_module.main()
    assert caught.value.code == 1
    assert capsys.readouterr().err == "lln: b.nc: No space left on device; make room, and run the same command again\n"


def completed(typed, folder):
    environment = {**os.environ, "_LLN_COMPLETE": "complete_bash", "COMP_WORDS": typed}
    environment["COMP_CWORD"] = str(len(typed.split(" ")) - 1)
    code = "import sys; sys.argv[0] = 'lln'; from lln.cli import main; main()"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout.split()


def test_the_shell_completes_commands_options_presets_and_models(tmp_path):
    for name in ("a.lln", "b.lln", "b.nc"):
        (tmp_path / name).write_text("")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "c.lln").write_text("")
    assert completed("lln sim", tmp_path) == ["simulate"]
    assert completed("lln simulate burgers-", tmp_path) == [
        "burgers-32",
        "burgers-48",
        "burgers-1d-128",
        "burgers-2d-64x64",
    ]
    assert completed("lln inspect b", tmp_path) == ["b.lln"]
    assert completed("lln rollout ", tmp_path) == ["a.lln", "b.lln", "sub/"]
    assert completed("lln evaluate sub/", tmp_path) == ["sub/c.lln"]
    assert "--resume" in completed("lln fit --res", tmp_path)


def test_an_interrupt_while_the_command_is_loaded_shows_no_traceback():
    code = """
    import sys
    class CtrlC:
        def find_spec(self, name, path=None, target=None):
            if name == "lln.cli.app":
                raise KeyboardInterrupt
    sys.meta_path.insert(0, CtrlC())
    from lln.cli import main
    main()
    """
    words = [sys.executable, "-c", textwrap.dedent(code), "--help"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
