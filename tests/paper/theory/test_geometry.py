import math
from dataclasses import dataclass
from fractions import Fraction

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lln import InputError, LensNetwork
from lln.paper.theory import geometry
from lln.paper.theory.geometry import geometry_at

U = 2.0**-53
SETTINGS = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))


GENTLE = st.just(0.0)
STRONG = st.floats(1, 5).map(lambda exponent: 10**exponent)
UP_TO_64 = st.integers(1, 64)


@dataclass
class Case:
    network: LensNetwork
    y: torch.Tensor
    theta: torch.Tensor


def norm_of(case):
    product = torch.eye(2, dtype=torch.float64)
    for block in geometry.layer_blocks(case.network, case.y, case.theta):
        product = block @ product
    return float(geometry.singular_values(product)[0])


@st.composite
def cases(draw, least_norm=GENTLE, depths=UP_TO_64, widths=UP_TO_64):
    """A random network and a ray bundle on its lenses; the lenses are made stronger until |J| >= least_norm."""
    low = draw(st.floats(-5, 2))
    basis = draw(st.integers(1, 16))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    network = LensNetwork(
        1,
        1,
        width=draw(widths),
        depth=draw(depths),
        basis=basis,
        optical_length=draw(st.floats(0.05, 3)),
        lens_scale=draw(st.floats(0.1, 2)),
        control_range=(low, low + draw(st.floats(0.5, 8))),
        generator=generator,
    ).double()
    network.sigma = network.spacing * draw(st.floats(0.5, 3))
    low, high = network.control_range
    theta = torch.empty(network.width, dtype=torch.float64).uniform_(-1, 1, generator=generator)
    first_stop = torch.empty(network.width, dtype=torch.float64).uniform_(low, high, generator=generator)
    case = Case(network, first_stop - network.length * theta, theta)
    with torch.no_grad():
        strength = 10 ** draw(st.floats(-3, -0.5))  # of a lens: the slope of its bend
        network.coefficients.normal_(std=strength * network.sigma / network.lens_scale, generator=generator)
        strengthen(case, draw(least_norm))
    return case


def strengthen(case, wanted):
    """Scale the lenses until wanted <= |J| <= 3 wanted; |J| depends on the scale continuously, so bisection lands."""
    coefficients = case.network.coefficients
    base, low, high = coefficients.clone(), None, 1.0
    while norm_of(case) < wanted:
        low, high = high, 2 * high
        coefficients.copy_(base * high)
    while low is not None and not wanted <= norm_of(case) <= 3 * wanted:
        middle = math.sqrt(low * high)
        coefficients.copy_(base * middle)
        low, high = (middle, high) if norm_of(case) < wanted else (low, middle)


def check_claims(case):
    found = geometry_at(case.network, case.y, case.theta)
    # The bounds that geometry.py derives; all of them stay within 1e-12 (inverse: 1e-13).
    largest = geometry.stack_blocks(case.network, case.y, case.theta).flatten(-2).norm(dim=-1)
    magnified = float((geometry.growth(case.network, case.y, case.theta) * largest).sum())
    assert case.network.depth * magnified <= 1e18, "outside the range of the derivation"
    assert abs(found.log_abs_det) <= 4 * case.network.depth * 2.0**-102 * magnified <= 1e-12
    assert found.symplectic_defect <= 6 * U <= 1e-12
    assert found.pairing_defect <= 25 * U <= 1e-12
    assert found.round_trip <= 1e-13 * found.condition
    assert found.condition >= found.sigma_max * (1 - 1e-9)
    return found


@SETTINGS
@given(cases())
def test_claims_hold_for_gentle_lenses(case):
    check_claims(case)


@SETTINGS
@given(cases(STRONG))
def test_claims_hold_for_strong_lenses(case):
    assert check_claims(case).sigma_max >= 10 * (1 - 1e-9)


def exact_blocks(powers, length):
    """The stack's blocks in rational arithmetic: floats are fractions, so nothing is rounded."""
    length = Fraction(length)
    result = []
    for ray in powers.T.tolist():
        a, b, c, d = Fraction(1), Fraction(0), Fraction(0), Fraction(1)
        for power in map(Fraction, ray):
            a, b = a + length * c, b + length * d
            c, d = c + power * a, d + power * b
        assert a * d - b * c == 1
        result.append(((a, b), (c, d)))
    return result


@settings(SETTINGS, max_examples=20)
@given(cases(GENTLE | STRONG, widths=st.integers(1, 8)))
def test_stack_blocks_are_the_exact_product_rounded_once(case):
    powers = geometry.lens_powers(case.network, case.y, case.theta)
    blocks = geometry.stack_blocks(case.network, case.y, case.theta).tolist()
    slack = 2 * case.network.depth * 2.0**-102 * float(geometry.growth(case.network, case.y, case.theta).amax())
    for block, exact in zip(blocks, exact_blocks(powers, case.network.length), strict=True):
        for row, exact_row in zip(block, exact, strict=True):
            for value, truth in zip(row, exact_row, strict=True):
                assert abs(Fraction(value) - truth) <= Fraction(U) * abs(truth) + Fraction(slack)


@settings(SETTINGS, max_examples=20)
@given(cases(GENTLE | STRONG, widths=st.integers(1, 16)))
def test_autograd_agrees_and_is_symplectic_too(case):
    automatic = geometry.autograd_jacobian(case.network, case.y, case.theta)
    blocks = geometry.stack_blocks(case.network, case.y, case.theta)
    # Each layer of the backward pass rounds a handful of times (8 u), and its lens slopes differ by K + 16 roundings.
    unit = case.network.depth * (case.network.basis + 24) * U
    growth = float(geometry.growth(case.network, case.y, case.theta).amax())
    slopes = slope_sizes(case)
    bound = unit * growth * (1 + slopes)
    assert (automatic - geometry.dense(blocks)).abs().max() <= bound
    sigma_max = float(geometry.singular_values(blocks)[0])
    # Entries off by `bound` move J^T Omega J by twice that times |J|; off-block entries are exact zeros.
    assert float(geometry.symplectic_defect(automatic)) <= 2 * 2 * bound * sigma_max + 6 * U * sigma_max**2


def slope_sizes(case):
    """The largest sum of absolute terms in a lens slope, which is what its rounding error is relative to."""
    optics = case.network
    strength = optics.coefficients.detach().abs().sum(-1).max()
    return float(optics.lens_scale * strength * 0.86 / optics.sigma)


@settings(SETTINGS, max_examples=15)
@given(cases(GENTLE | STRONG, depths=st.integers(1, 8), widths=st.integers(1, 12)))
def test_determinant_by_elimination_of_autograd_layers(case):
    """Knows nothing of blocks or double-double: log|det| of each layer by autograd and LU, summed over layers."""
    y, theta, total, largest = case.y, case.theta, 0.0, 0.0
    for layer in case.network.coefficients.detach():
        optics = One(layer.unsqueeze(0), case.network)
        jacobian = geometry.autograd_jacobian(optics, y, theta)
        total += float(torch.linalg.slogdet(jacobian).logabsdet)
        lower = jacobian[case.network.width :, : case.network.width]
        largest = max(largest, float(lower.abs().max()) * abs(optics.length))
        y, theta = geometry._one_layer(optics, y, theta, layer)
    # A 2 x 2 determinant 1 (1 + LH) - L H by elimination rounds four times, by u (1 + 2 |LH|) at most.
    sizes = case.network.depth * case.network.width
    assert abs(total) <= 4 * sizes * U * (1 + 2 * largest)
    assert abs(float(geometry.log_abs_det(case.network, case.y, case.theta))) <= 1e-12


class One:
    def __init__(self, coefficients, like):
        self.coefficients = coefficients
        self.centers, self.sigma, self.length, self.lens_scale = like.centers, like.sigma, like.length, like.lens_scale


def network(**options):
    generator = torch.Generator().manual_seed(3)
    made = LensNetwork(2, 2, **{"width": 5, "depth": 4, "basis": 3, **options}, generator=generator).double()
    made.coefficients.data.mul_(20)
    rays = torch.randn(2, 5, dtype=torch.float64, generator=generator)
    return made, rays[0], rays[1]


def test_autograd_against_central_differences():
    made, y, theta = network()
    point = torch.cat((y, theta))

    def transport(z):
        return torch.cat(made.transport(z[:5], z[5:]))

    step = 1e-6  # error: step^2 times third derivatives, and u / step
    rows = torch.eye(10, dtype=torch.float64) * step
    numeric = torch.stack([(transport(point + e) - transport(point - e)) / (2 * step) for e in rows], dim=1).detach()
    torch.testing.assert_close(geometry.autograd_jacobian(made, y, theta), numeric, rtol=0, atol=1e-8)


def test_layer_blocks_are_the_paper_s_block_form():
    made, y, theta = network()
    powers = geometry.lens_powers(made, y, theta)
    first = geometry.dense(geometry.layer_blocks(made, y, theta)[0])
    eye, power = torch.eye(5, dtype=torch.float64), torch.diag(powers[0])
    expected = torch.cat(
        (torch.cat((eye, made.length * eye), dim=1), torch.cat((power, eye + made.length * power), dim=1))
    )
    torch.testing.assert_close(first, expected, rtol=0, atol=0)
    torch.testing.assert_close(
        first, geometry.autograd_jacobian(One(made.coefficients[:1], made), y, theta), rtol=1e-13, atol=1e-14
    )


def test_batches_are_points_side_by_side():
    made, _, _ = network()
    y, theta = torch.randn(2, 3, 4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    blocks = geometry.stack_blocks(made, y, theta)
    assert blocks.shape == (3, 4, 5, 2, 2)
    assert geometry.dense(blocks).shape == (3, 4, 10, 10)
    torch.testing.assert_close(blocks[1, 2], geometry.stack_blocks(made, y[1, 2], theta[1, 2]), rtol=0, atol=0)
    for function in (geometry.log_abs_det, geometry.condition, geometry.growth, geometry.round_trip_error):
        values = function(made, y, theta)
        assert values.shape[:2] == (3, 4)
        torch.testing.assert_close(values[1, 2], function(made, y[1, 2], theta[1, 2]), rtol=0, atol=0)


@pytest.mark.parametrize("options", [{"lens_scale": 0.0}, {"propagation": 0.0}])
def test_without_lenses_or_flight_the_jacobian_is_a_single_shear(options):
    made, y, theta = network(**options)
    (a, b), (c, d) = geometry.stack_blocks(made, y, theta).movedim((-2, -1), (0, 1))
    assert torch.equal(a, torch.ones(5, dtype=torch.float64))
    assert torch.equal(d, a)
    if "lens_scale" in options:
        assert torch.equal(c, 0 * a)
        torch.testing.assert_close(b, torch.full_like(b, made.optical_length), rtol=1e-15, atol=0)
    else:
        assert torch.equal(b, 0 * a)
        torch.testing.assert_close(c, geometry.lens_powers(made, y, theta).sum(0), rtol=1e-13, atol=1e-15)


def test_defects_see_a_map_that_is_not_symplectic():
    made, y, theta = network()
    blocks = geometry.stack_blocks(made, y, theta)
    stretched = blocks * torch.tensor([[1.0], [1.0 + 1e-9]], dtype=torch.float64)
    matrix = geometry.dense(stretched)
    assert float(geometry.symplectic_defect(matrix)) == pytest.approx(1e-9, rel=1e-3)
    assert float(torch.linalg.slogdet(matrix).logabsdet) == pytest.approx(5e-9, rel=1e-3)
    assert float(geometry.pairing_defect(geometry.singular_values(stretched))) > 1e-10


def test_singular_values_of_blocks_are_those_of_the_matrix():
    made, y, theta = network()
    blocks = geometry.stack_blocks(made, y, theta)
    dense = torch.linalg.svdvals(geometry.dense(blocks))
    # Weyl: both decompositions are right to 2h u |J|, with a factor for LAPACK's constants.
    torch.testing.assert_close(geometry.singular_values(blocks), dense, rtol=0, atol=float(10 * 10 * U * dense[0]))
    assert math.isclose(float(dense[0] * dense[-1]), 1.0, rel_tol=1e-12)


def test_float32_networks_are_measured_in_float64():
    made, y, theta = network()
    single = made.float()
    assert geometry.stack_blocks(single, y.float(), theta.float()).dtype == torch.float64
    assert geometry_at(single, y.float(), theta.float()).symplectic_defect < 1e-15


@pytest.mark.parametrize(
    ("y", "theta", "message"),
    [
        (torch.zeros(4), torch.zeros(5), r"y must have shape \(5,\), one entry per ray, got \(4,\)"),
        (torch.zeros(5), torch.zeros(2, 5), r"theta must have shape \(5,\), one entry per ray, got \(2, 5\)"),
        (torch.zeros(5, device="meta"), torch.zeros(5), "y is on meta but the lenses are on cpu; move one"),
    ],
)
def test_bad_points_are_refused(y, theta, message):
    with pytest.raises(InputError, match=message):
        geometry_at(network()[0], y, theta)
