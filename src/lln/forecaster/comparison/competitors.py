"""The models of a comparison, each fitted by the same fitter, and how they are asked for."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lln.core.errors import InputError, check_int
from lln.core.statistics import geometric_mean
from lln.data.series import Dataset
from lln.evaluate.rollout import rollout
from lln.fit.fitter import fit_many
from lln.fit.learn import DENSE_COORDINATES, Field, learn, points_share
from lln.fit.options import Fit, Recipe
from lln.forecaster.references import REFERENCES
from lln.forecaster.references.simple import AutoRegression
from lln.models.factory import state_networks
from lln.step.frame import Array

Progress = Callable[[Any], None]
CHOOSING_SEEDS = 3
POLYNOMIAL = "polynomial"  # a reference that the fitter itself makes
LINEAR_COORDINATES = 1024  # off a grid; with more, a linear map takes minutes and gigabytes


@dataclass(frozen=True)
class Request:
    """Options of a forecaster: the recipe, and how grids are treated."""

    recipe: Recipe = dataclasses.field(default_factory=Recipe)
    field: Field = "auto"

    def named(self, name: str) -> Request:
        """The same for another network, or for polynomials alone."""
        if name == POLYNOMIAL:
            return Request(replace(Recipe(), parts=("linear", "polynomial"), seed=self.recipe.seed), False)
        if name not in state_networks() or name == self.recipe.model:
            return self
        return replace(self, recipe=replace(self.recipe, model=name, basis=None, optical_length=None))

    def record(self) -> dict[str, Any]:
        """Plain values."""
        return {**self.recipe.record(), "field": self.field}


@dataclass(frozen=True, eq=False)
class Fitted:
    """A model that is ready to roll out."""

    rollout: Callable[[Array, int, Array | None], Array]  # (..., H, n), steps and inputs to (..., steps, n)
    history: int = 1  # states H that it looks at
    parameters: int | None = None  # values that the fit chose; None where it is not known
    seconds: float = 0.0  # of the fit
    note: str = ""  # what the fit chose, as short text
    noisy: bool = False  # whether the fit found noise that matters
    part: str = ""  # which kind of part forecasts, as a fit reports it; "" for what is not fitted by the fitter
    input_lags: int = 0  # how many earlier values of each known input it looks at


def fit_reference(name: str, data: Dataset, most: int | None = None) -> Fitted:
    """Fit a reference by name; `most` bounds the history of the linear one, which on a large grid is a convolution."""
    if name == POLYNOMIAL:
        return fit_request(Request().named(name), data, (0,), None, None)[0]
    if name == "linear" and _large_grid(data):
        return fit_request(Request(Recipe(parts=("linear",)), True), data, (0,), None, None)[0]
    began = time.perf_counter()
    model = (AutoRegression(most) if name == "linear" else REFERENCES[name]()).fit(data)
    return Fitted(model.rollout, model.history, model.parameters, time.perf_counter() - began, model.note)


def fit_request(
    request: Request, data: Dataset, seeds: Sequence[int], depths: Sequence[int] | None, progress: Progress | None
) -> list[Fitted]:
    """One fit for each seed, by the fitter of `LensForecaster`; depths are chosen on held-out rollouts."""
    if depths is not None:
        request = _best_depth(data, request, seeds[:CHOOSING_SEEDS], depths, progress)
    found = []
    for fit in _fits(request, data, seeds, progress):
        report = fit.report
        depth = f", depth {request.recipe.depth}" if depths else ""
        note = f"{report.part}, correction weight {report.correction_weight:g}, history {report.history}{depth}"
        size = (fit.surrogate.frame.history, report.parameters, report.seconds)
        found.append(Fitted(fit.surrogate.rollout, *size, note, report.noisy, report.part, report.input_lags))
    return found


def given_model(name: str, model: Any) -> Fitted:
    """A model that the caller made: an object that rolls out windows, or a step."""
    own = getattr(model, "rollout", None)
    if callable(own):
        frame = getattr(model, "frame", model)
        count = getattr(model, "parameters", None)
        if callable(count):  # a torch module
            count = sum(parameter.numel() for parameter in count())
        return Fitted(own, int(getattr(frame, "history", 1)), count)
    if not callable(model):
        raise InputError(f"{name} must be a step (a function of states) or have a method rollout, got {type(model)}")
    return Fitted(lambda window, steps, _: rollout(model, window[..., -1, :], steps).predicted.astype(np.float64))


def too_large(name: str, data: Dataset) -> str:
    """Why a map of all coordinates at once is left out (`compare` fits it if asked by name); "" where it is not."""
    dense = name == POLYNOMIAL or (name in state_networks() and name != Recipe().model)
    most = DENSE_COORDINATES if dense else LINEAR_COORDINATES
    if data.size <= most or not (dense or (name == "linear" and not _large_grid(data))):
        return ""
    return f"a map of all {data.size:,} coordinates at once, which would take minutes or longer; the limit is {most:,}"


def _large_grid(data: Dataset) -> bool:
    """Whether the data lies on a grid of so many points that only convolutions are fitted."""
    return data.size > DENSE_COORDINATES and points_share(data, Recipe(), "auto") is True


def _fits(request: Request, data: Dataset, seeds: Sequence[int], progress: Progress | None) -> list[Fit]:
    recipe = request.recipe
    if points_share(data, recipe, request.field) is False:
        fits = fit_many(data, recipe, seeds, progress=progress)
        return [replace(fit, report=replace(fit.report, seconds=fit.report.seconds / len(seeds))) for fit in fits]
    return [learn(data, replace(recipe, seed=seed), field=request.field, progress=progress) for seed in seeds]


def _best_depth(
    data: Dataset, request: Request, seeds: Sequence[int], depths: Sequence[int], progress: Progress | None
) -> Request:
    """The request with the depth whose held-out rollouts are best, in the geometric mean over seeds."""

    def deep(depth: int) -> Request:
        return replace(request, recipe=replace(request.recipe, depth=check_int("depth", depth, 1)))

    def error(depth: int) -> float:
        fits = _fits(deep(depth), data, seeds, progress)
        return geometric_mean([max(float(fit.report.held_out_nmse), 1e-300) for fit in fits])

    return deep(min(depths, key=error))
