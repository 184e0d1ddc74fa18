"""Steps of the calendar: months, quarters, years and business days, from every source to real dates."""

import h5py
import numpy as np
import pandas as pd
import pytest
import xarray as xr

from lln.data import as_dataset
from lln.data.interpret.calendar import dates_after, dates_of, find_frequency, step_numbers
from lln.data.read.formats import read, write

STATES = np.random.default_rng(0).standard_normal((36, 2)).cumsum(axis=0)
ALIASES = ["MS", "ME", "QS", "QE", "QS-FEB", "QE-NOV", "YS", "YE", "YS-APR", "YE-JUN", "2MS", "B"]


def frame(index):
    return pd.DataFrame(STATES[: len(index)], columns=["a", "b"]).set_axis(index)


@pytest.mark.parametrize("alias", ALIASES)
def test_a_frequency_is_found_and_its_dates_are_those_of_pandas(alias):
    dates = pd.date_range("2003-02-20", periods=36, freq=alias).to_numpy().astype("M8[ns]")
    found = find_frequency(dates)
    assert found == alias
    np.testing.assert_array_equal(step_numbers(dates, dates[0], found), np.arange(36))
    later = pd.date_range(dates[0], periods=50, freq=found).to_numpy()
    np.testing.assert_array_equal(dates_after(dates[0], np.arange(50), found), later)


@pytest.mark.parametrize("alias", ["D", "W", "h", "30D", "90D", "365D", "10min"])
def test_steps_of_equal_length_are_no_frequency(alias):
    dates = pd.date_range("2003-02-20", periods=36, freq=alias).to_numpy().astype("M8[ns]")
    assert find_frequency(dates) is None


def test_one_working_week_of_days_is_days():
    assert find_frequency(pd.date_range("2024-01-01", periods=5).to_numpy()) is None


def test_a_few_months_in_many_years_are_no_frequency():
    dates = np.array(["2000-01-01", "2000-02-01", "2003-01-01", "2006-01-01"], dtype="M8[ns]")
    assert find_frequency(dates) is None


@pytest.mark.parametrize("alias", ALIASES)
def test_a_table_with_such_an_index_has_no_gaps(alias):
    index = pd.date_range("2003-02-20", periods=36, freq=alias)
    data = as_dataset(frame(index))
    assert (data.frequency, data.dt, data.lengths, data.transitions()) == (alias, 1.0, (36,), 35)
    np.testing.assert_array_equal(dates_of(data.times(), data.units["time"], data.frequency), index)
    hole = as_dataset(frame(index).drop(index[[7, 8]]))
    assert (hole.frequency, hole.lengths) == (alias, (36,))
    assert "2 missing times filled in as gaps" in hole.notes[-1]


@pytest.mark.parametrize("suffix", [".csv", ".nc", ".h5", ".npz", ".zarr"])
@pytest.mark.parametrize("alias", ["ME", "QS", "B"])
def test_files_keep_the_frequency_and_the_dates(tmp_path, suffix, alias):
    index = pd.date_range("2003-02-20", periods=36, freq=alias)
    write(tmp_path / f"a{suffix}", as_dataset(frame(index)))
    found = read(tmp_path / f"a{suffix}")
    assert (found.frequency, found.dt, found.names) == (alias, 1.0, ("a", "b"))
    np.testing.assert_array_equal(dates_of(found.times(), found.units["time"], found.frequency), index)
    np.testing.assert_array_equal(found.series[0].states, STATES)


@pytest.mark.parametrize("day", [0.0, 14.0, None])
def test_months_in_netcdf_with_cf_units(tmp_path, day):
    starts = np.arange("2000-01", "2003-01", dtype="M8[M]").astype("M8[D]")
    lengths = (np.arange("2000-02", "2003-02", dtype="M8[M]").astype("M8[D]") - starts).astype(float)
    days = (starts - np.datetime64("1990-01-01")).astype(float) + (lengths / 2 if day is None else day)
    data = xr.Dataset({"u": (("time", "k"), STATES)}, {"time": ("time", days, {"units": "days since 1990-01-01"})})
    data.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    found = read(tmp_path / "a.nc")
    assert (found.frequency, found.dt, found.lengths) == ("MS", 1.0, (36,))
    dates = dates_of(found.times(), found.units["time"], found.frequency)
    np.testing.assert_array_equal(dates.astype("M8[M]"), starts.astype("M8[M]"))


@pytest.mark.parametrize(("name", "unit"), [("standard", "days since 1990-01-01"), ("360_day", "days")])
def test_even_times_in_netcdf_stay_in_the_units_of_the_file(tmp_path, name, unit):
    times = ("time", np.arange(36) * 0.25, {"units": "days since 1990-01-01", "calendar": name})
    xr.Dataset({"u": (("time", "k"), STATES)}, {"time": times}).to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    found = read(tmp_path / "a.nc")
    assert (found.dt, found.frequency, found.units["time"]) == (0.25, None, unit)
    # Days of another calendar, counted in ours, would be wrong dates: they stay numbers, and a note says so.
    assert [note for note in found.notes if "not dates" in note] == [
        f"{tmp_path / 'a.nc'}: times of the calendar '360_day' stay numbers of days since 1990-01-01, not dates"
    ] * (name == "360_day")


@pytest.mark.parametrize("season", ["2024-03-30", "2024-10-26"])
def test_time_zones_are_converted_to_utc(season):
    index = pd.date_range(season, periods=36, freq="h", tz="Europe/Berlin")
    for table in (frame(index), frame(index).reset_index(names="time")):
        data = as_dataset(table)
        assert (data.dt, data.lengths, data.transitions()) == (3600.0, (36,), 35)
        assert any("Europe/Berlin are converted to UTC" in note for note in data.notes)
        assert data.time_zone == "Europe/Berlin"
        first = dates_of(data.times(), data.units["time"])[0]
        assert first == index[0].tz_convert("UTC").tz_localize(None).to_datetime64()


@pytest.mark.parametrize(("zone", "said"), [("Europe/Berlin", 1), ("+05:30", 1), ("UTC", 0), (None, 0)])
def test_offsets_in_text_are_said_once(tmp_path, zone, said):
    index = pd.date_range("2024-03-30", periods=36, freq="h", tz=zone)
    frame(index).reset_index(names="time").to_csv(tmp_path / "a.csv", index=False)
    data = read(tmp_path / "a.csv")
    notes = [note for note in data.notes if note.endswith("are converted to UTC")]
    assert len(notes) == said
    if said:
        assert f"the times of 'time', as in '{index[0]}', are converted to UTC" in notes[0]
    first = dates_of(data.times(), data.units["time"])[0]
    assert first == (index[0].tz_convert("UTC").tz_localize(None) if zone else index[0]).to_datetime64()


def test_several_files_count_from_the_first(tmp_path):
    index = pd.date_range("2003-01-01", periods=36, freq="MS")
    for name, part in (("a", slice(0, 12)), ("b", slice(20, 36))):
        write(tmp_path / f"{name}.csv", as_dataset(frame(index).iloc[part]))
    both = as_dataset([tmp_path / "a.csv", tmp_path / "b.csv"])
    assert [one.start for one in both.series] == [0.0, 20.0]


def test_files_with_even_times_count_from_the_first_too(tmp_path):
    index = pd.date_range("2003-01-01", periods=36, freq="6h")
    for name, part in (("a", slice(0, 12)), ("b", slice(20, 36))):
        write(tmp_path / f"{name}.csv", as_dataset(frame(index).iloc[part]))
    both = as_dataset([tmp_path / "a.csv", tmp_path / "b.csv"])
    assert [one.start / both.dt for one in both.series] == pytest.approx([0.0, 20.0])


def test_trajectories_of_one_table_count_from_one_date():
    index = pd.date_range("2003-01-01", periods=36, freq="MS")
    data = as_dataset(frame(index).assign(run=np.repeat([0, 1], 18)))
    assert [one.start for one in data.series] == [0.0, 18.0]


def test_a_frequency_in_a_hostile_file_is_not_believed(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["states"] = STATES
        file.attrs["lln"] = '{"format": 1, "dt": 1.0, "frequency": "__import__"}'
    assert read(tmp_path / "a.h5").frequency is None


def test_days_with_offsets_in_text_keep_the_dates_of_their_zone(tmp_path):
    days = pd.date_range("2024-03-25", periods=20, tz="Europe/Berlin")
    rows = "".join(f"{day.isoformat()},{k * k}\n" for k, day in enumerate(days))
    (tmp_path / "days.csv").write_text("date,x\n" + rows)
    found = read(tmp_path / "days.csv")
    assert (found.dt, found.units["time"]) == (86400.0, "seconds since 2024-03-25T00:00:00")


def test_a_forecast_from_days_in_a_zone_starts_at_their_dates():
    import lln

    days = pd.date_range("2024-01-01", periods=60, tz="Europe/Berlin")
    table = pd.DataFrame({"x": np.sin(np.arange(60.0))}, index=days)
    model = lln.LensForecaster(parts="linear", history=2).fit(table)
    later = pd.DataFrame({"x": [0.1, 0.2]}, index=pd.date_range("2024-03-29", periods=2, tz="Europe/Berlin"))
    found = model.rollout(later, steps=3).predicted
    assert found.index.equals(pd.date_range("2024-03-31", periods=3, tz="Europe/Berlin", name="time"))


@pytest.mark.parametrize(
    ("frequency", "first"), [("D", "2024-01-01"), ("MS", "2024-01-01"), ("h", "2024-01-01T00:00:00")]
)
def test_days_are_written_without_a_time(tmp_path, frequency, first):
    dates = pd.date_range("2024-01-01", periods=30, freq=frequency)
    write(tmp_path / "a.csv", as_dataset(pd.DataFrame({"x": np.arange(30.0) % 7}, index=dates)))
    assert (tmp_path / "a.csv").read_text().splitlines()[1] == f"{first},0.0"
