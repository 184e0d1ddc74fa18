import pytest

from lln import LensForecaster
from lln.core.errors import RenamedWarning
from lln.fit.options import FitReport, Recipe
from lln.forecaster.comparison.compare import keyword_options


def test_a_stored_report_with_the_former_names_is_read():
    stored = {
        "share": 0.5, "reach": 2, "candidates": [{"history": 1, "reach": None, "share": 0.0, "nmse": 0.1}],
        "structure": {"history": 2, "reach": 3, "ridge": 1e-3},
    }  # fmt: skip
    report = FitReport.from_record(stored)
    assert (report.correction_weight, report.radius) == (0.5, 2)
    assert report.candidates == [{"history": 1, "radius": None, "correction_weight": 0.0, "nmse": 0.1}]
    assert report.structure == {"history": 2, "radius": 3, "ridge": 1e-3}
    assert (report.share, report.reach) == (0.5, 2)
    assert {"share", "reach"}.isdisjoint(report.record())


def test_the_optical_length_has_a_former_name():
    assert Recipe.from_record({"horizon": 2.0}).optical_length == 2.0
    report = FitReport.from_record({"horizon": 2.0})
    assert report.optical_length == report.horizon == 2.0
    assert keyword_options({"horizon": 2.0}) == keyword_options(LensForecaster(horizon=2.0)) == {"optical_length": 2.0}
    quick = {"width": 4, "depth": 1, "epochs": 1, "members": 1, "parts": ["network"], "history": 1}
    with pytest.warns(RenamedWarning, match="optical_length"):
        model = LensForecaster(horizon=2.0, **quick).fit([[0.1 * k % 1.0] for k in range(60)])
    assert model.recipe_.optical_length == 2.0
    for both in ({"optical_length": 1.0, "horizon": 2.0}, {"random_state": 1, "seed": 2}):
        with pytest.raises(ValueError, match="give one of the two"):
            keyword_options(both)
    with pytest.raises(ValueError, match="horizon is the old name of optical_length"):
        LensForecaster(optical_length=1.0, horizon=2.0, **quick).fit([[0.1 * k % 1.0] for k in range(60)])


def test_a_bad_random_state_is_named_as_it_was_typed():
    with pytest.raises(ValueError, match="random_state must be an integer of at least 0, got 'a'"):
        LensForecaster(random_state="a").fit([[0.1 * k % 1.0] for k in range(60)])


@pytest.mark.parametrize(
    "bad", [{"exponent": 10**400}, {"exponent": 0.0}, {"exponent": float("nan")}, {"parameters": 10**400}]
)
def test_numbers_of_a_report_that_no_fit_writes_are_refused(bad):
    with pytest.raises(ValueError, match="report"):
        FitReport.from_record(bad)
