import numpy as np
import pytest
from scipy import signal

from lln.core.errors import InputError
from lln.evaluate import power_spectrum, spectrum_distance

T = np.arange(4096) * 0.1
RNG = np.random.default_rng(0)


def wave(frequency, size=1.0, phase=0.0):
    return size * np.sin(2 * np.pi * frequency * T + phase)[:, None]


@pytest.mark.parametrize("segment", [256, 255])
def test_it_is_welchs_estimate(segment):
    states = RNG.standard_normal((1000, 2))
    ours = power_spectrum(states, dt=0.1, segment=segment)
    window = signal.windows.hann(segment + 2)[1:-1]
    frequencies, density = signal.welch(states, 10.0, window, segment, noverlap=segment - segment // 2, axis=0)
    np.testing.assert_allclose(ours.frequencies, frequencies[1:])
    np.testing.assert_allclose(ours.density, density[1:], rtol=1e-10)


def test_the_peak_is_at_the_frequency_and_its_area_is_the_variance():
    found = power_spectrum(wave(1.25), dt=0.1)
    assert found.frequencies[found.density[:, 0].argmax()] == pytest.approx(1.25, abs=0.5 / (512 * 0.1))
    # Between whole bins the window leaks below a percent.
    assert found.density[:, 0].sum() * found.frequencies[0] == pytest.approx(0.5, rel=0.01)


def test_the_same_rhythm_is_near_whatever_its_phase_and_another_is_far():
    truth = wave(1.25) + 0.01 * RNG.standard_normal((4096, 1))
    assert spectrum_distance(wave(1.25, phase=1.0), truth, 0.1) < 0.03
    assert spectrum_distance(wave(2.5), truth, 0.1) > 0.95
    assert spectrum_distance(truth, truth, 0.1) == 0.0


def test_a_rollout_that_died_down_or_swings_too_far_is_seen():
    # sum (sqrt P - sqrt Q)^2 / (sum P + sum Q) with P = a^2 Q is (1 - a)^2 / (1 + a^2).
    assert spectrum_distance(wave(1.25, 3.0), wave(1.25), 0.1) == pytest.approx(np.sqrt(4 / 10))
    assert spectrum_distance(np.ones((4096, 1)), wave(1.25), 0.1) == pytest.approx(1.0)
    assert spectrum_distance(np.ones((4096, 1)), np.ones((4096, 1))) == 0.0


def test_lengths_may_differ_and_coordinates_count_alike():
    truth = np.concatenate([wave(1.25), wave(0.4)], axis=1)
    guess = np.concatenate([wave(1.25), 0.0 * T[:, None]], axis=1)
    assert spectrum_distance(guess[:3000], truth, 0.1) == pytest.approx(0.5, abs=0.02)


def test_a_diverged_rollout_cannot_hide():
    lost = wave(1.0)
    lost[-1] = np.nan
    assert spectrum_distance(lost, wave(1.0)) == np.inf
    assert spectrum_distance(1e200 * wave(1.0), wave(1.0)) == np.inf


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: power_spectrum([[1.0, np.nan]] * 8), "needs finite states"),
        (lambda: power_spectrum([1.0, 2.0]), r"states must be \(\.\.\., time, n\) with at least 4 rows, got \(2,\)"),
        (lambda: power_spectrum(wave(1.0), segment=5000), "segment must be at most the 4096 rows"),
        (lambda: spectrum_distance(np.ones((9, 2)), np.ones((9, 3))), "as many columns"),
        (lambda: spectrum_distance(np.ones((9, 1)), [[np.inf]] * 9), "truth must be finite"),
    ],
)
def test_bad_input_gets_a_sentence(make, message):
    with pytest.raises(InputError, match=message):
        make()
