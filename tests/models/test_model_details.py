import pytest
import torch

from lln import LensNetwork
from lln.models import LensEnsemble, field_cost
from lln.ops.rollout import Scaling


def members(count):
    return [LensNetwork(3, 3, width=7, depth=2, generator=torch.Generator().manual_seed(s)) for s in range(count)]


def test_one_network_is_an_ensemble_too():
    (network,) = members(1)
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(LensEnsemble([network])(x[None])[0], network(x))


def test_a_rollout_feeds_back_the_output_unless_it_is_asked_to_add_it():
    ensemble = LensEnsemble(members(2))
    state = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        second = ensemble(ensemble(state))
    torch.testing.assert_close(ensemble.rollout(state, 2)[..., -1, :], second)


@pytest.mark.parametrize("backend", ["reference", "auto"])
def test_a_rollout_in_the_users_units_scales_on_the_way_in_and_out(backend):
    (network,) = members(1)
    network.backend = backend
    mean, deviation, factor, shift = torch.tensor([[1.0, 2.0, 3.0], [2.0, 0.5, 1.5], [0.3, 0.2, 0.1], [4.0, 5.0, 6.0]])
    start = torch.tensor([0.5, -0.5, 1.0])
    states = network.rollout(start, 2, increments=True, scaling=Scaling(mean, deviation, factor, shift))
    expected = start
    with torch.no_grad():
        for _ in range(2):
            expected = expected + network((expected - mean) / deviation) * factor + shift
    torch.testing.assert_close(states[-1], expected)


def test_a_block_between_two_others_costs_its_convolutions_its_lenses_and_one_addition_a_channel():
    sizes = {"width": 2, "depth": 3, "basis": 4, "kernel": (3,), "hidden": 5}
    three, two = (field_cost(1, 1, **sizes, blocks=blocks).operations for blocks in (3, 2))
    embedding, readout, lenses = 2 * (2 * 3 * 5 * 2 + 2), 2 * 3 * 2 * 5 + 5, 3 * 2 * (6 * 4 + 3)
    assert three - two == embedding + readout + lenses + 5
