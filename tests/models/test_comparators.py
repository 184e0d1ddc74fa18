import math

import pytest
import torch

from lln.models import COMPARATORS, MODELS, build
from lln.models.factory import name_of

NAMES = list(MODELS)


def make(name, seed=0, **options):
    defaults = {"width": 6, "depth": 4}
    network = build(name, 3, 2, **{**defaults, **options}, generator=torch.Generator().manual_seed(seed))
    return network.double().eval()


def inputs(*shape, seed=1):
    return torch.randn(*shape, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def by_hand(name, network, x):
    z = torch.clamp(x @ network.embedding.weight.T + network.embedding.bias, min=0)
    states = [z]
    for index, linear in enumerate(network.hidden):
        inner = z @ linear.weight.T + linear.bias
        if name == "residual-batchnorm":
            norm = network.norms[index]
            inner = (inner - norm.running_mean) / (norm.running_var + norm.eps).sqrt() * norm.weight + norm.bias
        branch = torch.clamp(inner, min=0)
        if name == "mlp":
            z = branch
        elif name == "scaled-residual":
            z = z + branch / math.sqrt(network.depth)
        elif name == "layerscale":
            z = z + network.gamma[index] * branch
        else:
            z = z + branch
        states.append(z)
    return z @ network.readout.weight.T + network.readout.bias, states


@pytest.mark.parametrize("name", COMPARATORS)
def test_forward_and_states_by_hand(name):
    network = make(name)
    if name == "residual-batchnorm":
        network.train()(inputs(40))
        network.eval()
        for norm in network.norms:
            torch.nn.init.uniform_(norm.weight, 0.5, 1.5)
            torch.nn.init.uniform_(norm.bias, -0.5, 0.5)
    x = inputs(5)
    out, states = by_hand(name, network, x)
    torch.testing.assert_close(network(x), out, rtol=1e-12, atol=1e-13)
    found = network.states(x)
    assert len(found) == network.depth + 1
    for z, expected in zip(found, states, strict=True):
        torch.testing.assert_close(z, expected, rtol=1e-12, atol=1e-13)


def test_batchnorm_in_training_normalises_over_every_leading_dimension():
    network = make("residual-batchnorm").train()
    flat, folded = network(inputs(24)), network(inputs(24).reshape(4, 6, 3))
    torch.testing.assert_close(folded.reshape(24, 2), flat, rtol=1e-12, atol=1e-13)
    assert int(network.norms[0].num_batches_tracked) == 2
    alone = network.eval()(inputs(24)[:1])
    torch.testing.assert_close(alone, network(inputs(24))[:1], rtol=1e-12, atol=1e-13)


def test_layerscale_starts_where_it_is_told():
    network = make("layerscale", initial_scale=0.25)
    assert torch.equal(network.gamma, torch.full((4, 6), 0.25, dtype=torch.float64))
    assert network.config()["initial_scale"] == 0.25


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (5,), (2, 3), (2, 0, 3)])
def test_any_leading_shape(name, shape):
    network = make(name)
    assert network(inputs(*shape)).shape == (*shape, 2)
    assert len(network.states(inputs(*shape))) == network.depth + 1


@pytest.mark.parametrize("name", NAMES)
def test_readout_of_the_last_state_is_the_output(name):
    network = make(name)
    last = network.states(inputs(5))[-1]
    torch.testing.assert_close(
        network.readout(last.y if name == "lens" else last), network(inputs(5)), rtol=1e-12, atol=1e-13
    )


@pytest.mark.parametrize("name", NAMES)
def test_seeded_and_rebuilt_from_its_configuration(name):
    network, again = make(name, seed=3), make(name, seed=3)
    assert all(torch.equal(a, b) for a, b in zip(network.parameters(), again.parameters(), strict=True))
    rebuilt = build(name, **network.config()).double().eval()
    rebuilt.load_state_dict(network.state_dict())
    assert torch.equal(rebuilt(inputs(5)), network(inputs(5)))
    assert name_of(network) == name
    assert "depth=4" in repr(network)


@pytest.mark.parametrize("name", COMPARATORS)
def test_every_parameter_gets_a_gradient(name):
    network = make(name).train()
    network(inputs(64)).square().sum().backward()
    assert all(value.grad is not None and value.grad.any() for value in network.parameters())
