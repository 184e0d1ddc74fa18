"""Each field against a solution that it did not compute itself."""

import numpy as np
import pytest

from lln.systems import (
    Advection,
    AdvectionDiffusion2D,
    AllenCahn,
    Burgers1D,
    Burgers2D,
    DecayingTurbulence,
    Diffusion,
    FisherKPP,
    GrayScott,
    KortewegDeVries,
    KuramotoSivashinsky,
    Wave,
    simulate,
)

# Exact propagation: every step transforms there and back, which rounds at about 1e-16 times a few.
ROUNDING = 1e-12


def end(system, steps, start, **options):
    return simulate(system, steps, starts=start, dtype="float64", **options)[..., -1, :]


@pytest.mark.parametrize("points", [32, 33])
def test_advection_carries_a_profile_along(points):
    system = Advection(points=points, c=0.7, length=3.0, dt=0.11)
    x = system.grid

    def profile(x):
        return np.sin(2 * np.pi * x / 3) + 0.4 * np.cos(10 * np.pi * x / 3 + 1) + 2

    got = end(system, 50, profile(x))
    np.testing.assert_allclose(got, profile(x - 0.7 * 5.5), atol=ROUNDING)


@pytest.mark.parametrize("points", [32, 33])
def test_advection_loses_nothing_of_a_rough_profile(points):
    system = Advection(points=points)
    states = simulate(system, 50, starts=np.random.default_rng(0).standard_normal(points), dtype="float64")
    # The highest mode of an even grid must rest: turned by a phase, it would lose what the grid cannot show.
    np.testing.assert_allclose(np.square(states).mean(-1), np.square(states[0]).mean(), rtol=ROUNDING)


@pytest.mark.parametrize("points", [32, 33])
def test_diffusion_follows_its_modes(points):
    system = Diffusion(points=points, nu=0.3, length=4.0, dt=0.05)
    start = np.random.default_rng(0).standard_normal(points)
    k = 2 * np.pi / 4 * np.fft.fftfreq(points, 1 / points)
    exact = np.fft.ifft(np.fft.fft(start) * np.exp(-0.3 * k**2 * 1.0)).real
    np.testing.assert_allclose(end(system, 20, start), exact, atol=ROUNDING)


def test_a_gaussian_spreads_as_the_heat_kernel_does():
    system = Diffusion(points=128, nu=0.5, length=40.0, dt=0.1)
    x = system.grid - 20

    def gaussian(t):
        return np.exp(-(x**2) / (4 * 0.5 * t)) / np.sqrt(t)

    # The periodic images are at exp(-20^2 / 8) = 2e-22.
    np.testing.assert_allclose(end(system, 30, gaussian(1.0)), gaussian(4.0), atol=ROUNDING)


@pytest.mark.parametrize("points", [32, 33])
def test_standing_waves_swing_and_running_waves_run(points):
    system = Wave(points=points, c=1.3, length=5.0, dt=0.07)
    q, k = 2 * np.pi * system.coords["x"] / 5, 2 * np.pi / 5
    t, omega = 40 * 0.07, 1.3 * 2 * k
    standing = np.concatenate([np.cos(2 * q), 0 * q])
    exact = np.concatenate([np.cos(2 * q) * np.cos(omega * t), -omega * np.cos(2 * q) * np.sin(omega * t)])
    np.testing.assert_allclose(end(system, 40, standing), exact, atol=ROUNDING)

    def running(t):
        phase = 3 * (q - k * 1.3 * t)
        return np.concatenate([np.sin(phase), -3 * k * 1.3 * np.cos(phase)])

    np.testing.assert_allclose(end(system, 40, running(0)), running(t), atol=ROUNDING)


def test_a_ring_is_as_it_was_after_one_round_and_its_energy_stays():
    system = Wave(points=64, length=5.0, dt=0.1)
    rough = np.random.default_rng(0).standard_normal(128)
    rough[64:] -= rough[64:].mean()
    states = simulate(system, 50, starts=rough, dtype="float64")
    # The highest mode also swings whole turns in that time: omega t = pi n.
    np.testing.assert_allclose(states[-1], states[0], atol=ROUNDING)
    energy = system.energy(states)
    np.testing.assert_allclose(energy, energy[0], rtol=ROUNDING)
    moving = np.concatenate([np.zeros(64), np.full(64, 0.5)])
    np.testing.assert_allclose(end(system, 50, moving)[:64], 2.5, atol=ROUNDING)


@pytest.mark.parametrize("points", [(12, 16), (13, 15)])
def test_a_puff_drifts_and_spreads_in_the_plane(points):
    system = AdvectionDiffusion2D(points=points, wind=(0.6, -0.3), nu=0.05, length=(3.0, 5.0), dt=0.1)
    x, y = system.mesh
    a, b = 2 * np.pi / 3, 2 * np.pi / 5

    def exact(t):
        x_t, y_t = x - 0.6 * t, y + 0.3 * t
        first = np.exp(-0.05 * (4 * a**2 + b**2) * t) * np.cos(2 * a * x_t + b * y_t)
        return (1 + first + np.exp(-0.05 * 9 * b**2 * t) * np.sin(3 * b * y_t)).ravel()

    np.testing.assert_allclose(end(system, 30, exact(0.0)), exact(3.0), atol=ROUNDING)


def test_burgers_agrees_with_cole_and_hopf():
    # u = -2 nu phi_x / phi with the heat solution phi = 1 + a exp(-nu k^2 t) cos kx.
    nu, a, k = 0.3, 0.6, 2 * np.pi / 5
    system = Burgers1D(points=64, nu=nu, length=5.0, dt=0.02)
    x = system.grid

    def exact(t):
        decay = a * np.exp(-nu * k**2 * t)
        return 2 * nu * k * decay * np.sin(k * x) / (1 + decay * np.cos(k * x))

    # Modes fall as 0.33^m (the pole of the start), 1e-10 at m = 21; ETDRK4 adds (|u| k h)^4 times order one.
    np.testing.assert_allclose(end(system, 50, exact(0.0)), exact(1.0), atol=1e-9)


def test_burgers_in_the_plane_agrees_with_cole_and_hopf():
    nu = 0.3
    system = Burgers2D(points=(48, 40), nu=nu, dt=0.02)
    x, y = system.mesh

    def exact(t):
        p, q = 0.3 * np.exp(-nu * t), 0.2 * np.exp(-2 * nu * t)
        phi = 1 + p * np.cos(x) + q * np.sin(x + y)
        slope_x, slope_y = -p * np.sin(x) + q * np.cos(x + y), q * np.cos(x + y)
        return np.concatenate([(-2 * nu * slope_x / phi).ravel(), (-2 * nu * slope_y / phi).ravel()])

    # phi stays above 0.5, so that modes fall faster than 0.5^m; at m = 13 and squared, by products, that is 1e-8.
    np.testing.assert_allclose(end(system, 50, exact(0.0)), exact(1.0), atol=1e-6)


def test_the_components_of_burgers_are_carried_by_the_right_velocity():
    system = Burgers2D(points=16, nu=0.01)
    x, y = system.mesh
    u, v = np.sin(y), 2 * np.cos(x)
    slope = system.rhs(np.concatenate([u.ravel(), v.ravel()]))
    exact = np.concatenate([(-v * np.cos(y) - 0.01 * u).ravel(), (u * 2 * np.sin(x) - 0.01 * v).ravel()])
    np.testing.assert_allclose(slope, exact, atol=ROUNDING)


@pytest.mark.parametrize("c", [0.8, 1.6])
def test_a_soliton_keeps_its_shape_and_speed(c):
    system = KortewegDeVries(points=128, length=40.0, dt=0.5, substeps=50)
    got = end(system, 20, system.soliton(c, 10.0))
    # At c = 1.6 the spectrum at the highest mode kept is exp(-pi 6.6 / sqrt(c)) = 8e-8; the images are fainter still.
    np.testing.assert_allclose(got, system.soliton(c, 10.0 + 10 * c), atol=2e-5)


def test_a_tall_soliton_passes_a_low_one_and_both_come_out_whole():
    system = KortewegDeVries(points=128, length=60.0, dt=1.0, substeps=80)
    x = system.grid

    def exact(t):
        # Hirota: u = 2 (log tau)_xx, tau = 1 + e1 + e2 + a12 e1 e2, e = exp(k (x - k^2 t - position)).
        (k1, p1), (k2, p2) = (1.2, 12.0), (0.7, 20.0)
        e1, e2 = np.exp(k1 * (x - k1**2 * t - p1)), np.exp(k2 * (x - k2**2 * t - p2))
        both = ((k1 - k2) / (k1 + k2)) ** 2 * e1 * e2
        tau = 1 + e1 + e2 + both
        first = (k1 * e1 + k2 * e2 + (k1 + k2) * both) / tau
        return 2 * ((k1**2 * e1 + k2**2 * e2 + (k1 + k2) ** 2 * both) / tau - first**2)

    # The low one falls as exp(-0.7 distance): 5e-6 where the circle is cut, 17 from its crest.
    states = simulate(system, 15, starts=exact(0.0), dtype="float64")
    np.testing.assert_allclose(states[[7, 15]], [exact(7.0), exact(15.0)], atol=5e-5)
    crests = system.grid[[states[0].argmax(), states[-1].argmax()]]
    assert crests[0] < 20 < crests[1] - 0.49 * 15  # it was behind the low one, and is ahead


def test_kdv_keeps_momentum_and_energy():
    system = KortewegDeVries(points=96, length=40.0)
    states = simulate(system, 40, starts=system.random_start(2), dtype="float64")
    for invariant in system.invariants().values():
        values = invariant(states)
        np.testing.assert_allclose(values, values[0], atol=1e-5)


def test_small_waves_grow_at_the_rate_of_kuramoto_and_sivashinsky():
    system = KuramotoSivashinsky(points=64, length=22.0, dt=0.5)
    k = 2 * np.pi / 22 * np.array([1, 2, 3, 5])
    waves = 1e-9 * np.cos(np.outer(k, system.grid))
    got = end(system, 10, waves)
    # What the square of 1e-9 does is not seen.
    np.testing.assert_allclose(got, waves * np.exp((k**2 - k**4) * 5)[:, None], atol=1e-15)


def test_the_slope_of_kuramoto_and_sivashinsky():
    system = KuramotoSivashinsky(points=32, length=20.0)
    k, x = 2 * np.pi / 20, system.grid
    u = 2 * np.cos(k * x)
    # -u u_x = 4 k cos sin = 2 k sin 2kx.
    exact = 2 * k * np.sin(2 * k * x) + (k**2 - k**4) * u
    np.testing.assert_allclose(system.rhs(u), exact, atol=ROUNDING)


def test_kuramoto_sivashinsky_stays_on_its_attractor_and_forgets_its_start():
    system = KuramotoSivashinsky(points=64, length=22.0)
    start = system.random_start(1)
    runs = simulate(system, 800, starts=np.stack([start, start + 1e-6 * np.cos(system.grid)]), dtype="float64")
    assert 1.0 < np.abs(runs[:, 400:]).max() < 4.0
    assert np.abs(runs[0, -1] - runs[1, -1]).max() > 1e-5
    np.testing.assert_allclose(runs.mean(-1), np.tile(runs[:, :1].mean(-1), 801), atol=1e-13)


def test_fisher_fronts_take_the_exact_shape_and_speed():
    # Ablowitz and Zeppetella: (1 + exp(s / sqrt 6))^-2 moves at 5 / sqrt 6 (for D = r = 1; here scaled).
    diffusivity, rate, length = 0.5, 2.0, 120.0
    system = FisherKPP(points=384, diffusivity=diffusivity, rate=rate, length=length, dt=0.05)
    unit, speed = np.sqrt(diffusivity / rate), 5 / np.sqrt(6) * np.sqrt(diffusivity * rate)

    def exact(t):
        distance = (np.abs(system.grid - length / 2) - length / 4 - speed * t) / unit
        return (1 + np.exp(distance / np.sqrt(6))) ** -2

    # The two fronts know nothing of each other: exp(-30 / (unit sqrt 6)) = 2e-11. Steps: (r h)^4 = 1e-4 of order 1e-2.
    np.testing.assert_allclose(end(system, 60, exact(0.0)), exact(3.0), atol=1e-6)


def test_a_uniform_population_is_logistic():
    system, t = FisherKPP(points=8, rate=0.7, dt=0.05), 5.0
    exact = 1 / (1 + 9 * np.exp(-0.7 * t))
    np.testing.assert_allclose(end(system, 100, np.full(8, 0.1)), exact, atol=1e-8)


def test_a_flat_wall_between_two_phases_rests():
    system = AllenCahn(points=(128, 8), nu=0.4, length=(24.0, 2.0), dt=0.5)
    (x, _), width = system.mesh, np.sqrt(0.8)
    wall = np.tanh((x - 6) / width) * np.tanh((18 - x) / width)
    # Two walls 12 apart draw each other by exp(-12 sqrt(2 / 0.4)) = 2e-12; the highest mode kept is at 1e-7.
    np.testing.assert_allclose(end(system, 10, wall.ravel()), wall.ravel(), atol=1e-5)


def test_a_disc_shrinks_by_its_curvature():
    nu, radius, t = 0.01, 1.6, 40.0
    system = AllenCahn(points=64, nu=nu, dt=1.0, substeps=5, length=5.0)
    x, y = (axis - 2.5 for axis in system.mesh)
    start = np.tanh((radius - np.hypot(x, y)) / np.sqrt(2 * nu))
    states = simulate(system, 40, starts=start.ravel(), dtype="float64")
    # Area of the phase u > 0 by the mean of u. The law is the limit of thin walls: (wall / radius)^2 = 1 %.
    area = (states.mean(-1) + 1) / 2 * 25
    assert area[0] - area[-1] == pytest.approx(2 * np.pi * nu * t, rel=0.03)
    energy = system.energy(states)
    assert np.all(np.diff(energy) < 0)


def test_uniform_allen_cahn_is_bernoulli():
    system, t, u0 = AllenCahn(points=8, dt=0.05), 3.0, 0.2
    exact = u0 / np.sqrt(u0**2 + (1 - u0**2) * np.exp(-2 * t))
    np.testing.assert_allclose(end(system, 60, np.full(64, u0)), exact, atol=1e-7)


def test_gray_scott_rests_where_its_reaction_does():
    system = GrayScott(points=8, feed=0.06, kill=0.05)
    # u v = F + k and F (1 - u) = (F + k) v: the stable one of the two states with v > 0.
    root = np.sqrt(1 - 4 * 0.11**2 / 0.06)
    u = (1 - root) / 2
    rest = np.repeat([u, 0.11 / u], 64)
    np.testing.assert_allclose(system.rhs(rest), 0, atol=1e-15)
    np.testing.assert_allclose(end(system, 20, rest), rest, atol=1e-12)
    bare = np.repeat([1.0, 0.0], 64)
    np.testing.assert_allclose(end(system, 20, bare), bare, atol=1e-13)


def test_small_v_dies_and_missing_u_comes_back_in_gray_scott():
    system = GrayScott(points=16, length=16.0, dt=2.0)
    x, y = system.mesh
    k = 2 * np.pi / 16
    wave, t = np.cos(k * x) * np.sin(2 * k * y), 20.0
    start = np.concatenate([(1 - 0.1 * wave).ravel(), 1e-8 * (1 + wave).ravel()])
    u, v = end(system, 10, start).reshape(2, 16, 16)
    np.testing.assert_allclose(u, 1 - 0.1 * np.exp(-(0.16 * 5 * k**2 + 0.037) * t) * wave, atol=1e-12)
    decay = np.exp(-0.097 * t)
    np.testing.assert_allclose(v, 1e-8 * decay * (1 + np.exp(-0.08 * 5 * k**2 * t) * wave), atol=1e-14)


@pytest.mark.parametrize("points", [16, (15, 18)])
def test_taylor_and_green_decay(points):
    system = DecayingTurbulence(points=points, nu=0.05, dt=0.1)
    x, y = system.mesh
    vortex = (2 * np.cos(x) * np.cos(y) + np.sin(x + y)).ravel()
    # An eigenfunction of the Laplacian: carried along itself, it only fades. Products cancel to rounding.
    np.testing.assert_allclose(end(system, 20, vortex), np.exp(-2 * 0.05 * 2.0) * vortex, atol=ROUNDING)


def test_vorticity_is_carried_by_its_own_velocity():
    system = DecayingTurbulence(points=(16, 20), nu=0.1)
    x, y = system.mesh
    w = np.sin(x) + np.cos(2 * y)
    # psi = sin x + cos(2y) / 4, u = psi_y = -sin(2y) / 2, v = -psi_x = -cos x.
    u, v = system.velocity(w.ravel())
    np.testing.assert_allclose(u, -np.sin(2 * y) / 2, atol=ROUNDING)
    np.testing.assert_allclose(v, -np.cos(x), atol=ROUNDING)
    slope = -1.5 * np.cos(x) * np.sin(2 * y) - 0.1 * (np.sin(x) + 4 * np.cos(2 * y))
    np.testing.assert_allclose(system.rhs(w.ravel()), slope.ravel(), atol=ROUNDING)


def test_turbulence_loses_energy_as_its_enstrophy_says():
    system = DecayingTurbulence(points=32, nu=0.02, dt=0.05)
    states = simulate(system, 20, starts=system.random_start(5), dtype="float64")
    energy, enstrophy = system.energy(states), system.enstrophy(states)
    loss = 2 * 0.02 * np.trapezoid(enstrophy, dx=0.05)
    # dE/dt = -2 nu enstrophy, summed by trapezia of 0.05.
    assert energy[0] - energy[-1] == pytest.approx(loss, rel=1e-3)
    assert np.all(np.diff(enstrophy) < 0)
