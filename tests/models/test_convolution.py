import itertools

import numpy as np
import pytest
import torch
from torch.nn import functional

from lln.core.errors import InputError
from lln.models import convolution
from lln.models.convolution import _sampled_patches, convolve, convolve_members, kernel_shape, pad, patches, sides

MODES = {"periodic": "wrap", "neumann": "reflect", "replicate": "edge"}


def field(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@pytest.mark.parametrize("boundary", MODES)
@pytest.mark.parametrize(("before", "after"), [(3, 3), (2, 3), (0, 4)])
def test_padding_is_numpys(boundary, before, after):
    x = field(2, 7, 3)
    expected = np.pad(x.numpy(), ((0, 0), (before, after), (0, 0)), mode=MODES[boundary])
    assert np.array_equal(pad(x, -2, before, after, (boundary, boundary)).numpy(), expected)


def test_dirichlet_padding_is_the_odd_reflection():
    x = field(2, 7, 3)
    expected = np.pad(x.numpy(), ((0, 0), (3, 2), (0, 0)), mode="reflect", reflect_type="odd")
    assert np.allclose(pad(x, -2, 3, 2, ("dirichlet", "dirichlet")).numpy(), expected, rtol=0, atol=1e-15)


def test_sides_may_differ():
    x = field(5, 1)
    wide = pad(x, -2, 2, 2, ("dirichlet", "replicate"))[:, 0]
    assert torch.equal(wide[:2], 2 * x[0] - x[[2, 1], 0])
    assert torch.equal(wide[-2:], x[[4, 4], 0])


def test_a_periodic_kernel_may_be_longer_than_the_grid():
    x = torch.arange(3.0).unsqueeze(-1)
    assert pad(x, -2, 4, 4, ("periodic", "periodic"))[:, 0].tolist() == [2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0]


def test_a_mirrored_kernel_must_fit():
    with pytest.raises(InputError, match="reaches 3 points beyond a neumann side, but the grid has 3 points"):
        convolve(field(3, 1), field(1, 7), None, (7,), sides("neumann", 1))


def by_hand(x, weight, bias, kernel, boundary):
    """Point by point, offset by offset, with numpy's padding."""
    wide = x.numpy()
    for axis, (size, (low, high)) in enumerate(zip(kernel, boundary, strict=True)):
        before, after = (size - 1) // 2, size // 2
        for side, amounts in ((low, (before, 0)), (high, (0, after))):
            if side == "periodic":
                continue
            odd = {"reflect_type": "odd"} if side == "dirichlet" else {}
            mode = "reflect" if side == "dirichlet" else MODES[side]
            wide = np.pad(wide, [amounts if a == axis else (0, 0) for a in range(wide.ndim)], mode=mode, **odd)
        if low == "periodic":
            wide = np.pad(wide, [(before, after) if a == axis else (0, 0) for a in range(wide.ndim)], mode="wrap")
    out = np.zeros((*x.shape[:-1], len(weight)))
    filters = weight.numpy().reshape(len(weight), *kernel, x.shape[-1])
    for point in itertools.product(*map(range, x.shape[:-1])):
        window = wide[tuple(slice(p, p + k) for p, k in zip(point, kernel, strict=True))]
        out[point] = (filters * window).reshape(len(weight), -1).sum(axis=1) + bias.numpy()
    return out


@pytest.mark.parametrize(
    ("points", "kernel", "boundary"),
    [
        ((8,), (3,), "periodic"),
        ((9,), (4,), [("dirichlet", "neumann")]),
        ((6, 5), (3, 5), ["periodic", ("replicate", "dirichlet")]),
        ((4, 5, 3), (3, 2, 1), ["neumann", "periodic", "replicate"]),
    ],
)
def test_convolution_is_what_it_says_by_both_ways(points, kernel, boundary):
    x, faces = field(*points, 2), sides(boundary, len(points))
    weight, bias = field(4, int(np.prod(kernel)) * 2, seed=1), field(4, seed=2)
    truth = by_hand(x, weight, bias, kernel, faces)
    assert np.allclose(convolve(x, weight, bias, kernel, faces).numpy(), truth, rtol=0, atol=1e-13)
    assert np.allclose(functional.linear(patches(x, kernel, faces), weight, bias).numpy(), truth, rtol=0, atol=1e-13)


@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize(("channels", "out"), [(1, 6), (1, 1), (2, 1), (20, 1), (3, 2)])
def test_gathering_and_shifting_give_the_same(channels, out, dilation, with_bias, monkeypatch):
    monkeypatch.setattr(convolution, "_CALL", 0)  # which of them serves then depends on the channels alone
    kernel, faces = (3, 4), sides([("dirichlet", "neumann"), ("replicate", "dirichlet")], 2)
    x, weight = field(2, 3, 11, 12, channels), field(out, 12 * channels, seed=1)
    bias = field(out, seed=2) if with_bias else None
    steps = [dilation, dilation]
    expected = functional.linear(convolution._whole_patches(x, kernel, faces, steps), weight, bias)
    found = convolution._products(x, weight, bias, kernel, faces, steps)
    assert torch.allclose(found, expected, rtol=0, atol=1e-13)
    assert torch.allclose(convolution._native(x, weight, bias, kernel, faces, steps), expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("channels", [3, 7])
def test_gradients_of_shifted_products(channels, monkeypatch):
    monkeypatch.setattr(convolution, "_CALL", 0)
    x, weight, bias = (field(*shape).requires_grad_() for shape in ((2, 8, channels), (1, 5 * channels), (1,)))
    faces = sides([("dirichlet", "replicate")], 1)
    assert torch.autograd.gradcheck(lambda *args: convolve(*args, (5,), faces), (x, weight, bias))


def test_leading_dimensions_are_batch():
    x, weight = field(2, 3, 8, 2), field(4, 6, seed=1)
    out = convolve(x, weight, None, (3,), sides("periodic", 1))
    assert torch.allclose(out[1, 2], convolve(x[1, 2], weight, None, (3,), sides("periodic", 1)))


def test_a_whole_ratio_leaves_every_second_point_as_on_the_coarse_grid():
    x, weight = field(16, 16, 1), field(2, 15, seed=1)
    faces = sides("periodic", 2)
    fine = convolve(x, weight, None, (3, 5), faces, ratio=(2, 2))
    coarse = convolve(x[::2, ::2], weight, None, (3, 5), faces)
    assert torch.allclose(fine[::2, ::2], coarse, rtol=0, atol=1e-13)


def test_interpolated_patches_agree_with_whole_ones_and_err_by_the_fourth_power():
    x, faces = field(9, 10, 2), sides(["periodic", "neumann"], 2)
    sampled = _sampled_patches(x, (3, 3), faces, [1.0, 1.0])
    assert torch.allclose(sampled, patches(x, (3, 3), faces), rtol=0, atol=1e-14)

    weight = field(1, 5, seed=1)
    errors = []
    for points in (30, 60, 120):
        grid = torch.arange(points, dtype=torch.float64) / points
        wave = torch.sin(2 * torch.pi * grid).unsqueeze(-1)
        offsets = torch.arange(-2, 3, dtype=torch.float64) / 20  # a kernel learned on 20 points
        exact = sum(w * torch.sin(2 * torch.pi * (grid + o)) for w, o in zip(weight[0], offsets, strict=True))
        got = convolve(wave, weight, None, (5,), sides("periodic", 1), ratio=(points / 20,))
        errors.append((got[:, 0] - exact).abs().max().item())
    # 30 points lie between the kernel's; 60 and 120 are whole ratios and exact
    assert errors[0] < 3e-3
    assert errors[1] < 1e-12
    assert errors[2] < 1e-12
    shifts = []
    for points in (33, 66):
        grid = torch.arange(points, dtype=torch.float64) / points
        got = convolve(
            torch.sin(2 * torch.pi * grid).unsqueeze(-1), weight, None, (5,), sides("periodic", 1), ratio=(points / 20,)
        )
        exact = sum(w * torch.sin(2 * torch.pi * (grid + o)) for w, o in zip(weight[0], offsets, strict=True))
        shifts.append((got[:, 0] - exact).abs().max().item())
    # the order is 4: twice the points, a sixteenth of the error, give or take where offsets fall between points
    assert shifts[0] / shifts[1] > 10


@pytest.mark.parametrize(
    ("boundary", "message"),
    [
        ("perodic", "unknown boundary of axis 0 'perodic'; did you mean 'periodic'"),
        (["periodic"], "one condition for each of 2 axes, got 1"),
        (["periodic", ("periodic", "neumann")], "boundary of axis 1 must be periodic on both sides or on neither"),
        (["periodic", ("neumann",)], "boundary of axis 1 must be one condition or"),
    ],
)
def test_a_wrong_boundary_is_named(boundary, message):
    with pytest.raises(InputError, match=message):
        sides(boundary, 2)


def test_a_wrong_kernel_is_named():
    assert kernel_shape(3, 2) == (3, 3)
    with pytest.raises(InputError, match="one size for each of 2 axes, got 1"):
        kernel_shape([3], 2)
    with pytest.raises(InputError, match="kernel of axis 1 must be an integer of at least 1, got 0"):
        kernel_shape([3, 0], 2)


@pytest.mark.parametrize("shared", [False, True])
def test_members_elsewhere_than_on_a_cpu_have_the_same_shape(shared):
    x, weight, bias = field(1 if shared else 3, 4, 7, 5, 2), field(3, 6, 18), field(3, 6)
    options = ((3, 3), sides("periodic", 2))
    here = convolve_members(x, weight, bias, *options)
    assert convolve_members(x.to("meta"), weight.to("meta"), bias.to("meta"), *options).shape == here.shape
