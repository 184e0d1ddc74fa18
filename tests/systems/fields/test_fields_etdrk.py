"""The exponential method: its functions, its order, and what it may not lose."""

import dataclasses

import numpy as np
import pytest

from lln.systems import (
    AllenCahn,
    Burgers1D,
    Burgers2D,
    DecayingTurbulence,
    FisherKPP,
    GrayScott,
    KortewegDeVries,
    KuramotoSivashinsky,
    simulate,
)
from lln.systems.fields.spectral import etdrk4, phi


@pytest.mark.parametrize("order", [1, 2, 3])
def test_phi_equals_its_integral(order):
    # phi_k(z) = integral over 0 < s < 1 of e^{(1 - s) z} s^{k - 1} / (k - 1)!, here by 60 nodes.
    nodes, weights = np.polynomial.legendre.leggauss(60)
    s, w = (nodes + 1) / 2, weights / 2
    angle = np.exp(2j * np.pi * np.arange(8) / 8)
    z = np.concatenate([[0.0], *(r * angle for r in (1e-12, 1e-4, 0.3, 0.999, 1.0, 1.001, 4.0, 30.0))])
    integral = (w * np.exp(np.outer(z, 1 - s)) * s ** (order - 1)).sum(1) / max(1, order - 1)
    # The sum over 60 nodes with weights good to 1e-15 is what rounds: 1e-13 at most.
    np.testing.assert_allclose(phi(z)[order - 1], integral, rtol=2e-13)


def test_huge_decay_rates_do_no_harm():
    once = etdrk4(np.array([-1e12 + 0j, 0j]), lambda u: 0 * u + 1.0, 0.5)
    # u' = -1e12 u + 1 rests at 1e-12; u' = 1 moves by the step.
    np.testing.assert_allclose(once(np.array([1.0 + 0j, 1.0 + 0j])), [1e-12, 1.5], rtol=1e-14)


# Each with a span and a number of steps at which the error is small enough for its leading term to show.
CASES = [
    (Burgers1D(points=32, nu=0.2), 1.0, 8),
    (KortewegDeVries(points=32, length=20.0), 0.4, 20),
    (KuramotoSivashinsky(points=32, length=22.0), 1.0, 40),
    (FisherKPP(points=48, length=30.0), 4.0, 8),
    (AllenCahn(points=(16, 12), nu=0.1), 2.0, 8),
    (GrayScott(points=(16, 20), length=(16.0, 20.0)), 40.0, 16),
    (Burgers2D(points=(16, 15), nu=0.2), 1.0, 8),
    (DecayingTurbulence(points=(16, 18), nu=0.01), 1.0, 20),
]


@pytest.mark.parametrize(("system", "span", "steps"), CASES, ids=[system.family for system, _, _ in CASES])
def test_order_four(system, span, steps):
    start = system.random_start(0)

    def end(count):
        return simulate(dataclasses.replace(system, dt=span, substeps=count), 1, starts=start, dtype="float64")[-1]

    fine = end(16 * steps)
    errors = [np.abs(end(count) - fine).max() for count in (steps, 2 * steps, 4 * steps)]
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    # The reference is off by 4^-4 of the last error; the next term of the error is the rest.
    np.testing.assert_allclose(orders[-1], 4.0, atol=0.3)
    assert errors[-1] < 1e-3 * np.abs(fine).max()


def test_substeps_are_steps():
    start = KuramotoSivashinsky(points=32, length=22.0).random_start(0)
    coarse = KuramotoSivashinsky(points=32, length=22.0, dt=0.5, substeps=5)
    fine = KuramotoSivashinsky(points=32, length=22.0, dt=0.1, substeps=1)
    together = simulate(coarse, 2, starts=start, dtype="float64")[-1]
    # The same ten steps; ten more transforms there and back round at 1e-16 each.
    np.testing.assert_allclose(simulate(fine, 10, starts=start, dtype="float64")[-1], together, atol=1e-13)


def test_dealiased_transport_without_viscosity_keeps_energy_and_enstrophy():
    system = DecayingTurbulence(points=32, nu=0.0, dt=0.1, substeps=10)
    states = simulate(system, 20, starts=system.random_start(4), dtype="float64")
    # Both are exact in the dealiased equation; a step of 0.01 of the smallest modes errs by (|u| k h)^5 / 120 = 1e-6.
    for quantity in (system.energy, system.enstrophy):
        values = quantity(states)
        np.testing.assert_allclose(values, values[0], rtol=2e-6)
    assert np.abs(states[-1] - states[0]).max() > 1.0


def test_dealiased_burgers_without_viscosity_keeps_its_energy():
    system = Burgers1D(points=48, nu=0.0, dt=0.002)
    states = simulate(system, 200, dtype="float64")
    energy = np.square(states).mean(-1)
    np.testing.assert_allclose(energy, energy[0], rtol=1e-8)


@pytest.mark.parametrize("points", [9, 12, 31, 32, 64])
def test_the_rule_keeps_modes_below_a_third_and_no_more(points):
    system = Burgers1D(points=points)
    highest = int(np.flatnonzero(system.kept).max())
    assert 3 * highest < points <= 3 * (highest + 1)


def test_no_quadratic_product_is_aliased():
    system, fine = DecayingTurbulence(points=(15, 16)), DecayingTurbulence(points=(45, 48))
    a, b = (
        system.fields(system.spectrum(np.random.default_rng(k).standard_normal((15, 16))) * system.kept) for k in (0, 1)
    )

    def on(grid, field):
        hat = np.zeros((grid.space[0], grid.space[1] // 2 + 1), complex)
        coarse = system.spectrum(field)
        hat[np.ix_(np.fft.fftfreq(15, 1 / 15).astype(int), range(9))] = coarse * (np.prod(grid.space) / 240)
        return grid.fields(hat)

    # On the fine grid the product is exact; its low modes are what the coarse one must give.
    exact = fine.spectrum(on(fine, a) * on(fine, b))[np.ix_(np.fft.fftfreq(15, 1 / 15).astype(int), range(9))]
    exact = exact * system.kept * (240 / np.prod(fine.space))
    np.testing.assert_allclose(system.product(a * b), exact, atol=1e-12)
