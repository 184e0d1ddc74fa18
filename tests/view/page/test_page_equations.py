import dataclasses
import json
import re

import numpy as np
import pytest

from lln.data.series import Series
from lln.forecaster.layout import Layout
from lln.models import LensNetwork
from lln.step.frame import Flow, Frame, Functions, Polynomial, monomial_table
from lln.step.step import DenseStep
from lln.systems import preset
from lln.view.page import build_page, equations
from lln.view.page.build import _closed_forms
from lln.view.page.equations import equations_of, polynomial_field

N = 3


def frame_of(*, flow=None, polynomial=None, matrix=None, history=1):
    rng = np.random.default_rng(0)
    return Frame(
        mean=rng.normal(size=N),
        scale=rng.uniform(0.5, 3, size=N),
        history=history,
        difference_scale=np.ones((history - 1, N)),
        input_mean=np.zeros(0),
        input_scale=np.ones(0),
        matrix=np.zeros((N, N * history)) if matrix is None else matrix,
        offset=np.zeros(N),
        gain=np.zeros(N),
        polynomial=polynomial,
        flow=flow,
    )


def cubic(seed):
    table = monomial_table(range(N), 3)
    return Polynomial(table, np.random.default_rng(seed).normal(size=(N, len(table))))


def value(rows, x):
    return [sum(term["weight"] * np.prod(x ** np.array(term["powers"])) for term in row) for row in rows]


def test_the_equations_of_a_flow_are_its_derivatives_in_the_units_of_the_data(monkeypatch):
    monkeypatch.setattr(equations, "NEGLIGIBLE", 0.0)
    field, offset, dt = cubic(1), np.array([0.3, -0.2, 0.1]), 0.05
    frame = frame_of(flow=Flow(field, offset))
    found = equations_of(DenseStep(frame), dt)
    assert found["kind"] == "flow"
    for x in np.random.default_rng(2).normal(size=(5, N)):
        slope = frame.scale * (field((x - frame.mean) / frame.scale) + offset) / dt
        np.testing.assert_allclose(value(found["rows"], x), slope, rtol=1e-9)


@pytest.mark.parametrize("discrete", [False, True])
def test_known_inputs_stand_behind_the_coordinates(discrete, monkeypatch):
    monkeypatch.setattr(equations, "NEGLIGIBLE", 0.0)
    rng, table = np.random.default_rng(3), monomial_table(range(N + 2), 2)
    terms, matrix = Polynomial(table, rng.normal(size=(N, len(table)))), rng.normal(size=(N, N + 2))
    flow = None if discrete else Flow(terms, rng.normal(size=N))
    frame = dataclasses.replace(
        frame_of(flow=flow, polynomial=terms if discrete else None, matrix=matrix if discrete else 0 * matrix),
        input_mean=np.array([2.0, -1.0]), input_scale=np.array([0.5, 4.0]),
    )  # fmt: skip
    found, x, u = equations_of(DenseStep(frame), 0.1), rng.normal(size=N), rng.normal(size=2)
    seen = np.concatenate([(x - frame.mean) / frame.scale, (u - frame.input_mean) / frame.input_scale])
    change = terms(seen) + (matrix @ seen if discrete else flow.offset)
    wanted = frame.scale * change / (1.0 if discrete else 0.1)
    np.testing.assert_allclose(value(found["rows"], np.concatenate([x, u])), wanted, rtol=1e-9)


def with_functions(kinds, shifts, slopes=(1.3, -0.7, 0.4)):
    """A cubic field in which functions of the three coordinates stand alone, by themselves and by a coordinate."""
    rng, field = np.random.default_rng(5), cubic(1)
    first = len(field.table)
    rows = [(-1, N), (-1, N + 1), (-1, N + 2), (0, N + 1), (first, N), (first + 2, N + 1)]
    more = Polynomial(
        np.concatenate([field.table, rows]),
        np.concatenate([field.weights, rng.normal(size=(N, len(rows)))], axis=1),
    )
    functions = Functions(np.stack([np.arange(N), kinds], axis=1), np.stack([slopes, shifts], axis=1))
    return Flow(more, np.array([0.3, -0.2, 0.1]), 1, functions)


VALUES = {
    "gauss": lambda a: np.exp(-a * a / 2),
    "sin": np.sin,
    "cos": np.cos,
    "abs": np.abs,
    "tanh": np.tanh,
    "exp": np.exp,
    "reciprocal": lambda a: 1 / a,
    "clip": lambda a: np.clip(a, -1, 1),
}


def functions_at(functions, x):
    """Coordinates, and the functions behind them."""
    values = [VALUES[one["kind"]](one["slope"] * x[one["coordinate"]] + one["shift"]) for one in functions]
    return np.concatenate([x, values])


@pytest.mark.parametrize("shifts", [(0.4, -1.9, 12.0), (0.4, 0.4, 0.4)])
def test_the_equations_of_a_field_with_sines_are_its_derivatives(shifts, monkeypatch):
    monkeypatch.setattr(equations, "NEGLIGIBLE", 0.0)
    flow, dt = with_functions([1, 1, 1], shifts), 0.05
    frame = frame_of(flow=flow)
    found = equations_of(DenseStep(frame), dt)
    assert all(wave["slope"] > 0 and abs(wave["shift"]) <= np.pi for wave in found["functions"])
    for x in np.random.default_rng(2).normal(size=(5, N)):
        z = (x - frame.mean) / frame.scale
        slope = frame.scale * (flow.polynomial(np.concatenate([z, flow.functions(z)])) + flow.offset) / dt
        np.testing.assert_allclose(value(found["rows"], functions_at(found["functions"], x)), slope, rtol=1e-9)


@pytest.mark.parametrize("quarters", range(-3, 9))
@pytest.mark.parametrize("sign", [1, -1])
def test_sines_with_a_shift_of_quarter_turns_are_sines_or_cosines(quarters, sign, monkeypatch):
    monkeypatch.setattr(equations, "NEGLIGIBLE", 0.0)
    frame, slopes = frame_of(), sign * np.array([1.3, 0.7, 0.4])
    frame = frame_of(flow=with_functions([1, 1, 1], slopes * frame.mean / frame.scale + quarters * np.pi / 2, slopes))
    found = equations_of(DenseStep(frame), 0.05)
    assert {(wave["kind"], wave["shift"]) for wave in found["functions"]} == {("cos" if quarters % 2 else "sin", 0.0)}
    x = np.array([0.4, -1.0, 0.7])
    z = (x - frame.mean) / frame.scale
    flow = frame.flow
    slope = frame.scale * (flow.polynomial(np.concatenate([z, flow.functions(z)])) + flow.offset) / 0.05
    np.testing.assert_allclose(value(found["rows"], functions_at(found["functions"], x)), slope, rtol=1e-9)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("kinds", [(0, 1, 2), (3, 4, 5), (6, 2, 5)])
def test_every_function_is_written_in_the_units_of_the_data(kinds, sign, monkeypatch):
    monkeypatch.setattr(equations, "NEGLIGIBLE", 0.0)
    flow = with_functions(kinds, (0.3, -0.2, 9.0), sign * np.array([1.3, 0.7, 0.4]))
    frame = frame_of(flow=flow)
    found = equations_of(DenseStep(frame), 0.05)
    assert all(one["slope"] > 0 or one["kind"] == "exp" for one in found["functions"])
    for x in np.random.default_rng(2).normal(size=(5, N)):
        z = (x - frame.mean) / frame.scale
        slope = frame.scale * (flow.polynomial(np.concatenate([z, flow.functions(z)])) + flow.offset) / 0.05
        np.testing.assert_allclose(value(found["rows"], functions_at(found["functions"], x)), slope, rtol=1e-9)


def test_sizes_of_functions_are_compared_at_their_root_mean_square():
    flow = with_functions([1, 3, 6], (0.5, 1.2, 0.0))
    frame = frame_of(flow=flow)
    drawn = np.random.default_rng(6).normal(size=(200_000, N))
    _, factors, found = equations._named(flow.functions, frame)
    right = np.sqrt(np.mean(flow.functions(drawn) ** 2, axis=0)) / np.abs(factors)
    np.testing.assert_allclose(found, right, rtol=0.1)


def test_a_field_with_many_gaussians_has_no_equations_but_a_name():
    table = np.stack([np.arange(12) % N, np.zeros(12, dtype=int)], axis=1)
    field = Polynomial(np.array([(-1, N + k) for k in range(12)]), np.ones((N, 12)))
    step = DenseStep(frame_of(flow=Flow(field, np.zeros(N), 1, Functions(table, np.ones((12, 2))))))
    assert equations_of(step, 0.1) is None
    assert _closed_forms(step) == ["vector field of degree 1 with Gaussian lenses"]
    for kinds, words in (([1, 1, 1], "sines"), ([4, 2, 6], "kinks, exponentials and saturations")):
        step = DenseStep(frame_of(flow=with_functions(kinds, (0.0, 0.0, 0.0))))
        assert _closed_forms(step) == [f"vector field of degree 3 with {words}"]


def test_the_equations_of_a_map_are_its_change_in_one_step(monkeypatch):
    monkeypatch.setattr(equations, "NEGLIGIBLE", 0.0)
    frame = frame_of(polynomial=cubic(3), matrix=np.random.default_rng(4).normal(size=(N, N)))
    step = DenseStep(frame)
    found = equations_of(step, 0.05)
    assert found["kind"] == "step"
    x = np.array([0.4, -1.0, 0.7])
    np.testing.assert_allclose(x + value(found["rows"], x), step.rollout(x[None], 1)[0], rtol=1e-9)


def test_the_page_of_the_lorenz_field_shows_the_lorenz_equations():
    table, weights, offset = polynomial_field(preset("lorenz-28"))
    dt = 0.01
    weights = weights.copy()
    weights[0, np.argmax(table[:, 0] >= 0)] += 1e-6  # rounding of a fit
    unit = Frame(
        np.zeros(N), np.ones(N), 1, np.ones((0, N)), np.zeros(0), np.ones(0), np.zeros((N, N)), np.zeros(N),
        np.zeros(N), flow=Flow(Polynomial(table, weights * dt), offset * dt),
    )  # fmt: skip
    rows = equations_of(DenseStep(unit), dt)["rows"]
    terms = [{tuple(term["powers"]): round(term["weight"], 6) for term in row} for row in rows]
    assert terms == [
        {(1, 0, 0): -10.0, (0, 1, 0): 10.0},
        {(1, 0, 0): 28.0, (0, 1, 0): -1.0, (1, 0, 1): -1.0},
        {(0, 0, 1): round(-8 / 3, 6), (1, 1, 0): 1.0},
    ]
    text = build_page(DenseStep(unit), Layout(("x", "y", "z"), dt), [Series(np.ones((5, 3)))], title="Lorenz")
    payload = json.loads(re.search(r'id="payload">(.*?)</script>', text)[1])
    assert [len(row) for row in payload["equations"]["rows"]] == [2, 3, 2]
    assert _closed_forms(DenseStep(unit)) == ["polynomial vector field of degree 2"]


@pytest.mark.parametrize("kind", ["network", "past", "both forms"])
def test_other_steps_have_no_equations(kind):
    matrix = np.eye(N)
    if kind == "past":
        step = DenseStep(frame_of(matrix=np.ones((N, 2 * N)), history=2))
    elif kind == "network":
        frame = frame_of(matrix=matrix)
        frame.gain[:] = 1.0
        step = DenseStep(frame, [LensNetwork(N, N, width=4, depth=2)])
    else:
        step = DenseStep(frame_of(matrix=matrix, flow=Flow(cubic(1), np.zeros(N))))
    assert equations_of(step, 0.1) is None
