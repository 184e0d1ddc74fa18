"""Learnable Lens Networks: small, fast surrogate models of dynamical systems for long rollouts.

Public names load on first use, because importing torch alone takes seconds and `lln --help` must not pay for it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lln.core.errors import InputError as InputError
    from lln.data.read.formats import as_dataset as as_dataset
    from lln.data.series import Dataset as Dataset
    from lln.data.trajectory import Trajectory as Trajectory
    from lln.data.trajectory import simulate as simulate
    from lln.data.trajectory import simulated as simulated
    from lln.forecaster.comparison.compare import compare as compare
    from lln.forecaster.file import load as load
    from lln.forecaster.file import save as save
    from lln.forecaster.forecaster import LensForecaster as LensForecaster
    from lln.forecaster.regressor import LensRegressor as LensRegressor
    from lln.models import LensNetwork as LensNetwork
    from lln.ops import lens_transport as lens_transport
    from lln.systems import preset as preset
    from lln.tuning.search import search as search

__version__ = "0.2.0"

_HOME = {
    "Dataset": "lln.data.series",
    "InputError": "lln.core.errors",
    "LensForecaster": "lln.forecaster.forecaster",
    "LensNetwork": "lln.models",
    "LensRegressor": "lln.forecaster.regressor",
    "Trajectory": "lln.data.trajectory",
    "as_dataset": "lln.data.read.formats",
    "compare": "lln.forecaster.comparison.compare",
    "lens_transport": "lln.ops",
    "load": "lln.forecaster.file",
    "preset": "lln.systems",
    "save": "lln.forecaster.file",
    "search": "lln.tuning.search",
    "simulate": "lln.data.trajectory",
    "simulated": "lln.data.trajectory",
}
_PACKAGES = frozenset(
    [
        "core",
        "data",
        "evaluate",
        "export",
        "fit",
        "forecaster",
        "models",
        "ops",
        "paper",
        "plots",
        "step",
        "systems",
        "train",
        "tuning",
        "view",
    ]
)

__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    if name in _PACKAGES:
        return importlib.import_module(f"lln.{name}")
    raise AttributeError(f"module 'lln' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *_PACKAGES})
