"""Networks by name, for fits, studies, files and the command line.

A network from another package is registered in a running program or by an entry point in the group "lln.models":

    NETWORKS.register("ridgelet", RidgeletNetwork)

The class must

- subclass `lln.models.StateNetwork`, which names its attributes and methods;
- be built as ``kind(n_in, n_out, *, generator=None, **options)`` and draw all initial values from `generator`;
- map (..., n_in) to (..., n_out), each row on its own in evaluation mode;
- end in a linear layer called `readout`;
- return from `config()` the plain values that rebuild it, `n_in` and `n_out` included.

tests/contracts/test_networks.py holds every registered network to this. An ensemble of any such network is trained in
one pass (see `lln.models.stacked`).
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from lln.core.errors import InputError, check_memory, choice, did_you_mean
from lln.core.registry import Registry
from lln.models.base import StateNetwork
from lln.models.comparators import LayerScaleMLP, PlainMLP, ResidualBatchNormMLP, ResidualMLP, ScaledResidualMLP
from lln.models.field import FieldLensNetwork
from lln.models.lens import LensNetwork

COMPARATORS: dict[str, type[StateNetwork]] = {
    "mlp": PlainMLP,
    "residual": ResidualMLP,
    "scaled-residual": ScaledResidualMLP,
    "residual-batchnorm": ResidualBatchNormMLP,
    "layerscale": LayerScaleMLP,
}
MODELS: dict[str, type[StateNetwork]] = {"lens": LensNetwork, **COMPARATORS}
FIELD_MODELS: dict[str, type[StateNetwork]] = {"field": FieldLensNetwork}
NETWORKS: Registry[type[StateNetwork]] = Registry("network", "lln.models", {**MODELS, **FIELD_MODELS})


def build(name: str, n_in: int, n_out: int, **options: Any) -> StateNetwork:
    """The network called `name`, with its own options.

    >>> build("mlp", 3, 3, width=8, depth=2).depth
    2
    """
    known = options_of(name)
    for option in options:
        if option not in known:
            raise InputError(
                f"model {name!r} has no option {option!r}{did_you_mean(option, known)}", topic="unknown-name"
            )
    if "optical_length" in known and "horizon" in options:  # the name in files and studies up to format 1
        options["optical_length"] = options.pop("horizon")
    _check_size(name, options)
    return NETWORKS.get(name)(n_in, n_out, **options)


def _check_size(name: str, options: Mapping[str, Any]) -> None:
    """Refuse sizes whose weights, gradients and two moments of Adam do not fit into memory."""
    width, depth = options.get("width"), options.get("depth", 1)
    if isinstance(width, int) and isinstance(depth, int):
        inner = options.get("basis", 1) if name not in COMPARATORS else width
        what = f"a network {name!r} of width {width:,} and depth {depth:,}"
        check_memory(what, (width, depth, inner), size=4, copies=4, remedy="choose smaller sizes")


def options_of(name: str) -> list[str]:
    """The options that the constructor of a network takes beside its sizes n_in and n_out."""
    parameters = inspect.signature(NETWORKS.get(choice("model", name, NETWORKS.names()))).parameters.values()
    return [one.name for one in parameters if one.kind is one.KEYWORD_ONLY]


def state_networks() -> list[str]:
    """Names of the networks that map one state to another, those of other packages included; fields have their own."""
    return [name for name in NETWORKS.names() if name not in FIELD_MODELS]


def name_of(model: StateNetwork) -> str:
    """The name under which `build` knows the class of the model."""
    for name in NETWORKS.names():
        if type(model) is NETWORKS.get(name):
            return name
    raise InputError(
        f"{type(model).__name__} is not a registered network; known are {', '.join(NETWORKS.names())}. Register it "
        "with lln.models.NETWORKS.register"
    )
