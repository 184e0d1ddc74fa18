"""Polynomial vector fields that are fitted on their flow."""

from dataclasses import replace

import numpy as np
import pytest

import lln
from lln import LensForecaster
from lln.data.series import Dataset, Series
from lln.fit.closed.calm_rows import fitted_from_calm_rows
from lln.fit.closed.flow_search import FlowForms
from lln.fit.closed.vector_fields import MonomialLibrary, Pieces, VectorField, errors, first_weights, fitted, pruned
from lln.fit.fitter import Recipe, fit_surrogate
from lln.fit.options import TimeLimit
from lln.fit.prepare import Preparer

RNG = np.random.default_rng(5)


def integrate(slope, start, rows, dt, substeps=10):
    """States (rows, n) by Runge-Kutta steps that are small against dt."""
    state, h, states = np.asarray(start, dtype=float), dt / substeps, []
    for _ in range(rows):
        states.append(state)
        for _ in range(substeps):
            a = slope(state)
            b = slope(state + h / 2 * a)
            c = slope(state + h / 2 * b)
            state = state + h / 6 * (a + 2 * b + 2 * c + slope(state + h * c))
    return np.stack(states)


def lorenz(s):
    return np.array([10 * (s[1] - s[0]), s[0] * (28 - s[2]) - s[1], s[0] * s[1] - 8 / 3 * s[2]])


def lorenz_96(x, forcing=8.0):
    return (np.roll(x, -1) - np.roll(x, 2)) * np.roll(x, 1) - x + forcing


def henon_heiles(s):
    x, y, p, q = s
    return np.array([p, q, -x - 2 * x * y, -y - x * x + y * y])


def energy(states):
    x, y, p, q = states.T
    return 0.5 * (p**2 + q**2 + x**2 + y**2) + x**2 * y - y**3 / 3


def pieces_of(states, steps=1):
    z = (states - states.mean(axis=0)) / states.std(axis=0)
    rows = len(z) - steps
    every = np.stack([z[k : rows + k] for k in range(steps + 1)], axis=1)
    return Pieces(every, np.zeros((rows, 0)), np.ones(rows))


def fit(states, parts=("linear", "flow"), inputs=None, **options):
    return fit_surrogate(Dataset((Series(states, inputs=inputs),), dt=1.0), Recipe(parts=parts, **options))


def valid_steps(fitted_model, states, first, steps):
    """Steps until the root mean square error passes 0.4 standard deviations."""
    step = fitted_model.surrogate
    predicted = step.rollout(states[first - step.frame.history : first], steps)
    error = np.sqrt(np.square((predicted - states[first : first + steps]) / states.std(axis=0)).mean(axis=1))
    return int(np.argmax(error > 0.4)) if (error > 0.4).any() else steps


@pytest.mark.parametrize("library", [MonomialLibrary.whole(3, [0, 1, 2, 3], 3), MonomialLibrary.ring(6, 1, 1, 2)])
def test_monomials_and_their_derivatives_are_those_of_the_flow(library):
    rows = RNG.normal(size=(4, library.size + 1))
    weights = RNG.normal(size=(library.outputs, library.terms))
    slope = (library.values(rows) @ weights.T).reshape(4, library.size)
    flow = library.flow(weights, 1)
    np.testing.assert_allclose(flow.polynomial(rows) + flow.offset, slope, rtol=1e-12)
    made = np.einsum("oj,sjk->osk", weights, library.derivatives)
    for variable in range(library.states):
        moved = rows.copy()
        moved[:, library.place[0, variable]] += 1e-6
        change = (library.values(moved)[:, 0] - library.values(rows)[:, 0]) @ weights.T / 1e-6
        np.testing.assert_allclose(library.values(rows)[:, 0] @ made[:, variable].T, change, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("library", [MonomialLibrary.whole(3, [0, 1, 2, 3], 2), MonomialLibrary.ring(5, 1, 1, 2)])
def test_sensitivities_are_the_derivatives_of_the_states_by_the_weights(library):
    used = RNG.random((library.outputs, library.terms)) < 0.7
    weights = np.where(used, 0.2 * RNG.normal(size=used.shape), 0.0)
    field = VectorField(library, 2, weights, used)
    states, inputs = RNG.normal(size=(3, library.size)), RNG.normal(size=(3, 1))
    count = int(used.sum())
    after, slopes = field.linearised(states, np.zeros((3, library.size, count)), inputs)
    np.testing.assert_array_equal(after, field.advance(states, inputs))
    for index, place in enumerate(zip(*np.nonzero(used), strict=True)):
        moved = weights.copy()
        moved[place] += 1e-6
        change = (VectorField(library, 2, moved, used).advance(states, inputs) - after) / 1e-6
        np.testing.assert_allclose(slopes[..., index], change, rtol=1e-4, atol=1e-5)


def test_the_flow_of_a_fitted_field_is_that_of_the_step():
    pieces = pieces_of(integrate(lorenz, [1.0, 1.0, 20.0], 150, 0.02))
    field = fitted(MonomialLibrary.whole(3, range(3), 2), pieces, 2, 1e-14)
    flow = field.library.flow(field.weights, field.substeps)
    states = pieces.states[:20, 0]
    np.testing.assert_allclose(states + flow(states), field.advance(states, pieces.inputs[:20]), rtol=1e-12)


def test_a_descent_ends_once_it_is_late_and_no_other_field_is_tried():
    states = integrate(lorenz, [1.0, 1.0, 20.0], 300, 0.02)
    pieces, library = pieces_of(states), MonomialLibrary.whole(3, range(3), 2)
    asked = iter((False, True))
    first, second = (fitted(library, pieces, 2, 1e-14, late=late) for late in (lambda: True, lambda: next(asked)))
    np.testing.assert_array_equal(first.weights, first_weights(library, pieces, 1e-14)[0])
    assert np.abs(errors(second, pieces)).max() < 0.1 * np.abs(errors(first, pieces)).max()
    data, limit = Dataset((Series(states),)), TimeLimit(1e-9)
    forms = FlowForms(Preparer(data), ((0, 0, 200),), ((0, 200, 300),), (0, 1, 2), limit=limit)
    assert [one.degree for one in forms.search(np.inf)] == [2]
    assert limit.notes() == ["The time limit left out: some vector fields."]
    # On other rows, late, the weights are those of the rows that train.
    choice = forms.search(np.inf)[0]
    here, there = (forms.field(choice, 1e-18, parts) for parts in (((0, 0, 200),), None))
    np.testing.assert_array_equal(here.weights, there.weights)


def test_a_fit_to_all_rows_that_ends_elsewhere_gives_way_to_that_of_the_training_rows(monkeypatch):
    def ends_elsewhere(library, pieces, *rest):
        found = fitted(library, pieces, *rest)
        return found if len(pieces) < 250 else replace(found, weights=1e9 + found.weights)

    monkeypatch.setattr("lln.fit.closed.flow_search.fitted", ends_elsewhere)
    states = integrate(lorenz, [1.0, 1.0, 20.0], 300, 0.02)
    forms = FlowForms(Preparer(Dataset((Series(states),))), ((0, 0, 200),), ((0, 200, 300),), (0, 1, 2))
    choice = forms.search(np.inf)[0]
    assert np.abs(errors(forms.field(choice, 1e-14, None), forms._training_pieces(choice, None))).max() < 1e-6


def test_weights_that_count_for_nothing_are_pruned_and_the_law_is_what_remains():
    pieces = pieces_of(integrate(lorenz, [1.0, 1.0, 20.0], 400, 0.01, substeps=1))
    whole = fitted(MonomialLibrary.whole(3, range(3), 3), pieces, 1, 1e-14)
    sparse = pruned(whole, pieces, 1e-14, 1e-4)
    # Standardised, x' has x, y and 1, y' has x, y, z, 1 and x z, z' has x, y, z, 1 and x y.
    assert np.count_nonzero(sparse.weights) <= 13
    assert np.abs(errors(sparse, pieces)).max() < 1e-11


def test_a_chaotic_system_is_forecast_for_eleven_lyapunov_times():
    states = integrate(lorenz, [1.0, 1.0, 20.0], 1400, 0.025)[200:]
    found = fit(states[:500])
    assert found.report.part == "flow"
    assert found.report.degree == 2
    assert found.report.parameters < 15  # of 30: the others are pruned
    assert valid_steps(found, states, 500, 700) > 500


def test_a_law_of_data_with_long_steps_is_found_from_the_rows_of_small_changes():
    def roessler(s):
        return np.array([-s[1] - s[2], s[0] + 0.2 * s[1], 0.2 + s[2] * (s[0] - 5.7)])

    states = integrate(roessler, [1.0, 1.0, 0.0], 600, 2.0, substeps=200)[100:]  # three rows to a turn
    pieces, library = pieces_of(states[:380]), MonomialLibrary.whole(3, range(3), 2)
    assert np.abs(errors(fitted(library, pieces, 64, 1e-18), pieces)).max() > 0.1
    assert np.abs(errors(fitted_from_calm_rows(library, pieces, 1e-18), pieces)).max() < 1e-6
    found = fit(states[:480])
    assert found.report.part == "flow"
    assert found.report.degree == 2
    assert valid_steps(found, states, 480, 20) == 20


def test_rows_without_a_law_end_a_fit_from_calm_rows():
    pieces = pieces_of(RNG.normal(size=(200, 2)))
    field = fitted_from_calm_rows(MonomialLibrary.whole(2, range(2), 2), pieces, 1e-18)
    assert np.isfinite(field.weights).all()


@pytest.mark.parametrize("size", [10, pytest.param(36, marks=pytest.mark.slow)])
def test_a_ring_of_coordinates_shares_its_weights(size):
    start = 8 + RNG.normal(size=size)
    states = integrate(lorenz_96, start, 1100, 0.05, substeps=2)[200:]
    found = fit(states[:600])
    chosen = [row for row in found.report.candidates if row.get("part") == "flow"]
    assert found.report.part == "flow"
    assert any(row.get("radius") for row in chosen)
    assert found.report.parameters <= 36
    assert valid_steps(found, states, 600, 300) > 120  # ten Lyapunov times
    frame = found.surrogate.frame
    turned = found.surrogate.rollout(np.roll(states[:1], 3, axis=1), 5)
    np.testing.assert_allclose(turned, np.roll(found.surrogate.rollout(states[:1], 5), 3, axis=1), rtol=1e-10)
    assert np.ptp(frame.scale) == 0
    assert np.ptp(frame.low) == np.ptp(frame.high) == 0  # where one coordinate has been, all may go


def test_coordinates_that_differ_are_no_ring():
    pull = np.linspace(0.5, 1.5, 8)
    states = integrate(lambda x: lorenz_96(x) - (pull - 1) * x, 8 + RNG.normal(size=8), 700, 0.05, substeps=2)[100:]
    found = fit(states)
    assert found.report.part == "flow"
    assert not any(row.get("radius") for row in found.report.candidates if row.get("part") == "flow")


@pytest.mark.slow
def test_energy_is_kept_over_ten_thousand_steps():
    states = integrate(henon_heiles, [0.1, 0.3, 0.2, 0.1], 2000, 0.1)
    found = fit(states, ("linear", "polynomial", "flow", "lens"))
    assert found.report.part == "flow"
    rolled = found.surrogate.rollout(states[-1:], 10_000)
    assert np.abs(energy(rolled) / energy(states[-1:]) - 1).max() < 1e-6


def test_known_inputs_enter_the_vector_field():
    push = 0.5 * RNG.normal(size=(500, 1))
    state, states = np.array([0.5, 0.0]), []
    for k in range(500):
        states.append(state)

        def slope(s, u=push[k, 0]):
            return np.array([s[1], -s[0] - s[0] ** 3 - 0.3 * s[1] + u])

        state = integrate(slope, state, 2, 0.1)[1]
    states = np.stack(states)
    found = fit(states[:400], inputs=push[:400])
    assert found.report.part == "flow"
    predicted = found.surrogate.rollout(states[400:401], 90, push[400:490])
    assert np.abs(predicted - states[401:491]).max() < 1e-5


@pytest.mark.slow
def test_noise_does_not_make_a_vector_field_worse_than_the_other_forms():
    clean = integrate(lorenz, [1.0, 1.0, 20.0], 1400, 0.025)[200:]
    states = clean + 0.01 * clean.std(axis=0) * RNG.normal(size=clean.shape)
    parts = ("linear", "polynomial", "lens")
    both, without = (fit(states[:600], (*parts, *more)) for more in (("flow",), ()))
    assert both.report.held_out_nmse <= 1.05 * without.report.held_out_nmse


def nearly_roessler(s):
    """A law that no polynomial and no functions of single variables can write."""
    return np.array([-s[1] - s[2] + 0.2 * np.tanh(s[0] * s[1] / 20), s[0] + 0.2 * s[1], 0.2 + s[2] * (s[0] - 5.7)])


def test_lenses_learn_what_a_vector_field_leaves_over(tmp_path):
    states = integrate(nearly_roessler, [1.0, 1.0, 0.0], 640, 0.4, 40)[100:]
    train, truth = states[:400], states[400:500]

    def error(model):
        return np.sqrt(np.mean(((model.rollout(steps=100).predicted - truth) / truth.std(axis=0)) ** 2))

    model = LensForecaster(parts=("linear", "flow", "lens")).fit(train, dt=0.4)
    assert (model.report_.part, model.report_.history) == ("lens", 1)
    assert model.report_.structure["flow"]["degree"] > 1
    assert "closed form for what the vector field leaves over" in " ".join(model.summary().split())
    alone = [LensForecaster(parts=("linear", part)).fit(train, dt=0.4) for part in ("flow", "lens")]
    assert error(model) < 0.3 * min(map(error, alone))
    model.save(tmp_path / "model.lln")
    loaded = lln.load(tmp_path / "model.lln")
    np.testing.assert_array_equal(loaded.rollout(steps=100).predicted, model.rollout(steps=100).predicted)
    loaded.update(states[:500], dt=0.4)
    assert loaded.surrogate_.frame.flow is not None
    assert np.abs(loaded.rollout(steps=40).predicted - states[500:540]).max() < 0.02 * states.std()


def test_a_piece_of_several_steps_is_fitted_as_a_whole():
    pieces = pieces_of(integrate(lorenz, [1.0, 1.0, 20.0], 300, 0.02), steps=3)
    field = fitted(MonomialLibrary.whole(3, range(3), 2), pieces, 2, 1e-14)
    assert errors(field, pieces).shape == (len(pieces), 3, 3)
    one = replace(pieces, states=pieces.states[:, :2])
    alone = fitted(field.library, one, 2, 1e-14)
    assert np.square(errors(field, pieces)).sum() <= np.square(errors(alone, pieces)).sum()


def test_fields_whose_flow_overflows_are_dropped_without_a_word():
    # One step of the Henon map is far from the flow of any polynomial field: descents overflow on the way.
    states = np.empty((300, 2))
    states[0] = 0.1, 0.1
    for k in range(299):
        states[k + 1] = 1 - 1.4 * states[k, 0] ** 2 + states[k, 1], 0.3 * states[k, 0]
    for factor in (1.0, 1e60):
        model = LensForecaster(parts=("linear", "polynomial", "flow")).fit(factor * states, dt=1.0)
        assert model.report_.part == "polynomial"
