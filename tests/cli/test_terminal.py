import errno
import io
import shlex
import sys
from dataclasses import dataclass, replace
from types import SimpleNamespace

import pytest
from rich.console import Console

from lln.cli import console
from lln.cli.app import main
from lln.cli.doctor import doctor
from lln.cli.fit import verdict
from lln.core.table import Table
from lln.fit.options import FitReport
from lln.forecaster.summary import Bars

WIDE = Table(
    ["model", "NMSE", "RMSE", "valid steps", "valid time", "Lyapunov times", "parameters", "seconds"],
    [["residual-batchnorm", 2.13e-5, 1.46e-3, 59.0, 0.59, 0.53, 34435, "137.6"]],
)


@dataclass(frozen=True)
class Event:
    phase: str
    done: int
    total: int
    message: str = ""
    part: int = 0
    parts: int = 0
    group: str = ""


@pytest.fixture
def screen(monkeypatch):
    """A terminal of a given width, and what was printed on it."""

    def make(width, terminal=True):
        out = io.StringIO()
        one = Console(file=out, width=width, force_terminal=terminal, color_system=None, highlight=False)
        monkeypatch.setattr(console, "console", lambda **_: one)
        return out

    return make


@pytest.mark.parametrize("width", [120, 100, 80])
def test_a_table_fits_the_terminal_and_no_number_is_cut(screen, width):
    out = screen(width)
    console.show_table(WIDE)
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    for cell in ("residual-batchnorm", "2.13e-05", "0.00146", "34,435", "137.6", "parameters"):
        assert any(cell in line for line in lines)


def test_a_table_with_errors_of_factors_fits_80_columns(screen):
    out = screen(80)
    heads = ["model", "1", "4", "16", "32", "128", "300", "times the best"]
    cells = ["residual-batchnorm", *[1.23e-10] * 4, 0.639, 5.82, "1.58e+05 ± 1.0e+05"]
    console.show_table(Table(heads, [cells], title="normalised MSE by lead time"))
    lines = out.getvalue().splitlines()
    assert any("times the best" in line for line in lines)  # the column is wide enough
    assert max(map(len, lines)) <= 80
    shown = out.getvalue().split()
    assert all(cell in shown for cell in ("residual-batchnorm", "1.23e-10", "0.639", "1.58e+05", "1.0e+05"))


def test_a_table_in_a_pipe_is_as_wide_as_it_needs(screen):
    out = screen(40, terminal=False)
    console.show_table(WIDE)
    assert "valid steps" in out.getvalue()
    assert "…" not in out.getvalue()


def test_one_line_for_each_model_however_many_phases_it_has():
    bars = Bars()
    for name in ("lens", "mlp"):
        for phase in ("linear part", "screening"):
            bars.listen(Event(phase, 1, 2, group=name))
            bars.listen(Event(phase, 2, 2, "loss 1e-3", part=1, parts=2, group=name))
    seen = [(task.description, task.fields["message"]) for task in bars.progress.tasks if task.visible]
    assert seen == [("1. lens", "screening 1/2, loss 1e-3"), ("2. mlp", "screening 1/2, loss 1e-3")]


@pytest.mark.parametrize("width", [80, 120])
def test_phases_are_numbered_and_a_long_message_stands_above_the_bars(screen, width):
    out = screen(width)
    bars = Bars()
    bars.listen(Event("linear part", 1, 1))
    message = "history 2, kernel of radius 3 in both directions, ridge 1e-06 [/bold] \x1b[31m"
    bars.listen(Event("training", 1, 4, message))
    console.console().print(bars)
    above, first, second = [line.rstrip() for line in out.getvalue().splitlines() if line.strip()]
    assert above == message.replace("\x1b", "\\x1b")
    assert "1. linear part" in first
    assert "2. training" in second
    assert "…" not in out.getvalue()
    bars.listen(Event("training", 2, 4, "loss 1e-3"))
    console.console().print(bars)
    assert out.getvalue().splitlines()[-1].rstrip().endswith("loss 1e-3")


def test_a_phase_is_over_when_the_next_one_begins():
    bars = Bars()
    bars.listen(Event("grid", 0, 1))  # encloses the others
    bars.listen(Event("closed forms", 4, 7, "closed forms, degree 2"))
    bars.listen(Event("screening", 0, 3))
    assert [task.finished for task in bars.progress.tasks] == [False, True, False]
    assert bars.progress.tasks[1].fields["message"] == "degree 2"


def test_a_listener_in_a_pipe_draws_nothing(screen):
    out = screen(80, terminal=False)
    with console.progress_bars() as listen:
        listen(Event("training", 1, 4))
    assert out.getvalue() == ""


def test_text_is_as_wide_as_the_terminal_and_no_wider_than_reads_well(screen):
    screen(72)
    assert console.text_width() == 72
    screen(200)
    assert console.text_width() == 100
    screen(60, terminal=False)
    assert console.text_width() == 100


def test_no_word_is_broken_on_a_terminal_and_pipes_stay_as_they_are(screen, monkeypatch, capsys):
    sentence = "a file of known-inputs.csv " + "that is described at length " * 5
    screen(40)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    console.echo(sentence, indent=4)
    lines = capsys.readouterr().out.replace("\x1b[0m", "").splitlines()
    assert max(map(len, lines)) <= 40
    assert " ".join(" ".join(lines).split()) == " ".join(sentence.split())
    assert all(line.startswith("    ") for line in lines[1:])
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False, raising=False)
    console.echo(sentence)
    assert capsys.readouterr().out == sentence + "\n"


def test_a_command_on_several_lines_can_be_copied(screen, monkeypatch, capsys):
    screen(40)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    command = "lln rollout model.lln --steps 200 --level 0.9 -o forecast.csv --plot forecast.png"
    console.echo(command, indent=8, command=True)
    said = capsys.readouterr().out.replace("\x1b[0m", "")
    assert max(map(len, said.splitlines())) <= 40
    assert all(line.endswith(" \\") for line in said.splitlines()[:-1])
    assert shlex.split(said.replace("\\\n", "")) == command.split()
    assert "--plot forecast.png" in said  # an option stays with its value


def test_doctor_and_errors_break_lines_between_words(screen, monkeypatch, capsys):
    screen(80)
    for stream in (sys.stdout, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    doctor(as_json=False)
    folder = "/a/folder/whose/name/is/long"
    monkeypatch.setattr(sys, "argv", ["lln", "inspect", f"{folder}/{'x' * 30}.lln"])
    with pytest.raises(SystemExit):
        main()
    said = capsys.readouterr()
    assert "numpy" in said.out
    assert "lln: " in said.err
    for line in (*said.out.splitlines(), *said.err.splitlines()):
        assert len(line.replace("\x1b[0m", "")) <= 80 or folder in line or "cache" in line


def test_the_verdict_is_one_sentence_with_a_colour():
    report = FitReport(
        held_out_nmse=4.4e-4, valid_steps=512, lead_times=(1, 32, 512),
        skill={"model": [1e-6, 1e-5, 1e-3], "persistence": [2.5e-3, 2.5e-2, 2.5]}, exponent=0.5,
    )  # fmt: skip
    hourly = SimpleNamespace(dt=3600.0, time_unit="seconds")

    def said(**changes):
        return verdict(SimpleNamespace(report_=replace(report, **changes), layout_=hourly))

    plain = SimpleNamespace(report_=report, layout_=SimpleNamespace(dt=0.02, time_unit=""))
    sentence, colour = verdict(plain)
    assert sentence == (
        "held-out error 0.00044, 2,500 times below persistence; valid on average for at least 5.1 Lyapunov times "
        "(10.2 time units)"
    )
    assert colour == "green"
    assert said(valid_steps=32, exponent=None)[0].endswith("; valid on average for 1.33 days")
    worse = said(skill={"model": [1.0, 1.0, 1.0], "persistence": [1.0, 1.0, 1.0]})
    assert "no better than persistence" in worse[0]
    assert worse[1] == "red"
    errors = report.skill["model"]
    noise = said(skill={**report.skill, "mean": [1.01 * one for one in errors]})
    assert noise[0].startswith("held-out error 0.00044, no better than the mean; valid")
    assert noise[1] == "red"
    season = said(skill={**report.skill, "mean": [1.0, 1.0, 1.0], "seasonal": errors})
    assert season[0].startswith("held-out error 0.00044, no better than repeating the last season; valid")
    assert season[1] == "green"
    assert "2,500 times below persistence" in said(skill={**report.skill, "seasonal": [None, None, None]})[0]
    assert "not valid even for one step" in said(valid_steps=0)[0]
    assert said(held_out_nmse=float("nan")) == ("", "green")


def test_text_is_printed_as_it_is_where_no_memory_is_left_to_wrap_it(monkeypatch, capsys):
    def exhausted(**_):
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(console, "console", exhausted)
    console.echo("lln: not enough memory", err=True)  # in a pipe nothing is asked of the terminal
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    console.echo("lln: not enough memory", err=True)
    assert capsys.readouterr().err.count("lln: not enough memory") == 2


def test_a_sentence_is_written_where_no_memory_is_left_to_print_it(monkeypatch, capfd):
    def exhausted(*_, **__):
        raise MemoryError

    monkeypatch.setattr(console.typer, "echo", exhausted)
    console.echo("lln: not enough memory", err=True)
    assert capfd.readouterr().err == "lln: not enough memory\n"
    with pytest.raises(MemoryError):
        console.echo("a result")
