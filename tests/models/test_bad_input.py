import math

import numpy as np
import pytest
import torch

from lln import InputError, LensNetwork
from lln.models import MODELS, build

ANY = pytest.mark.parametrize("name", MODELS)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_in": 0}, "n_in must be an integer of at least 1, got 0"),
        ({"n_out": 2.0}, "n_out must be an integer of at least 1, got 2.0"),
        ({"width": 0}, "width must be an integer of at least 1, got 0"),
        ({"depth": -1}, "depth must be an integer of at least 1, got -1"),
        ({"depth": True}, "depth must be an integer of at least 1, got True"),
        ({"basis": 0}, "basis must be an integer of at least 1, got 0"),
        ({"optical_length": math.nan}, "optical_length must be a finite number, got nan"),
        ({"optical_length": "one"}, "optical_length must be a finite number, got 'one'"),
        ({"lens_scale": math.inf}, "lens_scale must be a finite number, got inf"),
        ({"propagation": -math.inf}, "propagation must be a finite number, got -inf"),
        ({"sigma": 0.0}, "sigma must be above zero, got 0.0"),
        ({"sigma": math.nan}, "sigma must be a finite number, got nan"),
        ({"control_range": (1.0, -1.0)}, r"control_range must be (low, high) with low < high, got (1.0, -1.0)"),
        ({"control_range": 3.0}, "control_range must be a pair (low, high), got 3.0"),
        ({"control_range": (0.0, math.inf)}, "control_range[1] must be a finite number, got inf"),
        (
            {"initial_angle": "zeros"},
            "unknown initial_angle 'zeros'; did you mean 'zero'? (known: 'learned', 'zero')",
        ),
    ],
)
def test_lens_network_says_what_it_expected(options, message):
    with pytest.raises(InputError) as caught:
        LensNetwork(**{"n_in": 3, "n_out": 3, "width": 4, "depth": 2, **options})
    assert str(caught.value) == message


@ANY
@pytest.mark.parametrize("option", ["width", "depth"])
def test_sizes_of_every_network(name, option):
    with pytest.raises(InputError, match=f"{option} must be an integer of at least 1, got -3"):
        build(name, 3, 3, **{option: -3})


def test_unknown_names():
    with pytest.raises(InputError, match="unknown model 'residul'; did you mean 'residual'"):
        build("residul", 3, 3)
    with pytest.raises(InputError, match="unknown model 'xyz'; expected one of 'lens', 'mlp'"):
        build("xyz", 3, 3)
    with pytest.raises(InputError, match="model 'lens' has no option 'widht'; did you mean 'width'"):
        build("lens", 3, 3, widht=8)
    with pytest.raises(InputError, match="model 'mlp' has no option 'basis'"):
        build("mlp", 3, 3, basis=8)
    with pytest.raises(InputError, match="initial_scale must be a finite number, got nan"):
        build("layerscale", 3, 3, initial_scale=math.nan)


@ANY
@pytest.mark.parametrize("method", ["forward", "states"])
@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.zeros(5, 4), "the input's last dimension must be n_in = 3, got shape (5, 4)"),
        (torch.zeros(()), "the input's last dimension must be n_in = 3, got shape ()"),
        (
            torch.zeros(5, 3, dtype=torch.int64),
            "the input must be floating point, got torch.int64; convert it with .float()",
        ),
        (torch.zeros(5, 3, dtype=torch.complex64), "the input must be floating point, got torch.complex64"),
        (np.zeros((5, 3)), "the input must be a torch tensor, got ndarray"),
        (torch.zeros(5, 3, device="meta"), "the input is on meta but the network is on cpu; move one with .to(...)"),
        (torch.zeros(5, 3).double(), "the input is torch.float64 but the network is torch.float32; convert one"),
    ],
)
def test_inputs_of_every_network(name, method, x, message):
    network = build(name, 3, 3, width=4, depth=2)
    with pytest.raises(InputError) as caught:
        getattr(network, method)(x)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("y", "theta", "message"),
    [
        (torch.zeros(2, 5), torch.zeros(2, 4), "y_D must have shape (..., 4), got (2, 5)"),
        (torch.zeros(2, 4), torch.zeros(()), "theta_D must have shape (..., 4), got ()"),
        (torch.zeros(2, 4, dtype=torch.int32), torch.zeros(2, 4), "y_D must be floating point, got torch.int32"),
        (torch.zeros(2, 4), torch.zeros(2, 4, device="meta"), "theta_D is on meta but the network is on cpu"),
        ([0.0] * 4, torch.zeros(4), "y_D must be a torch tensor, got list"),
    ],
)
def test_inverse_says_what_it_expected(y, theta, message):
    with pytest.raises(InputError) as caught:
        LensNetwork(3, 3, width=4, depth=2).inverse(y, theta)
    assert message in str(caught.value)


def test_an_input_error_is_a_value_error():
    assert issubclass(InputError, ValueError)


def test_non_finite_numbers_pass_through_and_stay_visible():
    """A network answers NaN with NaN in that sample alone; refusing data is the business of whoever loads it."""
    network = LensNetwork(3, 3, width=4, depth=2, generator=torch.Generator().manual_seed(0))
    x = torch.zeros(4, 3)
    x[1, 0] = math.nan
    bad = network(x).isnan().any(-1)
    assert bad.tolist() == [False, True, False, False]


@pytest.mark.parametrize(("name", "width"), [("lens", 10**8), ("mlp", 10**7)])
def test_sizes_that_do_not_fit_into_memory_are_refused_before_anything_is_made(name, width):
    with pytest.raises(InputError, match=rf"a network '{name}' of width {width:,} and depth 40 needs .* GiB of memory"):
        build(name, 3, 3, width=width, depth=40, **({"basis": 12} if name == "lens" else {}))
