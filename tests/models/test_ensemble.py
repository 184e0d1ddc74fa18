import pytest
import torch

import lln
from lln.models import LensEnsemble


def members(count=3, angle="learned"):
    return [
        lln.LensNetwork(3, 3, width=21, depth=4, initial_angle=angle, generator=torch.Generator().manual_seed(s))
        for s in range(count)
    ]


@pytest.mark.parametrize("angle", ["learned", "zero"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_forward_and_gradients_are_the_members_own(angle, dtype):
    networks = [m.to(dtype) for m in members(angle=angle)]
    ensemble = LensEnsemble(networks)
    x = torch.randn(3, 2, 5, 3, dtype=dtype)
    out = ensemble(x)
    out.square().sum().backward()
    for s, network in enumerate(networks):
        alone = network(x[s])
        alone.square().sum().backward()
        torch.testing.assert_close(out[s], alone)
        torch.testing.assert_close(ensemble.coefficients.grad[s], network.coefficients.grad)
        torch.testing.assert_close(ensemble.position_weight.grad[s], network.embed_position.weight.grad)


def test_rollout_is_the_members_own():
    networks = members()
    starts = torch.randn(3, 4, 3)
    states = LensEnsemble(networks).rollout(starts, 12, increments=True)
    assert states.shape == (3, 4, 12, 3)
    for s, network in enumerate(networks):
        torch.testing.assert_close(states[s], network.rollout(starts[s], 12, increments=True))


def test_a_member_comes_back_whole():
    networks = members()
    ensemble = LensEnsemble(networks)
    x = torch.randn(6, 3)
    assert torch.equal(ensemble.member(1)(x), networks[1](x))
    assert sum(p.numel() for p in ensemble.parameters()) == 3 * sum(p.numel() for p in networks[0].parameters())


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: LensEnsemble([]), "an ensemble needs at least one member, got none"),
        (
            lambda: LensEnsemble([*members(1), lln.LensNetwork(3, 3)]),
            "member 1 is not like member 0; an ensemble shares one class and configuration",
        ),
        (
            lambda: LensEnsemble(members())(torch.zeros(2, 5, 3)),
            r"must have shape \(3, ..., 3\), one part for each mem",
        ),
        (lambda: LensEnsemble(members()).member(3), "member must be from 0 to 2, got 3"),
    ],
)
def test_bad_input_gets_one_sentence(act, message):
    with pytest.raises(lln.InputError, match=message):
        act()


def test_a_rollout_asks_for_starts_of_every_member():
    with pytest.raises(lln.InputError, match="one part for each member"):
        LensEnsemble(members()).rollout(torch.zeros(2, 3, 3), 4)
