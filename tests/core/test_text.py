import pytest

from lln.core.table import cell, from_cell


@pytest.mark.parametrize("text", ["=1+1", "+1", "-x", "@a", "'=1", "''=1", "x", "'x", "", "a=b"])
def test_a_cell_is_no_formula_and_reads_back(text):
    assert not cell(text).startswith(("=", "+", "-", "@"))
    assert from_cell(cell(text)) == text
