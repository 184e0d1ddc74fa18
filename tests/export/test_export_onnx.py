import numpy as np
import onnx
import pytest
from exported import OPTIONS, SYSTEMS, bar, probe_of, surrogate_of
from exported_fields import FIELDS, field_bar, field_of, field_probe

from lln import InputError
from lln.export.onnx import export_onnx, run, session
from lln.export.parts import Probe
from lln.step.frame import Frame
from lln.step.step import DenseStep


def held_to_the_bar(system, options, folder):
    surrogate = surrogate_of(system, **options)
    probe = probe_of(system, surrogate, SYSTEMS[system])
    file = folder / "model.onnx"
    export_onnx(surrogate, file, rollout=True)
    difference = probe.compare("rollout", surrogate, run(file, probe, rollout=True))
    assert difference.export <= bar(difference, surrogate)
    return difference


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_rollout_is_as_near_to_float64_as_pytorch(system, tmp_path):
    held_to_the_bar(system, {}, tmp_path)


@pytest.mark.parametrize("option", OPTIONS)
def test_every_option_of_the_forecaster(option, tmp_path):
    held_to_the_bar("burgers-32", OPTIONS[option], tmp_path)


@pytest.mark.parametrize("option", ["history", "inputs", "no linear part", "paper", "three members", "zero angle"])
def test_options_on_a_chaotic_system(option, tmp_path):
    held_to_the_bar("lorenz-28", OPTIONS[option], tmp_path)


def test_the_step_repeated_is_the_rollout(tmp_path):
    surrogate = surrogate_of(history=2, inputs=True)
    probe = probe_of("burgers-32", surrogate, 20)
    export_onnx(surrogate, tmp_path / "step.onnx")
    export_onnx(surrogate, tmp_path / "rollout.onnx", rollout=True)
    steps = run(tmp_path / "step.onnx", probe, rollout=False)
    whole = run(tmp_path / "rollout.onnx", probe, rollout=True)
    np.testing.assert_allclose(steps, whole, rtol=0, atol=1e-13)


def test_steps_and_batch_are_chosen_when_it_runs(tmp_path):
    surrogate = surrogate_of(history=2)
    file = tmp_path / "rollout.onnx"
    export_onnx(surrogate, file, rollout=True)
    runtime = session(file)
    window = probe_of("burgers-32", surrogate, 1).window
    for batch, steps in ((1, 7), (4, 3), (2, 40)):
        states = runtime.run(None, {"window": window[:batch], "steps": np.array(steps)})[0]
        assert states.shape == (batch, steps, 32)
    # One Loop, however many steps.
    assert [node.op_type for node in onnx.load(file).graph.node] == ["Loop", "Transpose"]


def test_the_file_is_checked_and_the_difference_told(tmp_path):
    told = export_onnx(surrogate_of(), tmp_path / "made" / "model.onnx", names=[f"u{i}" for i in range(32)])
    assert "from the float64 rollout over 50 steps (PyTorch in float32:" in str(told)
    assert told.export <= 2 * told.torch
    model = onnx.load(tmp_path / "made" / "model.onnx")
    assert {entry.key: entry.value for entry in model.metadata_props}["coordinates"].startswith("u0, u1")
    assert sorted(path.name for path in (tmp_path / "made").iterdir()) == ["model.onnx"]


def test_a_difference_is_seen(tmp_path):
    one, other = surrogate_of(), surrogate_of(members=2)
    export_onnx(one, tmp_path / "one.onnx", rollout=True)
    probe = Probe.of(other)
    wrong = probe.compare("other", other, run(tmp_path / "one.onnx", probe, rollout=True))
    assert wrong.export > 100 * wrong.torch


def test_a_diverged_model_is_refused(tmp_path):
    frame = surrogate_of(network=False).frame
    broken = Frame(**{**frame.arrays(), "history": 1, "offset": np.full(32, np.nan)})
    with pytest.raises(InputError, match="offset holds values that are not finite"):
        export_onnx(DenseStep(broken), tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", FIELDS)
def test_fields(name, tmp_path):
    surrogate = field_of(**FIELDS[name])
    probe = field_probe(surrogate)
    file = tmp_path / "field.onnx"
    export_onnx(surrogate, file, rollout=True)
    difference = probe.compare("field", surrogate, run(file, probe, rollout=True))
    assert difference.export <= field_bar(difference, surrogate)
    assert difference.torch > 0 or not surrogate.members
