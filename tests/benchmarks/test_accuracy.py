"""The accuracy benchmark: equations conserve what they should, and baselines roll out what they were fitted to."""

import json
from functools import partial

import numpy as np
import pytest

from benchmarks.accuracy.baselines import autoregression, roll, tuned
from benchmarks.accuracy.equations import CONSERVED, PROBLEMS, double_pendulum, integrated
from benchmarks.accuracy.kinds import KINDS, Split
from benchmarks.accuracy.rows import Rows, Task
from benchmarks.accuracy.series import SERIES, origins


@pytest.mark.parametrize("name", CONSERVED)
def test_systems_with_an_energy_keep_it(name):
    system = CONSERVED[name]
    energy = system.energy(integrated(system.right, np.asarray(system.start), system.dt, 300, 0.0))
    np.testing.assert_allclose(energy, energy[0], rtol=1e-9)


def test_the_double_pendulum_keeps_its_energy():
    a, b, u, v = integrated(double_pendulum, np.array([1.0, 2.0, 0.0, 0.5]), 0.05, 100, 0.0).T
    kinetic = u**2 + v**2 / 2 + u * v * np.cos(a - b)
    energy = kinetic - 9.81 * (2 * np.cos(a) + np.cos(b))
    np.testing.assert_allclose(energy, energy[0], rtol=1e-8)


@pytest.mark.parametrize("name", ["Lorenz, dt 0.01", "forced Van der Pol", "Mackey-Glass", "Halvorsen"])
def test_problems_are_repeatable_and_keep_moving(name):
    make = PROBLEMS[name].make
    one, again = (make(120, np.random.default_rng(1)) for _ in range(2))
    np.testing.assert_array_equal(one, again)
    assert np.isfinite(one).all()
    assert (one.std(axis=0) > 1e-3).all()


@pytest.mark.parametrize("name", [name for name in KINDS if "Chua" not in name])
def test_kinds_of_data_are_repeatable_and_draws_differ(name):
    one, again, other = (np.asarray(KINDS[name].make(np.random.default_rng(seed))) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, again)
    assert np.isfinite(one).all()
    assert len(one) > 4 * KINDS[name].steps
    assert not np.array_equal(one, other)


def test_forecasts_of_a_split_start_in_unseen_rows_and_the_last_state_is_no_error():
    split = Split.of(np.arange(100.0)[:, None], 10)
    assert (split.cut, split.starts[0], split.starts[-1]) == (75, 75, 90)
    np.testing.assert_array_equal(split.before(1)[:, 0, 0], split.starts - 1)
    assert split.error(split.truth) == 0
    assert split.error(split.truth + 1) == pytest.approx(1 / np.arange(75.0).var())


def test_many_starts_roll_out_as_one_does():
    x = np.cumsum(np.random.default_rng(0).normal(size=(200, 2)), axis=0)
    advance = autoregression(x, 3, 1e-6)
    pasts = np.stack([x[i : i + 3] for i in (5, 50, 90)])
    together = roll(advance, pasts, 7)
    assert together.shape == (3, 7, 2)
    np.testing.assert_allclose(together[1], roll(advance, pasts[1], 7))


def test_the_tuned_autoregression_finds_an_oscillation():
    x = np.sin(0.5 * np.arange(300))[:, None]
    history, advance = tuned(x[:250], 20, ("AR",))["AR"]
    np.testing.assert_allclose(roll(advance, x[250 - history : 250], 20), x[250:270], atol=1e-3)


def test_origins_have_whole_windows():
    x = np.arange(400.0)
    x[330] = np.nan
    starts = origins(x, 300, 10, longest=20)
    assert all(np.isfinite(x[i - 20 : i + 10]).all() for i in starts)
    assert min(starts) >= 300
    assert {one.steps for one in SERIES.values()} >= {5, 12, 52}


def test_rows_are_run_once_for_the_same_data_and_the_forecaster_again_when_asked(tmp_path):
    ran = []

    def run(data, *, again=False):
        table = Rows(tmp_path / "rows.json", again=again)
        ours, others = lambda: ran.append("ours") or {"lln": 1}, lambda: ran.append("AR") or {"AR": 2}
        list(table.run([Task("a", data, ours, others)], ("AR",)))
        return {key: value for key, value in table.rows["a"].items() if key != "data"}

    one, other = np.zeros(3), np.ones(3)
    assert run(one) == {"AR": 2, "lln": 1}
    assert ran == ["AR", "ours"]
    run(one)
    assert ran == ["AR", "ours"]
    run(one, again=True)
    assert ran == ["AR", "ours", "ours"]
    run(other)
    assert ran[3:] == ["AR", "ours"]


def test_rows_of_several_processes_are_those_of_one(tmp_path):
    tasks = [Task(str(k), np.full(3, k), partial(dict, lln=k), partial(dict, AR=-k)) for k in range(3)]
    tables = [Rows(tmp_path / f"{jobs}.json") for jobs in (1, 2)]
    keys = [sorted(table.run(tasks, ("AR",), jobs)) for table, jobs in zip(tables, (1, 2), strict=True)]
    assert keys == [["0", "1", "2"]] * 2
    assert tables[0].rows == tables[1].rows == json.loads((tmp_path / "2.json").read_text())["rows"]
