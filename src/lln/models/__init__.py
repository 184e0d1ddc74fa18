"""The lens network and the five networks that the paper compares it with, all behind one interface."""

from lln.models.factory import COMPARATORS, MODELS, build
from lln.models.files import load_model, save_model
from lln.models.lens import LensNetwork, Rays
from lln.models.mlp import PlainMLP
from lln.models.residual import LayerScaleMLP, ResidualBatchNormMLP, ResidualMLP, ScaledResidualMLP

__all__ = [
    "COMPARATORS",
    "MODELS",
    "LayerScaleMLP",
    "LensNetwork",
    "PlainMLP",
    "Rays",
    "ResidualBatchNormMLP",
    "ResidualMLP",
    "ScaledResidualMLP",
    "build",
    "load_model",
    "save_model",
]
