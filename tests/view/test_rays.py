import numpy as np
import pytest
import torch
from exported import states_of, surrogate_of
from exported_fields import field_of

from lln import InputError
from lln.view.rays import bench_of


def test_the_bench_is_the_network_at_work():
    surrogate = surrogate_of(history=2, members=2)
    window = states_of("burgers-32")[700:702]
    bench = bench_of(surrogate, window, member=1)
    network = surrogate.members[1]
    assert (bench.depth, bench.width, bench.n_in, bench.n_out) == (6, 24, 64, 32)
    out = bench.positions[-1] @ network.readout.weight.detach().double().numpy().T
    out += network.readout.bias.detach().double().numpy()
    features = torch.from_numpy(surrogate.frame.feature_rows(window)).float()
    np.testing.assert_allclose(out, network(features).detach().numpy(), rtol=0, atol=1e-4 * np.abs(out).max())
    # A layer turns a ray by its lens at the place that the ray has reached.
    turn = np.interp(bench.positions[1, 5], bench.profile_at, bench.profiles[0, 5])
    np.testing.assert_allclose(bench.angles[1, 5] - bench.angles[0, 5], turn, rtol=0, atol=2e-3)


def test_a_field_model_shows_the_middle_of_its_grid():
    surrogate = field_of(space=(6, 7), kernel=3, static=1)
    window = np.random.default_rng(0).standard_normal((1, 42))
    bench = bench_of(surrogate, window)
    assert (bench.depth, bench.width, bench.n_in, bench.n_out) == (3, 6, 18, 4)
    np.testing.assert_allclose(bench.positions[1] - bench.positions[0], bench.length * bench.angles[0], atol=1e-12)


def test_no_lens_network():
    for surrogate in (surrogate_of(network=False), surrogate_of(model="mlp"), field_of(members=0)):
        with pytest.raises(InputError, match="no lens network to draw"):
            bench_of(surrogate, np.zeros((1, surrogate.frame.size)))
