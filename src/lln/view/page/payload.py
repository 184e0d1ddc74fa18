"""What the page's script is given: the model, the data beside it and what is to be told about them, as plain values."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lln.core.errors import InputError
from lln.data.series import Series
from lln.evaluate.metrics import VALID_RMSE
from lln.evaluate.rollout import Region
from lln.export.parts import (
    DenseStack,
    LensStack,
    Linear,
    Optics,
    field_stacks,
    stacks,
)
from lln.forecaster.layout import Layout
from lln.step.base import AnyStep

FORMAT = 1

AnySurrogate = AnyStep
Numbers = Sequence[tuple[str, Sequence[tuple[str, str]]]]


def packed(values: NDArray[Any]) -> dict[str, Any]:
    """An array as base64, in float32 wherever that loses nothing."""
    wide = np.ascontiguousarray(values, dtype="<f8")
    with np.errstate(over="ignore"):
        narrow = wide.astype("<f4")
    kept = narrow if np.array_equal(narrow.astype("<f8"), wide, equal_nan=True) else wide
    name = "float32" if kept is narrow else "float64"
    return {"dtype": name, "shape": list(kept.shape), "data": base64.b64encode(kept.tobytes()).decode("ascii")}


def model_part(surrogate: AnySurrogate) -> dict[str, Any]:
    """Frame and networks."""
    frame = surrogate.frame
    known = {"size": frame.size, "history": frame.history, "inputs": frame.inputs}
    arrays = {name: packed(values) for name, values in frame.arrays().items()}
    if surrogate.kind == "field":
        space = {**surrogate.frame.record(), "channels": surrogate.frame.channels}
        return {"frame": {"kind": "field", **space, **known, "arrays": arrays}, "network": _field_network(surrogate)}
    return {"frame": {"kind": "plain", **known, "arrays": arrays}, "network": _network(surrogate)}


def data_part(layout: Layout, runs: Sequence[Series], history: int) -> dict[str, Any]:
    """Names, units, grid, and the trajectories that a rollout can start from."""
    for one in runs:
        if one.size != layout.size or len(one) < history:
            raise InputError(
                f"{one.name}: a start needs {history} rows of {layout.size} coordinates, got {len(one)} of {one.size}"
            )
    names = layout.channels if layout.space else layout.names
    unit_of = [layout.units.get(name, "") for name in names]
    places = layout.size // max(1, len(names))
    return {
        "dt": layout.dt,
        "timeName": layout.time_name,
        "timeUnit": layout.time_unit,
        "names": list(layout.names),
        "units": [unit for unit in unit_of for _ in range(places)],
        "inputNames": list(layout.input_names),
        "space": list(layout.space),
        "channels": list(layout.channels),
        "axes": [
            {"name": name, "unit": layout.units.get(name, ""), "values": np.asarray(values, dtype=float).tolist()}
            for name, values in layout.coords.items()
        ]
        if layout.space
        else [],
        "series": [_series(one) for one in runs],
    }


def whole_payload(
    surrogate: AnySurrogate,
    layout: Layout,
    runs: Sequence[Series],
    *,
    title: str,
    subtitle: str,
    made: str,
    steps: int,
    region: Region | None,
    numbers: Numbers,
    threshold: float = VALID_RMSE,
) -> dict[str, Any]:
    """Everything, ready for JSON."""
    box = None
    if region is not None and np.isfinite(region.low).all() and np.isfinite(region.high).all():
        box = {"low": region.low.tolist(), "high": region.high.tolist()}
    return {
        "format": FORMAT,
        "title": title,
        "subtitle": subtitle,
        "made": made,
        "steps": steps,
        "threshold": threshold,
        "region": box,
        "scale": packed(surrogate.frame.scale),
        "numbers": [{"title": head, "rows": [list(row) for row in rows]} for head, rows in numbers],
        **data_part(layout, runs, surrogate.frame.history),
        **model_part(surrogate),
    }


def _network(surrogate: AnyStep) -> dict[str, Any] | None:
    networks = stacks(surrogate)
    if not networks:
        return None
    first = networks[0]
    if isinstance(first, LensStack):
        return _lens(first, len(surrogate.members))
    dense = [network for network in networks if isinstance(network, DenseStack)]
    return {
        "kind": "perceptron",
        "width": first.gains.shape[1],
        "depth": first.gains.shape[0],
        "keep": int(first.kept),
        "members": [_dense(network) for network in dense],
    }


def _lens(stack: LensStack, members: int) -> dict[str, Any]:
    arrays = _lens_arrays(stack.position, stack.angle, stack.optics)
    arrays |= {"readout_weight": packed(stack.readout.weight), "readout_bias": packed(stack.readout.bias)}
    return {"kind": "lens", "members": members, **_optics(stack.optics), "arrays": arrays}


def _optics(optics: Optics) -> dict[str, Any]:
    depth, width, basis = optics.coefficients.shape
    return {
        "width": width,
        "depth": depth,
        "basis": basis,
        "length": optics.length,
        "scale": optics.scale,
        "sigma": optics.sigma,
        "centers": list(optics.centers),
    }


def _lens_arrays(position: Linear, angle: Linear | None, optics: Optics) -> dict[str, Any]:
    arrays = {
        "position_weight": position.weight,
        "position_bias": position.bias,
        "coefficients": optics.coefficients,
    }
    if angle is not None:
        arrays |= {"angle_weight": angle.weight, "angle_bias": angle.bias}
    return {name: packed(values) for name, values in arrays.items()}


def _dense(stack: DenseStack) -> dict[str, Any]:
    weight = np.stack([layer.weight for layer in stack.layers])
    bias = np.stack([layer.bias for layer in stack.layers])
    if stack.norms is not None:  # in float64 a factor and a shift behind a layer are as good inside it
        factor, shift = stack.norms[:, 0], stack.norms[:, 1]
        weight, bias = factor[..., None] * weight, factor * bias + shift
    arrays = {
        "embed_weight": stack.embedding.weight,
        "embed_bias": stack.embedding.bias,
        "hidden_weight": weight,
        "hidden_bias": bias,
        "gain": stack.gains,
        "readout_weight": stack.readout.weight,
        "readout_bias": stack.readout.bias,
    }
    return {name: packed(values) for name, values in arrays.items()}


def _field_network(surrogate: AnyStep) -> dict[str, Any] | None:
    networks = field_stacks(surrogate)
    if not networks:
        return None
    first, block = surrogate.members[0], networks[0].blocks[0]
    return {
        "kind": "field",
        **_optics(block.optics),
        "kernel": list(first.kernel),
        "boundary": [list(pair) for pair in first.boundary],
        "hidden": first.hidden,
        "outputs": first.n_out,
        "fixed": first.static,
        "angle": block.angle is not None,
        "members": [{"blocks": [_field_block(block) for block in network.blocks]} for network in networks],
    }


def _field_block(block: LensStack) -> dict[str, Any]:
    read = {"read_weight": packed(block.readout.weight), "read_bias": packed(block.readout.bias)}
    return {**_lens_arrays(block.position, block.angle, block.optics), **read}


def _series(one: Series) -> dict[str, Any]:
    inputs = one.input_rows(0, len(one))
    return {
        "name": one.name,
        "start": one.start,
        "states": packed(one.rows(0, len(one))),
        "inputs": None if inputs is None else packed(inputs),
    }
