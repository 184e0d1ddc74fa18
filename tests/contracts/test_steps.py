"""What every step and every exporter promises."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from steps import STEPS, start_of

from lln.export.c.export import compile_c, compiler, export_c, replay
from lln.export.onnx import export_onnx, run
from lln.export.parts import Probe
from lln.export.torch import export_torch
from lln.step.step import step_of

EPS = np.finfo(np.float64).eps
SINGLE = np.finfo(np.float32).eps


@pytest.fixture(scope="module", params=STEPS)
def step(request):
    return STEPS[request.param]()


def tensors(window, inputs):
    return torch.from_numpy(window), None if inputs is None else torch.from_numpy(inputs[:, 0])


def unit(step):
    """How much one step may round, in standard deviations: sums of a few hundred terms of size up to ten."""
    terms = 1000.0 if step.dtype == torch.float64 else 100.0
    return terms * (EPS if step.dtype == torch.float64 else SINGLE)


def test_a_rollout_is_advance_again_and_again(step):
    window, inputs = start_of(step)
    found = step.rollout(window, 20, inputs)
    assert found.shape == (3, 20, step.frame.size)
    assert found.dtype == np.float64
    past = torch.from_numpy(window)
    for k in range(20):
        known = None if inputs is None else torch.from_numpy(inputs[:, k])
        with torch.no_grad():
            after = step.advance(past, known)
        past = torch.cat([past[:, 1:], after.unsqueeze(1)], dim=1)
        gap = np.abs((found[:, k] - after.numpy()) / step.frame.scale).max()
        assert gap <= 20 * unit(step)
    assert np.abs((found[:, -1] - window[:, -1]) / step.frame.scale).max() > 1e-3


def test_an_advance_is_the_state_and_the_increment_of_its_features(step):
    window, inputs = start_of(step)
    past, known = tensors(window, inputs)
    logarithms = getattr(step.frame, "logarithm", None) is not None
    with torch.no_grad():
        present = past[:, -1].log() if logarithms else past[:, -1]
        after = present + step.increment(step.features(past, known))
        after = after.exp() if logarithms else after
        for bound, clip in (("low", torch.maximum), ("high", torch.minimum)):
            if getattr(step, bound, None) is not None:
                after = clip(after, getattr(step, bound))
        assert torch.equal(step.advance(past, known), after)
        assert torch.equal(step(past, known), after)


def test_one_start_is_a_row_of_many(step):
    window, inputs = start_of(step)
    many = step.rollout(window, 5, inputs)
    one = step.rollout(window[1], 5, None if inputs is None else inputs[1])
    assert np.abs((many[1] - one) / step.frame.scale).max() <= 5 * unit(step)


def test_the_jacobian_is_that_of_differences(step):
    double = step.to_dtype(torch.float64)
    window, inputs = start_of(double)
    past, known = tensors(window, inputs)
    found = double.jacobian(past, known)
    history, n = past.shape[1:]
    assert found.shape == (3, n, history, n)
    h = 1e-5
    for j, i in ((0, 0), (history - 1, n - 1)):
        move = torch.zeros_like(past)
        move[:, j, i] = h * double.frame.scale[i]
        with torch.no_grad():
            slope = (double.advance(past + move, known) - double.advance(past - move, known)) / (2 * move[0, j, i])
        # The error of central differences: h^2 times a third derivative of order ten, and rounding over h.
        assert (slope - found[..., j, i]).abs().max() <= 100 * h**2 + 1e3 * EPS * 10 / h


def test_the_inverse_undoes_a_step(step):
    if getattr(step, "low", None) is not None:  # a state that was clipped cannot be found again
        step = step.replace(frame=replace(step.frame, low=None, high=None))
    window, inputs = start_of(step, count=1)
    after = step.to_dtype(torch.float64).rollout(window, 1, inputs)[0]
    known = None if inputs is None else inputs[0, 0]
    before = step.inverse(np.concatenate([window[0, 1:], after]), known)
    again = np.concatenate([before[None], window[0, 1:]])
    reached = step.to_dtype(torch.float64).rollout(again, 1, None if known is None else known[None])[0]
    assert np.abs((reached - after[0]) / step.frame.scale).max() <= 1e-8


def test_record_and_arrays_give_the_same_bits(step):
    record = json.loads(json.dumps(step.record()))
    arrays = {name: np.array(value) for name, value in step.arrays().items()}
    again = step_of(record, arrays)
    window, inputs = start_of(step)
    assert type(again) is type(step)
    np.testing.assert_array_equal(again.rollout(window, 10, inputs), step.rollout(window, 10, inputs))


def test_a_diverged_start_is_not_finite_and_the_others_are(step):
    window, inputs = start_of(step)
    window[0] = np.nan
    states = step.rollout(window, 20, inputs)
    assert np.isnan(states[0]).all()
    assert np.isfinite(states[1:]).all()


def test_inputs_that_are_missing_are_named(step):
    window, inputs = start_of(step)
    if inputs is None:
        return
    with pytest.raises(ValueError, match=f"needs {step.frame.inputs} inputs, but none were given"):
        step.rollout(window, 2)


@pytest.mark.parametrize("kind", ["onnx", "torch", "c"])
def test_exports_compute_the_same(step, kind, tmp_path):
    probe = Probe(*start_of(step, steps=20), 20)
    if kind == "onnx":
        export_onnx(step, tmp_path / "step.onnx", rollout=True)
        difference = probe.compare("ONNX", step, run(tmp_path / "step.onnx", probe, rollout=True))
    elif kind == "torch":
        difference = export_torch(step, tmp_path / "step.pt2")
    else:
        if compiler() is None:
            pytest.skip("no C compiler")
        export_c(step, tmp_path, check=False)
        program = compile_c(tmp_path, "model", tmp_path / "program", ("-O1",))
        difference = probe.compare("C", step, replay(program, probe, step))
    # Twice the usual rounding, and that of sums in another order where there is none.
    assert difference.export <= 2.0 * difference.torch + 20 * 1000 * EPS, difference
