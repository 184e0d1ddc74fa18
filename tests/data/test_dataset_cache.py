import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import lln.systems
from lln.data import cache, simulated
from lln.systems import Lorenz, UserSystem, preset, simulate


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cache._held.clear()
    yield tmp_path / "lln" / "trajectories"
    cache._held.clear()


@pytest.fixture
def calls(monkeypatch):
    made = []

    def counted(*args, **options):
        made.append(args)
        return simulate(*args, **options)

    monkeypatch.setattr(cache, "simulate", counted)
    return made


def test_computed_once_and_the_same(folder, calls):
    first, second = (simulated(preset("lorenz-28"), 50).states for _ in range(2))
    cache._held.clear()
    third = simulated(preset("lorenz-28"), 50).states
    assert len(calls) == 1
    assert len(list(folder.iterdir())) == 1
    for found in (first, second, third):
        np.testing.assert_array_equal(found, simulate(preset("lorenz-28"), 50))
        assert found.dtype == np.float32


@pytest.mark.usefixtures("folder")
def test_what_the_caller_does_to_its_array_stays_with_the_caller():
    simulated(preset("lorenz-28"), 50).states[:] = 0
    np.testing.assert_array_equal(simulated(preset("lorenz-28"), 50).states, simulate(preset("lorenz-28"), 50))


@pytest.mark.usefixtures("folder")
def test_everything_that_matters_is_part_of_the_name(calls):
    system = Lorenz()
    variants = [
        (system, 50, {}),
        (system, 51, {}),
        (system, 50, {"dtype": "float64"}),
        (system, 50, {"dt": 0.02}),
        (system, 50, {"starts": [1.0, 1.0, 1.5]}),
        (system, 50, {"starts": np.ones((2, 3))}),
        (Lorenz(rho=28.0000001), 50, {}),
        (preset("burgers-32"), 50, {}),
    ]
    for kind, steps, options in variants:
        np.testing.assert_array_equal(cache.simulated_states(kind, steps, **options), simulate(kind, steps, **options))
    assert len(calls) == len(variants)


@pytest.mark.usefixtures("folder")
def test_changed_code_is_computed_again(calls, monkeypatch):
    simulated(Lorenz(), 50)
    cache._held.clear()
    monkeypatch.setattr(cache, "_code", lambda: "another")
    simulated(Lorenz(), 50)
    assert len(calls) == 2


def test_a_function_of_the_user_is_never_cached(folder, calls):
    for _ in range(2):
        cache.simulated_states(UserSystem(lambda x: -x, [1.0], 0.1), 5)
    assert len(calls) == 2
    assert not folder.exists() or not list(folder.iterdir())


@pytest.mark.parametrize(
    "damage", [lambda b: b[:-7], lambda b: b[:-9] + b"!" + b[-8:], lambda _: b"", lambda b: b[:20]]
)
def test_a_damaged_file_costs_only_time(folder, calls, damage):
    expected = simulated(preset("lorenz-28"), 50).states
    (path,) = folder.iterdir()
    path.write_bytes(damage(path.read_bytes()))
    cache._held.clear()
    np.testing.assert_array_equal(simulated(preset("lorenz-28"), 50).states, expected)
    assert len(calls) == 2


@pytest.mark.usefixtures("folder")
def test_bad_input_is_refused_as_without_a_cache():
    with pytest.raises(ValueError, match="steps must be an integer"):
        cache.simulated_states(Lorenz(), 0)
    with pytest.raises(ValueError, match="starts of lorenz-28 must have shape"):
        cache.simulated_states(Lorenz(), 5, starts=np.zeros(4))


def test_no_folder_no_harm(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    cache._held.clear()
    assert simulated(Lorenz(), 5).states.shape == (6, 3)
    cache._held.clear()


def test_the_folder_and_the_memory_stay_within_their_limits(folder, monkeypatch):
    size = simulated(Lorenz(), 1000).states.nbytes
    monkeypatch.setattr(cache, "DISK", 3 * size + 2000)
    monkeypatch.setattr(cache, "MEMORY", 2 * size + 2000)
    for rho in range(20, 27):
        simulated(Lorenz(rho=float(rho)), 1000)
    assert len(list(folder.iterdir())) <= 3
    assert len(cache._held) == 2


WRITER = """
from lln.data import cache
from lln.systems import Lorenz
for k in range(100000):
    cache.simulated_states(Lorenz(rho=20.0 + k % 7), 200)
    cache._held.clear()
    for path in cache.disk.location().glob("*.npy"):
        if k % 3 == 0:
            path.unlink(missing_ok=True)
    print("ok", flush=True)
"""


@pytest.mark.usefixtures("folder")
def test_several_processes_and_a_kill():
    crew = [subprocess.Popen([sys.executable, "-c", WRITER], stdout=subprocess.PIPE) for _ in range(2)]
    try:
        for one in crew:
            assert one.stdout.readline() == b"ok\n"
        time.sleep(0.3)
    finally:
        for one in crew:
            os.kill(one.pid, signal.SIGKILL)
            one.communicate()
    for k in range(7):
        np.testing.assert_array_equal(
            cache.simulated_states(Lorenz(rho=20.0 + k), 200), simulate(Lorenz(rho=20.0 + k), 200)
        )


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cache._held.clear()
    yield tmp_path / "lln" / "trajectories"
    cache._held.clear()


@pytest.mark.usefixtures("own_cache")
def test_the_cache_in_memory_forgets_what_was_used_longest_ago(monkeypatch, tmp_path):
    system, made = preset("lorenz-28"), []
    (tmp_path / "file").write_text("in the place of the folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(cache, "MEMORY", int(1.5 * simulate(system, 50).nbytes))
    monkeypatch.setattr(cache, "simulate", lambda *args, **options: made.append(args) or simulate(*args, **options))
    for steps in (50, 49, 49, 50):
        simulated(system, steps)
    assert [args[1] for args in made] == [50, 49, 50]


def test_a_changed_equation_of_a_field_is_simulated_again(monkeypatch, tmp_path):
    folder = shutil.copytree(Path(lln.systems.__file__).parent, tmp_path / "systems")
    monkeypatch.setattr(lln.systems, "__file__", str(folder / "__init__.py"))
    before = cache._code.__wrapped__()
    with (folder / "fields" / "wave.py").open("a") as file:
        file.write("# another equation\n")
    assert cache._code.__wrapped__() != before


class Trap:
    def __reduce__(self):
        return print, ("code in a cache file was run",)


def test_the_cache_on_disk_never_unpickles(own_cache, capsys):
    import hashlib
    import io

    expected = simulated(preset("lorenz-28"), 50).states
    (kept,) = own_cache.iterdir()
    content = io.BytesIO()
    np.lib.format.write_array(content, np.array([Trap()], dtype=object), allow_pickle=True)
    kept.write_bytes(hashlib.sha256(content.getvalue()).digest() + content.getvalue())
    cache._held.clear()
    np.testing.assert_array_equal(simulated(preset("lorenz-28"), 50).states, expected)
    assert capsys.readouterr().out == ""


def test_what_a_killed_writer_left_in_the_cache_goes_and_what_another_is_writing_stays(own_cache):
    own_cache.mkdir(parents=True, mode=0o700)
    left, fresh = own_cache / ".a.partial", own_cache / ".b.partial"
    for path in (left, fresh):
        path.write_bytes(b"half")
    os.utime(left, (time.time() - 7200,) * 2)
    simulated(preset("lorenz-28"), 50)
    assert not left.exists()
    assert fresh.exists()


def test_what_is_read_counts_as_recently_used(folder):
    simulated(preset("lorenz-28"), 50)
    (file,) = folder.iterdir()
    os.utime(file, (1, 1))
    cache._held.clear()
    simulated(preset("lorenz-28"), 50)
    assert file.stat().st_mtime > 1
