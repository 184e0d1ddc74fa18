"""The Triton kernels, on a machine that has an NVIDIA GPU. Needs torch, NumPy, pytest and `src` on the path."""

import copy
from dataclasses import replace

import pytest
import torch
from torch.func import functional_call, grad, stack_module_state, vmap

import lln
from lln.models import LensEnsemble, LensNetwork
from lln.ops import explain
from lln.ops.grid import even_grid
from lln.ops.triton import backend as triton_backend
from tests.contracts.operator_cases import (
    FAR,
    NAMES,
    SIZES,
    assert_far_tails,
    assert_twice_naive,
    far_case,
    make_case,
    naive,
    poison,
    run,
)
from tests.contracts.operator_checks import CHECKS, Subject

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(triton_backend.unavailable() is not None, reason=str(triton_backend.unavailable())),
    pytest.mark.filterwarnings("default"),
]


@pytest.mark.parametrize("backward", ["recompute", "inverse"])
@pytest.mark.parametrize("size", SIZES)
def test_errs_at_most_twice_as_much_as_naive_float32(size, backward):
    case = make_case(*size, device="cuda")
    poison(case.y.shape, case.coefficients.shape, device="cuda")
    assert_twice_naive(case, run(case, backend="triton", backward=backward))


@pytest.mark.parametrize("rows", [64, 1000, 5000])
def test_paper_sized_stacks(rows):
    case = make_case(rows, 128, 40, 12, spread=1.0, strength=0.02, device="cuda")
    assert_twice_naive(case, run(case, backend="triton"))


def test_a_stack_deeper_than_one_segment():
    case = make_case(20, 40, triton_backend.SEGMENT * 2 + 5, 12, strength=0.01, device="cuda")
    assert_twice_naive(case, run(case, backend="triton"))


@pytest.mark.parametrize("size", [(65, 63, 5, 12, 0.5), (1000, 128, 40, 12, 1.0), (20000, 96, 10, 12, 1.0)])
def test_kept_positions_give_the_gradients_of_computing_them_again(size, monkeypatch):
    case = make_case(*size, strength=0.02, device="cuda")
    kept = run(case, backend="triton")
    monkeypatch.setattr(triton_backend, "_most_kept", lambda _: 0)
    for name, ours, again in zip(NAMES, kept, run(case, backend="triton"), strict=True):
        assert (ours - again).norm() <= 1e-6 * again.norm(), name


def test_what_a_forward_pass_keeps_is_bounded(monkeypatch):
    case = make_case(64, 64, 40, device="cuda")
    operands = (case.y[None], case.theta[None], case.coefficients[None])
    grid = even_grid(case.centers, case.sigma)
    packed, positions = 40 * 64 * 12, 64 * 64 * 40

    def kept():
        return [t.numel() for t in triton_backend.forward_kept(*operands, grid, case.length, case.scale)[1]]

    assert kept() == [packed + positions]
    monkeypatch.setattr(triton_backend, "_most_kept", lambda _: 4 * positions - 1)
    assert kept() == [packed]


def test_eager_on_the_gpu():
    case = make_case(device="cuda")
    assert_twice_naive(case, run(case, backend="eager"))


@pytest.mark.parametrize(("position", "ratio"), FAR)
def test_far_tails(position, ratio):
    case = far_case(position, ratio, device="cuda")
    assert_far_tails(case, run(case, backend="triton"))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_non_finite_rays_stay_where_they_are(value):
    case = make_case(rows=9, width=20, device="cuda")
    case.y[3, 7] = value
    for ours, theirs in zip(run(case, backend="triton")[:2], naive(case)[:2], strict=True):
        assert torch.equal(torch.isnan(ours), torch.isnan(theirs))
        assert torch.equal(torch.isinf(ours), torch.isinf(theirs))


def test_ensemble_is_its_members_one_by_one():
    case = make_case(rows=40, width=70, members=3, device="cuda")
    whole = run(case)
    for s in range(3):
        fields = ("y", "theta", "coefficients", "grad_y", "grad_theta")
        alone = type(case)(**{**vars(case), **{name: getattr(case, name)[s] for name in fields}})
        for together, single in zip(whole, run(alone), strict=True):
            torch.testing.assert_close(together[s], single, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("backward", ["recompute", "inverse"])
@pytest.mark.parametrize("members", [0, 2])
def test_rays_of_any_shape(members, backward):
    case = make_case(rows=12, width=37, members=members, device="cuda")
    flat = run(case, backend="triton", backward=backward)
    rays = ("y", "theta", "grad_y", "grad_theta")
    shaped = replace(case, **{name: getattr(case, name).unflatten(-2, (4, 3)) for name in rays})
    for name, ours, want in zip(NAMES, run(shaped, backend="triton", backward=backward), flat, strict=True):
        assert torch.equal(ours.view(want.shape), want), name


def test_operands_that_are_not_aligned():
    case = make_case(rows=9, width=37, depth=5, device="cuda")
    shifted = {
        name: torch.cat([torch.zeros(1, device="cuda"), getattr(case, name).flatten()])[1:].view_as(getattr(case, name))
        for name in ("y", "theta", "coefficients", "grad_y", "grad_theta")
    }
    for _ in range(2):
        for name, ours, want in zip(NAMES, run(replace(case, **shifted)), run(case), strict=True):
            assert torch.equal(ours, want), name


def test_a_tensor_that_outlived_its_transform():
    case, leaked = make_case(device="cuda"), []
    grad(lambda y: (leaked.append(y), y.sum())[1])(case.y)
    for _ in range(2):
        ends = lln.lens_transport(leaked[0], case.theta, case.coefficients, *case.optics(), backend="triton")
        torch.testing.assert_close(ends[0], run(case, backend="triton")[0])


@pytest.mark.parametrize("backward", ["recompute", "inverse"])
@pytest.mark.parametrize("rows", [100, 20000])
def test_the_same_bits_every_time(rows, backward):
    case = make_case(rows, 96, 10, device="cuda")
    first = run(case, backend="triton", backward=backward)
    for _ in range(5):
        again = run(case, backend="triton", backward=backward)
        assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))


@pytest.mark.parametrize("size", SIZES)
def test_float64_errs_near_its_rounding(size):
    case = make_case(*size, device="cuda")
    rounding = 64 * torch.finfo(torch.float64).eps * (1.0 + max(map(abs, case.centers)) / case.sigma)
    results, truth = run(case, torch.float64, backend="triton"), naive(case, torch.float64)
    for name, ours, exact in zip(NAMES, results, truth, strict=True):
        assert (ours - exact).norm() <= rounding * exact.norm(), name


@pytest.mark.parametrize("check", CHECKS)
def test_what_torch_does(check):
    CHECKS[check](Subject("triton", "cuda"))


def test_auto_takes_triton():
    case = make_case(device="cuda")
    said = explain(case.y, case.theta, case.coefficients, case.centers, case.sigma)
    assert said.serves == "triton"
    assert "the operands are on cuda" in said.reasons["cpu"]


@pytest.fixture
def network():
    return lln.LensNetwork(3, 3, width=48, depth=6, generator=torch.Generator().manual_seed(0)).cuda()


def test_vmap_of_grad():
    members = [lln.LensNetwork(3, 3, width=48, depth=4).cuda() for _ in range(3)]
    parameters, _ = stack_module_state(members)
    skeleton = copy.deepcopy(members[0]).to("meta")
    x = torch.randn(3, 6, 3, device="cuda")
    got = vmap(grad(lambda p, z: functional_call(skeleton, p, (z,)).square().mean()))(parameters, x)
    want = torch.autograd.grad(members[1](x[1]).square().mean(), members[1].coefficients)[0]
    torch.testing.assert_close(got["coefficients"][1], want)


def test_compile_fullgraph(network):
    x = torch.randn(8, 3, device="cuda")
    torch.compile(network, fullgraph=True)(x).square().mean().backward()
    got = network.coefficients.grad.clone()
    network.zero_grad()
    network(x).square().mean().backward()
    torch.testing.assert_close(got, network.coefficients.grad)


def test_export_with_dynamic_batch(network):
    program = torch.export.export(
        network, (torch.randn(4, 3, device="cuda"),), dynamic_shapes={"x": {0: torch.export.Dim("batch")}}
    )
    x = torch.randn(9, 3, device="cuda")
    torch.testing.assert_close(program.module()(x), network(x))


def test_autocast(network):
    x = torch.randn(8, 3, device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        out = network(x)
    out.float().sum().backward()
    torch.testing.assert_close(out.float(), network(x), atol=0.05, rtol=0.05)


def test_cuda_graph_of_a_training_step(network):
    x = torch.randn(32, 3, device="cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            network.zero_grad()
            network(x).square().mean().backward()
    torch.cuda.current_stream().wait_stream(stream)
    network.zero_grad()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        network(x).square().mean().backward()
    network.zero_grad(set_to_none=False)
    x.copy_(torch.randn(32, 3, device="cuda"))
    graph.replay()
    got = network.coefficients.grad.clone()
    network.zero_grad()
    network(x).square().mean().backward()
    torch.testing.assert_close(got, network.coefficients.grad)


def _network(n=5, width=40, depth=6, seed=0):
    return LensNetwork(n, n, width=width, depth=depth, generator=torch.Generator().manual_seed(seed)).cuda()


def _looped(network, x, steps, increments):
    states = []
    for _ in range(steps):
        x = x + network(x) if increments else network(x)
        states.append(x)
    return torch.stack(states, dim=-2)


@pytest.mark.parametrize("increments", [False, True])
@pytest.mark.parametrize("steps", [1, 25, 60])
def test_a_rollout_as_a_graph_is_the_loop(steps, increments):
    network, starts = _network(), torch.randn(3, 5, device="cuda")
    with torch.no_grad():
        looped = _looped(network, starts, steps, increments)
    graph = network.rollout(starts, steps, increments=increments)
    # The embedding of a stack of one is a batched product, whose sums may round in another order.
    torch.testing.assert_close(graph, looped, rtol=1e-4, atol=1e-5)


def test_a_rollout_is_the_same_twice_and_leaves_its_starts_alone():
    network, starts = _network(), torch.randn(4, 5, device="cuda")
    kept = starts.clone()
    assert torch.equal(network.rollout(starts, 40), network.rollout(starts, 40))
    assert torch.equal(starts, kept)


def test_an_ensemble_rolls_out_as_its_members_do():
    members = [_network(seed=seed) for seed in range(3)]
    starts = torch.randn(4, 5, device="cuda")
    together = LensEnsemble(members).rollout(starts.expand(3, 4, 5), 30)
    alone = torch.stack([member.rollout(starts, 30) for member in members])
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-5)
