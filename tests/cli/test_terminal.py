import io
from dataclasses import dataclass

import pytest
from rich.console import Console

from lln.cli import console
from lln.core.table import Table

WIDE = Table(
    ["model", "nMSE", "RMSE", "valid steps", "valid time", "Lyapunov times", "parameters", "seconds"],
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


def test_a_table_in_a_pipe_is_as_wide_as_it_needs(screen):
    out = screen(40, terminal=False)
    console.show_table(WIDE)
    assert "valid steps" in out.getvalue()
    assert "…" not in out.getvalue()


def test_one_line_for_each_model_however_many_phases_it_has():
    bars = console.Bars()
    for name in ("lens", "mlp"):
        for phase in ("linear part", "screening"):
            bars.listen(Event(phase, 1, 2, group=name))
            bars.listen(Event(phase, 2, 2, "loss 1e-3", part=1, parts=2, group=name))
    seen = [(task.description, task.fields["message"]) for task in bars.progress.tasks if task.visible]
    assert seen == [("1. lens", "screening 1/2, loss 1e-3"), ("2. mlp", "screening 1/2, loss 1e-3")]


@pytest.mark.parametrize("width", [80, 120])
def test_phases_are_numbered_and_a_long_message_stands_above_the_bars(screen, width):
    out = screen(width)
    bars = console.Bars()
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
