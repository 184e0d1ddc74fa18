import math
import subprocess
import sys
from decimal import Decimal

import pytest

from lln.core.statistics import Interval, Summary
from lln.paper.printed_values import Score
from lln.paper.report.compare import (
    Verdict,
    data_error,
    decided,
    half_unit,
    judge,
    judge_gradients,
    judge_interval,
    scores_agree,
    winner,
)

INF = Score(mean=Decimal("Infinity"), deviation=Decimal("Infinity"))


def printed(mean, deviation):
    return Score(mean=Decimal(mean), deviation=Decimal(deviation))


def here(mean, deviation=0.1, count=10):
    return Summary(mean, deviation, count)


def verdict(lens, other, paper_lens, paper_other):
    return judge(
        {"lens": lens, "comparator": other}, {"lens": paper_lens, "comparator": paper_other}, count=10, tolerance=0.01
    )


def test_a_score_agrees_within_noise_data_error_and_rounding():
    paper = printed("2.000", "0.000")
    # No spread at all: one percent of two and half of the third decimal are what is left.
    assert scores_agree(here(2.0204, 0.0), paper, 10, 0.01)
    assert not scores_agree(here(2.0206, 0.0), paper, 10, 0.01)
    # A spread of 0.1 in ten runs on our side adds two standard errors of 0.0316.
    assert scores_agree(here(2.083, 0.1), paper, 10, 0.01)
    assert not scores_agree(here(2.085, 0.1), paper, 10, 0.01)


def test_a_wide_spread_alone_is_no_agreement():
    assert not scores_agree(here(2.6, 50.0), printed("2.000", "50.000"), 10, 0.01)
    assert scores_agree(here(2.4, 50.0), printed("2.000", "50.000"), 10, 0.01)


@pytest.mark.parametrize(("mean", "agrees"), [(math.inf, True), (1001.0, True), (999.0, False)])
def test_divergence_agrees_with_divergence_only(mean, agrees):
    assert scores_agree(here(mean), INF, 10, 0.01) is agrees
    assert not scores_agree(here(math.inf), printed("2.0", "0.1"), 10, 0.01)


def test_winner_and_lead():
    assert winner({"a": here(1.0), "b": here(2.0)}) == "a"
    assert winner({"a": here(math.inf), "b": here(2000.0)}) is None
    # Two standard errors of the difference of two means with deviation 0.1 over ten runs: 0.0894.
    assert decided({"a": here(1.0), "b": here(1.09)})
    assert not decided({"a": here(1.0), "b": here(1.089)})
    assert decided({"a": here(1.0), "b": here(math.inf)})
    assert not decided({"a": here(math.inf), "b": here(math.inf)})


PAPER = (printed("1.000", "0.100"), printed("2.000", "0.100"))
CLOSE = (printed("1.000", "0.100"), printed("1.010", "0.100"))


@pytest.mark.parametrize(
    ("lens", "other", "paper", "expected"),
    [
        (here(1.01), here(2.01), PAPER, Verdict.AGREE),
        (here(0.5), here(2.0), PAPER, Verdict.OTHER_SIZE),
        (here(2.5), here(2.0), PAPER, Verdict.DIFFER),
        (here(1.9, 1.0), here(2.0), PAPER, Verdict.DIFFER),  # the paper's lead is not there
        (here(1.0), None, PAPER, Verdict.NOT_COMPARABLE),
        (here(1.0, math.nan, 1), here(2.0), PAPER, Verdict.NOT_COMPARABLE),
        (here(math.inf), here(math.inf), PAPER, Verdict.NOT_COMPARABLE),
        (here(math.inf), here(2.0), PAPER, Verdict.DIFFER),
        (here(1.0), here(math.inf), PAPER, Verdict.OTHER_SIZE),
        (here(3.0, 9.0), here(3.1, 9.0), CLOSE, Verdict.NOT_COMPARABLE),  # nobody decides, sizes differ
        (here(1.01), here(1.0), CLOSE, Verdict.NOT_COMPARABLE),  # a printed tie that falls to the other side
        (here(1.5), here(1.0), CLOSE, Verdict.DIFFER),
    ],
)
def test_verdicts_by_the_rule(lens, other, paper, expected):
    assert verdict(lens, other, *paper) is expected


def test_gradient_rows():
    paper = {"mlp": printed("-15.0", "0.2"), "lens": printed("0.004", "0.006")}
    assert judge_gradients({"mlp": here(-15.3), "lens": here(0.006)}, paper) is Verdict.AGREE
    assert judge_gradients({"mlp": here(-15.6), "lens": here(0.006)}, paper) is Verdict.OTHER_SIZE
    # Within two printed deviations, but not within 0.01 of zero.
    assert judge_gradients({"mlp": here(-15.0), "lens": here(0.0155)}, paper) is Verdict.OTHER_SIZE
    assert judge_gradients({"mlp": here(0.001), "lens": here(0.006)}, paper) is Verdict.DIFFER
    assert judge_gradients({"mlp": None, "lens": here(0.006)}, paper) is Verdict.NOT_COMPARABLE


def interval_verdict(ours, paper="0.500", ends=(0.4, 0.6), means=(1.0, 2.0)):
    return judge_interval((*means, ours), (Decimal("1.000"), Decimal("2.000"), Decimal(paper)), ends)


def test_multi_trajectory_rows():
    assert interval_verdict(Interval(0.5, 0.3, 0.9)) is Verdict.AGREE
    assert interval_verdict(Interval(0.3, 0.2, 0.4)) is Verdict.OTHER_SIZE
    assert interval_verdict(Interval(0.5, 0.2, 1.4)) is Verdict.DIFFER  # the lead is not there
    assert interval_verdict(Interval(2.0, 1.5, 3.0)) is Verdict.DIFFER
    assert interval_verdict(Interval(0.5, 0.2, 1.4), ends=(0.1, 1.1)) is Verdict.AGREE
    assert interval_verdict(Interval(0.1, 0.0, 9.0), ends=(0.1, 1.1)) is Verdict.NOT_COMPARABLE
    assert interval_verdict(Interval(3.0, 0.2, 9.0), ends=(0.1, 1.1)) is Verdict.NOT_COMPARABLE
    assert interval_verdict(Interval(math.nan, math.nan, math.nan)) is Verdict.NOT_COMPARABLE
    assert interval_verdict(Interval(0.0, 0.0, 0.5), means=(1.0, math.inf)) is Verdict.OTHER_SIZE
    assert judge_interval(None, (Decimal(1), Decimal(2), Decimal("0.5")), (0.4, 0.6)) is Verdict.NOT_COMPARABLE


def test_printed_precision_and_data_errors():
    assert half_unit(Decimal("6.170")) == pytest.approx(0.0005)
    assert half_unit(Decimal("Infinity")) == 0.0
    assert data_error("lorenz-28") == 0.001
    assert data_error("burgers-48") == 0.031


def test_the_report_needs_neither_torch_nor_the_studies():
    code = "import sys, lln.paper.report\nprint([name for name in sys.modules if name in ('torch', 'lln.paper')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
