import pytest
from browser import drive, needs_node

pytestmark = needs_node

MONTHS = {"calendar": {"first": 0, "dates": [f"{2008 + k // 12}-{k % 12 + 1:02}-01" for k in range(200)]}}
QUARTERS = {"calendar": {"first": 0, "dates": [f"{2008 + k // 4}-{3 * (k % 4) + 3:02}-28" for k in range(60)]}}
HOURS = {"calendar": None, "origin": "1900-01-01T00:00:00.000Z"}
AXES = [
    ({**MONTHS, "timeUnit": "months"}, 1, 40, 5, ["2009-01", "2010-01", "2011-01"]),
    ({**MONTHS, "timeUnit": "months"}, 1, 8, 5, ["2008-03", "2008-05", "2008-07", "2008-09"]),
    ({**MONTHS, "timeUnit": "months"}, 3, 106, 2.4, ["2012-01", "2016-01"]),  # as narrow as a phone
    ({**QUARTERS, "timeUnit": "quarters"}, 0, 30, 4, ["2008-03", "2010-03", "2012-03", "2014-03"]),
    ({**HOURS, "timeUnit": "hours"}, 1, 30, 4, ["1900-01-01 12:00", "1900-01-02"]),
    ({**HOURS, "timeUnit": "days"}, 0.2, 2.3, 5, ["1900-01-01 12:00", "1900-01-02", "1900-01-02 12:00", "1900-01-03"]),
    ({**HOURS, "timeUnit": "days"}, 10, 400, 6, ["1900-04-01", "1900-07-01", "1900-10-01", "1901-01-01"]),
]

BARS = [
    ([278.7, 281.3], ["278.7", "281.3"]),
    ([-1.02, 1.02], ["−1", "1"]),
    ([-6.2e-4, 6.2e-4], ["−6.2e−4", "6.2e−4"]),
    ([2.7e-8, 1], ["0", "1"]),  # nothing beside the other end
    ([0, 5e-3], ["0", "5.0e−3"]),
]
NUMBERS = [(-3.2e-4, "−3.2e−4"), (2.5e-6, "2.5e−6"), (-7.0, "−7"), (1234.5678, "1235")]

YEARS = {"calendar": {"first": 0, "dates": [f"{1900 + k}-01-01" for k in range(9)]}, "timeUnit": "years"}
MOMENTS = [
    (YEARS, 3, "1903"),
    ({**MONTHS, "timeUnit": "months"}, 13, "2009-02"),
    ({**HOURS, "timeUnit": "days"}, 7 / 24, "1900-01-01 07:00"),
    ({**HOURS, "timeUnit": "days"}, 2, "1900-01-03"),
    ({**HOURS, "timeUnit": "seconds"}, 61, "1900-01-01 00:01:01"),
]


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    axes = [{"payload": payload, "low": low, "high": high, "count": count} for payload, low, high, count, _ in AXES]
    request = {"axes": axes, "bars": [bar for bar, _ in BARS], "numbers": [number for number, _ in NUMBERS]}
    request["moments"] = [{"payload": payload, "time": time} for payload, time, _ in MOMENTS]
    return drive(tmp_path_factory.mktemp("dates"), "dates", request)


@pytest.mark.parametrize("k", range(len(AXES)))
def test_ticks_stand_at_whole_days_months_and_years(told, k):
    assert told["axes"][k] == AXES[k][-1]


def test_the_ends_of_a_colour_bar_are_told_apart(told):
    assert told["bars"] == [words for _, words in BARS]


def test_a_number_has_one_kind_of_minus(told):
    assert told["numbers"] == [words for _, words in NUMBERS]


def test_a_moment_has_no_more_digits_than_its_steps(told):
    assert told["moments"] == [words for *_, words in MOMENTS]
