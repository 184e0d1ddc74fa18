import shutil

import pytest
import torch

from lln.models import MODELS, build

NAMES = list(MODELS)
COMPILER = pytest.mark.skipif(not shutil.which("g++"), reason="torch.compile on the CPU needs a C++ compiler (g++)")


def make(name="lens", **options):
    defaults = {"width": 6, "depth": 3}
    network = build(name, 3, 3, **{**defaults, **options}, generator=torch.Generator().manual_seed(0))
    return network.double().eval()


def inputs(*shape):
    return torch.randn(*shape, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@COMPILER
@pytest.mark.filterwarnings("ignore:.torch.jit.script_method. is deprecated:DeprecationWarning")  # inductor's own
@pytest.mark.parametrize("name", ["lens", "residual-batchnorm"])
def test_compile_without_graph_breaks(name):
    network = make(name)
    compiled = torch.compile(network, fullgraph=True)
    for rows in (5, 9):
        x = inputs(rows).requires_grad_()
        out = compiled(x)
        torch.testing.assert_close(out, network(x), rtol=1e-12, atol=1e-13)
        (mine,) = torch.autograd.grad(out.square().sum(), x)
        (truth,) = torch.autograd.grad(network(x).square().sum(), x)
        torch.testing.assert_close(mine, truth, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_trace_is_one_graph(name):
    network = make(name)
    traced = torch.compile(network, fullgraph=True, backend="aot_eager", dynamic=True)
    torch.testing.assert_close(traced(inputs(4)), network(inputs(4)), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", NAMES)
def test_vmap_over_samples(name):
    network, x = make(name), inputs(8)
    torch.testing.assert_close(torch.func.vmap(network)(x), network(x), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", NAMES)
def test_jacrev_agrees_with_autograd(name):
    network, x = make(name), inputs()
    reverse = torch.func.jacrev(network)(x)
    torch.testing.assert_close(reverse, torch.autograd.functional.jacobian(network, x), rtol=1e-12, atol=1e-13)
    batch = torch.func.vmap(torch.func.jacrev(network))(inputs(4))
    alone = torch.stack([torch.func.jacrev(network)(x) for x in inputs(4)])
    torch.testing.assert_close(batch, alone, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", NAMES)
def test_functional_call_with_an_ensemble_of_parameters(name):
    members = [make(name), make(name)]
    with torch.no_grad():
        for parameter in members[1].parameters():
            parameter.add_(0.1)
    parameters, buffers = torch.func.stack_module_state(members)
    x = inputs(5)

    def call(parameters, buffers):
        return torch.func.functional_call(members[0], (parameters, buffers), (x,))

    together = torch.func.vmap(call)(parameters, buffers)
    torch.testing.assert_close(together, torch.stack([member(x) for member in members]), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", NAMES)
def test_export_with_a_dynamic_batch(name):
    network = make(name)
    program = torch.export.export(network, (inputs(4),), dynamic_shapes={"x": {0: torch.export.Dim("batch")}})
    for rows in (1, 4, 11):
        torch.testing.assert_close(program.module()(inputs(rows)), network(inputs(rows)), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", NAMES)
def test_moves_between_devices_and_dtypes(name):
    network = make(name)
    assert {value.dtype for value in network.float().parameters()} == {torch.float32}
    shadow = network.to("meta")
    assert shadow(torch.empty(4, 3, device="meta")).shape == (4, 3)
    assert shadow(torch.empty(4, 3, device="meta")).device.type == "meta"


def test_built_under_another_default_device():
    with torch.device("meta"):
        network = build("lens", 3, 3, width=4, depth=2)
    assert {value.device.type for value in network.parameters()} == {"meta"}
