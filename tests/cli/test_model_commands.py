import json
import math
import re

import numpy as np
import pytest

from lln import __version__
from lln.data.read.formats import as_dataset, read
from lln.forecaster.file import load
from lln.forecaster.forecaster import LensForecaster
from lln.systems import perturbed_start, preset, simulate

QUICK = {"members": 2, "history": 1, "depth": 2, "width": 16, "epochs": 2}


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    """A folder with data, models of one and of two states of history, and unseen data."""
    folder = tmp_path_factory.mktemp("models")
    system = preset("lorenz-28")
    starts = np.stack([perturbed_start(system, seed) for seed in range(3)])
    runs = simulate(system, 700, starts=starts)[:, 100:]
    times = np.arange(runs.shape[1]) * 0.01
    np.savez(folder / "train.npz", time=times, states=runs[:1])
    np.savez(folder / "test.npz", time=times, states=runs[1:])
    LensForecaster(**QUICK).fit(folder / "train.npz").save(folder / "one.lln")
    LensForecaster(**{**QUICK, "history": 2}).fit(folder / "train.npz").save(folder / "two.lln")
    return folder


def states_in(path):
    return [np.asarray(series.states) for series in read(path).series]


def test_rollout_starts_where_training_ended(lln, room, tmp_path):
    done = lln("rollout", room / "two.lln", "--steps", 30, "-o", tmp_path / "r.npz")
    assert done.code == 0, done.err
    assert re.match(f"wrote {re.escape(str(tmp_path / 'r.npz'))} in .* s: 30 steps, dt = 0.01", done.out)
    dataset = read(tmp_path / "r.npz")
    (states,) = states_in(tmp_path / "r.npz")
    assert states.shape == (31, 3)
    np.testing.assert_array_equal(states[0], np.load(room / "train.npz")["states"][0, -1])
    np.testing.assert_array_equal(states, load(room / "two.lln").rollout(steps=30).array)
    assert dataset.times()[0] == pytest.approx(6.0)
    assert dataset.dt == pytest.approx(0.01)


@pytest.mark.parametrize(("name", "history"), [("one.lln", 1), ("two.lln", 2)])
@pytest.mark.parametrize("suffix", [".npz", ".nc", ".csv", ".zarr"])
def test_rollout_from_the_first_state_of_each_trajectory(lln, room, tmp_path, name, history, suffix):
    out = tmp_path / f"r{suffix}"
    done = lln("rollout", room / name, "--from", room / "test.npz", "--steps", 20, "-o", out)
    assert done.code == 0, done.err
    given = np.load(room / "test.npz")["states"]
    found = np.stack(states_in(out))
    assert found.shape == (2, 21, 3)
    np.testing.assert_array_equal(found[:, :history], given[:, :history])
    window = given[:, :history] if history > 1 else given[:, 0]
    expected = load(room / name).rollout(window, steps=21 - history).array
    np.testing.assert_array_equal(found[:, history:], expected[:, 1:])


def test_each_member_alone(lln, room, tmp_path):
    words = ("--from", room / "test.npz", "--steps", 5, "--sample", "-o", tmp_path / "r.npz")
    done = lln("rollout", room / "one.lln", *words)
    assert done.code == 0, done.err
    model = load(room / "one.lln")
    expected = model.sample(np.load(room / "test.npz")["states"][:, 0], steps=5).array
    found = np.stack(states_in(tmp_path / "r.npz"))
    np.testing.assert_array_equal(found, expected.reshape(-1, 6, 3))


def test_known_inputs_come_from_the_file(lln, refused, room, tmp_path):
    states = np.load(room / "train.npz")["states"][0]
    push = np.sin(0.1 * np.arange(len(states)))
    table = np.column_stack([np.arange(len(states)) * 0.01, states, push])
    np.savetxt(tmp_path / "x.csv", table, delimiter=",", header="time,x,y,z,push", comments="", fmt="%.17g")
    LensForecaster(**QUICK).fit(tmp_path / "x.csv", inputs="push").save(tmp_path / "x.lln")
    done = lln("rollout", tmp_path / "x.lln", "--from", tmp_path / "x.csv", "--steps", 10, "-o", tmp_path / "r.npz")
    assert done.code == 0, done.err
    model = load(tmp_path / "x.lln")
    expected = model.rollout(states[0].astype(float), steps=10, inputs=push[:10, None]).array
    np.testing.assert_allclose(states_in(tmp_path / "r.npz")[0], expected, rtol=1e-9)
    assert lln("evaluate", tmp_path / "x.lln", tmp_path / "x.csv").code == 0
    refused(["rollout", tmp_path / "x.lln", "-o", tmp_path / "r.npz"], "needs its known inputs (push)", "--from FILE")
    words = ["rollout", tmp_path / "x.lln", "--from", tmp_path / "x.csv", "--steps", 9999, "-o", tmp_path / "r.npz"]
    refused(words, "601 rows", "9999 rows")


def test_evaluate_new_data(lln, room):
    done = lln("evaluate", room / "two.lln", room / "test.npz", "--json", "--steps", 100)
    assert done.code == 0, done.err
    found = json.loads(done.out)
    right = load(room / "two.lln").evaluate(room / "test.npz", steps=100)
    assert found["nmse"] == right.nmse
    assert len(found["nmse_by_step"]) == 100
    assert found["valid_prediction_steps"] == right.valid_prediction_steps
    assert found["parameters"] == right.parameters
    assert found["scored"] == "new data"
    text = lln("evaluate", room / "two.lln", room / "test.npz", "--steps", 100).out
    assert "new data" in text
    assert f"{right.nmse:.3g}" in text
    assert "normalised MSE by lead time in steps" in text
    assert "persistence" in text
    assert "90 % intervals" in text
    assert "not scored: linear, polynomial, analog, kernel: fitted to the training rows" in text
    assert found["skill"]["persistence"][0] > found["skill"]["model"][0]


def test_evaluate_says_what_it_scores(lln, room, tmp_path):
    done = lln("evaluate", room / "one.lln", room / "train.npz")
    assert done.code == 0, done.err
    assert "scored on training data" in done.out
    assert "fit with --test 0.15" in done.err
    part = np.load(room / "train.npz")["states"][0, 20:120]
    np.save(tmp_path / "part.npy", part)
    assert "training data" in lln("evaluate", room / "one.lln", tmp_path / "part.npy", "--dt", 0.01).out


def test_the_models_own_columns_are_found_in_a_wider_file(lln, room, tmp_path):
    states = np.load(room / "test.npz")["states"][0]
    head = "time,other,x,y,z"
    table = np.column_stack([np.arange(len(states)) * 0.01, np.cos(np.arange(len(states))), states])
    np.savetxt(tmp_path / "x.csv", table, delimiter=",", header=head, comments="", fmt="%.17g")
    LensForecaster(**QUICK).fit(tmp_path / "x.csv", states=["x", "y", "z"]).save(tmp_path / "x.lln")
    assert lln("evaluate", tmp_path / "x.lln", tmp_path / "x.csv").code == 0
    assert lln("rollout", tmp_path / "x.lln", "--from", tmp_path / "x.csv", "-o", tmp_path / "r.nc").code == 0
    assert read(tmp_path / "r.nc").names == ("x", "y", "z")


def test_dates_are_those_of_the_file_that_a_rollout_starts_from(lln, tmp_path):
    angle = 0.1 * np.arange(200)
    for name, day in (("old", "2024-01-01"), ("new", "2025-06-01")):
        dates = np.datetime64(day, "s") + np.arange(200) * np.timedelta64(6, "h")
        lines = [f"{date},{np.sin(a)},{np.cos(a)}" for date, a in zip(dates, angle, strict=True)]
        (tmp_path / f"{name}.csv").write_text("date,x,y\n" + "\n".join(lines))
    LensForecaster(**QUICK).fit(tmp_path / "old.csv").save(tmp_path / "m.lln")
    for suffix in (".csv", ".nc"):
        out = tmp_path / f"out{suffix}"
        assert lln("rollout", tmp_path / "m.lln", "--from", tmp_path / "new.csv", "--steps", 2, "-o", out).code == 0
        assert read(out).units["time"] == "seconds since 2025-06-01T00:00:00"
        assert lln("rollout", tmp_path / "m.lln", "--steps", 2, "-o", out).code == 0
        began = np.datetime64("2024-01-01") + 199 * np.timedelta64(6, "h")
        data = read(out)
        first = np.datetime64(data.units["time"].removeprefix("seconds since "))
        assert first + np.timedelta64(round(data.series[0].start), "s") == began
    assert (tmp_path / "out.csv").read_text().splitlines()[1].startswith("2024-02-19T18:00:00,")
    both = read(tmp_path / "old.csv"), read(tmp_path / "new.csv")
    joined = as_dataset(list(both))
    assert [one.start for one in joined.series] == [0.0, 517 * 86400.0]
    assert "time step   6 hours\n" in lln("inspect", tmp_path / "m.lln").out


def test_inspect(lln, room):
    done = lln("inspect", room / "two.lln")
    assert done.code == 0, done.err
    assert f"written by  lln {__version__}" in done.out
    assert max(map(len, done.out.splitlines())) <= 100
    found = json.loads(lln("inspect", room / "two.lln", "--json").out)
    assert found["history"] == 2
    assert found["lln"] == __version__
    assert found["recipe"]["width"] == 16
    assert found["model_parameters"] == load(room / "two.lln").parameters_
    assert found["data"]["dt"] == pytest.approx(0.01)


def test_bad_models(refused, room, tmp_path):
    whole = (room / "one.lln").read_bytes()
    (tmp_path / "cut.lln").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "text.lln").write_text("hello, this is not a model")
    (tmp_path / "newer.lln").write_bytes(_newer(whole))
    out = tmp_path / "r.npz"
    refused(["rollout", room / "oen.lln", "-o", out], "oen.lln: no such file", "did you mean 'one.lln'")
    for name, part in (("cut.lln", "cut short"), ("text.lln", "not a whole model file"), ("newer.lln", "update lln")):
        refused(["rollout", tmp_path / name, "-o", out], name, part)
        refused(["inspect", tmp_path / name], name, part)
        refused(["evaluate", tmp_path / name, room / "test.npz"], name, part)
    refused(["inspect", room / "train.npz"], "train.npz")
    assert not out.exists()


def _newer(content):
    """The same file with a format from the future, of the same length."""
    assert content.count(b'\\"format\\": 2,') == 1
    return content.replace(b'\\"format\\": 2,', b'\\"format\\": 9,')


def test_model_and_data_that_do_not_fit(refused, room, tmp_path):
    out = tmp_path / "r.npz"
    np.savez(tmp_path / "wide.npz", time=np.arange(600) * 0.01, states=np.random.default_rng(0).normal(size=(600, 5)))
    refused(["evaluate", room / "one.lln", tmp_path / "wide.npz"], "wide.npz", " 5 ", " 3 ")
    refused(["rollout", room / "one.lln", "--from", tmp_path / "wide.npz", "-o", out], " 5 ", " 3 ")
    states = np.load(room / "test.npz")["states"][0]
    np.savez(tmp_path / "coarse.npz", time=np.arange(300) * 0.02, states=states[:600:2])
    refused(["evaluate", room / "one.lln", tmp_path / "coarse.npz"], "time step is 0.02", "steps by 0.01")
    np.savez(tmp_path / "short.npz", time=np.arange(2) * 0.01, states=states[:2])
    refused(["rollout", room / "two.lln", "--from", tmp_path / "short.npz", "--steps", 1, "-o", out], "at least 2")
    np.savez(tmp_path / "gap.npz", time=np.arange(3) * 0.01, states=np.r_[[[np.nan] * 3], states[:2]])
    refused(["rollout", room / "one.lln", "--from", tmp_path / "gap.npz", "-o", out], "begins with a gap")
    refused(["rollout", room / "one.lln", "-o", tmp_path / "r.xyz"], "'.xyz' is not known")
    refused(["evaluate", room / "one.lln", room / "test.npz", "--steps", 9999], "fewer steps")
    refused(["evaluate", room / "one.lln", room / "test.npz", "--states", "staets"], "'staets'", "'states'")
    assert not out.exists()


def test_exponents_of_the_model_stand_beside_the_true_ones(lln, refused, room, tmp_path):
    lln("simulate", "lorenz-28", "--steps", 300, "--seed", 5, "-o", tmp_path / "l.nc")
    done = lln("evaluate", room / "one.lln", tmp_path / "l.nc", "--lyapunov", "--json")
    assert done.code == 0, done.err
    said = json.loads(done.out)
    found = said["lyapunov"]
    assert found["system"] == "lorenz-28"
    assert found["true"]["exponents"][0] == pytest.approx(0.906, rel=0.03)
    assert abs(found["true"]["exponents"][1]) < 0.02
    assert found["true"]["exponents"][2] == pytest.approx(-14.57, rel=0.02)
    assert len(found["learned"]["exponents"]) == 3
    assert said["valid_lyapunov_times"] == pytest.approx(
        said["valid_prediction_time"] * found["true"]["exponents"][0], rel=1e-6
    )
    refused(["evaluate", room / "one.lln", tmp_path / "l.nc", "--system", "lorenz"], "did you mean 'lorenz-2")
    refused(["evaluate", room / "one.lln", tmp_path / "l.nc", "--system", "ks-64"], "64 coordinates but the data 3")


def test_exponents_of_the_model_alone(lln, room):
    done = lln("evaluate", room / "one.lln", room / "test.npz", "--lyapunov")
    assert done.code == 0, done.err
    assert "learned" in done.out
    assert "true" not in done.out
    assert "--system NAME" in done.err


def test_a_monthly_file_goes_to_a_plotted_forecast_with_intervals_and_real_dates(lln, tmp_path):
    months = [f"{1990 + k // 12}-{k % 12 + 1:02d}-01" for k in range(120)]
    values = [100 + k + 20 * math.sin(2 * math.pi * k / 12) for k in range(120)]
    data, model = tmp_path / "sales.csv", tmp_path / "sales.lln"
    rows = [f"{day},shop,{value:.3f}" for day, value in zip(months, values, strict=True)]
    data.write_text("\n".join(["when,where,sales", *rows]) + "\n")
    assert lln("fit", data, "-o", model).code == 0
    out, picture = tmp_path / "forecast.csv", tmp_path / "forecast.png"
    done = lln("rollout", model, "-o", out, "--steps", "12", "--level", "0.9", "--plot", picture)
    assert done.code == 0, done.err
    lines = out.read_text().splitlines()
    assert "sales lower" in lines[0]
    assert lines[2].startswith("2000-01-01")
    assert picture.read_bytes().startswith(b"\x89PNG")
