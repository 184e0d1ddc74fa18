from dataclasses import FrozenInstanceError

import numpy as np
import pytest
import torch

from lln import LensNetwork
from lln.core.errors import InputError
from lln.evaluate import lyapunov_spectrum, power_spectrum, rollout
from lln.evaluate.rollout import Region
from lln.paper.case_study import principal_plane
from lln.paper.theory import geometry


def henon(x):
    return np.stack([1.0 - 1.4 * x[..., 0] ** 2 + x[..., 1], 0.3 * x[..., 0]], axis=-1)


def test_the_step_at_which_an_orbit_diverges_is_counted_from_one():
    # 10 squared k times is 10^(2^k): beyond float64 at k = 9.
    assert lyapunov_spectrum(lambda x: x**2, np.full(2, 10.0), 50).diverged == 9


def test_the_error_of_exponents_comes_from_orbits_or_from_stretches_of_one():
    alone = lyapunov_spectrum(henon, [0.1, 0.1], 300)
    assert 0 < alone.error[0] < 0.2
    twenty_alike = lyapunov_spectrum(henon, np.tile([0.1, 0.1], (20, 1)), 300)
    assert twenty_alike.error[0] < 1e-12  # orbits that agree leave nothing but rounding


def test_a_scale_of_zero_is_refused():
    with pytest.raises(InputError, match="numbers above zero"):
        lyapunov_spectrum(henon, [0.1, 0.1], 50, scale=[1.0, 0.0])


def test_condition_is_the_largest_norm_of_the_first_layers():
    network = LensNetwork(1, 1, width=5, depth=4, generator=torch.Generator().manual_seed(0)).double()
    y, theta = torch.linspace(-1, 1, 5, dtype=torch.float64), torch.full((5,), 0.1, dtype=torch.float64)
    product, norms = torch.eye(2, dtype=torch.float64), []
    for block in geometry.layer_blocks(network, y, theta):
        product = block @ product
        norms.append(torch.linalg.matrix_norm(product, ord=2).max())
    torch.testing.assert_close(geometry.condition(network, y, theta), torch.stack(norms).max().clamp_min(1.0))


def test_two_coordinates_are_their_own_plane():
    plane = principal_plane([[0.0, 1.0], [3.0, 1.0], [6.0, 2.0]])
    assert plane.explained.sum() == pytest.approx(1.0)


def test_a_region_is_arrays_whatever_it_was_made_of():
    box = Region([0, 0], [1, 2])
    for corner, expected in ((box.low, [0.0, 0.0]), (box.high, [1.0, 2.0])):
        assert corner.dtype == np.float64
        assert corner.tolist() == expected


def test_a_rollout_is_not_changed_afterwards():
    run = rollout(lambda x: x, np.zeros(2), 3)
    assert run.predicted.shape == (3, 2)
    with pytest.raises(FrozenInstanceError):
        run.states = np.ones((4, 2))


def test_the_spectrum_of_several_trajectories_is_their_mean():
    both = np.random.default_rng(0).standard_normal((2, 64, 3))
    apart = [power_spectrum(one, segment=16).density for one in both]
    np.testing.assert_allclose(power_spectrum(both, segment=16).density, np.mean(apart, axis=0), rtol=1e-12)
