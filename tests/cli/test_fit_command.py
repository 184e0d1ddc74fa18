import json
import os
import pty
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from safetensors.numpy import load_file

from lln.forecaster.file import load
from lln.systems import preset, simulate

QUICK = ("--members", "1", "--history", "1", "--depth", "2", "--width", "16", "--epochs", "3")
COMMAND = [sys.executable, "-c", "from lln.cli import main; main()"]


@pytest.fixture
def data(tmp_path):
    states = simulate(preset("lorenz-28"), 600)[100:]
    np.savez(tmp_path / "l.npz", time=np.arange(len(states)) * 0.01, states=states)
    return tmp_path / "l.npz"


def test_fit_writes_a_model_and_says_what_it_did(lln, data, tmp_path):
    out = tmp_path / "new" / "l.lln"
    done = lln("fit", data, "-o", out, *QUICK)
    assert done.code == 0, done.err
    assert done.err == ""
    assert done.out.splitlines()[-1] == f"wrote {out}"
    assert [entry.name for entry in out.parent.iterdir()] == ["l.lln"]
    model = load(out)
    assert model.dt_ == pytest.approx(0.01)
    assert model.history_ == 1
    np.testing.assert_array_equal(model.last_window_[-1], np.load(data)["states"][-1])


def test_json_holds_the_report(lln, data, tmp_path):
    done = lln("fit", data, "-o", tmp_path / "l.lln", *QUICK, "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert found["file"] == str(tmp_path / "l.lln")
    assert found["report"]["held_out_nmse"] > 0
    assert found["recipe"]["members"] == 1
    assert found["recipe"]["width"] == 16


@pytest.mark.parametrize("name", ["--random-state", "--seed"])
def test_the_random_state_by_both_names(lln, data, tmp_path, name):
    assert lln("fit", data, "-o", tmp_path / "m.lln", *QUICK, name, 7).code == 0
    assert load(tmp_path / "m.lln").random_state == 7


@pytest.mark.parametrize(("name", "former"), [("--random-state", "--seed"), ("--optical-length", "--horizon")])
def test_a_name_and_its_former_name_together_are_refused(refused, data, tmp_path, name, former):
    words = ["fit", data, "-o", tmp_path / "m.lln", name, 0, former, 1]
    refused(words, f"{former} is the old name of {name}; give one of the two")
    assert not (tmp_path / "m.lln").exists()


def test_a_part_can_be_kept_for_testing(lln, data, tmp_path):
    assert lln("fit", data, "-o", tmp_path / "l.lln", *QUICK, "--test", 0.2).code == 0
    model = load(tmp_path / "l.lln")
    np.testing.assert_array_equal(model.last_window_[-1], np.load(data)["states"][400])
    assert model.training_.total == 401


def test_selections_and_the_papers_recipe(lln, tmp_path):
    states = simulate(preset("lorenz-24"), 400)
    table = np.column_stack([np.arange(401) * 0.01, states, np.sin(np.arange(401))])
    np.savetxt(tmp_path / "x.csv", table, delimiter=",", header="t,a,b,c,push", comments="")
    words = ("--states", "a,b,c", "--inputs", "push", "--time", "t")
    done = lln("fit", tmp_path / "x.csv", "-o", tmp_path / "x.lln", *QUICK, *words)
    assert done.code == 0, done.err
    model = load(tmp_path / "x.lln")
    assert model.names_ == ("a", "b", "c")
    assert model.input_names_ == ("push",)
    done = lln("fit", tmp_path / "x.csv", "-o", tmp_path / "p.lln", "--recipe", "paper", "--epochs", 1, "--depth", 2)
    assert done.code == 0, done.err


def test_bad_input(refused, lln, data, tmp_path):
    out = tmp_path / "m.lln"
    refused(["fit", tmp_path / "l.npy", "-o", out], "l.npy: no such file", "did you mean 'l.npz'")
    refused(["fit", data, "-o", tmp_path], "a folder; give the name of a file")
    refused(["fit", data, "-o", out, "--history", "some"], "--history must be a number or auto, got 'some'")
    refused(["fit", data, "-o", out, "--recipe", "lense"], "'lense'", "'lens'")
    refused(["fit", data, "-o", out, "--model", "mpl"], "'mpl'", "'mlp'")
    refused(["fit", data, "-o", out, "--states", "state"], "'state'", "'states'")
    refused(["fit", data, "-o", out, "--time", "tiem"], "'tiem'", "'time'")
    refused(["fit", data, "-o", out, "--device", "cuda:99", *QUICK], "cuda")
    assert lln("fit", data, "-o", out, "--members", 0).code == 2
    assert not out.exists()


def write_csv(path, rows, head="x,y,z"):
    path.write_text("\n".join([head, *(",".join(map(str, row)) for row in rows)]))
    return path


def test_what_newcomers_bring(refused, lln, tmp_path):
    out = tmp_path / "m.lln"
    states = simulate(preset("lorenz-28"), 300)
    np.save(tmp_path / "turned.npy", states.T)
    refused(["fit", tmp_path / "turned.npy", "-o", out], "turned.npy", "time")
    np.save(tmp_path / "one.npy", states[:1])
    refused(["fit", tmp_path / "one.npy", "-o", out], "one.npy", "one time step")
    text = write_csv(tmp_path / "text.csv", [*states[:5].tolist(), ["a", "b", "c"], *states[5:9].tolist()])
    refused(["fit", text, "-o", out], "text.csv", "'a'")
    uneven = [[t, *row] for t, row in zip(np.arange(301) ** 1.1, states.tolist(), strict=True)]
    refused(["fit", write_csv(tmp_path / "u.csv", uneven, "time,x,y,z"), "-o", out], "u.csv", "--resample")
    (tmp_path / "cut.npz").write_bytes(b"PK\x03\x04 cut short")
    refused(["fit", tmp_path / "cut.npz", "-o", out], "cut.npz", "cut short")
    np.save(tmp_path / "nan.npy", np.full((50, 3), np.nan))
    refused(["fit", tmp_path / "nan.npy", "-o", out], "nan.npy", "NaN")
    assert not out.exists()
    gaps = states.copy()
    gaps[40:43] = np.nan
    constant = np.column_stack([gaps, np.ones(301)])
    np.save(tmp_path / "gaps.npy", constant)
    done = lln("fit", tmp_path / "gaps.npy", "-o", out, *QUICK)
    assert done.code == 0, done.err
    assert "does not vary" in done.err
    assert "left out" in done.out


SLOW = ("--members", "2", "--history", "1", "--depth", "4", "--width", "32", "--epochs", "60")


def begin(data, out, *words):
    """Begin a fit and wait for its first checkpoint."""
    command = [*COMMAND, "fit", str(data), "-o", str(out), *SLOW, *words]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    checkpoint = out.with_name(f"{out.name}.checkpoint")
    deadline = time.monotonic() + 120
    while not checkpoint.exists():
        assert child.poll() is None, child.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return child, checkpoint


@pytest.mark.parametrize("blow", [signal.SIGKILL, signal.SIGINT])
def test_a_fit_that_was_cut_off_goes_on_to_the_same_model(lln, data, tmp_path, blow):
    whole, cut = tmp_path / "whole.lln", tmp_path / "cut.lln"
    assert lln("fit", data, "-o", whole, *SLOW).code == 0
    child, checkpoint = begin(data, cut)
    child.send_signal(blow)
    _, err = child.communicate(timeout=60)
    assert not cut.exists()
    assert checkpoint.exists()
    if blow == signal.SIGINT:
        assert child.returncode == 130
        expected = f"lln: interrupted; {checkpoint} is kept, and the same command with --resume continues from it\n"
        assert err == expected
    done = lln("fit", data, "-o", cut, *SLOW, "--resume")
    assert done.code == 0, done.err
    assert not checkpoint.exists()
    ours, theirs = load_file(whole), load_file(cut)
    assert ours.keys() == theirs.keys()
    for name, tensor in ours.items():
        np.testing.assert_array_equal(tensor, theirs[name], err_msg=name)


def test_resume_without_a_checkpoint_begins_anew(lln, data, tmp_path):
    done = lln("fit", data, "-o", tmp_path / "l.lln", *QUICK, "--resume")
    assert done.code == 0
    assert "does not exist, so the fit starts from the beginning" in done.err


def test_a_terminal_sees_progress(data, tmp_path):
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100"}
    command = [*COMMAND, "fit", str(data), "-o", str(tmp_path / "l.lln"), *QUICK]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, env=environment) as child:
        os.close(theirs)
        shown = b""
        while True:
            try:
                part = os.read(ours, 4096)
            except OSError:  # the other side has closed
                break
            if not part:
                break
            shown += part
        out = child.stdout.read()
    os.close(ours)
    assert child.returncode == 0
    assert "━".encode() in shown
    assert b"wrote" in out
    assert b"\x1b" not in out
