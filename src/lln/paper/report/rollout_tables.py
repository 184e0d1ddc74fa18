"""The rollout tables: depth 40, all depths, and the two reference rows that the paper lacks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from lln.core.canonical import numbers
from lln.core.statistics import Summary, geometric_mean
from lln.core.table import Table
from lln.paper import printed_values as paper
from lln.paper.printed_values import COMPARATOR_NAMES, MeanAndDeviation
from lln.paper.records import Record
from lln.paper.report import names
from lln.paper.report.compare import ROLLOUTS, Evidence, Verdict, digits_met, judge, score, scores_agree
from lln.paper.report.document import Compared
from lln.paper.report.names import MISSING, NOTHING, SHORT_NAMES, SYSTEM_NAMES, as_printed, diverged, mean_and_deviation

if TYPE_CHECKING:
    from lln.paper.theory.audit import Ratio  # whose module needs torch, which a report does not

DEPTHS = (5, 10, 20, 40)

Ratios = Mapping[tuple[str, int, str, str], str]
Scores = Mapping[str, Summary | None]


def ratio_texts(cells: Sequence[Ratio]) -> Ratios:
    """The computed ratios with their printed digits, by table, depth, system and column."""
    return {(cell.table, cell.depth, cell.system, cell.column): str(cell.computed) for cell in cells}


@dataclass(frozen=True)
class Pair:
    """The two networks that a row compares."""

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

    @property
    def ratio(self) -> str:
        """LLN's mean over the comparator's."""
        if self.lens is None or self.other is None or diverged(self.lens.mean) or diverged(self.other.mean):
            return NOTHING
        return names.plain_number(self.lens.mean / self.other.mean)

    def judge(self, lens: MeanAndDeviation, other: MeanAndDeviation) -> Verdict:
        """The verdict on LLN and its comparator, of which the paper prints these scores."""
        here = {"lens": self.lens, "comparator": self.other if self.complete else None}
        return judge(here, {"lens": lens, "comparator": other})


def pair_of(evidence: Evidence, system: str, depth: int) -> Pair:
    """LLN and the selected comparator of one row: the lowest mean of the five, as the paper selects it."""
    scores = {name: evidence.row_score(system, depth, name) for name in COMPARATOR_NAMES}
    found = {name: summary for name, summary in scores.items() if summary is not None}
    name = min(found, key=lambda key: found[key].mean, default=None)
    other = None if name is None else found[name]
    return Pair(evidence.row_score(system, depth, "lens"), name, other, complete=len(found) == len(scores))


def depth40_table(evidence: Evidence, ratios: Ratios) -> Compared:
    """The depth-40 table."""
    rows, best, verdicts = [], [], []
    for index, row in enumerate(paper.depth40()):
        pair = pair_of(evidence, row.system, 40)
        verdict = evidence.judged(pair.judge(row.lens, row.comparator_mse))
        verdicts.append(verdict)
        if pair.lower is not None:
            best.append((index, 2 if pair.lower else 6))
        best.append((index, 3 if row.mse_ratio < 1 else 7))
        counted = [ratios.get(("depth 40", 40, row.system, column), NOTHING) for column in ("parameters", "operations")]
        chosen = MISSING if pair.name is None else names.MODEL_NAMES[pair.name]
        rows.append(
            [
                *(SYSTEM_NAMES[row.system], row.family),
                *(mean_and_deviation(pair.lens), as_printed(row.lens), ratio_to(pair.lens, row.lens)),
                f"{chosen} ({names.MODEL_NAMES[row.comparator]})",
                *(mean_and_deviation(pair.other), as_printed(row.comparator_mse)),
                ratio_to(pair.other, row.comparator_mse),
                f"{pair.ratio} ({row.mse_ratio})",
                f"{counted[0]} ({row.parameter_ratio_percent})",
                f"{counted[1]} ({row.flop_ratio_percent})",
                verdict.value,
            ]
        )
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


def ratio_to(here: Summary | None, printed: MeanAndDeviation) -> str:
    """Our mean over the printed one."""
    return NOTHING if here is None else names.quotient(here.mean, printed.mean)


class Lines(NamedTuple):
    """What a system contributes to a `score_table`: its printed row, our scores, the verdict, and further cells."""

    printed: paper.ScoresRow
    here: Scores
    verdict: Verdict
    more: Sequence[Sequence[str]] = ((), (), ())  #: at the end of each of its three lines.


def score_table(
    title: str,
    columns: Sequence[str],
    systems: Iterable[Lines],
    notes: Sequence[str],
    *,
    show: Callable[[Summary | None], str] = mean_and_deviation,
    third: tuple[str, Callable[[Summary | None, MeanAndDeviation], str]] = ("factor", ratio_to),
    size: Callable[[Any], Any] = lambda mean: mean,
) -> Compared:
    """Three lines a system: our scores, the printed ones, and how they compare; `size` of a mean decides what is bold.

    In bold is the lowest finite mean of ours and the lowest printed one.
    """
    rows: list[list[str]] = []
    best: list[tuple[int, int]] = []
    verdicts = []
    for printed, here, verdict, more in systems:
        scores, places = printed.scores(), {name: column for column, name in enumerate(here, start=2)}
        ours = {name: size(one.mean) for name, one in here.items() if one is not None and not diverged(one.mean)}
        if ours:
            best.append((len(rows), places[min(ours, key=ours.__getitem__)]))
        best.append((len(rows) + 1, places[min(places, key=lambda name: size(scores[name].mean))]))
        rows += [
            [SYSTEM_NAMES[printed.system], "here", *map(show, here.values()), *more[0], verdict.value],
            ["", "printed", *(as_printed(scores[name]) for name in here), *more[1], ""],
            ["", third[0], *(third[1](one, scores[name]) for name, one in here.items()), *more[2], ""],
        ]
        verdicts.append(verdict)
    return Compared(Table(("System", "", *columns, "Verdict"), rows, title, best), verdicts, notes)


def all_depths_tables(evidence: Evidence, ratios: Ratios) -> list[Compared]:
    """The all-depth table, one part for each depth."""
    comparators = {(row.depth, row.system): row.comparator for row in paper.ratio_rows()}

    def lines(row: paper.AllDepthsRow) -> Lines:
        pair = pair_of(evidence, row.system, row.depth)
        verdict = pair.judge(row.lens, row.scores()[comparators[row.depth, row.system]])
        keys = [("all depths", row.depth, row.system, column) for column in ("parameters", "operations")]
        ours = (pair.ratio, *(ratios.get(key, NOTHING) for key in keys))
        printed = (str(row.mse_ratio), str(row.parameter_ratio), str(row.flop_ratio))
        here = {name: evidence.row_score(row.system, row.depth, name) for name in SHORT_NAMES}
        return Lines(row, here, evidence.judged(verdict), (ours, printed, ("", "", "")))

    columns = (*SHORT_NAMES.values(), "MSE r.", "Param r.", "FLOP r.")
    return [
        score_table(
            f"All-depth rollout comparison, D = {depth}",
            columns,
            (lines(row) for row in paper.all_depths() if row.depth == depth),
            _depth_notes(evidence, depth),
        )
        for depth in DEPTHS
    ]


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


class Cells(NamedTuple):
    """Counts of single scores of the all-depth table: how many were run, agree, and show the printed digits."""

    run: int
    agree: int
    digits: int


def cells_agreeing(
    evidence: Evidence, models: Sequence[str] = tuple(SHORT_NAMES), systems: Sequence[str] = tuple(SYSTEM_NAMES)
) -> Cells:
    """Count the single scores of these networks and systems."""
    rows = [row for row in paper.all_depths() if row.system in systems]
    found = [(evidence.row_score(row.system, row.depth, name), row.scores()[name]) for row in rows for name in models]
    known = [(here, printed) for here, printed in found if here is not None]
    return Cells(len(known), sum(scores_agree(*pair) for pair in known), sum(digits_met(*pair) for pair in known))


def reference_table(evidence: Evidence, *blocks: str) -> Compared:
    """The two rows that every rollout table should have: what costs nothing, and what a linear fit gives."""
    systems = [name for name in SYSTEM_NAMES if any(evidence.runs(*blocks, system=name))] or list(SYSTEM_NAMES)
    rows = []
    for model, label in names.REFERENCE_NAMES.items():
        found = [evidence.first(*blocks, role="reference", system=name, model=model) for name in systems]
        rows.append([label, *map(_reference_score, found)])
    columns = ("Reference, not in the paper", *(SYSTEM_NAMES[name] for name in systems))
    note = (
        "The mean of the training data is a constant forecast. The linear map is x[k+1] - x[k] = A x[k] + b by least "
        "squares in float64; a network that does not beat it has not learned the nonlinear part."
    )
    return Compared(Table(columns, rows, "Reference rows"), (), [note])


def _reference_score(record: Record | None) -> str:
    if record is None:
        return MISSING
    value = record.result["mse"][0]
    return names.mean_number(geometric_mean(numbers(value if isinstance(value, list) else [value])))


def one_step_table(evidence: Evidence) -> Compared:
    """Normalised one-step error on the 700 test pairs beside the rollout error, at D = 40. The paper prints none."""
    rows = []
    for system, label in SYSTEM_NAMES.items():
        cells = []
        for model in ("lens", "mlp"):
            cells += [_one_step(evidence.row(system, 40, model))]
            cells += [mean_and_deviation(evidence.row_score(system, 40, model))]
        rows.append([label, *cells, _one_step(_linear(evidence, system))])
    columns = ("System", "LLN, one step", "LLN, 500 steps", "plain MLP, one step", "500 steps", "linear map, one step")
    note = "Mean over the seeds of the squared error on 700 pairs behind the training pairs, in standard deviations."
    return Compared(Table(columns, rows, "One-step test error at D = 40"), (), [note])


def _linear(evidence: Evidence, system: str) -> Record | None:
    return evidence.first(*ROLLOUTS, role="reference", system=system, model="linear")


def _one_step(record: Record | None) -> str:
    values = numbers(record.result.get("one_step", [])) if record is not None else []
    return names.plain_number(sum(values) / len(values)) if values else MISSING


def linear_wins(evidence: Evidence) -> tuple[int, int]:
    """On how many systems the linear map beats both sides of the depth-40 row, and on how many both are known."""
    wins = known = 0
    for system in SYSTEM_NAMES:
        pair, linear = pair_of(evidence, system, 40), _linear(evidence, system)
        if linear is not None and pair.lens is not None and pair.other is not None:
            known += 1
            wins += score(linear).mean < min(pair.lens.mean, pair.other.mean)
    return wins, known


def missing_note(evidence: Evidence, *blocks: str) -> list[str]:
    """One sentence on what is not there and what to run, if something is."""
    absent = [block for block in blocks if block not in evidence.blocks]
    missing, failed = evidence.unfinished(*blocks)
    notes = []
    if absent or missing:
        wanted = absent or [block for block in blocks if evidence.unfinished(block)[0]]
        notes.append(f"Incomplete: run `lln reproduce {' '.join(wanted)}` for what is missing.")
    if failed:
        notes.append(f"{failed} runs crashed; `lln reproduce {' '.join(blocks)}` tries them again.")
    return notes
