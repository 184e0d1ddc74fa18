"""What the printed numbers identify: the protocol, the simulators, and how well each is met."""

from __future__ import annotations

import json
import math
from pathlib import Path

from lln.core.statistics import Summary
from lln.core.table import Table
from lln.paper.printed_values import COMPARATOR_NAMES, MeanAndDeviation, ablation, all_depths, gradient_transport
from lln.paper.report.compare import Evidence, digits_met, scores_agree
from lln.paper.report.document import Compared
from lln.paper.report.names import FAMILY_NAMES, MISSING, SYSTEM_NAMES, as_printed, mean_and_deviation, mean_number
from lln.paper.report.other_tables import ablation_scores, gradient_scores
from lln.paper.report.rollout_tables import cells_agreeing

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
