import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

DEMO = Path(__file__).parents[2] / "examples" / "demo.py"
TINY = ["--steps", "30", "--seconds", "2", "--pairs", "300"]


@pytest.fixture(scope="module")
def demo():
    spec = importlib.util.spec_from_file_location("demo", DEMO)
    module = importlib.util.module_from_spec(spec)
    sys.modules["demo"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["demo"]


@pytest.mark.slow
def test_the_demo_runs_end_to_end(demo, tmp_path, capsys):
    out = tmp_path / "demo"
    assert demo.main(["--out", str(out), *TINY]) == 0
    names = {
        f"{system}{end}"
        for system in ("lorenz-28", "fisher-kpp-128")
        for end in ("-forecast.png", "-error.png", ".html")
    }
    assert {path.name for path in out.iterdir()} == {*names, "results.md"}
    written = (out / "results.md").read_text()
    for name in ("LensForecaster", "linear", "analog", "persistence", "mean"):
        assert name in written
    assert "changes wings" in capsys.readouterr().out


def test_something_happens_in_the_windows(demo, tmp_path):
    settings = demo.Settings(tmp_path, 500, 1.0, 3000, 0)
    task = demo.lorenz(settings)
    x = np.asarray(task.test.series[0].rows(0, len(task.test.series[0])))[task.start : task.start + 500, 0]
    assert (x > 5).any()
    assert (x < -5).any()
    task = demo.front(settings)
    field = np.asarray(task.test.series[0].rows(0, len(task.test.series[0])))
    assert np.abs(field[-1] - field[task.start]).max() > 0.5


def test_bad_settings_end_with_a_sentence(demo, tmp_path, capsys):
    assert demo.main(["--out", str(tmp_path), *TINY, "--seconds", "-1"]) == 2
    assert "time_limit" in capsys.readouterr().err
