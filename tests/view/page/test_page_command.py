import copy
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from forecasters import field, fitted, forced, lorenz
from typer.testing import CliRunner

from lln.cli.app import app
from lln.data.series import Dataset, Series
from lln.forecaster.forecaster import LensForecaster
from lln.view.page import forecaster_page
from lln.view.page.payload import ROWS, runs_of


def payload_of(text):
    return json.loads(re.search('<script type="application/json" id="payload">(.*?)</script>', text, re.DOTALL)[1])


def numbers_of(text):
    return {(table["title"], label): value for table in payload_of(text)["numbers"] for label, value in table["rows"]}


def test_the_command_writes_one_page(tmp_path):
    fitted().save(tmp_path / "model.lln")
    np.savez(tmp_path / "test.npz", states=lorenz()[:120])
    words = ["page", tmp_path / "model.lln", "--data", tmp_path / "test.npz", "--dt", "0.01", "-o", tmp_path / "b.html"]
    done = CliRunner().invoke(app, [*map(str, words), "--steps", "80", "--title", "Two wings", "--members", "1"])
    assert done.exit_code == 0, done.output
    assert "MB, open it in a browser" in done.output
    payload = payload_of((tmp_path / "b.html").read_text())
    assert payload["title"] == "Two wings"
    assert payload["steps"] == 80
    assert next(part for part in payload["parts"] if part["kind"] == "lens")["members"] == 1
    assert payload["series"][0]["states"]["shape"] == [120, 3]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.html", "model.lln", "test.npz"]


def test_without_data_it_starts_where_training_ended():
    payload = payload_of(forecaster_page(fitted(history=2)))
    assert payload["series"][0]["states"]["shape"] == [2, 3]
    assert payload["series"][0]["start"] == pytest.approx(fitted(history=2).last_time_ - 0.01)


def test_the_numbers_say_what_the_model_is_and_how_it_was_trained():
    numbers = numbers_of(forecaster_page(fitted()))
    assert numbers["Model", "width h"] == "8"
    assert numbers["Model", "parameters"] == f"{fitted().parameters_:,}"
    assert numbers["Training", "training pairs"] == str(fitted().report_.pairs)
    assert numbers["Training", "hidden positions between the control points"].endswith("%")
    assert ("Versions", "torch") in numbers


def test_the_numbers_of_a_seasonal_model_do_not_speak_of_networks_or_chaos():
    season = np.tile([1.0, 3.0, 2.0, 5.0], 30) + 0.1 * np.random.default_rng(0).standard_normal(120)
    model = LensForecaster(parts=["linear"]).fit(season, dt=1.0)
    model.report_ = replace(model.report_, part="seasonal naive")
    page = forecaster_page(model, Dataset((Series(season[:, None]),)))
    numbers = numbers_of(page)
    assert payload_of(page)["subtitle"].endswith("seasonal naive")
    assert numbers["Model", "closed-form parts"] == "seasonal naive"
    assert numbers["Recipe", "parts"] == "linear"
    network = {"correction weight of the network", "updates", "steps of fine-tuning", "the same, linear map alone"}
    assert not network & {label for _, label in numbers}
    assert payload_of(page)["lyapunov"] is None
    assert numbers["Model", "network"] == "none was tried"


def test_lyapunov_times_are_those_of_the_fit():
    model = copy.copy(fitted())
    model.report_ = replace(model.report_, exponent=0.9)
    assert payload_of(forecaster_page(model, Dataset((Series(lorenz()),), 0.01)))["lyapunov"] == 0.9


def test_other_networks_have_the_names_that_options_and_tables_give_them():
    assert payload_of(forecaster_page(fitted(model="mlp")))["subtitle"].endswith("2 × mlp, h = 8, D = 3")


def test_the_error_of_the_linear_map_is_shown_where_it_is_another():
    model = copy.copy(fitted())
    shown = ("Training", "the same, linear map alone")
    assert shown in numbers_of(forecaster_page(model))
    model.report_ = replace(model.report_, linear_nmse=model.report_.held_out_nmse)
    assert shown not in numbers_of(forecaster_page(model))


def test_a_field_keeps_its_grid_and_units():
    payload = payload_of(forecaster_page(field()))
    assert payload["space"] == [2, 3]
    assert [axis["name"] for axis in payload["axes"]] == ["lat", "lon"]
    assert payload["units"] == ["m/s"] * 6 + [""] * 6
    assert payload["timeUnit"] == "s"


def test_inputs_travel_with_the_data():
    model, states, inputs = forced()
    data = Dataset((Series(states, inputs),), input_names=("u", "v"), source="tank")
    payload = payload_of(forecaster_page(model, data))
    assert payload["series"][0]["inputs"]["shape"] == [400, 2]
    assert numbers_of(forecaster_page(model, data))["Truth on this page", "data"] == "tank"


def test_the_first_start_is_on_unseen_rows_and_every_row_says_what_it_was():
    model, states = fitted(), lorenz()  # the first four fifths trained
    data = Dataset((Series(states, name="orbit", start=2.0),), 0.01, source="orbit.nc")
    text = forecaster_page(model, data)
    (run,) = payload_of(text)["series"]
    trained = round(0.8 * len(states))
    assert run["states"]["shape"] == [len(states), 3]
    assert run["marks"] == [[0, trained, "trained"], [trained, len(states), "unseen"]]
    assert run["begin"] == trained - 1  # the row before is given, not predicted
    assert (run["firstRow"], run["start"]) == (0, 2.0)
    assert numbers_of(text)["Truth on this page", "rows"] == "trained and unseen ones, as marked"
    trained = Dataset((Series(states[:200]),), 0.01)
    assert numbers_of(forecaster_page(model, trained))["Truth on this page", "rows"] == "those it was trained on"
    long = np.concatenate([states, *(states + 0.001 * k for k in range(1, 2 + ROWS // states.size))])
    _, kind, notes = runs_of(Dataset((Series(long),), 0.01), model.training_, model.history_)
    assert kind == "those that did not train"
    assert "rows that trained the model are not on this page" in notes[0]
    new = Dataset((Series(states[:200] + 0.1),), 0.01)
    assert numbers_of(forecaster_page(model, new))["Truth on this page", "rows"] == "new to the model"
    assert payload_of(forecaster_page(model, new))["series"][0]["marks"] == [[0, 200, "unseen"]]


def test_a_model_without_lenses_gets_a_title_that_fits():
    model = fitted()
    plain = copy.copy(model)
    plain.surrogate_ = model.surrogate_.replace(members=())
    assert payload_of(forecaster_page(model))["title"] == "Optical bench: x, y, z"
    payload = payload_of(forecaster_page(plain))
    assert payload["title"] == "Forecast: x, y, z"
    assert [part["kind"] for part in payload["parts"]] == ["linear"]


def test_seconds_become_units_that_people_use():
    model = copy.copy(fitted())
    model.layout_ = replace(model.layout_, dt=86400.0, units={"time": "seconds since 2020-01-01T00:00:00"})
    payload = payload_of(forecaster_page(model))
    assert (payload["timeUnit"], payload["dt"]) == ("days", 1.0)
    assert payload["origin"] == "2020-01-01T00:00:00.000Z"
    assert payload["series"][0]["start"] == pytest.approx(fitted().last_time_ / 86400)


def test_steps_of_the_calendar_carry_their_dates():
    model = copy.copy(fitted())
    units = {"time": "months since 2020-01-31T00:00:00"}
    model.layout_ = replace(model.layout_, dt=1.0, units=units, frequency="ME")
    model.last_time_ = 5.0
    payload = payload_of(forecaster_page(model, steps=3))
    assert payload["calendar"]["first"] == 5
    assert payload["calendar"]["dates"][:2] == ["2020-06-30", "2020-07-31"]
    assert payload["timeUnit"] == "months"


@pytest.mark.parametrize(("judged", "steps"), [(5, 50), (17, 68), (400, 500), (0, 500)])
def test_a_rollout_on_the_page_is_a_few_times_as_long_as_the_fit_could_judge(judged: int, steps: int):
    model = copy.copy(fitted())
    model.report_ = replace(model.report_, held_out_steps=judged)
    assert payload_of(forecaster_page(model))["steps"] == steps
    assert payload_of(forecaster_page(model, steps=7))["steps"] == 7
    truth = Dataset((Series(lorenz()[:121]),), model.dt_, model.layout_.names)
    known = 120 - (model.history_ - 1)
    assert payload_of(forecaster_page(model, truth))["steps"] == max(steps, known)


def test_data_of_another_system_and_too_many_members_are_refused():
    with pytest.raises(ValueError, match="2 features, but LensForecaster is expecting 3"):
        forecaster_page(fitted(), Dataset((Series(np.zeros((9, 2))),), 0.01))
    with pytest.raises(ValueError, match="members = 5, but this model has 2"):
        forecaster_page(fitted(), members=5)
