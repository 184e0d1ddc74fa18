import copy

import pytest
import torch

import lln
from lln.ops import Scaling


def network(**options):
    return lln.LensNetwork(4, 4, width=33, depth=6, generator=torch.Generator().manual_seed(0), **options)


def by_hand(step, x, steps):
    states = []
    for _ in range(steps):
        x = step(x)
        states.append(x)
    return torch.stack(states, dim=-2)


def assert_twice_naive(got, net, make_step, x0, steps):
    """Against the loop in float64, the kernel errs at most twice as much as the naive loop in float32 does."""
    naive, exact = copy.deepcopy(net), copy.deepcopy(net).double()
    naive.backend = "reference"
    with torch.no_grad():
        truth = by_hand(make_step(exact), x0.double(), steps)
        rough = by_hand(make_step(naive), x0, steps)
    error, allowed = (got.double() - truth).norm(), (rough.double() - truth).norm()
    assert error <= 2 * allowed + torch.finfo(torch.float32).eps * truth.norm()


@pytest.mark.parametrize("lead", [(), (1,), (5,), (2, 3), (0,)])
@pytest.mark.parametrize("increments", [False, True])
@pytest.mark.parametrize("angle", ["learned", "zero"])
def test_one_kernel_is_the_loop(lead, increments, angle):
    net = network(initial_angle=angle)
    x0 = torch.randn(*lead, 4, generator=torch.Generator().manual_seed(1))
    got = net.rollout(x0, 30, increments=increments)
    assert got.shape == (*lead, 30, 4)
    assert_twice_naive(got, net, lambda f: lambda x: x + f(x) if increments else f(x), x0, 30)


@pytest.mark.parametrize("lead", [(), (9,)])
def test_scaling_goes_around_the_network(lead):
    net, x0 = network(), torch.randn(*lead, 4, generator=torch.Generator().manual_seed(1))
    scaling = Scaling(*(torch.tensor(v) for v in ([0.1, 0.2, -0.3, 0.0], [1.0, 2.0, 0.5, 1.5], [0.1] * 4, [0.01] * 4)))

    def make_step(f):
        mean, deviation, factor, shift = (v.to(f.readout.weight.dtype) for v in vars(scaling).values())
        return lambda x: x + f((x - mean) / deviation) * factor + shift

    assert_twice_naive(net.rollout(x0, 20, increments=True, scaling=scaling), net, make_step, x0, 20)


def test_float64_rolls_out_on_the_reference():
    net = network().double()
    x0 = torch.randn(3, 4, dtype=torch.float64)
    with torch.no_grad():
        want = by_hand(net, x0, 10)
    torch.testing.assert_close(net.rollout(x0, 10), want, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("backend", ["eager", "reference"])
def test_other_backends_take_the_same_steps_one_by_one(backend):
    net, x0 = network(), torch.randn(5, 4, generator=torch.Generator().manual_seed(1))
    net.backend = backend
    with torch.no_grad():
        want = by_hand(net, x0, 7)
    torch.testing.assert_close(net.rollout(x0, 7), want, rtol=1e-5, atol=1e-6)


def test_no_steps():
    assert network().rollout(torch.zeros(2, 4), 0).shape == (2, 0, 4)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: network().rollout(torch.zeros(3), 5), "the input's last dimension must be n_in = 4"),
        (lambda: network().rollout(torch.zeros(4), -1), "steps must be an integer of at least 0, got -1"),
        (lambda: lln.LensNetwork(4, 3).rollout(torch.zeros(4), 5), "the network maps 4 coordinates to 3"),
    ],
)
def test_bad_input_gets_one_sentence(act, message):
    with pytest.raises(lln.InputError, match=message):
        act()


def test_a_rollout_in_float64_is_the_loop_in_float64():
    network = lln.LensNetwork(4, 4, width=21, depth=5, generator=torch.Generator().manual_seed(3)).double()
    x = torch.randn(6, 4, dtype=torch.float64)
    states, now = network.rollout(x, 12, increments=True), x
    network.backend = "reference"
    for k in range(12):
        with torch.no_grad():
            now = now + network(now)
        torch.testing.assert_close(states[:, k], now, rtol=1e-12, atol=1e-12)
