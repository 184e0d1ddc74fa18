"""From a file as people have it to a plotted forecast with intervals and real dates, in three lines."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import lln
from lln.data.series import Series

PARTS = {"parts": ["linear"]}  # what a short series gets in any case; it keeps the tests fast


def values(dates):
    """A trend and a yearly season."""
    years = (dates - dates[0]).days.to_numpy() / 365.25
    rng = np.random.default_rng(0)
    return 100 + 5 * years + 10 * np.sin(2 * np.pi * years) + 0.2 * rng.standard_normal(len(dates))


def monthly(folder):
    dates = pd.date_range("2010-01-01", periods=120, freq="MS")
    pd.DataFrame({"Month": dates.strftime("%Y-%m"), "region": "north", "sales": values(dates)}).to_csv(
        folder / "sales.csv", index=False
    )
    return folder / "sales.csv", ["2020-01-01", "2020-02-01", "2020-03-01"], "sales"


def business_days(folder):
    dates = pd.bdate_range("2022-01-03", periods=260)
    pd.DataFrame({"Date": dates.strftime("%d/%m/%Y"), "Close": values(dates)}).to_csv(
        folder / "prices.csv", index=False
    )
    after = pd.bdate_range(dates[-1], periods=4)[1:]
    return folder / "prices.csv", [str(day.date()) for day in after], "Close"


def written_by_r(folder):
    """As `write.csv` of R writes it: quoted names, a column of row names, NA for what is missing."""
    dates = pd.date_range("2019-12-31", periods=80, freq="ME")
    rows = [f'"{k + 1}","{day:%Y-%m-%d}",{value:.6f}' for k, (day, value) in enumerate(zip(dates, values(dates)))]  # noqa: B905
    rows[3] = rows[3].rsplit(",", 1)[0] + ",NA"
    (folder / "from_r.csv").write_text("\n".join(['"","date","price"', *rows]) + "\n")
    return folder / "from_r.csv", ["2026-08-31", "2026-09-30", "2026-10-31"], "price"


def netcdf(folder):
    """CF attributes: packed values, a fill value, days since a date."""
    dates = pd.date_range("2001-01-01", periods=200, freq="D")
    data = xr.Dataset(
        {"t2m": ("time", 280 + values(dates) / 10, {"units": "K", "long_name": "temperature"})}, {"time": dates}
    )
    packed = {"t2m": {"dtype": "int16", "scale_factor": 0.001, "add_offset": 290.0, "_FillValue": -32768}}
    packed["time"] = {"units": "days since 2000-01-01", "calendar": "standard", "dtype": "float64"}
    data.to_netcdf(folder / "t2m.nc", engine="h5netcdf", encoding=packed)
    return folder / "t2m.nc", ["2001-07-20", "2001-07-21", "2001-07-22"], "t2m"


def time_zone(_):
    dates = pd.date_range("2024-03-30", periods=150, freq="h", tz="Europe/Berlin")  # over the change of the clocks
    table = pd.DataFrame({"load": np.sin(2 * np.pi * np.arange(150) / 24) + 3}, index=dates)
    after = [str(dates[-1] + pd.Timedelta(hours=k)) for k in (1, 2, 3)]
    return table, after, "load"


def days_in_a_time_zone(_):
    """Days from midnight to midnight in New York, of which some have 23 or 25 hours."""
    dates = pd.date_range("2023-11-20", periods=150, freq="D", tz="America/New_York")
    table = pd.DataFrame({"load": np.sin(2 * np.pi * np.arange(150) / 7) + 3}, index=dates)
    return table, [str(dates[-1] + pd.DateOffset(days=k)) for k in (1, 2, 3)], "load"


def months_in_a_time_zone(_):
    dates = pd.date_range("2014-01-01", periods=110, freq="MS", tz="Europe/Berlin")
    table = pd.DataFrame({"load": values(dates)}, index=dates)
    return table, [f"2023-{month:02d}-01 00:00:00+0{1 + (month > 3)}:00" for month in (3, 4, 5)], "load"


@pytest.mark.parametrize(
    "make", [monthly, business_days, written_by_r, netcdf, time_zone, days_in_a_time_zone, months_in_a_time_zone]
)
def test_three_lines_from_a_file_to_a_plotted_forecast_with_intervals(make, tmp_path):
    data, dates, name = make(tmp_path)

    model = lln.LensForecaster(**PARTS).fit(data)
    forecast = model.rollout(steps=3, level=0.9)
    figure = forecast.plot()

    table = forecast.to_pandas()
    assert list(table.columns) == [name, f"{name} lower", f"{name} upper"]
    assert [str(day) for day in table.index[1:]] == [str(pd.Timestamp(day)) for day in dates]
    assert (table[f"{name} lower"] < table[name])[1:].all()
    assert (table[name] < table[f"{name} upper"])[1:].all()
    axis = figure.axes[0]
    assert name in axis.get_ylabel() or name in axis.get_title(loc="left")
    assert [shade.get_label() for shade in axis.collections] == ["90 % interval"]
    assert isinstance(lln.as_dataset(data).series[0], Series)


@pytest.mark.parametrize("make", [monthly, business_days, written_by_r, netcdf])
def test_two_commands_do_the_same(make, tmp_path, monkeypatch, capsys):
    import sys

    from lln.cli import main

    data, dates, name = make(tmp_path)
    model, out, picture = tmp_path / "m.lln", tmp_path / "forecast.csv", tmp_path / "forecast.png"
    for words in (
        ["fit", data, "-o", model, "--parts", "linear"],
        ["rollout", model, "--steps", "3", "--level", "0.9", "-o", out, "--plot", picture],
    ):
        monkeypatch.setattr(sys, "argv", ["lln", *map(str, words)])
        with pytest.raises(SystemExit) as left:
            main()
        assert not left.value.code, capsys.readouterr().err
    table = pd.read_csv(out)
    assert {name, f"{name} lower", f"{name} upper"} <= set(table.columns)
    assert [str(pd.Timestamp(day)) for day in table.iloc[1:, 0]] == [str(pd.Timestamp(day)) for day in dates]
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("grid", [{"lon": 8}, {"lat": 4, "lon": 6}])
def test_a_field_in_a_file_gets_intervals_in_the_file_and_in_the_figure(grid, tmp_path, monkeypatch, capsys):
    import sys

    from lln.cli import main

    rows = np.arange(120)
    place = np.linspace(0, 2 * np.pi, grid["lon"], endpoint=False)
    wave = np.sin(place - 0.3 * rows[:, None]) + 0.01 * np.random.default_rng(0).standard_normal((120, grid["lon"]))
    values = wave if len(grid) == 1 else wave[:, None] * np.ones((grid["lat"], 1))
    coords = {"time": pd.date_range("2001-01-01", periods=120), **{name: np.arange(n) for name, n in grid.items()}}
    xr.Dataset({"sst": (("time", *grid), 280 + values, {"units": "K"})}, coords).to_netcdf(tmp_path / "sst.nc")
    model, out, picture = tmp_path / "m.lln", tmp_path / "forecast.nc", tmp_path / "forecast.png"
    for words in (
        ["fit", tmp_path / "sst.nc", "-o", model, "--parts", "linear", "--no-field"],
        ["rollout", model, "--steps", "5", "--level", "0.9", "-o", out, "--plot", picture],
    ):
        monkeypatch.setattr(sys, "argv", ["lln", *map(str, words)])
        with pytest.raises(SystemExit) as left:
            main()
        assert not left.value.code, capsys.readouterr().err
    found = xr.load_dataset(out, engine="h5netcdf")
    expected = lln.load(model).rollout(steps=5, level=0.9).to_xarray()
    for name in ("sst", "sst lower", "sst upper"):
        np.testing.assert_allclose(np.squeeze(found[name]), expected[name])
        assert found[name].attrs["units"] == "K"
    assert (expected["sst lower"] < expected["sst"])[1:].all()
    axes = lln.load(model).rollout(steps=5, level=0.9).plot().axes
    assert any("half of the" in axis.get_title(loc="left") + axis.get_ylabel() for axis in axes)


def test_future_inputs_come_from_a_file_of_inputs_alone(tmp_path):
    dates = pd.date_range("2015-01-01", periods=96, freq="MS")
    push = np.sin(np.arange(96.0))
    heat = np.zeros(96)
    for k in range(95):
        heat[k + 1] = 0.8 * heat[k] + push[k]
    table = pd.DataFrame({"date": dates, "heat": heat, "push": push})
    table.iloc[:84].to_csv(tmp_path / "past.csv", index=False)
    table.iloc[84:][["date", "push"]].to_csv(tmp_path / "future.csv", index=False)  # it begins after the last state
    table.iloc[80:][["date", "push"]].to_csv(tmp_path / "longer.csv", index=False)
    table.iloc[86:][["date", "push"]].to_csv(tmp_path / "late.csv", index=False)
    model = lln.LensForecaster(**PARTS).fit(tmp_path / "past.csv", inputs="push")
    run = model.rollout(steps=12, inputs=tmp_path / "future.csv")
    np.testing.assert_allclose(run.array[1:, 0], heat[84:], atol=1e-6)
    np.testing.assert_array_equal(model.rollout(steps=12, inputs=tmp_path / "longer.csv").array, run.array)
    with pytest.raises(lln.InputError, match="its rows begin 3 steps after the last state of training"):
        model.rollout(steps=5, inputs=tmp_path / "late.csv")
    with pytest.raises(lln.InputError, match="its inputs last for 13 steps, but 20 were asked for"):
        model.rollout(steps=20, inputs=tmp_path / "future.csv")


def test_a_file_of_several_series_says_which_one_a_forecast_continues(tmp_path, monkeypatch, capsys):
    import sys

    from lln.cli import main

    dates = pd.date_range("2019-01-01", periods=90, freq="D")
    rng = np.random.default_rng(0)
    parts = [
        pd.DataFrame({"date": dates, "store": name, "sales": values(dates) + rng.standard_normal(90)})
        for name in ("north", "south")
    ]
    pd.concat(parts).sort_values(["date", "store"]).to_csv(tmp_path / "stores.csv", index=False)
    model, out = tmp_path / "m.lln", tmp_path / "forecast.csv"

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["lln", *map(str, words)])
        with pytest.raises(SystemExit) as left:
            main()
        said = capsys.readouterr().err
        assert not left.value.code, said
        return said

    run("fit", tmp_path / "stores.csv", "-o", model, "--parts", "linear", "--history", "3")
    said = run("rollout", model, "--steps", "3", "-o", out)
    assert "the rollout goes on from " in said
    assert ", the last trajectory of the training data; for others give a file of their last rows, 3 of each" in said
    assert pd.read_csv(out)["sales"][0] == pytest.approx(parts[1]["sales"].iloc[-1])
    pd.concat([one[-3:] for one in parts]).to_csv(tmp_path / "ends.csv", index=False)
    assert "goes on from" not in run("rollout", model, "--steps", "5", "--from", tmp_path / "ends.csv", "-o", out)
    table = pd.read_csv(out)
    assert [len(rows) for _, rows in table.groupby("trajectory")] == [6, 6]
