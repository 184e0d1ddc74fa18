import numpy as np
import pytest

from lln.core.errors import InputError
from lln.systems import PRESETS, Lorenz, UserSystem, perturbed_start, preset, rk4_step, simulate


def logistic(dt):
    return UserSystem(lambda x: x * (1 - x), [0.1], dt, name="logistic")


def test_rk4_has_order_four():
    exact = 1 / (1 + 9 * np.exp(-4.0))
    errors = [abs(simulate(logistic(4.0 / n), n, dtype="float64")[-1, 0] - exact) for n in (20, 40, 80)]
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    np.testing.assert_allclose(orders, 4.0, atol=0.15)


def test_float32_takes_the_stated_order_of_operations():
    system, x = Lorenz(), np.array([1.0, 2.0, 20.0], dtype=np.float32)
    half, whole, sixth = np.float32(0.005), np.float32(0.01), np.float32(0.01 / 6)
    k1 = system.rhs(x)
    k2 = system.rhs(x + half * k1)
    k3 = system.rhs(x + half * k2)
    k4 = system.rhs(x + whole * k3)
    two = np.float32(2)
    expected = x + sixth * (((k1 + two * k2) + two * k3) + k4)
    np.testing.assert_array_equal(rk4_step(system.rhs, x, 0.01), expected)


@pytest.mark.parametrize("name", ["lorenz-28", "springchain-32", "burgers-32"])
def test_many_trajectories_at_once_equal_one_by_one(name):
    system = preset(name)
    starts = np.stack([perturbed_start(system, seed) for seed in (101, 102, 103)])
    together = simulate(system, 50, starts=starts)
    assert together.shape == (3, 51, system.size)
    assert together.dtype == np.float32
    for start, states in zip(starts, together, strict=True):
        np.testing.assert_array_equal(simulate(system, 50, starts=start), states)


def test_float64_on_request():
    states = simulate(preset("lorenz-28"), 3, dtype="float64")
    assert states.dtype == np.float64
    np.testing.assert_array_equal(states[0], [1, 1, 1])


def test_the_system_s_own_start_comes_first():
    for system in PRESETS.values():
        np.testing.assert_array_equal(simulate(system, 1)[0], system.start().astype(np.float32))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 0}, "steps must be an integer of at least 1, got 0"),
        ({"steps": 2, "dtype": "float16"}, "unknown dtype 'float16'"),
        ({"steps": 2, "dt": -0.1}, "dt must be above zero, got -0.1"),
        ({"steps": 2, "starts": np.zeros(4)}, r"starts of lorenz-28 must have shape \(\.\.\., 3\), got \(4,\)"),
        ({"steps": 2, "starts": [1.0, np.nan, 0.0]}, "starts of lorenz-28 must be finite"),
        ({"steps": 50, "dt": 0.5}, "lorenz-28 overflowed at step .* with dt = 0.5; take a smaller dt"),
    ],
)
def test_bad_input_gets_a_sentence(options, message):
    with pytest.raises(InputError, match=message):
        simulate(preset("lorenz-28"), **options)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: UserSystem(lambda x: x, [[1.0]], 0.1), r"must be one state of shape \(n,\), got shape \(1, 1\)"),
        (lambda: UserSystem(lambda x: x[..., :1], [1.0, 2.0], 0.1), r"must keep shape \(2,\), got \(1,\)"),
        (lambda: UserSystem(lambda x: x, [1.0], 0.1, coordinates=("a", "b")), "has 1 coordinates but 2 names"),
        (lambda: UserSystem(lambda x: x, [1.0], 0.0), "dt must be above zero, got 0.0"),
        (lambda: Lorenz(rho=float("nan")), "rho must be a finite number, got nan"),
    ],
)
def test_bad_systems_get_a_sentence(make, message):
    with pytest.raises(InputError, match=message):
        make()
