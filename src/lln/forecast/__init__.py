"""From trajectories to a surrogate: the estimator, its recipe, files and exports.

Names load on first use: the estimator needs the recipe, and the recipe needs other modules of this package.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lln.forecast.coverage import Coverage as Coverage
    from lln.forecast.forecaster import LensForecaster as LensForecaster
    from lln.forecast.frame import Frame as Frame
    from lln.forecast.layout import Layout as Layout
    from lln.forecast.memory import Training as Training
    from lln.forecast.model_file import describe as describe
    from lln.forecast.model_file import load as load
    from lln.forecast.model_file import save as save
    from lln.forecast.options import Fit as Fit
    from lln.forecast.options import FitReport as FitReport
    from lln.forecast.options import Recipe as Recipe
    from lln.forecast.outputs import Forecast as Forecast
    from lln.forecast.recipe import fit_surrogate as fit_surrogate
    from lln.forecast.scoring import Evaluation as Evaluation
    from lln.forecast.surrogate import Surrogate as Surrogate

_HOME = {
    "Coverage": "coverage",
    "Evaluation": "scoring",
    "Fit": "options",
    "FitReport": "options",
    "Forecast": "outputs",
    "Frame": "frame",
    "Layout": "layout",
    "LensForecaster": "forecaster",
    "Recipe": "options",
    "Surrogate": "surrogate",
    "Training": "memory",
    "describe": "model_file",
    "fit_surrogate": "recipe",
    "load": "model_file",
    "save": "model_file",
}

__all__ = [
    "Coverage",
    "Evaluation",
    "Fit",
    "FitReport",
    "Forecast",
    "Frame",
    "Layout",
    "LensForecaster",
    "Recipe",
    "Surrogate",
    "Training",
    "describe",
    "fit_surrogate",
    "load",
    "save",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"lln.forecast.{_HOME[name]}"), name)
    raise AttributeError(f"module 'lln.forecast' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
