import numpy as np
import pytest
import torch

from lln.core.errors import InputError
from lln.evaluate import Ending, Outcome, rollout
from lln.models import build


def test_states_are_the_iterates_with_the_start_first():
    run = rollout(lambda x: 2 * x, np.array([1.0, -1.0]), 4)
    np.testing.assert_array_equal(run.states[:, 0], [1, 2, 4, 8, 16])
    np.testing.assert_array_equal(run.predicted, run.states[1:])
    assert run.outcome == Outcome(Ending.FINISHED)
    assert str(run.outcome) == "finished"


def test_many_starts_at_once_on_torch_without_gradients():
    network = build("lens", 3, 3, width=4, depth=2)
    starts = torch.randn(2, 5, 3)
    run = rollout(network, starts, 6)
    assert run.states.shape == (2, 5, 7, 3)
    assert run.states.dtype == np.float32
    assert len(run.outcomes) == 10
    state = starts[1, 2]
    for _ in range(6):
        state = network(state)
    np.testing.assert_allclose(run.states[1, 2, -1], state.detach().numpy(), atol=1e-5)


def test_divergence_is_an_outcome_at_a_step():
    run = rollout(lambda x: x**2, np.array([10.0]), 20)
    # 10^(2^9) is beyond the largest double.
    assert run.outcome == Outcome(Ending.DIVERGED, 9)
    assert str(run.outcome) == "diverged at step 9"
    assert np.isfinite(run.states[:9]).all()
    assert np.isnan(run.states[9:]).all()


def test_each_of_many_starts_has_its_own_outcome():
    run = rollout(lambda x: x**2, np.array([[0.5], [10.0], [3.0]]), 12, limit=1e6)
    assert [outcome.step for outcome in run.outcomes] == [None, 3, 4]
    assert run.outcome.step == 3
    assert np.isfinite(run.states[0]).all()
    assert np.isnan(run.states[1, 3:]).all()
    assert run.states.shape == (3, 13, 1)


def test_a_state_that_comes_back_from_infinity_stays_lost():
    def jump(x):
        return np.where(x == 2, np.inf, np.where(np.isinf(x), 0.0, x + 1))

    run = rollout(jump, np.array([[0.0], [-9.0]]), 6)
    assert run.outcomes[0].step == 3
    assert np.isnan(run.states[0, 3:]).all()
    assert run.outcomes[1].step is None


class Whole:
    def __init__(self, shape=None):
        self.shape = shape

    def __call__(self, _):
        raise AssertionError("the loop must not run")

    def rollout(self, x0, steps):
        states = torch.stack([x0 * 0 + k for k in range(1, steps + 1)], dim=-2)
        return states if self.shape is None else states.reshape(self.shape)


def test_a_stepper_s_own_rollout_is_used():
    run = rollout(Whole(), torch.zeros(2, 3), 4)
    assert run.states.shape == (2, 5, 3)
    np.testing.assert_array_equal(run.states[1, :, 0], [0, 1, 2, 3, 4])


@pytest.mark.parametrize(
    ("step", "x0", "steps", "message"),
    [
        (lambda x: x, np.ones(3), 0, "steps must be an integer of at least 1, got 0"),
        (lambda x: x, np.array([1.0, np.nan]), 3, r"x0 is nan at \[1\]; a rollout must start at finite states"),
        (lambda x: x, np.ones(3, dtype=int), 3, "states must be floating point, got int64"),
        (lambda x: x[..., :2], np.ones(3), 3, r"a step must keep the shape \(3,\) of its state, got \(2,\)"),
        (Whole((4, 2, 3)), torch.zeros(2, 3), 4, r"must return states of shape \(2, 4, 3\), got \(4, 2, 3\)"),
    ],
)
def test_bad_input_gets_a_sentence(step, x0, steps, message):
    with pytest.raises(InputError, match=message):
        rollout(step, x0, steps)
