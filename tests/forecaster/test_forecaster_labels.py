import numpy as np
import pandas as pd
import pytest
import xarray as xr
from forecasters import QUICK, field, fitted, lorenz, wave

from lln import InputError, LensForecaster

LABELS = ["x", "y", "z"]


def plain(rows=slice(0, 4)):
    states = lorenz()[rows]
    time = xr.Variable("time", 5.0 + 0.01 * np.arange(len(states)), {"units": "s"})
    coords = {"time": time, "component": LABELS, "station": "roof"}
    return xr.DataArray(states, dims=("time", "component"), coords=coords, name="state", attrs={"title": "Lorenz"})


def test_a_labelled_state_comes_back_labelled():
    x0 = plain().isel(time=2)
    run = fitted().rollout(x0, 6)
    assert run.states.dims == ("time", "component")
    assert run.states.name == "state"
    assert run.states.attrs == {"title": "Lorenz"}
    assert list(run.states.component.values) == LABELS
    assert run.states.station == "roof"
    np.testing.assert_allclose(run.states.time, 5.02 + 0.01 * np.arange(7))
    np.testing.assert_array_equal(run.states.values, fitted().rollout(lorenz()[2], 6).states)
    assert run.predicted.sizes == {"time": 6, "component": 3}
    assert float(run.predicted.time[0]) == pytest.approx(5.03)


def test_labels_in_another_order_say_which_is_which():
    x0 = plain().isel(time=2)
    turned = fitted().rollout(x0.isel(component=[2, 0, 1]), 3)
    assert list(turned.states.component.values) == LABELS
    np.testing.assert_array_equal(turned.array, fitted().rollout(x0, 3).array)
    with pytest.raises(InputError, match=r"its states are z, x, y, but this model was fitted to x, y, z"):
        fitted().evaluate(plain(slice(0, 40)).isel(component=[2, 0, 1]))


def test_along_time_the_last_states_count():
    for history in (1, 2):
        run = fitted(history).rollout(plain(), 3)
        np.testing.assert_array_equal(
            run.states.values, fitted(history).rollout(lorenz()[4 - history : 4], 3).states.reshape(4, 3)
        )
        assert float(run.states.time[0]) == pytest.approx(5.03)
    with pytest.raises(InputError, match="looks at 2 states at a time"):
        fitted(2).rollout(plain().isel(time=-1), 3)


def test_other_dimensions_are_many_starts():
    many = xr.concat([plain().isel(time=k, drop=True) for k in range(3)], pd.Index([7, 8, 9], name="run"))
    out = fitted().rollout(many.transpose("component", "run"), 5).states
    assert out.dims == ("run", "time", "component")
    assert list(out.run.values) == [7, 8, 9]
    np.testing.assert_allclose(out.sel(run=8), fitted().rollout(lorenz()[1], 5).states, atol=1e-5)
    assert fitted().predict(many).dims == ("run", "component")
    assert fitted().sample(many, 2).states.dims == ("member", "run", "time", "component")


def test_a_state_with_labels_along_two_dimensions_comes_back_with_both():
    values = np.stack([lorenz()[:-50, :2], lorenz()[50:, :2]], axis=1)
    coords = {"time": 0.01 * np.arange(len(values)), "station": ["a", "b"], "quantity": ["T", "p"]}
    data = xr.DataArray(values, dims=("time", "station", "quantity"), coords=coords)
    model = LensForecaster(**QUICK).fit(data)
    assert model.layout_.names == ("a_T", "a_p", "b_T", "b_p")
    expected = model.rollout(values[5].reshape(4), 3).states
    for x0 in (data.isel(time=5), data.isel(time=5).T):
        run = model.rollout(x0, 3).states
        assert run.dims == ("time", "station", "quantity")
        np.testing.assert_array_equal(run.values.reshape(4, 4), expected)


def test_a_dataset_of_variables():
    data = plain().to_dataset("component").assign(unused=("time", np.zeros(4)))
    run = fitted().rollout(data, 5)
    assert set(run.states.data_vars) == set(LABELS)
    assert run.states.x.dims == ("time",)
    np.testing.assert_array_equal(run.states.y, fitted().rollout(lorenz()[3], 5).states[:, 1])
    with pytest.raises(InputError, match="x0 has no variable 'y'; expected one of"):
        fitted().rollout(data.drop_vars("y"), 5)
    whole = plain().to_dataset()
    assert fitted().rollout(whole, 5).states.state.dims == ("time", "component")


def test_fields_with_coordinates_and_units():
    forecaster, flat = field(), wave()
    run = forecaster.rollout(flat[0], 3)
    out = run.to_xarray()
    assert out.u.dims == ("time", "lat", "lon")
    assert out.u.attrs == {"units": "m/s"}
    assert out.time.attrs == {"units": "s"}
    assert list(out.lat.values) == [10.0, 20.0]
    np.testing.assert_array_equal(out.v.values, run.states.reshape(4, 2, 2, 3)[:, 1])

    back = forecaster.rollout(out.isel(time=0), 3).states
    assert set(back.data_vars) == {"u", "v"}
    assert back.u.attrs == {"units": "m/s"}
    xr.testing.assert_equal(back, out)
    stacked = out.isel(time=0).to_dataarray("channel").transpose("lon", "channel", "lat")
    again = forecaster.rollout(stacked, 3).states
    assert again.dims == ("time", "channel", "lat", "lon")
    np.testing.assert_array_equal(again.values.reshape(4, 12), run.states)
    with pytest.raises(InputError, match="x0 has no dimension 'lat'; did you mean 'lot'"):
        forecaster.rollout(stacked.rename(lat="lot"), 3)


def test_one_field_without_a_channel_dimension():
    forecaster = field(1)
    out = forecaster.rollout(wave(channels=1)[0], 3).to_xarray()
    xr.testing.assert_equal(forecaster.rollout(out.isel(time=0), 3).states, out)
    np.testing.assert_array_equal(forecaster.rollout(out.u.isel(time=0), 3).states, out.u)
    assert forecaster.predict(out.u.isel(time=0)).dims == ("lat", "lon")


def test_dates_go_on_in_seconds():
    x0 = plain().assign_coords(time=pd.date_range("2024-01-01", periods=4, freq="10ms"))
    times = fitted().rollout(x0, 2).states.time.values
    np.testing.assert_array_equal(
        times, np.datetime64("2024-01-01T00:00:00.030") + np.arange(3) * np.timedelta64(10, "ms")
    )


def test_tables():
    table = pd.DataFrame(lorenz()[:6], columns=LABELS)
    one = fitted().rollout(table.iloc[4], 3).states
    assert list(one.columns) == LABELS
    assert one.index.name == "time"
    np.testing.assert_array_equal(one.to_numpy(), fitted().rollout(lorenz()[4], 3).states)
    timed = fitted().rollout(table.assign(time=np.arange(6.0))[["z", "time", "y", "x"]].iloc[[5]], 3).states
    np.testing.assert_allclose(timed.index, 5 + 0.01 * np.arange(4))
    np.testing.assert_array_equal(timed.to_numpy(), fitted().rollout(lorenz()[5], 3).states)
    many = fitted().rollout(table, 3).states
    assert many.index.names == ["start", "time"]
    assert many.shape == (24, 3)
    assert fitted().predict(table).shape == (6, 3)
    window = fitted(2).rollout(table.iloc[:2], 3).states
    np.testing.assert_array_equal(window.to_numpy(), fitted(2).rollout(lorenz()[:2], 3).states)
    with pytest.raises(InputError, match="x0 has no column 'z'"):
        fitted().rollout(table.drop(columns="z"), 3)
    end = fitted(2).rollout(table, 3).states  # the last states count
    np.testing.assert_array_equal(end.to_numpy(), fitted(2).rollout(lorenz()[4:6], 3).states)
    with pytest.raises(InputError, match="looks at 2 states at a time"):
        fitted(2).rollout(table[:1], 3)


def test_a_table_with_the_newest_row_first_is_turned_round():
    table = pd.DataFrame(lorenz()[:2], columns=LABELS).assign(time=pd.to_datetime(["2024-01-01", "2024-01-02"]))
    run, other = (fitted(2).rollout(one, 3).states for one in (table, table.iloc[::-1]))
    pd.testing.assert_frame_equal(run, other)
    longer = pd.DataFrame(lorenz()[:5], columns=LABELS).assign(time=pd.date_range("2023-12-29", periods=5))
    run, other = (fitted(2).rollout(one, 3).states for one in (longer, longer.iloc[::-1]))
    pd.testing.assert_frame_equal(run, other)
    np.testing.assert_array_equal(run.to_numpy(), fitted(2).rollout(lorenz()[3:5], 3).states)


def test_rows_of_a_table_start_at_their_own_times():
    table = pd.DataFrame(lorenz()[:30], columns=LABELS).assign(time=0.01 * np.arange(30))
    chosen = table.iloc[[0, 10, 20]]
    np.testing.assert_allclose(fitted().predict(chosen).index.get_level_values("time"), [0.01, 0.11, 0.21])
    run = fitted().rollout(chosen, 2)
    np.testing.assert_allclose(run.times, np.add.outer([0.0, 0.1, 0.2], [0.0, 0.01, 0.02]))
    assert run.states.loc[1].index[0] == pytest.approx(0.1)
    assert run.predicted.loc[2].index[-1] == pytest.approx(0.22)
    labelled = run.to_xarray()
    np.testing.assert_allclose(labelled.start, [0.0, 0.1, 0.2])
    np.testing.assert_allclose(labelled.time, [0.0, 0.01, 0.02])
    texts = chosen.assign(time=["2024-01-01", "2024-01-02", "2024-01-03"])
    assert str(fitted().predict(texts).index[2][1]) == "2024-01-03 00:00:00.010000"
    with pytest.raises(InputError, match=r"x0 has times in 'time' that are neither .*; write dates as 2024-01-31 or "):
        fitted().predict(chosen.assign(time=["a", "b", "c"]))


def test_a_rollout_from_dates_or_durations_can_be_saved(tmp_path):
    for kind, first in (("M8[ns]", "2024-03-01"), ("m8[ns]", 5)):
        times = np.array(first, dtype=kind.replace("ns", "D")).astype(kind) + np.arange(4) * np.timedelta64(10, "ms")
        states = plain().assign_coords(time=times)
        model = LensForecaster(**QUICK).fit(
            xr.concat([plain(slice(0, 200))], "time").assign_coords(
                time=times[0] + np.arange(200) * np.timedelta64(10, "ms")
            )
        )
        run = model.rollout(states, 3)
        run.states.drop_vars("station").to_netcdf(tmp_path / "states.nc")
        run.to_xarray().to_netcdf(tmp_path / "variables.nc")
        for name in ("states.nc", "variables.nc"):
            with xr.open_dataset(tmp_path / name, decode_timedelta=True) as back:
                np.testing.assert_array_equal(back.time, times[-1] + np.arange(4) * np.timedelta64(10, "ms"))
        # Nobody said when this start is, so its times count from no date.
        assert model.rollout(lorenz()[0], 1).to_xarray().time.units in ("s", "seconds")


def test_fit_on_labelled_data_and_start_from_it():
    whole = plain(slice(0, 500))
    forecaster = LensForecaster(**QUICK).fit(whole)
    assert forecaster.dt_ == pytest.approx(0.01)
    assert forecaster.names_ == tuple(LABELS)
    run = forecaster.rollout(whole.isel(time=-1), 5)
    assert run.states.dims == ("time", "component")
    assert run.states.time.attrs == {"units": "s"}
    assert forecaster.evaluate(whole).scored == "choice rows"
    table = whole.to_pandas()
    framed = LensForecaster(**QUICK).fit(table)
    assert framed.names_ == tuple(LABELS)
    assert framed.rollout(table.iloc[-1], 5).states.shape == (6, 3)


def test_fit_on_a_labelled_field():
    coords = {"time": 0.1 * np.arange(300), "lat": [1.0, 2.0], "lon": [0.0, 5.0, 9.0]}
    values = wave(channels=1).reshape(300, 2, 3)
    data = xr.DataArray(values, dims=("time", "lat", "lon"), coords=coords, name="height", attrs={"units": "m"})
    forecaster = LensForecaster(**QUICK).fit(data)
    assert forecaster.space_ == (2, 3)
    run = forecaster.rollout(data.isel(time=10), 4)
    assert run.states.dims == ("time", "lat", "lon")
    np.testing.assert_allclose(run.states.time, 1.0 + 0.1 * np.arange(5))
    assert run.to_xarray().height.attrs == {"units": "m"}
