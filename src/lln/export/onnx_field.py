"""The nodes of one step of a field model: boundaries as gathers, convolutions, lenses at every point.

Inside, a field is (B, points, channels), float64. The networks' convolutions are float32, the frame's are float64.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from lln.export.onnx_nodes import DOUBLE, FLOAT, Nodes, add_polynomial, add_transport, standardised
from lln.export.parts import FieldStack, LinearLayer
from lln.step.field_frame import FieldFrame, free
from lln.step.frame import PolynomialPart

Index = NDArray[np.int64]


def add_field_step(
    nodes: Nodes, frame: FieldFrame, networks: tuple[FieldStack, ...], window: str, inputs: str, out: str
) -> None:
    """From a window (B, H, n) and the inputs of the present (B, m) to the next state (B, n)."""
    points = math.prod(frame.space)
    apart = nodes.keep("shape_channels", [-1, frame.history, frame.channels, points], np.int64)
    fields = nodes.add("Transpose", nodes.add("Reshape", window, apart), perm=[0, 1, 3, 2])
    past = [nodes.add("Gather", fields, nodes.keep(f"place_{k}", k, np.int64), axis=1) for k in range(frame.history)]
    features = _features(nodes, frame, past, inputs, points)
    change = nodes.keep("offset", frame.offset, np.float64)
    if frame.matrix.any():
        change = _convolution(nodes, frame, frame.kernel, "linear", LinearLayer(frame.matrix, frame.offset), features)
    if frame.polynomial is not None:
        local = add_polynomial(nodes, PolynomialPart(frame.polynomial), features, "polynomial")
        change = nodes.add("Add", change, local)
    if networks:
        seen = _seen(nodes, frame, features)
        total = ""
        for index, stack in enumerate(networks):
            output = _network(nodes, frame, stack, seen, f"net{index}")
            total = nodes.add("Add", total, output) if total else output
        total = _divergence(nodes, frame, total) if frame.conserve == "flux" else total
        gain = nodes.keep("gain", frame.gain / len(networks), np.float64)
        change = nodes.add("Add", change, nodes.add("Mul", total, gain))
    if frame.conserve != "none":
        mean = nodes.add(
            "MatMul", nodes.keep("mean_over_space", np.full((1, points), 1.0 / points), np.float64), change
        )
        change = nodes.add("Sub", change, mean)
    hold = free(frame.space, frame.boundary).reshape(points, 1) * frame.channel_scale
    moved = nodes.add("Add", past[-1], nodes.add("Mul", change, nodes.keep("hold_and_scale", hold, np.float64)))
    for name, kind in (("low", "Max"), ("high", "Min")):
        if (bound := getattr(frame, name)) is not None:
            moved = nodes.add(kind, moved, nodes.keep(name, bound, np.float64))
    flat = nodes.keep("shape_flat", [-1, frame.size], np.int64)
    nodes.add("Reshape", nodes.add("Transpose", moved, perm=[0, 2, 1]), flat, out=out)


def _features(nodes: Nodes, frame: FieldFrame, past: list[str], inputs: str, points: int) -> str:
    z = [standardised(nodes, state, frame.channel_mean, frame.channel_scale, "") for state in past]
    parts = [z[-1]]
    for j in range(1, frame.history):
        unit = nodes.keep(f"difference_scale_{j}", frame.difference_scale[j - 1], np.float64)
        parts.append(nodes.add("Div", nodes.add("Sub", z[-j], z[-j - 1]), unit))
    if frame.inputs:
        known = standardised(nodes, inputs, frame.input_mean, frame.input_scale, "input_")
        everywhere = nodes.keep("everywhere", np.ones((1, points, 1)), np.float64)
        parts.append(
            nodes.add("Mul", nodes.add("Unsqueeze", known, nodes.keep("axis_points", [1], np.int64)), everywhere)
        )
    return parts[0] if len(parts) == 1 else nodes.add("Concat", *parts, axis=-1)


def _seen(nodes: Nodes, frame: FieldFrame, features: str) -> str:
    """Inputs of the networks: the features and the fixed fields."""
    if frame.static is None:
        return features
    fixed = nodes.keep("static", frame.static.reshape(1, math.prod(frame.space), -1), np.float64)
    first = nodes.add("Gather", features, nodes.keep("first_channel", [0], np.int64), axis=-1)
    # Zero times the field carries the batch, which the constant does not have.
    return nodes.add("Concat", features, nodes.add("Add", nodes.add("Sub", first, first), fixed), axis=-1)


def _network(nodes: Nodes, frame: FieldFrame, stack: FieldStack, seen: str, name: str) -> str:
    field = seen
    for index, block in enumerate(stack.blocks):
        here, single = f"{name}_block{index}", not block.optics.double
        y = _convolution(nodes, frame, stack.kernel, f"{here}_position", block.position, field, single=single)
        theta = None
        if block.angle is not None:
            angle = _convolution(nodes, frame, stack.kernel, f"{here}_angle", block.angle, field, single=single)
            theta = nodes.add("Tanh", angle)
        y = add_transport(nodes, block.optics, y, theta, here)
        out = _convolution(nodes, frame, stack.kernel, f"{here}_readout", block.readout, y, single=single)
        field = out if index in (0, len(stack.blocks) - 1) else nodes.add("Add", field, out)
    return field


def _convolution(
    nodes: Nodes,
    frame: FieldFrame,
    kernel: tuple[int, ...],
    name: str,
    layer: LinearLayer,
    field: str,
    *,
    single: bool = False,
) -> str:
    """(B, points, channels) -> (B, points, out). ONNX runtimes convolve float32 only; float64 gathers patches."""
    rank, channels = len(kernel), layer.weight.shape[1] // math.prod(kernel)
    grid = nodes.add("Reshape", field, nodes.keep(f"{name}_grid", [-1, *frame.space, channels], np.int64))
    for axis, size in enumerate(kernel):
        grid = _padded(nodes, frame, axis, size, grid)
    points = math.prod(frame.space)
    if not single:
        wide = tuple(n + size - 1 for n, size in zip(frame.space, kernel, strict=True))
        rows = nodes.add("Reshape", grid, nodes.keep(f"{name}_rows", [-1, math.prod(wide), channels], np.int64))
        patches = nodes.add(
            "Gather", rows, nodes.keep(f"{name}_patches", _patches(frame.space, kernel), np.int64), axis=1
        )
        flat = nodes.add("Reshape", patches, nodes.keep(f"{name}_flat", [-1, points, layer.weight.shape[1]], np.int64))
        product = nodes.add("MatMul", flat, nodes.keep(f"{name}_weight", layer.weight.T, np.float64))
        return nodes.add("Add", product, nodes.keep(f"{name}_bias", layer.bias, np.float64))
    first = nodes.add("Cast", nodes.add("Transpose", grid, perm=[0, rank + 1, *range(1, rank + 1)]), to=FLOAT)
    filters = np.moveaxis(layer.weight.reshape(-1, *kernel, channels), -1, 1)
    out = nodes.add("Conv", first, nodes.keep(f"{name}_weight", filters, np.float32))
    shape = nodes.keep(f"{name}_out", [-1, layer.weight.shape[0], points], np.int64)
    last = nodes.add("Transpose", nodes.add("Reshape", nodes.add("Cast", out, to=DOUBLE), shape), perm=[0, 2, 1])
    return nodes.add("Add", last, nodes.keep(f"{name}_bias", layer.bias, np.float64))


def _patches(space: tuple[int, ...], kernel: tuple[int, ...]) -> Index:
    """Where in the padded grid each point's patch lies, (points, kernel points)."""
    wide = tuple(n + size - 1 for n, size in zip(space, kernel, strict=True))
    places = np.arange(math.prod(wide)).reshape(wide)
    views: Index = np.lib.stride_tricks.sliding_window_view(places, kernel)
    return views.reshape(math.prod(space), math.prod(kernel))


def _padded(nodes: Nodes, frame: FieldFrame, axis: int, size: int, grid: str) -> str:
    """The grid with what lies beyond its sides along `axis`: one gather, or two where a Dirichlet side reflects."""
    if size == 1:
        return grid
    name, (main, mirror, weight) = f"pad_{axis}_{size}", beyond(frame.space[axis], size, frame.boundary[axis])
    near = nodes.add("Gather", grid, nodes.keep(f"{name}_main", main, np.int64), axis=1 + axis)
    if not weight.any():
        return near
    shape = [-1 if k == axis else 1 for k in range(len(frame.space))] + [1]
    less = nodes.keep(f"{name}_weight", weight.reshape(shape), np.float64)
    far = nodes.add("Gather", grid, nodes.keep(f"{name}_mirror", mirror, np.int64), axis=1 + axis)
    return nodes.add("Add", near, nodes.add("Mul", nodes.add("Sub", near, far), less))


def beyond(points: int, size: int, sides: tuple[str, str]) -> tuple[Index, Index, NDArray[np.float64]]:
    """A padded axis as ``x[main] + weight (x[main] - x[mirror])``: weight is 1 beyond Dirichlet sides, 0 elsewhere."""
    place = np.arange(-((size - 1) // 2), points + size // 2)
    inside = np.clip(place, 0, points - 1)
    mirror = np.where(place < 0, -place, np.where(place >= points, 2 * (points - 1) - place, place))
    if sides[0] == "periodic":
        return place % points, place % points, np.zeros(len(place))
    side = np.where(place < 0, sides[0], np.where(place >= points, sides[1], ""))
    main = np.where(side == "neumann", mirror, inside)
    return main, np.where(side == "dirichlet", mirror, inside), (side == "dirichlet").astype(np.float64)


def _divergence(nodes: Nodes, frame: FieldFrame, flux: str) -> str:
    """What flows into each cell, from a flux for every axis and channel; nothing flows through walls."""
    rank, channels, total = len(frame.space), frame.channels, ""
    grid = nodes.add("Reshape", flux, nodes.keep("flux_grid", [-1, *frame.space, rank, channels], np.int64))
    for axis, (points, pair) in enumerate(zip(frame.space, frame.boundary, strict=True)):
        part = nodes.add("Gather", grid, nodes.keep(f"flux_{axis}", axis, np.int64), axis=rank + 1)
        before = nodes.keep(f"flux_from_{axis}", (np.arange(points) - 1) % points, np.int64)
        arrives = nodes.add("Gather", part, before, axis=1 + axis)
        if pair[0] != "periodic":
            shape = [-1 if k == axis else 1 for k in range(rank)] + [1]
            opens = [(np.arange(points) != wall).astype(float).reshape(shape) for wall in (0, points - 1)]
            arrives = nodes.add("Mul", arrives, nodes.keep(f"flux_low_{axis}", opens[0], np.float64))
            part = nodes.add("Mul", part, nodes.keep(f"flux_high_{axis}", opens[1], np.float64))
        net = nodes.add("Sub", arrives, part)
        total = nodes.add("Add", total, net) if total else net
    flat = nodes.keep("flux_flat", [-1, math.prod(frame.space), channels], np.int64)
    return nodes.add("Reshape", total, flat)
