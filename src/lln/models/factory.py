"""Networks by name, for studies, files and the command line."""

from __future__ import annotations

import inspect
from typing import Any

from lln.core.errors import InputError, choice, did_you_mean
from lln.models.base import StateNetwork
from lln.models.field import FieldLensNetwork
from lln.models.lens import LensNetwork
from lln.models.mlp import PlainMLP
from lln.models.residual import LayerScaleMLP, ResidualBatchNormMLP, ResidualMLP, ScaledResidualMLP

COMPARATORS: dict[str, type[StateNetwork]] = {
    "mlp": PlainMLP,
    "residual": ResidualMLP,
    "scaled-residual": ScaledResidualMLP,
    "residual-batchnorm": ResidualBatchNormMLP,
    "layerscale": LayerScaleMLP,
}
MODELS: dict[str, type[StateNetwork]] = {"lens": LensNetwork, **COMPARATORS}
FIELD_MODELS: dict[str, type[StateNetwork]] = {"field": FieldLensNetwork}
_ALL = {**MODELS, **FIELD_MODELS}


def build(name: str, n_in: int, n_out: int, **options: Any) -> StateNetwork:
    """The network called `name`, with its own options.

    >>> build("mlp", 3, 3, width=8, depth=2).depth
    2
    """
    kind = _ALL[choice("model", name, _ALL)]
    known = [p.name for p in inspect.signature(kind).parameters.values() if p.kind is p.KEYWORD_ONLY]
    for option in options:
        if option not in known:
            raise InputError(
                f"model {name!r} has no option {option!r}{did_you_mean(option, known)}", topic="unknown-name"
            )
    return kind(n_in, n_out, **options)


def name_of(model: StateNetwork) -> str:
    """The name under which `build` knows the model's class."""
    for name, kind in _ALL.items():
        if type(model) is kind:
            return name
    raise InputError(f"{type(model).__name__} is not one of lln's own networks: {', '.join(_ALL)}")
