"""Models of calendar steps: forecasts carry the dates that follow the data."""

from datetime import timedelta, timezone

import numpy as np
import pandas as pd
import pytest

import lln
from lln.core.errors import InputError
from lln.data import as_dataset
from lln.data.read.formats import write
from lln.forecaster.file import load
from lln.forecaster.layout import Layout

QUICK = {"members": 1, "epochs": 1, "history": 1, "width": 8, "depth": 2, "basis": 6}


def table(alias, rows=60):
    index = pd.date_range("2015-01-01", periods=rows, freq=alias)
    phase = np.arange(rows) * np.pi / 6
    return pd.DataFrame({"a": np.sin(phase), "b": np.cos(phase)}, index=index)


@pytest.fixture(scope="module", params=["MS", "QE", "B"])
def fitted(request):
    return table(request.param), lln.LensForecaster(**QUICK).fit(table(request.param))


def test_forecasts_continue_on_the_calendar(fitted, tmp_path):
    data, model = fitted
    expected = pd.date_range(data.index[-1], periods=6, freq=data.index.freq)
    np.testing.assert_array_equal(model.rollout(steps=5).to_pandas().index, expected)
    from_table = model.rollout(data.iloc[-1:], steps=5).states
    np.testing.assert_array_equal(from_table.index, expected)
    model.save(tmp_path / "m.lln")
    again = lln.load(tmp_path / "m.lln")
    assert again.layout_.frequency == model.layout_.frequency == as_dataset(data).frequency
    np.testing.assert_array_equal(again.rollout(steps=5).to_pandas().index, expected)


def test_data_of_another_calendar_are_refused(fitted):
    data, model = fitted
    with pytest.raises(InputError, match=r"its dates are .*, but this model was fitted to"):
        model.evaluate(table("YE" if data.index.freqstr != "YE" else "MS"))
    assert model.layout_.read(data.iloc[:1]).frequency == model.layout_.frequency


def test_known_inputs_from_a_file_of_inputs_alone(tmp_path):
    data = table("MS")
    model = lln.LensForecaster(**QUICK).fit(data, inputs=["b"])
    future = pd.date_range(data.index[-1], periods=8, freq="MS")
    known = pd.DataFrame({"b": np.linspace(0, 1, 8), "remark": "planned"}, index=future)
    known.to_csv(tmp_path / "known.csv", index_label="date")
    found = model.rollout(steps=6, inputs=tmp_path / "known.csv")
    np.testing.assert_array_equal(found.array, model.rollout(steps=6, inputs=known[["b"]].iloc[:6]).array)
    with pytest.raises(InputError, match="its inputs last for 8 steps, but 9 were asked for"):
        model.rollout(steps=9, inputs=str(tmp_path / "known.csv"))
    write(tmp_path / "known.nc", as_dataset(known[["b"]]))
    np.testing.assert_array_equal(model.rollout(steps=6, inputs=tmp_path / "known.nc").array, found.array)


def zoned(zone, periods=60):
    """Hours over the end of summer time, in which one hour comes twice."""
    dates = pd.date_range("2024-10-25", periods=periods, freq="h", tz=zone, name="time")
    return pd.DataFrame({"load": np.sin(2 * np.pi * np.arange(periods) / 24) + 3}, index=dates)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "UTC", "UTC+02:00"])
def test_forecasts_of_a_table_in_a_time_zone_come_back_in_it(tmp_path, zone):
    data = zoned(timezone(timedelta(hours=2)) if "+" in zone else zone)
    model = lln.LensForecaster(parts="linear", history=1).fit(data)
    after = pd.date_range(data.index[-1], periods=25, freq="h").as_unit("ns")
    run = model.rollout(steps=24, level=0.9)
    assert run.times.dtype.kind == "f"
    assert run.dates[0] == data.index[-1].tz_convert("UTC").tz_localize(None)  # plots and xarray stay in UTC
    assert run.to_pandas().index.equals(after)
    model.save(tmp_path / "m.lln")
    loaded = load(tmp_path / "m.lln")
    assert loaded.layout_.time_zone == zone
    assert " UTC" in repr(run)
    assert run.plot().axes[-1].get_xlabel() == "time (UTC)"
    assert loaded.rollout(steps=24).to_pandas().index.equals(after)
    states = loaded.rollout(data.iloc[-1:], steps=24).states
    assert states.index.equals(after)
    many = loaded.rollout(data.iloc[-3:], steps=2).to_pandas()
    assert list(many.loc[2].index) == list(after[:3])


def test_a_start_without_a_time_zone_is_answered_without_one():
    data = zoned("Europe/Berlin")
    model = lln.LensForecaster(parts="linear", history=1).fit(data)
    start = data.iloc[-1:].tz_convert("UTC").tz_localize(None)
    found = model.rollout(start, steps=3)
    assert found.states.index.tz is found.to_pandas().index.tz is None
    assert found.states.index[0] == start.index[-1]


@pytest.mark.parametrize("zone", ["", "nowhere", "../../etc/passwd", "/etc/passwd", "Europe", "UTC+99:00", "a" * 5000])
def test_a_stored_time_zone_that_is_none_is_left_out(zone):
    record = Layout.of(as_dataset(zoned("Europe/Berlin"))).record()
    assert Layout.from_record(record).time_zone == "Europe/Berlin"
    assert Layout.from_record({**record, "time_zone": zone}).time_zone == ""
    del record["time_zone"]  # as older files are
    assert Layout.from_record(record).time_zone == ""


@pytest.mark.parametrize("alias", ["D", "MS", "QS"])
@pytest.mark.parametrize("rows", [slice(-3, None), slice(None), slice(None, None, -1)])
def test_numbers_that_are_dates_are_so_in_a_table_to_start_from(alias, rows):
    dates = pd.date_range("2015-01-01", periods=60, freq=alias)
    written = dates.strftime("%Y%m%d").astype(int) if alias == "D" else np.round(dates.year + (dates.month - 1) / 12, 3)
    given = pd.DataFrame({"date": written, "a": np.sin(np.arange(60) / 3)})
    model = lln.LensForecaster(parts="linear", history=2).fit(given)
    ahead = model.rollout(given[rows], steps=2).to_pandas()
    pd.testing.assert_frame_equal(ahead, model.rollout(steps=2).to_pandas())


@pytest.mark.parametrize("form", [None, "%Y-%m-%d", "%d.%m.%Y", "%Y%m%d"])
@pytest.mark.parametrize("more", [0, 3])
def test_dates_to_start_from_are_found_under_any_name_of_a_column(form, more):
    days = pd.date_range("2023-01-01", periods=120, freq="D")
    cells = days if form is None else days.strftime(form)
    if form == "%Y%m%d":
        cells = cells.astype(int)
    table = pd.DataFrame({"when" if cells.dtype.kind != "i" else "day": cells, "level": np.sin(0.2 * np.arange(120))})
    model = lln.LensForecaster(parts="linear", history=2).fit(table)
    found = model.rollout(table.iloc[-2 - more :], steps=2).to_pandas()
    assert list(found.index) == [*pd.date_range("2023-04-30", periods=3, freq="D")]
