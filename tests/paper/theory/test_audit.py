from decimal import Decimal
from fractions import Fraction

import pytest

import lln.paper.theory.audit as audit_module
from lln.paper.printed_values import RatioRow, ratio_rows
from lln.paper.theory.audit import audit_ratios, ratios_of, rounded


def test_all_hundred_ratios_agree():
    ratios = audit_ratios()
    assert [r.table for r in ratios] == ["depth 40"] * 20 + ["all depths"] * 80
    assert [r for r in ratios if not r.agrees] == []
    assert len({(r.table, r.depth, r.system, r.column) for r in ratios}) == 100


def test_the_computed_columns_do_not_read_the_printed_ones(monkeypatch):
    truth = [r.computed for r in audit_ratios()]

    def scrambled(rows, names):
        return tuple(row.model_copy(update=dict.fromkeys(names, Decimal("9.999"))) for row in rows)

    main = scrambled(audit_module.depth40(), ["parameter_ratio_percent", "flop_ratio_percent"])
    deep = scrambled(audit_module.all_depths(), ["parameter_ratio", "flop_ratio"])
    monkeypatch.setattr(audit_module, "depth40", lambda: main)
    monkeypatch.setattr(audit_module, "all_depths", lambda: deep)
    changed = audit_ratios()
    assert [r.computed for r in changed] == truth
    assert not any(r.agrees for r in changed)


def test_one_ratio_by_hand():
    # Lorenz-24 at depth 40: LLN h = 384, K = 12 against the plain MLP at h = 128, n = 3.
    parameters, operations = ratios_of(RatioRow(depth=40, system="lorenz-24", width=384, basis=12, comparator="mlp"))
    lens = 2 * 384 * 4 + 40 * 384 * 12 + 3 * 385
    mlp = 128 * 4 + 40 * 128 * 129 + 3 * 129
    assert parameters == Fraction(lens, mlp)
    lens = 2 * (2 * 3 * 128 + 128 * 3) + (2 * 128 + 3) + 40 * 128 * (6 * 12 + 3)
    mlp = 2 * (3 * 128 + 40 * 128 * 128 + 128 * 3) + 2 * 41 * 128 + 3
    assert operations == Fraction(lens, mlp)


def test_a_wrong_size_would_be_noticed():
    """The audit can fail: another width or comparator changes the printed digits in nearly every row."""
    noticed = 0
    for row in ratio_rows():
        other = row.model_copy(update={"basis": row.basis + 1})
        noticed += rounded(ratios_of(row)[0], 3) != rounded(ratios_of(other)[0], 3)
    assert noticed == len(ratio_rows())


@pytest.mark.parametrize(
    ("value", "decimals", "expected"),
    [
        (Fraction(1, 8), 2, "0.13"),
        (Fraction(-1, 8), 2, "-0.13"),
        (Fraction(1249, 10000), 2, "0.12"),
        (Fraction(1, 3), 3, "0.333"),
        (Fraction(9996, 10000), 3, "1.000"),
        (Fraction(0), 1, "0.0"),
        (Fraction(199, 2), 0, "100"),
    ],
)
def test_rounding_is_exact_with_ties_away_from_zero(value, decimals, expected):
    assert str(rounded(value, decimals)) == expected
