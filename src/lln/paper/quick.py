"""The same study in miniature: all systems, models and depths, with little data, few seeds and one epoch."""

from __future__ import annotations

from lln.paper.spec import Confirm, Runs, Study

SEEDS = 2
PAIRS = 128
STEPS = 20
EPOCHS = 1
BATCH = 16


def shortened(study: Study) -> Study:
    """`study` with the same shapes in seconds; its numbers mean nothing."""
    data = study.data.model_copy(
        update={
            "pairs": min(study.data.pairs, PAIRS),
            "steps": min(study.data.steps, STEPS),
        }
    )
    recipes = {name: recipe.model_copy(update={"epochs": EPOCHS}) for name, recipe in study.recipes.items()}
    return study.model_copy(
        update={
            "seeds": study.seeds[:SEEDS],
            "data": data,
            "recipes": recipes,
            "short": True,
            "batch": min(study.batch, BATCH),
            "runs": tuple(_short_entry(entry) for entry in study.runs),
            "confirm": None if study.confirm is None else _short_confirm(study.confirm),
        }
    )


def _short_entry(entry: Runs) -> Runs:
    return entry.model_copy(update={"seeds": None if entry.seeds is None else entry.seeds[:SEEDS]})


def _short_confirm(confirm: Confirm) -> Confirm:
    return confirm.model_copy(update={"seeds": confirm.seeds[:SEEDS]})
