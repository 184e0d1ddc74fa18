import json
import subprocess
import sys

import pytest
import torch

from benchmarks.speed import contenders, probe, suite
from benchmarks.speed.setting import Setting
from benchmarks.speed.stack import _calls, _contender
from lln import InputError
from lln.models import LensEnsemble
from lln.ops.cpu import backend as cpu_backend
from tests.contracts.operator_cases import make_case, relative_errors, run

KERNELS = pytest.mark.skipif(cpu_backend.unavailable() is not None, reason="no CPU kernels here")


@KERNELS
@pytest.mark.parametrize(
    ("group", "quantities"),
    [
        ("error", {"relative error"}),
        ("stack", {"stack forward", "stack gradients"}),
        ("rollout", {"rollout"}),
        ("ensemble", {"ten seeds"}),
    ],
)
def test_quick_groups_end_to_end(tmp_path, group, quantities):
    said = []
    before = torch.get_num_threads()
    outcome = suite.run(tmp_path, only=[group], quick=True, say=said.append)
    assert torch.get_num_threads() == before
    assert [path.name for path in outcome.files] == [f"quick-cpu-{group}.json"]
    content = json.loads(outcome.files[0].read_text())
    assert {row["quantity"] for row in content["rows"]} == quantities
    assert all(row["p20"] <= row["median"] <= row["p80"] and row["minimum"] > 0 for row in content["rows"])
    assert content["made"]["threads"] == 1
    assert said[0] == "the operator's tests"


def test_unknown_words_are_refused(tmp_path):
    with pytest.raises(InputError, match="unknown group of measurements 'stak'; did you mean 'stack'"):
        suite.run(tmp_path, only=["stak"])
    with pytest.raises(InputError, match="unknown device 'gpu'"):
        suite.run(tmp_path, device="gpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_missing_gpu_is_said(tmp_path):
    with pytest.raises(InputError, match="needs an NVIDIA GPU"):
        suite.run(tmp_path, device="cuda")


def test_all_contenders_compute_the_same():
    setting = Setting(quick=True)
    case = make_case(5, 128, 3)
    results = {name: _contender(case, call, True)() for name, call in _calls(setting, case).items()}
    assert {"naive", "eager"} <= set(results)
    for name, grads in results.items():
        for ours, theirs in zip(grads, results["naive"], strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5, msg=name)


def test_the_naive_network_is_the_lens_network():
    network, x = contenders.lens(3, 20, 4), contenders.batch(6, 3)
    torch.testing.assert_close(contenders.NaiveNetwork(network)(x), network(x))


def test_an_ensemble_trains_its_members_as_they_train_alone():
    members = [contenders.lens(3, 16, 2, seed=seed) for seed in range(3)]
    x = contenders.batch(3, 5, 3)
    ensemble = LensEnsemble(members)
    contenders.Trainer(ensemble, ensemble, x, rate=1e-2)()
    contenders.Trainer(members[1], members[1], x[1], rate=1e-2)()
    torch.testing.assert_close(ensemble.member(1).coefficients, members[1].coefficients)


def test_preparing_a_trainer_changes_no_parameter():
    network = contenders.lens(3, 16, 2)
    before = [p.clone() for p in network.parameters()]
    trainer = contenders.Trainer(network, network, contenders.batch(4, 3), rate=0.1)
    trainer.prepare()
    assert all(torch.equal(a, b) for a, b in zip(before, network.parameters(), strict=True))
    assert all(p.grad is None for p in network.parameters())
    assert len(trainer.optimiser.state) == len(before)


def test_relative_errors_see_an_error():
    case = make_case(4, 8, 2)
    y, *rest = run(case, backend="eager")
    found = relative_errors(case, (y * 1.5, *rest))
    assert found["y"] == pytest.approx(0.5, rel=1e-3)
    assert max(found["theta"], found["grad_y"], found["grad_coefficients"]) < 1e-5


@pytest.mark.skipif(not probe.memory_is_readable("cpu"), reason="no peak memory here")
def test_memory_of_a_training_step_is_what_it_stores():
    options = {"depth": 30, "width": 64, "rows": 64, "steps": 1, "threads": 1, "device": "cpu"}
    # A system that reclaims idle memory while it is measured makes it look smaller, so the largest of three counts.
    naive = max(probe.ask("training-memory", naive=True, **options)["mib"] for _ in range(3))
    fused = probe.ask("training-memory", naive=False, **options)["mib"]
    # The naive form keeps at least the squared offsets, their exponentials and two rays of every layer.
    layer = 64 * 64 * (2 * 12 + 2) * 4 / 2**20
    assert naive > 30 * layer
    assert fused < naive / 3


def test_a_failing_probe_says_so():
    with pytest.raises(RuntimeError, match=r"the probe training-memory .* failed"):
        probe.ask("training-memory", depth=0)


def test_imports_with_torch_and_numpy_alone():
    absent = ("pydantic", "typer", "rich", "pandas", "matplotlib", "safetensors", "scipy", "numba", "llvmlite")
    absent += ("sklearn", "h5py", "xarray", "onnx", "onnxruntime", "onnxscript")
    block = f"import sys; sys.modules.update(dict.fromkeys({absent!r}))"
    program = f"{block}\nfrom benchmarks.speed.command import main; main(['--help'])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "--check" in done.stdout


@pytest.mark.slow
@KERNELS
def test_the_mlp_in_onnx_runtime_computes_the_same():
    pytest.importorskip("onnxruntime")
    network, x = contenders.mlp(3, 16), contenders.batch(1, 3)
    with torch.no_grad():
        want = network(x)
    torch.testing.assert_close(torch.from_numpy(contenders.in_onnx_runtime(network, x)(x.numpy())), want)
