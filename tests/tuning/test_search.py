import gc
import json
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from lln.core.errors import InputError
from lln.forecaster.forecaster import LensForecaster
from lln.tuning import search as module
from lln.tuning import storage as store
from lln.tuning.search import OBJECTIVES, RANGES, SPACE, search

optuna = pytest.importorskip("optuna")

FIXED = {"history": 1, "members": 1, "epochs": 4, "depth": 2, "batch_size": 64}


def pendulum(rows=200):
    """A nonlinear oscillation, so that sizes matter."""
    states = np.empty((rows, 2))
    angle, speed = 1.5, 0.0
    for row in states:
        speed -= 0.1 * np.sin(angle)
        angle += 0.1 * speed
        row[:] = angle, speed
    return states


def small(tmp_path, budget=3, **options):
    return search(pendulum(), budget, storage=tmp_path / "s.db", fixed={**FIXED, **options.pop("fixed", {})}, **options)


def test_a_search_finds_and_repeats(tmp_path):
    found = small(tmp_path, 4)
    assert [trial.number for trial in found.trials] == list(range(4))
    assert {trial.state for trial in found.trials} <= {"complete", "pruned"}
    done = [trial for trial in found.trials if trial.values]
    assert found.best.values["rollout"] == min(trial.values["rollout"] for trial in done)
    assert set(found.best.options) == (set(SPACE) | set(RANGES)) - set(FIXED)
    assert replace(found, defaults=None).options == {**FIXED, **found.best.options}
    again = small(tmp_path / "other", 4)
    assert again.trials == found.trials
    assert json.loads(json.dumps(found.record()))["best"]["number"] == found.best.number
    assert str(found.best.number) in found.table.to_markdown()


def test_a_search_shows_itself_as_a_table(tmp_path):
    found = replace(small(tmp_path, 1), defaults=None)
    assert repr(found) == str(found)
    assert "Search 'lln': 1 complete" in repr(found)
    assert "best: LensForecaster(history=1, " in repr(found)
    assert repr(found).endswith("), trial 0")
    worse = replace(found, defaults={"rollout": found.best.values["rollout"] / 2})
    assert repr(worse).endswith("best: LensForecaster(), no trial has a lower error than the defaults")
    assert "<table>" in worse._repr_html_()
    assert "Trial(" not in repr(worse)


def test_the_defaults_are_scored_once_beside_the_trials(tmp_path, monkeypatch):
    seen = []
    found = small(tmp_path, 2, objectives=("rollout", "parameters"), progress=seen.append)
    assert [event.message for event in seen][-1] == "scoring the defaults"
    whole = LensForecaster(random_state=0).fit(pendulum()).report_
    assert found.defaults == {"rollout": whole.held_out_nmse, "parameters": whole.parameters}
    assert found.record()["defaults"] == found.defaults
    assert "defaults" in [row[0] for row in found.table.rows]
    errors = [row[1] for row in found.table.rows]
    assert errors == sorted(errors)
    assert len(found.trials) == 2
    monkeypatch.setattr(module, "learn_with_gaps", lambda *_, **__: pytest.fail("fitted again"))
    again = small(tmp_path, 2, objectives=("rollout", "parameters"), resume=True)
    assert again == found


@pytest.mark.parametrize("better", [False, True])
def test_the_options_are_those_of_the_defaults_where_no_trial_is_better(tmp_path, better):
    found = small(tmp_path, 1, fixed={"validation": 0.3})
    error = found.best.values["rollout"] * (0.5 if better else 2.0)
    found = replace(found, defaults={"rollout": error})
    assert found.defaults_win == better
    wanted = {"validation": 0.3} if better else {**FIXED, "validation": 0.3, **found.best.options}
    assert found.options == wanted
    assert found.record()["options"] == wanted


def test_gaps_are_filled_in_as_the_forecaster_fills_them(tmp_path):
    rng = np.random.default_rng(0)
    x = 20 + 5 * np.sin(np.arange(160) * 2 * np.pi / 12) + rng.normal(size=160)
    x[rng.choice(np.arange(2, 120), 16, replace=False)] = np.nan
    fixed = {"parts": "linear", "width": 16, "basis": 6}
    found = search(x[:, None], 1, storage=tmp_path / "s.db", fixed=fixed)
    whole = LensForecaster(parts="linear", refit=False).fit(x[:, None]).report_
    assert "filled in" in " ".join(whole.notes)
    assert found.best.values["rollout"] == whole.held_out_nmse
    assert found.defaults == {"rollout": LensForecaster().fit(x[:, None]).report_.held_out_nmse}


def test_a_stored_search_without_scores_of_the_defaults_gets_them(tmp_path, monkeypatch):
    def refused(*_, **__):
        raise RuntimeError

    monkeypatch.setattr(store, "keep_defaults", refused)
    with pytest.raises(RuntimeError):
        small(tmp_path, 1)
    monkeypatch.undo()
    first = small(tmp_path, 1, resume=True)
    assert first.defaults is not None
    url = store.storage_url(tmp_path / "s.db")
    with store.open_storage(url) as kept:
        study = optuna.load_study(study_name="lln", storage=kept)
        study.set_user_attr(store.DEFAULTS, {"values": {"rollout": 0.0}, store.SUM: "of other scores"})
    assert small(tmp_path, 1, resume=True).defaults == first.defaults


def test_a_search_goes_on_where_the_defaults_cannot_be_fitted(tmp_path, monkeypatch):
    learn = module.learn_with_gaps

    def fails(dataset, recipe, **options):
        if recipe.epochs == "auto":
            raise ArithmeticError
        return learn(dataset, recipe, **options)

    monkeypatch.setattr(module, "learn_with_gaps", fails)
    found = small(tmp_path, 1)
    assert found.defaults is None
    assert found.record()["defaults"] is None
    assert [row[0] for row in found.table.rows] == ["0"]


def test_trials_of_one_process_share_the_open_storage(tmp_path, monkeypatch):
    opened, kind = [], optuna.storages.RDBStorage
    begin = kind.__init__
    monkeypatch.setattr(kind, "__init__", lambda self, *a, **k: opened.append(a) or begin(self, *a, **k))
    small(tmp_path, 3)
    assert len(opened) == 1


def test_a_closed_storage_leaves_no_compiled_statements(tmp_path):
    from sqlalchemy.sql.compiler import SQLCompiler

    def compiled():
        gc.collect()
        return sum(issubclass(type(thing), SQLCompiler) for thing in gc.get_objects())

    small(tmp_path, 1)
    before = compiled()
    small(tmp_path / "other", 1)
    assert compiled() == before


def test_a_finished_search_is_not_run_twice_and_a_larger_budget_adds(tmp_path):
    first = small(tmp_path, 1)
    with pytest.raises(InputError, match="already has a search called 'lln'; resume it"):
        small(tmp_path, 1)
    assert small(tmp_path, 1, resume=True).trials == first.trials
    seen = []
    longer = small(tmp_path, 3, resume=True, progress=seen.append)
    assert longer.trials[:1] == first.trials
    assert [(event.done, event.total) for event in seen] == [(2, 3), (3, 3)]
    assert longer.trials == small(tmp_path / "at once", 3).trials


def test_other_data_or_objectives_are_refused(tmp_path):
    small(tmp_path, 1)
    with pytest.raises(InputError, match="started with other objectives"):
        small(tmp_path, 1, resume=True, objectives=("rollout", "parameters"))
    with pytest.raises(InputError, match="started with other data"):
        search(pendulum(150), 1, storage=tmp_path / "s.db", resume=True, fixed=FIXED)


@pytest.mark.parametrize("second", OBJECTIVES[1:])
def test_two_objectives_give_a_front(tmp_path, second):
    found = small(tmp_path, 3, objectives=("rollout", second))
    assert all(set(trial.values) == {"rollout", second} for trial in found.trials)
    for one in found.front:
        for other in found.trials:
            assert other.values["rollout"] >= one.values["rollout"] or other.values[second] >= one.values[second]
    assert found.front[0] is found.best


def test_a_trial_that_falls_behind_is_given_up(tmp_path, monkeypatch):
    # A learning rate far too small to learn anything, after trials that did learn.
    small(tmp_path, 5, fixed={"learning_rate": 5e-3, "width": 32})
    monkeypatch.setattr(module, "propose", lambda trial, _: {"learning_rate": trial.suggest_float("slow", 1e-9, 2e-9)})
    found = small(tmp_path, 6, resume=True, fixed={"width": 32})
    assert found.trials[-1].state == "pruned"


CHILD = """
import sys
from lln.tuning.search import search
search(sys.argv[1], 3, storage=sys.argv[2], fixed={"history": 1, "members": 1, "epochs": 100000, "depth": 2})
"""


def test_a_killed_search_resumes_with_the_trial_that_was_cut_off(tmp_path):
    data, storage = tmp_path / "x.npy", tmp_path / "s.db"
    np.save(data, pendulum())
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(data), str(storage)], stderr=subprocess.PIPE)
    try:
        params = _running(storage, child)
    finally:
        child.kill()
        child.communicate()
    found = search(data, 2, storage=storage, resume=True, fixed={"history": 1, "members": 1, "epochs": 2, "depth": 2})
    assert found.trials[0].state == "failed"
    assert sum(trial.state in ("complete", "pruned") for trial in found.trials) == 2
    with store.open_storage(store.storage_url(storage)) as kept:
        retried = [t for t in optuna.load_study(study_name="lln", storage=kept).trials if store.RETRY in t.user_attrs]
    assert [trial.user_attrs[store.RETRY] for trial in retried] == [0]
    assert retried[0].params == params
    # What still runs is left alone.
    url = store.storage_url(storage)
    with store.open_storage(url) as kept:
        study = optuna.load_study(study_name="lln", storage=kept)
        store.own(study.ask(), url)
        assert store.retry_lost(study, url) == 0


def _running(storage, child, seconds=120.0):
    """The choices of the trial that runs, once it has made them all."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert child.poll() is None, child.stderr.read()
        if storage.exists():
            try:
                with store.open_storage(store.storage_url(storage)) as kept:
                    trials = optuna.load_study(study_name="lln", storage=kept).trials
            except (KeyError, InputError):  # begun, but not all of it is written
                trials = []
            if trials and len(trials[0].params) == len(SPACE) + len(RANGES) - 1:
                return trials[0].params
        time.sleep(0.1)
    raise TimeoutError("no trial began")


def test_who_opens_a_new_storage_together_shares_it(tmp_path):
    url = store.storage_url(tmp_path / "s.db")
    start = threading.Barrier(4)

    def names(_):
        start.wait()
        with store.open_storage(url) as kept:
            return optuna.get_all_study_names(kept)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(names, range(4))) == [[]] * 4


def test_two_processes_share_a_search(tmp_path):
    data = tmp_path / "x.npy"
    np.save(data, pendulum())
    found = search(str(data), 3, storage=tmp_path / "s.db", fixed=FIXED, jobs=2)
    assert sum(trial.state in ("complete", "pruned") for trial in found.trials) == 3


@pytest.mark.slow
def test_dask_workers_share_a_search(tmp_path):
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(2, threads_per_worker=1, dashboard_address=None, local_directory=str(tmp_path))
    with closing(cluster):
        address = cluster.scheduler_address
        found = search(pendulum(), 3, storage=tmp_path / "s.db", fixed=FIXED, scheduler=address)
    assert sum(trial.state in ("complete", "pruned") for trial in found.trials) == 3


def test_a_time_is_a_budget_too(tmp_path):
    began = time.monotonic()
    found = small(tmp_path, "0.5s")
    assert len(found.trials) >= 1
    assert time.monotonic() - began < 60


def test_bad_input(tmp_path, monkeypatch):
    for budget in (0, "soon", "0 min", 2.5, "-3"):
        with pytest.raises(InputError, match="budget must be"):
            small(tmp_path, budget)
    with pytest.raises(InputError, match="unknown objective 'latencey'; did you mean 'latency'"):
        small(tmp_path, objectives=("rollout", "latencey"))
    with pytest.raises(InputError, match="'rollout' first"):
        small(tmp_path, objectives=("latency",))
    with pytest.raises(InputError, match="cannot be opened as a search's storage"):
        search(pendulum(), 1, storage="nonsense://host/name")
    (tmp_path / "text.db").write_text("no database" * 100)
    with pytest.raises(InputError, match="file is not a database"):
        search(pendulum(), 1, storage=tmp_path / "text.db")
    with pytest.raises(InputError, match="did you mean 'epochs'"):
        small(tmp_path, fixed={"epoch": 3})
    with pytest.raises(InputError, match=r"unknown option 'trials'; .*'budget'.*'resample'"):
        small(tmp_path, trials=3)
    with pytest.raises(InputError, match="states in a row without a gap") as refused:
        search(pendulum()[:5], 1, storage=tmp_path / "few.db")
    assert refused.value.topic == "too-few"  # as it was in the trial
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(InputError, match=r"pip install 'lln\[search\]'"):
        small(tmp_path)


def test_a_damaged_storage_is_refused_in_one_sentence(tmp_path):
    small(tmp_path, 1)
    path = tmp_path / "s.db"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="not a whole SQLite file"):
        small(tmp_path, 1, resume=True)
    path.write_bytes(whole)
    with closing(sqlite3.connect(path)) as database:
        database.execute("UPDATE trial_values SET value = value / 2")
        database.commit()
    with pytest.raises(InputError, match="trial 0 of the search 'lln' does not match its checksum"):
        small(tmp_path, 1, resume=True)


def test_a_budget_of_time_is_kept_though_the_clock_is_set_back(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_measure", lambda *_: {"rollout": 1.0})
    began, usual = time.monotonic(), time.time
    monkeypatch.setattr("time.time", lambda: usual() - 3600 * (time.monotonic() - began > 0.5))
    assert small(tmp_path, "1s").trials


RUNNING = """
import sys
import optuna
from lln.tuning import storage
url = storage.storage_url(sys.argv[1])
with storage.open_storage(url) as opened:
    study = optuna.load_study(study_name="lln", storage=opened)
    storage.own(study.ask(), url)
    print("running", flush=True)
    sys.stdin.read()
"""


def test_a_trial_of_another_container_with_the_same_host_name_is_left_alone(tmp_path):
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-pf", "true"], check=False).returncode:
        pytest.skip("no name spaces of processes here")
    small(tmp_path, 1)
    url = store.storage_url(tmp_path / "s.db")
    words = ["unshare", "-pf", sys.executable, "-c", RUNNING, str(tmp_path / "s.db")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"running\n"
        with store.open_storage(url) as opened:
            study = optuna.load_study(study_name="lln", storage=opened)
            assert store.retry_lost(study, url) == 0
        other.kill()
        other.wait()
    deadline = time.monotonic() + 20  # the process inside the name space ends with its parent
    with store.open_storage(url) as opened:
        study = optuna.load_study(study_name="lln", storage=opened)
        while (lost := store.retry_lost(study, url)) == 0 and time.monotonic() < deadline:
            time.sleep(0.1)
    assert lost == 1
    assert not list(tmp_path.glob(".s.db.*"))


def test_an_owner_is_judged_by_its_heartbeat_where_there_is_no_file():
    def gone(**attributes):
        return store.gone(SimpleNamespace(user_attrs=attributes), "postgresql://host/db")

    assert not gone(owner="beat-0123", beat=time.time())
    assert gone(owner="beat-0123", beat=time.time() - 2 * store.SILENT_SECONDS)
    assert gone()


def test_a_search_that_was_refused_at_its_start_can_be_started_again(tmp_path):
    with pytest.raises(InputError, match="no Dask scheduler answers"):
        small(tmp_path, 1, scheduler="tcp://127.0.0.1:1")
    with pytest.raises(InputError, match="states in a row without a gap"):
        search(pendulum()[:5], 1, storage=tmp_path / "s.db", fixed=FIXED)
    assert len(small(tmp_path, 1).trials) == 1


@pytest.mark.parametrize(
    "url",
    ["nonsense://me:s3cr3t@host/name", "nonsense://me:a@s3cr3t/b@host/n", "nonsense://host/n?password=s3cr3t&x=1"],
)
def test_no_password_of_a_storage_appears_in_a_message(url):
    with pytest.raises(InputError, match="cannot be opened as a search's storage") as refused:
        search(pendulum(), 1, storage=url, fixed=FIXED)
    assert "s3cr3t" not in "".join(traceback.format_exception(refused.value))
    assert "***" in str(refused.value)


def test_options_come_as_keywords_or_as_an_estimator(tmp_path):
    estimator = LensForecaster(**FIXED, random_state=3)
    found = small(tmp_path, 1, fixed=FIXED, random_state=3)
    same = search(pendulum(), 1, storage=tmp_path / "e.db", fixed=estimator)
    assert same.trials == found.trials
    assert same.fixed == FIXED
    with pytest.raises(InputError, match="keyword arguments of LensForecaster or an estimator"):
        search(pendulum(), 1, storage=tmp_path / "f.db", fixed="epochs=3")


def test_a_trial_that_another_process_took_for_abandoned_does_not_end_the_search(tmp_path, monkeypatch):
    measure = module._measure
    taken = []

    def given_up(trial, job):
        found = measure(trial, job)
        if not taken:
            taken.append(trial.number)
            with store.open_storage(job.url) as other:
                store.load(other, job.name, 0).tell(trial.number, state=store.optuna().trial.TrialState.FAIL)
        return found

    monkeypatch.setattr(module, "_measure", given_up)
    assert [trial.number for trial in small(tmp_path, 3).trials] == [0, 1, 2]


def test_a_search_that_ended_while_it_was_begun_can_go_on(tmp_path):
    with store.open_storage(f"sqlite:///{tmp_path / 's.db'}") as storage:
        study = store.optuna().create_study(storage=storage, study_name="lln")
        study.set_user_attr("objectives", ["error"])
        assert store.begin(storage, "lln", ["error"], "the data", resume=True).user_attrs["data"] == "the data"
        with pytest.raises(InputError, match="other data"):
            store.begin(storage, "lln", ["error"], "other data", resume=True)


def test_a_search_that_another_process_begins_is_shared(tmp_path):
    with store.open_storage(f"sqlite:///{tmp_path / 's.db'}") as storage:
        first = store.begin(storage, "lln", ["error"], "the data", resume=False)
        second = store.begin(storage, "lln", ["error"], "the data", resume=False)
        assert first._study_id == second._study_id
        other = store.begin(storage, "lln", ["error", "parameters"], "the data", resume=False)
        assert len(other.directions) == 2


def test_a_storage_is_not_opened_without_the_memory_for_it(tmp_path):
    script = """
import resource, sys
import optuna
from lln.tuning.storage import open_storage

size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize() + (24 << 20)
resource.setrlimit(resource.RLIMIT_AS, (size, size))
try:
    with open_storage(sys.argv[1]):
        pass
except MemoryError:
    print("refused", "alembic" in sys.modules)
"""
    words = [sys.executable, "-c", script, f"sqlite:///{tmp_path / 's.db'}"]
    ended = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    assert ended.stdout.split() == ["refused", "False"], ended.stderr
    assert not (tmp_path / "s.db").exists()
