import itertools
import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from benchmarks.forecast import data as forecast_data
from benchmarks.forecast import run as forecast
from benchmarks.forecast.data import Problem, noisy_problem, problem_of
from benchmarks.forecast.table import show, verdict
from lln.fit.fitter import Recipe
from lln.models.counting import comparator_cost
from lln.models.factory import COMPARATORS
from lln.systems import preset, simulate


def test_the_split_is_the_papers():
    problem = problem_of("split", "lorenz-28")
    states, row = problem.tests[0]
    assert (problem.dataset.transitions(1), row) == (3000, 3500)
    np.testing.assert_array_equal(np.asarray(problem.dataset.series[0].states), states[500:3501])
    assert problem.errors(lambda window, steps: np.repeat(window[:, -1:], steps, axis=1), 1).shape == (1,)


def test_several_trajectories_have_eight_windows_on_unseen_ones():
    problem = problem_of("trajectories", "reactiondiff-32")
    assert problem.dataset.lengths == (3001,) * 4
    assert [row for _, row in problem.tests] == [500, 1000] * 4
    assert problem.dataset.space == (32,)
    right = problem.errors(lambda _, steps: _truth(problem, steps), 1)
    assert not right.any()


def _truth(problem, steps):
    return np.stack([states[row + 1 : row + 1 + steps] for states, row in problem.tests])


def test_a_rollout_that_diverges_is_infinitely_wrong():
    problem = problem_of("split", "lorenz-28")
    assert np.isinf(problem.errors(lambda _, steps: np.full((1, steps, 3), np.inf), 1)).all()


def test_noise_is_on_what_trains_alone():
    clean, noisy = problem_of("split", "lorenz-28"), noisy_problem("lorenz-28", 0.01)
    change = np.asarray(noisy.dataset.series[0].states) - np.asarray(clean.dataset.series[0].states)
    np.testing.assert_allclose((change / clean.scale).std(axis=0), 0.01, rtol=0.05)
    np.testing.assert_array_equal(noisy.tests[0][0], clean.tests[0][0])


def test_comparators_are_asked_for_on_nonlinear_systems_alone():
    wanted = list(forecast.tasks(("split", "trajectories"), ("lens", "mlp"), ("lorenz-28", "advecdiff-32")))
    assert [(t["table"], t["system"], t["model"]) for t in wanted] == [
        ("split", "lorenz-28", "lens"),
        ("split", "advecdiff-32", "lens"),
        ("trajectories", "lorenz-28", "lens"),
        ("trajectories", "advecdiff-32", "lens"),
        ("trajectories", "lorenz-28", "mlp"),
    ]


def test_what_is_stored_is_not_run_again(tmp_path, capsys):
    words = ["--only", "split", "--models", "linear-best", "--systems", "advecdiff-32", "--out", str(tmp_path)]
    assert forecast.main(words) == 0
    stored = (tmp_path / "forecast-split.json").read_text()
    assert forecast.main(words) == 0
    assert (tmp_path / "forecast-split.json").read_text() == stored
    (row,) = json.loads(stored)["rows"]
    assert row["nmse"] < 1e-12
    assert {"date", "processor", "torch", "command"} <= set(row["made"])
    assert str(tmp_path) not in row["made"]["command"]
    assert capsys.readouterr().out.count("in ") >= 1


def row(model, nmse, **more):
    return {"role": "reporting", "system": "lorenz-28", "model": model, "nmse": nmse, **more}


@pytest.mark.parametrize(("ours", "word"), [(1e-3, "holds"), (5e-3, "missed")])
def test_the_verdict_says_which_bars_hold(ours, word):
    rows = [row("lens", ours, share=[1.0], parameters_per_member=6000), row("linear", 0.6), row("analog", 0.1)]
    rows.append(row("linear-wide", 0.5))
    rows += [row(name, 4e-3, parameters_per_member=40_000) for name in COMPARATORS]
    lines = verdict({"trajectories": rows})
    assert f"{word}: lorenz-28, several trajectories" in "\n".join(lines)
    assert "holds: lorenz-28: 0.150 of the parameters of mlp" in lines
    assert "lorenz-28" in show({"trajectories": rows})


@pytest.mark.parametrize(("wide", "twice"), [(0.5, 1), (1.5e-3, 0)])
def test_the_verdict_counts_the_better_of_both_linear_maps(wide, twice):
    rows = [row("lens", 1e-3, share=[1.0], parameters_per_member=6000), row("linear", 0.6), row("linear-wide", wide)]
    rows += [row(name, 4e-3, parameters_per_member=40_000) for name in ("analog", *COMPARATORS)]
    said = "\n".join(verdict({"trajectories": rows}))
    assert f"network used and twice as good as both linear maps on {twice} systems" in said
    assert ("lorenz-28: next best is linear-wide" in said) == (wide < 4e-3)


@pytest.fixture
def small(monkeypatch):
    """The same questions about 400 states of Lorenz, with one epoch of one small network."""
    states = np.asarray(simulate(preset("lorenz-28"), 1000, dtype="float64"))
    problem = Problem(forecast_data._dataset("lorenz-28", [states[:400]]), ((states, 400),), states[:400].std(axis=0))
    monkeypatch.setattr(forecast, "problem_of", lambda *_: problem)
    monkeypatch.setattr(forecast, "noisy_problem", lambda *_: problem)
    monkeypatch.setattr(forecast, "Recipe", partial(Recipe, epochs=1, members=1, history=1, ridge=1e-6))
    monkeypatch.setattr(forecast, "DEPTHS", (1, 2))
    monkeypatch.setattr(forecast, "REPORTING", {"trajectories": (0, 1), "noise": (0,)})
    monkeypatch.setattr(forecast, "CHOOSING", (0, 1))
    forecast._linear.cache_clear()
    yield problem
    forecast._linear.cache_clear()


def asked(table, model):
    return {"table": table, "system": "lorenz-28", "model": model, "device": "cpu"}


def test_a_comparator_reports_at_the_depth_and_rate_that_it_chose_on_held_out_rollouts(small):
    *choosing, reporting = forecast.run_task(asked("trajectories", "mlp"))
    *depths, slow, fast = choosing
    assert [row["depth"] for row in depths] == [1, 2]
    assert [row["learning_rate"] for row in (slow, fast)] == list(forecast.RATES)
    deep = min(depths, key=lambda row: row["held_out"])
    assert reporting["depth"] == slow["depth"] == fast["depth"] == deep["depth"]
    best = min((deep, slow, fast), key=lambda row: row["held_out"])
    assert reporting["learning_rate"] == best.get("learning_rate", 2e-3)
    cost = comparator_cost("mlp", small.dataset.size, small.dataset.size, width=128, depth=reporting["depth"])
    assert reporting["parameters_per_member"] == cost.parameters
    assert reporting["seeds"] == [0, 1]
    assert len(reporting["nmse_of_seeds"]) == 2
    # The mean over seeds and windows is geometric.
    assert reporting["nmse"] == pytest.approx(np.exp(np.log(reporting["nmse_of_windows"]).mean()))
    assert reporting["seconds"] > 0


@pytest.mark.usefixtures("small")
def test_references_and_noise_have_rows_of_their_own():
    rows = {name: forecast.run_task(asked("trajectories", name))[0] for name in ("linear", "linear-wide", "analog")}
    assert all(0 < row["nmse"] < np.inf for row in rows.values())
    assert rows["linear"]["ridge"][0] in forecast.RIDGES
    (noise,) = forecast.run_task(asked("noise", "lens"))
    assert noise["clean"] == noise["noisy"]  # the fixture gives the same data to both
    assert set(noise["clean"]) >= {"nmse", "held_out", "estimated_noise", "found_noisy", "bounded_for_10000_steps"}


ROOT = Path(__file__).parents[2]


def stored_rows():
    found = {}
    for row in json.loads((ROOT / "benchmarks/results/forecast-trajectories.json").read_text())["rows"]:
        if row["role"] == "reporting":
            found.setdefault(row["system"], {})[row["model"]] = row
    return found


def table_of(page, head):
    """The lines of the table that begins with `head`: cells by the name of the system."""
    text = (ROOT / page).read_text()
    _, below = text.split(f"{head} |", 1)
    lines = itertools.takewhile(lambda line: line.startswith("|"), below.splitlines()[2:])
    cells = [line.strip("| ").split(" | ") for line in lines]
    return {line[0].lower(): line for line in cells}


def check_cells(cells, named, best):
    """Numbers as stored; what is lowest is bold, and so is what is as low."""
    for place, (row, digits) in named.items():
        assert float(cells[place].strip("*")) == pytest.approx(row["nmse"], rel=digits), (cells, place)
    least = min(best["nmse"], *(row["nmse"] for row, _ in named.values()))
    lowest = {place for place, (row, _) in named.items() if row["nmse"] == pytest.approx(least, rel=1e-6)}
    assert {place for place, cell in enumerate(cells) if cell.startswith("**")} == lowest


def test_the_page_on_accuracy_tells_what_is_stored():
    found, told = (
        stored_rows(),
        table_of("docs/accuracy.md", "| system | `LensForecaster` | linear map of the present state"),
    )
    assert set(told) == set(forecast_data.NONLINEAR)
    for system, cells in told.items():
        rows = found[system]
        best = min((rows[name] for name in COMPARATORS), key=lambda row: row["nmse"])
        named = {1: (rows["lens"], 0.005), 2: (rows["linear"], 0.05), 3: (rows["linear-wide"], 0.005)}
        check_cells(cells, {**named, 4: (rows["analog"], 0.05)}, best)
        if max(rows["lens"]["share"]) > 0:
            assert cells[5].startswith(f"{best['nmse']:.2e} (")
            assert cells[5].endswith(f", depth {best['depth']})")
        else:
            assert best["nmse"] == pytest.approx(rows["lens"]["nmse"], rel=1e-6)
    left_out = set(found) - set(forecast_data.NONLINEAR)
    assert "The four linear systems" in " ".join((ROOT / "docs/accuracy.md").read_text().split())
    assert len(left_out) == 4
    assert all(found[system][model]["nmse"] < 1e-10 for system in left_out for model in ("linear", "linear-wide"))
