import numpy as np
import pytest

from lln.step.dense import DenseStep
from lln.step.frame import Flow, Frame, Polynomial, monomial_table


def frame(n, **parts):
    zeros = np.zeros(n)
    return Frame(zeros, np.ones(n), 1, np.zeros((0, n)), zeros[:0], zeros[:0], np.zeros((n, n)), zeros, zeros, **parts)


def test_monomials_are_products_of_their_factors():
    table = monomial_table([0, 2], 3)
    values = Polynomial(table, np.zeros((1, len(table)))).monomials(np.array([[2.0, 100.0, 3.0]]))
    assert sorted(values[0].tolist()) == [2, 3, 4, 6, 8, 9, 12, 18, 27]


@pytest.mark.parametrize("substeps", [1, 4])
def test_a_linear_field_grows_as_runge_kutta_of_order_four_says(substeps):
    table = monomial_table([0], 1)
    flow = Flow(Polynomial(table, np.array([[0.5]])), np.zeros(1), substeps)
    h = 0.5 / substeps
    factor = (1 + h + h**2 / 2 + h**3 / 6 + h**4 / 24) ** substeps
    np.testing.assert_allclose(flow(np.array([[2.0]])), [[2.0 * factor - 2.0]], rtol=1e-13)


def test_a_step_adds_all_parts_and_stays_within_its_bounds():
    table = monomial_table([0], 2)
    square = Polynomial(table, np.array([[0.0, 1.0]]))
    step = frame(1, polynomial=square, low=np.array([-1.0]), high=np.array([5.0]))
    now = np.array([[1.0], [3.0]])
    np.testing.assert_allclose(DenseStep(step).rollout(now[:, None], 1)[:, 0], [[2.0], [5.0]])


def test_inputs_enter_a_field():
    flow = Flow(Polynomial(monomial_table([0, 1], 1), np.array([[0.0, 2.0]])), np.zeros(1))
    assert flow(np.array([[1.0]]), np.array([[3.0]])) == pytest.approx(np.array([[6.0]]))
