import pytest

from benchmarks.speed import gate, suite
from lln.ops import factored
from lln.ops.cpu import backend as cpu_backend
from lln.ops.cpu import networks as cpu_networks


def test_the_operator_passes():
    assert gate.failures("cpu") == []


@pytest.mark.parametrize("error", [1e-4, float("nan")])
def test_a_wrong_backend_is_named_and_nothing_is_measured(monkeypatch, tmp_path, error):
    right = factored.forward

    def wrong(*operands):
        y, theta = right(*operands)
        return y + error, theta

    monkeypatch.setattr(factored, "forward", wrong)
    with pytest.raises(gate.BrokenOperatorError, match=r"so no speed is measured: eager, .*y"):
        suite.run(tmp_path, only=["error"], quick=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(cpu_backend.unavailable() is not None, reason="no CPU kernels here")
def test_a_wrong_gradient_is_seen(monkeypatch):
    right = cpu_networks.transport

    def wrong(kind, inputs, outputs, *rest):
        right(kind, inputs, outputs, *rest)
        if kind == "backward":
            outputs[2].mul_(1.001)

    monkeypatch.setattr(cpu_networks, "transport", wrong)
    found = gate.failures("cpu")
    assert found
    assert all(line.startswith("cpu, ") and "grad_coefficients" in line for line in found)
