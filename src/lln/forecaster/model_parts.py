"""A surrogate as plain values and tensors, and back; a configuration is believed as far as the tensors bear it out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from lln.core.errors import choice
from lln.forecaster.layout import Layout
from lln.models.base import StateNetwork
from lln.models.convolution import sides
from lln.models.factory import build, name_of
from lln.models.files import believe
from lln.step.field_frame import CONSERVE, FieldFrame
from lln.step.field_surrogate import FieldSurrogate
from lln.step.frame import Frame
from lln.step.surrogate import Surrogate

Tensors = Mapping[str, np.ndarray[Any, Any]]
Shapes = dict[str, tuple[int, ...]]


def surrogate_record(surrogate: Surrogate | FieldSurrogate) -> dict[str, Any]:
    """Everything but the tensors, as plain values."""
    frame, members = surrogate.frame, surrogate.members
    return {
        "surrogate": "field" if isinstance(frame, FieldFrame) else "dense",
        "frame": frame.record() if isinstance(frame, FieldFrame) else {"history": frame.history},
        "network": {
            "model": name_of(members[0]) if members else None,
            "config": members[0].config() if members else {},
            "members": len(members),
        },
    }


def surrogate_tensors(surrogate: Surrogate | FieldSurrogate) -> dict[str, np.ndarray[Any, Any]]:
    """The frame's arrays and every member's tensors, by name."""
    tensors = {f"frame.{name}": value for name, value in surrogate.frame.arrays().items()}
    for index, member in enumerate(surrogate.members):
        tensors |= {f"member.{index}.{name}": t.detach().cpu().numpy() for name, t in member.state_dict().items()}
    return tensors


def read_surrogate(
    header: Mapping[str, Any], tensors: Tensors, layout: Layout, device: torch.device
) -> Surrogate | FieldSurrogate:
    """The surrogate that `surrogate_record` and `surrogate_tensors` wrote down."""
    if layout.space and layout.size != len(layout.channels) * math.prod(layout.space):
        raise ValueError(f"{layout.size} coordinates do not fill a grid of {layout.space}")
    if choice("surrogate", str(header["surrogate"]), ("dense", "field")) == "dense":
        frame = _dense_frame(tensors, layout, int(header["frame"]["history"]))
        members = _members(header["network"], tensors, (frame.features, frame.size), device)
        return Surrogate(frame, members)
    around = _field_frame(tensors, layout, header["frame"])
    found = _members(header["network"], tensors, (around.features, around.outputs), device)
    return FieldSurrogate(around, found)  # type: ignore[arg-type]  # `build` made what its name says


def _dense_frame(tensors: Tensors, layout: Layout, history: int) -> Frame:
    n, m = layout.size, len(layout.input_names)
    shapes: Shapes = {
        "mean": (n,), "scale": (n,), "difference_scale": (history - 1, n), "input_mean": (m,), "input_scale": (m,),
        "matrix": (n, n * history + m), "offset": (n,), "gain": (n,),
    }  # fmt: skip
    return Frame(history=history, **_arrays(tensors, shapes))


def _field_frame(tensors: Tensors, layout: Layout, record: Mapping[str, Any]) -> FieldFrame:
    c, m, history = len(layout.channels), len(layout.input_names), int(record["history"])
    space, kernel = (tuple(map(int, record[key])) for key in ("space", "kernel"))
    if space != layout.space or len(kernel) != len(space):
        raise ValueError(f"a frame on a grid of {space} for data on a grid of {layout.space}")
    shapes: Shapes = {
        "channel_mean": (c,), "channel_scale": (c,), "difference_scale": (history - 1, c), "input_mean": (m,),
        "input_scale": (m,), "matrix": (c, math.prod(kernel) * (c * history + m)), "offset": (c,), "gain": (c,),
    }  # fmt: skip
    static = tensors.get("frame.static")
    if static is not None:
        shapes["static"] = (*space, static.shape[-1])
    conserve = choice("conservation", str(record["conserve"]), CONSERVE)
    return FieldFrame(
        space, sides(record["boundary"], len(space)), kernel, history, conserve=conserve, **_arrays(tensors, shapes)
    )


def _arrays(tensors: Tensors, shapes: Shapes) -> dict[str, Any]:
    """The frame's arrays, each of the shape that it must have, finite and in float64."""
    arrays = {name: tensors[f"frame.{name}"] for name in shapes}
    for name, shape in shapes.items():
        if arrays[name].shape != shape or arrays[name].dtype != np.float64:
            raise ValueError(f"frame.{name} should be float64 of shape {shape}, got {arrays[name].shape}")
        if not np.isfinite(arrays[name]).all():
            raise ValueError(f"frame.{name} holds numbers that are not finite")
    return arrays


def _members(
    network: Mapping[str, Any], tensors: Tensors, sizes: tuple[int, int], device: torch.device
) -> tuple[StateNetwork, ...]:
    """The networks, each from its tensors."""
    members = []
    for index in range(int(network["members"])):
        mark = f"member.{index}."
        state = {name.removeprefix(mark): torch.from_numpy(t) for name, t in tensors.items() if name.startswith(mark)}
        if not state:
            raise ValueError(f"the tensors of member {index} are missing")
        model, config = str(network["model"]), dict(network["config"])
        believe(model, config, state)
        if (config["n_in"], config["n_out"]) != sizes:
            raise ValueError(f"member {index} maps {config['n_in']} to {config['n_out']} numbers, not {sizes}")
        # A generator of its own: opening a file must not move anybody's random numbers.
        member = build(model, **config, generator=torch.Generator())
        member.to(state["readout.weight"].dtype).load_state_dict(state)
        members.append(member.to(device).eval())
    return tuple(members)
