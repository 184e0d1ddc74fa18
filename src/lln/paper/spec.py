"""A study file: typed, strict, checked whole before anything runs.

A file describes one block of evidence: which systems, which seeds, how the data are cut, the recipes, and grids of
networks. Every `[[runs]]` entry is a grid: a value may be one or a list, and all combinations are run. `width` and
`basis` may be "row", the sizes that stand behind the printed row of that depth and system; `width`, `basis`, `horizon`
and `lens_scale` may be "deployment", the printed depth-40 setting of the system; `model` may be "selected", the
comparator that the paper sets against that row's lens network.
"""

from __future__ import annotations

import importlib.resources
import itertools
import math
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from lln.core.errors import InputError, choice, did_you_mean, reason
from lln.models.factory import COMPARATORS, MODELS
from lln.models.lens import INITIAL_ANGLES
from lln.paper.printed_values import ratio_rows
from lln.paper.simulators import SIMULATORS
from lln.paper.training import TrainingRecipe

REFERENCES = ("training-mean", "linear")
SELECTED = "selected"
ROW, DEPLOYMENT = "row", "deployment"
PAPER = "lln.paper"
MOST_RUNS = 100_000
LENS_KEYS = ("basis", "horizon", "lens_scale", "initial_angle", "propagation")


def _listed(value: Any) -> Any:
    return tuple(value) if isinstance(value, list | tuple) else (value,)


def _each(check: Callable[[Any], Any]) -> BeforeValidator:
    """One value or a list of them, none twice, each checked by `check`."""

    def checked(value: Any) -> tuple[Any, ...]:
        found = tuple(check(item) for item in _listed(value))
        if not found:
            raise ValueError("must hold at least one value")
        if len(set(found)) < len(found):
            raise ValueError(f"must not hold a value twice, got {list(found)}")
        return found

    return BeforeValidator(checked)


def _integer(least: int, *words: str, most: int | None = None) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if isinstance(value, str) and words:
            return choice("value", value, words)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            wish = f"an integer of at least {least}" + "".join(f" or {word!r}" for word in words)
            raise ValueError(f"must be {wish}, got {value!r}")
        if most is not None and value > most:
            raise ValueError(f"must be at most {most:,}, got {value:,}")
        return value

    return check


def _real(*words: str) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if isinstance(value, str) and words:
            return choice("value", value, words)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            wish = "a finite number" + "".join(f" or {word!r}" for word in words)
            raise ValueError(f"must be {wish}, got {value!r}")
        return float(value)

    return check


def _named(what: str, known: Iterable[str]) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        if not isinstance(value, str):
            raise ValueError(f"must be the name of a {what}, got {value!r}")
        return choice(what, value, known)

    return check


Seeds = Annotated[tuple[int, ...], _each(_integer(0, most=2**63 - 1))]
Systems = Annotated[tuple[str, ...], _each(_named("system", SIMULATORS))]
Models = Annotated[tuple[str, ...], _each(_named("model", (*MODELS, *REFERENCES, SELECTED)))]


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


class Data(_Part):
    """How trajectories are cut, in time and never at random."""

    burn_in: int = Field(default=500, ge=0)  #: steps that are skipped.
    pairs: int = Field(default=3000, ge=2)  #: one-step pairs that train, from each training trajectory.
    steps: int = Field(default=500, ge=1)  #: length of a test rollout.
    #: one-step pairs behind the training pairs, on which the one-step error is measured.
    test_pairs: int = Field(default=700, ge=1)
    dtype: Literal["float32", "float64"] = "float32"  #: of the simulation.
    #: seeds of perturbed training trajectories; empty for the system's own start.
    train: Annotated[tuple[int, ...], BeforeValidator(_listed)] = ()
    test: Annotated[tuple[int, ...], BeforeValidator(_listed)] = ()  #: seeds of perturbed test trajectories.
    windows: Annotated[tuple[int, ...], BeforeValidator(_listed)] = ()  #: at which steps their test rollouts start.
    perturbation: float = Field(default=0.0, ge=0)  #: of a start, relative to its root mean square.
    #: steps that are skipped before the pairs of perturbed training trajectories.
    train_burn_in: int = Field(default=0, ge=0)


class Runs(_Part):
    """One grid of runs."""

    role: str = Field(min_length=1)
    model: Models
    systems: Systems | None = None
    seeds: Seeds | None = None
    recipe: str | None = None
    curve: bool = False
    depth: Annotated[tuple[int, ...], _each(_integer(1))] = (40,)
    width: Annotated[tuple[int | str, ...], _each(_integer(1, ROW, DEPLOYMENT))] = (128,)
    basis: Annotated[tuple[int | str, ...], _each(_integer(1, ROW, DEPLOYMENT))] = (12,)
    horizon: Annotated[tuple[float | str, ...], _each(_real(DEPLOYMENT))] = (1.0,)
    lens_scale: Annotated[tuple[float | str, ...], _each(_real(DEPLOYMENT))] = (1.0,)
    initial_angle: Annotated[tuple[str, ...], _each(_named("initial angle", INITIAL_ANGLES))] = ("learned",)
    propagation: float | None = None
    initial_scale: float = Field(default=1e-4, gt=0)

    @model_validator(mode="after")
    def _only_what_applies(self) -> Runs:
        given = [key for key in LENS_KEYS if key in self.model_fields_set]
        if given and "lens" not in self.model:
            raise ValueError(f"{given[0]!r} belongs to the lens network, but 'model' is {', '.join(self.model)}")
        sizes = [size for size in (*self.width, *self.basis) if isinstance(size, str)]
        if sizes and set(self.model) != {"lens"}:
            raise ValueError(f"{sizes[0]!r} is a size of the lens network; give other models an entry of their own")
        return self

    def count(self, systems: int) -> int:
        """Number of runs of this grid on so many systems."""
        both = len(self.depth) * len(self.width)
        optics = len(self.basis) * len(self.horizon) * len(self.lens_scale) * len(self.initial_angle)
        sizes = {"lens": both * optics, **dict.fromkeys(REFERENCES, 1)}
        return systems * sum(sizes.get(model, both) for model in self.model)


class Confirm(_Part):
    """Choose the best lens network and the best comparator of each system by its seeds, run them again on others."""

    seeds: Seeds
    curve: bool = True


class Study(_Part):
    """One block of evidence."""

    block: str = Field(min_length=1)
    title: str
    kind: Literal["rollout", "multi-trajectory", "gradients", "case-study"] = "rollout"
    systems: Systems = tuple(SIMULATORS)
    seeds: Seeds = tuple(range(10))
    data: Data = Data()
    recipes: dict[str, TrainingRecipe] = Field(default_factory=dict)
    batch: int = Field(default=512, ge=1)
    batches: int = Field(default=4, ge=1)
    runs: tuple[Runs, ...] = ()
    confirm: Confirm | None = None
    short: bool = False

    @model_validator(mode="before")
    @classmethod
    def _runs_as_tuple(cls, content: Any) -> Any:
        if isinstance(content, dict) and isinstance(content.get("runs"), list):
            content = {**content, "runs": tuple(content["runs"])}
        return content

    @model_validator(mode="after")
    def _fits_together(self) -> Study:
        if self.kind == "case-study":
            if self.runs:
                raise ValueError("a case study has no 'runs'; its setting is fixed")
            return self
        if not self.runs:
            raise ValueError("'runs' is missing; write each grid as [[runs]]")
        count = sum(entry.count(len(entry.systems or self.systems)) for entry in self.runs)
        if count > MOST_RUNS:
            raise ValueError(
                f"'runs' are {count:,} combinations, and a study has at most {MOST_RUNS:,}; list fewer values"
            )
        for index, entry in enumerate(self.runs):
            self._check_entry(entry, f"runs.{index}")
        if self.kind == "multi-trajectory" and not (self.data.train and self.data.test and self.data.windows):
            raise ValueError("a multi-trajectory study needs data.train, data.test and data.windows")
        if self.kind == "gradients" and self.batch * self.batches > self.data.pairs:
            raise ValueError(f"batch x batches must be at most data.pairs = {self.data.pairs}")
        return self

    def _check_entry(self, entry: Runs, where: str) -> None:
        if entry.recipe is not None and entry.recipe not in self.recipes:
            raise ValueError(
                f"{where}.recipe: unknown recipe {entry.recipe!r}{did_you_mean(entry.recipe, self.recipes)}"
            )
        printed = {(row.system, row.depth) for row in ratio_rows()}
        if ROW in (*entry.width, *entry.basis) or SELECTED in entry.model:
            for system, depth in itertools.product(entry.systems or self.systems, entry.depth):
                if (system, depth) not in printed:
                    depths = ", ".join(sorted({str(d) for s, d in printed if s == system}, key=int))
                    raise ValueError(f"{where}.depth: the paper has no row of {system} at depth {depth}, only {depths}")
        if self.kind == "gradients":
            if set(entry.model) & set(REFERENCES):
                raise ValueError(f"{where}.model: {REFERENCES[0]!r} and {REFERENCES[1]!r} have no gradients")
            return
        if entry.recipe is not None or all(system in self.recipes for system in entry.systems or self.systems):
            return
        for family in sorted({family_of(model) for model in entry.model if model not in REFERENCES}):
            if family not in self.recipes:
                raise ValueError(f"{where}: there is no [recipes.{family}] for it; add one or name a 'recipe'")

    def recipe_of(self, entry: Runs, system: str, model: str) -> TrainingRecipe:
        """The recipe that the entry names, else the one called after the system, else after the model's family."""
        if entry.recipe is not None:
            return self.recipes[entry.recipe]
        return self.recipes.get(system) or self.recipes[family_of(model)]


def family_of(model: str) -> str:
    """What sort of model it is: "lens", "comparator" or "reference"."""
    if model == "lens":
        return "lens"
    return "comparator" if model in COMPARATORS or model == SELECTED else "reference"


def load_study(path: Path | str) -> Study:
    """The study in the TOML file at `path`."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None
    return parse_study(text, str(path))


def paper_studies(folder: str = "studies") -> dict[str, Study]:
    """The studies that ship with lln, by block, in the order of their file names."""
    home = importlib.resources.files(PAPER).joinpath(folder)
    names = sorted(item.name for item in home.iterdir() if item.name.endswith(".toml") and item.name != "ratios.toml")
    studies = [parse_study(home.joinpath(name).read_text(encoding="utf-8"), f"{folder}/{name}") for name in names]
    return {study.block: study for study in studies}


def parse_study(text: str, source: str) -> Study:
    """The study in TOML `text`; the first fault is reported in one sentence with `source` and key."""
    try:
        content = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # RecursionError: brackets in brackets in brackets
        raise InputError(f"{source}: not valid TOML: {reason(error)}") from None
    try:
        return Study.model_validate(content)
    except ValidationError as error:
        raise InputError(f"{source}: {_sentence(error)}") from None


def _sentence(error: ValidationError) -> str:
    fault = error.errors(include_url=False)[0]
    key = ".".join(map(str, fault["loc"]))
    if fault["type"] == "extra_forbidden":
        return f"unknown key {key!r}{did_you_mean(str(fault['loc'][-1]), _known_keys(fault['loc'][:-1]))}"
    if fault["type"] == "missing":
        return f"the key {key!r} is missing"
    where = f"{key}: " if key else ""
    if fault["type"] == "value_error":
        return where + str(fault["ctx"]["error"])
    wish = fault["msg"].replace("Input should be", "must be")
    return f"{where}{wish}, got {fault['input']!r}"


def _known_keys(path: tuple[int | str, ...]) -> list[str]:
    """The keys that are valid at `path`."""
    parts: dict[str, type[BaseModel]] = {"data": Data, "runs": Runs, "recipes": TrainingRecipe, "confirm": Confirm}
    kind = parts[str(path[0])] if path else Study
    return list(kind.model_fields)
