import numpy as np
import pytest

from benchmarks.speed.export import STATE, contracting, exports
from benchmarks.speed.setting import Setting
from lln.export.c.export import compiler

if compiler() is None:
    pytest.skip("no C compiler is installed", allow_module_level=True)


@pytest.mark.slow
def test_c_is_far_ahead_of_a_loop_in_python():
    rows = {row.contender: row for row in exports(Setting(quick=True))}
    assert set(rows) == {"eager", "surrogate", "lens", "c float", "c double", "onnx step", "onnx rollout"}
    assert rows["c float"].minimum < rows["onnx step"].minimum / 5
    assert rows["c float"].minimum < rows["eager"].minimum / 20


def test_the_rollout_that_is_timed_stays_alive():
    states = contracting().rollout(np.random.default_rng(0).standard_normal((1, 1, STATE)), 500)
    spread = states[0].std(axis=1)
    assert np.isfinite(states).all()
    assert 1e-3 < spread[-1] < 1e3


def test_other_devices_are_skipped_in_words():
    setting = Setting(device="cuda", quick=True)
    assert exports(setting) == []
    assert setting.skipped == ["exports: they are measured on the CPU"]
