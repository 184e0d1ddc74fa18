import copy
import math

import pytest
import torch

from lln import LensNetwork
from lln.core.errors import InputError, RenamedWarning
from lln.models.factory import build

DTYPES = [torch.float32, torch.float64]


def make(seed=0, **options):
    defaults = {"width": 7, "depth": 5, "basis": 4, "optical_length": 1.3, "lens_scale": 0.8}
    network = LensNetwork(3, 2, **{**defaults, **options}, generator=torch.Generator().manual_seed(seed)).double()
    network.coefficients.data.mul_(30)  # lenses that matter
    return network


def inputs(*shape, seed=1, dtype=torch.float64):
    return torch.randn(*shape, 3, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def algorithm_1(network, x):
    """The paper's Algorithm 1 for one sample, scalar by scalar."""
    weight, bias = network.embed_position.weight.tolist(), network.embed_position.bias.tolist()
    y = [sum(w * v for w, v in zip(row, x, strict=True)) + b for row, b in zip(weight, bias, strict=True)]
    if network.embed_angle is None:
        theta = [0.0] * network.width
    else:
        weight, bias = network.embed_angle.weight.tolist(), network.embed_angle.bias.tolist()
        theta = [
            math.tanh(sum(w * v for w, v in zip(row, x, strict=True)) + b) for row, b in zip(weight, bias, strict=True)
        ]
    states = [(list(y), list(theta))]
    low, high = network.control_range
    for layer in network.coefficients.tolist():
        for j in range(network.width):
            y[j] += network.length * theta[j]
            bend = 0.0
            for k, a in enumerate(layer[j]):
                c = low + (high - low) * k / (network.basis - 1) if network.basis > 1 else (low + high) / 2
                bend += a * math.exp(-(((y[j] - c) / network.sigma) ** 2))
            theta[j] += network.lens_scale * bend
        states.append((list(y), list(theta)))
    weight, bias = network.readout.weight.tolist(), network.readout.bias.tolist()
    out = [sum(w * v for w, v in zip(row, y, strict=True)) + b for row, b in zip(weight, bias, strict=True)]
    return out, states


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"depth": 1},
        {"basis": 1},
        {"initial_angle": "zero"},
        {"lens_scale": 0.0},
        {"lens_scale": -1.5},
        {"propagation": 0.0},
        {"propagation": -0.3},
        {"control_range": (-1.0, 2.5), "sigma": 0.4},
    ],
)
def test_forward_and_states_are_algorithm_1(options):
    network = make(**options)
    x = inputs(4)
    out, states = network(x), network.states(x)
    assert len(states) == network.depth + 1
    for i, sample in enumerate(x.tolist()):
        expected_out, expected_states = algorithm_1(network, sample)
        # A few hundred float64 operations on numbers near 1.
        torch.testing.assert_close(out[i].tolist(), expected_out, rtol=1e-12, atol=1e-12)
        for (y, theta), (expected_y, expected_theta) in zip(states, expected_states, strict=True):
            torch.testing.assert_close(y[i].tolist(), expected_y, rtol=1e-12, atol=1e-12)
            torch.testing.assert_close(theta[i].tolist(), expected_theta, rtol=1e-12, atol=1e-12)


def test_transport_ends_where_states_end():
    network, x = make(), inputs(6)
    end = network.transport(*network.embed(x))
    # Backends may order the operations differently.
    torch.testing.assert_close(tuple(end), tuple(network.states(x)[-1]), rtol=1e-13, atol=1e-13)
    torch.testing.assert_close(network(x), network.readout(end.y), rtol=0, atol=0)


def test_length_is_optical_length_over_depth_unless_given():
    assert make(optical_length=2.0, depth=8).length == 0.25
    assert make(optical_length=2.0, depth=8, propagation=0.7).length == 0.7


def test_the_old_name_of_the_optical_length_works_with_a_warning():
    with pytest.warns(RenamedWarning, match="horizon of a lens network is now called optical_length") as caught:
        old = LensNetwork(3, 3, width=4, depth=8, horizon=2.0)
    assert caught[0].filename == __file__
    assert old.length == 0.25
    assert old.config()["optical_length"] == 2.0
    assert "horizon" not in old.config()
    assert build("lens", 3, 3, width=4, depth=8, horizon=2.0).length == 0.25  # as files and studies name it
    with pytest.raises(InputError, match="horizon is the old name of optical_length; give one of the two"):
        LensNetwork(3, 3, width=4, depth=8, horizon=2.0, optical_length=3.0)


def test_control_points_and_width():
    network = LensNetwork(3, 3, width=2, depth=1)
    assert network.centers[0] == -3.0
    assert network.centers[-1] == 3.0
    assert network.sigma == pytest.approx(6 / 11)
    torch.testing.assert_close(
        torch.tensor(network.centers, dtype=torch.float64), torch.linspace(-3, 3, 12, dtype=torch.float64)
    )
    alone = LensNetwork(3, 3, width=2, depth=1, basis=1, control_range=(0.0, 4.0))
    assert alone.centers == (2.0,)
    assert alone.sigma == 4.0


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("options", [{}, {"propagation": 0.0}, {"lens_scale": 0.0}, {"initial_angle": "zero"}])
def test_inverse_undoes_the_transport(options, dtype):
    network, x = make(**options).to(dtype), inputs(20, dtype=dtype)
    start = network.embed(x)
    back = network.inverse(*network.transport(*start))
    # Rounding of 2 x 5 layers, magnified by |J| < 100 here.
    torch.testing.assert_close(tuple(back), tuple(start), rtol=0, atol=1000 * torch.finfo(dtype).eps)


def test_forward_undoes_the_inverse():
    network = make()
    end = torch.randn(2, 9, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    there = network.transport(*network.inverse(*end))
    torch.testing.assert_close(torch.stack(there), end, rtol=0, atol=1e-12)


def test_without_lenses_rays_are_straight():
    network, x = make(lens_scale=0.0), inputs(5)
    (y, theta), end = network.embed(x), network.states(x)[-1]
    assert torch.equal(end.theta, theta)
    torch.testing.assert_close(end.y, y + network.optical_length * theta, rtol=1e-14, atol=1e-14)


def test_without_flight_positions_stay_and_every_lens_bends_at_the_same_place():
    network, x = make(propagation=0.0), inputs(5)
    states = network.states(x)
    assert all(torch.equal(state.y, states[0].y) for state in states)
    merged = copy.deepcopy(network)
    with torch.no_grad():
        merged.coefficients[0] = network.coefficients.sum(0)
        merged.coefficients[1:] = 0
    torch.testing.assert_close(merged.states(x)[-1].theta, states[-1].theta, rtol=1e-13, atol=1e-13)


def test_zero_angle_starts_at_zero_and_shares_all_other_initial_values():
    zero, learned = make(initial_angle="zero"), make()
    assert not zero.embed(inputs(4)).theta.any()
    assert "embed_angle.weight" not in zero.state_dict()
    shared = zero.state_dict()
    assert all(torch.equal(shared[name], learned.state_dict()[name]) for name in shared)


def test_the_last_lens_gets_exactly_zero_gradient_from_the_readout():
    network = make()
    network(inputs(16)).square().sum().backward()
    gradient = network.coefficients.grad
    assert torch.equal(gradient[-1], torch.zeros_like(gradient[-1]))
    assert all(layer.any() for layer in gradient[:-1])


def test_gradients_agree_with_numerical_ones():
    network, x = make(width=3, depth=2, basis=2), inputs(2).requires_grad_()
    names = [name for name, _ in network.named_parameters()]

    def call(x, *values):
        return torch.func.functional_call(network, dict(zip(names, values, strict=True)), (x,))

    values = [value.detach().clone().requires_grad_() for value in network.parameters()]
    assert torch.autograd.gradcheck(call, (x, *values))


@pytest.mark.parametrize("shape", [(), (1,), (0,), (4,), (2, 3), (2, 0, 3), (2, 1, 3, 2)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_any_leading_shape(shape, dtype):
    network = make().to(dtype)
    x = inputs(*shape, dtype=dtype)
    out = network(x)
    assert out.shape == (*shape, 2)
    assert out.dtype == dtype
    rays = network.states(x)[-1]
    assert rays.y.shape == rays.theta.shape == (*shape, 7)
    assert network.inverse(*rays).y.shape == (*shape, 7)
    flat = network(x.reshape(-1, 3))
    torch.testing.assert_close(out.reshape(-1, 2), flat, rtol=1e-5, atol=1e-6)


def test_float32_follows_float64():
    network, x = make(), inputs(50)
    truth = network(x)
    torch.testing.assert_close(copy.deepcopy(network).float()(x.float()).double(), truth, rtol=0, atol=1e-4)


def test_seeded_initialisation_is_reproducible_and_leaves_the_global_generator_alone():
    torch.manual_seed(11)
    before = torch.get_rng_state()
    first, second, third = make(seed=4), make(seed=4), make(seed=5)
    assert torch.equal(torch.get_rng_state(), before)
    for name, value in first.state_dict().items():
        assert torch.equal(value, second.state_dict()[name])
        assert not torch.equal(value, third.state_dict()[name])


def test_unseeded_initialisation_follows_the_global_generator():
    torch.manual_seed(7)
    first = LensNetwork(3, 2, width=4, depth=2)
    torch.manual_seed(7)
    second = LensNetwork(3, 2, width=4, depth=2)
    assert torch.equal(first.coefficients, second.coefficients)


def test_linear_layers_start_like_nn_linear_and_lenses_are_small():
    network = LensNetwork(400, 300, width=500, depth=10, basis=12, generator=torch.Generator().manual_seed(0))
    torch.manual_seed(0)
    for ours, theirs in (
        (network.embed_position, torch.nn.Linear(400, 500)),
        (network.readout, torch.nn.Linear(500, 300)),
    ):
        bound = 1 / math.sqrt(ours.in_features)
        for mine, default in ((ours.weight, theirs.weight), (ours.bias, theirs.bias)):
            assert mine.abs().max() <= bound
            a, b = mine.detach().flatten().sort().values, default.detach().flatten().sort().values
            # Two samples of n of one distribution: sup of the quantile difference is about 2 bound * 1.36 sqrt(2 / n)
            # at 5 %; three times that is out of reach for equal distributions.
            assert (a - b).abs().max() <= 3 * 2 * bound * 1.36 * math.sqrt(2 / a.numel())
    assert network.coefficients.std().item() == pytest.approx(0.02, rel=0.02)
    assert abs(network.coefficients.mean().item()) < 4 * 0.02 / math.sqrt(network.coefficients.numel())


def test_initialisation_is_cpu_drawn_whatever_the_default_dtype():
    try:
        torch.set_default_dtype(torch.float64)
        network = LensNetwork(3, 2, width=4, depth=2, generator=torch.Generator().manual_seed(0))
    finally:
        torch.set_default_dtype(torch.float32)
    assert {value.dtype for value in network.parameters()} == {torch.float64}
    assert network(inputs(3)).dtype == torch.float64


def test_training_moves_every_parameter_but_the_last_lens():
    network, x = make(), inputs(64)
    start = copy.deepcopy(network.state_dict())
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    losses = []
    for _ in range(50):
        loss = (network(x) - x[:, :2].sin()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.2 * losses[0]
    for name, value in network.state_dict().items():
        changed = value != start[name]
        if name == "coefficients":
            assert changed[:-1].any()
            assert not changed[-1].any()
        else:
            assert changed.any()
