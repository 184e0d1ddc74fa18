from dataclasses import replace

import pytest
from typer.testing import CliRunner

from lln.bench import command, store
from lln.bench.bars import BARS
from lln.cli.app import app
from lln.core.errors import InputError
from lln.ops import cpu_backend, factored

pytestmark = pytest.mark.skipif(
    cpu_backend.unavailable() is not None or cpu_backend.level() != "avx512", reason="the bars are for AVX-512"
)


def run(folder, *words):
    words = ["bench", "--quick", "--only", "error", "--out", str(folder), *words]
    return CliRunner().invoke(app, words, env={"COLUMNS": "100", "TERM": "dumb"})


def test_rows_plot_and_verdict(tmp_path):
    done = run(tmp_path, "--check")
    assert done.exit_code == 0, done.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["quick-cpu-error.json", "quick-cpu.png"]
    assert "Against the bars" in done.stdout
    assert f"wrote {tmp_path / 'quick-cpu-error.json'}" in done.stdout.replace("\n", "")
    assert done.stdout.splitlines()[-1] == "3 of 3 bars hold."
    assert done.stderr == ""


@pytest.mark.parametrize(("words", "code"), [(("--check",), 1), ((), 0)])
def test_a_missed_bar_is_named(tmp_path, monkeypatch, words, code):
    hard = [replace(bar, bound=1e-12) if bar.quantity == "relative error" else bar for bar in BARS]
    monkeypatch.setattr(store, "BARS", hard)
    done = run(tmp_path, *words)
    assert done.exit_code == code
    assert "under its bar: relative error, B=64 h=128: " in done.stdout
    assert "asked at most 1e-12" in done.stdout
    assert done.stdout.splitlines()[-1] == "0 of 3 bars hold."


def test_a_broken_operator_gets_no_numbers(tmp_path, monkeypatch):
    right = factored.backward

    def wrong(*operands, **options):
        grad_y, grad_theta, grad = right(*operands, **options)
        return -grad_y, grad_theta, grad

    monkeypatch.setattr(factored, "backward", wrong)
    done = run(tmp_path)
    assert done.exit_code == 1
    assert "lln: the operator fails its tests, so no speed is measured: eager" in done.stderr
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_unknown_group(tmp_path):
    done = run(tmp_path, "--only", "stakc")
    assert done.exit_code == 2
    assert "did you mean 'stack'" in done.stderr
    assert "'forecast'" in done.stderr


def test_an_interruption_is_said_without_a_traceback(tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "run", interrupted)
    done = run(tmp_path)
    assert done.exit_code == 130
    assert "interrupted; the groups that were finished are stored" in done.stderr


def test_forecast_accuracy_runs_only_where_it_is_named_and_whole():
    shown = CliRunner().invoke(app, ["bench", "--help"], env={"COLUMNS": "100", "TERM": "dumb"})
    assert "--only forecast" in " ".join(shown.output.split())
    with pytest.raises(InputError, match="--quick does not go with --only forecast"):
        CliRunner().invoke(app, ["bench", "--only", "forecast", "--quick"], catch_exceptions=False)
    with pytest.raises(InputError, match="unknown device 'gpu'"):
        CliRunner().invoke(app, ["bench", "--only", "forecast", "--device", "gpu"], catch_exceptions=False)
