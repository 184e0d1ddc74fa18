"""The operator under everything torch does to functions: compile, export, vmap, grad, autocast, fork, threads."""

import copy
import multiprocessing
import shutil
import threading

import pytest
import torch
from torch.func import functional_call, grad, jacrev, jvp, stack_module_state, vmap
from torch.utils.flop_counter import FlopCounterMode

import lln
from lln.ops.cpu import backend as cpu_backend
from tests.contracts.operator_cases import make_case, run

pytestmark = pytest.mark.skipif(cpu_backend.unavailable() is not None, reason="no CPU kernels here")


@pytest.fixture
def network():
    return lln.LensNetwork(3, 2, width=24, depth=5, generator=torch.Generator().manual_seed(0))


def loss(parameters, network, x):
    return functional_call(network, parameters, (x,)).square().mean()


def operands(requires_grad):
    case = make_case(members=2, rows=3, width=8)
    tensors = [t.clone().requires_grad_(requires_grad) for t in (case.y, case.theta, case.coefficients)]
    return (*tensors, False, None, list(case.centers), case.sigma, case.length, case.scale, "auto")


@pytest.mark.parametrize("requires_grad", [False, True])
def test_opcheck(requires_grad):
    torch.library.opcheck(torch.ops.lln.transport.default, operands(requires_grad))


def test_opcheck_of_the_backward():
    y, theta, coefficients, *rest = operands(False)
    arguments = (y, theta, torch.randn_like(y), torch.randn_like(y), coefficients, *rest)
    torch.library.opcheck(torch.ops.lln.transport_backward.default, arguments)


@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")
def test_compile_fullgraph(network):
    x = torch.randn(6, 3)
    compiled = torch.compile(network, fullgraph=True)
    compiled(x).square().mean().backward()
    ours = [p.grad.clone() for p in network.parameters()]
    network.zero_grad()
    network(x).square().mean().backward()
    for a, p in zip(ours, network.parameters(), strict=True):
        torch.testing.assert_close(a, p.grad)


@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")
def test_compile_with_a_tensor_of_centres():
    case = make_case()
    centers = torch.tensor(case.centers)
    compiled = torch.compile(
        lambda y, theta, a: lln.lens_transport(y, theta, a, centers, case.sigma, case.length), fullgraph=True
    )
    want = lln.lens_transport(case.y, case.theta, case.coefficients, centers, case.sigma, case.length)
    torch.testing.assert_close(compiled(case.y, case.theta, case.coefficients), want)


def test_compiled_tangents_are_those_of_eager_code():
    case = make_case()

    def tangent(y):
        rest = (case.theta, case.coefficients, *case.optics())
        return jvp(lambda z: lln.lens_transport(z, *rest)[1], (y,), (torch.ones_like(y),))[1]

    torch.testing.assert_close(torch.compile(tangent, backend="aot_eager")(case.y), tangent(case.y))


def test_gradients_by_the_inverse_map_are_the_same_under_a_dispatch_mode():
    case = make_case(depth=20)  # deep enough for the rounding of the inverse map to show
    operands = [t.clone().requires_grad_() for t in (case.y, case.theta, case.coefficients)]

    def gradients():
        ends = lln.lens_transport(*operands, *case.optics(), backward="inverse")
        return torch.autograd.grad(ends[1].square().sum(), operands)

    with FlopCounterMode(display=False):
        got = gradients()
    assert all(map(torch.equal, got, gradients()))


def test_export_with_dynamic_batch(network):
    x = torch.randn(4, 3)
    program = torch.export.export(network, (x,), dynamic_shapes={"x": {0: torch.export.Dim("batch")}})
    assert "lln.transport.default" in {str(node.target) for node in program.graph.nodes}
    for rows in (1, 9):
        x = torch.randn(rows, 3)
        torch.testing.assert_close(program.module()(x), network(x))
    module = program.module()
    module(x).sum().backward()
    network(x).sum().backward()
    torch.testing.assert_close(module.coefficients.grad, network.coefficients.grad)


def test_vmap_over_members_and_their_gradients():
    members = [lln.LensNetwork(3, 3, width=20, depth=4) for _ in range(4)]
    parameters, _ = stack_module_state(members)
    skeleton = copy.deepcopy(members[0]).to("meta")
    x = torch.randn(4, 6, 3)
    together = vmap(grad(lambda p, z: loss(p, skeleton, z)))(parameters, x)
    for s, member in enumerate(members):
        alone = torch.autograd.grad(member(x[s]).square().mean(), list(member.parameters()))
        for (name, _), want in zip(member.named_parameters(), alone, strict=True):
            torch.testing.assert_close(together[name][s], want)


def test_vmap_then_backward():
    members = [lln.LensNetwork(3, 3, width=20, depth=4) for _ in range(3)]
    parameters, _ = stack_module_state(members)
    skeleton = copy.deepcopy(members[0]).to("meta")
    x = torch.randn(3, 6, 3)
    out = vmap(lambda p, z: functional_call(skeleton, p, (z,)))(parameters, x)
    got = torch.autograd.grad(out.square().mean((1, 2)).sum(), parameters["coefficients"])[0]
    want = torch.autograd.grad(members[2](x[2]).square().mean(), members[2].coefficients)[0]
    torch.testing.assert_close(got[2], want)


def test_per_sample_gradients(network):
    x = torch.randn(5, 3)
    parameters = dict(network.named_parameters())
    each = vmap(grad(lambda p, z: loss(p, network, z[None])), in_dims=(None, 0))(parameters, x)
    for i in range(5):
        want = torch.autograd.grad(network(x[i : i + 1]).square().mean(), network.coefficients)[0]
        torch.testing.assert_close(each["coefficients"][i], want)


def test_grad_of_vmap(network):
    x = torch.randn(5, 3)
    parameters = dict(network.named_parameters())

    def total(coefficients):
        replaced = {**parameters, "coefficients": coefficients}
        return vmap(lambda z: functional_call(network, replaced, (z[None],)))(x).square().sum()

    got = grad(total)(network.coefficients.detach())
    want = torch.autograd.grad(network(x).square().sum(), network.coefficients)[0]
    torch.testing.assert_close(got, want)


def test_a_tensor_that_outlived_its_transform(network):
    leaked, x = [], torch.randn(5, 3)
    grad(lambda z: (leaked.append(z), network(z).sum())[1])(x)
    torch.testing.assert_close(network(leaked[0]), network(x))


def test_jacrev(network):
    x = torch.randn(3)
    got = jacrev(network)(x)
    network.backend = "reference"
    torch.testing.assert_close(got, jacrev(network)(x))


@pytest.mark.parametrize("frozen", [False, True])
def test_second_derivatives_are_those_of_the_reference(network, frozen):
    network.requires_grad_(not frozen)
    x = torch.randn(3)

    def twice(backend):
        network.backend = backend
        return torch.autograd.functional.hessian(lambda q: network(q).sin().sum(), x)

    torch.testing.assert_close(twice("auto"), twice("reference"))


def test_gradient_penalty_reaches_the_coefficients(network):
    x = torch.randn(4, 3, requires_grad=True)

    def penalty(backend):
        network.backend = backend
        (first,) = torch.autograd.grad(network(x).square().sum(), x, create_graph=True)
        return torch.autograd.grad(first.square().sum(), network.coefficients)[0]

    torch.testing.assert_close(penalty("auto"), penalty("reference"))


def test_the_inverse_map_has_second_derivatives_too():
    case = make_case(strength=0.5)
    y = case.y.double().requires_grad_()

    def twice(**options):
        rest = (case.theta.double(), case.coefficients.double(), *case.optics())
        ends = lln.lens_transport(y, *rest, **options)
        (first,) = torch.autograd.grad(ends[1].square().sum(), y, create_graph=True)
        return torch.autograd.grad(first.square().sum(), y)[0]

    torch.testing.assert_close(twice(backward="inverse"), twice(backend="reference"))


def test_autocast(network):
    x = torch.randn(8, 3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = network(x)
    out.float().sum().backward()
    assert network.coefficients.grad.dtype == torch.float32
    torch.testing.assert_close(out.float(), network(x), atol=0.05, rtol=0.05)


def test_several_threads_at_once():
    case = make_case(rows=64, width=64, depth=8)
    want, results = run(case), {}
    workers = [threading.Thread(target=lambda i=i: results.__setitem__(i, run(case))) for i in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for result in results.values():
        assert all(torch.equal(a, b) for a, b in zip(result, want, strict=True))


def _in_child(queue):
    torch.set_num_threads(1)
    queue.put([t.numpy() for t in run(make_case(rows=64, width=64, depth=8))])


def test_forked_process():
    want = run(make_case(rows=64, width=64, depth=8))  # the parent's threads are up before the fork
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_in_child, args=(queue,))
    child.start()
    got = queue.get(timeout=60)
    child.join(timeout=60)
    assert child.exitcode == 0
    assert all((a == b.numpy()).all() for a, b in zip(got, want, strict=True))


class _Rolled(torch.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        case = make_case(seed=index)
        return lln.lens_transport(case.y, case.theta, case.coefficients, *case.optics())[0]


def test_dataloader_workers():
    batches = list(torch.utils.data.DataLoader(_Rolled(), batch_size=2, num_workers=2))
    torch.testing.assert_close(torch.cat(batches), torch.stack([_Rolled()[i] for i in range(4)]), rtol=0, atol=0)


def test_distributed_data_parallel(network, tmp_path):
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path / 'rendezvous'}", rank=0, world_size=1)
    try:
        x = torch.randn(6, 3)
        wrapped = torch.nn.parallel.DistributedDataParallel(copy.deepcopy(network))
        wrapped(x).square().mean().backward()
        network(x).square().mean().backward()
        torch.testing.assert_close(wrapped.module.coefficients.grad, network.coefficients.grad)
    finally:
        torch.distributed.destroy_process_group()
