from pathlib import Path

import pytest

from lln.core import errors as memory
from lln.core.errors import InputError


def test_what_fits_is_let_through():
    memory.check_memory("a rollout", (10, 3))
    memory.check_memory("a rollout", (0, 10**30))
    assert memory.available() > 2**26


def test_what_cannot_fit_is_refused_before_it_is_made():
    said = r"^a rollout of 9 steps needs [\d,]+\.\d GiB of memory, and [\d,]+\.\d GiB are free; ask for fewer steps"
    with pytest.raises(InputError, match=said):
        memory.check_memory("a rollout of 9 steps", (memory.available() // 8,), copies=2)
    with pytest.raises(InputError, match=r"needs \d\.\de\+\d+ GiB"):
        memory.check_memory("a rollout", (10**30,))


def test_the_limit_of_a_container_counts(tmp_path, monkeypatch):
    group = tmp_path / "jobs" / "one"
    group.mkdir(parents=True)
    (tmp_path / "jobs" / "memory.max").write_text("max\n")
    (tmp_path / "jobs" / "memory.current").write_text("1\n")
    (tmp_path / "jobs" / "memory.stat").write_text("inactive_file 0\n")
    (group / "memory.max").write_text(f"{300 * 2**20}\n")
    (group / "memory.current").write_text(f"{250 * 2**20}\n")
    (group / "memory.stat").write_text(f"anon 5\ninactive_file {50 * 2**20}\n")
    monkeypatch.setattr(memory, "_CGROUPS", tmp_path)
    read = Path.read_text
    ours = lambda self, *a, **k: "0::/jobs/one\n" if str(self) == "/proc/self/cgroup" else read(self, *a, **k)  # noqa: E731
    monkeypatch.setattr(Path, "read_text", ours)
    assert memory.available() == 100 * 2**20
    with pytest.raises(InputError, match=r"needs 0\.1 GiB of memory, and 0\.1 GiB are free; take less"):
        memory.check_memory("it", (2**24,), remedy="take less")
