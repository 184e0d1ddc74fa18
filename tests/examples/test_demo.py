import importlib.util
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).parents[2] / "examples" / "demo.py"
TINY = ["--epochs", "1", "--depth", "2", "--width", "8", "--pairs", "200", "--horizon", "20"]


@pytest.fixture(scope="module")
def demo():
    spec = importlib.util.spec_from_file_location("demo", DEMO)
    module = importlib.util.module_from_spec(spec)
    sys.modules["demo"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["demo"]


def test_the_demo_runs_end_to_end(demo, tmp_path, capsys):
    out = tmp_path / "demo"
    assert demo.main(["--out", str(out), *TINY]) == 0
    assert {path.name for path in out.iterdir()} == {
        "reactiondiff-48-error.png",
        "reactiondiff-48-field.png",
        "lorenz-28-error.png",
        "lorenz-28-trajectories.png",
        "lorenz-28-portrait.png",
        "results.md",
    }
    shown, written = capsys.readouterr().out, (out / "results.md").read_text()
    for text in ("lens network", "scaled ResMLP", "plain MLP", "training mean", "reactiondiff-48", "lorenz-28"):
        assert text in shown
        assert text in written
    assert "linear least squares" in written
    assert "of 20" in written


def test_bad_settings_end_with_a_sentence(demo, tmp_path, capsys):
    assert demo.main(["--out", str(tmp_path), *TINY, "--epochs", "0"]) == 2
    assert "epochs of the training configuration must be greater than or equal to 1, got 0" in capsys.readouterr().err
