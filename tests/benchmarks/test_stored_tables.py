import json

import pytest

from benchmarks import tables


@pytest.mark.parametrize("page", tables.PAGES, ids=lambda page: page.name)
def test_the_pages_show_what_is_stored(page):
    text = page.read_text()
    assert "<!-- table: systems -->" in text
    assert tables.filled(text) == text, "run `python -m benchmarks.tables`"


def test_a_table_is_made_from_the_rows(tmp_path):
    one = {"valid": 4.0, "smape": 8.0}
    row = {"lln": {"valid": 6.0, "smape": 2.0, "cpu_seconds": 1.5}, "persistence": one, "analog": one}
    (tmp_path / "accuracy-dysts-A.json").write_text(json.dumps({"rows": {"Lorenz 0": row, "Lorenz 1": row}}))
    shown = tables.filled("a\n<!-- table: systems -->\nold\n<!-- end of table -->\nb", tmp_path)
    assert "old" not in shown
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in shown.splitlines() if line.startswith("| ")]
    assert ["`LensForecaster()`", "6.00", "2.0"] in lines
    assert ["nearest analog", "4.00", "8.0"] in lines
    assert "2 fits to 1 chaotic systems" in shown


def test_a_block_without_rows_stays(tmp_path):
    text = "<!-- table: speed -->\nold\n<!-- end of table -->"
    assert tables.filled(text, tmp_path) == text
