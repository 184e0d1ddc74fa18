"""What every registered network must do; a network of another package is registered here and held to the same."""

import json

import numpy as np
import pytest
import torch
from torch import nn

import lln
from lln.core.errors import InputError
from lln.models import FIELD_MODELS, NETWORKS, StateNetwork, build, load_model, save_model
from lln.models.factory import GenericEnsemble, name_of, options_of, stack
from lln.train import TrainConfig, fit
from lln.train.ensemble import ReadoutFit, fit_ensemble


class Gated(StateNetwork):
    """A network that lln does not know: a normalised gate, with a width but no depth of its own."""

    def __init__(self, n_in, n_out, *, width=12, generator=None):
        super().__init__()
        self.n_in, self.n_out, self.width, self.depth = n_in, n_out, width, 1
        self.inner, self.gate = nn.Linear(n_in, width), nn.Linear(n_in, width)
        self.norm, self.readout = nn.LayerNorm(width), nn.Linear(width, n_out)
        with torch.no_grad():
            for layer in (self.inner, self.gate, self.readout):
                layer.weight.normal_(std=0.5, generator=generator)
                layer.bias.normal_(std=0.1, generator=generator)

    def forward(self, x):
        return self.readout(self.states(x)[-1])

    def states(self, x):
        z = self.inner(x)
        return [z, self.norm(z * torch.sigmoid(self.gate(x)))]

    def config(self):
        return {"n_in": self.n_in, "n_out": self.n_out, "width": self.width}


NAMES = [*(name for name in NETWORKS if name not in FIELD_MODELS), "gated"]


def make(name, seed=0, n_in=3, n_out=2):
    known = options_of(name)
    sizes = {key: value for key, value in {"width": 10, "depth": 2}.items() if key in known}
    return build(name, n_in, n_out, generator=torch.Generator().manual_seed(seed), **sizes)


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setattr(NETWORKS, "_items", dict(NETWORKS._items))  # what is registered here ends with the test
    NETWORKS.register("gated", Gated)


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("name", NAMES)
def test_shapes_seeds_and_configuration(name, tmp_path):
    model = make(name).eval()
    x = torch.randn(4, 5, 3, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        assert model(x).shape == (4, 5, 2)
        # every row on its own; products of other shapes round differently
        assert torch.allclose(model(x)[1, 2], model(x[1, 2]), atol=1e-6)
    assert isinstance(model.readout, nn.Linear)
    assert name_of(model) == name
    for a, b in zip(model.parameters(), make(name).parameters(), strict=True):
        assert torch.equal(a, b)
    assert any(not torch.equal(a, b) for a, b in zip(model.parameters(), make(name, 1).parameters(), strict=True))
    json.dumps(model.config())
    save_model(model, tmp_path / "m.safetensors")
    with torch.no_grad():
        assert torch.equal(load_model(tmp_path / "m.safetensors").eval()(x), model(x))


@pytest.mark.parametrize("name", NAMES)
def test_an_ensemble_computes_trains_and_reads_out_as_its_members_do(name):
    members = [make(name, seed).double() for seed in (0, 1)]
    ensemble = stack(members)
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(40, 3, generator=generator, dtype=torch.float64)
    y = torch.stack([x[:, 0] * x[:, 1], torch.sin(x[:, 2])], dim=1)
    config = {"epochs": 2, "batch_size": 16, "learning_rate": 1e-3, "clip": 1.0}
    history = fit_ensemble(ensemble, x, y, TrainConfig(**config), (0, 1))
    for index, member in enumerate(members):
        alone = fit(member, x, y, TrainConfig(seed=index, **config))
        assert history.losses[:, index] == pytest.approx(alone.losses, abs=1e-9)
        together = ensemble.member(index)
        with torch.no_grad():
            torch.testing.assert_close(together.eval()(x), member.eval()(x), rtol=0, atol=1e-7)
    ensemble.eval()
    with torch.no_grad():
        torch.testing.assert_close(ensemble(x.expand(2, 40, 3))[1], ensemble.member(1).eval()(x), rtol=0, atol=1e-12)
    states = ensemble.last_states(x.expand(len(ensemble), -1, -1))
    assert states.shape[:2] == (2, 40)
    before = (ensemble(x.expand(2, 40, 3)) - y).square().mean()
    ReadoutFit(ensemble, x, y, None, None).apply(1e-10)
    after = (ensemble(x.expand(2, 40, 3)) - y).square().mean()
    assert after < before


def test_a_registered_network_is_fitted_rolled_out_saved_and_loaded(tmp_path):
    t = 0.1 * np.arange(300)
    states = np.stack([np.cos(t), np.sin(t) + 0.2 * np.cos(2 * t) ** 2], axis=1)
    made = lln.LensForecaster(
        model="gated", width=16, members=2, epochs=40, unroll=0, history=1, ridge=None, random_state=0
    ).fit(states, dt=0.1)
    assert [type(member) for member in made.surrogate_.members] == [Gated, Gated]
    rolled = made.rollout(steps=20).array
    made.save(tmp_path / "gated.lln")
    assert np.array_equal(lln.load(tmp_path / "gated.lln").rollout(steps=20).array, rolled)


def test_the_generic_ensemble_serves_what_has_no_form_of_its_own():
    assert isinstance(stack([make("gated"), make("gated", 1)]), GenericEnsemble)
    # a subclass may compute something else, so it is no comparator
    other = type("Other", (type(make("mlp")),), {"forward": lambda self, x: 2 * super(type(self), self).forward(x)})
    pair = [other(3, 2, width=4, depth=1) for _ in range(2)]
    x = torch.randn(2, 5, 3)
    assert torch.allclose(stack(pair)(x)[1], pair[1](x[1]), atol=1e-6)
    with pytest.raises(InputError, match="one part for each member"):
        stack([make("gated")])(torch.zeros(2, 5, 3))


def test_an_unknown_class_is_named():
    class Mine(Gated):
        pass

    with pytest.raises(InputError, match="Mine is not a registered network"):
        name_of(Mine(1, 1))
