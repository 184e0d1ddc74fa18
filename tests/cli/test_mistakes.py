import numpy as np
import pytest
from forcing import delayed

from lln.forecaster.forecaster import LensForecaster

ANGLE = 0.1 * np.arange(300)
STATES = np.stack([np.cos(ANGLE), np.sin(ANGLE)], axis=1)


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mistakes")
    rows = np.c_[ANGLE, STATES]
    np.savetxt(folder / "good.csv", rows, delimiter=",", header="time,a,b", comments="")
    LensForecaster(members=1, epochs=1, width=8, depth=2, history=1).fit(folder / "good.csv").save(folder / "m.lln")
    return folder


def csv(folder, name, header, rows):
    np.savetxt(folder / name, rows, delimiter=",", header=header, comments="")
    return folder / name


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (STATES > 0, "'states' holds bool, not numbers; save it as float64"),
        (STATES + 1j, "'states' is complex; give real and imaginary parts as columns"),
        (np.zeros((2, 3, 4, 5)), "an array of shape (2, 3, 4, 5) does not say which axis is what; write it as NetCDF"),
        (np.zeros((0, 3)), "is empty, shape (0, 3); give at least two times"),
    ],
)
def test_arrays_that_are_no_trajectories(refused, tmp_path, array, said):
    np.save(tmp_path / "x.npy", array)
    refused(["fit", tmp_path / "x.npy", "-o", tmp_path / "m.lln"], "x.npy: ", said)


def test_times_and_states_of_different_length(refused, tmp_path):
    np.savez(tmp_path / "x.npz", time=ANGLE[:100], states=STATES)
    refused(["fit", tmp_path / "x.npz", "-o", tmp_path / "m.lln"], "'time' has 100 times", "(300, 2)", "one time for")


def test_two_columns_of_one_kind(refused, lln, tmp_path):
    twice = csv(tmp_path, "twice.csv", "time,a,a", np.c_[ANGLE, STATES])
    refused(["fit", twice, "-o", tmp_path / "m.lln"], "two columns are called 'a'; rename one")
    times = csv(tmp_path, "times.csv", "time,t,a,b", np.c_[ANGLE, ANGLE, STATES])
    refused(["fit", times, "-o", tmp_path / "m.lln"], "'time' and 't' could both be time; name it with --time")
    quick = ("--members", 1, "--epochs", 1, "--width", 8, "--depth", 2, "--history", 1)
    done = lln("fit", times, "-o", tmp_path / "m.lln", "--time", "time", "--states", "a,b", *quick)
    assert done.code == 0, done.err


def test_a_model_where_data_is_expected_and_the_other_way_round(refused, room, tmp_path):
    model, data = room / "m.lln", room / "good.csv"
    refused(["fit", model, "-o", tmp_path / "n.lln"], "m.lln: a model, where data is expected; data files end in .npz")
    refused(["evaluate", model, model], "a model, where data is expected")
    refused(["rollout", model, "--from", model, "-o", tmp_path / "r.npz"], "a model, where data is expected")
    refused(["evaluate", data, model], "good.csv: not a whole model file")
    refused(["inspect", tmp_path], "a folder; expected a model")


@pytest.mark.parametrize(
    "words",
    [
        ("fit", "good.csv", "-o", "good.csv"),
        ("fit", "good.csv", "-o", "other.csv"),
        ("rollout", "m.lln", "--from", "good.csv", "-o", "good.csv"),
        ("page", "m.lln", "-o", "m.lln"),
        ("page", "m.lln", "--data", "good.csv", "-o", "good.csv"),
        ("export", "m.lln", "-o", "m.lln"),
        ("compare", "good.csv", "--plot", "good.csv"),
        ("search", "good.csv", "-o", "good.csv"),
    ],
)
def test_no_command_writes_over_what_it_reads(refused, room, monkeypatch, words):
    monkeypatch.chdir(room)
    before = {path.name: path.read_bytes() for path in room.iterdir()}
    refused(list(words), words[-1])
    assert {path.name: path.read_bytes() for path in room.iterdir()} == before


@pytest.mark.parametrize(
    "words",
    [
        ("simulate", "lorenz-28", "--steps", 3, "-o", "a/b/s.nc"),
        ("rollout", "m.lln", "--steps", 3, "-o", "c/r.csv"),
        ("page", "m.lln", "--steps", 3, "-o", "d/p.html"),
        ("export", "m.lln", "-f", "torch", "-o", "f/m.pt2"),
        ("compare", "good.csv", "--models", "mean,persistence", "--plot", "g/c.png"),
    ],
)
def test_every_command_makes_the_folder_it_writes_to(lln, room, monkeypatch, words):
    monkeypatch.chdir(room)
    done = lln(*words)
    assert done.code == 0, done.err
    assert (room / words[-1]).is_file()


def test_a_plot_has_a_suffix_that_names_a_picture(refused, room, tmp_path):
    refused(["compare", room / "good.csv", "--plot", tmp_path / "p.xyz"], "a plot is a .png, .svg or .pdf file")
    refused(["compare", room / "good.csv", "--plot", tmp_path], "a plot is a .png")
    refused(["page", room / "m.lln", "-o", tmp_path / "p.txt"], "p.txt: a page is a .html or .htm file, got '.txt'")


def test_files_that_are_not_there(refused, room, tmp_path):
    refused(["fit", room / "godo.csv", "-o", tmp_path / "m.lln"], "no such file; did you mean 'good.csv'?")
    refused(["fit", room / "other.csv", "-o", tmp_path / "m.lln"], "no such file; check the path")
    refused(
        ["fit", tmp_path / "no" / "x.csv", "-o", tmp_path / "m.lln"], "no such file, and no folder", "check the path"
    )


@pytest.fixture(scope="module")
def forced(tmp_path_factory):
    """A model whose steps look at three earlier inputs, and files that do not suit it."""
    folder = tmp_path_factory.mktemp("forced")
    states, inputs = delayed(400, 3)
    rows = np.c_[np.arange(400.0), states, inputs]
    data = csv(folder, "d.csv", "time,y,u", rows)
    LensForecaster(parts="linear").fit(data, inputs="u").save(folder / "d.lln")
    csv(folder, "bare.csv", "time,y", rows[:, :2])
    csv(folder, "short.csv", "time,y,u", rows[:2])
    csv(folder, "others.csv", "v,w", rows[:30, 1:])
    csv(folder, "gap.csv", "u", np.where(np.arange(30) == 4, np.nan, inputs[:30, 0]))
    np.save(folder / "two.npy", rows[:30, 1:])
    np.save(folder / "one.npy", inputs[:30])
    return folder


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("rollout d.lln --steps 10 -o r.csv", "needs its known inputs (u) at each step; give --future FILE"),
        ("rollout d.lln --steps 40 --future one.npy -o r.csv", "its inputs last for 30 steps, but 40 were asked for"),
        ("rollout d.lln --steps 10 --future two.npy -o r.csv", "has 2 columns without names, but the known inputs"),
        ("rollout d.lln --steps 10 --future others.csv -o r.csv", "no column 'u' for inputs; expected one of 'v', 'w'"),
        ("rollout d.lln --steps 10 --future gap.csv -o r.csv", "gap.csv: its row 4 (counted from 0) has no finite"),
        ("rollout d.lln --steps 10 --from bare.csv -o r.csv", "bare.csv: no column 'u' for inputs"),
        ("rollout d.lln --steps 10 --from short.csv -o r.csv", "lln: short.csv: has 2 rows, but this model looks at 4"),
        ("rollout d.lln --steps 900 --from d.csv -o r.csv", "lln: d.csv: has 400 rows, but this model needs its known"),
        ("rollout d.lln --steps 10 --from d.csv --inputs u,y -o r.csv", "2 known inputs, but this model was fitted"),
        ("evaluate d.lln bare.csv", "bare.csv: no column 'u' for inputs"),
        ("evaluate d.lln short.csv", "no 5 neighbouring rows without a gap to score (3 of earlier inputs, 1 to start"),
        ("page d.lln --data bare.csv -o p.html", "bare.csv: no column 'u' for inputs"),
        ("page d.lln --data short.csv -o p.html", "no stretch of 5 rows without a gap"),
        ("animate d.lln --data bare.csv -o a.gif", "bare.csv: no column 'u' for inputs"),
        ("export d.lln --rollout -f torch -o e.pt2", "--rollout is for --format onnx"),
        ("draw d.lln -o d.svg", "this model has no lens network to draw"),
    ],
)
def test_inputs_that_a_model_with_earlier_inputs_cannot_use(refused, forced, monkeypatch, words, said):
    monkeypatch.chdir(forced)
    before = set(forced.iterdir())
    refused(words.split(), said)
    assert set(forced.iterdir()) == before


def test_future_inputs_without_names_are_taken_in_their_order(lln, forced, tmp_path):
    named = csv(tmp_path, "u.csv", "u", np.load(forced / "one.npy"))
    for file, out in ((named, "a.npy"), (forced / "one.npy", "b.npy")):
        done = lln("rollout", forced / "d.lln", "--steps", 10, "--future", file, "-o", tmp_path / out)
        assert done.code == 0, done.err
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), np.load(tmp_path / "b.npy"))


@pytest.mark.parametrize("state", ["-1", "x", "1.5"])
@pytest.mark.parametrize("words", ["compare good.csv --models mean", "simulate lorenz-28 -o s.nc"])
def test_a_random_state_that_is_no_number(lln, room, monkeypatch, words, state):
    monkeypatch.chdir(room)
    before = set(room.iterdir())
    done = lln(*words.split(), "--random-state", state)
    assert (done.code, done.out) == (2, "")
    assert "Invalid value for '--random-state'" in done.err
    assert set(room.iterdir()) == before


def test_a_number_out_of_range_is_told_in_plain_words(lln, room, monkeypatch):
    monkeypatch.chdir(room)
    done = lln("fit", "good.csv", "-o", "m.lln", "--test", "24")
    assert done.code == 2
    assert "Invalid value for '--test': must be less than or equal to 0.9" in done.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("rollout m.lln -o r.csv --steps ten", "'--steps': must be a whole number"),
        ("rollout m.lln -o r.csv --steps 1.5", "'--steps': must be a whole number"),
        ("rollout m.lln -o r.csv --level most", "'--level': must be a number"),
    ],
)
def test_what_is_no_number_is_told_in_plain_words(lln, room, monkeypatch, words, said):
    monkeypatch.chdir(room)
    before = set(room.iterdir())
    done = lln(*words.split())
    assert done.code == 2
    assert f"Invalid value for {said}" in done.err
    assert "parse" not in done.err
    assert set(room.iterdir()) == before


def test_a_level_that_held_out_rows_do_not_give(refused, room, monkeypatch):
    monkeypatch.chdir(room)
    before = set(room.iterdir())
    refused(["rollout", "m.lln", "-o", "r.csv", "--level", "0.99"], "level must be between 0.5 and 0.95", "got 0.99")
    assert set(room.iterdir()) == before


def test_more_networks_on_a_page_than_there_are(refused, room, tmp_path):
    words = ["page", room / "m.lln", "-o", tmp_path / "p.html", "--members", "9"]
    refused(words, "members = 9, but this model has 0 networks; leave members out")
    assert not (tmp_path / "p.html").exists()
