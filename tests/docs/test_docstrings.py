"""What `docs/conf.py` makes of docstrings before Sphinx reads them."""

import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("sphinx")
CONF = Path(__file__).resolve().parents[2] / "docs" / "conf.py"


def configuration():
    place = importlib.util.spec_from_file_location("conf", CONF)
    conf = importlib.util.module_from_spec(place)
    place.loader.exec_module(conf)
    return conf


def plain(text):
    lines = text.split("\n")
    configuration()._plain_marks(None, "module", "", None, None, lines)
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("default", "shown"),
    [
        ("<class 'numpy.float64'>", "float64"),
        ("<<class 'llvmlite.ir.types.VoidType'> void>", "VoidType"),
        ("<function serial>", "serial"),
        ("<function Projection.<lambda>>", "<lambda>"),
        ("<factory>", "<factory>"),
    ],
)
def test_a_default_is_shown_by_its_name(default, shown):
    signature = f"(x, y={default}, z=(1, 2))"
    assert configuration()._plain_defaults(None, "function", "", None, None, signature, None) == (
        f"(x, y={shown}, z=(1, 2))",
        None,
    )


def test_what_has_no_signature_keeps_none():
    assert configuration()._plain_defaults(None, "attribute", "", None, None, None, None) == (None, None)


def test_an_indented_formula_is_code_with_its_lines():
    assert plain("One step is\n\n    x = |y| *a\n    + z\n\nand |y| *a.") == (
        "One step is\n\n::\n\n    x = |y| *a\n    + z\n\nand \\|y\\| \\*a."
    )


def test_signs_in_code_stay_as_they_are():
    assert plain("the norm ``|k|`` of ``|a\n- b|`` and |c|") == "the norm ``|k|`` of ``|a\n- b|`` and \\|c\\|"


def test_what_belongs_to_a_field_or_a_list_is_no_code():
    text = ":param x: one\n\n    two\n\n- item\n\n    more"
    assert plain(text) == text


def test_a_line_does_not_end_within_an_arrow_a_number_or_a_percentage():
    assert (
        plain("(P, F) -> (P, n), above 1e-12, in 90 % of the rows")
        == "(P, F) → (P, n), above 1e‑12, in 90\xa0% of the rows"
    )


def test_an_example_stays_as_it_is():
    text = "Here:\n\n>>> f(1e-3) < 2 | False\n1e-3 -> 90 %"
    assert plain(text) == text
