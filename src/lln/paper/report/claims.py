"""The paper's claims, each counted in print and here by the same question.

A claim names the systems (or rows) of which it says something. It holds here if it is true for each of them, and holds
within noise if every row that is lost lies within two standard errors. If it fails, the exceptions are named with
their numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from lln.core.statistics import Summary, geometric_mean
from lln.paper import printed_values as paper
from lln.paper.printed_values import MeanAndDeviation
from lln.paper.report.compare import Evidence, decided, side, table_of
from lln.paper.report.names import MISSING, MODEL_NAMES, SYSTEM_NAMES, VARIANT_NAMES, diverged, mean_number
from lln.paper.report.other_tables import ablation_scores, gradient_scores, interval_text, multi_trajectory_scores
from lln.paper.report.rollout_tables import DEPTHS, pair_of

HOLDS, IN_NOISE, OTHER_SIZE = "holds", "holds within noise", "order holds, size differs"
FAILS, NOT_RUN = "fails", "not run"
# Relative difference up to which a printed number of the case study counts as met.
NEAR = 0.05
Row = TypeVar("Row")
FIELDS = ("burgers-48", "advecdiff-48", "reactiondiff-48")


@dataclass(frozen=True)
class Claim:
    """One claim of the paper, and whether it holds here."""

    text: str  #: the claim.
    printed: str  #: what the paper's own tables give.
    here: str  #: what our records give.
    outcome: str  #: "holds", "holds within noise", "order holds, size differs", "fails" or "not run".
    difference: str = ""  #: where it fails, what differs.


def counted(
    text: str,
    printed: Mapping[Row, bool],
    here: Mapping[Row, bool | None],
    explain: Callable[[Row], str],
    label: Callable[[Row], str] = lambda name: SYSTEM_NAMES.get(str(name), str(name)),
    noise: Callable[[Row], bool] = lambda _: False,
) -> Claim:
    """A claim about several rows: it holds if every row that shows it in print shows it here as well.

    `here` is None where it is unknown. Of a row, `explain` gives the numbers, for the exceptions, `label` the name, and
    `noise` whether its numbers lie within two standard errors of each other.
    """
    known = {name: value for name, value in here.items() if value is not None}
    print_text = f"{sum(printed.values())} of {len(printed)}"
    if not known:
        return Claim(text, print_text, NOT_RUN, NOT_RUN)
    here_text = f"{sum(known.values())} of {len(known)}"
    lost = [name for name, value in printed.items() if value and known.get(name) is False]
    gained = [name for name, value in printed.items() if not value and known.get(name) is True]
    open_rows = [name for name, value in printed.items() if value and known.get(name) is None]
    close = [name for name in lost if noise(name)]
    parts = [f"not on {label(name)}{', within noise' if name in close else ''} ({explain(name)})" for name in lost]
    parts += [f"{label(name)} cannot be told ({explain(name)})" for name in open_rows]
    parts += [f"also on {label(name)}, against print ({explain(name)})" for name in gained]
    if len(lost) > len(close):
        outcome = FAILS
    elif open_rows:
        outcome = NOT_RUN
    else:
        outcome = IN_NOISE if lost else HOLDS
    return Claim(text, print_text, here_text, outcome, "; ".join(parts))


def close_scores(*scores: Summary | None) -> bool:
    """Whether the lowest two of `scores` lie within two standard errors of their difference."""
    known = {str(index): score for index, score in enumerate(scores) if score is not None}
    return len(known) > 1 and not decided(known)


def all_claims(evidence: Evidence) -> list[Claim]:
    """Every claim, in the order of the paper; a trial run shows its numbers but decides none of them."""
    claims = [
        *_rollout_claims(evidence),
        *_gradient_claims(evidence),
        *_case_claims(evidence),
        *_multi_trajectory_claims(evidence),
        _curve_claim(evidence),
        *_ablation_claims(evidence),
    ]
    return [replace(claim, outcome=NOT_RUN, difference="") for claim in claims] if evidence.trial else claims


def _rollout_claims(evidence: Evidence) -> list[Claim]:
    """LLN against the selected comparator at D = 40, and against all of them where the text names system and depth."""
    pairs = {(row.system, row.depth): pair_of(evidence, row.system, row.depth) for row in paper.all_depths()}
    lowest = {
        (row.system, row.depth): row.lens.mean <= min(s.mean for s in row.scores().values())
        for row in paper.all_depths()
    }

    def cells(text: str, rows: Iterable[tuple[str, int]]) -> Claim:
        rows = list(rows)
        return counted(
            text,
            {row: lowest[row] for row in rows},
            {row: pairs[row].lower for row in rows},
            lambda row: f"LLN {_mean(pairs[row].lens)}, best other {_mean(pairs[row].other)}",
            lambda row: f"{SYSTEM_NAMES[row[0]]} at D = {row[1]}",
            lambda row: close_scores(pairs[row].lens, pairs[row].other),
        )

    def explain(system: str) -> str:
        pair = pairs[system, 40]
        name = "no comparator" if pair.name is None else MODEL_NAMES[pair.name]
        return f"LLN {_mean(pair.lens)}, {name} {_mean(pair.other)}"

    selected = counted(
        "At D = 40, LLN has a lower mean than the selected comparator",
        {row.system: row.mse_ratio < 1 for row in paper.depth40()},
        {row.system: pairs[row.system, 40].lower for row in paper.depth40()},
        explain,
        noise=lambda system: close_scores(pairs[system, 40].lens, pairs[system, 40].other),
    )
    advection = product(("advecdiff-32", "advecdiff-48"), DEPTHS)
    reaction = product(("reactiondiff-32", "reactiondiff-48"), (20, 40))
    return [
        selected,
        _depth_claim(evidence),
        cells("LLN has the lowest mean on AdvecDiff at every depth", advection),
        cells("LLN is below all baselines on ReactionDiff at D = 20 and 40", reaction),
    ]


def _depth_claim(evidence: Evidence) -> Claim:
    systems = ("burgers-32", "burgers-48", "reactiondiff-32", "reactiondiff-48")
    printed = {(row.system, row.depth): row.lens.mean for row in paper.all_depths()}
    scores = {system: [evidence.row_score(system, depth, "lens") for depth in DEPTHS] for system in systems}

    def flat(system: str) -> bool:
        steps = pairwise(scores[system])
        return all(a is not None and b is not None and (a.mean >= b.mean or close_scores(a, b)) for a, b in steps)

    return counted(
        "LLN improves with depth on Burgers and ReactionDiff",
        {s: all(printed[s, a] >= printed[s, b] for a, b in pairwise(DEPTHS)) for s in systems},
        {s: _falls(scores[s]) for s in systems},
        lambda system: " → ".join(map(_mean, scores[system])),
        noise=flat,
    )


def _falls(scores: Sequence[Summary | None]) -> bool | None:
    means = [summary.mean for summary in scores if summary is not None]
    if len(means) < len(scores):
        return None
    return all(first >= second for first, second in pairwise(means)) and not diverged(means[-1])


def _gradient_claims(evidence: Evidence) -> list[Claim]:
    scores = {row.system: gradient_scores(evidence, row.system) for row in paper.gradient_transport()}

    def closest(means: Mapping[str, float]) -> bool:
        return min(means, key=lambda name: abs(means[name])) == "lens"

    def explain(system: str) -> str:
        return ", ".join(f"{MODEL_NAMES[name]} {_mean(summary)}" for name, summary in scores[system].items())

    printed = {
        row.system: closest({n: float(s.mean) for n, s in row.scores().items()}) for row in paper.gradient_transport()
    }
    here = {system: None if None in found.values() else closest(_means(found)) for system, found in scores.items()}
    neutral = {row.system: 0 <= row.lens.mean <= row.lens.mean.from_float(0.0085) for row in paper.gradient_transport()}
    means = {system: found["lens"].mean for system, found in scores.items() if found["lens"] is not None}
    near = {system: None if system not in means else abs(means[system]) < 0.01 for system in scores}
    extent = f"; from {min(means.values()):.3f} to {max(means.values()):.3f}" if means else ""
    claim = counted("LLN's mean log ratio is within 0.01 of zero (printed 0.000 to 0.008)", neutral, near, explain)
    return [
        counted("LLN is closest to neutral gradient transport", printed, here, explain),
        replace(claim, here=claim.here + extent),
    ]


def _case_claims(evidence: Evidence) -> list[Claim]:
    stated = paper.case_statements()
    runs = evidence.runs("CS")
    texts = (
        "Two components explain most of the variance of LLN's positions, and less of the MLP's hidden states",
        "The median maximum turn of LLN's errors exceeds that of the correct samples",
        "The displayed error is ordinary: its maximum turn is no outlier among all held-out samples",
    )
    printed = (
        f"{stated.lens_explained_percent} % and {stated.mlp_explained_percent} %",
        f"{stated.error_turn}° ({stated.errors} errors), {stated.correct_turn}° ({stated.correct} correct)",
        f"percentile {stated.displayed_percentile}",
    )
    if not runs or not runs[0].result["errors"]:
        return [Claim(text, value, NOT_RUN, NOT_RUN) for text, value in zip(texts, printed, strict=True)]
    result = runs[0].result
    lens, mlp = (100 * sum(result["explained"][name]) for name in ("lens", "mlp"))
    errors, correct, place = result["error_turn"], result["correct_turn"], result["displayed_percentile"]
    count = len(result["errors"])
    here = (
        f"{lens:.1f} % and {mlp:.1f} %",
        f"{errors:.2f}° ({count} errors), {correct:.2f}° ({len(result['labels']) - count} correct)",
        f"percentile {place:.0f}",
    )
    order = (lens > mlp, errors > correct, 5 <= place <= 95)
    numbers: tuple[tuple[tuple[Any, float], ...], ...] = (
        ((stated.lens_explained_percent, lens), (stated.mlp_explained_percent, mlp)),
        ((stated.error_turn, errors), (stated.correct_turn, correct)),
        ((stated.displayed_percentile, place),),
    )
    return [
        _sized(text, value, ours, right, [(float(theirs), mine) for theirs, mine in pairs])
        for text, value, ours, right, pairs in zip(texts, printed, here, order, numbers, strict=True)
    ]


def _sized(text: str, printed: str, here: str, right: bool, pairs: Sequence[tuple[float, float]]) -> Claim:
    """A claim with numbers in it: its order may hold while its numbers do not."""
    ratios = [ours / theirs for theirs, ours in pairs]
    difference = "here over printed: " + ", ".join(f"{ratio:.2f}" for ratio in ratios)
    if not right:
        return Claim(text, printed, here, FAILS, difference + "; the order is the other one")
    near = all(abs(ratio - 1) <= NEAR for ratio in ratios)
    return Claim(text, printed, here, HOLDS if near else OTHER_SIZE, "" if near else difference)


def _multi_trajectory_claims(evidence: Evidence) -> list[Claim]:
    found = {row.system: multi_trajectory_scores(evidence, row.system) for row in paper.multi_trajectory()}

    def explain(system: str) -> str:
        scores = found[system]
        return "not run" if scores is None else f"ratio {interval_text(scores[2])}"

    lower = {row.system: row.mse_ratio < 1 for row in paper.multi_trajectory()}
    below = {row.system: row.interval[1] < 1 for row in paper.multi_trajectory()}
    known = {
        name: scores[2]
        for name, scores in found.items()
        if scores is not None and scores[2].estimate == scores[2].estimate
    }
    here_lower = {name: known[name].estimate < 1 if name in known else None for name in found}
    here_below = {name: side(known[name].low, known[name].high) < 0 if name in known else None for name in found}
    return [
        counted("On unseen trajectories, LLN has the lower geometric mean", lower, here_lower, explain,
                noise=lambda name: name in known and side(known[name].low, known[name].high) == 0),
        counted("On unseen trajectories, the 95 % interval of the ratio lies below one", below, here_below, explain),
    ]  # fmt: skip


def curves_of(evidence: Evidence, system: str) -> dict[str, NDArray[Any]]:
    """Error by step of the confirmed LLN and comparator, (seeds, steps), by model."""
    return {
        str(run.spec["model"]): table_of(run, "curve")
        for run in evidence.runs("C0", role="confirmation", system=system)
    }


def _curve_claim(evidence: Evidence) -> Claim:
    shares: dict[str, float] = {}
    for system in FIELDS:
        curves = curves_of(evidence, system)
        others = [name for name in curves if name != "lens"]
        if "lens" in curves and others:
            means = [np.array([geometric_mean(step) for step in curves[name].T]) for name in ("lens", others[0])]
            shares[system] = float((means[0] < means[1]).mean())
    here = {system: shares[system] == 1.0 if system in shares else None for system in FIELDS}
    text = "LLN's error curve stays below the comparator's at every step"
    return counted(
        text, dict.fromkeys(FIELDS, True), here, lambda system: f"at {100 * shares.get(system, 0.0):.0f} % of the steps"
    )


def _ablation_claims(evidence: Evidence) -> list[Claim]:
    scores = {row.system: ablation_scores(evidence, row.system) for row in paper.ablation()}
    printed = {row.system: row.scores() for row in paper.ablation()}

    def explain(system: str) -> str:
        labels = {name: label[0].lower() + label[1:] for name, label in VARIANT_NAMES.items()}
        return ", ".join(f"{labels[name]} {_mean(summary)}" for name, summary in scores[system].items())

    def compare(
        text: str,
        question: Callable[[Mapping[str, float]], bool],
        sides: Sequence[str],
        systems: Sequence[str] = tuple(SYSTEM_NAMES),
    ) -> Claim:
        stated = {system: question({n: float(s.mean) for n, s in printed[system].items()}) for system in systems}
        here = {s: None if None in scores[s].values() else question(_means(scores[s])) for s in systems}
        noise = {system: close_scores(*(scores[system][name] for name in sides)) for system in systems}
        return counted(text, stated, here, explain, noise=noise.__getitem__)

    moving = [system for system in SYSTEM_NAMES if not system.startswith("springchain")]
    return [
        compare("The full structure is best of the four variants", lambda m: m["full"] <= min(m.values()),
                tuple(VARIANT_NAMES)),
        compare("Removing the lens does not lower the error", lambda m: m["no-lens"] >= m["full"], ("full", "no-lens")),
        compare("Zeroing the initial angle raises the error", lambda m: m["zero-angle"] > m["full"],
                ("full", "zero-angle")),
        compare("Without propagation the error rises at least fivefold on Lorenz and the fields",
                lambda m: m["no-propagation"] > 5 * m["full"], (), moving),
    ]  # fmt: skip


def _means(scores: Mapping[str, Summary | None]) -> dict[str, float]:
    return {name: summary.mean for name, summary in scores.items() if summary is not None}


def _mean(value: Summary | MeanAndDeviation | None) -> str:
    return MISSING if value is None else mean_number(float(value.mean))
