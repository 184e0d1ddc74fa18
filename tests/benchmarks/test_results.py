import json
from pathlib import Path

import pytest

from benchmarks.speed import page, report, store, suite
from benchmarks.speed.rows import single
from benchmarks.speed.setting import Setting
from lln import InputError


@pytest.fixture
def stored(tmp_path):
    rows = [
        single("stack forward", "cpu", {"B": 64, "h": 64, "D": 40, "K": 12}, "s", [0.001, 0.002, 0.003]),
        single("stack forward", "naive", {"B": 64, "h": 64, "D": 40, "K": 12}, "s", [0.01, 0.02, 0.03]),
    ]
    store.write_group(tmp_path, "stack", Setting(), rows, "lln bench", "abc")
    memory = [single("extra memory", "lens", {"B": 64, "D": 4000}, "MiB", [12.0])]
    store.write_group(tmp_path, "memory", Setting(), memory, "lln bench", None)
    store.write_group(tmp_path, "error", Setting(quick=True), [], "lln bench --quick", None)
    return tmp_path


def test_a_group_says_where_it_was_made(stored):
    content = json.loads((stored / "cpu-stack.json").read_text())
    assert content["made"]["commit"] == "abc"
    assert content["made"]["command"] == "lln bench"
    assert {"date", "processor", "python", "torch", "instructions", "threads"} <= set(content["made"])
    fast = content["rows"][0]
    assert (fast["median"], fast["minimum"], fast["samples"], fast["ratio"]) == (0.002, 0.001, 3, 10.0)


def test_groups_are_read_in_order_and_quick_ones_apart(stored):
    assert list(store.read_groups(stored, "cpu")) == ["stack", "memory"]
    assert list(store.read_groups(stored, "cpu", quick=True)) == ["error"]
    assert store.read_groups(stored, "cuda") == {}


def test_foreign_results_are_refused(tmp_path):
    (tmp_path / "cpu-stack.json").write_text('{"format": 0}')
    with pytest.raises(InputError, match="not a benchmark's results in format 1"):
        store.read_groups(tmp_path, "cpu")


def test_an_interruption_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "rows.json"
    path.write_text("old")

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        store.write_whole(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_tables_and_misses(stored, monkeypatch, capsys):
    groups = list(store.read_groups(stored, "cpu").values())
    monkeypatch.setitem(groups[0]["rows"][0], "bars", [_bar(10.0, 65.0, "naive")])
    monkeypatch.setitem(groups[1]["rows"][0], "bars", [_bar(12.0, 30.0, "", at_least=False)])
    assert report.misses(groups) == ["a bar, B=64 h=64 against naive: 10x, asked at least 65x"]
    assert report.bar_rows(groups)[1] == ["a bar", "B=64 D=4000", "-", "12 MiB", "12 MiB", "≤ 30 MiB", "yes"]
    assert report.time_columns(groups[0]) == ["what", "sizes", "cpu", "naive", "spread"]
    assert report.time_rows(groups[0])[0][2:] == ["2 ms", "20 ms", "60.0%"]
    report.show(groups)
    printed = capsys.readouterr().out
    assert "Against the bars" in printed
    assert "stack: medians" in printed
    assert report.draw(groups, stored / "bars.png").stat().st_size > 5000
    assert report.draw([], stored / "none.png") is None


def _bar(value, bound, against, *, at_least=True):
    passed = value >= bound if at_least else value <= bound
    return {"bar": "a bar", "against": against, "value": value, "by_median": value, "bound": bound} | {
        "at_least": at_least,
        "passed": passed,
    }


@pytest.mark.parametrize(
    ("number", "unit", "text"),
    [
        (2.5, "s", "2.5 s"),
        (0.0123, "s", "12.3 ms"),
        (4.2e-5, "s", "42 us"),
        (12.34, "MiB", "12.3 MiB"),
        (3021.7, "MiB", "3,022 MiB"),
        (1.0, "slope", "1"),
    ],
)
def test_amounts(number, unit, text):
    assert report.amount(number, unit) == text


def test_a_page_is_filled_from_the_stored_rows(stored):
    text = (
        "before\n<!-- rows: stack cpu -->\nold\n<!-- end of rows -->\n<!-- rows: bars cuda -->\n<!-- end of rows -->\n"
    )
    target = stored / "page.md"
    target.write_text(text)
    with pytest.raises(InputError, match="does not show the stored rows"):
        page.check_page(target, stored)
    page.refresh(target, stored)
    page.check_page(target, stored)
    shown = target.read_text()
    assert shown.startswith("before\n<!-- rows: stack cpu -->\n| what")
    assert "| 20 ms |  60.0% |" in shown
    assert "old" not in shown
    assert "No rows are stored for this device." in shown


def test_the_performance_page_shows_the_stored_rows():
    root = Path(__file__).parents[2]
    page.check_page(root / "docs" / "performance.md", root / "benchmarks" / "results")


def test_results_of_a_checkout_go_to_its_folder():
    assert suite.default_folder() == Path(__file__).parents[2] / "benchmarks" / "results"


def test_a_page_that_is_no_text(tmp_path, stored):
    (tmp_path / "page.md").write_bytes(b"\x8a\xff")
    with pytest.raises(InputError, match=r"page\.md: cannot be read as text"):
        page.refresh(tmp_path / "page.md", stored)
