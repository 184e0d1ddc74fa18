import math
import subprocess
import sys
from decimal import Decimal

import pytest

from lln.core.statistics import Interval, Summary
from lln.paper.printed_values import MeanAndDeviation
from lln.paper.report.compare import (
    Verdict,
    decided,
    digits_met,
    judge,
    judge_gradients,
    judge_interval,
    scores_agree,
    shows,
    winner,
)

INF = MeanAndDeviation(mean=Decimal("Infinity"), deviation=Decimal("Infinity"))


def printed(mean, deviation):
    return MeanAndDeviation(mean=Decimal(mean), deviation=Decimal(deviation))


def here(mean, deviation=0.1, count=10):
    return Summary(mean, deviation, count)


def verdict(lens, other, paper_lens, paper_other):
    return judge({"lens": lens, "comparator": other}, {"lens": paper_lens, "comparator": paper_other})


def test_a_score_agrees_by_its_digits_or_within_noise():
    paper = printed("2.000", "0.000")
    # No spread at all: the printed digits are all that is left.
    assert scores_agree(here(2.00049, 0.0), paper)
    assert not scores_agree(here(2.0006, 0.0), paper)
    # A spread of 0.1 in ten runs on our side gives two standard errors of 0.0316.
    assert scores_agree(here(2.063, 0.1), paper)
    assert not scores_agree(here(2.0637, 0.1), paper)


def test_printed_digits_are_those_of_mean_and_deviation():
    assert digits_met(here(6.1699, 0.9531), printed("6.170", "0.953"))
    assert not digits_met(here(6.1706, 0.9531), printed("6.170", "0.953"))
    assert not digits_met(here(6.1699, 0.9536), printed("6.170", "0.953"))
    assert digits_met(here(math.inf), INF)
    assert not digits_met(here(2.0), INF)
    assert shows(0.000481, Decimal("4.81E-4"))
    assert not shows(0.000482, Decimal("4.81E-4"))
    assert not shows(math.nan, Decimal("1.0"))


def test_a_wide_spread_alone_is_no_agreement():
    assert not scores_agree(here(2.6, 50.0), printed("2.000", "50.000"))
    assert scores_agree(here(2.4, 50.0), printed("2.000", "50.000"))


@pytest.mark.parametrize(("mean", "agrees"), [(math.inf, True), (101.0, True), (99.0, False)])
def test_divergence_agrees_with_divergence_only(mean, agrees):
    assert scores_agree(here(mean), INF) is agrees
    assert not scores_agree(here(math.inf), printed("2.0", "0.1"))


def test_winner_and_lead():
    assert winner({"a": here(1.0), "b": here(2.0)}) == "a"
    assert winner({"a": here(math.inf), "b": here(200.0)}) is None
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


def test_gradient_rows_are_judged_by_their_digits():
    paper = {"mlp": printed("-15.298", "0.222"), "lens": printed("0.004", "0.006")}
    exact = {"mlp": here(-15.2983, 0.2222), "lens": here(0.0041, 0.0058)}
    assert judge_gradients(exact, paper) is Verdict.AGREE
    assert judge_gradients({**exact, "mlp": here(-15.297, 0.222)}, paper) is Verdict.OTHER_SIZE
    assert judge_gradients({**exact, "lens": here(0.0041, 0.0066)}, paper) is Verdict.OTHER_SIZE
    assert judge_gradients({**exact, "mlp": here(0.001, 0.222)}, paper) is Verdict.DIFFER
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


def test_the_report_needs_neither_torch_nor_the_studies():
    code = "import sys, lln.paper.report\nprint([name for name in sys.modules if name in ('torch', 'lln.paper.run')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
