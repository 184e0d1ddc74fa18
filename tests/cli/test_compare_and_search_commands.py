import json
import re

import numpy as np
import pytest

from lln.cli.console import recipe_choices
from lln.forecaster.file import load
from lln.systems import preset, simulate

CHEAP = ("--set", "epochs=2", "--set", "members=1", "--set", "history=1", "--set", "depth=2")
BOTH = ("--random-state", 0, "--seed", 1)
RENAMED = "--seed is the old name of --random-state; give one of the two"


@pytest.fixture
def data(tmp_path):
    states = simulate(preset("lorenz-28"), 400)[100:]
    np.savez(tmp_path / "l.npz", time=np.arange(len(states)) * 0.01, states=states)
    return tmp_path / "l.npz"


def test_compare(lln, data, tmp_path):
    words = ("--models", "linear,persistence,mean", "--steps", 20)
    done = lln("compare", data, *words, "--plot", tmp_path / "c.png")
    assert done.code == 0, done.err
    for name in ("linear", "persistence", "mean"):
        assert name in done.out
    assert "normalised MSE by lead time, in steps" in done.out
    assert "times the best" in done.out
    assert (tmp_path / "c.png").stat().st_size > 1000
    found, same = (
        json.loads(lln("compare", data, *words, name, 0.9, "--json").out) for name in ("--exponent", "--lyapunov")
    )
    assert found["exponent"] == same["exponent"] == 0.9
    assert {score["name"] for score in found["models"]} == {"linear", "persistence", "mean"}


def test_compare_refuses(refused, data):
    refused(["compare", data, "--models", "lins"], "unknown model 'lins'", "did you mean")
    refused(["compare", data, "--set", "epoch=3"], "'epoch'", "did you mean 'epochs'")
    refused(["compare", data, "--set", "epochs"], "--set must be an option and its value")
    refused(["compare", data, "--models", "mean", *BOTH], RENAMED)
    refused(["compare", data, "--lyapunov", "--json"], "--lyapunov is a switch of lln evaluate", "--exponent 0.906")
    refused(["compare", data, "--exponent", 1, "--lyapunov", 1], "--lyapunov is the old name of --exponent")
    refused(
        ["compare", data, "--models", "mean", "--set", "seed=3"],
        "--set seed has no effect on a comparison",
        "use --random-state",
    )
    refused(["compare", data, "--set", "model=mlp"], "--set model has no effect on a comparison", "use --models")
    refused(["compare", data, "--models", "mean", *BOTH[:2] * 2], "one seed, each of them once", "[0, 0]")


@pytest.mark.parametrize("given", ["epochs=abc", "epochs=1,2", "epochs=", "width=3.5", "refit=maybe", "parts="])
def test_compare_refuses_a_wrong_value_before_any_work(refused, data, tmp_path, monkeypatch, given):
    monkeypatch.chdir(tmp_path)
    refused(["compare", data, "--set", given, "--plot", "c.png"], given.split("=")[0].rstrip("s"))
    assert [path.name for path in tmp_path.iterdir()] == [data.name]


def test_two_comparisons_in_one_folder_keep_each_others_checkpoint(lln, data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = [
        ("--models", "mean", "--steps", 20),
        ("--models", "persistence", "--steps", 20),
        ("--models", "mean", "--steps", 21),
        ("--models", "mean", "--steps", 20, "--test", "0.3"),
    ]
    names = [re.search(r"lln-compare-\w+\.checkpoint", lln("compare", data, *words, "--resume").err) for words in asked]
    assert len({found[0] for found in names}) == len(asked)
    first, *others = [tmp_path / found[0] for found in names]
    for path in others:
        path.write_bytes(b"work of another comparison")
    assert lln("compare", data, *asked[0]).code == 0
    assert all(path.read_bytes() == b"work of another comparison" for path in others)
    assert not first.exists()


def test_an_interrupted_search_says_what_is_kept(lln, data, tmp_path, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("lln.tuning.search.search", interrupt)
    storage = tmp_path / "s.db"
    assert lln("search", data, "--storage", storage).err == "lln: interrupted; there was nothing to keep yet\n"
    storage.touch()
    assert "the trials that ended are in" in lln("search", data, "--storage", storage).err


def test_search_then_fit_the_best(lln, data, tmp_path):
    storage = tmp_path / "s.db"
    words = ("search", data, "--budget", 2, "--storage", storage, *CHEAP)
    done = lln(*words, "-o", tmp_path / "best.lln", "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert len(found["trials"]) == 2
    assert found["defaults"]["rollout"] < found["best"]["values"]["rollout"]
    assert found["options"] == {}
    assert "best.lln, fitted with the default options" in done.err
    assert load(tmp_path / "best.lln").recipe_.width is None
    again = lln(*words, "--resume")
    assert again.code == 0, again.err
    assert f"best: lln fit {data} -o best.lln\nthat is with the defaults: no trial has a lower error\n" in again.out
    assert lln(*words).code == 2


def test_search_refuses(refused, data, tmp_path):
    words = ["search", data, "--storage", tmp_path / "s.db"]
    refused([*words, "--budget", "soon"], "budget must be a number of trials, or a time")
    refused([*words, "--objective", "speed"], "unknown objective 'speed'")
    refused([*words, "--set", "depht=2"], "did you mean 'depth'")
    refused([*words, "--budget", 1, *BOTH], RENAMED)
    refused([*words, "--budget", 1, *BOTH[:2], "--set", "random_state=3"], "--random-state is also given by --set")
    refused(["search", tmp_path / "l.npy", "--budget", 1], "no such file", "'l.npz'")
    refused([*words[:2], "--storage", "nonsense://x"], "cannot be opened as a search's storage")


def test_options_of_a_forecaster_may_be_lists():
    assert recipe_choices(["parts=linear,flow", "epochs=3", "ridge=none"]) == {
        "parts": ["linear", "flow"],
        "epochs": 3,
        "ridge": None,
    }
    assert recipe_choices(["model=lens"]) == {"model": "lens"}
