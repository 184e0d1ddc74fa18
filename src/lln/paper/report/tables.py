"""The tables of the report.

- Rollouts: depth 40, all depths, and the two reference rows that the paper lacks.
- Gradients, ablation, several trajectories and the case study, and the two diagnostic profiles.
- What the printed numbers identify: the protocol, the simulators, and how well each is met.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lln.core.canonical import numbers
from lln.core.statistics import Interval, Summary, cluster_ratio, geometric_mean, summarize
from lln.core.table import INFINITY, Table
from lln.paper import printed_values as paper
from lln.paper.printed_values import COMPARATOR_NAMES, MeanAndDeviation, ablation, all_depths, gradient_transport
from lln.paper.records import Record
from lln.paper.report import names
from lln.paper.report.compare import (
    ROLLOUTS,
    Evidence,
    Verdict,
    digits_met,
    judge,
    judge_gradients,
    judge_interval,
    lowest,
    score,
    scores_agree,
    side,
    table_of,
)
from lln.paper.report.document import Compared
from lln.paper.report.names import (
    FAMILY_NAMES,
    MISSING,
    NOTHING,
    SHORT_NAMES,
    SYSTEM_NAMES,
    VARIANT_NAMES,
    as_printed,
    diverged,
    mean_and_deviation,
    mean_number,
)

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
    """How single scores of the all-depth table fare: how many were run, agree, show the printed digits."""

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
        "The training mean predicts a constant. The linear map is x[k+1] - x[k] = A x[k] + b by least squares in "
        "float64; a network that does not beat it has not learned the nonlinear part."
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


GRADIENT_MODELS = ("mlp", "residual", "scaled-residual", "lens")


def gradient_scores(evidence: Evidence, system: str) -> dict[str, Summary | None]:
    """log10(g_1 / g_D) over the seeds, by network."""
    found = {name: evidence.first("G0", system=system, model=name) for name in GRADIENT_MODELS}
    return {name: None if one is None else summarize(table_of(one, "log_ratios")[:, 0]) for name, one in found.items()}


def gradient_table(evidence: Evidence) -> Compared:
    """The gradient table; the third line of a system is the difference, as these are logarithms."""
    scores = {row.system: gradient_scores(evidence, row.system) for row in paper.gradient_transport()}

    def difference(here: Summary | None, printed: MeanAndDeviation) -> str:
        return NOTHING if here is None else f"{here.mean - float(printed.mean):+.3f}"

    notes = [
        "log10(g_1 / g_40) at initialisation, mean ± standard deviation over the seeds; zero is ideal. These are "
        "logarithms, so the third line is the difference, the logarithm of the ratio.",
        *missing_note(evidence, "G0"),
    ]
    return score_table(
        "Matched gradient transport at initialisation",
        [names.MODEL_NAMES[name] for name in GRADIENT_MODELS],
        (
            Lines(row, scores[row.system], evidence.judged(judge_gradients(scores[row.system], row.scores())))
            for row in paper.gradient_transport()
        ),
        notes,
        show=lambda one: MISSING if one is None else f"{one.mean:.3f} ± {one.deviation:.3f}",
        third=("difference", difference),
        size=abs,
    )


def ablation_scores(evidence: Evidence, system: str) -> dict[str, Summary | None]:
    """Scores of the four variants on one system."""
    found = {role: evidence.first("ABL", role=role, system=system) for role in VARIANT_NAMES}
    return {role: None if one is None else score(one) for role, one in found.items()}


def ablation_table(evidence: Evidence) -> Compared:
    """The ablation table."""
    scores = {row.system: ablation_scores(evidence, row.system) for row in paper.ablation()}
    notes = [
        "500-step normalised rollout MSE at D = 40, mean ± standard deviation over the seeds. A divergent finite mean "
        "(above 100) is set in powers of ten.",
        *missing_note(evidence, "ABL"),
    ]
    return score_table(
        "LLN structure ablation across all ten systems",
        tuple(VARIANT_NAMES.values()),
        (
            Lines(row, scores[row.system], evidence.judged(judge(scores[row.system], row.scores())))
            for row in paper.ablation()
        ),
        notes,
        show=lambda one: mean_and_deviation(one, 3 if one is not None and one.mean < 0.1 else 2, powers=True),
    )


def multi_trajectory_scores(evidence: Evidence, system: str) -> tuple[float, float, Interval] | None:
    """Geometric means of LLN and comparator and their ratio with its interval; None if a run is missing."""
    lens, other = (evidence.first("MT", role=role, system=system) for role in ("lens", "comparator"))
    if lens is None or other is None:
        return None
    ours, theirs = table_of(lens, "mse"), table_of(other, "mse")
    return geometric_mean(ours), geometric_mean(theirs), cluster_ratio(ours, theirs)


def multi_trajectory_table(evidence: Evidence) -> Compared:
    """The multi-trajectory table."""
    rows, best, verdicts = [], [], []
    for index, row in enumerate(paper.multi_trajectory()):
        here = multi_trajectory_scores(evidence, row.system)
        low, high = (float(value) for value in row.interval)
        verdict = judge_interval(here, (row.lens, row.comparator_mse, row.mse_ratio), (low, high))
        verdicts.append(evidence.judged(verdict))
        best.append((index, 2 if row.mse_ratio < 1 else 5))
        if side(low, high) < 0:
            best.append((index, 8))
        if here is not None and not (diverged(here[0]) and diverged(here[1])):
            best.append((index, 1 if here[0] < here[1] else 4))
            best += [(index, 7)] if side(here[2].low, here[2].high) < 0 else []
        least, most = row.interval
        rows.append(
            [
                SYSTEM_NAMES[row.system],
                *_beside(here and here[0], row.lens),
                *_beside(here and here[1], row.comparator_mse),
                MISSING if here is None else interval_text(here[2]),
                f"{row.mse_ratio} [{names.power(least, 3) if low < 1e-4 else least}, {most}]",
                verdicts[-1].value,
            ]
        )
    columns = (
        *("System", "LLN MSE", "printed", "factor", "Comparator MSE", "printed", "factor"),
        *("MSE ratio [95 % CI]", "printed", "Verdict"),
    )
    notes = [
        "Geometric means over six training seeds, four unseen trajectories and two 500-step windows of each; "
        "the interval resamples training seeds as clusters. Bold: the lower mean, and a ratio whose interval lies "
        "below one.",
        *missing_note(evidence, "MT"),
    ]
    return Compared(Table(columns, rows, "Frozen multi-trajectory confirmation", best), verdicts, notes)


def interval_text(ratio: Interval) -> str:
    """A ratio and its interval."""
    return f"{names.plain_number(ratio.estimate)} [{names.plain_number(ratio.low)}, {names.plain_number(ratio.high)}]"


def _beside(here: float | None, printed: Decimal) -> list[str]:
    """A geometric mean, the printed one, and their ratio, also where it is large: these are not cut at 100."""
    if here is None:
        return [MISSING, str(printed), NOTHING]
    ratio = here / float(printed)
    times = INFINITY if ratio == float("inf") else (f"{ratio:.2f}" if 0.01 <= ratio < 1000 else names.power(ratio))
    return [names.plain_number(here), str(printed), times]


def case_table(evidence: Evidence) -> Compared:
    """The index of errors, ours and the printed one beside it; they are other samples of other draws."""
    runs = evidence.runs("CS")
    ours = list(runs[0].result["errors"]) if runs else []
    printed = list(paper.case_errors())
    rows = []
    for rank in range(max(len(ours), len(printed))):
        left = _case_cells(runs[0].result, ours[rank]) if rank < len(ours) else [MISSING if not runs else ""] * 5
        right = [""] * 5
        if rank < len(printed):
            row = printed[rank]
            change = f"{row.true_class} → {row.predicted_class}"
            right = [str(row.index), change, str(row.confidence), str(row.largest_turn), f"L{row.peak_layer}"]
        rows.append([str(rank), *left, *right])
    heads = ("test index", "error", "confidence", "max. turn (°)", "peak layer")
    columns = ("Rank", *heads, *(f"printed {head}" for head in heads))
    notes = [
        "Data and seeds of the paper's case are not published, so the rows name other samples and cannot be compared "
        "one by one; the statements drawn from them are compared in the summary.",
        *missing_note(evidence, "CS"),
    ]
    return Compared(Table(columns, rows, "Complete index of LLN errors in the two-moons case study"), (), notes)


def _case_cells(result: Mapping[str, Any], sample: int) -> list[str]:
    turns = [float(turn) for turn in result["turns"][sample]]
    change = f"{result['labels'][sample]} → {result['predicted'][sample]}"
    peak = max(range(len(turns)), key=turns.__getitem__)
    return [str(sample), change, f"{result['confidence'][sample]:.3f}", f"{turns[peak]:.2f}", f"L{peak + 1}"]


def deployment_table() -> Compared:
    """The printed deployments, which every depth-40 run of ours uses as they are."""
    rows = [
        [SYSTEM_NAMES[row.system], f"{row.horizon.normalize():f}", str(row.width), str(row.basis),
         f"{row.lens_scale.normalize():f}"]
        for row in paper.deployments()
    ]  # fmt: skip
    return Compared(
        Table(("System", "T", "h", "K", "s"), rows, "LLN deployments at D = 40, as printed and as run here")
    )


def factorial_table(evidence: Evidence) -> Compared:
    """Architecture selection: the best of each depth and system, with the sizes that gave it. The paper prints none."""
    systems = _systems_of(evidence, "AS")
    rows = [[f"D = {depth}", *(_best_of(evidence, s, depth) for s in systems)] for depth in DEPTHS]
    columns = ("Lowest mean over h and T", *(SYSTEM_NAMES[system] for system in systems))
    return Compared(Table(columns, rows, "Architecture-selection factorial"), (), missing_note(evidence, "AS"))


def _best_of(evidence: Evidence, system: str, depth: int) -> str:
    record = lowest(evidence.runs("AS", system=system, depth=depth))
    if record is None:
        return MISSING
    options = record.spec["options"]
    return f"{mean_and_deviation(score(record))} (h={options['width']}, T={options['horizon']:g})"


def profile_tables(evidence: Evidence) -> list[Compared]:
    """One-factor profiles of lens scale, basis count and initial angle. The paper prints none."""
    titles = {"lens_scale": "lens scale s", "basis": "basis count K", "initial_angle": "initial angle"}
    systems = _systems_of(evidence, "HP")
    parts = []
    for key, title in titles.items():
        values = sorted({run.spec["options"][key] for run in evidence.runs("HP", role=key)})
        rows = []
        for value in values:
            runs = [evidence.first("HP", role=key, system=system, **{key: value}) for system in systems]
            label = value if isinstance(value, str) else f"{value:g}"
            rows.append([label, *(mean_and_deviation(None if run is None else score(run)) for run in runs)])
        table = Table((title, *(SYSTEM_NAMES[s] for s in systems)), rows, f"Profile over the {title}")
        parts.append(Compared(table, (), missing_note(evidence, "HP")))
    return parts


def _systems_of(evidence: Evidence, block: str) -> list[str]:
    present = {run.spec["system"] for run in evidence.runs(block)}
    return [name for name in SYSTEM_NAMES if name in present]


LORENZ = ("lorenz-24", "lorenz-28")
SEARCH, SENSITIVITY = "search.json", "batch64.json"
# What the studies use of the search's best settings, in words.
CHOSEN = {
    "springchain": "unit springs between neighbours and to the masses' own places, free ends, dt = 0.01414",
    "burgers": "nu = 0.0316, dt = 0.003, 0.1885 (sin x + sin 2x / 2 + cos 4x / 8) on a closed grid",
    "advecdiff": "c = 0.7, nu = 0.05, dt = 0.002, sin x + 0.6 cos 3x",
    "reactiondiff": "nu = 0.001, dt = 0.002, 0.6 sin x + 0.45 cos 2x + 0.06 sin 4x",
}
PROTOCOL = (
    ("batches", "1024 pairs, 18 updates in six epochs", "identified"),
    ("order of the batches", "`DataLoader(shuffle=True)` on the generator that drew the weights", "identified"),
    ("control points and width", "linspace(-5, 5, K), sigma = 20 / K", "identified"),
    ("lens coefficients", "normal, standard deviation 0.05; drawn after both embeddings", "identified"),
    ("T below D = 40", "lowest mean of 1, 2, 3, 4 (Lorenz-24: 4, 2, 1 at D = 5, 10, 20); Lorenz-28: 0.5", "identified"),
    ("LayerScale's start", "0.0001", "identified"),
    ("Lorenz simulator and split", "RK4 in float32, dt = 0.01, start (1, 1, 1), burn-in 500", "identified"),
    ("Lorenz-28 completion", "20 AdamW epochs, cosine to a tenth of the rate, stepped once an epoch", "identified"),
    ("trajectories of MT", "torch noise of 2 %, no burn-in for training, windows at 500 and 1500", "calibrated"),
    ("other simulators", "the best of a search, see below", "calibrated"),
)


def protocol_table() -> Compared:
    """The values that the paper does not state, and how well they are known."""
    rows = [list(row) for row in PROTOCOL]
    note = "Identified: a printed number pins it. Calibrated: it fits, others may too. ASSUMPTIONS.md has the evidence."
    return Compared(Table(("What the paper leaves open", "used here", "evidence"), rows, "The protocol"), (), [note])


def lorenz_lines(evidence: Evidence) -> list[str]:
    """How well the identified protocol meets Lorenz, in one line."""
    others = tuple(COMPARATOR_NAMES)
    first = cells_agreeing(evidence, ("lens", *others), systems=LORENZ)
    second = cells_agreeing(evidence, others, systems=LORENZ)
    return [
        f"Lorenz-24 and Lorenz-28, whose data are identified: {first.digits} of {first.run} scores of the all-depth "
        f"table show every printed digit, LLN's included; {second.agree} of {second.run} comparator scores agree."
    ]


def _cell(here: Summary | None, printed: MeanAndDeviation, decimals: int = 3) -> str:
    if here is None:
        return MISSING
    ours = mean_and_deviation(here, decimals, powers=True)
    mark = " =" if digits_met(here, printed) else (" ≈" if scores_agree(here, printed) else "")
    return f"{ours} [{as_printed(printed)}]{mark}"


def fingerprint_table(evidence: Evidence) -> Compared:
    """What depends on data and known seeds alone, system by system: here [printed]."""
    rows = []
    paper = {(row.system, row.depth): row.scores()["mlp"] for row in all_depths()}
    gradients = {row.system: row.scores() for row in gradient_transport()}
    variants = {row.system: row.scores() for row in ablation()}
    for system, label in SYSTEM_NAMES.items():
        slopes, pieces = gradient_scores(evidence, system), ablation_scores(evidence, system)
        rows.append(
            [
                label,
                _cell(evidence.row_score(system, 40, "mlp"), paper[system, 40]),
                _cell(evidence.row_score(system, 20, "mlp"), paper[system, 20]),
                _cell(slopes["residual"], gradients[system]["residual"]),
                _cell(slopes["scaled-residual"], gradients[system]["scaled-residual"]),
                _cell(pieces["no-lens"], variants[system]["no-lens"], 2),
                _cell(pieces["no-propagation"], variants[system]["no-propagation"], 2),
            ]
        )
    columns = (
        *("System", "MLP, D = 40", "MLP, D = 20", "gradient, ResMLP", "gradient, scaled"),
        *("without lens", "without propagation"),
    )
    notes = [
        "Here [printed]. '=' shows every printed digit, '≈' agrees within noise. None of these depends on a lens.",
        "Right data must show every digit of the first four columns, as Lorenz-24 does.",
    ]
    return Compared(Table(columns, rows, "Fingerprints of the data"), (), notes)


def search_table(folder: Path) -> list[Compared]:
    """The stored search for the simulators; nothing where its file is not in `folder`."""
    path = folder / SEARCH
    if not path.exists():
        return []
    content = json.loads(path.read_text(encoding="utf-8"))
    rows = []
    for family, name in FAMILY_NAMES.items():
        found = content[family]
        rows.append([name, f"{found['settings'] / 1e6:.0f} million", CHOSEN[family], "no"])
    total = sum(content[family]["settings"] for family in FAMILY_NAMES)
    note = (
        f"{total / 1e6:.0f} million settings in all, ranked by the plain-MLP scores at both sizes, then by the "
        "gradient rows. No setting shows every digit. `search.json` holds the best 25 of each family; "
        "`python -m lln.paper.identify` searches on."
    )
    columns = ("Family", "settings tried", "used here", "every digit?")
    return [Compared(Table(columns, rows, "The search for the simulators"), (), [note])]


def sensitivity_table(evidence: Evidence, folder: Path) -> list[Compared]:
    """LLN and the best comparator with 18 and with 282 updates; nothing where the stored table is not in `folder`."""
    cells = _batch64(folder)
    if not cells:
        return []
    rows = []
    for system, label in SYSTEM_NAMES.items():
        row = [label]
        for depth in (5, 40):
            ours = {name: evidence.row_score(system, depth, name) for name in ("lens", *COMPARATOR_NAMES)}
            few = {name: math.inf if value is None else value.mean for name, value in ours.items()}
            many = {name: cells[system, depth, name] for name in ("lens", *COMPARATOR_NAMES)}
            for means in (few, many):
                row += [mean_number(means["lens"]), mean_number(min(means[name] for name in COMPARATOR_NAMES))]
        rows.append(row)
    sides = ("LLN", "best other")
    columns = (
        "System",
        *(f"D = {depth}, {updates} updates: {side}" for depth in (5, 40) for updates in (18, 282) for side in sides),
    )
    notes = [
        "Batch 64 gives 282 updates in the same six epochs. That run is the first reproduction, with other lens "
        "constants and simulators, so compare LLN with the other networks inside a run, not across runs."
    ]
    return [Compared(Table(columns, rows, "Sensitivity to the batch size"), (), notes)]


def sensitivity_counts(folder: Path) -> tuple[int, int] | None:
    """On how many of how many systems the best comparator is below LLN at D = 5 with 282 updates."""
    cells = _batch64(folder)
    if not cells:
        return None
    ahead = sum(
        min(cells[system, 5, name] for name in COMPARATOR_NAMES) < cells[system, 5, "lens"] for system in SYSTEM_NAMES
    )
    return ahead, len(SYSTEM_NAMES)


def _batch64(folder: Path) -> dict[tuple[str, int, str], float]:
    """The stored mean scores by system, depth and network; empty where their file is not in `folder`."""
    path = folder / SENSITIVITY
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"] if path.exists() else []
    return {(system, depth, model): math.inf if mean is None else mean for system, depth, model, mean, _ in cells}
