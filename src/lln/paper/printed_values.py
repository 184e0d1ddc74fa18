"""The paper's own numbers, typed once and read exactly.

Every number keeps the digits that are printed: 6.170 stays ``Decimal("6.170")``, so that a comparison knows how far it
can look. A printed infinity is ``Decimal("Infinity")``. The files are data beside the studies; they are read by their
place, without the code of the studies, so that a report needs no torch.
"""

from __future__ import annotations

import importlib.resources
import tomllib
from collections.abc import Callable
from decimal import Decimal
from functools import cache
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from lln.core.errors import InputError

# A mean above this counts as diverged: infinity in the all-depth table, a power of ten in the ablation table.
DIVERGED = 100
FIELDS = ("springchain", "burgers", "advecdiff", "reactiondiff")
COMPARATOR_NAMES = {
    "mlp": "Plain MLP",
    "residual": "ResMLP",
    "scaled-residual": "Scaled ResMLP",
    "residual-batchnorm": "ResMLP-BN",
    "layerscale": "LayerScale",
}
SYSTEMS = ("lorenz-24", "lorenz-28", *(f"{family}-{size}" for family in FIELDS for size in (32, 48)))


class _Row(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, populate_by_name=True)


class MeanAndDeviation(_Row):
    """A printed mean and its standard deviation over seeds; both infinite where the paper prints infinity.

    The deviation is None where a divergent mean is printed alone, as the ablation table does.
    """

    mean: Decimal = Field(allow_inf_nan=True)
    deviation: Decimal | None = Field(allow_inf_nan=True)


def _score(value: Any) -> Any:
    if isinstance(value, list) and len(value) == 2:
        return {"mean": value[0], "deviation": value[1]}
    if value == Decimal("Infinity"):
        return {"mean": value, "deviation": value}
    raise ValueError("must be [mean, deviation] or inf")


def _score_or_power(value: Any) -> Any:
    if isinstance(value, Decimal) and value.is_finite() and value > DIVERGED:
        return {"mean": value, "deviation": None}
    return _score(value)


PrintedScore = Annotated[MeanAndDeviation, BeforeValidator(_score)]
AblationScore = Annotated[MeanAndDeviation, BeforeValidator(_score_or_power)]


class Depth40Row(_Row):
    """One system of the depth-40 table."""

    system: str
    family: str
    lens: PrintedScore
    comparator: str
    comparator_mse: PrintedScore
    mse_ratio: Decimal
    parameter_ratio_percent: Decimal
    flop_ratio_percent: Decimal


class ScoresRow(_Row):
    """One system of a table with a score for each network or variant."""

    system: str

    def scores(self) -> dict[str, MeanAndDeviation]:
        """The score of every network or variant, by its name in the file and in the printed order."""
        cells = {field.alias or name: getattr(self, name) for name, field in type(self).model_fields.items()}
        return {name: cell for name, cell in cells.items() if isinstance(cell, MeanAndDeviation)}


class AllDepthsRow(ScoresRow):
    """One depth and system of the all-depth table."""

    depth: int
    lens: PrintedScore
    mlp: PrintedScore
    residual: PrintedScore
    scaled_residual: PrintedScore = Field(alias="scaled-residual")
    residual_batchnorm: PrintedScore = Field(alias="residual-batchnorm")
    layerscale: PrintedScore
    mse_ratio: Decimal
    parameter_ratio: Decimal
    flop_ratio: Decimal


class GradientRow(ScoresRow):
    """One system of the gradient table: log10(g_1 / g_40)."""

    mlp: PrintedScore
    residual: PrintedScore
    scaled_residual: PrintedScore = Field(alias="scaled-residual")
    lens: PrintedScore


class AblationRow(ScoresRow):
    """One system of the ablation table."""

    full: AblationScore
    no_lens: AblationScore = Field(alias="no-lens")
    zero_angle: AblationScore = Field(alias="zero-angle")
    no_propagation: AblationScore = Field(alias="no-propagation")


class MultiTrajectoryRow(_Row):
    """One system of the multi-trajectory table: geometric means, their ratio and its interval."""

    system: str
    lens: Decimal
    comparator_mse: Decimal
    mse_ratio: Decimal
    interval: list[Decimal] = Field(min_length=2, max_length=2)


class CaseError(_Row):
    """One error of the two-moons case study."""

    rank: int
    index: int
    true_class: int
    predicted_class: int
    confidence: Decimal
    largest_turn: Decimal
    peak_layer: int


class CaseStatements(_Row):
    """What the text states about the case study."""

    errors: int
    correct: int
    lens_explained_percent: Decimal
    mlp_explained_percent: Decimal
    error_turn: Decimal
    correct_turn: Decimal
    displayed_percentile: int
    largest_turn_layers: list[int]


class Deployment(_Row):
    """The LLN that the depth-40 table deploys on one system."""

    system: str
    horizon: Decimal
    width: int
    basis: int
    lens_scale: Decimal


class RatioRow(_Row):
    """The sizes of one row's LLN and the comparator that it is set against."""

    depth: int
    system: str
    width: int
    basis: int
    comparator: str


AnyRow = TypeVar("AnyRow", bound=_Row)


def _table(path: str, kind: type[AnyRow]) -> Callable[[], tuple[AnyRow, ...]]:
    """A function that returns the rows of a file, in the printed order; the file is read once."""

    @cache
    def rows() -> tuple[AnyRow, ...]:
        text = importlib.resources.files("lln.paper").joinpath(path).read_text(encoding="utf-8")
        return parse_rows(text, kind, path)

    return rows


depth40 = _table("printed/depth40.toml", Depth40Row)
all_depths = _table("printed/all_depths.toml", AllDepthsRow)
gradient_transport = _table("printed/gradient_transport.toml", GradientRow)
ablation = _table("printed/ablation.toml", AblationRow)
multi_trajectory = _table("printed/multi_trajectory.toml", MultiTrajectoryRow)
case_errors = _table("printed/case_errors.toml", CaseError)
_statements = _table("printed/case_study.toml", CaseStatements)
deployments = _table("printed/deployments.toml", Deployment)
# Four depths of ten systems, in the order of the all-depth table.
ratio_rows = _table("studies/ratios.toml", RatioRow)


def case_statements() -> CaseStatements:
    """The numbers that the text gives for the case study."""
    (row,) = _statements()
    return row


def parse_rows(text: str, kind: type[AnyRow], source: str) -> tuple[AnyRow, ...]:
    """The `[[row]]` entries of TOML `text`, each checked against `kind`; an error names `source`, row and key."""
    where, found = source, []
    try:
        content = tomllib.loads(text, parse_float=Decimal)
        if list(content) != ["row"]:
            raise InputError(f"{source}: holds {list(content)}; write each row as [[row]], and nothing else")
        for index, entry in enumerate(content["row"], start=1):
            where = f"{source}, row {index}"
            found.append(kind.model_validate(entry))
    except (tomllib.TOMLDecodeError, ValidationError) as error:
        raise InputError(f"{where}: {' '.join(str(error).split())}") from error
    return tuple(found)
