import os
import threading

import cpu_arrays
import numpy as np
import pytest
import torch

from lln.core.errors import InputError
from lln.data import cache
from lln.ops import backends, factored, lens_transport, reference
from lln.ops.cpu import backend as cpu_backend
from lln.ops.cpu import simd as cpu_compile
from lln.ops.grid import even_grid
from lln.ops.triton import backend as triton_backend

CENTERS, SIGMA, LENGTH, SCALE = (-2.0, -1.0, 0.0, 1.0, 2.0), 1.1, 0.3, 0.7


def operands(seed=0, shape=(1, 6, 9), depth=4):
    generator = torch.Generator().manual_seed(seed)
    rays = [torch.randn(shape, generator=generator) for _ in range(4)]
    lenses = 0.3 * torch.randn(shape[0], depth, shape[-1], len(CENTERS), generator=generator)
    return *rays, lenses


def same(found, expected):
    return all(torch.equal(a, torch.as_tensor(np.asarray(b.detach()))) for a, b in zip(found, expected, strict=True))


@pytest.mark.skipif(cpu_backend.unavailable() is not None, reason="no compiled kernels here")
def test_the_backend_that_is_named_is_the_one_that_computes():
    y, theta, grad_y, grad_theta, lenses = operands()
    grid = even_grid(CENTERS, SIGMA, "float32")
    arrays = [t.numpy() for t in (y, theta, grad_y, grad_theta, lenses)]
    leaves = [t[0].clone().requires_grad_() for t in (y, theta, lenses)]
    ends = reference.lens_transport(*leaves, CENTERS, SIGMA, LENGTH, SCALE)
    slopes = torch.autograd.grad(ends, leaves, (grad_y[0], grad_theta[0]))
    optics = (grid, LENGTH, SCALE)
    forward = {
        "reference": [t[None] for t in ends],
        "eager": factored.forward(y, theta, lenses, *optics),
        "cpu": [torch.from_numpy(a) for a in cpu_arrays.forward(arrays[0], arrays[1], arrays[4], *optics)],
    }
    backward = {
        "reference": [t[None] for t in slopes],
        "eager": factored.backward((y, theta), (grad_y, grad_theta), lenses, *optics),
        "cpu": [torch.from_numpy(a) for a in cpu_arrays.backward(*arrays, *optics)],
    }
    # Each has a rounding of its own, to the bit.
    for name in forward:
        serves = backends.served(name, y.device, y.dtype, CENTERS, SIGMA, LENGTH, SCALE)
        found, _ = serves.forward(y, theta, lenses)
        assert [other for other, expected in forward.items() if same(found, expected)] == [name]
        found = serves.backward((y, theta), (grad_y, grad_theta), lenses, False)
        assert [other for other, expected in backward.items() if same(found, expected)] == [name]


@pytest.mark.parametrize(
    ("version", "says"),
    [("0.46.0", None), ("1.0.0rc1", None), ("0.45.9", "llvmlite 0.45.9 is too old: it needs 0.46 or newer")],
)
def test_versions_of_llvmlite_before_046_are_refused(monkeypatch, version, says):
    monkeypatch.setattr("importlib.metadata.version", lambda _name: version)
    assert cpu_backend.unavailable.__wrapped__() == says


@pytest.mark.skipif(cpu_backend.unavailable() is not None, reason="no compiled kernels here")
def test_no_rays_leave_a_gradient_of_zero_in_memory_that_held_something_else():
    y, theta, grad_y, grad_theta, lenses = (t.numpy() for t in operands())
    out = (y[:, :0].copy(), y[:, :0].copy(), np.full_like(lenses, np.nan))
    given = [a[:, :0].copy() for a in (y, theta, grad_y, grad_theta)]
    cpu_arrays.backward(*given, lenses, even_grid(CENTERS, SIGMA, "float32"), LENGTH, SCALE, out=out)
    assert (out[2] == 0).all()


def test_a_stack_that_is_known_is_checked_all_the_same():
    y, theta, _, _, lenses = (t[0] for t in operands())
    lenses = lenses.clone().requires_grad_()
    for _ in range(2):
        assert lens_transport(y, theta, lenses, CENTERS, SIGMA, LENGTH, SCALE)[1].requires_grad
    sigma = torch.tensor(SIGMA, requires_grad=True)
    ends = lens_transport(y, theta, lenses, CENTERS, sigma, LENGTH, SCALE)
    assert torch.autograd.grad(ends[1].sum(), sigma)[0] != 0
    assert (
        lens_transport(y.half(), theta.half(), lenses.half(), CENTERS, SIGMA, LENGTH, SCALE)[0].dtype == torch.float16
    )
    for wrong, says in (
        ((y[:, 1:], theta, lenses, CENTERS, SIGMA), "y must have shape"),
        ((y, theta[1:], lenses, CENTERS, SIGMA), "theta must have the shape of y"),
        ((y, theta, lenses, CENTERS[1:], SIGMA), "centers must have shape"),
        ((y, theta, lenses, CENTERS, -SIGMA), "sigma must be above zero"),
    ):
        with pytest.raises(InputError, match=says):
            lens_transport(*wrong, LENGTH, SCALE)
    with pytest.raises(InputError, match="unknown backend"):
        lens_transport(y, theta, lenses, CENTERS, SIGMA, LENGTH, SCALE, backend="cpuu")


def test_what_is_known_is_bounded(monkeypatch):
    monkeypatch.setattr(backends, "_MOST_KNOWN", 3)
    for step in range(8):
        backends.served("eager", torch.device("cpu"), torch.float32, CENTERS, SIGMA, LENGTH + step, SCALE)
        assert len(backends.known) <= 3 or step == 0


def test_a_forked_child_is_not_locked_out_by_a_thread_that_it_has_not_got():
    cpu_compile.levels()
    modules = (cpu_compile, cpu_backend, cache)
    held, over = threading.Event(), threading.Event()

    def hold():
        with cpu_compile._lock, cpu_backend._lock, cache._lock:
            held.set()
            over.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    child = os.fork()
    if child == 0:
        os._exit(0 if all(module._lock.acquire(timeout=10) for module in modules) else 1)
    status = os.waitpid(child, 0)[1]
    over.set()
    holder.join()
    assert os.waitstatus_to_exitcode(status) == 0


def test_a_grid_too_wide_for_one_range_of_exponents_is_split_and_stays_right():
    centers, sigma = tuple(float(k) for k in range(-20, 21)), 1.0
    grid = even_grid(centers, sigma, "float32")
    assert len(grid.groups) > 1
    y = torch.linspace(-23, 23, 400)[None, :, None]
    lenses = torch.randn(1, 1, 1, len(centers), generator=torch.Generator().manual_seed(0))
    theta = torch.zeros_like(y)
    exact = reference.lens_transport(y.double(), theta.double(), lenses[0].double(), centers, sigma, 0.0, 1.0)[1]
    found = factored.forward(y, theta, lenses, grid, 0.0, 1.0)[1]
    # A dozen terms of about one, each right to a few units of 6e-8.
    torch.testing.assert_close(found.double(), exact, rtol=0, atol=5e-6)


def test_far_from_all_lenses_nothing_is_bent_at_all():
    centers = tuple(float(k) for k in range(-6, 7))  # as wide as one range of exponents allows
    y = torch.tensor([-1e6, -1e3, 1e3, 1e6])[None, :, None]
    lenses = torch.ones(1, 1, 1, len(centers))
    assert (factored.forward(y, torch.zeros_like(y), lenses, even_grid(centers, 1.0), 0.0, 1.0)[1] == 0).all()


@pytest.mark.parametrize("apart", [4.0, 10.0])
def test_narrow_lenses_far_apart_stand_alone(apart):
    centers = tuple(apart * k for k in range(-3, 4))
    grid = even_grid(centers, 1.0, "float32")
    assert {group.count for group in grid.groups} == {1}
    y = torch.linspace(-6 * apart, 6 * apart, 301)[None, :, None]
    lenses = torch.ones(1, 1, 1, len(centers))
    found = factored.forward(y, torch.zeros_like(y), lenses, grid, 0.0, 1.0)[1]
    exact = reference.lens_transport(y, torch.zeros_like(y), lenses[0], centers, 1.0, 0.0, 1.0)[1]
    # y - c loses up to 60 * 6e-8, which a slope below one passes on.
    torch.testing.assert_close(found, exact, rtol=0, atol=1e-5)


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is here")
def test_without_a_gpu_the_triton_kernels_say_that_it_is_missing():
    assert triton_backend.unavailable() == "no NVIDIA GPU is visible to torch"


@pytest.mark.parametrize("name", ["sigma", "length", "scale"])
def test_a_number_that_is_a_tensor_gets_its_gradient_beside_centers_that_are_floats(name):
    y, theta, lenses = torch.rand(5, 4), torch.rand(5, 4), torch.rand(3, 4, 6)
    numbers = {"sigma": 0.7, "length": 0.3, "scale": 0.5}
    numbers[name] = torch.tensor(numbers[name], requires_grad=True)
    lens_transport(y, theta, lenses, tuple(float(k) for k in range(6)), **numbers)[1].sum().backward()
    assert numbers[name].grad.abs() > 1e-6


def test_coefficients_on_another_device_are_refused():
    y, theta, lenses = torch.rand(5, 4), torch.rand(5, 4), torch.rand(3, 4, 5, device="meta")
    with pytest.raises(InputError, match="coefficients is on meta but y is on cpu"):
        lens_transport(y, theta, lenses, CENTERS, SIGMA, LENGTH)


def test_the_slope_of_a_lens_is_the_derivative_of_its_field():
    y = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    layer = torch.randn(4, len(CENTERS), dtype=torch.float64)
    (slope,) = torch.autograd.grad(reference.lens_field(y, layer, CENTERS, SIGMA).sum(), y)
    torch.testing.assert_close(reference.lens_slope(y, layer, CENTERS, SIGMA), slope, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("sigma", "wide"), [(3.5, False), (3.6, True)])
def test_groups_are_short_where_sigma_exceeds_the_spacing_by_far(sigma, wide):
    grid = even_grid(tuple(float(k) for k in range(20)), sigma, "float32")
    reach = max(max(group.below, group.above) for group in grid.groups)
    assert (grid.wide, reach <= 3) == (wide, wide)
