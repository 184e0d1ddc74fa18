import tomllib
from functools import cache
from importlib import resources

import numpy as np
import pytest
import torch

import lln
from lln.core.errors import InputError
from lln.data import Standardizer, simulated
from lln.models import build
from lln.paper.theory.gradients import gradient_transport
from lln.systems import PRESETS, preset

TABLE = resources.files(lln).joinpath("paper/printed/gradient_transport.toml").read_text()
PRINTED = {row["system"]: row for row in tomllib.loads(TABLE)["row"]}
COMPARATORS = ("mlp", "residual", "scaled-residual")


@cache
def pairs(name):
    states = simulated(preset(name), 4000).states
    scaling = Standardizer.fit(states[500:3500])
    return tuple(torch.from_numpy(scaling.transform(part)).float() for part in (states[500:3500], states[501:3501]))


def first_to_last(kind, system, seeds):
    x, y = pairs(system)
    values = []
    for seed in range(seeds):
        model = build(kind, x.shape[1], x.shape[1], generator=torch.Generator().manual_seed(seed))
        values.append(gradient_transport(model, x, y)[0])
    return np.array(values)


def check(kind, system, seeds=10):
    values = first_to_last(kind, system, seeds)
    if kind == "lens":
        assert abs(values.mean()) < 0.01
        return
    mean, deviation = PRINTED[system][kind]
    assert abs(values.mean() - mean) < 2 * deviation


def test_the_printed_table_has_every_system():
    assert list(PRINTED) == list(PRESETS)


@pytest.mark.parametrize("kind", COMPARATORS)
def test_lorenz_24_equals_the_printed_row_to_its_digits(kind):
    # Lorenz data are identified, so seeds 0 to 9 should give the printed mean and sample deviation to the last digit.
    values = first_to_last(kind, "lorenz-24", 10)
    mean, deviation = PRINTED["lorenz-24"][kind]
    assert values.mean() == pytest.approx(mean, abs=1.1e-3)
    assert values.std(ddof=1) == pytest.approx(deviation, abs=1.1e-3)


@pytest.mark.parametrize("kind", [*COMPARATORS, "lens"])
def test_three_seeds_of_a_field_lie_near_the_printed_row(kind):
    check(kind, "reactiondiff-48", seeds=3)


@pytest.mark.slow
@pytest.mark.parametrize("system", PRESETS)
@pytest.mark.parametrize("kind", [*COMPARATORS, "lens"])
def test_ten_seeds_lie_within_two_printed_deviations(kind, system):
    check(kind, system)


@pytest.mark.parametrize("kind", ["lens", "mlp", "scaled-residual"])
def test_gradients_equal_those_of_a_perturbed_layer(kind):
    model = build(kind, 3, 2, width=5, depth=3, generator=torch.Generator().manual_seed(0)).double()
    draw = torch.Generator().manual_seed(1)
    x, y = torch.randn(8, 3, generator=draw).double(), torch.randn(8, 2, generator=draw).double()
    got = gradient_transport(model, x, y, batch=4, batches=2)
    squares = np.zeros(3)
    for half in (slice(0, 4), slice(4, 8)):
        for layer in (1, 2, 3):
            before, state = model.states(x[half])[layer - 1 : layer + 1]
            start = state if kind != "lens" else state.y

            def loss(h, layer=layer, before=before, half=half):
                if kind == "lens":
                    own, rest, optics = model.coefficients[layer - 1 : layer], model.coefficients[layer:], model.centers
                    h, theta = lln.lens_transport(h, before.theta, own, optics, model.sigma, length=0.0)
                    h, _ = lln.lens_transport(h, theta, rest, optics, model.sigma, model.length)
                else:
                    for index in range(layer, 3):
                        h = model.layer(index, h)
                return ((model.readout(h) - y[half]) ** 2).mean()

            gradient = torch.func.grad(loss)(start.detach())
            squares[layer - 1] += gradient.square().mean().item() / 2
    np.testing.assert_allclose(got, 0.5 * np.log10(squares / squares[-1]), rtol=1e-12, atol=1e-13)
    assert got[-1] == 0


def test_no_parameter_is_touched():
    model = build("mlp", 3, 3, width=4, depth=2)
    gradient_transport(model, torch.randn(8, 3), torch.randn(8, 3), batch=4, batches=2)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_too_few_pairs_are_refused():
    message = r"gradient transport needs 2048 pairs \(4 batches of 512\), got 10 inputs and 10 targets"
    with pytest.raises(InputError, match=message):
        gradient_transport(build("mlp", 3, 3, width=4, depth=2), torch.ones(10, 3), torch.ones(10, 3))
