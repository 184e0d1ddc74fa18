import numpy as np
import onnx
import pytest
from exported import states_of
from forecasters import made
from PIL import Image
from typer.testing import CliRunner

from lln import InputError
from lln.cli.app import app
from lln.data.read.formats import as_dataset, write
from lln.export.c.export import compiler
from lln.forecaster.file import save
from lln.step.step import DenseStep


def lln(*words):
    return CliRunner().invoke(app, list(map(str, words)), catch_exceptions=True)


def refused(words, match):
    done = lln(*words)
    assert isinstance(done.exception, InputError), done
    assert match in str(done.exception)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("models")
    for name, states, options in (
        ("lorenz", states_of("lorenz-28")[:900], {}),
        ("history", states_of("lorenz-28")[:900], {"history": 3}),
    ):
        save(made(as_dataset(states, dt=0.01, names=["x", "y", "z"]), **options), place / f"{name}.lln")
    linear = made(as_dataset(states_of("lorenz-28")[:900], dt=0.01))
    linear.surrogate_ = DenseStep(linear.surrogate_.frame)
    save(linear, place / "linear.lln")
    write(place / "truth.npz", as_dataset(states_of("lorenz-28")[900:1000], dt=0.01, names=["x", "y", "z"]))
    return place


@pytest.mark.parametrize("model", ["lorenz", "linear", "history"])
def test_onnx(folder, tmp_path, model):
    done = lln("export", folder / f"{model}.lln", "-o", tmp_path / "m.onnx", "--rollout")
    assert done.exit_code == 0, done
    assert "wrote" in done.stdout
    assert "standard deviations from the float64 rollout over 50 steps" in done.stdout
    assert onnx.load(tmp_path / "m.onnx").graph.name == "rollout"


def test_torch(folder, tmp_path):
    done = lln("export", folder / "lorenz.lln", "-o", tmp_path / "m.pt2")
    assert done.exit_code == 0, done
    assert (tmp_path / "m.pt2").is_file()


@pytest.mark.skipif(compiler() is None, reason="no C compiler is installed")
def test_c(folder, tmp_path):
    done = lln("export", folder / "lorenz.lln", "-f", "c", "--precision", "double", "--name", "storm", "-o", tmp_path)
    assert done.exit_code == 0, done
    assert {path.name for path in tmp_path.iterdir()} == {"storm.c", "storm.h", "storm_selftest.c"}
    assert "storm.c (double): at most" in done.stdout
    assert "Coordinates: x, y, z." in (tmp_path / "storm.h").read_text()


def test_c_without_a_compiler(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    done = lln("export", folder / "lorenz.lln", "-f", "c", "-o", tmp_path)
    assert done.exit_code == 0, done
    assert "no C compiler was found here" in done.stdout


def test_draw(folder, tmp_path):
    for name in ("m.svg", "m.png"):
        done = lln("draw", folder / "lorenz.lln", "-o", tmp_path / name)
        assert done.exit_code == 0, done
        assert "8 of 8 rays through 3 lenses" in done.stdout
    assert "<svg" in (tmp_path / "m.svg").read_text()[:400]
    with Image.open(tmp_path / "m.png") as picture:
        assert picture.format == "PNG"


def test_animate(folder, tmp_path):
    done = lln(
        "animate", folder / "history.lln", "-o", tmp_path / "m.gif", "--data", folder / "truth.npz", "--frames", 4
    )
    assert done.exit_code == 0, done
    assert "98 states, dt = 0.01" in done.stdout  # 100 rows, of which a history of 3 leaves the present and 97 ahead
    with Image.open(tmp_path / "m.gif") as film:
        assert film.n_frames == 4
    for source in ("lorenz.lln", "truth.npz"):
        done = lln("animate", folder / source, "-o", tmp_path / "n.gif", "--frames", 3, "--steps", 20)
        assert done.exit_code == 0, done
        assert "21 states" in done.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.gif", "n.gif"]


def test_refusals(folder, tmp_path):
    model, out = folder / "lorenz.lln", tmp_path / "x"
    refused(["export", model, "-o", out, "--format", "onxx"], "unknown format 'onxx'; did you mean 'onnx'")
    refused(["export", model, "-o", out, "--format", "torch", "--rollout"], "--rollout is for --format onnx")
    refused(["export", folder / "lorentz.lln", "-o", out], "did you mean")
    refused(["export", model, "-o", out.with_suffix(".foo")], "unknown ending; use .onnx, .pt2 or, for C, a folder")
    refused(["export", model, "-o", out, "-f", "c", "--precision", "half"], "unknown precision 'half'")
    onnx = ["export", model, "-o", out.with_suffix(".onnx")]
    refused([*onnx, "--precision", "double"], "--precision is for C; leave it out, or give a folder as --out")
    refused([*onnx, "--name", "lorenz"], "--name is for C")
    refused(["draw", model, "-o", out.with_suffix(".jpg")], "a drawing is a .svg, .png or .pdf file, got '.jpg'")
    refused(["draw", folder / "linear.lln", "-o", out.with_suffix(".svg")], "no lens network to draw")
    refused(["draw", model, "-o", out.with_suffix(".svg"), "--member", "2"], "--member must be below 2")
    refused(["animate", model, "-o", out.with_suffix(".avi")], "a film is a .gif or an .mp4 file")
    refused(
        ["animate", folder / "truth.npz", "-o", out.with_suffix(".gif"), "--data", folder / "truth.npz"], "--data is"
    )
    assert list(tmp_path.iterdir()) == []


def test_inputs_must_be_given_for_a_film(tmp_path):
    states = states_of("lorenz-28")[:400]
    push = np.sin(np.arange(400) / 30)[:, None]
    data = as_dataset(states, dt=0.01, inputs=push)
    save(made(data), tmp_path / "pushed.lln")
    refused(["animate", tmp_path / "pushed.lln", "-o", tmp_path / "x.gif"], "this model needs its known inputs")
