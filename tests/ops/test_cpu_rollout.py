"""The closed loop in one kernel against a loop over the reference."""

import numpy as np
import pytest
import torch
from torch.nn.functional import linear

from lln.ops import reference
from lln.ops.cpu import backend as cpu_backend
from lln.ops.cpu.networks import rollout
from lln.ops.grid import even_grid
from lln.ops.rollout import Networks, Scaling

if cpu_backend.unavailable():
    pytest.skip(f"CPU kernels: {cpu_backend.unavailable()}", allow_module_level=True)

from lln.ops.cpu.simd import levels

K, SIGMA, LENGTH, SCALE = 12, 6.0 / 11.0, 0.1, 0.1
CENTERS = tuple(np.linspace(-3.0, 3.0, K))
GRID = even_grid(CENTERS, SIGMA)


def network(S, h, n, D, angles=True):
    draw = torch.Generator().manual_seed(0)

    def normal(*shape, std):
        return torch.randn(*shape, generator=draw) * std

    return Networks(
        normal(S, h, n, std=n**-0.5),
        normal(S, h, std=0.1),
        normal(S, h, n, std=n**-0.5) if angles else None,
        normal(S, h, std=0.1) if angles else None,
        normal(S, D, h, K, std=0.3),
        normal(S, n, h, std=h**-0.5),
        normal(S, n, std=0.1),
        CENTERS,
        SIGMA,
        LENGTH,
        SCALE,
    )


def plain(net, starts, steps, dtype, increments=False, scaling=None):
    def cast(x, member):
        return None if x is None else x[member].to(dtype)

    units = [torch.zeros(1), torch.ones(1), torch.ones(1), torch.zeros(1)]
    if scaling is not None:
        units = list(vars(scaling).values())
    mean, deviation, factor, shift = (u.to(dtype) for u in units)
    members = []
    for m in range(len(starts)):
        w_y, b_y, w_t, b_t, a, w_o, b_o = (cast(x, m) for x in list(vars(net).values())[:7])
        x, states = starts[m].to(dtype), []
        for _ in range(steps):
            scaled = (x - mean) / deviation
            y = linear(scaled, w_y, b_y)
            theta = torch.zeros_like(y) if w_t is None else torch.tanh(linear(scaled, w_t, b_t))
            y, _ = reference.lens_transport(y, theta, a, CENTERS, SIGMA, LENGTH, SCALE)
            out = linear(y, w_o, b_o) * factor + shift
            x = x + out if increments else out
            states.append(x)
        members.append(torch.stack(states))
    return torch.stack(members)


def starts(S, B, n):
    return torch.from_numpy(np.random.default_rng(1).normal(size=(S, B, n)).astype(np.float32))


def scaling(n):
    draw = np.random.default_rng(2)
    rows = (draw.normal(size=n), draw.uniform(0.5, 2.0, n), draw.uniform(0.01, 0.1, n), 0.01 * draw.normal(size=n))
    return Scaling(*(torch.from_numpy(row.astype(np.float32)) for row in rows))


@pytest.mark.parametrize("level", levels())
@pytest.mark.parametrize(
    ("S", "B", "h", "n", "angles", "increments", "scaled"),
    [
        (1, 1, 64, 3, True, False, False),
        (3, 7, 37, 5, True, True, True),
        (2, 2, 70, 32, False, True, True),
        (1, 1, 1, 1, True, False, True),
        (1, 13, 100, 17, True, False, False),
    ],
)
def test_follows_the_loop_over_the_reference(S, B, h, n, angles, increments, scaled, level):
    net, x = network(S, h, n, 6, angles), starts(S, B, n)
    options = {"increments": increments, "scaling": scaling(n) if scaled else None}
    with cpu_backend.forced(level):
        ours = rollout(net, x, 6, GRID, **options)
    exact = plain(net, x, 6, torch.float64, **options)
    naive = plain(net, x, 6, torch.float32, **options)
    allowed = max(2.0 * float((naive - exact).norm()), 2.0**-23 * float(exact.norm()))
    assert ours.shape == exact.shape
    assert float((ours - exact).norm()) <= allowed


def test_the_same_bits_for_any_number_of_threads():
    net, x = network(2, 40, 4, 20), starts(2, 33, 4)
    one = rollout(net, x, 20, GRID, threads=1)
    for threads in (2, 3, 16):
        assert torch.equal(one, rollout(net, x, 20, GRID, threads=threads))


def test_a_diverged_start_does_not_touch_the_others():
    net, x = network(1, 20, 3, 4), starts(1, 6, 3)
    before = rollout(net, x, 5, GRID)
    x[0, 2] = torch.nan
    after = rollout(net, x, 5, GRID)
    others = [0, 1, 3, 4, 5]
    assert after[0, :, 2].isnan().all()
    assert torch.equal(before[:, :, others], after[:, :, others])


@pytest.mark.parametrize(("B", "steps"), [(0, 3), (2, 0)])
def test_nothing_to_do(B, steps):
    assert rollout(network(1, 8, 2, 2), starts(1, B, 2), steps, GRID).shape == (1, steps, B, 2)
