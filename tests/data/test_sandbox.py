import io
import json
import multiprocessing
import os
import subprocess
import sys
import threading
from pathlib import Path

import h5py
import numpy as np
import pytest

from lln.core.errors import InputError
from lln.data import Dataset, Series, as_dataset
from lln.data.read import sandbox, sandbox_worker
from lln.data.read.formats import FORMATS, read, write

STATES = np.random.default_rng(0).standard_normal((30, 3)).cumsum(axis=0)


@pytest.fixture(params=[".h5", ".nc", ".zarr"])
def path(request, tmp_path):
    place = tmp_path / f"data{request.param}"
    write(place, Dataset((Series(STATES),), 0.01, ("a", "b", "c"), units={"time": "s"}))
    return place


def child_of_reader():
    read_child = sandbox._access.child
    assert read_child is not None
    return read_child._process


def test_the_numbers_are_those_of_the_file(path):
    found = read(path)
    np.testing.assert_array_equal(found.series[0].states, STATES)
    assert (found.names, found.dt, found.units["time"]) == (("a", "b", "c"), 0.01, "s")


@pytest.fixture
def hostile(monkeypatch):
    """Have the child's libraries do this to whatever file they are given."""

    def install(deed):
        trick = "from lln.data.read import sandbox_worker as w; "
        trick += f"w.OPENERS = dict.fromkeys(w.OPENERS, lambda path: {deed}); "
        monkeypatch.setattr(
            sandbox,
            "START",
            sandbox.START.replace("from lln.data.read.sandbox_worker", trick + "from lln.data.read.sandbox_worker"),
        )
        sandbox._access.end()

    yield install
    sandbox._access.end()


@pytest.mark.parametrize(
    ("deed", "sentence"),
    [
        ("__import__('os').kill(__import__('os').getpid(), 11)", r"the library that reads it crashed \(SIGSEGV\)"),
        ("__import__('os').abort()", r"the library that reads it crashed \(SIGABRT\)"),
        ("__import__('os')._exit(3)", r"the library that reads it crashed \(exit code 3\)"),
        ("[0 for _ in iter(int, 1)]", "reading it did not end within 1 s"),
        ("bytearray(100 << 30)", "it asks for more memory than a file may"),
    ],
)
def test_what_a_hostile_file_does_is_contained_and_the_next_file_is_read(
    tmp_path, hostile, monkeypatch, deed, sentence
):
    path = tmp_path / "data.h5"
    write(path, Dataset((Series(STATES),), 0.01))
    monkeypatch.setattr(sandbox, "SECONDS", 1)
    hostile(deed)
    with pytest.raises(InputError, match=sentence) as caught:
        read(path)
    assert str(caught.value).startswith(str(path))
    monkeypatch.undo()
    sandbox._access.end()
    np.testing.assert_array_equal(read(path).series[0].states, STATES)


def test_rows_on_the_disk_survive_the_death_of_the_child(path, monkeypatch):
    monkeypatch.setattr("lln.data.read.store.LAZY_BYTES", 100)
    found = read(path)
    assert found.lazy
    np.testing.assert_array_equal(found.series[0].rows(3, 9), STATES[3:9])
    process = child_of_reader()
    process.kill()
    process.wait(30)
    np.testing.assert_array_equal(found.series[0].rows(20, 30), STATES[20:30])


def test_large_reads_come_in_parts(path, monkeypatch):
    monkeypatch.setattr(sandbox, "PART", 100)
    np.testing.assert_array_equal(read(path).series[0].states, STATES)


def test_a_file_that_was_read_can_be_written_again(tmp_path):
    place = tmp_path / "a.h5"
    for scale in (1.0, 2.0):
        with h5py.File(place, "w") as file:
            file["states"] = STATES * scale
        np.testing.assert_array_equal(read(place).series[0].states, STATES * scale)


def test_threads_ask_one_at_a_time(path):
    found = []

    def work():
        found.append(np.array_equal(read(path).series[0].states, STATES))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(120)
    assert found == [True] * 4


def _in_worker(path):
    return read(path).series[0].states


@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_daemonic_workers_have_a_child_of_their_own(path, how):
    read(path)
    context = multiprocessing.get_context(how)
    with context.Pool(2) as pool:  # its workers are daemonic
        for states in pool.map(_in_worker, [path] * 4):
            np.testing.assert_array_equal(states, STATES)
    np.testing.assert_array_equal(read(path).series[0].states, STATES)


def test_from_a_program_on_the_command_line_in_another_folder(path, tmp_path):
    program = "import sys; from lln.data.read.formats import read; print(read(sys.argv[1]).rows)"
    # Modules of these names beside the caller must not be taken for the libraries' own.
    (tmp_path / "json.py").write_text("raise SystemExit('a stranger was imported')")
    words = [sys.executable, "-P", "-c", program, path.name]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
    assert (done.stdout.strip(), done.stderr) == ("30", "")


def test_arrays_in_hand_start_no_child(tmp_path, monkeypatch):

    monkeypatch.setattr(sandbox._access, "current", lambda: pytest.fail("a child was asked"))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["states"] = STATES
        assert as_dataset(file["states"]).rows == 30
    assert as_dataset(STATES).rows == 30


def answers(*questions):
    """What the child says, asked in this process."""
    output = io.BytesIO()
    sandbox_worker.answer(io.BytesIO(b"".join(json.dumps(one).encode() + b"\n" for one in questions)), output)
    output.seek(0)
    said = []
    while line := output.readline():
        said.append((json.loads(line), output.read(json.loads(line)["bytes"])))
    return said


def test_the_protocol(path):
    kind = FORMATS.get(path.suffix).name
    place = {"do": "open", "kind": kind, "path": str(path), "source": "shown", "closed": []}
    ask = {"do": "read", "number": 0, "name": "states", "spans": [[1, 4], [0, 3]], "closed": []}
    listing, part, closed, missing, refused = answers(
        place, ask, {"do": "close", "closed": [0]}, ask, {**place, "path": str(path) + ".none"}
    )
    assert listing[0]["variables"]["states"]["shape"][-2:] == [30, 3]
    if listing[0]["variables"]["states"]["shape"] == [30, 3]:
        np.testing.assert_array_equal(np.frombuffer(part[1]).reshape(3, 3), STATES[1:4])
    assert closed[0] == {"bytes": 0}
    assert "error" in missing[0]
    assert "error" in refused[0]


def test_a_virtual_dataset_and_links_that_lead_elsewhere_are_left_alone(tmp_path):
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["secret"] = STATES
    layout = h5py.VirtualLayout((30, 3), "f8")
    layout[...] = h5py.VirtualSource(str(tmp_path / "other.h5"), "secret", (30, 3))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_virtual_dataset("states", layout)
        file["linked"] = h5py.ExternalLink(str(tmp_path / "other.h5"), "secret")
    with pytest.raises(InputError, match="no array in it"):
        read(tmp_path / "a.h5")


def test_the_limits_of_the_child():
    program = (
        "import resource, sys; sys.argv = ['x', '60', '60', '1000000']; from lln.data.read import sandbox_worker; "
        "sandbox_worker.answer = lambda *_: print(resource.getrlimit(resource.RLIMIT_AS)[0], file=sys.stderr); "
        "sandbox_worker.serve(sys.argv[1:])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    assert 0 < int(done.stderr) < 1 << 40


def test_a_damaged_file_that_sends_the_library_round_for_ever_is_refused(monkeypatch):
    path = Path(__file__).parents[1] / "golden" / "hangs-the-library.h5"
    monkeypatch.setattr(sandbox, "SECONDS", 1)
    sandbox._access.end()
    try:
        with pytest.raises(InputError, match="reading it did not end within 1 s"):
            read(path)
    finally:
        sandbox._access.end()


def walk(rows=40, n=3, seed=0):
    return np.random.default_rng(seed).standard_normal((rows, n)).cumsum(axis=0)


def stored(tmp_path, **arrays):
    path = tmp_path / "named.h5"
    with h5py.File(path, "w") as file:
        for name, values in arrays.items():
            file[name] = values
    return path


def test_a_forked_process_leaves_the_reader_of_files_to_its_parent(tmp_path):
    read(stored(tmp_path, states=walk()))
    reader = sandbox._access.child._process
    child = os.fork()
    if child == 0:
        os._exit(0 if reader.returncode == 0 and sandbox._access.child is None else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert reader.poll() is None


def test_an_answer_may_be_a_single_byte(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["one"] = np.int8(7)
    assert sandbox.open_store("HDF5", tmp_path / "a.h5").variables["one"].array[...] == 7


def test_what_the_library_says_of_a_bad_file_reaches_the_user(tmp_path):
    (tmp_path / "a.h5").write_text("no HDF5 at all")
    with pytest.raises(InputError, match=r"not HDF5 data \(.*file signature not found"):
        read(tmp_path / "a.h5")
