import numpy as np
import pytest

from lln.core.errors import InputError
from lln.data import Standardizer, simulated
from lln.systems import PRESETS, perturbed_start, preset, simulate

# Normalised error of predicting the training mean: what these constants give, what the paper prints for a plain MLP of
# depth 40 (a dead network, which predicts just that), and how close the two must be. The Lorenz rows pin the simulator.
MEAN_PREDICTOR = {
    "lorenz-24": (7.519, 7.516, 0.001),
    "lorenz-28": (1.2354, 1.235, 0.001),
    "springchain-32": (1.183, 1.193, 0.021),
    "springchain-48": (1.113, 1.135, 0.021),
    "burgers-32": (2.061, 2.096, 0.031),
    "burgers-48": (2.040, 1.979, 0.031),
    "advecdiff-32": (1.920, 1.905, 0.008),
    "advecdiff-48": (1.912, 1.910, 0.008),
    "reactiondiff-32": (0.278, 0.277, 0.028),
    "reactiondiff-48": (0.283, 0.291, 0.028),
}


def test_there_are_ten_presets():
    assert list(PRESETS) == list(MEAN_PREDICTOR)


@pytest.mark.parametrize("name", PRESETS)
def test_the_mean_predictor_scores_what_the_paper_prints_for_a_dead_network(name):
    states = simulated(preset(name), 4000).states
    score = np.square(Standardizer.fit(states[500:3500]).transform(states[3501:])).mean()
    known, printed, within = MEAN_PREDICTOR[name]
    # Known to three or four digits.
    assert score == pytest.approx(known, rel=2e-3 if known < 1 else 5e-4)
    assert score == pytest.approx(printed, rel=within)


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_declares_itself_consistently(name):
    system = preset(name)
    assert system.name == name
    start = system.start()
    assert start.shape == (system.size,)
    assert start.dtype == np.float64
    assert len(set(system.coordinates)) == system.size
    assert all(isinstance(value, int | float) for value in system.symbols.values())
    assert system.dt > 0
    if system.grid is not None:
        assert system.grid.shape == (system.size,)
        assert np.all(np.diff(system.grid) > 0)


@pytest.mark.parametrize("name", PRESETS)
def test_right_hand_sides_work_on_batches_and_keep_the_dtype(name):
    system = preset(name)
    states = np.random.default_rng(0).standard_normal((2, 3, system.size)).astype(np.float32)
    slopes = system.rhs(states)
    assert slopes.dtype == np.float32
    for index in np.ndindex(2, 3):
        np.testing.assert_array_equal(slopes[index], system.rhs(states[index]))


@pytest.mark.parametrize("name", PRESETS)
def test_linear_systems_and_only_they_obey_superposition(name):
    system = preset(name)
    a, b = np.random.default_rng(1).standard_normal((2, system.size))
    defect = np.abs(system.rhs(2 * a - 3 * b) - (2 * system.rhs(a) - 3 * system.rhs(b))).max()
    assert (defect < 1e-11) == system.linear


@pytest.mark.parametrize("name", [name for name in PRESETS if preset(name).invariants()])
def test_invariants_are_conserved(name):
    system = preset(name)
    states = simulate(system, 500, starts=perturbed_start(system, 3), dtype="float64")
    for invariant in system.invariants().values():
        values = invariant(states)
        # RK4 loses (omega dt)^6 / 72 of a mode's energy in a step: at most 3e-8 in 500 steps of 0.02 at omega = 2.
        np.testing.assert_allclose(values, values[0], rtol=1e-7, atol=1e-13)


def test_an_unknown_preset_names_the_nearest_one():
    with pytest.raises(InputError, match="unknown system 'lorentz-28'; did you mean 'lorenz-28'"):
        preset("lorentz-28")


def test_perturbed_starts_have_the_stated_size_and_one_seed_each():
    system = preset("burgers-48")
    starts = np.stack([perturbed_start(system, seed) for seed in range(400)])
    rms = np.sqrt(np.mean(system.start() ** 2))
    # 400 * 48 draws: the sample deviation is within 3 / sqrt(2 * 19200) = 1.5 % of the true one.
    assert np.std(starts - system.start()) == pytest.approx(0.02 * rms, rel=0.015)
    np.testing.assert_array_equal(starts[7], perturbed_start(system, 7))
    expected = system.start() + 0.02 * rms * np.random.default_rng(7).standard_normal(48)
    np.testing.assert_array_equal(starts[7], expected)


def test_a_negative_seed_is_refused():
    with pytest.raises(InputError, match="seed must be an integer of at least 0, got -1"):
        perturbed_start(preset("lorenz-28"), -1)
