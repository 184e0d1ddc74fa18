from types import SimpleNamespace

import numpy as np
import pytest

from lln.fit.report.report import _notes
from lln.step.frame import Flow, Functions, Polynomial


@pytest.mark.parametrize(
    ("kinds", "words"),
    [
        ([], "A polynomial vector field"),
        ([1], "A vector field with sines"),
        ([0], "A vector field with Gaussian lenses"),
        ([0, 1], "A vector field with Gaussian lenses and sines"),
    ],
)
def test_a_report_says_what_kind_of_vector_field_is_used(kinds, words):
    table = np.array([[0, kind] for kind in kinds])
    functions = Functions(table, np.ones((len(kinds), 2))) if kinds else None
    flow = Flow(Polynomial(np.array([[-1, 0]]), np.ones((1, 1))), np.zeros(1), 1, functions)
    data, noise, ready = ({"notes": (), "input_lags": 0}, {"matters": False, "only_drives": False}, {"left_out": 0})
    said = _notes(*(SimpleNamespace(**values) for values in (data, noise, ready)), "flow", flow)
    assert said == (f"{words} did best on held-out rollouts; no network is used (more: lln explain no-network).",)
