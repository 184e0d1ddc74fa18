import numpy as np
import pytest

from lln.core.errors import InputError
from lln.data import Standardizer


def test_training_values_get_mean_zero_and_deviation_one():
    values = np.random.default_rng(0).normal([5, -1e6, 0], [1, 3, 1e-8], (1000, 3))
    z = Standardizer.fit(values).transform(values)
    # A mean of 1e6 over a deviation of 3 costs six of sixteen digits.
    np.testing.assert_allclose(z.mean(0), 0, atol=1e-9)
    np.testing.assert_allclose(z.std(0), 1, rtol=1e-9)


@pytest.mark.parametrize("value", [0.0, 0.1, -3e7])
def test_a_constant_column_keeps_scale_one_and_is_listed(value):
    values = np.stack([np.arange(3000.0), np.full(3000, value)], axis=1)
    scaling = Standardizer.fit(values)
    assert scaling.constant == (1,)
    assert scaling.scale[1] == 1.0
    np.testing.assert_allclose(scaling.transform(values)[:, 1], 0, atol=1e-6)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.ones(3), r"needs values of shape \(samples, n\), at least 2 samples, got \(3,\)"),
        (np.ones((1, 3)), r"at least 2 samples, got \(1, 3\)"),
        ([[1.0], [np.inf]], r"needs finite values, got inf at \(1, 0\)"),
    ],
)
def test_bad_values_get_a_sentence(values, message):
    with pytest.raises(InputError, match=message):
        Standardizer.fit(values)


def test_values_of_another_width_are_refused():
    scaling = Standardizer.fit(np.random.default_rng(0).random((5, 3)))
    with pytest.raises(InputError, match=r"this scaling is for 3 columns, got values of shape \(2, 4\)"):
        scaling.transform(np.ones((2, 4)))
