import dataclasses
import re

import numpy as np
from forecasters import field, fitted, forced, lorenz

from lln.fit.options import FitReport
from lln.forecaster.summary import summary
from lln.step.frame import Flow, Functions, Polynomial


def text(forecaster=None, flow=None, **changes):
    forecaster = forecaster or fitted()
    report = dataclasses.replace(forecaster.report_, **changes)
    return re.sub(r"\s+", " ", summary(forecaster.layout_, forecaster.recipe_, report, forecaster.training_, flow))


def flow_of(degree, kind=None):
    functions = None if kind is None else Functions(np.array([[0, kind]]), np.ones((1, 2)))
    table = np.array([[power - 1, 0] for power in range(degree)])
    return Flow(Polynomial(table, np.ones((3, degree))), np.zeros(3), 1, functions)


def test_it_says_what_was_given_and_done():
    said = text()
    report = fitted().report_
    assert "one trajectory of x, y, z, dt = 0.01" in said
    assert f"{report.pairs:,} pairs of neighbouring states" in said
    assert f"of {len(lorenz())} states" in said
    assert f"{report.parameters:,} (" in said
    assert f"{report.held_out_nmse:.3g}" in said
    assert f"{report.seconds:.1f} s on cpu, random_state 0" in said
    assert all(len(line) <= 100 for line in fitted().summary().splitlines())


def test_it_says_when_there_is_no_network_or_no_linear_part():
    assert "no network did better than the linear part" in text(correction_weight=0.0)
    assert "no linear part" in text(ridge=None)
    assert "the mean of 4 of kind 'lens' (width 9, depth 2, basis 6, optical length 1)" in text(
        correction_weight=0.5, model="lens", members=4, width=9, depth=2, basis=6, optical_length=1.0
    )


def test_a_seasonal_model_says_which_seasons_it_repeats():
    shape = {"naive": "season", "season": 12, "smoothing": [3.0]}
    said = text(part="seasonal naive", structure=shape, history=36, correction_weight=0.0, parameters=1,
                linear_parameters=1)  # fmt: skip
    assert "seasonal naive (seasons of 12 steps, the mean of the last 3, with drift) alone, no linear part" in said
    assert "no network did better than this on held-out rollouts" in said
    assert "parameters 1 held out" in said
    assert "linear part alone" not in said
    said = text(part="seasonal naive", structure=shape | {"smoothing": [1.0, 0.5]}, correction_weight=0.0)
    assert "seasonal naive (seasons of 12 steps, and a decaying part of the last difference)" in said


def test_a_linear_map_is_shown_once():
    skill = {"model": [0.1, 0.2], "linear": [0.1, 0.2], "persistence": [1.0, 2.0]}
    assert " linear 0.1" in text(skill=skill, lead_times=(1, 2))
    assert " linear 0.1" not in text(skill=skill, lead_times=(1, 2), part="linear", correction_weight=0.0)


def test_the_simple_methods_of_older_files_have_the_names_of_the_other_tables():
    found = FitReport.from_record({"skill": {"model": [0.1], "linear map": [0.2], "the last season": [None]}})
    assert list(found.skill) == ["model", "linear", "seasonal"]


def test_a_closed_form_is_not_called_a_linear_map():
    said = text(part="flow", flow=flow_of(3), correction_weight=0.0, parameters=13, linear_parameters=13)
    assert "looks at the present state; a polynomial vector field of degree 3 in float64" in said
    assert "13 (13 in the polynomial vector field)" in said
    assert "spectral radius" not in said


def test_a_field_with_functions_is_not_called_a_polynomial():
    for kind, words in ((1, "sines"), (0, "Gaussian lenses")):
        said = text(part="flow", flow=flow_of(2, kind), correction_weight=0.0, parameters=13, linear_parameters=13)
        assert f"looks at the present state; a vector field of degree 2 with {words} in float64" in said
        assert f"none: a vector field of degree 2 with {words} did best on held-out rollouts" in said
        assert f"13 (13 in the vector field with {words})" in said


def test_a_field_is_described_as_it_is_not_as_it_was_chosen():
    structure = {"kind": "flow", "flow": {"degree": 3, "angle": 1.0, "lenses": 0}}  # all sines and cubes were pruned
    said = text(part="flow", flow=flow_of(2), degree=3, correction_weight=0.0, structure=structure)
    assert "looks at the present state; a polynomial vector field of degree 2 in float64" in said
    assert "sines" not in said


def test_noise_gaps_coverage_and_notes():
    assert "noise found, about 0.01 of the states' spread, 0.3 of one step's change" in text(
        noise=0.01, noise_of_increments=0.3, noisy=True
    )
    assert "noise found, about 1 of the states' spread" in text(noise=1.07, noise_of_increments=0.7, noisy=True)
    assert "none that matters" in text(noise=1e-6, noise_of_increments=1e-4, noisy=False)
    assert "12 more touch a gap and were left out" in text(left_out=12)
    assert "1 more touches a gap and was left out" in text(left_out=1)
    assert "97.5 % of hidden positions lie between the control points" in text(coverage=0.025, correction_weight=1.0)
    assert "note a column does not vary" in text(notes=("a column does not vary",))


def test_inputs_and_grids_are_named():
    assert "known inputs u, v" in text(forced()[0])
    assert "u, v on a grid of 2 x 3" in text(field())
