"""A vector field that overflows inside one step: every way of running it stays within the bounds."""

import numpy as np
import pytest
import torch

from lln.export.c.export import compile_c, compiler, export_c, replay
from lln.export.onnx import export_onnx, run
from lln.export.parts import Probe
from lln.export.torch import export_torch
from lln.step.dense import DenseStep
from lln.step.frame import Flow, Frame, Polynomial, monomial_table

LOW, HIGH = np.array([-2.0, -5.0]), np.array([3.0, 5.0])


@pytest.fixture(scope="module")
def step():
    table = monomial_table([0], 3)  # x, x^2, x^3
    # Beyond |x| = 1e-90 the slope is inf - inf. The second coordinate turns slowly and is not touched.
    flow = Flow(Polynomial(table, np.array([[0.0, -1e200, 1e200], [0.1, 0.0, 0.0]])), np.zeros(2), 2)
    zeros = np.zeros(2)
    parts = {"flow": flow, "low": LOW, "high": HIGH}
    return DenseStep(
        Frame(zeros, np.ones(2), 1, np.zeros((0, 2)), zeros[:0], zeros[:0], np.zeros((2, 2)), zeros, zeros, **parts)
    )


@pytest.fixture(scope="module")
def probe():
    return Probe(np.array([[[1.5, 1.0]], [[-1.0, 2.0]], [[0.0, 3.0]]]), None, 4)


def test_the_step_itself(step, probe):
    after = step.advance(torch.from_numpy(probe.window)).numpy()
    assert after[:2, 0].tolist() == [LOW[0]] * 2
    assert after[2].tolist() == [0.0, 3.0]
    assert (after >= LOW).all()
    assert (after <= HIGH).all()


@pytest.mark.parametrize("copies", [1, 9])
def test_the_fused_rollout(copies, step, probe):
    states = step.rollout(np.repeat(probe.window, copies, axis=0), probe.steps)
    wanted = step.advance(torch.from_numpy(probe.window)).numpy()
    np.testing.assert_array_equal(states[::copies, 0], wanted)
    assert np.isfinite(states).all()


def test_exports(step, probe, tmp_path):
    wanted = step.rollout(probe.window, probe.steps)
    export_onnx(step, tmp_path / "step.onnx", rollout=True)
    np.testing.assert_array_equal(run(tmp_path / "step.onnx", probe, rollout=True), wanted)
    export_torch(step, tmp_path / "step.pt2")
    program = torch.export.load(tmp_path / "step.pt2").module()
    np.testing.assert_array_equal(program(window=torch.from_numpy(probe.window)).numpy(), wanted[:, 0])


@pytest.mark.skipif(compiler() is None, reason="no C compiler is installed")
def test_c(step, probe, tmp_path):
    export_c(step, tmp_path)
    program = compile_c(tmp_path, "model", tmp_path / "program", ("-O1",))
    np.testing.assert_array_equal(replay(program, probe, step), step.rollout(probe.window, probe.steps))
