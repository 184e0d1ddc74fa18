import numpy as np
import pytest

from lln.core.errors import InputError
from lln.evaluate import Ending, Outcome, rollout
from lln.evaluate.rollout import Region, judge, marked

BOX = Region(np.array([-1.0, -1.0]), np.array([4.0, 4.0]))


def test_leaving_the_region_is_an_outcome_and_the_rollout_runs_on():
    run = rollout(lambda x: x + 1, np.array([[0.0, 0.0], [-9.0, 0.0], [-0.5, -0.5]]), 4, region=BOX)
    assert run.outcomes == (
        Outcome(Ending.FINISHED),
        Outcome(Ending.LEFT, 0, 0),
        Outcome(Ending.FINISHED),
    )
    assert np.isfinite(run.states).all()
    longer = rollout(lambda x: x + 1, np.array([0.0, 0.0]), 9, region=BOX)
    assert longer.outcome == Outcome(Ending.LEFT, 5, 5)
    assert str(longer.outcome) == "left the region that training covered at step 5"
    np.testing.assert_array_equal(longer.states[-1], [9, 9])


def test_without_a_region_nobody_asks():
    assert rollout(lambda x: x + 100, np.zeros(2), 3).outcome == Outcome()


def test_divergence_outweighs_leaving_and_keeps_when_it_left():
    run = rollout(lambda x: x**2, np.array([[3.0, 0.0], [2.0, 2.0], [0.5, 0.5]]), 12, limit=1e6, region=BOX)
    assert run.outcomes[0] == Outcome(Ending.DIVERGED, 4, 1)
    assert run.outcomes[1] == Outcome(Ending.DIVERGED, 5, 2)
    assert run.outcomes[2] == Outcome()
    assert run.outcome == Outcome(Ending.DIVERGED, 4, 1)


def test_the_worst_of_many_is_the_earliest_to_leave_if_none_diverged():
    run = rollout(lambda x: x + 1, np.array([[0.0, 0.0], [2.0, 0.0]]), 9, region=BOX)
    assert run.outcome == Outcome(Ending.LEFT, 3, 3)


def test_a_divergence_straight_from_inside_never_left():
    states = np.array([[0.0, 0.0], [np.inf, 0.0], [0.0, 0.0]])
    assert judge(states, region=BOX).outcome == Outcome(Ending.DIVERGED, 1, None)


def test_marks_say_the_same_as_a_look_at_the_states():
    rng = np.random.default_rng(0)
    states = rng.uniform(-1.1, 4.1, (2, 30, 9, 2))
    states[..., 1:, :][rng.random((2, 30, 8, 2)) < 0.05] = np.nan
    want = judge(states, region=BOX)
    assert {outcome.ending for outcome in want.outcomes} == set(Ending)
    steps = [[outcome.step if outcome.ending is Ending.DIVERGED else None, outcome.left] for outcome in want.outcomes]
    marks = np.array([[-1 if step is None else step for step in pair] for pair in steps]).T
    assert marked(want.states, marks).outcomes == want.outcomes
    assert marked(want.states, None).outcomes == (Outcome(),) * 60


def test_a_region_must_be_a_box_of_the_right_size():
    with pytest.raises(InputError, match="a region needs low <= high"):
        Region(np.ones(2), np.zeros(2))
    with pytest.raises(InputError, match=r"a region of 2 coordinates cannot judge states of shape \(2, 3\)"):
        rollout(lambda x: x, np.zeros(3), 1, region=BOX)
