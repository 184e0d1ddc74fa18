"""Vector fields with sines and Gaussians of single variables."""

import json
import re

import numpy as np
import pytest

from lln import LensForecaster
from lln.data.series import Dataset, Series
from lln.fit.closed.flow_search import FlowChoice, FlowForms
from lln.fit.closed.function_search import BROKEN, SMOOTH, add_functions
from lln.fit.closed.vector_fields import MonomialLibrary, VectorField, errors, first_weights, fitted, squared_error
from lln.fit.prepare import Preparer
from lln.step.frame import Flow, Functions, Polynomial
from tests.fit.closed.test_flows import integrate, lorenz, pieces_of

RNG = np.random.default_rng(8)


def pendulum(s):
    """A driven pendulum whose drive turns at an even rate: angle, speed, phase of the drive."""
    return np.array([s[1], -np.sin(s[0]) - 0.1 * s[1] + 1.2 * np.cos(s[2]), 0.7])


def library(products):
    functions = Functions(
        np.array([[0, 1], [0, 1], [1, 0], [3, 1]]), np.array([[1.3, 0.2], [1.3, 1.8], [0.7, -0.4], [0.5, 0.1]])
    )
    return MonomialLibrary.whole(3, (0, 2, 3), 2, 1, functions, products)


@pytest.mark.parametrize("products", [False, True])
def test_sensitivities_pass_through_functions(products):
    made = library(products)
    used = RNG.uniform(size=(made.outputs, made.terms)) < 0.6
    weights = np.where(used, 0.1 * RNG.normal(size=used.shape), 0.0)
    states, inputs = RNG.normal(size=(4, 3)), RNG.normal(size=(4, 1))
    field = VectorField(made, 2, weights, used)
    after, slopes = field.linearised(states, np.zeros((4, 3, int(used.sum()))), inputs)
    np.testing.assert_array_equal(after, field.advance(states, inputs))
    for index, place in enumerate(zip(*np.nonzero(used), strict=True)):
        moved = weights.copy()
        moved[place] += 1e-6
        change = (VectorField(made, 2, moved, used).advance(states, inputs) - after) / 1e-6
        np.testing.assert_allclose(slopes[..., index], change, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("products", [False, True])
def test_sensitivities_by_slopes_and_shifts(products):
    table = np.array([(k % 4, k) for k in range(7)])
    arguments = np.column_stack([np.full(7, 0.3), [0.2, 0.4, 0.7, 0.1, 0.2, 3.0, 0.3]])
    made = MonomialLibrary.whole(3, (0, 1, 2, 3), 1, 1, Functions(table, arguments), products, adaptive=True)
    weights = 0.1 * RNG.normal(size=(made.outputs, made.terms))
    states, inputs = RNG.normal(size=(4, 3)), RNG.normal(size=(4, 1))
    field = VectorField(made, 2, weights, weights != 0)
    count = weights.size + int(made.free.sum())
    _, slopes = field.linearised(states, np.zeros((4, 3, count)), inputs)
    assert made.free.sum() == 11  # a kink, an exponential and a reciprocal have one number beside their weight
    for index in range(weights.size, count):
        change = np.zeros(count)
        change[index] = 1e-6
        moved = (field.moved(change).advance(states, inputs) - field.moved(-change).advance(states, inputs)) / 2e-6
        np.testing.assert_allclose(slopes[..., index], moved, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("products", [False, True])
def test_the_flow_of_a_step_has_the_functions_that_weigh_something(products):
    made = library(products)
    weights = 0.1 * RNG.normal(size=(made.outputs, made.terms))
    weights[:, (made.exponents[:, 4] > 0)] = 0.0  # the second sine
    flow = made.flow(weights, 3)
    assert flow.functions is not None
    assert len(flow.functions) == 3
    states, inputs = RNG.normal(size=(5, 3)), RNG.normal(size=(5, 1))
    field = VectorField(made, 3, weights, weights != 0)
    np.testing.assert_allclose(states + flow(states, inputs), field.advance(states, inputs), rtol=1e-12)


def test_a_pendulum_that_turns_over_is_known_by_the_sine_of_its_angle():
    states = integrate(pendulum, [0.1, 0.0, 0.0], 1600, 0.2)
    train, unseen = states[:700], states[700:]
    assert np.ptp(states[:, 0]) > 4 * np.pi
    model = LensForecaster().fit(train, dt=0.2)
    assert model.report_.structure["flow"]["angle"] == 1.0
    forecast = model.rollout(steps=300).predicted
    assert np.abs(forecast - unseen[:300]).max() < 1e-3
    # It turns on beyond the range of all rows, as the drive does: no bound holds an angle.
    far = model.rollout(steps=4000)
    np.testing.assert_allclose(far.predicted[-1, 2], train[-1, 2] + 0.7 * 0.2 * 4000, rtol=1e-6)
    # An angle that turns on is no state that training did not see, but a speed is.
    assert str(far.outcome) == "finished"
    assert str(model.evaluate(Dataset((Series(unseen),), dt=0.2), steps=800).outcomes[0]) == "finished"
    assert str(model.rollout([0.0, 99.0, 0.0], steps=1).outcome).startswith("left the region")
    region = json.loads(re.search('id="payload">(.*?)</script>', model.page().text, re.DOTALL)[1])["region"]
    assert [None not in (low, high) for low, high in zip(*region.values(), strict=True)] == [False, True, False]


def test_an_angle_is_known_by_its_sines_alone():
    functions = Functions(np.array([[0, 1], [1, 1], [2, 1], [2, 0]]), np.ones((4, 2)))
    terms = Polynomial(np.array([[-1, 4], [-1, 1], [-1, 5], [-1, 6], [-1, 7], [-1, 0]]), np.ones((4, 6)))
    flow = Flow(terms, np.zeros(4), 1, functions)
    assert flow.angles().tolist() == [False] * 4  # 0 and 1 enter as they are, 2 in a Gaussian, 3 in no sine
    terms.weights[:, 5] = 0.0
    assert flow.angles().tolist() == [True, False, False, False]


def test_a_model_that_is_solved_again_keeps_the_law():
    states = integrate(pendulum, [0.1, 0.0, 0.0], 1200, 0.2)
    model = LensForecaster().fit(states[:700], dt=0.2)
    for rows in (800, 900, 1000):  # means and spreads move, and with them what a term counts for
        model.update(states[:rows], dt=0.2)
        assert np.abs(model.rollout(steps=100).predicted - states[rows : rows + 100]).max() < 1e-3


def test_a_model_with_angles_is_solved_again_on_rows_that_hardly_turn():
    states = integrate(pendulum, [0.1, 0.0, 0.0], 900, 0.2)
    model = LensForecaster().fit(states[:700], dt=0.2)
    assert model.report_.structure["flow"]["angle"]
    still = integrate(lambda s: np.array([s[1], -s[0], 0.001]), [0.1, 0.0, 0.0], 300, 0.2)
    model.update(still, dt=0.2)
    assert np.isfinite(model.rollout(steps=50).predicted).all()


def test_a_coordinate_that_stands_still_has_no_gaussians():
    states = np.column_stack([integrate(pendulum, [0.1, 0.0, 0.0], 400, 0.2)[:, :2], np.full(400, 3.0)])
    forms = FlowForms(Preparer(Dataset((Series(states),))), ((0, 0, 300),), ((0, 300, 400),), (0, 1, 2))
    made = forms._functions(FlowChoice(2, lenses=8))
    assert made is not None
    assert set(made.table[:, 0].tolist()) == {0, 1}
    assert np.isfinite(made.arguments).all()


def test_many_coordinates_are_counted_before_their_terms_are_listed():
    states = RNG.normal(size=(60, 3000)).cumsum(axis=0)
    forms = FlowForms(Preparer(Dataset((Series(states),))), ((0, 0, 40),), ((0, 40, 60),), tuple(range(3000)))
    assert not [*forms._polynomials(), *forms._functions_added()]


def test_angles_in_degrees_are_found():
    states = integrate(pendulum, [0.1, 0.0, 0.0], 700, 0.2)
    states[:, [0, 2]] *= 180 / np.pi
    model = LensForecaster().fit(states[:500], dt=0.2)
    assert model.report_.structure["flow"]["angle"] == pytest.approx(np.pi / 180)
    assert np.abs(model.rollout(steps=100).predicted - states[500:600])[:, 0].max() < 0.1


def test_a_kink_is_met_by_gaussians_of_its_coordinate():
    def circuit(s):
        slope = -0.714 * s[0] + 0.5 * (-1.143 + 0.714) * (abs(s[0] + 1) - abs(s[0] - 1))
        return np.array([15.6 * (s[1] - s[0] - slope), s[0] - s[1] + s[2], -28 * s[1]])

    states = integrate(circuit, [0.7, 0.0, 0.0], 900, 0.05)
    pieces = pieces_of(states)
    plain = fitted(MonomialLibrary.whole(3, range(3), 3), pieces, 2, 1e-14)
    centres = np.linspace(-2.0, 2.0, 16)
    functions = Functions(np.array([[0, 0]] * 16), np.stack([np.full(16, 2.5), -2.5 * centres], axis=1))
    bent = fitted(MonomialLibrary.whole(3, range(3), 2, 0, functions), pieces, 2, 1e-12)
    assert np.mean(np.square(errors(bent, pieces))) < 0.1 * np.mean(np.square(errors(plain, pieces)))


def test_where_the_first_weights_run_away_others_are_tried():
    def bouali(s):
        x, y, z = s
        return np.array([x * (4 - y) + 0.3 * z, -y * (1 - x * x), -x * (1.5 - z) - 0.05 * z])

    states = integrate(bouali, [1.0, 1.0, 0.0], 700, 0.5, substeps=200)[100:]
    assert np.isfinite(states).all()
    pieces, made = pieces_of(states), MonomialLibrary.whole(3, range(3), 3)
    used = np.ones((3, made.terms), dtype=bool)
    with np.errstate(all="ignore"):
        first = errors(VectorField(made, 8, first_weights(made, pieces, 1e-18)[0], used), pieces)
    assert not np.isfinite(first).all()
    assert np.abs(errors(fitted(made, pieces, 8, 1e-18), pieces)).max() < 1e-3


def chua(s):
    """Chua's circuit: its diode has two kinks."""
    diode = -5 / 7 * s[0] - 3 / 14 * (abs(s[0] + 1) - abs(s[0] - 1))
    return np.array([15.6 * (s[1] - s[0] - diode), s[0] - s[1] + s[2], -28 * s[1]])


def relaxed(s):
    """A driven oscillator with a diode, whose current grows exponentially."""
    return np.array([s[1], s[2], -0.6 * s[2] - s[0] - 0.02 * (np.exp(2.2 * s[1]) - 1)])


def grazed(s):
    """Plants and grazers that are sated: the law has a reciprocal times a variable."""
    eaten = 5 * s[0] * s[1] / (1 + 3 * s[0])
    return np.array([s[0] * (1 - s[0]) - eaten, eaten - 0.4 * s[1]])


@pytest.mark.parametrize(
    ("law", "start", "dt", "words"),
    [(chua, [0.7, 0.1, -0.3], 0.08, "saturations"), (relaxed, [0.1, 0.2, 0.1], 0.25, "exponentials")],
)
def test_the_law_behind_a_function_of_unknown_slope_is_found(law, start, dt, words):
    states = integrate(law, start, 900, dt)[100:]
    model = LensForecaster().fit(states[:500], dt=dt)
    flow = model.surrogate_.frame.flow
    assert words in flow.description()
    assert len(flow.functions) == 1
    error = model.rollout(states[499:500], steps=50).predicted - states[500:550]
    assert np.abs(error).max() < 1e-3 * np.ptp(states)


def test_a_reciprocal_times_a_variable_is_found():
    pieces = pieces_of(integrate(grazed, [0.5, 0.2], 400, 0.4))
    plain = fitted(MonomialLibrary.whole(2, range(2), 2), pieces, 4, 1e-18)
    found = list(add_functions(plain, pieces, 1e-18, lambda: False, SMOOTH, True))
    assert found[0].library.functions.table.tolist() == [[0, 5]]
    assert squared_error(found[0], pieces) < 1e-7 * squared_error(plain, pieces)
    assert not list(add_functions(plain, pieces, 1e-18, lambda: True, SMOOTH, True))


def test_noise_has_no_functions():
    states = integrate(lorenz, [1.0, 2.0, 20.0], 400, 0.02)
    pieces = pieces_of(states + 0.1 * RNG.normal(size=states.shape))
    plain = fitted(MonomialLibrary.whole(3, range(3), 2), pieces, 4, 1e-18)
    assert not [
        1 for kinds in (BROKEN, SMOOTH) for _ in add_functions(plain, pieces, 1e-18, lambda: False, kinds, True)
    ]


def test_a_kink_that_only_the_last_rows_show_is_found():
    def law(s):
        return np.array([s[1], -s[0] + 0.3 * abs(s[0] + 0.1) - 2.0 * max(s[0] - 1.5, 0.0) + 0.03 * s[1]])

    states = integrate(law, [0.2, 0.0], 500, 0.3)
    assert states[:300, 0].max() < 1.5 < states[400:, 0].max()
    forms = FlowForms(Preparer(Dataset((Series(states),))), ((0, 0, 300),), ((0, 300, 400),), (0, 1))
    choice = forms.search(np.inf)[0]
    assert len(choice.functions) == 1
    field = forms.field(choice, 1e-18, None)
    assert field.library.functions.table.tolist() == [[0, 2], [0, 2]]
    assert np.abs(errors(field, pieces_of(states))).max() < 0.1 * np.abs(states).max()
