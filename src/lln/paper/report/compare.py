"""When a row of ours agrees with a printed row: one rule, stated, applied by code.

The rule never looks at which verdict is wished for, and it treats a wide spread as what it is: a reason not to know.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from enum import Enum

from lln.core.statistics import Interval, Summary
from lln.paper.printed_values import Score
from lln.paper.report.names import diverged

# A ratio of means beyond this is another size, however wide the spread.
FACTOR = 1.25
STANDARD_ERRORS = 2.0
# By how much the simulators' constants are known to miss the printed score of a network that predicts a constant.
DATA_ERROR = {"lorenz": 0.001, "springchain": 0.021, "burgers": 0.031, "advecdiff": 0.008, "reactiondiff": 0.028}
NEUTRAL = 0.01

RULE = (
    "A score agrees if the ratio of means lies between 0.8 and 1.25, and the means differ by at most two standard "
    "errors of their difference, plus the error to which the simulator's constants are known (Lorenz 0.1 %, "
    "SpringChain 2.1 %, Burgers 3.1 %, AdvecDiff 0.8 %, ReactionDiff 2.8 %), plus half a unit of the last printed "
    "digit. Two diverged means (not finite or above 1000) agree; a diverged and a finite one do not.",
    "The winner of a row is the lower mean. It is decided if it leads by more than two standard errors of the "
    "difference.",
    "Agree: the winner is the same and all scores of the row agree.",
    "Same winner, other size: the winner is the same and decided here, but a score does not agree.",
    "Not comparable: a score is missing, comes from one seed or from a shortened trial run; or all means of one side "
    "diverged; or neither side decides its winner and the scores do not agree. Wide intervals alone are not agreement.",
    "Differ: every other case, that is another winner, or a lead that the paper has and this run has not.",
)
GRADIENT_RULE = (
    "Gradient table: a log ratio agrees if it lies within two printed standard deviations of the printed mean, and "
    "LLN's also within 0.01 of zero; the winner is the network closest to zero."
)
INTERVAL_RULE = (
    "Multi-trajectory table: a row agrees if the winner is the same, the interval of the ratio lies on the same side "
    "of one (or both contain one), and both geometric means and the ratio are within a factor of 1.25 of the printed "
    "ones. If winner and side are the same but a size is not, it is the same winner, other size; if both intervals "
    "contain one, it is not comparable; otherwise it differs."
)


class Verdict(Enum):
    """What can be said about one row."""

    AGREE = "agree"
    OTHER_SIZE = "same winner, other size"
    DIFFER = "differ"
    NOT_COMPARABLE = "not comparable"


def printed_summary(score: Score, count: int) -> Summary:
    """A printed score as a summary over `count` runs."""
    deviation = math.inf if score.deviation is None else float(score.deviation)
    return Summary(float(score.mean), deviation, count)


def half_unit(value: Decimal) -> float:
    """Half a unit of the last printed digit."""
    exponent = value.as_tuple().exponent
    return 0.5 * 10.0**exponent if isinstance(exponent, int) else 0.0


def data_error(system: str) -> float:
    """The error to which the constants of a system's simulator are known, relative."""
    return DATA_ERROR[system.partition("-")[0]]


def scores_agree(here: Summary, printed: Score, count: int, tolerance: float) -> bool:
    """Whether one score of ours agrees with the printed one (the first paragraph of `RULE`)."""
    paper = printed_summary(printed, count)
    if diverged(here.mean) or diverged(paper.mean):
        return diverged(here.mean) and diverged(paper.mean)
    if not paper.mean / FACTOR <= here.mean <= paper.mean * FACTOR:
        return False
    noise = STANDARD_ERRORS * math.hypot(here.error, paper.error)
    return abs(here.mean - paper.mean) <= noise + tolerance * paper.mean + half_unit(printed.mean)


def winner(scores: Mapping[str, Summary]) -> str | None:
    """The name with the lowest mean; None if all diverged."""
    name = min(scores, key=lambda key: scores[key].mean)
    return None if diverged(scores[name].mean) else name


def decided(scores: Mapping[str, Summary]) -> bool:
    """Whether the lowest mean leads the next one by more than two standard errors of their difference."""
    first, second = sorted(scores.values(), key=lambda summary: summary.mean)[:2]
    if diverged(second.mean):
        return not diverged(first.mean)
    return second.mean - first.mean > STANDARD_ERRORS * math.hypot(first.error, second.error)


def judge(here: Mapping[str, Summary | None], printed: Mapping[str, Score], *, count: int, tolerance: float) -> Verdict:
    """The verdict on one row, by `RULE`.

    Args:
        here: our scores by name; None where one is missing or not fit for comparison.
        printed: the printed scores under the same names.
        count: number of runs behind each printed score.
        tolerance: error to which the data are known, relative.
    """
    ours = {name: summary for name, summary in here.items() if summary is not None and summary.count > 1}
    if set(ours) != set(printed):
        return Verdict.NOT_COMPARABLE
    paper = {name: printed_summary(score, count) for name, score in printed.items()}
    best, printed_best = winner(ours), winner(paper)
    if best is None or printed_best is None:
        return Verdict.NOT_COMPARABLE
    agree = all(scores_agree(ours[name], printed[name], count, tolerance) for name in ours)
    if agree and best == printed_best:
        return Verdict.AGREE
    if decided(ours):
        return Verdict.OTHER_SIZE if best == printed_best else Verdict.DIFFER
    return Verdict.DIFFER if decided(paper) else Verdict.NOT_COMPARABLE


def judge_gradients(here: Mapping[str, Summary | None], printed: Mapping[str, Score]) -> Verdict:
    """The verdict on one row of the gradient table, by `GRADIENT_RULE`."""
    ours = {name: summary for name, summary in here.items() if summary is not None and summary.count > 1}
    if set(ours) != set(printed):
        return Verdict.NOT_COMPARABLE
    closest = min(ours, key=lambda name: abs(ours[name].mean))
    if closest != min(printed, key=lambda name: abs(printed[name].mean)):
        return Verdict.DIFFER
    within = all(gradient_agrees(name, ours[name], printed[name]) for name in ours)
    return Verdict.AGREE if within else Verdict.OTHER_SIZE


def gradient_agrees(name: str, here: Summary, printed: Score) -> bool:
    """Whether one log ratio agrees with the printed one."""
    spread = 0.0 if printed.deviation is None else 2 * float(printed.deviation)
    near = abs(here.mean - float(printed.mean)) <= spread + half_unit(printed.mean)
    return near and (name != "lens" or abs(here.mean) <= NEUTRAL)


def side(low: float, high: float) -> int:
    """-1 if the interval lies below one, 1 if above, 0 if it contains one."""
    return -1 if high < 1 else (1 if low > 1 else 0)


def judge_interval(
    here: tuple[float, float, Interval] | None, printed: tuple[Decimal, Decimal, Decimal], interval: tuple[float, float]
) -> Verdict:
    """The verdict on one row of the multi-trajectory table, by `INTERVAL_RULE`.

    Args:
        here: our geometric means (LLN, comparator) and their ratio; None if a run is missing.
        printed: the printed means and ratio.
        interval: the printed interval of the ratio.
    """
    if here is None or any(math.isnan(value) for value in (here[2].estimate, here[2].low, here[2].high)):
        return Verdict.NOT_COMPARABLE
    ratio, printed_side = here[2], side(*interval)
    same_winner = (ratio.estimate < 1) == (printed[2] < 1)
    same_side = side(ratio.low, ratio.high) == printed_side
    values = (here[0], here[1], ratio.estimate)
    near = all(
        math.isfinite(ours) and float(paper) / FACTOR <= ours <= float(paper) * FACTOR
        for ours, paper in zip(values, printed, strict=True)
    )
    if same_winner and same_side and near:
        return Verdict.AGREE
    if same_side and printed_side == 0:
        return Verdict.NOT_COMPARABLE
    return Verdict.OTHER_SIZE if same_winner and same_side else Verdict.DIFFER
