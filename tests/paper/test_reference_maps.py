import numpy as np
import pytest

from lln.core.errors import InputError
from lln.paper.reference_maps import LinearMap, MeanMap


def affine_data(count=200):
    rng = np.random.default_rng(0)
    matrix, offset = 0.3 * rng.standard_normal((4, 4)), rng.standard_normal(4)
    x = rng.standard_normal((count, 4))
    return x, x + x @ matrix.T + offset, matrix, offset


def test_an_affine_map_is_recovered():
    x, y, matrix, offset = affine_data()
    linear = LinearMap.fit(x, y)
    np.testing.assert_allclose(linear.matrix, matrix, atol=1e-13)
    np.testing.assert_allclose(linear.offset, offset, atol=1e-13)
    np.testing.assert_allclose(linear(x), y, atol=1e-12)
    np.testing.assert_allclose(linear(x[3]), y[3], atol=1e-12)
    assert linear.parameters == 20


def test_the_ridge_solves_the_centred_normal_equations():
    x, y, _, _ = affine_data(30)
    linear = LinearMap.fit(x, y, ridge=0.5)
    a, b = x - x.mean(0), (y - x) - (y - x).mean(0)
    expected = np.linalg.solve(a.T @ a + 0.5 * 30 * np.eye(4), a.T @ b).T
    np.testing.assert_allclose(linear.matrix, expected, atol=1e-13)
    np.testing.assert_allclose(linear(x).mean(0), y.mean(0), atol=1e-13)


def test_the_training_mean_ignores_the_state():
    x = np.random.default_rng(0).random((10, 3))
    mean = MeanMap.fit(x)
    np.testing.assert_allclose(mean(np.ones((2, 3))), [x.mean(0)] * 2)


@pytest.mark.parametrize(
    ("x", "y", "ridge", "message"),
    [
        (np.ones((3, 2)), np.ones((2, 2)), 0.0, r"\(pairs, n\) alike, got \(3, 2\) and \(2, 2\)"),
        (np.full((3, 2), np.nan), np.ones((3, 2)), 0.0, "needs finite inputs and targets"),
        (np.ones((3, 2)), np.ones((3, 2)), -1.0, "ridge must not be negative, got -1.0"),
    ],
)
def test_bad_input_gets_a_sentence(x, y, ridge, message):
    with pytest.raises(InputError, match=message):
        LinearMap.fit(x, y, ridge)
