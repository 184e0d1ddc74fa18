"""What every closed-form part of another package must do, and what lln does with it."""

import json

import numpy as np
import pytest
import torch

import lln
from lln.core.errors import InputError
from lln.step.parts import PARTS, ClosedFormPart, part_name
from lln.step.step import DenseStep


class Cubes(ClosedFormPart):
    """``increment = weights [f, f^3]``, by least squares."""

    def __init__(self, weights):
        super().__init__()
        self.register_buffer("weights", torch.from_numpy(weights))

    @classmethod
    def fit(cls, features, increments, weights=None):
        columns = np.concatenate([features, features**3], axis=1)
        root = 1.0 if weights is None else np.sqrt(weights)[:, None]
        return cls(np.linalg.lstsq(columns * root, increments * root, rcond=None)[0].T.copy())

    def forward(self, features):
        return torch.cat([features, features**3], dim=-1) @ self.weights.mT

    def arrays(self):
        return {"weights": self.weights.numpy()}

    @classmethod
    def from_arrays(cls, arrays, features, size):
        if arrays["weights"].shape != (size, 2 * features):
            raise ValueError("weights do not fit")
        return cls(arrays["weights"])


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setattr(PARTS, "_items", dict(PARTS._items))  # what is registered here ends with the test
    PARTS.register("cubes", Cubes)


@pytest.fixture(scope="module")
def states():
    """A cubic oscillator, x'' = -x - x^3, whose map over a short step is nearly cubic."""
    x, found = np.array([1.0, 0.0]), []
    for _ in range(600):
        found.append(x)
        for _ in range(10):
            x = x + 0.002 * np.array([x[1], -x[0] - x[0] ** 3])
    return np.stack(found)


@pytest.fixture
def fitted(states):
    return lln.LensForecaster(parts=("linear", "cubes"), history=1).fit(states, dt=0.02)


@pytest.mark.parametrize("name", ["cubes"])
def test_a_part_is_solved_computed_and_rebuilt(name):
    rng = np.random.default_rng(0)
    features, weights = rng.standard_normal((80, 3)), rng.uniform(0.5, 1.5, 80)
    kind = PARTS.get(name)
    part = kind.fit(features, features[:, :2] ** 3 - features[:, 1:], weights)
    rows = torch.from_numpy(rng.standard_normal((4, 5, 3))).requires_grad_()
    out = part(rows)
    assert out.shape == (4, 5, 2)
    assert out.dtype == torch.float64
    torch.testing.assert_close(out[1, 2], part(rows[1, 2]))
    assert torch.autograd.grad(out.sum(), rows)[0].abs().max() > 0
    again = kind.from_arrays(part.arrays(), 3, 2)
    assert torch.equal(again(rows), out)
    with pytest.raises(ValueError, match="fit"):
        kind.from_arrays(part.arrays(), 4, 2)
    assert part_name(part) == name


def test_a_fit_tries_it_stores_it_and_rolls_it_out(fitted, states, tmp_path):
    assert fitted.report_.part == "cubes"
    assert fitted.report_.parameters == fitted.surrogate_.frame.part.weights.numel()
    assert any(tried.get("part") == "cubes" for tried in fitted.report_.candidates)
    plain = lln.LensForecaster(parts="linear", history=1).fit(states, dt=0.02)
    assert fitted.report_.held_out_nmse < 0.1 * plain.report_.held_out_nmse
    rolled = fitted.rollout(steps=50).array
    fitted.save(tmp_path / "m.lln")
    assert np.array_equal(lln.load(tmp_path / "m.lln").rollout(steps=50).array, rolled)
    json.dumps(fitted.surrogate_.record())


def test_its_jacobian_is_part_of_the_steps(fitted):
    step: DenseStep = fitted.surrogate_
    window = torch.from_numpy(fitted.last_window_)
    exact = step.jacobian(window)[:, 0, :]
    apart = 1e-6 * torch.eye(2, dtype=torch.float64)
    ahead, behind = (step.advance((window + sign * apart).unsqueeze(1)) for sign in (1, -1))
    torch.testing.assert_close(exact.mT, (ahead - behind) / 2e-6, rtol=0, atol=1e-7)


def test_other_languages_refuse_it_and_torch_exports_it(fitted, tmp_path):
    for target in ("m.onnx", "c"):
        with pytest.raises(InputError, match="other packages have no export"):
            fitted.export(tmp_path / target)
    with pytest.raises(InputError, match="do not run in a page"):
        fitted.page()
    found = fitted.export(tmp_path / "m.pt2")
    assert found.export < 1e-9


def test_without_its_package_a_stored_part_is_named(fitted, tmp_path):
    fitted.save(tmp_path / "m.lln")
    del PARTS._items["cubes"]
    with pytest.raises(InputError, match="no closed-form part is called 'cubes'"):
        lln.load(tmp_path / "m.lln")
    with pytest.raises(InputError, match="Cubes is not a registered closed-form part"):
        part_name(fitted.surrogate_.frame.part)
