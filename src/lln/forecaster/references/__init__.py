"""Simple methods that an expert would try first, beside which a model is scored."""

from lln.forecaster.references.reservoir import EchoState, KernelRidgeReference
from lln.forecaster.references.simple import Analog, AutoRegression, Persistence, Reference, SeasonalNaive, TrainingMean

__all__ = ["REFERENCES", "Reference"]

REFERENCES: dict[str, type[Reference]] = {
    "persistence": Persistence,
    "mean": TrainingMean,
    "seasonal": SeasonalNaive,
    "linear": AutoRegression,
    "analog": Analog,
    "kernel": KernelRidgeReference,
    "esn": EchoState,
}
