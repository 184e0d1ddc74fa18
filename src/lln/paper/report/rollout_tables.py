"""The rollout tables: depth 40, all depths, and the two reference rows that the paper lacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from lln.core.canonical import numbers
from lln.core.statistics import Summary, geometric_mean
from lln.core.table import Table
from lln.paper.printed_values import (
    COMPARATOR_NAMES,
    AllDepthsRow,
    Depth40Row,
    MeanAndDeviation,
    all_depths,
    depth40,
    ratio_rows,
)
from lln.paper.records import Record
from lln.paper.report.compare import ROLLOUTS, Evidence, Verdict, digits_met, judge, score, scores_agree
from lln.paper.report.document import Compared
from lln.paper.report.names import (
    MISSING,
    MODEL_NAMES,
    NOTHING,
    REFERENCE_NAMES,
    SHORT_NAMES,
    SYSTEM_NAMES,
    as_printed,
    diverged,
    mean_and_deviation,
    mean_number,
    plain_number,
    quotient,
)

if TYPE_CHECKING:
    from lln.paper.theory.audit import Ratio  # whose module needs torch, which a report does not

DEPTHS = (5, 10, 20, 40)


Ratios = Mapping[tuple[str, int, str, str], str]


def ratio_texts(cells: Sequence[Ratio]) -> Ratios:
    """The computed ratios with their printed digits, by table, depth, system and column."""
    return {(cell.table, cell.depth, cell.system, cell.column): str(cell.computed) for cell in cells}


@dataclass(frozen=True)
class Pair:
    """The two contestants of a row."""

    lens: Summary | None  #: score of the LLN.
    name: str | None  #: the comparator with the lowest mean of those that were run, None if none was.
    other: Summary | None  #: its score.
    complete: bool  #: whether all five comparators were run.

    @property
    def lower(self) -> bool | None:
        """Whether LLN has the lower mean; None if one is missing or both diverged."""
        if self.lens is None or self.other is None or not self.complete:
            return None
        if diverged(self.lens.mean) and diverged(self.other.mean):
            return None
        return self.lens.mean < self.other.mean


def pair_of(evidence: Evidence, system: str, depth: int) -> Pair:
    """LLN and the selected comparator of one row: the lowest mean of the five, as the paper selects it."""
    scores = {name: evidence.row_score(system, depth, name) for name in COMPARATOR_NAMES}
    found = {name: summary for name, summary in scores.items() if summary is not None}
    lens = evidence.row_score(system, depth, "lens")
    if not found:
        return Pair(lens, None, None, complete=False)
    name = min(found, key=lambda key: found[key].mean)
    return Pair(lens, name, found[name], complete=len(found) == len(scores))


def judge_pair(pair: Pair, lens: MeanAndDeviation, other: MeanAndDeviation) -> Verdict:
    """The verdict on LLN and its comparator."""
    here = {"lens": pair.lens, "comparator": pair.other if pair.complete else None}
    return judge(here, {"lens": lens, "comparator": other})


def ratio_of(pair: Pair) -> str:
    """LLN's mean over the comparator's."""
    if pair.lens is None or pair.other is None or diverged(pair.lens.mean) or diverged(pair.other.mean):
        return NOTHING
    return plain_number(pair.lens.mean / pair.other.mean)


def depth40_table(evidence: Evidence, ratios: Ratios) -> Compared:
    """The depth-40 table."""
    rows, best, verdicts = [], [], []
    for index, printed in enumerate(depth40()):
        pair = pair_of(evidence, printed.system, 40)
        verdicts.append(evidence.judged(judge_pair(pair, printed.lens, printed.comparator_mse)))
        rows.append(_depth40_cells(printed, pair, ratios, verdicts[-1]))
        if pair.lower is not None:
            best.append((index, 2 if pair.lower else 6))
        best.append((index, 3 if printed.mse_ratio < 1 else 7))
    columns = (
        *("System", "Family", "LLN MSE", "printed", "factor"),
        *("Selected non-LLN (printed)", "Comparator MSE", "printed", "factor"),
        *("MSE ratio (printed)", "Param ratio % (printed)", "FLOP ratio % (printed)", "Verdict"),
    )
    notes = [
        "Mean ± standard deviation of the normalised MSE over a 500-step free-running rollout, over the seeds. A "
        "column 'factor' is our mean over the printed one. The comparator is the lowest mean of five networks, chosen "
        "here from our own runs. Parameter and FLOP ratios are counted for the printed pair of networks.",
        *missing_note(evidence, *ROLLOUTS),
    ]
    title = "Depth-40 selected-deployment rollout performance"
    return Compared(Table(columns, rows, title, best), verdicts, notes)


def _depth40_cells(printed: Depth40Row, pair: Pair, ratios: Ratios, verdict: Verdict) -> list[str]:
    def computed(column: str, paper: Decimal) -> str:
        return f"{ratios.get(('depth 40', 40, printed.system, column), NOTHING)} ({paper})"

    return [
        SYSTEM_NAMES[printed.system],
        printed.family,
        mean_and_deviation(pair.lens),
        as_printed(printed.lens),
        ratio_to(pair.lens, printed.lens),
        f"{MISSING if pair.name is None else MODEL_NAMES[pair.name]} ({MODEL_NAMES[printed.comparator]})",
        mean_and_deviation(pair.other),
        as_printed(printed.comparator_mse),
        ratio_to(pair.other, printed.comparator_mse),
        f"{ratio_of(pair)} ({printed.mse_ratio})",
        computed("parameters", printed.parameter_ratio_percent),
        computed("operations", printed.flop_ratio_percent),
        verdict.value,
    ]


def ratio_to(here: Summary | None, printed: MeanAndDeviation) -> str:
    """Our mean over the printed one."""
    return NOTHING if here is None else quotient(here.mean, printed.mean)


def all_depths_tables(evidence: Evidence, ratios: Ratios) -> list[Compared]:
    """The all-depth table, one part for each depth; three lines a system: here, printed, their ratio."""
    comparators = {(row.depth, row.system): row.comparator for row in ratio_rows()}
    parts = []
    for depth in DEPTHS:
        rows: list[list[str]] = []
        best: list[tuple[int, int]] = []
        verdicts = []
        for printed in (row for row in all_depths() if row.depth == depth):
            scores = {name: evidence.row_score(printed.system, depth, name) for name in SHORT_NAMES}
            pair = pair_of(evidence, printed.system, depth)
            other = printed.scores()[comparators[depth, printed.system]]
            verdicts.append(evidence.judged(judge_pair(pair, printed.lens, other)))
            best += lowest(scores, printed.scores(), len(rows))
            rows += _all_depths_lines(printed, scores, pair, ratios, verdicts[-1])
        columns = ("System", "", *SHORT_NAMES.values(), "MSE r.", "Param r.", "FLOP r.", "Verdict")
        title = f"All-depth rollout comparison, D = {depth}"
        parts.append(Compared(Table(columns, rows, title, best), verdicts, _depth_notes(evidence, depth)))
    return parts


def _all_depths_lines(
    printed: AllDepthsRow, scores: Mapping[str, Summary | None], pair: Pair, ratios: Ratios, verdict: Verdict
) -> list[list[str]]:
    paper = printed.scores()
    keys = [("all depths", printed.depth, printed.system, column) for column in ("parameters", "operations")]
    counted = [ratios.get(key, NOTHING) for key in keys]
    here = [mean_and_deviation(scores[name]) for name in SHORT_NAMES]
    return [
        [SYSTEM_NAMES[printed.system], "here", *here, ratio_of(pair), *counted, verdict.value],
        ["", "printed", *(as_printed(paper[name]) for name in SHORT_NAMES), str(printed.mse_ratio),
         str(printed.parameter_ratio), str(printed.flop_ratio), ""],
        ["", "factor", *(ratio_to(scores[name], paper[name]) for name in SHORT_NAMES), "", "", "", ""],
    ]  # fmt: skip


def lowest(
    here: Mapping[str, Summary | None], printed: Mapping[str, MeanAndDeviation], line: int
) -> list[tuple[int, int]]:
    """The cells to set in bold: the lowest finite mean of ours in `line`, the lowest printed one in the next."""
    places = {name: column for column, name in enumerate(here, start=2)}
    ours = {name: summary.mean for name, summary in here.items() if summary is not None and not diverged(summary.mean)}
    marks = [(line, places[min(ours, key=lambda name: ours[name])])] if ours else []
    return [*marks, (line + 1, places[min(printed, key=lambda name: printed[name].mean)])]


def _depth_notes(evidence: Evidence, depth: int) -> list[str]:
    chosen = []
    for system, label in SYSTEM_NAMES.items():
        record = evidence.row(system, depth, "lens")
        if record is not None:
            options = record.spec["options"]
            chosen.append(f"{label} h={options['width']}, K={options['basis']}, T={options['horizon']:g}")
    how = "printed" if depth == 40 else "widths and basis counts follow from the printed ratios, T is the lowest mean"
    notes = [f"LLN of each row ({how}): {'; '.join(chosen)}."] if chosen else []
    return [*notes, *missing_note(evidence, *ROLLOUTS)]


@dataclass(frozen=True)
class Cells:
    """How single scores of the all-depth table fare: how many were run, agree, show the printed digits."""

    run: int
    agree: int
    digits: int


def cells_agreeing(
    evidence: Evidence, models: Sequence[str] = tuple(SHORT_NAMES), systems: Sequence[str] = tuple(SYSTEM_NAMES)
) -> Cells:
    """Count the single scores of these networks and systems."""
    found = [
        (evidence.row_score(row.system, row.depth, name), row.scores()[name])
        for row in all_depths()
        if row.system in systems
        for name in models
    ]
    known = [(here, paper) for here, paper in found if here is not None]
    return Cells(
        len(known),
        sum(scores_agree(here, paper) for here, paper in known),
        sum(digits_met(here, paper) for here, paper in known),
    )


def reference_table(evidence: Evidence, *blocks: str) -> Compared:
    """The two rows that every rollout table should have: what costs nothing, and what a linear fit gives."""
    systems = [name for name in SYSTEM_NAMES if any(evidence.runs(*blocks, system=name))] or list(SYSTEM_NAMES)
    rows = []
    for model, label in REFERENCE_NAMES.items():
        found = {name: evidence.runs(*blocks, role="reference", system=name, model=model) for name in systems}
        rows.append([label, *(_reference_score(found[name]) for name in systems)])
    columns = ("Reference, not in the paper", *(SYSTEM_NAMES[name] for name in systems))
    note = (
        "The training mean predicts a constant. The linear map is x[k+1] - x[k] = A x[k] + b by least squares in "
        "float64; a network that does not beat it has not learned the nonlinear part."
    )
    return Compared(Table(columns, rows, "Reference rows"), (), [note])


def _reference_score(records: Sequence[Record]) -> str:
    if not records:
        return MISSING
    value = records[0].result["mse"][0]
    return mean_number(geometric_mean(numbers(value if isinstance(value, list) else [value])))


def one_step_table(evidence: Evidence) -> Compared:
    """Normalised one-step error on the 700 test pairs beside the rollout error, at D = 40. The paper prints none."""
    rows = []
    for system, label in SYSTEM_NAMES.items():
        cells = []
        for model in ("lens", "mlp"):
            record = evidence.row(system, 40, model)
            cells += [MISSING, MISSING] if record is None else [_one_step(record), mean_and_deviation(score(record))]
        linear = evidence.runs(*ROLLOUTS, role="reference", system=system, model="linear")
        rows.append([label, *cells, _one_step(linear[0]) if linear else MISSING])
    columns = ("System", "LLN, one step", "LLN, 500 steps", "plain MLP, one step", "500 steps", "linear map, one step")
    note = "Mean over the seeds of the squared error on 700 pairs behind the training pairs, in standard deviations."
    return Compared(Table(columns, rows, "One-step test error at D = 40"), (), [note])


def _one_step(record: Record) -> str:
    values = numbers(record.result.get("one_step", []))
    return plain_number(sum(values) / len(values)) if values else MISSING


def linear_wins(evidence: Evidence) -> tuple[int, int]:
    """On how many systems the linear map beats both sides of the depth-40 row, and on how many both are known."""
    wins = known = 0
    for system in SYSTEM_NAMES:
        pair = pair_of(evidence, system, 40)
        linear = evidence.runs(*ROLLOUTS, role="reference", system=system, model="linear")
        if linear and pair.lens is not None and pair.other is not None:
            known += 1
            wins += score(linear[0]).mean < min(pair.lens.mean, pair.other.mean)
    return wins, known


def missing_note(evidence: Evidence, *blocks: str) -> list[str]:
    """One sentence on what is not there and what to run, if something is."""
    absent = [block for block in blocks if block not in evidence.blocks]
    missing, failed = evidence.unfinished(*blocks)
    notes = []
    if absent or missing:
        names = absent or [block for block in blocks if evidence.unfinished(block)[0]]
        notes.append(f"Incomplete: run `lln reproduce {' '.join(names)}` for what is missing.")
    if failed:
        notes.append(f"{failed} runs crashed; `lln reproduce {' '.join(blocks)}` tries them again.")
    return notes
