"""Each equation against something that it did not compute itself."""

import numpy as np
import pytest
import scipy.linalg

from lln.core.errors import InputError
from lln.systems import AdvectionDiffusion, Burgers, Lorenz, ReactionDiffusion, SpringChain, simulate


@pytest.mark.parametrize("points", [32, 48, 7])
def test_advection_diffusion_follows_its_fourier_modes(points):
    system = AdvectionDiffusion(points=points, c=0.7)
    start = np.random.default_rng(0).standard_normal(points)
    dx, k = 2 * np.pi / points, np.fft.fftfreq(points, 1 / points)
    rate = -1j * 0.7 * np.sin(k * dx) / dx - 2 * 0.05 * (1 - np.cos(k * dx)) / dx**2
    exact = np.fft.ifft(np.fft.fft(start) * np.exp(rate * 2.0)).real
    # N steps of z = |rate dt| err by N z^5 / 120 in a mode that has decayed by exp(-N Re z): at most 1e-9 here.
    got = simulate(system, 200, starts=start, dtype="float64")[-1]
    np.testing.assert_allclose(got, exact, atol=1e-8)


@pytest.mark.parametrize("masses", [32, 48, 5])
def test_the_spring_chain_follows_the_matrix_exponential(masses):
    system = SpringChain(masses=masses)
    stiffness = 2 * np.eye(masses) - np.eye(masses, k=1) - np.eye(masses, k=-1)
    zero, one = np.zeros_like(stiffness), np.eye(masses)
    flow = scipy.linalg.expm(10.0 * np.block([[zero, one], [-stiffness, zero]]))
    states = simulate(system, 500, dtype="float64")
    # 500 steps, omega dt at most 0.04: 500 * 0.04^5 / 120 = 4e-7 times an amplitude of order one.
    np.testing.assert_allclose(states[-1], flow @ system.start(), atol=4e-7)


def test_the_spring_chain_s_energy_drifts_as_rk4_predicts():
    system = SpringChain(masses=32)
    energy = system.energy(simulate(system, 4000, dtype="float64"))
    # A mode's energy shrinks by (omega dt)^6 / 72 a step, omega at most 2: 4000 * 0.04^6 / 72 = 2.3e-7 at worst.
    drift = 1 - energy[-1] / energy[0]
    assert 0 < drift < 2.3e-7
    # float32 rounds at 6e-8 a step; as a random walk over 4000 steps that is 4e-6, ten times that is a bug.
    rounded = system.energy(simulate(system, 4000).astype(np.float64))
    assert abs(rounded[-1] / rounded[0] - 1) < 4e-5


def test_burgers_converges_with_order_two_in_space():
    def field(points):
        system = Burgers(points=points, nu=0.1, dt=0.4 / 800)
        return simulate(system, 800, dtype="float64")[-1]

    fine = field(512)
    errors = [np.abs(field(n) - fine[:: 512 // n]).max() for n in (32, 64, 128)]
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    np.testing.assert_allclose(orders, 2.0, atol=0.25)


def test_burgers_agrees_with_cole_and_hopf():
    # u = -2 nu phi_x / phi with the heat solution phi = 1 + a exp(-nu t) cos x.
    nu, a, points = 0.3, 0.6, 256
    system = Burgers(points=points, nu=nu, dt=0.0005)
    x = system.grid

    def exact(t):
        decay = a * np.exp(-nu * t)
        return 2 * nu * decay * np.sin(x) / (1 + decay * np.cos(x))

    got = simulate(system, 2000, starts=exact(0.0), dtype="float64")[-1]
    # Second order: dx^2 = 6e-4 times third derivatives of order one over a unit of time.
    np.testing.assert_allclose(got, exact(1.0), atol=6e-4)


def test_burgers_keeps_its_mean_to_rounding():
    system = Burgers(points=48)
    states = simulate(system, 4000, starts=system.start() + 0.3, dtype="float64")
    np.testing.assert_allclose(states.mean(-1), 0.3, atol=1e-13)


def test_reaction_diffusion_goes_downhill_and_stays_between_its_phases():
    system = ReactionDiffusion(points=48)
    states = simulate(system, 4000, starts=np.clip(system.start(), -1, 1), dtype="float64")
    assert np.all(np.diff(system.energy(states)) <= 0)
    assert np.abs(states).max() <= 1.0


def test_a_uniform_reaction_follows_the_exact_bernoulli_solution():
    system = ReactionDiffusion(points=5, dt=0.01)
    t, u0 = 3.0, 0.2
    exact = u0 / np.sqrt(u0**2 + (1 - u0**2) * np.exp(-2 * t))
    got = simulate(system, 300, starts=np.full(5, u0), dtype="float64")[-1]
    np.testing.assert_allclose(got, exact, atol=1e-9)


def test_a_diffusing_wave_decays_at_the_linear_rate():
    system, k = ReactionDiffusion(points=64), 3
    wave = 1e-7 * np.cos(k * system.grid)
    rate = 1 - 2 * 0.05 * (1 - np.cos(k * system.spacing)) / system.spacing**2
    got = simulate(system, 500, starts=wave, dtype="float64")[-1]
    np.testing.assert_allclose(got, wave * np.exp(rate * 1.0), atol=1e-17)


@pytest.mark.parametrize("rho", [24.0, 28.0])
def test_lorenz_rests_at_its_fixed_points(rho):
    system = Lorenz(rho=rho)
    radius = np.sqrt(8 / 3 * (rho - 1))
    points = np.array([[0, 0, 0], [radius, radius, rho - 1], [-radius, -radius, rho - 1]])
    np.testing.assert_allclose(system.rhs(points), 0, atol=1e-12)


def test_lorenz_contracts_volume_at_its_constant_rate():
    system, x = Lorenz(), np.array([1.0, -2.0, 20.0])
    step = 1e-5
    trace = sum((system.rhs(x + step * e) - system.rhs(x - step * e))[i] for i, e in enumerate(np.eye(3))) / (2 * step)
    assert trace == pytest.approx(-(10 + 1 + 8 / 3), abs=1e-8)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Burgers(points=2), "points must be an integer of at least 3, got 2"),
        (lambda: Burgers(nu=float("inf")), "nu must be a finite number, got inf"),
        (lambda: SpringChain(masses=1), "masses must be an integer of at least 2, got 1"),
        (lambda: ReactionDiffusion(dt=0), "dt must be above zero, got 0.0"),
        (lambda: AdvectionDiffusion(points=8.5), "points must be an integer of at least 3, got 8.5"),
    ],
)
def test_impossible_constants_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()
