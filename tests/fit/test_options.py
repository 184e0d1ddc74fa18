from lln.fit.options import FitReport


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
