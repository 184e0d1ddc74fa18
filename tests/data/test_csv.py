"""CSV files as other programs write them."""

import time

import numpy as np
import pandas as pd
import pytest

from lln.core.errors import InputError
from lln.data import Dataset, Series, as_dataset
from lln.data.read import store as lazy
from lln.data.read.formats import read, write

T = np.arange(30) * 0.1
A, B, C = np.sin(T), np.cos(T), np.sin(T) * np.cos(T)


def csv(tmp_path, text, **options):
    path = tmp_path / "own.csv"
    path.write_text(text)
    return read(path, **options)


def lines(*columns):
    return "".join(",".join(map(repr, row)) + "\n" for row in np.column_stack(columns).tolist())


def test_headings_that_spreadsheets_would_take_for_formulas_are_read_back(tmp_path):
    names = ("=SUM(A1)", "-b", "'c")
    write(tmp_path / "a.csv", Dataset((Series(np.stack([A, B, C], axis=1)),), 0.1, names))
    assert read(tmp_path / "a.csv").names == names


@pytest.mark.parametrize("names", [("sensor #1", "sensor #2"), ("p#2", "p3"), ("a", "#b")])
def test_a_hash_in_a_heading_is_no_comment(tmp_path, names):
    found = csv(tmp_path, f"time,{','.join(names)}\n" + lines(T, A, B))
    assert found.names == names
    np.testing.assert_array_equal(found.series[0].states, np.column_stack([A, B]))
    write(tmp_path / "again.csv", found)
    assert read(tmp_path / "again.csv").names == names


def test_a_hash_in_a_cell_is_named_and_blanks_no_row(tmp_path):
    with pytest.raises(InputError, match=r"row 3, column 'a': '0\.5#' is not a number"):
        csv(tmp_path, "time,a\n0,1\n1,0.5#\n2,3\n3,4\n")


def test_lines_of_comments_are_left_out_wherever_they_are(tmp_path):
    found = csv(tmp_path, "# measured in May\ntime,a\n0,1\n# stopped\n1,2\n  # went on\n2,5\n")
    assert (found.names, found.series[0].states[:, 0].tolist()) == (("a",), [1.0, 2.0, 5.0])


@pytest.mark.parametrize("first", ["#time,a,b", "# time,a,b", "# of 2020\n# time,a,b"])
def test_a_header_behind_a_hash_names_the_columns(tmp_path, first):
    assert csv(tmp_path, f"{first}\n" + lines(T, A, B)).names == ("a", "b")


@pytest.mark.parametrize("mark", [",", " ", "\t"])
def test_row_names_as_r_writes_them(tmp_path, mark):
    rows = "".join(f'"{k + 1}",{T[k]},{A[k]},{B[k]}\n' for k in range(30))
    for header in ('"time","a","b"\n', '"","time","a","b"\n') if mark != " " else ('"time","a","b"\n',):
        found = csv(tmp_path, (header + rows).replace(",", mark))
        assert (found.names, found.dt) == (("a", "b"), 0.1)
        np.testing.assert_array_equal(found.series[0].states[:, 0], A)
        assert "counts the rows" in found.notes[0]


def test_a_separator_behind_every_row_adds_no_column(tmp_path):
    rows = "".join(f"{T[k]},{A[k]},{B[k]},\n" for k in range(30))
    found = csv(tmp_path, "time,a,b\n" + rows)
    assert found.names == ("a", "b")
    np.testing.assert_array_equal(found.series[0].states[:, 1], B)


def test_one_row_with_more_cells_is_refused_though_it_is_the_first(tmp_path):
    with pytest.raises(InputError, match=r"name each column|different numbers of cells"):
        csv(tmp_path, "time,a,b\n0,1,2,3\n1,2,3\n2,3,4\n")


@pytest.mark.parametrize("index", [None, pd.Index(np.arange(30) * 2.0)])
def test_a_series_of_pandas_keeps_all_rows_and_gains_no_column(tmp_path, index):
    pd.Series(A, index=index).to_csv(tmp_path / "a.csv")
    found = read(tmp_path / "a.csv")
    assert (found.names, found.lengths, found.dt) == (("0",), (30,), 1.0 if index is None else 2.0)
    np.testing.assert_array_equal(found.series[0].states[:, 0], A)


def test_a_first_line_of_any_length(tmp_path):
    names = [f"measuring point number {i:06d}" for i in range(4000)]  # 120 kB
    states = np.random.default_rng(0).standard_normal((5, 4000)).cumsum(axis=0)
    write(tmp_path / "a.csv", Dataset((Series(states),), 0.1, tuple(names)))
    found = read(tmp_path / "a.csv")
    assert (found.names, found.lengths) == (tuple(names), (5,))
    np.savetxt(tmp_path / "b.csv", states, delimiter=",")
    assert read(tmp_path / "b.csv", time="none").lengths == (5,)


def test_many_columns_take_time_in_proportion(tmp_path):
    def seconds(columns):
        text = ",".join(f"c{i}" for i in range(columns)) + "\n"
        text += "".join(",".join(str((k * 7 + i) % 13) for i in range(columns)) + "\n" for k in range(4))
        begin = time.process_time()
        assert csv(tmp_path, text, time="none").size == columns
        return time.process_time() - begin

    seconds(100)
    assert seconds(16000) < 16 * seconds(2000) + 1


def test_a_quoted_heading_may_hold_a_line_break(tmp_path):
    assert csv(tmp_path, 'time,"a\nx",b\n' + lines(T, A, B)).names == ("a\nx", "b")


def test_a_repeated_mark_for_missing_values_is_a_gap(tmp_path):
    values = A.copy()
    values[[4, 9]] = -999
    found = csv(tmp_path, "time,a,b\n" + lines(T, values, B))
    assert "column 'a' holds -999 in 2 rows, unlike its other values: taken as missing" in found.notes[0]
    assert "give the data as an array" in found.notes[0]
    np.testing.assert_array_equal(np.flatnonzero(np.isnan(found.series[0].states[:, 0])), [4, 9])
    np.testing.assert_array_equal(found.series[0].states[:, 1], B)
    # Rain is never negative, however much of it falls.
    rain = np.where(np.isin(np.arange(30), [3, 8]), -99.9, np.arange(30) * 40.0)
    frame = pd.DataFrame({"time": T, "rain": rain, "b": B})
    kept = frame.copy()
    for kind in (np.float64, np.float32):
        assert np.isnan(as_dataset(frame.astype({"rain": kind, "b": kind})).series[0].states[:, 0]).sum() == 2
    pd.testing.assert_frame_equal(frame, kept)
    forced = csv(tmp_path, "time,a,b\n" + lines(T, values, B), inputs="a")
    assert np.isnan(forced.series[0].inputs).sum() == 2


def test_marks_among_few_values_and_in_many_rows_are_gaps_too(tmp_path):
    levels = np.where(np.arange(30) % 2 == 0, 1.0, 2.0)
    for mark, rows_of in ((-999.0, np.arange(30) % 10 == 0), (9999.0, np.arange(30) % 5 < 2)):
        found = csv(tmp_path, "time,a,b\n" + lines(T, np.where(rows_of, mark, levels), B))
        np.testing.assert_array_equal(np.isnan(found.series[0].states[:, 0]), rows_of)


def test_notes_on_marks_name_three_columns():
    once = np.where(np.arange(30) == 5, -999.0, A)
    assert len(as_dataset(np.stack([once] * 4, axis=1)).notes) == 3


def test_what_may_be_a_true_value_is_kept(tmp_path):
    assert not csv(tmp_path, "time,a,b\n" + lines(T, 400 * A - 800, B)).notes
    clipped = np.where(np.arange(30) % 5 == 0, 1023.0, np.arange(30) / 7)  # no such mark is in use
    assert not csv(tmp_path, "time,a,b\n" + lines(T, clipped, B)).notes
    near = np.where(np.arange(30) % 5 == 0, 999.0, 900.0 + np.arange(30))
    assert not csv(tmp_path, "time,a,b\n" + lines(T, near, B)).notes
    switch = np.where(np.arange(30) % 3 == 0, 999.0, 0.0)  # two values are a switch
    assert not np.isnan(csv(tmp_path, "time,a,b\n" + lines(T, switch, B)).series[0].states).any()
    mostly = np.where(np.arange(30) % 3 == 0, A, 9999.0)
    assert not np.isnan(csv(tmp_path, "time,a,b\n" + lines(T, mostly, B)).series[0].states).any()
    once = np.where(np.arange(30) == 5, -999.0, A)
    found = csv(tmp_path, "time,a,b\n" + lines(T, once, B))
    assert "holds -999 in 1 row, unlike its other values; if that means missing" in found.notes[0]
    assert not np.isnan(found.series[0].states).any()


def test_every_usual_mark_for_missing_values_is_known():
    for mark in (-99, -99.9, -999, -999.9, -9999, -99999, 999, 9999, 99999, 1e20, -32768):
        data = as_dataset(np.where(np.arange(30) == 7, mark, A)[:, None])
        assert f"column 'x0' holds {mark:g} in 1 row, unlike its other values" in data.notes[0]
        assert not np.isnan(data.series[0].states).any()  # numbers of an array are all kept
        assert as_dataset(data.series[0].states.astype(np.float32)).notes == data.notes


def test_text_columns_are_left_out_with_a_note(tmp_path):
    rows = "".join(f"{T[k]},{A[k]},ok,{B[k]},{'warm' if k % 2 else 3}\n" for k in range(30))
    found = csv(tmp_path, "time,a,status,b,remark\n" + rows)
    assert found.names == ("a", "b")
    assert "2 columns of text are left out ('status', 'remark')" in found.notes[0]
    with pytest.raises(InputError, match="row 2, column 'status': 'ok' is not a number"):
        csv(tmp_path, "time,a,status\n0,1,ok\n1,2,ok\n2,4,no\n", states=["a", "status"])


@pytest.mark.parametrize(
    ("count", "said"),
    [(1, "1 column of text is left out ('t0')"), (4, "4 columns of text are left out ('t0', 't1', 't2', ...)")],
)
def test_the_first_three_columns_of_text_are_named(tmp_path, count, said):
    heads, cells = (",".join(f"{start}{k}" for k in range(count)) for start in ("t", "ok"))
    assert csv(tmp_path, f"a,{heads}\n" + "".join(f"{k % 4},{cells}\n" for k in range(9))).notes[-1].endswith(said)


def test_no_time_where_the_caller_says_so(tmp_path):
    text = "date,a\n2024-01-01,1\n2024-01-05,2\n2024-01-08,4\n"
    with pytest.raises(InputError, match="unevenly sampled"):
        csv(tmp_path, text)
    found = csv(tmp_path, text, time="none", dt=0.5)
    assert (found.names, found.dt, found.lengths) == (("a",), 0.5, (3,))


@pytest.mark.parametrize(
    "dates",
    [
        ["2024-01-30", "2024-01-31", "2024-02-01"],
        ["30.01.2024", "31.01.2024", "01.02.2024"],
        ["01/30/2024", "01/31/2024", "02/01/2024"],
        ["30/01/2024 00:00", "31/01/2024 00:00", "01/02/2024 00:00"],
        ["30 Jan 2024", "31 Jan 2024", "01 Feb 2024"],
        ["2024/01/30", "2024/01/31", "2024/02/01"],
    ],
)
@pytest.mark.parametrize("name", ["when", "Messzeit", "time"])
def test_dates_are_recognised_by_content(tmp_path, dates, name):
    found = csv(tmp_path, f"a,{name}\n" + "".join(f"{k * k},{one}\n" for k, one in enumerate(dates)))
    assert (found.names, found.dt) == (("a",), 86400.0)
    assert found.units["time"] == "seconds since 2024-01-30T00:00:00"


def test_dates_that_can_be_read_in_two_ways_are_refused(tmp_path):
    with pytest.raises(InputError, match="may be day/month or month/day; write them as 2024-01-31"):
        csv(tmp_path, "when,a\n01/02/2024,1\n01/03/2024,2\n01/04/2024,5\n")


def test_slashed_dates_of_which_one_reading_is_left_may_come_in_any_order(tmp_path):
    days = [f"{month:02}/{day:02}/2024" for month, day in ((1, 30), (1, 31), (2, 1), (2, 2))]
    rows = [f"{day},{k * k}" for k, day in enumerate(days)]
    turned = csv(tmp_path, "date,a\n" + "\n".join(reversed(rows)) + "\n")
    assert (turned.dt, turned.series[0].states[:, 0].tolist()) == (86400.0, [0, 1, 4, 9])
    several = csv(tmp_path, "date,run,a\n" + "".join(f"{d},{run},1\n" for run in "pq" for d in days), trajectory="run")
    assert several.lengths == (4, 4)


def test_year_and_quarter_or_month_are_time(tmp_path):
    quarters = "".join(f"{2000 + k // 4},{k % 4 + 1},{k * k}\n" for k in range(20))
    found = csv(tmp_path, "year,quarter,sales\n" + quarters)
    assert (found.names, found.frequency, found.lengths) == (("sales",), "QS", (20,))
    assert "columns 'year' and 'quarter' are taken as time" in found.notes[0]
    months = "".join(f"{k * k},{2000 + k // 12},{k % 12 + 1}\n" for k in range(30))
    assert csv(tmp_path, "sales,Year,Month\n" + months).frequency == "MS"
    years = csv(tmp_path, "sales,year\n" + "".join(f"{k * k},{1990 + k}\n" for k in range(9)))
    assert (years.names, years.dt) == (("sales",), 1.0)
    again = csv(tmp_path, "a,quarter\n" + "".join(f"{k * k},{k % 4 + 1}\n" for k in range(9)))
    assert again.names == ("a", "quarter")
    assert "column 'quarter' is taken as a state" in again.notes[-1]


def test_year_month_and_day_are_time(tmp_path):
    days = pd.date_range("2004-02-25", periods=12)
    found = csv(tmp_path, "year,month,day,a\n" + "".join(f"{d.year},{d.month},{d.day},{d.day**2}\n" for d in days))
    assert (found.names, found.lengths) == (("a",), (12,))
    assert "columns 'year' and 'month' and 'day' are taken as time" in found.notes[0]
    text = "year,month,day,a\n" + "".join(f"2004,{k + 1},{k},{k * k}\n" for k in range(12))
    assert csv(tmp_path, text, time="none").names == ("year", "month", "day", "a")


@pytest.mark.parametrize("cells", [[f"{2000 + k // 4}Q{k % 4 + 1}" for k in range(9)]])
def test_quarters_as_text(tmp_path, cells):
    found = csv(tmp_path, "a,period\n" + "".join(f"{k * k},{cell}\n" for k, cell in enumerate(cells)))
    assert (found.names, found.frequency) == (("a",), "QS")


@pytest.mark.parametrize("gap", ["", "nan", "NA", "n/a", "null", "none", "-", "?"])
def test_a_first_row_with_a_gap_is_no_header(tmp_path, gap):
    (tmp_path / "a.csv").write_text(f"1.5,{gap},2.0\n2.5,3.0,1.0\n4.0,1.0,7.0\n")
    data = read(tmp_path / "a.csv")
    assert (data.rows, data.size) == (3, 3)
    assert np.isnan(data.series[0].states[0, 1])


def test_a_single_line_shows_how_it_is_separated(tmp_path):
    (tmp_path / "a.csv").write_text("1.5;2.5;4.5\n")
    assert read(tmp_path / "a.csv").series[0].states.tolist() == [[1.5, 2.5, 4.5]]


def test_text_beyond_the_memory_of_the_machine_is_refused(tmp_path, monkeypatch):
    (tmp_path / "a.csv").write_text("a,b\n" + "1.5,2.5\n" * 50)
    monkeypatch.setattr(lazy, "available", lambda: 576)
    monkeypatch.setattr(lazy, "CLAIMED_ALWAYS", 0)
    with pytest.raises(InputError, match="more than the free memory"):
        read(tmp_path / "a.csv")


def test_text_in_utf_16_as_spreadsheets_export_it(tmp_path):
    (tmp_path / "own.csv").write_bytes(("time,a,b\r\n" + lines(T, A, B)).encode("utf-16"))
    np.testing.assert_array_equal(read(tmp_path / "own.csv").series[0].states, np.column_stack([A, B]))


@pytest.mark.parametrize(
    ("cells", "mark"),
    [
        (["987.5", "1,234.5", "12,345,678", "-2,000.25"], ","),
        (["$987.50", "$1,234.50", "$12,345,678", "-$2,000.25"], ","),
        (["987,5", "1.234,5", "12.345.678", "-2.000,25"], ";"),
        (["987,5 €", "1234,5 €", "12345678 €", "-2000,25 €"], ","),
        (["987.5%", "1234.5%", "12345678%", "-2000.25 %"], ","),
    ],
)
def test_thousands_separators_and_currencies(tmp_path, cells, mark):
    rows = [["time", "a", "b"], *([str(k), f'"{cell}"', str(k % 3)] for k, cell in enumerate(cells))]
    found = csv(tmp_path, "\n".join(mark.join(row) for row in rows) + "\n")
    np.testing.assert_array_equal(found.series[0].states[:, 0], [987.5, 1234.5, 12345678.0, -2000.25])


@pytest.mark.parametrize(
    ("text", "first", "said"),
    [
        ('time,a\n0,"1,234"\n1,"999"\n2,"2,345"\n', 1234.0, "separators of thousands ('1,234' is 1234)"),
        ('time,a\n0,"1,234"\n1,"2,345,678"\n', 1234.0, ""),
        ("time\ta\n0\t1,234\n1\t2,345\n", 1234.0, "separators of thousands"),
        ("time\ta\tb\n0\t1,234\t0,5\n1\t2,345\t1,5\n", 1.234, ""),  # another column tells
        ("time;a\n0;1,234\n1;2,345\n", 1.234, "decimal marks ('1,234' is 1.234)"),
        ("time;a\n0;1,234\n1;12,3\n", 1.234, ""),
        ("time;a\n0;1 234\n1;12\n", 1234.0, ""),
        ("time,a\n0,1'234.5\n1,2'000'000\n", 1234.5, ""),
    ],
)
def test_a_comma_that_may_be_either_mark_is_read_in_one_way_and_a_note_says_which(tmp_path, text, first, said):
    found = csv(tmp_path, text)
    assert found.series[0].states[0, 0] == first
    about = [note for note in found.notes if "are taken as" in note]
    assert len(about) == bool(said)
    assert said in " ".join(about)


@pytest.mark.parametrize("cells", [["1,234", "2005"], ["1,234", "2,345.5", "1,2"], ["1,234", "x"]])
def test_numbers_in_no_single_notation_are_refused(tmp_path, cells):
    with pytest.raises(InputError, match="is not a number"):
        csv(tmp_path, "time,a\n" + "".join(f'{k},"{cell}"\n' for k, cell in enumerate(cells)))


def test_the_cell_that_is_no_number_beside_thousands_separators_is_named(tmp_path):
    rows = "".join(f'{k},"{cell}",{k % 3}\n' for k, cell in enumerate(["1,234.5", "1,300", "oops", "1,400.5"]))
    with pytest.raises(InputError, match=r"row 4, column 'a': 'oops' is not a number"):
        csv(tmp_path, "time,a,b\n" + rows)


def test_a_point_in_a_file_with_decimal_commas_is_a_separator_where_it_can_be_one(tmp_path):
    found = csv(tmp_path, "time;a;b;c\n0;1,5;1.234;0.123\n1;2,25;999;1.234\n2;3,75;2.000;2.345\n")
    np.testing.assert_array_equal(found.series[0].states[:, 1], [1234.0, 999.0, 2000.0])
    np.testing.assert_array_equal(found.series[0].states[:, 2], [0.123, 1.234, 2.345])


@pytest.mark.parametrize(
    "cells", [["$5.10", "€6.20", "$7.00"], [1.234, "1.234,5", "2.345,6"], ["0,234.5", "0,300.5", "0,400.5"]]
)
def test_cells_of_several_kinds_are_no_column_of_numbers(cells):
    with pytest.raises(InputError, match="is not a number"):
        as_dataset(pd.DataFrame({"time": range(3), "a": cells}))


def test_years_are_dates_also_if_the_newest_comes_first(tmp_path):
    found = csv(tmp_path, "year,a\n2003,1.5\n2002,2.5\n2001,0.5\n")
    assert (found.frequency, found.units["time"]) == ("YS", "years since 2001-01-01T00:00:00")
    assert found.series[0].states[:, 0].tolist() == [0.5, 2.5, 1.5]


@pytest.mark.parametrize("notation", ["%Y-%m-%d", "%m/%d/%Y", "%d/%m/%Y"])
def test_a_file_with_the_newest_row_first_is_turned_round(tmp_path, notation):
    days = pd.bdate_range("2024-01-01", periods=30).strftime(notation)
    text = "".join(f"{day},{value!r}\n" for day, value in zip(days, A.tolist(), strict=True))
    found = csv(tmp_path, "date,close\n" + "".join(reversed(text.splitlines(keepends=True))))
    np.testing.assert_array_equal(found.series[0].states[:, 0], A)
    assert any("the newest row comes first" in note for note in found.notes)
    right = csv(tmp_path, "date,close\n" + text)
    assert (found.dt, found.frequency, found.series[0].start) == (right.dt, right.frequency, right.series[0].start)
