import pytest

from benchmarks.speed.bars import AVX512, BARS, H200, Bar, level_of
from benchmarks.speed.rows import Row, as_record, checks, ratio_to_naive, single


def row(contender, seconds, quantity="stack forward", **shape):
    return single(quantity, contender, shape, "s", seconds)


FAST, SLOW = row("cpu", [1.0, 2.0], B=64, h=64), row("naive", [66.0, 100.0], B=64, h=64)


def test_ratios_are_taken_between_minima():
    (check,) = checks([FAST, SLOW], BARS, AVX512)
    assert (check.value, check.by_median, check.bound, check.passed) == (66.0, 83.0 / 1.5, 65, True)
    (check,) = checks([FAST, row("naive", [64.0, 200.0], B=64, h=64)], BARS, AVX512)
    assert not check.passed


def test_a_bar_is_about_its_sizes_and_its_machine():
    assert checks([FAST, row("naive", [1.0], B=64, h=128)], BARS, AVX512) == []
    assert checks([FAST, SLOW], BARS, "avx2") == []
    assert checks([row("cpu", [1.0], B=3, h=64), row("naive", [1.0], B=3, h=64)], BARS, AVX512) == []


def test_the_fastest_of_several_rivals_counts():
    rivals = [row("mlp", [3.0], "training step", B=64), row("mlp compiled", [2.0], "training step", B=64)]
    (check,) = checks([row("lens", [1.0], "training step", B=64), *rivals], BARS, AVX512)
    assert (check.against, check.value, check.passed) == ("mlp compiled", 2.0, False)


@pytest.mark.parametrize(("value", "passed"), [(30.0, True), (30.1, False)])
def test_bounds_from_above(value, passed):
    (check,) = checks([single("extra memory", "lens", {"D": 4000}, "MiB", [value])], BARS, AVX512)
    assert check.passed is passed


def test_a_record_carries_ratio_and_bars():
    rows = [FAST, SLOW]
    record = as_record(FAST, rows, checks(rows, BARS, AVX512))
    assert (record["ratio"], record["minimum"], record["shape"]) == (66.0, 1.0, {"B": 64, "h": 64})
    assert record["bars"][0]["passed"] is True
    assert ratio_to_naive(row("cpu", [1.0], B=1), rows) is None


def test_every_bar_is_about_something_distinct():
    keys = [(b.quantity, b.contender, b.against, tuple(b.where.items()), b.level) for b in BARS]
    assert len(set(keys)) == len(keys)
    assert all(isinstance(bar, Bar) and bar.bound > 0 for bar in BARS)


def test_levels():
    assert level_of("avx512", None) == AVX512
    assert level_of("avx512", "NVIDIA H200") == H200
    assert level_of("avx512", "NVIDIA T4") == "NVIDIA T4"
    assert level_of(None, None) == "no kernels"


def test_sizes_as_text():
    assert isinstance(FAST, Row)
    assert FAST.sizes == "B=64 h=64"
