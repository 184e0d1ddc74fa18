import pytest

from lln.core.text import cell, from_cell, printable


@pytest.mark.parametrize("text", ["=1+1", "+1", "-x", "@a", "'=1", "''=1", "x", "'x", "", "a=b"])
def test_a_cell_is_no_formula_and_reads_back(text):
    assert not cell(text).startswith(("=", "+", "-", "@"))
    assert from_cell(cell(text)) == text


def test_control_characters_become_text_and_line_breaks_stay():
    assert printable("a\x1b]0;owned\x07\r\nb\x9b1m") == "a\\x1b]0;owned\\x07\\r\nb\\x9b1m"
    assert printable("µ ✓") == "µ ✓"
