import numpy as np
import pytest

from lln.core.errors import InputError
from lln.evaluate.field_error import field_error


def test_shells_add_up_to_the_mean_square():
    rng = np.random.default_rng(0)
    truth, predicted = rng.normal(size=(2, 3, 4, 2 * 6 * 5))
    for periodic in (True, False, [True, False]):
        found = field_error(predicted, truth, (6, 5), periodic)
        squares = (truth**2).mean(axis=(0, 2)), ((predicted - truth) ** 2).mean(axis=(0, 2))
        assert np.allclose(found.truth.sum(axis=1), squares[0], rtol=1e-12)
        assert np.allclose(found.error.sum(axis=1), squares[1], rtol=1e-12)
        assert np.allclose(found.share.sum(axis=1), 1.0)


def test_a_wave_sits_in_its_shell():
    x = np.arange(32) / 32
    truth = (np.sin(2 * np.pi * 3 * x) + 0.01 * np.sin(2 * np.pi * 7 * x))[None]
    predicted = np.sin(2 * np.pi * 3 * x)[None]
    found = field_error(predicted, truth, (32,))
    assert found.truth[0].argmax() == 3
    assert found.error[0].argmax() == 7
    assert found.relative[0, 7] == pytest.approx(1.0)
    assert found.relative[0, 3] < 1e-12
    # wavenumbers without any true power but rounding do not count as lost before 7
    assert found.share[0, 7] == pytest.approx(1.0)
    assert found.predicted[0, 7] < 1e-20


def test_resolved_is_the_first_shell_beyond_the_level():
    x = np.arange(16) / 16
    waves = np.stack([np.cos(2 * np.pi * k * x) for k in range(8)])
    truth = waves.sum(axis=0)[None]
    predicted = (waves * np.where(np.arange(8) < 5, 0.9, 0.2)[:, None]).sum(axis=0)[None]
    found = field_error(predicted, truth, (16,))
    assert found.relative[0, :8] == pytest.approx([0.1] * 5 + [0.8] * 3)
    assert found.resolved(0.5).tolist() == [5]
    assert found.resolved(0.05).tolist() == [0]


def test_walls_have_half_waves():
    x = (np.arange(20) + 0.5) / 20
    truth = np.cos(np.pi * 4 * x)[None]  # two waves
    assert field_error(0 * truth, truth, (20,), periodic=False).truth[0].argmax() == 2


def test_wrong_shapes_are_named():
    with pytest.raises(InputError, match=r"one shape \(..., steps, n\)"):
        field_error(np.zeros((3, 4)), np.zeros((3, 5)), (4,))
    with pytest.raises(InputError, match="do not fill a grid"):
        field_error(np.zeros((3, 4)), np.zeros((3, 4)), (3,))
    with pytest.raises(InputError, match="periodic must have 1 entries"):
        field_error(np.zeros((3, 4)), np.zeros((3, 4)), (4,), [True, False])
