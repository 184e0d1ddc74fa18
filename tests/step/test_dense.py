import numpy as np
import pytest
import torch

from lln.fit.closed.linear import Units
from lln.models import LensNetwork
from lln.models.comparators import PlainMLP
from lln.step.step import DenseStep


def units(n=2, history=2, inputs=1):
    rng = np.random.default_rng(0)
    return Units(
        rng.standard_normal(n), rng.uniform(1, 2, n), rng.uniform(1, 2, (history - 1, n)), rng.standard_normal(inputs),
        rng.uniform(1, 2, inputs),
    )  # fmt: skip


def frame(share=0.1):
    rng = np.random.default_rng(1)
    return units().frame(0.1 * rng.standard_normal((2, 5)), 0.1 * rng.standard_normal(2), np.full(2, share))


def lenses(count, seed=0):
    return tuple(
        LensNetwork(5, 2, width=4, depth=2, basis=3, generator=torch.Generator().manual_seed(seed + k))
        for k in range(count)
    )


def by_hand(step, window, steps, inputs):
    """The formula of `Frame`, step by step in NumPy."""
    one, past, found = step.frame, list(window), []
    for k in range(steps):
        features = one.feature_rows(np.stack(past), inputs[k])
        correction = np.zeros(one.size)
        for member in step.members:
            with torch.no_grad():
                rows = torch.from_numpy(features).to(step.dtype)
                correction += member.eval()(rows).double().numpy() / len(step.members)
        change = one.matrix @ features + one.offset + one.gain * correction
        found.append(past[-1] + one.scale * change)
        past = [*past[1:], found[-1]]
    return np.stack(found)


@pytest.mark.parametrize("members", [lenses(1), lenses(3), (PlainMLP(5, 2, width=4, depth=1),) * 2, ()])
def test_a_rollout_is_step_after_step(members):
    surrogate = DenseStep(frame(), members)
    rng = np.random.default_rng(2)
    window, inputs = rng.standard_normal((2, 2)), rng.standard_normal((6, 1))
    found = surrogate.rollout(window, 6, inputs)
    # Members are merged into one float32 network, so sums round differently.
    np.testing.assert_allclose(found, by_hand(surrogate, window, 6, inputs), rtol=1e-5, atol=1e-5)
    assert found.dtype == np.float64


def test_many_starts_are_many_rollouts():
    surrogate = DenseStep(frame(), lenses(2))
    rng = np.random.default_rng(3)
    window, inputs = rng.standard_normal((4, 3, 2, 2)), rng.standard_normal((4, 3, 5, 1))
    together = surrogate.rollout(window, 5, inputs)
    assert together.shape == (4, 3, 5, 2)
    np.testing.assert_allclose(together[2, 1], surrogate.rollout(window[2, 1], 5, inputs[2, 1]), rtol=1e-5, atol=1e-6)


def test_merged_members_are_their_mean():
    members = lenses(3)
    x = torch.randn(10, 5)
    merged = DenseStep(frame(), members).merged()
    assert merged.width == 12
    mean = sum(member(x) for member in members) / 3
    torch.testing.assert_close(merged(x), mean, rtol=1e-5, atol=1e-6)


def test_without_a_gain_members_are_never_asked():
    plain, idle = DenseStep(frame(0.0)), DenseStep(frame(0.0), lenses(2))
    window, inputs = np.zeros((2, 2)), np.zeros((3, 1))
    np.testing.assert_array_equal(plain.rollout(window, 3, inputs), idle.rollout(window, 3, inputs))
    assert plain.merged() is None


def test_a_diverging_rollout_ends_in_numbers_that_are_not_finite_without_a_warning():
    matrix = np.zeros((2, 5))
    matrix[0, 0] = 1e200
    surrogate = DenseStep(units().frame(matrix))
    states = surrogate.rollout(np.ones((2, 2)), 5, np.zeros((5, 1)))
    assert not np.isfinite(states[-1]).all()
