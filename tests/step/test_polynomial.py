import numpy as np
import pytest
import torch

from lln.step.frame import Flow, Frame, Functions, FunctionsPart, Polynomial, monomial_table
from lln.step.step import DenseStep


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


def test_functions_of_single_variables_and_their_derivatives():
    table = np.array([(k % 2, k) for k in reversed(range(7))])
    arguments = np.array([[0.9, 0.1], [1.5, 2.0], [-0.8, 0.3], [1.2, -0.4], [-1.0, 0.9], [2.0, 0.5], [3.0, -1.0]])
    functions = Functions(table, arguments)
    variables = np.array([[0.4, -0.7], [0.1, 0.2], [2.0, -3.0]])
    a = variables[:, table[:, 0]] * arguments[:, 0] + arguments[:, 1]
    clipped, steps, bells = np.clip(a[:, 0], -1, 1), np.tanh(a[:, 3]), np.exp(-(a[:, 6] ** 2) / 2)
    right = [clipped, 1 / a[:, 1], np.exp(a[:, 2]), steps, np.abs(a[:, 4]), np.sin(a[:, 5]), bells]
    np.testing.assert_allclose(functions(variables), np.stack(right, axis=1), rtol=1e-14)
    tensor = FunctionsPart(functions)(torch.from_numpy(variables)).numpy()
    np.testing.assert_allclose(tensor, np.stack(right, axis=1), rtol=1e-14)
    h = 1e-6
    slopes = (functions(variables + h) - functions(variables - h)) / (2 * h)
    np.testing.assert_allclose(functions.derivatives(variables) * arguments[:, 0], slopes, rtol=1e-6, atol=1e-9)


def test_a_pendulum_keeps_its_energy():
    # dx/dt = v, dv/dt = -sin x: the function stands behind both states.
    field = Polynomial(np.array([[-1, 1], [-1, 2]]), np.array([[0.05, 0.0], [0.0, -0.05]]))
    functions = Functions(np.array([[0, 1]]), np.array([[1.0, 0.0]]))
    step = DenseStep(frame(2, flow=Flow(field, np.zeros(2), 1, functions)))
    states = step.rollout(np.array([[2.5, 0.0]]), 400)
    energy = states[:, 1] ** 2 / 2 - np.cos(states[:, 0])
    np.testing.assert_allclose(energy, -np.cos(2.5), rtol=1e-6)  # Runge-Kutta errs by 0.05^4 or so of a step's change


def test_functions_of_inputs_and_products_with_them_enter_a_field():
    # dx/dt = u sin(u), which does not change over the step.
    field = Polynomial(np.array([[-1, 1], [0, 2]]), np.array([[0.0, 1.0]]))
    functions = Functions(np.array([[1, 1]]), np.array([[1.0, 0.0]]))
    change = Flow(field, np.zeros(1), 1, functions)(np.array([[1.0]]), np.array([[3.0]]))
    assert change == pytest.approx(np.array([[3.0 * np.sin(3.0)]]))
