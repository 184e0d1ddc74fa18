import io

import pytest
from rich.console import Console

from lln.core.errors import InputError
from lln.core.table import Table, number

TABLE = Table(
    ("model", "error", "parameters"),
    [["lens", 8.04e-07, 80176], ["a|b", float("inf"), 672944]],
    title="scores",
    best=[(0, 1)],
)


def test_markdown_is_aligned_escaped_and_bold_where_best():
    assert TABLE.to_markdown() == (
        "**scores**\n\n"
        "| model |        error | parameters |\n"
        "| ----- | -----------: | ---------: |\n"
        "| lens  | **8.04e-07** |     80,176 |\n"
        "| a\\|b  |            ∞ |    672,944 |"
    )


def test_plain_text_is_aligned():
    assert str(TABLE) == (
        "scores\n"
        "model     error  parameters\n"
        "lens   8.04e-07      80,176\n"
        "a|b           ∞     672,944"
    )  # fmt: skip


def test_a_notebook_shows_a_table_without_markup_of_its_cells():
    page = Table(("a<b", "error"), [["<i>", 0.5]], title="x & y", best=[(0, 1)])._repr_html_()
    assert all(text in page for text in ("<b>x &amp; y</b>", "a&lt;b", "&lt;i&gt;", "<td><b>0.500</b></td>"))
    assert "<i>" not in page


def test_rich_shows_title_columns_and_cells():
    out = io.StringIO()
    Console(file=out, width=80).print(TABLE.to_rich())
    text = out.getvalue()
    assert all(word in text for word in ("scores", "model", "8.04e-07", "672,944", "∞", "a|b"))


def test_rich_does_not_read_markup_in_cells():
    out = io.StringIO()
    Console(file=out, width=80).print(Table(("[x]",), [["[red]u[/red]"]]).to_rich())
    assert "[red]u[/red]" in out.getvalue()


@pytest.mark.parametrize(
    ("value", "text"),
    [(1234567, "1,234,567"), (0.0, "0.00"), (1.2354, "1.24"), (7.519, "7.52"), (99999.0, "99999"),
     (123456.0, "1.23e+05"),
     (-0.0123, "-0.0123"), (0.000999, "9.99e-04"), (float("nan"), "-"), (float("-inf"), "-∞")],
)  # fmt: skip
def test_numbers_for_readers(value, text):
    assert number(value) == text


def test_a_row_of_another_length_is_refused():
    with pytest.raises(InputError, match="row 1 of the table must have 2 cells, got 1"):
        Table(("a", "b"), [["x", 1], ["y"]])
