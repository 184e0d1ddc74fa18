"""When a row of ours agrees with a printed row: one rule, stated, applied by code.

The rule does not depend on the verdict, and a wide spread makes the verdict open.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from lln.core.canonical import numbers
from lln.core.errors import InputError
from lln.core.statistics import Array, Interval, Summary, summarize
from lln.paper.printed_values import MeanAndDeviation
from lln.paper.records import Entry, Record, read_blocks, read_records, read_times
from lln.paper.report.names import diverged

# A ratio of means beyond this is another size, however wide the spread.
FACTOR = 1.25
STANDARD_ERRORS = 2.0
SEEDS = 10  # behind each printed mean and deviation

RULE = (
    "A score agrees if it shows the printed digits, or if the means differ by at most two standard errors of their "
    "difference and by a factor of at most 1.25.",
    "Two diverged means (not finite, or above 100) agree; a diverged and a finite one do not.",
    "The winner of a row is the lower mean. It is decided if it leads by more than two standard errors.",
    "Agree: the same winner, and all scores of the row agree.",
    "Same winner, other size: the winner is decided and the same, but a score does not agree.",
    "Not comparable: a score is missing or comes from a trial run, all means of one side diverged, or neither side "
    "decides its winner and the scores do not agree.",
    "Differ: every other case.",
)
GRADIENT_RULE = (
    "Nothing is trained here, so the printed digits are the test. Agree: all eight numbers of the row show them. Same "
    "winner, other size: the network closest to zero is the same. Differ: it is another."
)
INTERVAL_RULE = (
    "A row agrees if the winner is the same, the interval of the ratio lies on the same side of one (or both contain "
    "one), and both geometric means and the ratio are within a factor of 1.25 of print. With the same winner and side "
    "but another size it is the same winner, other size; if both intervals contain one, it is not comparable; "
    "otherwise it differs."
)


class Verdict(Enum):
    """What can be said about one row."""

    AGREE = "agree"
    OTHER_SIZE = "same winner, other size"
    DIFFER = "differ"
    NOT_COMPARABLE = "not comparable"


def printed_summary(score: MeanAndDeviation) -> Summary:
    """A printed score as a summary over the paper's seeds."""
    deviation = math.inf if score.deviation is None else float(score.deviation)
    return Summary(float(score.mean), deviation, SEEDS)


def shows(value: float, printed: Decimal) -> bool:
    """Whether `value`, rounded as the printed number is, shows its digits.

    >>> shows(6.17049, Decimal("6.170")), shows(6.1706, Decimal("6.170"))
    (True, False)
    """
    if not math.isfinite(value) or not printed.is_finite():
        return False
    return Decimal(repr(value)).quantize(printed, ROUND_HALF_EVEN) == printed


def digits_met(here: Summary, printed: MeanAndDeviation) -> bool:
    """Whether mean and deviation of ours both show the printed digits; two diverged means do."""
    if diverged(here.mean) or diverged(printed.mean):
        return diverged(here.mean) and diverged(printed.mean)
    return shows(here.mean, printed.mean) and (printed.deviation is None or shows(here.deviation, printed.deviation))


def scores_agree(here: Summary, printed: MeanAndDeviation) -> bool:
    """Whether one score of ours agrees with the printed one (the first two lines of `RULE`)."""
    paper = printed_summary(printed)
    if diverged(here.mean) or diverged(paper.mean):
        return diverged(here.mean) and diverged(paper.mean)
    if shows(here.mean, printed.mean):
        return True
    if not paper.mean / FACTOR <= here.mean <= paper.mean * FACTOR:
        return False
    return abs(here.mean - paper.mean) <= STANDARD_ERRORS * math.hypot(here.error, paper.error)


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


def judge(here: Mapping[str, Summary | None], printed: Mapping[str, MeanAndDeviation]) -> Verdict:
    """The verdict on one row by `RULE`, of scores by name here (None: missing) and in print."""
    ours = {name: summary for name, summary in here.items() if summary is not None and summary.count > 1}
    if set(ours) != set(printed):
        return Verdict.NOT_COMPARABLE
    paper = {name: printed_summary(score) for name, score in printed.items()}
    best, printed_best = winner(ours), winner(paper)
    if best is None or printed_best is None:
        return Verdict.NOT_COMPARABLE
    agree = all(scores_agree(ours[name], printed[name]) for name in ours)
    if agree and best == printed_best:
        return Verdict.AGREE
    if decided(ours):
        return Verdict.OTHER_SIZE if best == printed_best else Verdict.DIFFER
    return Verdict.DIFFER if decided(paper) else Verdict.NOT_COMPARABLE


def judge_gradients(here: Mapping[str, Summary | None], printed: Mapping[str, MeanAndDeviation]) -> Verdict:
    """The verdict on one row of the gradient table, by `GRADIENT_RULE`."""
    ours = {name: summary for name, summary in here.items() if summary is not None and summary.count > 1}
    if set(ours) != set(printed):
        return Verdict.NOT_COMPARABLE
    closest = min(ours, key=lambda name: abs(ours[name].mean))
    if closest != min(printed, key=lambda name: abs(printed[name].mean)):
        return Verdict.DIFFER
    within = all(digits_met(ours[name], printed[name]) for name in ours)
    return Verdict.AGREE if within else Verdict.OTHER_SIZE


def side(low: float, high: float) -> int:
    """-1 if the interval lies below one, 1 if above, 0 if it contains one."""
    return -1 if high < 1 else (1 if low > 1 else 0)


def judge_interval(
    here: tuple[float, float, Interval] | None, printed: tuple[Decimal, Decimal, Decimal], interval: tuple[float, float]
) -> Verdict:
    """The verdict on one row of the multi-trajectory table, by `INTERVAL_RULE`.

    Of the geometric means (LLN, comparator) and their ratio here (None: a run is missing) and in print, where the ratio
    has the interval `interval`.
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


ROLLOUTS = ("R0", "SC-C", "L28-C")
PAPER_DATA = {"pairs": 3000, "steps": 500}  # of the paper's protocol


@dataclass(frozen=True, eq=False)
class Evidence:
    """Records, blocks and times of the runs of a study."""

    records: Mapping[str, Record]  #: every record by digest.
    blocks: Mapping[str, Sequence[Entry]]  #: which runs serve which block.
    seconds: Mapping[str, float]  #: wall time of each run by digest.

    @classmethod
    def read(cls, folder: Path | str) -> Evidence:
        """The evidence in `folder`; it may be incomplete, but there must be some."""
        if not Path(folder).is_dir():
            raise InputError(f"{folder}: there is no such folder of records; run `lln reproduce` first")
        records, blocks = read_records(folder), read_blocks(folder)
        if not records or not blocks:
            raise InputError(f"{folder}: holds no records; run `lln reproduce --out {folder}` first")
        return cls(records, blocks, {key: timing.seconds for key, timing in read_times(folder).items()})

    def runs(self, *blocks: str, role: str | None = None, **wanted: Any) -> list[Record]:
        """The finished runs of `blocks` in their order, each once, with these values in specification or options."""
        found: dict[str, Record] = {}
        for entry in (entry for block in blocks for entry in self.blocks.get(block, ())):
            record = self.records.get(entry.digest)
            if record is not None and record.done and role in (None, entry.role):
                content = {**record.spec.get("options", {}), **record.spec}
                if all(content.get(key) == value for key, value in wanted.items()):
                    found.setdefault(entry.digest, record)
        return list(found.values())

    def first(self, *blocks: str, **wanted: Any) -> Record | None:
        """The first of `runs`, None if there is none."""
        return next(iter(self.runs(*blocks, **wanted)), None)

    def row(self, system: str, depth: int, model: str) -> Record | None:
        """The run behind one cell of the rollout tables: of several configurations, the one with the lowest mean."""
        return lowest(self._rows.get((system, depth, model), []))

    @cached_property
    def _rows(self) -> dict[tuple[str, int, str], list[Record]]:
        """The runs of the rollout tables by cell; the tables, figures and claims ask for every cell many times."""
        found: dict[tuple[str, int, str], list[Record]] = {}
        for record in self.runs(*ROLLOUTS, role="row"):
            spec = record.spec
            found.setdefault((spec["system"], spec["options"]["depth"], spec["model"]), []).append(record)
        return found

    def row_score(self, system: str, depth: int, model: str) -> Summary | None:
        """Its mean and standard deviation."""
        record = self.row(system, depth, model)
        return None if record is None else score(record)

    def unfinished(self, *blocks: str) -> tuple[int, int]:
        """How many runs of `blocks` are missing, and how many crashed."""
        entries = [entry.digest for block in blocks for entry in self.blocks.get(block, ())]
        missing = sum(digest not in self.records for digest in entries)
        failed = sum(digest in self.records and not self.records[digest].done for digest in entries)
        return missing, failed

    def judged(self, verdict: Verdict) -> Verdict:
        """The verdict on a row; of a trial run none compares."""
        return Verdict.NOT_COMPARABLE if self.trial else verdict

    @cached_property
    def trial(self) -> bool:
        """Whether a run that serves a block used other data than the paper's: a trial run, of which no row compares."""
        served = {entry.digest for entries in self.blocks.values() for entry in entries}
        data = [self.records[digest].spec.get("data", {}) for digest in served if digest in self.records]
        return any(one.get(key, size) != size for one in data for key, size in PAPER_DATA.items())


def score(record: Record) -> Summary:
    """Mean and standard deviation of a rollout run over its seeds."""
    return summarize(numbers(record.result["mse"]))


def lowest(records: Sequence[Record]) -> Record | None:
    """The run with the lowest mean; the first of several that diverged, None of none."""
    return min(records, key=lambda record: score(record).mean, default=None)


def table_of(record: Record, key: str) -> Array:
    """A list of lists of a record's result as a matrix in float64."""
    return np.array([numbers(row) for row in record.result[key]], dtype=np.float64)
