import html
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from forecasters import convolved, field, fitted, lorenz, wave

import lln
from lln.core.errors import InputError
from lln.data.series import Dataset, Series
from lln.fit.options import FitReport
from lln.forecaster.forecaster import LensForecaster
from lln.forecaster.layout import Layout
from lln.plots.forecasts import forecast_figure

DATED = {"units": {"time": "seconds since 2020-01-01T00:00:00"}}


def dated():
    """A daily series; the model is the linear map alone, so that nothing trains."""
    days = pd.date_range("2020-01-01", periods=120, name="day")
    angle = 0.2 * np.arange(120)
    return pd.DataFrame({"a": np.cos(angle), "b": np.sin(angle)}, index=days)


@pytest.fixture(scope="module")
def daily():
    return LensForecaster(members=1, epochs=1, width=4, depth=1, basis=4, history=1).fit(dated())


def lines(axis):
    return {line.get_label(): line for line in axis.lines}


def test_a_forecast_is_one_line_of_text_and_a_table_in_a_notebook():
    run = fitted().rollout(lorenz()[300], steps=40)
    assert repr(run) == "Forecast(40 steps of x, y, z, time 0 to 0.4)"
    page = run._repr_html_()
    assert page.startswith("<p>Forecast(40 steps")
    assert "<table" in page
    assert page.count("<tr>") < 12  # not all rows
    assert max(len(cell.strip("-")) for cell in re.findall(r"<td>(.*?)</td>", page)) <= 7  # six digits and a point
    many = fitted().rollout(lorenz()[:5], steps=3)
    assert repr(many).startswith("Forecast(5 rollouts of 3 steps")
    assert "<table" not in many._repr_html_()


def test_a_forecast_of_dated_data_has_dates(daily):
    run = daily.rollout(steps=5)
    table = run.to_pandas()
    assert list(table.columns) == ["a", "b"]
    assert table.index[0] == pd.Timestamp("2020-04-29")
    assert table.index[-1] == pd.Timestamp("2020-05-04")
    assert run.to_xarray()["time"].values[1] == np.datetime64("2020-04-30", "ns")
    assert "2020-04-29 to 2020-05-04" in repr(run)
    figure = run.plot()
    np.testing.assert_array_equal(lines(figure.axes[0])["forecast"].get_xdata(), table.index.values)


def test_states_before_the_start_are_drawn_with_their_dates():
    months = pd.date_range("2010-01-31", periods=60, freq="ME")
    table = pd.DataFrame({"month": months, "sales": np.sin(np.arange(60) * np.pi / 6)})
    model = lln.LensForecaster(parts=("linear",), history=12).fit(table)
    past = lines(model.rollout(steps=6).plot().axes[0])["past"]
    np.testing.assert_array_equal(past.get_xdata(), months[-7:].values)
    np.testing.assert_allclose(past.get_ydata(), table["sales"].to_numpy()[-7:])
    assert "past" in lines(model.plot(table, steps=6).axes[0])
    assert "past" not in lines(fitted().rollout(steps=20).plot().axes[0])  # one state, which the forecast begins with


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("count", "unit"), [(n, unit) for unit in "MDhms" for n in (3, 20, 49, 52, 59, 100, 170)])
def test_dates_of_any_range_have_ticks_without_a_warning(count, unit):
    dates = np.datetime64("2009-01-01", unit) + np.arange(count + 1)
    figure = forecast_figure(dates.astype("M8[ns]"), np.ones((count + 1, 1)), labels=["x"])
    figure.canvas.draw()
    assert 2 <= len(figure.axes[0].get_xticks()) <= 13


def test_ticks_some_days_apart_are_as_far_apart_where_a_month_ends():
    dates = np.datetime64("2023-03-26", "h") + np.arange(260)
    figure = forecast_figure(dates.astype("M8[ns]"), np.ones((260, 1)), labels=["x"])
    figure.canvas.draw()
    assert set(np.diff(figure.axes[0].get_xticks())) == {2.0}
    assert figure.axes[0].yaxis.label.get_rotation() == 0  # a letter stands upright


def test_truth_is_aligned_by_date(daily):
    run = daily.rollout(dated().iloc[40:41], steps=10)
    figure = run.plot(dated())
    np.testing.assert_allclose(lines(figure.axes[0])["truth"].get_ydata(), dated()["a"].to_numpy()[40:51])


def test_truth_and_the_end_of_the_valid_prediction_are_drawn():
    run = fitted().rollout(lorenz()[300], steps=300)
    truth = lorenz()[301:601]
    figure = run.plot(truth)
    errors = np.sqrt((((run.array[1:] - truth) / run.scale) ** 2).mean(axis=1))
    valid = int(np.argmax(errors > 0.4))
    assert [text.get_text() for text in figure.axes[0].texts] == [f"valid for {valid} steps"]
    np.testing.assert_array_equal(lines(figure.axes[1])["truth"].get_ydata(), lorenz()[300:601, 1])
    assert len(run.plot(truth, coordinates=["z"]).axes) == 1
    lost = np.concatenate([truth[:1], truth[1:] + 100])
    assert [text.get_text() for text in run.plot(lost).axes[0].texts] == ["valid for 1 step"]


@pytest.mark.parametrize(
    ("source", "title"),
    [
        ("array", "x, y"),
        ("/home/me/data/tank.csv", "tank.csv"),
        ("runs/a.nc, runs/b.nc", "a.nc, b.nc"),
        ("runs/a.nc, runs/b.nc, runs/c.nc, runs/d.nc", "a.nc and 3 others"),
    ],
)
def test_titles_name_files_without_their_folders(source, title):
    assert Layout(("x", "y"), 0.1, source=source).title == title


@pytest.mark.parametrize("rows", [12, 39, 40, 41, 42, 90])
@pytest.mark.parametrize("begin", [300, 301])
def test_truth_of_any_length_begins_at_the_start_or_behind_it(rows, begin):
    if (rows, begin) in ((40, 300), (41, 301)):  # their number says the contrary
        return
    drawn = lines(fitted().rollout(lorenz()[300], steps=40).plot(lorenz()[begin : begin + rows]).axes[0])["truth"]
    known = np.isfinite(drawn.get_ydata())
    np.testing.assert_allclose(drawn.get_ydata()[known], lorenz()[300 : 300 + known.sum(), 0])
    assert known.sum() == min(41, rows + begin - 300)


def test_an_interval_is_shaded_and_in_the_tables():
    class Bounded(type(fitted().rollout(steps=1))):
        lower = upper = level = None

    run = fitted().rollout(lorenz()[300], steps=20)
    bounded = Bounded(**{name: getattr(run, name) for name in run.__dataclass_fields__})
    for name, values in (("lower", run.array - 1), ("upper", run.array + 1), ("level", 0.9)):
        object.__setattr__(bounded, name, values)
    figure = bounded.plot()
    (shade,) = figure.axes[0].collections
    assert shade.get_label() == "90 % interval"
    table = bounded.to_pandas()
    np.testing.assert_allclose(table["x upper"] - table["x lower"], 2.0)
    np.testing.assert_allclose(bounded.to_xarray()["z lower"], run.array[:, 2] - 1)
    assert "with a 90 % interval" in repr(bounded)


def test_a_field_is_drawn_as_snapshots_with_equal_sides():
    model = field()
    data = Dataset((Series(wave()),), 0.1, space=(2, 3), channels=("u", "v"), coords=model.layout_.coords)
    figure = model.plot(data, steps=30)
    panels = [axis for axis in figure.axes if axis.get_xlabel() == "lon"]
    assert len(panels) == 4
    assert all(axis.get_aspect() == 1.0 for axis in panels)
    assert len(convolved().rollout(steps=3).plot(coordinates=["v"]).axes) == 5


def test_a_field_in_one_direction_is_drawn_over_time():
    model = fitted()
    layout = replace(model.layout_, space=(3,), channels=("u",), coords={"s": np.arange(3.0)}, units={"u": "K"})
    run = replace(model.rollout(lorenz()[300], steps=50), layout=layout)
    figure = run.plot(lorenz()[301:351])
    assert [axis.get_title(loc="left") for axis in figure.axes[:3]] == ["truth", "forecast", "error: forecast − truth"]
    assert "u (K)" in [axis.get_ylabel() for axis in figure.axes]


def test_members_are_thin_lines_and_their_mean_the_forecast():
    run = fitted().sample(steps=30)
    axis = run.plot().axes[0]
    np.testing.assert_allclose(lines(axis)["forecast"].get_ydata(), run.array[:, :, 0].mean(axis=0))
    thin = [line for line in axis.lines if line.get_linewidth() == 0.8]
    np.testing.assert_allclose([line.get_ydata() for line in thin], run.array[:, :, 0])


def test_the_truth_hides_no_member():
    run = fitted().sample(steps=30)
    names = [line.get_label() for line in run.plot(truth=lorenz()[301:331]).axes[0].lines]
    assert names.index("truth") < names.index("members") < names.index("forecast")


def test_an_evaluation_shows_itself():
    scores = fitted().evaluate(lorenz())
    assert repr(scores).startswith("Evaluation(unseen rows, one window: normalised MSE ")
    assert "valid prediction time" in scores._repr_html_()
    table = scores.to_pandas()
    np.testing.assert_allclose(table["rmse"] ** 2, table["nmse"])
    assert table.index[-1] == scores.steps
    np.testing.assert_allclose(scores.to_xarray()["nmse"], scores.nmse_by_step)
    drawn = lines(scores.plot().axes[0])
    np.testing.assert_allclose(drawn["LensForecaster"].get_ydata(), scores.skill.by_step["model"])
    np.testing.assert_allclose(drawn["persistence"].get_ydata(), scores.skill.by_step["persistence"])
    alone = fitted().evaluate(lorenz(), baselines=None)
    np.testing.assert_allclose(lines(alone.plot().axes[0])["LensForecaster"].get_ydata(), alone.rmse_by_step)


def test_a_model_draws_its_own_forecast():
    figure = fitted().plot(lorenz(), steps=50)
    first = lines(figure.axes[0])
    assert "unseen rows" in figure.get_suptitle()
    np.testing.assert_allclose(first["truth"].get_ydata()[1:], lorenz()[641:691, 0])
    assert first["truth"].get_xdata()[0] == pytest.approx(6.40)
    assert "truth" not in lines(fitted().plot(steps=20).axes[0])


def test_a_page_is_shown_inside_a_notebook(tmp_path):
    page = fitted().page(lorenz(), steps=50, height=500)
    shown = page._repr_html_()
    assert shown.startswith("<iframe")
    assert "height:500px" in shown
    assert "<script" not in shown  # all of it is inside the attribute
    assert page.save(tmp_path / "page.html").read_text() == page.text


def test_a_model_exports_by_the_ending_of_the_file(tmp_path):
    difference = fitted().export(tmp_path / "step.pt2")
    assert difference.export < 1e-4
    assert (tmp_path / "step.pt2").exists()
    with pytest.raises(InputError, match=r"model\.txt: unknown ending; use \.onnx, \.pt2 or, for C, a folder"):
        fitted().export(tmp_path / "model.txt")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda run: run.plot(coordinates=["q"]), "no coordinate is called 'q'; there are x, y, z"),
        (lambda run: run.plot(np.ones((4, 2))), r"the truth must have 3 coordinates in each row, got shape \(4, 2\)"),
        (lambda run: run.plot(start=3), "start = 3, but this forecast has 1 starts"),
    ],
)
def test_bad_wishes_get_a_sentence(make, message):
    with pytest.raises(InputError, match=message):
        make(fitted().rollout(steps=4))


def test_public_results_have_these_methods():
    for name in ("plot", "page", "export"):
        assert callable(getattr(lln.LensForecaster, name))


def test_a_report_is_one_line_and_a_small_page_in_a_notebook():
    x = np.sin(np.arange(120) / 5)[:, None] + 0.01 * np.random.default_rng(0).standard_normal((120, 1))
    model = LensForecaster(parts="linear").fit(x)
    report = model.report_
    line = repr(report)
    assert len(line) < 160
    assert line.startswith(f"FitReport(linear of the last {report.history} states; parameters {report.parameters}; ")
    assert f"held-out error {report.held_out_nmse:.3g}, averaged up to {report.held_out_steps} steps" in line
    page = report._repr_html_()
    assert page.count("<table>") == 2
    assert "<th>steps ahead</th>" in page
    assert ">linear</th>" not in page  # it is the model
    assert "color" not in page.replace("background-color", "")  # those of the notebook, light or dark
    assert report.notes[-1] in html.unescape(page)
    assert repr(model.training_) == "TrainingFingerprint(120 of 120 rows of array)"
    assert repr(FitReport()).startswith("FitReport(model of the present state; parameters 0; took")


def test_one_step_is_singular():
    states = lorenz()[:60]
    model = LensForecaster(parts="linear").fit(states)
    assert "Forecast(1 step of " in repr(model.rollout(steps=1))
    scored = model.evaluate(states, steps=1, windows=1)
    assert scored.title.endswith("one window of up to 1 step")
    assert "1 rolling origin\n" in str(scored)
    assert lln.compare(states, models=["mean"], steps=1, windows=1).title.startswith("one rollout of 1 step on")
