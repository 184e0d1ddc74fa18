"""The kernel of field networks against torch: every boundary, shape and precision, and any number of threads."""

import numpy as np
import pytest
import torch

from lln.models import FieldLensNetwork
from lln.models.convolution import convolve
from lln.ops.cpu import backend, fields
from lln.ops.cpu.fields import FieldRun, Layout
from lln.ops.cpu.simd import levels
from lln.step.field import _blocks

CASES = {
    "ring": ((20,), "periodic", {"n_in": 1, "n_out": 1, "hidden": 8, "kernel": 7}),
    "wraps twice": ((3,), "periodic", {"n_in": 1, "n_out": 1, "hidden": 8, "kernel": 9}),
    "even kernel": ((11,), "replicate", {"n_in": 2, "n_out": 3, "hidden": 24, "kernel": 4}),
    "residual blocks": ((13,), ("neumann",), {"n_in": 2, "n_out": 1, "hidden": 19, "kernel": 3, "blocks": 4}),
    "one block": ((10,), "dirichlet", {"n_in": 3, "n_out": 40, "kernel": 5, "blocks": 1}),
    "no angles": ((10,), "periodic", {"n_in": 1, "n_out": 2, "kernel": 5, "initial_angle": "zero"}),
    "plane": (
        (9, 7),
        ["periodic", ("dirichlet", "neumann")],
        {"n_in": 2, "n_out": 11, "hidden": 5, "kernel": (3, 5)},
    ),
    "corners": ((5, 6), [("dirichlet", "replicate"), ("neumann", "dirichlet")], {"n_in": 1, "n_out": 1, "kernel": 3}),
    "volume": ((4, 5, 6), "dirichlet", {"n_in": 1, "n_out": 2, "hidden": 9, "kernel": (1, 3, 2)}),
    "wide Gaussians": ((10,), "periodic", {"n_in": 1, "n_out": 1, "kernel": 3, "sigma": 4.0}),
}


def case(name, precision, dilation=1, batch=3):
    """A network, its layout, and fields."""
    space, boundary, options = CASES[name]
    seed = torch.Generator().manual_seed(0)
    options = {"width": 10, "depth": 3, "hidden": 6, "dimensions": len(space), "boundary": boundary, **options}
    network = FieldLensNetwork(**options, generator=seed).to(getattr(torch, precision)).requires_grad_(False)
    layout = Layout.of(space, network.kernel, [dilation] * len(space), network.boundary)
    x = torch.from_numpy(np.random.default_rng(1).standard_normal((batch, *space, network.n_in)))
    return network, layout, x.to(getattr(torch, precision))


def bound(network, x, ratio):
    """What rounding may do to a sum of n terms: n units of the last place of the sum of their sizes, in every block.

    The last sums are those of the readout; earlier ones reach it through lenses that stretch distances by less than 4.
    """
    layer, kernel = network.readout, network.kernel
    double = network.double()
    rays = double.states(x.double(), ratio=ratio)[-1][-1].y.abs()
    sizes = convolve(
        rays, layer.weight.double().abs(), layer.bias.double().abs(), kernel, [("replicate",) * 2] * len(kernel), ratio
    )
    terms = layer.weight.shape[1] + 10 * network.depth
    return 4 * len(network.blocks) * terms * torch.finfo(x.dtype).eps / 2 * float(sizes.max())


@pytest.mark.parametrize("level", levels())
@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("name", CASES)
def test_the_kernel_computes_what_the_network_computes(name, precision, level):
    network, layout, x = case(name, precision)
    with backend.forced(level):
        found = FieldRun([_blocks(network)], layout, len(x), 1)(x.numpy())
    limit = bound(network, x, None)
    wanted = network.double()(x.double()).numpy()
    assert np.abs(found - wanted).max() <= limit < 0.02 * np.abs(wanted).max()


@pytest.mark.parametrize("name", ["ring", "even kernel", "plane"])
def test_a_finer_grid_dilates(name):
    network, layout, x = case(name, "float64", dilation=2)
    ratio = [2.0] * len(network.kernel)
    found = FieldRun([_blocks(network)], layout, len(x), 1)(x.numpy())
    assert np.abs(found - network(x, ratio=ratio).numpy()).max() <= bound(network, x, ratio)


def test_members_count_alike():
    (one, layout, x), other = case("plane", "float64"), case("plane", "float64")[0]
    other.readout.weight.mul_(-3.0)
    found = FieldRun([_blocks(one), _blocks(other)], layout, len(x), 1)(x.numpy())
    wanted = (one(x) + other(x)).numpy() / 2
    assert np.abs(found - wanted).max() <= 3 * bound(one, x, None)


@pytest.mark.parametrize("batch", [1, 2, 7])
@pytest.mark.parametrize("name", ["residual blocks", "plane"])
def test_bits_do_not_depend_on_threads_or_batch(name, batch, monkeypatch):
    monkeypatch.setattr(fields, "THREAD_WORK", 1)
    network, layout, x = case(name, "float32", batch=batch)
    runs = [FieldRun([_blocks(network)], layout, batch, threads) for threads in (1, 2, 5)]
    assert [run.threads for run in runs] == [1, 2, 5]
    first, *others = [run(x.numpy()) for run in runs]
    alone = FieldRun([_blocks(network)], layout, 1, 1)
    assert all(np.array_equal(first, other) for other in others)
    assert all(np.array_equal(alone(one[None])[0], both) for one, both in zip(x.numpy(), first, strict=True))


def test_a_mirror_needs_points_behind_it():
    assert Layout.of((3,), (7,), (1,), (("neumann", "neumann"),)) is None
    assert Layout.of((3,), (7,), (1,), (("replicate", "replicate"),)) is not None
