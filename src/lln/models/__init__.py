"""The lens network and the five networks that the paper compares it with, all behind one interface."""

from lln.models.counting import Cost, comparator_cost, field_cost, lens_cost
from lln.models.ensemble import LensEnsemble
from lln.models.factory import COMPARATORS, FIELD_MODELS, MODELS, build
from lln.models.field import FieldBlock, FieldLensNetwork
from lln.models.files import load_model, save_model
from lln.models.lens import LensNetwork, Rays
from lln.models.mlp import PlainMLP
from lln.models.residual import LayerScaleMLP, ResidualBatchNormMLP, ResidualMLP, ScaledResidualMLP
from lln.models.universal import ridge_expansion, ridge_network

__all__ = [
    "COMPARATORS",
    "FIELD_MODELS",
    "MODELS",
    "Cost",
    "FieldBlock",
    "FieldLensNetwork",
    "LayerScaleMLP",
    "LensEnsemble",
    "LensNetwork",
    "PlainMLP",
    "Rays",
    "ResidualBatchNormMLP",
    "ResidualMLP",
    "ScaledResidualMLP",
    "build",
    "comparator_cost",
    "field_cost",
    "lens_cost",
    "load_model",
    "ridge_expansion",
    "ridge_network",
    "save_model",
]
