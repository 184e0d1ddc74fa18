"""Notations of files and cells as people and programs write them: dates, encodings, missing cells, suffixes."""

import gzip

import numpy as np
import pandas as pd
import pytest

from lln.core.errors import InputError
from lln.data import as_dataset
from lln.data.read.formats import read, write

ROWS = 60
VALUES = np.round(np.random.default_rng(0).normal(size=ROWS), 3)
HOURS = pd.date_range("2020-01-01", periods=ROWS, freq="h")
LATE = HOURS + pd.Timedelta("19D")
DAYS = pd.date_range("2020-01-01", periods=ROWS)
MONTHS = pd.date_range("2018-01-01", periods=ROWS, freq="MS")
MONDAYS = pd.date_range("2020-01-27", periods=ROWS, freq="7D")
WEEKS = [day.isocalendar() for day in MONDAYS]


def columns(table, path):
    """What is read of the columns in a CSV file."""
    pd.DataFrame(table).assign(x=VALUES).to_csv(path, index=False)
    return read(path)


@pytest.mark.parametrize(
    ("cells", "dates"),
    [
        ({"week": [f"{year}-W{week:02d}" for year, week, _ in WEEKS]}, MONDAYS),
        ({"yearweek": [f"{year}W{week:02d}" for year, week, _ in WEEKS]}, MONDAYS),
        ({"year": [one[0] for one in WEEKS], "week": [one[1] for one in WEEKS]}, MONDAYS),
        ({"period": [f"Q{1 + k % 4} {2001 + k // 4}" for k in range(ROWS)]}, "2001-01-01"),
        ({"when": DAYS.strftime("%d-%b-%y")}, DAYS),
        ({"when": [f"{one.month}/{one.day}/{one.year} {one.hour}:00" for one in HOURS]}, HOURS),
        ({"when": [f"{one.day}/{one.month}/{one.year}" for one in DAYS]}, DAYS),
        ({"date": HOURS.strftime("%Y-%m-%d"), "time": HOURS.strftime("%H:%M")}, HOURS),
        ({"Date": HOURS.strftime("%d.%m.%Y"), "Time": HOURS.strftime("%I:%M %p")}, HOURS),
        ({"date": LATE.strftime("%m/%d/%Y"), "hour": LATE.hour}, LATE),
        ({"date": DAYS.strftime("%Y%m%d").astype(int)}, DAYS),
        ({"month": MONTHS.strftime("%Y%m").astype(int)}, MONTHS),
        ({"timestamp": HOURS.astype("M8[s]").astype("int64")}, HOURS),
        ({"time": HOURS.astype("M8[ms]").astype("int64")}, HOURS),
    ],
)
def test_dates_in_the_notations_of_people_and_programs(tmp_path, cells, dates):
    found = columns(cells, tmp_path / "a.csv")
    first, second = pd.to_datetime(dates)[:2] if len(dates) == ROWS else pd.to_datetime([dates, "2001-04-01"])
    assert found.names == ("x",)
    assert found.units["time"].endswith(f" since {first.isoformat()}")
    assert found.lengths == (ROWS,)
    if found.frequency is None:
        assert found.dt == (second - first).total_seconds()


def test_an_hour_that_is_there_twice_may_be_of_clocks_that_were_set_back(tmp_path):
    hours = pd.date_range("2024-10-20", periods=200, freq="h", tz="Europe/Berlin")
    table = pd.DataFrame({"time": hours.strftime("%Y-%m-%d %H:%M"), "x": np.arange(200.0)})
    table.to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(
        InputError, match=r"if clocks were set back, write the offset too, as in 2024-10-27T02:00:00\+01"
    ):
        read(tmp_path / "a.csv")
    day = pd.DataFrame({"time": ["2024-10-23 02:00"] * 2 + ["2024-10-23 03:00"], "x": [1.0, 2.0, 3.0]})
    with pytest.raises(InputError, match="; drop one of them"):
        as_dataset(day)


@pytest.mark.parametrize("mark", ["--", "N/A", "n.d.", "missing", ".", "...", "*", "#VALUE!", "#DIV/0!", "Null", "-"])
def test_cells_that_stand_for_missing_are_gaps(tmp_path, mark):
    cells = [mark if k in (5, 6, 30) else str(value) for k, value in enumerate(VALUES)]
    pd.DataFrame({"date": DAYS, "a": cells}).to_csv(tmp_path / "a.csv", index=False)
    found = read(tmp_path / "a.csv").series[0].states[:, 0]
    np.testing.assert_array_equal(np.flatnonzero(np.isnan(found)), [5, 6, 30])


def test_a_file_of_windows_is_read_with_a_note(tmp_path):
    text = "time (s),T (°C),Preis €\n" + "".join(f"{k / 2},{value},{-value}\n" for k, value in enumerate(VALUES))
    (tmp_path / "a.csv").write_bytes(text.encode("cp1252"))
    found = read(tmp_path / "a.csv")
    assert (found.names, found.dt) == (("T (°C)", "Preis €"), 0.5)
    assert any("not UTF-8, so it is read as Windows-1252" in note for note in found.notes)
    for other in (b"\x81", b"\x07"):
        (tmp_path / "b.csv").write_bytes(text.encode("cp1252") + other)
        with pytest.raises(InputError, match=r"not UTF-8 text \(byte 12\); save it as UTF-8"):
            read(tmp_path / "b.csv")


@pytest.mark.parametrize("suffix", [".tsv", ".txt", ".dat"])
def test_text_under_other_suffixes(tmp_path, suffix):
    for mark in ",\t ":
        (tmp_path / f"a{suffix}").write_text(
            f"time{mark}a{mark}b\n" + "".join(f"{k}{mark}{value}{mark}2.5\n" for k, value in enumerate(VALUES))
        )
        np.testing.assert_array_equal(read(tmp_path / f"a{suffix}").series[0].states[:, 0], VALUES)
    write(tmp_path / f"b{suffix}", read(tmp_path / f"a{suffix}"))
    assert (tmp_path / f"b{suffix}").read_text().startswith("time\ta\tb\n")


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("a.xlsx", "save the sheet as CSV, or give pandas.read_excel('a.xlsx') in Python"),
        ("a.parquet", "save it as CSV, or give the table that pandas reads from it in Python"),
        ("a.mat", "give an array of scipy.io.loadmat('a.mat') in Python"),
        ("a.csv.gz", "unpack it first"),
        ("a.pkl", "a pickle can run code"),
        ("a.rds", "with write.csv"),
    ],
)
def test_files_of_other_formats_are_refused_with_what_to_do(tmp_path, name, remedy):
    with pytest.raises(InputError, match="files are not read; ") as caught:
        read(tmp_path / name)
    assert remedy in str(caught.value)


def test_a_compressed_file_under_the_name_of_a_table(tmp_path):
    (tmp_path / "a.csv").write_bytes(gzip.compress(b"time,a\n0,1\n1,2\n"))
    with pytest.raises(InputError, match="compressed by gzip; unpack it first"):
        read(tmp_path / "a.csv")


BODY = "".join(f"2020-01-{k + 1:02d},{value}\n" for k, value in enumerate(VALUES[:30]))


@pytest.mark.parametrize(
    "above", ["Station report\n", "Station report\nProduced 2020\n\n", "# a comment\nReport\n", '"Data Source"\n\n\n']
)
def test_lines_above_the_header_are_left_out(tmp_path, above):
    (tmp_path / "two.csv").write_text(above + "date,a\n" + BODY)
    assert read(tmp_path / "two.csv").names == ("a",)
    columns = above + "date,a,b\n" + BODY.replace("\n", ",1.5\n")
    (tmp_path / "a.csv").write_text(columns)
    found = read(tmp_path / "a.csv")
    assert (found.names, found.lengths) == (("a", "b"), (30,))
    line = 1 + above.count("\n")
    assert any(f"the lines above line {line}, the header, are left out" in note for note in found.notes)
    (tmp_path / "b.csv").write_text(columns.replace("\n2020-01-07,", "\n2020-01-07,oops"))
    with pytest.raises(InputError, match=rf"row {line + 7}, column 'a': 'oops"):
        read(tmp_path / "b.csv")


def test_names_below_other_lines_may_begin_with_a_digit(tmp_path):
    (tmp_path / "a.csv").write_text("Report\n\ndate,2m_temperature,10u\n" + BODY.replace("\n", ",1.5\n"))
    assert read(tmp_path / "a.csv").names == ("2m_temperature", "10u")


@pytest.mark.parametrize("mark", [",", ";", "\t"])
@pytest.mark.parametrize("above", ["Report,,\n", "Report,,\n,,\n", "Station:,4,\nHeight:,50,\n"])
def test_lines_that_a_spreadsheet_filled_up_with_empty_cells(tmp_path, above, mark):
    (tmp_path / "a.csv").write_text((above + "date,a,b\n" + BODY.replace("\n", ",1.5\n")).replace(",", mark))
    found = read(tmp_path / "a.csv")
    assert (found.names, found.lengths) == (("a", "b"), (30,))
    assert any(f"the lines above line {1 + above.count(chr(10))}, the header" in note for note in found.notes)


def test_a_header_with_an_empty_name_is_still_the_header(tmp_path):
    (tmp_path / "a.csv").write_text("date,a,\n" + BODY.replace("\n", ",1.5\n"))
    assert read(tmp_path / "a.csv").names == ("a", "Unnamed: 2")


def test_a_line_of_units_below_the_header_is_left_out(tmp_path):
    (tmp_path / "a.csv").write_text("date,a\nUTC,W/m2\n" + BODY)
    found = read(tmp_path / "a.csv")
    np.testing.assert_array_equal(found.series[0].states[:, 0], VALUES[:30])
    assert any("line 2, below the header, holds no number where the others do" in note for note in found.notes)
    for first in ("2019-12-31,\n", "2019-12-31,-\n", "2019-12-31,nan\n"):
        (tmp_path / "a.csv").write_text("date,a\n" + first + BODY)
        assert read(tmp_path / "a.csv").lengths == (31,)


@pytest.mark.parametrize("first", ["oops", "<5", "inf"])
def test_a_first_row_of_data_is_no_line_of_units(tmp_path, first):
    (tmp_path / "a.csv").write_text(f"date,a\n2019-12-31,{first}\n" + BODY)
    with pytest.raises(InputError, match="row 2, column 'a'"):
        read(tmp_path / "a.csv")
    rows = "".join(f"{day:%Y-%m-%d},{k}\n" for k, day in enumerate(DAYS))
    (tmp_path / "a.csv").write_text('date,a\n2019-12-31,"1,234"\n' + rows)
    assert read(tmp_path / "a.csv").series[0].states[0, 0] == 1234.0


@pytest.mark.parametrize(
    ("head", "row"),
    [
        ("date;a", lambda k: f"{DAYS[k]:%d.%m.%Y};{k},50 €"),  # three cells between commas
        ("date,a", lambda k: f"{DAYS[k]:%Y-%m-%d},{k or ''},"),
        ("a,b", lambda k: f"r{k},{k},{-k}" if k else "r0,NA,NA"),
        ("date,a,said", lambda k: f"{DAYS[k]:%Y-%m-%d},{k},one; two"),
    ],
)
def test_rows_of_data_are_no_header_below_a_preamble(tmp_path, head, row):
    (tmp_path / "a.csv").write_text("\n".join([head, *map(row, range(ROWS))]) + "\n")
    found = read(tmp_path / "a.csv")
    assert (found.names[0], found.lengths) == ("a", (ROWS,))


def test_labels_that_stand_for_missing_in_other_columns(tmp_path):
    states = pd.concat([pd.DataFrame({"date": DAYS, "state": one, "x": VALUES}) for one in ("CA", "ND", "NA")])
    states.to_csv(tmp_path / "a.csv", index=False)
    assert read(tmp_path / "a.csv").labels == ("state CA", "state ND", "state NA")
    (tmp_path / "a.csv").write_text((tmp_path / "a.csv").read_text().replace(",CA,", ",,"))
    with pytest.raises(InputError, match="column 'state' has empty cells; every row needs a trajectory"):
        read(tmp_path / "a.csv", trajectory="state")


def test_dates_of_several_series_may_have_the_day_first(tmp_path):
    months = [f"01/{one.month:02d}/{one.year}" for one in MONTHS]
    table = pd.concat([pd.DataFrame({"date": months, "store": one, "x": VALUES}) for one in ("a", "b")])
    table.to_csv(tmp_path / "a.csv", index=False)
    found = read(tmp_path / "a.csv")
    assert (found.lengths, found.frequency) == ((ROWS, ROWS), "MS")
    with pytest.raises(InputError, match="may be day/month or month/day"):
        columns({"date": ["01/02/2024"] * ROWS, "time": HOURS.strftime("%H:%M")}, tmp_path / "b.csv")


def test_whole_numbers_are_hours_only_where_days_repeat_and_their_name_says_so(tmp_path):
    days = DAYS.strftime("%Y-%m-%d")
    found = columns({"date": days, "hour": 7 * np.arange(ROWS) % 24}, tmp_path / "a.csv")
    assert (found.names, found.dt) == (("hour", "x"), 86400.0)
    with pytest.raises(InputError, match="columns 'date' and 'time' could both be time"):
        columns({"date": days[0], "time": np.arange(ROWS) % 24}, tmp_path / "b.csv")


def test_a_week_beside_year_month_and_day_is_a_state(tmp_path):
    days = {part: getattr(DAYS, part) for part in ("year", "month", "day")}
    found = columns({**days, "week": DAYS.isocalendar().week.to_numpy()}, tmp_path / "a.csv")
    assert (found.names, found.dt) == (("week", "x"), 86400.0)


def test_a_header_that_is_too_short_is_no_preamble(tmp_path):
    (tmp_path / "a.csv").write_text("a\n" + "1,2,3\n" * 9)
    with pytest.raises(InputError, match="1 name in the header but 3 cells"):
        read(tmp_path / "a.csv")


def test_a_single_column_has_no_preamble(tmp_path):
    (tmp_path / "a.csv").write_text("a\n" + "".join(f"{value}\n" for value in VALUES))
    assert read(tmp_path / "a.csv").lengths == (ROWS,)


def test_times_of_one_day_are_seconds(tmp_path):
    clock = pd.date_range("2020-01-01 09:30:00", periods=ROWS, freq="30s").strftime("%H:%M:%S")
    found = columns({"time": clock}, tmp_path / "a.csv")
    assert (found.names, found.dt, found.units["time"]) == (("x",), 30.0, "s")
    assert any("column 'time' is taken as times of one day, in seconds" in note for note in found.notes)


def test_tables_of_other_libraries_are_read_by_their_own_way_to_pandas():
    class Table:
        def to_pandas(self):
            return pd.DataFrame({"date": DAYS, "x": VALUES})

    class Bare:
        def to_pandas(self):
            raise ModuleNotFoundError("pyarrow is required")

    assert (as_dataset(Table()).names, as_dataset(Table()).dt) == (("x",), 86400.0)
    with pytest.raises(InputError, match=r"the Bare cannot be converted to pandas \(pyarrow is required"):
        as_dataset(Bare())


def test_columns_of_year_month_day_hour_and_minute_are_one_time():
    times = pd.date_range("2013-03-01", periods=120, freq="30min")
    table = pd.DataFrame({part: getattr(times, part) for part in ("year", "month", "day", "hour", "minute")})
    table["pm"] = np.arange(120.0) ** 2
    found = as_dataset(table)
    assert (found.names, found.dt) == (("pm",), 1800.0)
    found = as_dataset(table[table["minute"] == 0].drop(columns="minute"))
    assert (found.names, found.dt) == (("pm",), 3600.0)
    # An hour that was measured once a day is a state.
    daily = table.iloc[::48]
    assert "hour" in as_dataset(pd.concat([daily.assign(day=daily["day"] + 3 * k) for k in range(4)])).names


@pytest.mark.parametrize("name", ["rownames", "No", "index"])
def test_a_column_that_counts_the_rows_beside_a_time_is_left_out(name, tmp_path):
    found = columns({name: np.arange(1, ROWS + 1), "date": DAYS.strftime("%Y-%m-%d")}, tmp_path / "a.csv")
    assert (found.names, found.dt) == (("x",), 86400.0)
    assert any(f"column '{name}' counts the rows, so it is left out" in note for note in found.notes)
    found = columns({name: 2 * np.arange(ROWS), "date": DAYS.strftime("%Y-%m-%d")}, tmp_path / "b.csv")
    assert found.names == (name, "x")
    assert read(tmp_path / "a.csv", states=name).names == (name,)


@pytest.mark.parametrize("empty", [0, 5])
def test_a_column_with_an_empty_cell_does_not_count_the_rows(empty):
    counts = pd.array([None if row == empty else row + 1 for row in range(ROWS)], dtype="Int64")
    assert as_dataset(pd.DataFrame({"id": counts, "date": DAYS, "x": VALUES})).names == ("id", "x")


@pytest.mark.filterwarnings("error")
def test_parts_of_dates_with_an_empty_cell_are_no_time():
    table = pd.DataFrame({"year": MONTHS.year, "month": MONTHS.month, "x": VALUES}).astype({"month": "Int64"})
    assert as_dataset(table).names == ("x",)
    table.loc[3, "month"] = pd.NA
    assert as_dataset(table).names == ("year", "month", "x")


@pytest.mark.parametrize(("digits", "name"), [(9, "time"), (3, "Time"), (2, "year")])
@pytest.mark.parametrize(("months", "frequency"), [(1, "MS"), (3, "QS")])
def test_years_with_fractions_are_months_and_quarters(digits, name, months, frequency, tmp_path):
    years = np.round(1949 + months * np.arange(ROWS) / 12, digits)
    found = columns({name: years}, tmp_path / "a.csv")
    assert found.names == ("x",)
    assert found.frequency.startswith(frequency)
    assert any("since 1949-01-01" in unit for unit in found.units.values())
    assert any(f"column '{name}' holds" in note for note in found.notes)


@pytest.mark.parametrize("times", [0.25 * np.arange(ROWS), 1800 + 0.1 * np.arange(ROWS), 2000.0 + np.arange(ROWS)])
def test_other_numbers_are_no_parts_of_years(times, tmp_path):
    assert columns({"time": times}, tmp_path / "a.csv").frequency is None
