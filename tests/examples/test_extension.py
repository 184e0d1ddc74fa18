"""The example package adds a network, a closed-form part, a metric and a system: fit, rollout, save, load, compare."""

import json
import os
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest

import lln
from lln.core.errors import InputError
from lln.evaluate import METRICS
from lln.models import NETWORKS
from lln.step.parts import PARTS
from lln.systems import SYSTEMS, simulate

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "examples" / "extension"
SMALL = {"members": 2, "epochs": 2, "width": 8, "depth": 2, "history": 1}


@pytest.fixture
def registered(monkeypatch):
    """The things of the example under their names, as entry points would bring them."""
    import tomllib

    monkeypatch.syspath_prepend(str(PACKAGE / "src"))
    points = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]["entry-points"]
    for registry in (NETWORKS, PARTS, METRICS, SYSTEMS):
        found = {name: EntryPoint(name, value, registry.group) for name, value in points[registry.group].items()}
        monkeypatch.setattr(registry, "_found", found)
        monkeypatch.setattr(registry, "_items", dict(registry._items))
    yield
    for name in [name for name in sys.modules if name.startswith("lln_extension")]:
        del sys.modules[name]


@pytest.mark.usefixtures("registered")
def test_a_network_a_metric_and_a_system_from_outside(tmp_path):
    assert "van-der-pol" in SYSTEMS
    states = simulate(lln.preset("van-der-pol"), 400)
    assert np.abs(states).max() < 5
    model = lln.LensForecaster(model="fourier", **SMALL).fit(states[:300], dt=0.05)
    found = model.evaluate(states[300:], dt=0.05, steps=50, metrics=["largest-error", "mae"])
    assert found.metrics["largest-error"] >= found.metrics["mae"] > 0
    assert "largest-error" in str(found)
    lln.save(model, tmp_path / "m.lln")
    again = lln.load(tmp_path / "m.lln")
    first = np.asarray(model.rollout(steps=20).array)
    np.testing.assert_array_equal(np.asarray(again.rollout(steps=20).array), first)
    table = lln.compare(states, models=["fourier", "persistence"], recipe=SMALL, steps=50, dt=0.05)
    assert {score.name for score in table.scores} == {"fourier", "persistence"}


@pytest.mark.usefixtures("registered")
def test_a_closed_form_part_from_outside(tmp_path):
    states = simulate(lln.preset("van-der-pol"), 500, dtype="float64")
    made = lln.LensForecaster(parts=("linear", "waves"), history=1).fit(states[:400], dt=0.05)
    assert made.report_.part == "waves"
    plain = lln.LensForecaster(parts="linear", history=1).fit(states[:400], dt=0.05)
    errors = [one.evaluate(states[400:], dt=0.05, steps=50, metrics=["mae"]).metrics["mae"] for one in (made, plain)]
    assert errors[0] < 0.2 * errors[1]
    made.save(tmp_path / "waves.lln")
    rolled = lln.load(tmp_path / "waves.lln").rollout(steps=20).array
    np.testing.assert_array_equal(rolled, made.rollout(steps=20).array)


def test_without_the_package_the_names_are_unknown():
    with pytest.raises(InputError, match="unknown part 'waves'"):
        lln.LensForecaster(parts="waves").fit(np.zeros((50, 2)))
    with pytest.raises(InputError, match="unknown system 'van-der-pol'"):
        lln.preset("van-der-pol")
    with pytest.raises(InputError, match="no metric is called 'largest-error'"):
        METRICS.get("largest-error")


def test_a_metric_may_be_a_function_and_a_failing_one_is_named(monkeypatch):
    angle = 0.1 * np.arange(200)
    states = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    model = lln.LensForecaster(**SMALL).fit(states[:150], dt=0.1)

    def final_error(predicted, truth, scale, dt):
        assert predicted.shape == truth.shape
        assert predicted.ndim == 3
        assert scale.shape == (2,)
        assert dt == 0.1
        return float(np.abs(predicted - truth)[:, -1].max())

    found = model.evaluate(states[150:], steps=20, metrics=[final_error, "spectrum"])
    assert set(found.metrics) == {"final_error", "spectrum"}
    assert found.record()["metrics"]["final_error"] == found.metrics["final_error"]
    monkeypatch.setattr(METRICS, "_items", {**METRICS._items, "broken": lambda *_: int("x")})
    with pytest.raises(InputError, match="the metric 'broken' failed"):
        model.evaluate(states[150:], steps=20, metrics="broken")
    with pytest.raises(InputError, match="did you mean 'spectrum'"):
        model.evaluate(states[150:], steps=20, metrics="spectrun")


@pytest.mark.slow
def test_the_installed_package_serves_the_commands(tmp_path):
    home = tmp_path / "site"
    words = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--target"]
    subprocess.run([*words, str(home), str(PACKAGE)], check=True)
    path = os.pathsep.join([str(home), str(ROOT / "src")])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}

    def call(line):
        words = [sys.executable, "-c", "from lln.cli import main; main()", *line.split()]
        done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    call("simulate van-der-pol --steps 500 --burn-in 50 -o v.npz")
    call("fit v.npz -o v.lln --model fourier --members 1 --width 8 --depth 2 --epochs 2 --test 0.3")
    call("rollout v.lln --steps 50 -o r.csv")
    scores = json.loads(call("evaluate v.lln v.npz --steps 50 --metrics largest-error --json"))
    assert scores["metrics"]["largest-error"] > 0
    assert "fourier" in call("compare v.npz --models fourier,persistence --set epochs=1 --set members=1 --steps 50")
