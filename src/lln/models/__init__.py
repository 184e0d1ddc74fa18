"""Networks: the lens network, the field network, the paper's five comparators, and those of other packages."""

from lln.models.base import StateNetwork
from lln.models.comparators import LayerScaleMLP, PlainMLP, ResidualBatchNormMLP, ResidualMLP, ScaledResidualMLP
from lln.models.counting import Cost, comparator_cost, field_cost, lens_cost
from lln.models.factory import COMPARATORS, FIELD_MODELS, MODELS, NETWORKS, LensEnsemble, build
from lln.models.field import FieldBlock, FieldLensNetwork
from lln.models.files import load_model, save_model
from lln.models.lens import LensNetwork, Rays
from lln.models.universal import ridge_expansion, ridge_network

__all__ = [
    "COMPARATORS",
    "FIELD_MODELS",
    "MODELS",
    "NETWORKS",
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
    "StateNetwork",
    "build",
    "comparator_cost",
    "field_cost",
    "lens_cost",
    "load_model",
    "ridge_expansion",
    "ridge_network",
    "save_model",
]
