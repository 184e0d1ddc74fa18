"""From a study to its runs, each known by the digest of everything that determines it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from lln.core.canonical import digest
from lln.paper.printed_values import deployments, ratio_rows
from lln.paper.spec import DEPLOYMENT, REFERENCES, ROW, SELECTED, Data, Runs, Study

SCHEMA = 2
# Control points linspace(-R, R, K), width of the Gaussians 4 R / K, standard deviation of the initial coefficients:
# the only ones tried that give the printed LLN rows of Lorenz-24 in every digit.
LENS_CONSTANTS = {"range": 5.0, "sigma_factor": 4.0, "deviation": 0.05}
# Sizes of a study in miniature.
QUICK_SEEDS, QUICK_PAIRS, QUICK_STEPS, QUICK_EPOCHS, QUICK_BATCH = 2, 128, 20, 1, 16


@dataclass(frozen=True)
class RunSpec:
    """One run: all seeds of one configuration.

    The seeds belong to the digest as a group, because in float32 a batched sum rounds differently from a single one.
    """

    content: Mapping[str, Any]  #: everything that determines the result, as plain data.
    role: str  #: what the run is there for in its block; not part of its identity.

    @cached_property
    def digest(self) -> str:
        """The identity of the run."""
        return digest(self.content)

    @property
    def cost(self) -> float:
        """A rough measure of the time it takes, to run long ones first and to tell the time left.

        Seconds on one core of a laptop, within a factor of two or so.
        """
        content = self.content
        options, model = content.get("options"), content.get("model")
        if not options:
            return 5.0 if content["kind"] == "case-study" else 0.5
        members = len(content["seeds"])
        pairs = content["data"]["pairs"] * max(1, len(content["data"].get("train", [])))
        size = options["width"] * options.get("basis", options["width"]) * options["depth"]
        if content["kind"] == "gradients":
            passes, per_unit = content["batch"] * content["batches"], 1e-8 if model == "lens" else 1e-10
            return float(0.05 + members * passes * size * per_unit)
        passes, per_unit = pairs * content["recipe"]["epochs"], 3e-10 if model == "lens" else 1.9e-10
        updates = passes / content["recipe"]["batch_size"]
        return float(0.2 + updates * 2e-3 + members * passes * size * per_unit)


def expand(study: Study) -> list[RunSpec]:
    """Every run of `study` that is known before it starts, each once."""
    if study.kind == "case-study":
        from lln.paper import case_study

        return [RunSpec(case_study.specification(study.short), "case")]
    found: dict[tuple[str, str], RunSpec] = {}
    for entry in study.runs:
        for run in _entry_runs(study, entry):
            found.setdefault((run.digest, run.role), run)
    return list(found.values())


def _entry_runs(study: Study, entry: Runs) -> Iterator[RunSpec]:
    for system in entry.systems or study.systems:
        for model in entry.model:
            if model in REFERENCES:
                yield RunSpec(_content(study, entry, system, model, {}), entry.role)
                continue
            for options in _options(entry, system, model):
                name = selected_comparator(system, options["depth"]) if model == SELECTED else model
                if name == "layerscale":
                    options = {**options, "initial_scale": entry.initial_scale}
                yield RunSpec(_content(study, entry, system, name, options), entry.role)


def _options(entry: Runs, system: str, model: str) -> Iterator[dict[str, Any]]:
    if model != "lens":
        for depth, width in itertools.product(entry.depth, entry.width):
            yield {"depth": depth, "width": width}
        return
    grid = (entry.depth, entry.width, entry.basis, entry.horizon, entry.lens_scale, entry.initial_angle)
    for depth, width, basis, horizon, lens_scale, angle in itertools.product(*grid):
        yield {
            "depth": depth,
            "width": _printed(width, "width", system, depth),
            "basis": _printed(basis, "basis", system, depth),
            "horizon": float(_printed(horizon, "horizon", system, depth)),
            "lens_scale": float(_printed(lens_scale, "lens_scale", system, depth)),
            "initial_angle": angle,
            "propagation": entry.propagation,
            **LENS_CONSTANTS,
        }


def _printed(value: Any, key: str, system: str, depth: int) -> Any:
    """`value`, or what the paper has for `key` where it says "row" or "deployment"."""
    if value == ROW:
        return getattr(next(row for row in ratio_rows() if (row.system, row.depth) == (system, depth)), key)
    if value == DEPLOYMENT:
        return getattr(next(row for row in deployments() if row.system == system), key)
    return value


def selected_comparator(system: str, depth: int) -> str:
    """The comparator that the paper sets against the lens network in the row of `system` and `depth`."""
    return str(_printed(ROW, "comparator", system, depth))


def _content(study: Study, entry: Runs, system: str, model: str, options: Mapping[str, Any]) -> dict[str, Any]:
    seeds = [0] if model in REFERENCES else list(entry.seeds or study.seeds)
    content: dict[str, Any] = {
        "kind": study.kind,
        "schema": SCHEMA,
        "system": system,
        "model": model,
        "options": dict(options),
        "seeds": seeds,
        "dtype": "float32",
        "data": _data(study.kind, study.data),
    }
    if study.kind == "gradients":
        return content | {"batch": study.batch, "batches": study.batches}
    recipe = None if model in REFERENCES else study.recipe_of(entry, system, model).model_dump()
    content |= {"recipe": recipe}
    return content | {"curve": entry.curve} if study.kind == "rollout" else content


def _data(kind: str, data: Data) -> dict[str, Any]:
    keys = ["burn_in", "dtype", "pairs"]
    keys += ["steps"] if kind != "gradients" else []
    keys += ["test_pairs"] if kind == "rollout" else []
    keys += ["train", "test", "windows", "perturbation", "train_burn_in"] if kind == "multi-trajectory" else []
    values = data.model_dump(include=set(keys))
    return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}


def shortened(study: Study) -> Study:
    """`study` with the same shapes in seconds; its numbers mean nothing."""
    data, confirm = study.data, study.confirm
    sizes = {"pairs": min(data.pairs, QUICK_PAIRS), "steps": min(data.steps, QUICK_STEPS)}
    return study.model_copy(
        update={
            "seeds": study.seeds[:QUICK_SEEDS],
            "data": data.model_copy(update=sizes),
            "recipes": {key: one.model_copy(update={"epochs": QUICK_EPOCHS}) for key, one in study.recipes.items()},
            "short": True,
            "batch": min(study.batch, QUICK_BATCH),
            "runs": tuple(
                run.model_copy(update={"seeds": run.seeds and run.seeds[:QUICK_SEEDS]}) for run in study.runs
            ),
            "confirm": confirm and confirm.model_copy(update={"seeds": confirm.seeds[:QUICK_SEEDS]}),
        }
    )
