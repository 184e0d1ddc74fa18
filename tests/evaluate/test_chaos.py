import numpy as np
import pytest
import torch

from lln import LensNetwork
from lln.core.errors import InputError
from lln.evaluate import lyapunov_spectrum, system_lyapunov
from lln.evaluate.chaos import value_and_jacobian
from lln.systems import UserSystem, preset, seeded_start, stepper

STARTS = 0.02 * np.random.default_rng(0).standard_normal((40, 2))


def henon(x):
    return np.stack([1.0 - 1.4 * x[..., 0] ** 2 + x[..., 1], 0.3 * x[..., 0]], axis=-1)


def henon_jacobian(x):
    matrix = np.zeros((*x.shape, 2))
    matrix[..., 0, 0], matrix[..., 0, 1], matrix[..., 1, 0] = -2.8 * x[..., 0], 1.0, 0.3
    return matrix


def test_the_true_lorenz_system():
    found = system_lyapunov(preset("lorenz-28"))
    # 10,000 units of time leave a scatter of 0.003, 0.001 and 0.002 between repetitions; 2 % are 0.018 and 0.29.
    assert found.exponents[0] == pytest.approx(0.906, rel=0.02)
    assert abs(found.exponents[1]) < 0.02
    assert found.exponents[2] == pytest.approx(-14.57, rel=0.02)
    assert found.exponents.sum() == pytest.approx(-(10 + 1 + 8 / 3), abs=1e-3)  # the flow's divergence, everywhere
    assert found.dimension == pytest.approx(2.062, abs=0.005)
    assert found.time == pytest.approx(10_000)


def test_a_linear_map_has_the_logarithms_of_its_eigenvalues():
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((4, 4)))[0]
    matrix = turn @ np.diag([1.02, 0.9, -0.7, 0.5]) @ turn.T
    expected = np.log([1.02, 0.9, 0.7, 0.5]) / 0.1
    found = lyapunov_spectrum(lambda x: x @ matrix.T, np.ones(4), 400, dt=0.1, transient=200)
    np.testing.assert_allclose(found.exponents, expected, atol=1e-6)  # differences are right to eps^(2/3) = 4e-11
    few = lyapunov_spectrum(lambda x: x @ matrix.T, np.ones(4), 400, dt=0.1, transient=200, count=2, every=5)
    np.testing.assert_allclose(few.exponents, expected[:2], atol=1e-6)


def test_the_henon_map_with_and_without_its_jacobian():
    by_hand = lyapunov_spectrum(henon, STARTS, 500, jacobian=henon_jacobian)
    by_differences = lyapunov_spectrum(henon, STARTS, 500)
    for found in (by_hand, by_differences):
        # 0.419 is the literature's value; the errors are the estimate's own.
        assert found.exponents[0] == pytest.approx(0.419, abs=4 * found.error[0])
        assert found.error[0] < 0.005
        assert found.exponents.sum() == pytest.approx(np.log(0.3), abs=1e-7)  # the map shrinks every area by 0.3
        assert found.dimension == pytest.approx(1.258, abs=0.01)


def test_a_map_in_float32_gets_wider_differences():
    found = lyapunov_spectrum(lambda x: henon(x.astype(np.float32)), STARTS, 500)
    assert found.largest == pytest.approx(0.419, abs=0.02)


def test_a_torch_map_is_differentiated():
    def step(x):
        return torch.stack([1.0 - 1.4 * x[..., 0] ** 2 + x[..., 1], 0.3 * x[..., 0]], dim=-1)

    found = lyapunov_spectrum(step, torch.from_numpy(STARTS), 300)
    assert found.exponents.sum() == pytest.approx(np.log(0.3), abs=1e-9)
    assert found.largest == pytest.approx(0.419, abs=0.02)


def test_a_lens_network_has_a_jacobian():
    network = LensNetwork(3, 3, width=8, depth=4, generator=torch.Generator().manual_seed(0)).double()
    x = torch.randn(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    value, matrix = value_and_jacobian(network, x)
    torch.testing.assert_close(value, network(x).detach())
    move = 1e-6 * torch.eye(3, dtype=torch.float64)
    with torch.no_grad():
        slope = (network(x[:, None] + move) - network(x[:, None] - move)) / 2e-6
    torch.testing.assert_close(matrix, slope.transpose(-1, -2), atol=1e-8, rtol=0)
    assert np.isfinite(lyapunov_spectrum(network, x, 20).exponents).all()


def test_units_do_not_matter_where_the_scale_is_given():
    unit = np.array([1e6, 1e-6])
    found = lyapunov_spectrum(lambda x: henon(x / unit) * unit, unit * STARTS, 300, scale=unit)
    assert found.exponents.sum() == pytest.approx(np.log(0.3), abs=1e-6)


def test_a_users_own_system():
    spiral = UserSystem(lambda x: np.stack([-0.1 * x[..., 0] - x[..., 1], x[..., 0] - 0.1 * x[..., 1]], -1), [1.0, 0.0],
                        dt=0.05)  # fmt: skip
    found = system_lyapunov(spiral, time=100.0, starts=2, transient=1.0)
    np.testing.assert_allclose(found.exponents, -0.1, atol=1e-4)
    assert found.dimension == 0.0


def test_an_orbit_that_diverges_is_a_value():
    found = lyapunov_spectrum(lambda x: x**2, np.full(2, 10.0), 50)
    assert found.diverged is not None
    assert np.isnan(found.exponents).all()
    assert np.isnan(found.dimension)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: lyapunov_spectrum(henon, [np.nan, 0.0], 50), "starts must be finite states"),
        (lambda: lyapunov_spectrum(henon, 1.0, 50), "starts must be finite states"),
        (lambda: lyapunov_spectrum(lambda x: x[:, :1], [0.0, 0.0], 50), r"must keep the shape \(1, 2\)"),
        (lambda: lyapunov_spectrum(henon, [0.0, 0.0], 50, jacobian=lambda x: x), r"must be \(1, 2, 2\), got \(1, 2\)"),
        (lambda: lyapunov_spectrum(henon, [0.0, 0.0], 50, scale=[1.0]), "scale must be 2 numbers"),
        (lambda: lyapunov_spectrum(henon, [0.0, 0.0], 3), "steps must be an integer of at least 10"),
    ],
)
def test_bad_input_gets_a_sentence(make, message):
    with pytest.raises(InputError, match=message):
        make()


def pulled_back(system, starts, settle, rounds, steps=20, apart=1e-7):
    """The largest exponent from pairs of trajectories alone: how fast they part, measured and pulled back again."""
    go = stepper(system)
    here = np.stack([seeded_start(system, 1000 + seed) for seed in range(starts)])
    move = np.random.default_rng(1).standard_normal(here.shape)
    there = here + apart * move / np.linalg.norm(move, axis=1, keepdims=True)
    rates = []
    for turn in range(settle + rounds):
        for _ in range(steps):
            here, there = go(here), go(there)
        gap = np.linalg.norm(there - here, axis=1, keepdims=True)
        there = here + apart * (there - here) / gap
        rates += [np.log(gap[:, 0] / apart) / (steps * system.dt)] if turn >= settle else []
    means = np.mean(rates, axis=0)
    return means.mean(), means.std(ddof=1) / np.sqrt(starts)


def test_a_stiff_field_steps_by_its_own_method():
    # RK4 of dt = 0.25 would leave the finite numbers at once: the fastest mode decays at the rate 7000.
    found = system_lyapunov(preset("ks-64"), time=500.0, starts=4, transient=100.0, count=2)
    assert found.diverged is None
    assert 0 < found.largest < 0.12  # 0.048 in the long run; 500 units of time leave a scatter of 0.012


@pytest.mark.slow
def test_the_largest_exponent_of_kuramoto_sivashinsky():
    found = system_lyapunov(preset("ks-64"), time=40_000.0, count=1)
    # 0.048 is the literature's value at L = 22 (Cvitanovic, Davidchack and Siminos 2010).
    assert found.largest == pytest.approx(0.048, abs=4 * found.error[0])
    assert found.error[0] < 0.0015
    rate, error = pulled_back(preset("ks-64"), 60, 40, 80)
    assert found.largest == pytest.approx(rate, abs=4 * np.hypot(error, found.error[0]))


def test_what_is_not_finite_is_null_in_the_record():
    lost = lyapunov_spectrum(lambda x: x**2, np.full(2, 10.0), 50).record()
    assert lost["exponents"] == [None, None]
    assert lost["dimension"] is None
    assert isinstance(lost["diverged"], int)
    assert system_lyapunov(preset("lorenz-28"), time=10.0, starts=2).record()["diverged"] is None
