import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lln import InputError
from lln.models import ridge_expansion, ridge_network


@st.composite
def expansions(draw):
    terms, n, q = draw(st.integers(1, 40)), draw(st.integers(1, 8)), draw(st.integers(1, 5))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))

    def normal(*shape):
        return torch.randn(*shape, dtype=torch.float64, generator=generator)

    parts = (
        normal(terms, n) * draw(st.floats(0.1, 5)),
        normal(terms) * draw(st.floats(0, 3)),
        normal(terms, q) * 10 ** draw(st.floats(-2, 2)),
        normal(q),
    )
    basis = draw(st.integers(1, 16))
    low = draw(st.floats(-4, 3))
    options = {
        "propagation": draw(st.sampled_from([-1, 1])) * 10 ** draw(st.floats(-3, 1)),
        "basis": basis,
        "control_range": (low, low + draw(st.floats(0.5, 8))),
        "sigma": draw(st.none() | st.floats(0.05, 5)),
        "center": draw(st.integers(0, basis - 1)),
        "lens_scale": draw(st.sampled_from([-1, 1])) * draw(st.floats(0.05, 2)),
    }
    return parts, options, normal(30, n)


@settings(max_examples=80, deadline=None)
@given(expansions())
def test_the_network_equals_its_expansion(drawn):
    parts, options, x = drawn
    network = ridge_network(*parts, **options)
    assert (network.depth, network.width) == (2, 2 * len(parts[1]))
    largest = torch.stack([rays.y.detach() for rays in network.states(x)]).abs().max()
    gamma = parts[2].abs().sum(0).max()
    # The difference y_p - y_r keeps u max|y| of error, and the readout magnifies it by sum|gamma| / |L|.
    tolerance = 1e-12 * max(1.0, float(gamma * largest) / abs(network.length))
    assert (network(x) - ridge_expansion(x, *parts)).abs().max() <= tolerance


def test_the_expansion_is_the_paper_s_sum():
    w, beta = torch.tensor([[1.0, -2.0], [0.5, 0.0]]).double(), torch.tensor([0.25, -1.0]).double()
    gamma, bias = torch.tensor([[2.0], [-1.0]]).double(), torch.tensor([0.25]).double()
    x = torch.tensor([0.75, 0.5]).double()
    # w_1 . x + beta_1 = 0.75 - 1 + 0.25 = 0 and w_2 . x + beta_2 = 0.375 - 1 = -0.625
    expected = 0.25 + 2.0 * 1.0 - math.exp(-(0.625**2))
    assert ridge_expansion(x, w, beta, gamma, bias).item() == pytest.approx(expected, rel=1e-15)


def test_the_construction_is_the_proof_s():
    network = ridge_network(*parts(), basis=5, center=3)
    assert not network.embed_angle.weight.any()
    assert not network.embed_angle.bias.any()
    assert not network.coefficients[1].any()
    assert int(network.coefficients.count_nonzero()) == 4
    position = network.embed_position.weight
    assert torch.equal(position[:4], position[4:])


def test_it_approximates_a_map_that_no_volume_preserving_map_is():
    """Fit F to a dissipative map by least squares over random ridges; the network is as good as the fit."""
    generator = torch.Generator().manual_seed(0)
    w = 2 * torch.randn(60, 1, dtype=torch.float64, generator=generator)
    beta = 2 * torch.randn(60, dtype=torch.float64, generator=generator)
    x = torch.linspace(-1, 1, 400, dtype=torch.float64).unsqueeze(1)
    features = torch.exp(-((x @ w.T + beta) ** 2))
    gamma = torch.linalg.lstsq(features, 0.1 * x.abs(), rcond=1e-10, driver="gelsd").solution
    network = ridge_network(w, beta, gamma, torch.zeros(1, dtype=torch.float64))
    assert (network(x) - 0.1 * x.abs()).abs().max() < 2e-3


def parts(terms=4, n=2, q=3):
    generator = torch.Generator().manual_seed(2)
    shapes = ((terms, n), (terms,), (terms, q), (q,))
    return tuple(torch.randn(shape, dtype=torch.float64, generator=generator) for shape in shapes)


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({}, {"propagation": 0.0}, "propagation must not be zero: without it no lens can move a ray; use 1.0"),
        ({}, {"propagation": float("nan")}, "propagation must be a finite number, got nan"),
        ({}, {"lens_scale": 0.0}, "lens_scale must not be zero"),
        ({}, {"basis": 3, "center": 3}, r"center must be a control point's index in 0\.\.2, got 3"),
        ({0: torch.ones(4)}, {}, r"weights and coefficients must have shapes \(M, n\) and \(M, q\), got \(4,\)"),
        ({1: torch.ones(5).double()}, {}, r"shifts must have shape \(4,\) to fit weights \(4, 2\)"),
        ({3: torch.ones(3)}, {}, "bias is torch.float32 on cpu but weights is torch.float64 on cpu"),
        ({i: torch.ones_like(p, dtype=torch.int64) for i, p in enumerate(parts())}, {}, "must be floating point"),
    ],
)
def test_bad_expansions_are_refused(change, options, message):
    given_parts = [change.get(i, part) for i, part in enumerate(parts())]
    with pytest.raises(InputError, match=message):
        ridge_network(*given_parts, **options)
