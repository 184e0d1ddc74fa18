import json
from pathlib import Path

import pytest

from validation import page

pytestmark = pytest.mark.validation

PAGE = Path(__file__).resolve().parents[2] / "docs" / "trust.md"


@pytest.mark.parametrize("name", page.CHECKS)
def test_the_page_shows_the_stored_results(name):
    first, last = page.marks(name)
    shown = PAGE.read_text().partition(first)[2].partition(last)[0]
    assert shown.splitlines() == page.CHECKS[name](json.loads((page.RESULTS / f"{name}.json").read_text()))


def test_a_filled_page_stays_as_it_is_and_old_tables_are_replaced():
    text = PAGE.read_text()
    old = text.replace("| npy | 10,000 |", "| npy | 12 |")
    assert old != text
    assert page.filled(old) == page.filled(text) == text


def test_a_page_without_marks_is_refused():
    with pytest.raises(SystemExit, match="no marks <!-- fuzz --> and <!-- end of fuzz -->"):
        page.filled("# A page\n")
