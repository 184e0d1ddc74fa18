"""The tables on gradients, ablation, several trajectories and the case study, and the two diagnostic profiles."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from lln.core.statistics import Interval, Summary, cluster_ratio, geometric_mean, summarize
from lln.core.table import INFINITY, Table
from lln.paper import printed_values as paper
from lln.paper.printed_values import MeanAndDeviation
from lln.paper.report import names
from lln.paper.report.compare import Evidence, judge, judge_gradients, judge_interval, lowest, score, side, table_of
from lln.paper.report.document import Compared
from lln.paper.report.names import MISSING, NOTHING, SYSTEM_NAMES, VARIANT_NAMES, diverged, mean_and_deviation
from lln.paper.report.rollout_tables import DEPTHS, Lines, missing_note, score_table

GRADIENT_MODELS = ("mlp", "residual", "scaled-residual", "lens")


def gradient_scores(evidence: Evidence, system: str) -> dict[str, Summary | None]:
    """log10(g_1 / g_D) over the seeds, by network."""
    found = {name: evidence.first("G0", system=system, model=name) for name in GRADIENT_MODELS}
    return {name: None if one is None else summarize(table_of(one, "log_ratios")[:, 0]) for name, one in found.items()}


def gradient_table(evidence: Evidence) -> Compared:
    """The gradient table; the third line of a system is the difference, as these are logarithms."""
    scores = {row.system: gradient_scores(evidence, row.system) for row in paper.gradient_transport()}

    def difference(here: Summary | None, printed: MeanAndDeviation) -> str:
        return NOTHING if here is None else f"{round(here.mean - float(printed.mean), 3) + 0.0:+.3f}"  # no -0.000

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
