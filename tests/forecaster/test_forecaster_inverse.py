import dataclasses

import numpy as np
import pytest
from forecasters import field, fitted, forced, lorenz, wave

from lln import InputError
from lln.fit.report.report import coverage
from lln.models import build


@pytest.mark.parametrize("history", [1, 2])
def test_a_step_back_undoes_a_step(history):
    forecaster, states = fitted(history), lorenz()
    for k in (10, 200, 500):
        window = states[k : k + history]
        after = forecaster.predict(window[0] if history == 1 else window)
        back = forecaster.invert(np.concatenate([window, after[None]])[-history:] if history > 1 else after)
        # What is undone was made with float32 networks; the oldest of two states also enters through a difference.
        again = forecaster.predict(np.concatenate([back[None], window[1:]]) if history > 1 else back)
        np.testing.assert_allclose(again, after, rtol=0, atol=1e-6 * np.abs(states).max())
        if history == 1:
            np.testing.assert_allclose(back, window[0], rtol=0, atol=1e-4)


def test_many_fields_and_inputs_go_back_too():
    assert fitted().invert(lorenz()[5:8]).shape == (3, 3)
    forecaster, states, inputs = forced()
    after = forecaster.predict(states[50], inputs[50])
    np.testing.assert_allclose(forecaster.invert(after, inputs[50]), states[50], atol=1e-5)
    assert not np.allclose(forecaster.invert(after, inputs[50] + 1), states[50], atol=1e-2)
    grid = wave()[40].reshape(2, 2, 3)
    assert field().invert(field().predict(grid)).shape == (2, 2, 3)


def test_a_step_that_forgets_cannot_be_undone():
    forecaster = fitted()
    frame = forecaster.surrogate_.frame
    n = frame.size
    matrix = np.zeros_like(frame.matrix)
    matrix[:, :n] = -np.eye(n)
    forgets = dataclasses.replace(frame, matrix=matrix, offset=np.zeros(n), gain=np.zeros(n))
    constant = type(forecaster)().assemble(
        forecaster.surrogate_.replace(frame=forgets), forecaster.recipe_, forecaster.report_,
        forecaster.layout_, forecaster.training_, forecaster.last_window_,
    )  # fmt: skip
    with pytest.raises(InputError, match="no state was found whose successor under this model is the given one"):
        constant.invert(lorenz()[0])


def test_coverage_counts_positions_beyond_the_control_points():
    network = build("lens", 2, 2, width=3, depth=2, basis=4, control_range=(-1.0, 1.0))
    rows = np.random.default_rng(0).normal(size=(50, 2)).astype(np.float32).astype(np.float64)
    found = coverage([network], rows)
    import torch

    with torch.no_grad():
        y = torch.stack([ray.y for ray in network.states(torch.from_numpy(rows).float())[1:]]).numpy()
    assert found.outside == pytest.approx((np.abs(y) > 1).mean())
    np.testing.assert_allclose(found.by_layer, (np.abs(y) > 1).mean(axis=(1, 2)))
    assert (found.low, found.high) == pytest.approx((y.min(), y.max()))
    with torch.no_grad():
        network.embed_position.bias.fill_(100.0)
    assert coverage([network], rows).outside == 1.0


def test_coverage_along_a_rollout():
    near = fitted().coverage(lorenz()[0], 20)
    assert near is None or 0 <= near.outside <= 1
    with pytest.raises(InputError, match="coverage is defined for lens networks"):
        coverage([build("mlp", 2, 2, width=3, depth=1)], np.ones((1, 2)))
