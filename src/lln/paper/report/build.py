"""From a folder of records to the report: what it contains, and the files it becomes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lln.core.safe_files import output_folder, whole_file
from lln.core.table import Table
from lln.paper.report import figures, identified
from lln.paper.report import other_tables as other
from lln.paper.report import rollout_tables as rollouts
from lln.paper.report.claims import FAILS, HOLDS, IN_NOISE, NOT_RUN, OTHER_SIZE, Claim, all_claims, curves_of
from lln.paper.report.compare import GRADIENT_RULE, INTERVAL_RULE, ROLLOUTS, RULE, Evidence, Verdict
from lln.paper.report.document import Compared, Document, Picture, Section, to_latex, to_markdown, write_pictures
from lln.paper.report.html import to_html
from lln.paper.report.names import REFERENCE_NAMES

if TYPE_CHECKING:
    from lln.paper.theory.audit import Ratio

PROTOCOLS = {
    "R0": "original-grid rollouts: depth 40, all depths, depth sweep",
    "SC-C": "spring-chain completion of the same",
    "L28-C": "Lorenz-28 completion of the same",
    "MT": "several trajectories, disjoint for training and test",
    "C0": "rollout curves, chosen and confirmed on disjoint seeds",
    "G0": "gradients at initialisation",
    "ABL": "structure ablation, under R0 on every system",
    "AS": "architecture selection",
    "HP": "optical hyperparameters",
    "CS": "optical case study",
}
TRIAL = (
    "This is a shortened trial run (less data and fewer steps than the paper's): the shapes are right, the "
    "numbers are not meant to be compared, and no row is."
)


def write_report(folder: Path | str, out: Path | str | None = None, ratios: Sequence[Ratio] = ()) -> list[Path]:
    """Write `summary.md`, `report.md`, `report.tex`, `report.html` and the figures from the records in `folder`.

    They go to `out`, by default beside the records, which may be incomplete. `ratios` are those computed from the
    counts, for their columns. Returns the files that were written.
    """
    evidence = Evidence.read(folder)
    target = output_folder(folder if out is None else out)
    document = build_document(evidence, ratios, Path(folder))
    pictures = write_pictures(document.pictures, target / "figures")
    files = {
        "summary.md": to_markdown(Document(document.title, document.sections[:1])),
        "report.md": to_markdown(document),
        "report.tex": to_latex(document),
        "report.html": to_html(document, target / "figures"),
    }
    for name, text in files.items():
        with whole_file(target / name) as partial:
            partial.write_text(text, encoding="utf-8")
    return [*(target / name for name in files), *pictures]


def build_document(evidence: Evidence, ratios: Sequence[Ratio] = (), folder: Path | None = None) -> Document:
    """The whole report as data: what is identified, then the tables, then the claims.

    `folder` holds the stored search and the batch-64 table; None leaves them out.
    """
    counted = rollouts.ratio_texts(ratios)
    main = rollouts.depth40_table(evidence, counted)
    depths = rollouts.all_depths_tables(evidence, counted)
    gradients = other.gradient_table(evidence)
    several = other.multi_trajectory_table(evidence)
    variants = other.ablation_table(evidence)
    compared = {
        "Depth-40 table": [main],
        "All-depth table": depths,
        "Gradient table": [gradients],
        "Multi-trajectory table": [several],
        "Ablation table": [variants],
    }
    sweep = Picture(
        "depth_sweep",
        "All-model rollout error across network depths: mean normalised MSE over the seeds; dashes are the printed "
        "means. A gap is a mean that diverged.",
        figures.depth_sweep_figure(evidence),
    )
    transport = Picture(
        "gradient_transport",
        "Matched layerwise gradient transport at D = 40 and h = 128: mean over the seeds, bands of one standard "
        "deviation. The lower panels magnify scaled ResMLP and LLN.",
        figures.gradient_figure(evidence),
    )
    curves = Picture(
        "rollout_curves",
        "Temporal rollout error at D = 40: geometric mean over the confirmation seeds, bands are 95 % seed-bootstrap "
        "intervals. A curve ends where a run diverged.",
        figures.rollout_curve_figure({system: curves_of(evidence, system) for system in figures.CURVE_SYSTEMS}),
    )
    references = rollouts.reference_table(evidence, *ROLLOUTS)
    home = Path() if folder is None else folder
    known = [identified.protocol_table(), identified.fingerprint_table(evidence), *identified.search_table(home)]
    claims = all_claims(evidence)
    outcomes = [[claim.text, claim.outcome, claim.here, claim.printed, claim.difference] for claim in claims]
    heads = ("Claim of the paper", "Outcome", "here", "printed", "What differs")
    said = Table(heads, outcomes, "The paper's claims")
    sections = [
        _summary(evidence, compared, claims, home),
        Section("What is identified", (), (), known),
        Section("Depth-40 rollouts", (), RULE, [main, references, other.deployment_table()]),
        Section("All depths", (), (), [*depths, references], [sweep]),
        Section("Gradient transport", (GRADIENT_RULE,), (), [gradients], [transport]),
        Section("Structure ablation", (), (), [variants, references]),
        Section("Several trajectories", (INTERVAL_RULE,), (), [several, rollouts.reference_table(evidence, "MT")]),
        Section("Rollout curves", rollouts.missing_note(evidence, "C0"), (), (), [curves]),
        Section("Optical case study", (), (), [other.case_table(evidence)], _case_pictures(evidence)),
        Section("The paper's claims", (), (), [Compared(said)]),
        Section("Sensitivity to the batch size", (), (), identified.sensitivity_table(evidence, home)),
        Section("One-step error", (), (), [rollouts.one_step_table(evidence)]),
        Section("Architecture and hyperparameter profiles", ("The paper describes these without a table.",), (),
                [other.factorial_table(evidence), *other.profile_tables(evidence)]),
        Section("Protocols and time", (), (), [_protocol_table(evidence)]),
    ]  # fmt: skip
    return Document("The paper's evidence, run again", sections)


def _summary(
    evidence: Evidence, compared: Mapping[str, Sequence[Compared]], claims: Sequence[Claim], home: Path
) -> Section:
    counts = {name: Counter(v for part in parts for v in part.verdicts) for name, parts in compared.items()}
    total = sum(counts.values(), Counter())
    rows: list[list[str | float | int]] = [
        [name, sum(c.values()), *(c[v] for v in Verdict)] for name, c in {**counts, "All": total}.items()
    ]
    verdicts = Table(("Table", "rows", *(verdict.value for verdict in Verdict)), rows, "How many rows agree")
    return Section(
        "Summary",
        [TRIAL] if evidence.trial else [],
        [*identified.lorenz_lines(evidence), *_overall_lines(evidence, claims), *_meaning_lines(evidence, home)],
        [Compared(verdicts)],
    )


def _overall_lines(evidence: Evidence, claims: Sequence[Claim]) -> list[str]:
    """What reproduces and what does not, in counts."""
    cells = rollouts.cells_agreeing(evidence)
    held = Counter(claim.outcome for claim in claims)
    return [
        f"All ten systems: {cells.agree} of {cells.run} scores of the all-depth table agree, {cells.digits} of them in "
        "every digit.",
        "The data of the other eight systems are a fit, not the paper's own: no setting of the search shows every "
        "digit. Their rows say whether the order reproduces, not the size.",
        f"Of {len(claims)} claims, {held[HOLDS]} hold, {held[IN_NOISE]} hold within noise, {held[OTHER_SIZE]} hold in "
        f"order but not in size, {held[FAILS]} fail, {held[NOT_RUN]} were not run.",
    ]


def _meaning_lines(evidence: Evidence, home: Path) -> list[str]:
    """What that says about lens networks."""
    wins, known = rollouts.linear_wins(evidence)
    ahead = identified.sensitivity_counts(home)
    lines = [
        "The protocol trains every network for 18 optimizer steps (Lorenz-28: 60). LLN's printed lead at D = 40 is a "
        "lead in its first 18 steps, when deep comparators still predict a constant."
    ]
    if ahead is not None:
        lines.append(
            f"With 282 steps (batch 64) comparators train: at D = 5 the best of them is ahead of LLN on {ahead[0]} of "
            f"{ahead[1]} systems."
        )
    lines.append(
        f"The linear map in closed form, which the paper does not show, is below LLN and comparator on {wins} of "
        f"{known} systems at D = 40."
    )
    return lines


def _protocol_table(evidence: Evidence) -> Compared:
    """The paper's index of protocols, with what was run of each and how long it took."""
    rows: list[list[str | float | int]] = []
    for block, title in PROTOCOLS.items():
        digests = {entry.digest for entry in evidence.blocks.get(block, ())}
        runs = evidence.runs(block)
        systems = {run.spec["system"] for run in runs if "system" in run.spec}
        trained = [run for run in runs if run.spec.get("model") not in REFERENCE_NAMES]
        seeds = {seed for run in trained for seed in run.spec.get("seeds", ())}
        minutes = sum(evidence.seconds.get(digest, 0.0) for digest in digests) / 60
        rows.append([block, title, len(systems), len(seeds), len(digests), len(runs), f"{minutes:.1f}"])
    columns = ("Protocol", "Evidence", "systems", "seeds", "runs", "done", "minutes of work")
    note = "Minutes are summed over the workers that ran side by side; a run that serves two blocks counts in both."
    return Compared(Table(columns, rows, "Protocol index"), (), [note])


def _case_pictures(evidence: Evidence) -> list[Picture]:
    runs = evidence.runs("CS")
    if not runs or not runs[0].result["displayed"]:
        return []
    result = runs[0].result
    return [
        Picture("case_study", "Low-dimensional optical case study: (a) the least confident error and the two nearest "
                "correct references, (b) LLN position paths, (c) plain MLP paths for the same inputs. Circle: start, "
                "square: end.", figures.case_figure(result)),
        Picture("case_refraction", "Layerwise LLN refraction and readout: the paths through the error's three "
                "largest-turn layers (stars), and all turns.", figures.refraction_figure(result)),
        Picture("case_overview", "All LLN errors: (a) where they lie, (b) position paths with confidence rank and "
                "peak-turn layer (star), (c) turns by layer, (d) distribution of the maximum turn.",
                figures.overview_figure(result)),
    ]  # fmt: skip
