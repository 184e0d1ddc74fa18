"""What a backend of another package must do, held by one that is written here."""

import pytest
import torch

import lln
from lln.ops import backends, derivatives, explain, reference
from tests.contracts.operator_cases import make_case
from tests.contracts.operator_checks import CHECKS, Subject


class Looped(backends.Backend):
    """The reference, one member at a time, with the gradient as a product with the Jacobian's columns."""

    rank = 5

    def refusal(self, call):
        return None if call.width < 100 else "it takes narrow stacks only"

    def forward(self, rays, coefficients, optics):
        ends = [
            reference.lens_transport(y, theta, lenses, *optics[:4])
            for y, theta, lenses in zip(*rays, coefficients, strict=True)
        ]
        return torch.stack([y for y, _ in ends]), torch.stack([theta for _, theta in ends])

    def backward(self, rays, grads, coefficients, optics, from_outputs):
        if from_outputs:
            back = [
                reference.inverse_transport(y, theta, lenses, *optics[:4])
                for y, theta, lenses in zip(*rays, coefficients, strict=True)
            ]
            rays = (torch.stack([y for y, _ in back]), torch.stack([theta for _, theta in back]))
        given = (*rays, coefficients)

        def along(*directions):
            ends = derivatives.tangent(given, directions, optics[:4])
            return sum((end * grad).sum() for end, grad in zip(ends, grads, strict=True))

        zeros = [torch.zeros_like(t) for t in given]
        return torch.func.grad(along, argnums=(0, 1, 2))(*zeros)


@pytest.fixture
def looped(monkeypatch):
    known = {name: backends.registry.get(name) for name in backends.registry}
    monkeypatch.setattr(backends, "registry", backends.Backends("backend", "lln.backends", known))
    backends.registry.register("looped", Looped())
    yield
    monkeypatch.undo()
    backends.registry.register("reference", backends.Reference())  # forgets what was chosen


@pytest.mark.usefixtures("looped")
@pytest.mark.parametrize("check", [name for name in CHECKS if "compile" not in name])
def test_a_backend_from_outside_passes_the_contract(check):
    CHECKS[check](Subject("looped"))


@pytest.mark.usefixtures("looped")
def test_auto_takes_the_lowest_rank_that_serves():
    narrow, wide = make_case(width=20), make_case(width=120)
    assert explain(narrow.y, narrow.theta, narrow.coefficients, narrow.centers, narrow.sigma).serves == "looped"
    said = explain(wide.y, wide.theta, wide.coefficients, wide.centers, wide.sigma)
    assert said.serves != "looped"
    assert said.reasons["looped"] == "it takes narrow stacks only"
    with pytest.raises(lln.InputError, match="backend 'looped' cannot serve this call: it takes narrow stacks only"):
        lln.ops.backends.resolve("looped", backends.Call.of(wide.y[None], wide.coefficients[None], wide.centers, 1.0))


@pytest.mark.usefixtures("looped")
def test_a_network_can_name_it():
    network = lln.LensNetwork(3, 3, width=8, depth=2)
    x = torch.randn(4, 3)
    want = network(x)
    network.backend = "looped"
    torch.testing.assert_close(network(x), want)


@pytest.mark.parametrize("name", ["auto", "loopde"])
def test_what_is_no_backend_is_refused(name):
    with pytest.raises(lln.InputError, match=f"backend '{name}' cannot be registered: it needs a name other than"):
        backends.registry.register(name, Looped() if name == "auto" else object())
    with pytest.raises(lln.InputError, match="unknown backend 'loopde'"):
        backends.check_backend("loopde")


def test_the_old_name_of_the_module_still_works():
    assert lln.ops.dispatch is backends
