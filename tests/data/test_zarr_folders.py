"""Zarr folders whose entries are not what they seem (pipes, devices, links, outside paths); missing packages."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import zarr

from lln.core.errors import InputError
from lln.data import as_dataset
from lln.data.read import sandbox
from lln.data.read.formats import read, write
from lln.data.read.zarr import open_zarr

T = np.arange(100) * 0.1


def folder(path, version=2):
    group = zarr.open_group(path, mode="w", zarr_format=version)
    names = {"dimension_names": ("time",)} if version == 3 else {}
    group.create_array("time", data=T, compressors=None, **names)
    names = {"dimension_names": ("time", "state")} if version == 3 else {}
    group.create_array("states", data=np.stack([np.sin(T), np.cos(T)], 1), chunks=(100, 2), compressors=None, **names)
    return path


@pytest.mark.parametrize("entry", ["states/0.0", "states/.zarray", ".zattrs"])
def test_a_pipe_is_refused_and_not_waited_for(tmp_path, entry):
    path = folder(tmp_path / "a.zarr")
    (path / entry).unlink(missing_ok=True)
    os.mkfifo(path / entry)
    with pytest.raises(InputError, match=f"{entry} is a pipe or a device"):
        read(path)


@pytest.mark.parametrize("target", ["/dev/zero", "/dev/stdin", "../secret.bin", "/"])
def test_a_link_that_leads_outside_is_refused(tmp_path, target):
    path = folder(tmp_path / "a.zarr")
    np.arange(200.0).tofile(tmp_path / "secret.bin")
    (path / "states" / "0.0").unlink()
    (path / "states" / "0.0").symlink_to(target if target[0] == "/" else tmp_path / "secret.bin")
    with pytest.raises(InputError, match="is a link that leads outside the folder"):
        read(path)


def test_a_link_inside_the_folder_is_followed(tmp_path):
    path = folder(tmp_path / "a.zarr")
    (path / "states" / "0.0").rename(path / "states" / "part")
    (path / "states" / "0.0").symlink_to("part")
    np.testing.assert_array_equal(read(path, time="time").series[0].states[:, 0], np.sin(T))


@pytest.mark.parametrize("version", [2, 3])
def test_metadata_that_names_an_array_outside_is_refused(tmp_path, version):
    folder(tmp_path / "outside.zarr", version)
    path = folder(tmp_path / "a.zarr", version)
    if version == 2:
        array = json.loads((path / "states" / ".zarray").read_text())
        entries = {".zgroup": {"zarr_format": 2}, "../outside.zarr/states/.zarray": array}
        (path / ".zmetadata").write_text(json.dumps({"zarr_consolidated_format": 1, "metadata": entries}))
    else:
        array = json.loads((path / "states" / "zarr.json").read_text())
        root = json.loads((path / "zarr.json").read_text())
        listing = {"../outside.zarr/states": array}
        root["consolidated_metadata"] = {"kind": "inline", "must_understand": False, "metadata": listing}
        (path / "zarr.json").write_text(json.dumps(root))
    shutil.rmtree(path / "states")
    shutil.rmtree(path / "time")
    with pytest.raises(InputError):
        read(path)


WAITING = "lambda path: open(path.parent / 'pipe').read()"


@pytest.fixture
def waiting(monkeypatch, tmp_path):
    """Have the worker wait for a pipe that nobody writes to, as a link that is exchanged after the check would."""
    os.mkfifo(tmp_path / "pipe")
    trick = f"from lln.data.read import sandbox_worker as w; w.OPENERS = dict.fromkeys(w.OPENERS, {WAITING}); "
    start = sandbox.START.replace("from lln.data.read.sandbox_worker", trick + "from lln.data.read.sandbox_worker")
    monkeypatch.setattr(sandbox, "START", start)
    sandbox._access.end()
    yield folder(tmp_path / "a.zarr")
    sandbox._access.end()


def test_a_file_that_keeps_the_worker_waiting_is_refused(waiting, monkeypatch):
    monkeypatch.setattr(sandbox, "WAIT", 1)
    with pytest.raises(InputError, match="reading it did not end within 1 s"):
        read(waiting)


def test_the_worker_ends_with_its_parent(waiting, tmp_path):
    program = (
        "import sys; from lln.data.read import sandbox; from lln.data.read.formats import read; "
        "sandbox.START = sys.argv[2]; read(sys.argv[1])"
    )
    parent = subprocess.Popen([sys.executable, "-c", program, waiting, sandbox.START])
    child = _first(lambda: Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split())
    # The worker holds the pipe open for reading once another end can be opened without waiting.
    _first(lambda: [os.open(tmp_path / "pipe", os.O_WRONLY | os.O_NONBLOCK)])
    parent.kill()
    parent.wait()
    assert _first(lambda: [not _lives(child)])


def _first(look, seconds=60):
    """What `look` finds first, asked until it finds something."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            for found in look():
                if found:
                    return found
        time.sleep(0.1)
    return None


def _lives(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def walk(rows=40, n=3, seed=0):
    return np.random.default_rng(seed).standard_normal((rows, n)).cumsum(axis=0)


def test_a_zarr_chunk_that_no_memory_holds_is_refused_before_it_is_read(tmp_path):
    group = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=2)
    group.create_array("states", shape=(40, 3), dtype="f8", chunks=(40, 3))[...] = walk()
    said = tmp_path / "a.zarr" / "states" / ".zarray"
    said.write_text(json.dumps(json.loads(said.read_text()) | {"chunks": [10**8, 10**4]}))
    with pytest.raises(InputError, match="states, one chunk"):
        read(tmp_path / "a.zarr")


def test_groups_are_read_to_a_depth_of_eight(tmp_path):
    group = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=2)
    for depth in (8, 9):
        group.create_array("/".join(["g"] * depth + ["states"]), data=np.zeros((5, 2)))
    assert list(open_zarr(tmp_path / "a.zarr").variables) == ["g/" * 8 + "states"]


def test_a_package_that_is_missing_is_named_before_the_work(tmp_path, monkeypatch, capsys):
    from lln.cli.app import main

    monkeypatch.setitem(sys.modules, "zarr", None)
    target = tmp_path / "d.zarr"
    monkeypatch.setattr(sys, "argv", ["lln", "simulate", "lorenz-28", "--steps", "100000000", "--out", str(target)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith(f"lln: {target}: writing Zarr needs the package zarr; install it with")
    assert list(tmp_path.iterdir()) == []


def test_a_package_that_cannot_be_loaded_is_not_called_missing(tmp_path, monkeypatch):
    words = "_zstd.so: failed to map segment from shared object"

    class NoRoom:
        def find_spec(self, name, *_):
            if name == "numcodecs":
                raise ImportError(words)

    for name in [name for name in sys.modules if name.split(".")[0] == "numcodecs"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [NoRoom(), *sys.meta_path])
    with pytest.raises(ImportError, match=words):
        write(tmp_path / "d.zarr", as_dataset(np.zeros((20, 2))))
