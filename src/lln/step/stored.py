"""Frames and networks from plain values and arrays that may come from anybody's file.

A configuration is believed as far as the arrays bear it out. What does not fit raises ValueError or InputError.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from lln.core.errors import choice
from lln.models.base import StateNetwork
from lln.models.convolution import sides
from lln.models.factory import build, name_of
from lln.models.files import check_config_size
from lln.step.base import AnyStep
from lln.step.field_frame import CONSERVE, FieldFrame
from lln.step.frame import Frame, Logarithm
from lln.step.parts import PARTS, ClosedFormPart
from lln.step.polynomial import Flow, Polynomial

Arrays = Mapping[str, NDArray[Any]]
Shapes = dict[str, tuple[int, ...]]

MOST_SUBSTEPS = 1000


def network_record(members: Sequence[Any]) -> dict[str, Any]:
    """Name, configuration and number of the networks."""
    return {
        "model": name_of(members[0]) if members else None,
        "config": members[0].config() if members else {},
        "members": len(members),
    }


def dense_frame(record: Mapping[str, Any], arrays: Arrays) -> Frame:
    """The frame of a dense step."""
    n, m, history = len(arrays["frame.mean"]), len(arrays["frame.input_mean"]), int(record["history"])
    shapes: Shapes = {
        "mean": (n,), "scale": (n,), "difference_scale": (history - 1, n), "input_mean": (m,), "input_scale": (m,),
        "matrix": (n, n * history + m), "offset": (n,), "gain": (n,),
    }  # fmt: skip
    given = {name.removeprefix("frame.") for name in arrays if name.startswith("frame.")}
    if given & {"low", "high"}:
        shapes |= {"low": (n,), "high": (n,)}
    polynomial = flow = logarithm = None
    if given & {"log_mean", "log_scale", "log_floor"}:
        logarithm = Logarithm(*(_checked(f"log_{name}", arrays, (n,)) for name in ("mean", "scale", "floor")))
        if not ((logarithm.scale > 0) & (logarithm.floor > 0)).all():
            raise ValueError("frame.log_scale and frame.log_floor should be above zero")
        given -= {"log_mean", "log_scale", "log_floor"}
    if given & {"polynomial_table", "polynomial_weights"}:
        polynomial = _polynomial("polynomial", arrays, n, n * history + m)
        given -= {"polynomial_table", "polynomial_weights"}
    if given & {"flow_table", "flow_weights", "flow_offset", "flow_substeps"}:
        offset, substeps = _checked("flow_offset", arrays, (n,)), _checked("flow_substeps", arrays, (1,), np.int64)
        if not 1 <= substeps[0] <= MOST_SUBSTEPS:
            raise ValueError(f"frame.flow_substeps should be from 1 to {MOST_SUBSTEPS}, got {substeps[0]}")
        flow = Flow(_polynomial("flow", arrays, n, n + m), offset, int(substeps[0]))
        given -= {"flow_table", "flow_weights", "flow_offset", "flow_substeps"}
    part = _part(record, arrays, n * history + m, n)
    found = _all({name for name in given if not name.startswith("part_")}, arrays, shapes)
    _check_bounds(found)
    return Frame(history=history, polynomial=polynomial, flow=flow, part=part, logarithm=logarithm, **found)


def _part(record: Mapping[str, Any], arrays: Arrays, features: int, size: int) -> ClosedFormPart | None:
    """The closed-form part of another package, which must be installed."""
    mark = "frame.part_"
    given = {name.removeprefix(mark): values for name, values in arrays.items() if name.startswith(mark)}
    if "part" not in record:
        if given:
            raise ValueError(f"{mark}{min(given)} belongs to a part that is not named")
        return None
    for name, values in given.items():
        if values.dtype not in (np.float64, np.int64) or not np.isfinite(values).all():
            raise ValueError(f"{mark}{name} should hold finite numbers, float64 or int64")
    return PARTS.get(str(record["part"])).from_arrays(given, features, size)


def field_frame(record: Mapping[str, Any], arrays: Arrays) -> FieldFrame:
    """The frame of a field step."""
    c, m, history = len(arrays["frame.channel_mean"]), len(arrays["frame.input_mean"]), int(record["history"])
    space, kernel = (tuple(map(int, record[key])) for key in ("space", "kernel"))
    if len(kernel) != len(space) or not all(size > 0 for size in (*space, *kernel)):
        raise ValueError(f"a kernel of {kernel} points on a grid of {space}")
    shapes: Shapes = {
        "channel_mean": (c,), "channel_scale": (c,), "difference_scale": (history - 1, c), "input_mean": (m,),
        "input_scale": (m,), "matrix": (c, math.prod(kernel) * (c * history + m)), "offset": (c,), "gain": (c,),
    }  # fmt: skip
    given = {name.removeprefix("frame.") for name in arrays if name.startswith("frame.")}
    polynomial = None
    if given & {"polynomial_table", "polynomial_weights"}:
        polynomial = _polynomial("polynomial", arrays, c, c * history + m)
        given -= {"polynomial_table", "polynomial_weights"}
    if given & {"low", "high"}:
        shapes |= {"low": (c,), "high": (c,)}
    if "static" in given:
        shapes["static"] = (*space, arrays["frame.static"].shape[-1])
    conserve = choice("conservation", str(record["conserve"]), CONSERVE)
    found = _all(given, arrays, shapes)
    _check_bounds(found)
    boundary = sides(record["boundary"], len(space))
    return FieldFrame(space, boundary, kernel, history, conserve=conserve, polynomial=polynomial, **found)


def _all(given: set[str], arrays: Arrays, shapes: Shapes) -> dict[str, Any]:
    """The float64 arrays of `shapes`, and no others."""
    if given - set(shapes):
        raise ValueError(f"frame.{min(given - set(shapes))} is not an array of this kind of step")
    return {name: _checked(name, arrays, shape) for name, shape in shapes.items()}


def _check_bounds(found: Mapping[str, Any]) -> None:
    if "low" in found and not (found["low"] <= found["high"]).all():
        raise ValueError("frame.low is above frame.high")


def _checked(name: str, arrays: Arrays, shape: tuple[int, ...], dtype: type[np.generic] = np.float64) -> NDArray[Any]:
    values = arrays[f"frame.{name}"]
    if values.shape != shape or values.dtype != dtype:
        raise ValueError(f"frame.{name} should be {np.dtype(dtype)} of shape {shape}, got {values.dtype}{values.shape}")
    if not np.isfinite(values).all():
        raise ValueError(f"frame.{name} holds numbers that are not finite")
    return values


def _polynomial(name: str, arrays: Arrays, size: int, features: int) -> Polynomial:
    """A polynomial whose monomials are products of earlier ones and of features that exist."""
    count = len(arrays[f"frame.{name}_table"])
    table = _checked(f"{name}_table", arrays, (count, 2), np.int64)
    parent, factor = table.T
    if not ((parent >= -1) & (parent < np.arange(count)) & (factor >= 0) & (factor < features)).all():
        raise ValueError(f"frame.{name}_table names a monomial or a feature that does not exist")
    return Polynomial(table, _checked(f"{name}_weights", arrays, (size, count)))


def read_members(
    network: Mapping[str, Any], arrays: Arrays, sizes: tuple[int, int], device: torch.device | str
) -> tuple[Any, ...]:
    """The networks, each from its tensors; `sizes` are those of a network's input and output."""
    return tuple(_member(index, network, arrays, sizes).to(device) for index in range(int(network["members"])))


def _member(index: int, network: Mapping[str, Any], arrays: Arrays, sizes: tuple[int, int]) -> StateNetwork:
    mark = f"member.{index}."
    state = {name.removeprefix(mark): torch.from_numpy(t) for name, t in arrays.items() if name.startswith(mark)}
    dtypes = {tensor.dtype for tensor in state.values() if tensor.is_floating_point()}
    if len(dtypes) != 1:
        raise ValueError(f"member {index} should have tensors of one floating type, got {len(dtypes)} types")
    model, config = str(network["model"]), dict(network["config"])
    check_config_size(model, config, state)
    if (config["n_in"], config["n_out"]) != sizes:
        raise ValueError(f"member {index} maps {config['n_in']} to {config['n_out']} numbers, not {sizes}")
    # A generator of its own, so that opening a file does not change anybody's random numbers.
    member = build(model, **config, generator=torch.Generator())
    member.to(dtypes.pop()).load_state_dict(state)
    return member.eval()


def step_of(record: Mapping[str, Any], arrays: Mapping[str, Any], device: torch.device | str = "cpu") -> AnyStep:
    """The step of any kind that `Step.record` and `Step.arrays` describe."""
    from lln.step.dense import DenseStep  # both import this module
    from lln.step.field import FieldStep

    steps: dict[str, type[AnyStep]] = {kind.kind: kind for kind in (DenseStep, FieldStep)}
    return steps[choice("surrogate", str(record["surrogate"]), steps)].from_arrays(record, arrays, device)
