import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.validation

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def soaking(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from validation import soak

    return soak


def rounds(soaking, count=40, memory=lambda _: 700.0, handles=lambda _: 20, **fixed):
    """A minute a round."""
    plain = {"threads": 9, "children": 1, "left": 0, **fixed}
    return [soaking.Sample(60.0 * (k + 1), memory(k), handles(k), **plain) for k in range(count)]


def test_a_steady_process_passes_whatever_its_warm_up(soaking):
    noisy = rounds(
        soaking, memory=lambda k: 700 + 3 * (k % 4) - (300 if k < 5 else 0), handles=lambda k: min(20, 3 * k)
    )
    found, broken = soaking.verdict(noisy, 40)
    assert broken == []
    assert abs(found["slope_mib_per_hour"]) < 3
    assert found["steady_rounds"] == 25


def test_one_odd_round_is_no_leak(soaking):
    assert soaking.verdict(rounds(soaking, memory=lambda k: 900.0 if k == 35 else 700.0), 40)[1] == []


def test_a_leak_is_named(soaking):
    slow = rounds(soaking, memory=lambda k: 700 + k)
    assert any("memory grows by 60.0 MiB an hour, more than 24" in text for text in soaking.verdict(slow, 40)[1])
    assert any("from the first quarter to the last" in text for text in soaking.verdict(slow, 40)[1])
    assert soaking.verdict(rounds(soaking, handles=lambda k: 20 + k // 8), 40)[1] == ["handles rose from 23 to 24"]


def test_a_heap_that_grows_in_the_first_rounds_is_no_leak(soaking):
    # A minute of quick rounds, as one CI run measured it.
    quick = [
        soaking.Sample(4.5 * (k + 1), memory, 18, 8, 2, 0)
        for k, memory in enumerate([663, 690, 700, 705, 708, 709, 715, 720, 725, 730, 735, 743, 743, 743])
    ]
    assert soaking.verdict(quick, 1)[1] == ["0 rounds behind the warm-up are too few to judge by"]


def test_too_few_rounds_are_no_verdict(soaking):
    assert soaking.verdict(rounds(soaking, 19), 19)[1] == ["4 rounds behind the warm-up are too few to judge by"]


@pytest.mark.usefixtures("soaking")
def test_what_goes_wrong_is_told(tmp_path, monkeypatch):
    from validation import soak_work

    bench = soak_work.Bench(tmp_path / "work")
    bench.begin(0)
    monkeypatch.setitem(soak_work.KINDS, "network", lambda _: iter([1 // 0]))
    assert bench.do("network")[0].startswith("ZeroDivisionError: integer division or modulo by zero")
    assert bench.do("refusals") == []
    bench.end()
    assert not (tmp_path / "work").exists()


def test_a_few_rounds_of_the_lighter_work_leave_nothing_behind(soaking, tmp_path):
    from validation.soak_work import Bench

    bench = Bench(tmp_path / "work")
    for number in range(3):
        bench.begin(number)
        assert [wrong for kind in ("canary", "fit", "network", "threads") for wrong in bench.do(kind)] == []
        bench.end()
        if number == 1:
            before = soaking.look(0.0, tmp_path)
    after = soaking.look(0.0, tmp_path)
    assert (after.handles, after.threads, after.children, after.left) == (
        before.handles, before.threads, before.children, before.left,
    )  # fmt: skip


@pytest.mark.slow
def test_a_minute_of_all_work(tmp_path):
    words = [sys.executable, "-m", "validation.soak", "--minutes", "1", "--out", str(tmp_path / "soak.json")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    # Too short to judge growth by; that nothing went wrong is what it can tell.
    last = done.stdout.splitlines()[-1]
    assert last == "no growth, nothing wrong" or last.endswith("are too few to judge by"), done.stdout + done.stderr
