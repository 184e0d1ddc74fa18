"""Forward and both backwards of the CPU kernels against the reference, at ugly sizes."""

import os
import signal
import threading

import cpu_arrays
import numpy as np
import pytest
import torch

from lln.ops import reference
from lln.ops.cpu import backend as cpu_backend
from lln.ops.cpu import networks as cpu_networks
from lln.ops.grid import even_grid

if cpu_backend.unavailable():
    pytest.skip(f"CPU kernels: {cpu_backend.unavailable()}", allow_module_level=True)

from lln.ops.cpu.simd import levels

NAMES = ("y", "theta", "grad y", "grad theta", "grad coefficients")


class Case:
    """Inputs of one size, and the reference's outputs and gradients in any precision."""

    def __init__(self, S=1, B=5, h=20, D=3, K=5, r=1.0, length=0.1, scale=0.1, fill=None, seed=0):
        draw = torch.Generator().manual_seed(seed)

        def normal(*shape):
            return torch.randn(*shape, generator=draw)

        self.centers = tuple(np.linspace(-3.0, 3.0, K)) if K > 1 else (0.25,)
        self.sigma, self.length, self.scale = r * 6.0 / max(K - 1, 1), length, scale
        self.grid = even_grid(self.centers, self.sigma)
        self.y = normal(S, B, h) * 1.5 if fill is None else torch.full((S, B, h), float(fill))
        self.theta = torch.tanh(normal(S, B, h))
        self.coefficients = normal(S, D, h, K) * 0.5
        self.grad_y, self.grad_theta = normal(S, B, h), normal(S, B, h)

    def naive(self, dtype):
        out = []
        for y, theta, a, *grads in zip(
            self.y, self.theta, self.coefficients, self.grad_y, self.grad_theta, strict=True
        ):
            inputs = [x.to(dtype).requires_grad_() for x in (y, theta, a)]
            results = reference.lens_transport(*inputs, self.centers, self.sigma, self.length, self.scale)
            gradients = torch.autograd.grad(results, inputs, [g.to(dtype) for g in grads])
            out.append([x.detach() for x in (*results, *gradients)])
        return [torch.stack(x) for x in zip(*out, strict=True)]

    def fused(self, threads=1, inverse=False):
        y, theta, a, grad_y, grad_theta = (
            x.numpy() for x in (self.y, self.theta, self.coefficients, self.grad_y, self.grad_theta)
        )
        optics = (self.grid, self.length, self.scale, threads)
        out = tuple(np.full_like(x, np.nan) for x in (y, theta))
        forward = cpu_arrays.forward(y, theta, a, *optics, out=out)
        kind, start = ("inverse", forward) if inverse else ("backward", (y, theta))
        out = tuple(np.full_like(x, np.nan) for x in (y, theta, a))
        gradients = cpu_arrays.backward(*start, grad_y, grad_theta, a, *optics, out=out, kind=kind)
        return [torch.from_numpy(x) for x in (*forward, *gradients)]


def error(value, exact):
    return float((value.double() - exact).norm())


def check(case, factor=2.0, **options):
    exact, naive, ours = case.naive(torch.float64), case.naive(torch.float32), case.fused(**options)
    for name, true, plain, value in zip(NAMES, exact, naive, ours, strict=True):
        # Naive arithmetic that happens to be exact must not demand the same of us: one rounding is allowed.
        floor = 2.0**-23 * float(true.norm())
        assert error(value, true) <= max(factor * error(plain, true), floor), name


@pytest.mark.parametrize("level", levels())
@pytest.mark.parametrize(
    "sizes",
    [
        {"h": 37, "B": 7, "K": 1, "D": 1},
        {"h": 1, "B": 1},
        {"h": 16, "B": 4, "D": 40, "K": 12},
        {"h": 37, "B": 7, "D": 40, "K": 12, "S": 3},
        {"h": 70, "B": 1, "D": 40, "K": 12},
        {"h": 100, "B": 3, "K": 12, "S": 2},
        {"h": 64, "B": 130, "D": 2},
        {"h": 21, "B": 6, "K": 2},
        {"h": 21, "B": 6, "K": 3, "r": 2.0},
    ],
    ids=str,
)
def test_errs_at_most_twice_as_much_as_naive_arithmetic(sizes, level):
    with cpu_backend.forced(level):
        check(Case(**sizes))


@pytest.mark.parametrize("r", [0.1, 0.5, 1.0, 3.0])
def test_any_width_of_the_gaussians(r):
    case = Case(B=9, h=33, D=10, K=12, r=r)
    assert (len(case.grid.groups) > 1) == (r < 0.9)
    check(case)


@pytest.mark.parametrize("fill", [0.0, 3.0, -3.0, 1e3, -1e30])
@pytest.mark.parametrize("D", [1, 20])
def test_all_rays_at_one_place(fill, D):
    check(Case(B=64, h=16, D=D, K=12, fill=fill, length=0.05, scale=0.05))


def test_long_paths_and_strong_lenses():
    check(Case(B=33, h=48, D=2, K=12, length=1.0, scale=1.0))
    check(Case(B=33, h=48, D=100, K=12, length=0.05, scale=0.05))


def test_inverse_backward_agrees_where_it_does_not_drift():
    check(Case(B=7, h=37, D=40, K=12, length=0.025, scale=0.025, S=2), factor=3.0, inverse=True)
    check(Case(B=2, h=70, D=40, K=12, r=0.5, length=0.025, scale=0.025), factor=3.0, inverse=True)


def test_deep_stacks_keep_positions_only():
    deep = Case(B=5, h=17, D=cpu_networks.KEPT_DEPTH + 1, K=5, length=1e-3, scale=1e-3)
    check(deep)


def test_no_rows_give_no_output_and_no_gradient():
    case = Case(B=0)
    y, theta, grad_y, grad_theta, grad_a = case.fused()
    assert y.shape == theta.shape == grad_y.shape == grad_theta.shape == (1, 0, 20)
    assert torch.equal(grad_a, torch.zeros_like(grad_a))


def test_descending_centres():
    case = Case(K=12, B=9, D=10)
    case.centers = case.centers[::-1]
    case.grid = even_grid(case.centers, case.sigma)
    check(case)


@pytest.mark.parametrize("place", [float("nan"), float("inf"), float("-inf"), 3e38])
def test_nothing_becomes_nan_that_is_not_nan_in_the_reference(place):
    case = Case(B=6, h=20, D=4, K=12)
    case.y[0, 2, 3] = place
    case.theta[0, 4, 5] = place
    plain, ours = case.naive(torch.float32), case.fused()
    for name, a, b in zip(NAMES, plain, ours, strict=True):
        assert not (b.isnan() & ~a.isnan()).any(), name
    for a, b in zip(plain[:2], ours[:2], strict=True):
        assert torch.equal(a.isnan(), b.isnan())
        assert torch.equal(a.isinf(), b.isinf())


def test_tiny_gradients_are_not_lost():
    case = Case(B=8, h=16, D=3, K=12, length=0.5, scale=0.5)
    case.grad_y, case.grad_theta = case.grad_y * 1e-30, case.grad_theta * 1e-30
    check(case)


def test_the_same_bits_for_any_number_of_threads():
    for sizes in ({"S": 3, "B": 40, "h": 50, "D": 30}, {"B": 3000, "h": 16, "D": 4}, {"B": 200, "h": 100, "D": 40}):
        for inverse in (False, True):
            case = Case(**sizes)
            one = case.fused(threads=1, inverse=inverse)
            for threads in (2, 3, 16):
                many = case.fused(threads=threads, inverse=inverse)
                assert all(torch.equal(a, b) for a, b in zip(one, many, strict=True))


def test_several_python_threads_at_once():
    cases = [Case(B=64, h=40, D=20, seed=seed) for seed in range(4)]
    alone = [case.fused() for case in cases]
    together = [None] * len(cases)

    def work(k):
        for _ in range(5):
            together[k] = cases[k].fused(threads=2)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(len(cases))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for a, b in zip(alone, together, strict=True):
        assert all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_computes_with_threads_of_its_own():
    case = Case(B=200, h=64, D=20)
    expected = case.fused(threads=2)
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # rather dead than waiting for a thread that did not come along
        same = all(torch.equal(a, b) for a, b in zip(case.fused(threads=2), expected, strict=True))
        os._exit(0 if same else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_subnormals_are_switched_back_on():
    Case().fused()
    assert np.float32(1e-38) * np.float32(0.01) > 0
