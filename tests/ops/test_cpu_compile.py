"""Polynomials, targets and the cache of machine code."""

import os
import subprocess
import sys

import cpu_arrays
import numpy as np
import pytest

from lln.core.errors import InputError
from lln.ops.cpu import backend as cpu_backend
from lln.ops.cpu import networks as cpu_networks
from lln.ops.grid import even_grid

if cpu_backend.unavailable():
    pytest.skip(f"CPU kernels: {cpu_backend.unavailable()}", allow_module_level=True)

from lln.ops.cpu import simd as cpu_compile
from lln.ops.cpu.kernels import EXP2
from lln.ops.cpu.simd import cache

RUN = """
import numpy as np
from lln.ops.cpu import networks as cpu_networks
from lln.ops.grid import even_grid
y = np.ones((1, 2, 3), np.float32)
out = np.empty_like(y), np.empty_like(y)
lenses = np.ones((1, 1, 3, 2), np.float32)
cpu_networks.transport("forward", (y, y, lenses), out, even_grid((-1.0, 1.0), 1.0), 0.5, 0.5, 1)
print(float(out[1].sum()))
"""


@pytest.mark.parametrize(("precision", "bound"), [("float32", 3e-9), ("float64", 4e-16)])
def test_power_of_two_is_fitted_below_rounding(precision, bound):
    f = np.linspace(-0.5, 0.5, 10001)
    fit = 1.0 + f * np.polyval(EXP2[precision][::-1], f)  # itself rounded in float64
    assert np.abs(fit / 2.0**f - 1.0).max() < bound


def test_the_best_level_that_the_processor_has():
    old = {"sse2": True}
    middle = dict.fromkeys(("avx2", "fma", "bmi", "bmi2", "lzcnt", "movbe", "f16c"), True)
    new = middle | dict.fromkeys(("avx512f", "avx512vl", "avx512bw", "avx512dq", "avx512cd"), True)
    assert [cpu_compile.best(f) for f in (old, middle, new)] == ["baseline", "avx2", "avx512"]
    assert cpu_compile.best(new | {"fma": False}) == "baseline"


def test_an_unknown_level_is_refused():
    with pytest.raises(InputError, match="did you mean 'baseline'"), cpu_backend.forced("bassline"):
        pass


def run(folder):
    environment = dict(os.environ) | {"XDG_CACHE_HOME": str(folder)}
    done = subprocess.run([sys.executable, "-c", RUN], env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout)


def test_machine_code_is_stored_once_and_a_broken_file_is_replaced(tmp_path):
    first = run(tmp_path)
    (file,) = (tmp_path / "lln" / "kernels").iterdir()
    content = file.read_bytes()
    file.write_bytes(content[:-7])
    assert run(tmp_path) == first
    assert file.read_bytes() == content


def test_without_a_folder_it_compiles_every_time(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    y = np.ones((1, 2, 3), np.float32)
    grid = even_grid((-1.0, 1.0), 1.0)
    here = cpu_arrays.forward(y, y, np.ones((1, 1, 3, 2), np.float32), grid, 0.5, 0.5)
    assert run(blocked) == float(here[1].sum())


STRANGER = 65_534
ROOT = hasattr(os, "getuid") and os.getuid() == 0


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty cache below three folders of this user's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a" / "b"))
    for name in ("a", "a/b"):
        (tmp_path / name).mkdir(mode=0o755)
    cache.write("kernel", b"code")
    assert cache.read("kernel") == b"code"
    return cache.location()


@pytest.mark.parametrize("up", [0, 1, 2, 3])
def test_a_folder_that_others_can_write_to_is_not_used(folder, up):
    (folder, *folder.parents)[up].chmod(0o777)
    assert cache.location() is None
    assert cache.read("kernel") is None


@pytest.mark.skipif(not ROOT, reason="only root can give folders away")
@pytest.mark.parametrize("up", [0, 1, 2, 3])
def test_a_folder_that_belongs_to_another_user_is_not_used(folder, up):
    os.chown((folder, *folder.parents)[up], STRANGER, STRANGER)
    assert cache.location() is None
    assert cache.read("kernel") is None
    cache.write("other", b"code")
    assert not (folder / "other").exists()


@pytest.mark.skipif(not ROOT, reason="only root can give files away")
def test_a_file_of_another_user_is_not_run(folder):
    os.chown(folder / "kernel", STRANGER, STRANGER)
    assert cache.read("kernel") is None


def test_a_file_that_others_can_write_to_is_not_run(folder):
    (folder / "kernel").chmod(0o666)
    assert cache.read("kernel") is None


def test_links_are_not_followed(folder, tmp_path):
    (folder / "kernel").rename(tmp_path / "elsewhere")
    (folder / "kernel").symlink_to(tmp_path / "elsewhere")
    assert cache.read("kernel") is None
    folder.rename(tmp_path / "moved")
    folder.symlink_to(tmp_path / "moved")
    assert cache.location() is None


def test_a_sticky_folder_of_root_may_lie_on_the_way(folder):
    folder.parents[2].chmod(0o1777)
    assert cache.read("kernel") == b"code"


def test_no_cache_means_compiling_in_memory(folder):
    folder.chmod(0o777)
    assert run(folder.parents[1]) == run(folder.parents[1])
    assert [file.name for file in folder.iterdir()] == ["kernel"]


def test_llvm_is_not_imported_before_it_is_needed():
    code = "import sys, lln.ops.cpu.backend; sys.exit('llvmlite' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_scratch_stays_small_at_great_depth():
    grid = even_grid(tuple(np.linspace(-3.0, 3.0, 12)), 6.0 / 11.0)
    assert not isinstance(grid, str)
    plan = cpu_networks._plan("backward", 64, 64, 10_000, grid, 1e-4, 1e-4, "float32", None)
    assert 2 * plan.scratch < 40 * 2**20  # two threads


@pytest.mark.parametrize("error", [MemoryError(), OSError("libllvmlite.so: failed to map segment from shared object")])
def test_a_lack_of_memory_does_not_switch_the_kernels_off(monkeypatch, error):
    """Other backends round differently, so an export under a memory limit would hold other digits."""

    def fail(*_):
        raise error

    cpu_backend.unavailable.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(cpu_compile, "target", fail)
        with pytest.raises(type(error)):
            cpu_backend.unavailable()
    assert cpu_backend.unavailable() is None
