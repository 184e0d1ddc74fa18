"""Progress of a fit: bars in an interactive session on a terminal, a line in a notebook, nothing elsewhere."""

import sys
import types

import numpy as np
import pytest

from lln import InputError, LensForecaster
from lln.fit.options import Event, Phase
from lln.forecaster.summary import progress_for

CIRCLE = np.stack([np.cos(0.1 * np.arange(120)), np.sin(0.1 * np.arange(120))], axis=1)


def test_scripts_and_pipes_are_silent(capsys):
    LensForecaster(parts=["linear"]).fit(CIRCLE, dt=0.1)
    streams = capsys.readouterr()
    assert (streams.out, streams.err) == ("", "")
    assert LensForecaster().verbose == "auto"


def test_true_prints_events_in_a_pipe_and_false_never_does(capsys):
    LensForecaster(parts=["linear"], verbose=True).fit(CIRCLE, dt=0.1)
    assert "linear part" in capsys.readouterr().out
    with progress_for(False) as listen:
        assert listen is None


def test_an_interactive_terminal_sees_bars(monkeypatch):
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with progress_for("auto") as listen:
        assert listen is not None
        listen(Event(Phase.LINEAR, 1, 2))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False, raising=False)
    with progress_for("auto") as listen:
        assert listen is None


def test_a_notebook_has_one_line_that_changes(monkeypatch):
    shown = []

    class Handle:
        def update(self, content):
            shown.append(content)

    module = types.ModuleType("IPython")
    module.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    inner = types.ModuleType("IPython.display")
    inner.HTML = str
    inner.display = lambda *_, **__: Handle()
    monkeypatch.setitem(sys.modules, "IPython", module)
    monkeypatch.setitem(sys.modules, "IPython.display", inner)
    with progress_for("auto") as listen:
        listen(Event(Phase.LINEAR, 1, 2, "ridge <1>"))
    assert "max='2'" in shown[0]
    assert "&lt;1&gt;" in shown[0]
    assert shown[-1] == ""


def test_another_word_is_refused():
    with pytest.raises(InputError, match='verbose must be True, False or "auto"'):
        LensForecaster(verbose="loud").fit(CIRCLE, dt=0.1)
