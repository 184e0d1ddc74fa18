import numpy as np
import pytest

from lln.fit.closed.linear import singular_values
from lln.fit.closed.ridge import RidgePath

RNG = np.random.default_rng(1)


def problem(rows, columns):
    x = RNG.standard_normal((rows, columns)) * 10.0 ** RNG.uniform(-3, 3, columns) + 5.0
    return x, x @ RNG.standard_normal((columns, 2)) + 7.0


@pytest.mark.parametrize(("rows", "columns"), [(200, 5), (6, 5), (40, 39)])
@pytest.mark.parametrize("block", [1000, 7])
def test_exact_weights_are_found_whatever_the_blocks(rows, columns, block):
    x, y = problem(rows, columns)
    path = RidgePath((x[k : k + block], y[k : k + block], None) for k in range(0, rows, block))
    weights, offset = path.solve(1e-18)
    np.testing.assert_allclose(x @ weights.T + offset, y, rtol=1e-6, atol=1e-6 * np.abs(y).max())


def test_more_columns_than_rows_give_the_shortest_solution():
    x, y = RNG.standard_normal((20, 60)), RNG.standard_normal((20, 1))
    weights, offset = RidgePath([(x, y, None)]).solve(1e-14)
    np.testing.assert_allclose(x @ weights.T + offset, y, atol=1e-6)


@pytest.mark.parametrize("ridge", [1e-8, 1e-3])
def test_sums_of_products_give_the_same_fit_with_more_columns_than_rows(ridge):
    x, y = RNG.standard_normal((20, 60)), RNG.standard_normal((20, 2))
    exact, sums = (RidgePath([(x, y, None)], exact=one) for one in (True, False))
    np.testing.assert_allclose(sums.solve(ridge)[0], exact.solve(ridge)[0], rtol=1e-5, atol=1e-7)
    assert sums.directions.shape == (60, 20)


def test_a_weight_counts_as_so_many_rows():
    x, y = problem(30, 3)
    y = y + RNG.standard_normal(y.shape)
    twice = np.concatenate([x, x[:10]]), np.concatenate([y, y[:10]])
    weights = np.where(np.arange(30) < 10, 2.0, 1.0)
    for one, other in zip(
        RidgePath([(x, y, weights)]).solve(1e-9), RidgePath([(*twice, None)]).solve(1e-9), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_a_constant_column_weighs_nothing():
    x, y = problem(50, 3)
    x[:, 1] = 4.0
    weights, _ = RidgePath([(x, y, None)]).solve(1e-12)
    assert (weights[:, 1] == 0).all()


def test_one_step_errors_are_those_of_the_solved_weights():
    x, y = problem(60, 4)
    path = RidgePath([(x[:40], y[:40], None)])
    ridges = (1e-12, 1e-3, 0.1)
    for ridge, error in zip(ridges, path.one_step(x[40:], y[40:], ridges), strict=True):
        weights, offset = path.solve(ridge)
        np.testing.assert_allclose(np.mean((x[40:] @ weights.T + offset - y[40:]) ** 2), error, rtol=1e-4, atol=1e-12)


@pytest.mark.parametrize(("rows", "columns"), [(200, 5), (40, 60)])
@pytest.mark.parametrize("ridge", [1e-12, 1e-4])
def test_one_ridge_alone_gives_the_same_fit(rows, columns, ridge):
    x, y = problem(rows, columns)
    x[:, 0] = 3.0  # a column without a spread
    weights, offset = RidgePath([(x, y, None)]).solve(ridge)
    alone, shift = RidgePath.solved([(x, y, None)], ridge)
    np.testing.assert_allclose(x @ alone.T + shift, x @ weights.T + offset, rtol=1e-6, atol=1e-6 * np.abs(y).max())


def test_sums_of_products_give_the_same_weights_where_ridges_hide_their_rounding():
    rng = np.random.default_rng(3)
    columns, targets, weights = rng.normal(size=(300, 8)), rng.normal(size=(300, 2)), rng.uniform(0.5, 1.5, size=300)
    columns[:, 7] = 4.0  # carries nothing
    blocks = [(columns[:200], targets[:200], weights[:200]), (columns[200:], targets[200:], weights[200:])]
    exact, summed = RidgePath(blocks), RidgePath(blocks, exact=False)
    for ridge in (1e-10, 1e-4, 0.1):
        for one, other in zip(exact.solve(ridge), summed.solve(ridge), strict=True):
            np.testing.assert_allclose(other, one, rtol=1e-8, atol=1e-12)


def test_a_decomposition_that_does_not_converge_is_done_in_another_way(monkeypatch):
    def fails(*_args, **_options):
        raise np.linalg.LinAlgError("SVD did not converge")

    rows = np.random.default_rng(0).standard_normal((40, 4)) @ np.ones((4, 6))
    monkeypatch.setattr(np.linalg, "svd", fails)
    left, singular, right = singular_values(rows)
    assert left.shape == (40, 6)
    np.testing.assert_allclose((left * singular) @ right, rows, atol=1e-12)
