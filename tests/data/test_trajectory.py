import numpy as np
import pytest

from lln.core.errors import InputError
from lln.data import Trajectory, simulate, simulated
from lln.systems import preset


def test_a_simulated_trajectory_carries_step_names_and_grid():
    system = preset("burgers-32")
    trajectory = simulated(system, 10)
    assert len(trajectory) == 11
    assert trajectory.size == 32
    assert trajectory.dt == 0.001
    assert trajectory.names[:2] == ("u0", "u1")
    assert trajectory.states.dtype == np.float32
    np.testing.assert_allclose(trajectory.grid, system.grid)
    np.testing.assert_allclose(trajectory.times[-1], 0.01)


def test_integers_become_float64_and_names_are_made_up():
    trajectory = Trajectory(np.arange(6).reshape(3, 2), dt=1)
    assert trajectory.states.dtype == np.float64
    assert trajectory.names == ("x0", "x1")


def test_a_cut_keeps_everything_but_the_rows():
    trajectory = simulated(preset("lorenz-28"), 10)
    part = trajectory.cut(3, 7)
    np.testing.assert_array_equal(part.states, trajectory.states[3:7])
    assert (part.names, part.dt, part.name) == (("x", "y", "z"), 0.01, "lorenz-28")


@pytest.mark.parametrize(
    ("states", "options", "message"),
    [
        (np.ones(5), {}, r"run: states must have shape \(time, n\), got \(5,\)"),
        (np.ones((2, 3, 4)), {}, r"run: states must have shape \(time, n\), got \(2, 3, 4\)"),
        (np.ones((1, 3)), {}, "run: one time step has no transition to learn from; give at least two rows"),
        (np.array([["a", "b"], ["c", "d"]]), {}, "run: states must be numbers, got an array of <U1"),
        (
            np.array([[1.0, 2.0], [3.0, np.nan], [np.inf, 1.0]]),
            {"names": ("p", "q")},
            r"run: nan at time index 1 in column 'q' \(2 such values in all\); states must be finite",
        ),
        (np.ones((3, 2)), {"names": ("p",)}, "run: 2 columns but 1 names; give one for each"),
        (np.ones((3, 2)), {"dt": 0.0}, "run: dt must be above zero, got 0.0"),
        (np.ones((3, 2)), {"grid": np.ones(3)}, r"run: grid must have shape \(2,\), got \(3,\)"),
    ],
)
def test_bad_trajectories_get_a_sentence(states, options, message):
    with pytest.raises(InputError, match=message):
        Trajectory(states, **{"dt": 0.1, "name": "run", **options})


def test_a_trajectory_is_one_line_of_text():
    shown = repr(Trajectory(np.zeros((5, 2)), 0.1, name="run"))
    assert shown == "Trajectory(run: 5 states of x0, x1, dt = 0.1)"


def test_a_preset_is_simulated_by_its_name():
    found, same = simulate("lorenz-28", 20), simulate(preset("lorenz-28"), 20)
    np.testing.assert_array_equal(found.states, same.states)
    assert found.name == same.name
    with pytest.raises(InputError, match="unknown system 'lorenz-29'; did you mean 'lorenz-28'"):
        simulate("lorenz-29", 20)
    with pytest.raises(InputError, match="system must be a system or the name of a preset, such as 'lorenz-28', got 3"):
        simulate(3, 20)
