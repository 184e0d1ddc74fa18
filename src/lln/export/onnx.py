"""A step as an ONNX graph: one step, or a whole rollout whose number of steps is known only when it runs.

The graph is what a `Step` computes: features and closed-form parts in float64, networks in their own precision. Lenses
are the plain sum of Gaussians, because a runtime pays for every node, and three wide nodes beat two dozen narrow ones.
Inside the step of a field model, a field is (B, points, channels), float64: boundaries are gathers, and lenses are the
same at every point. The networks' convolutions are float32, the frame's are float64.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lln import __version__
from lln.core.errors import InputError, ask_for_memory
from lln.core.safe_files import output_folder, whole_file
from lln.export.parts import (
    DenseStack,
    Difference,
    FieldStack,
    LensArrays,
    LensStack,
    LinearLayer,
    Probe,
    Stack,
    field_stacks,
    stacks,
)
from lln.step.field_frame import FieldFrame, free
from lln.step.frame import Array, FlowPart, Frame, FunctionKind, FunctionsPart, PolynomialPart
from lln.step.step import AnyStep, DenseStep

Index = NDArray[np.int64]
FLOAT, INT64, BOOL, DOUBLE = 1, 7, 9, 11  # ONNX's numbers of the types


class Nodes:
    """A graph under construction: every call of `add` is one node and gives the name of its output."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}

    def add(self, kind: str, *inputs: str, out: str | None = None, **attributes: Any) -> str:
        """A node of the kind `kind`; its output is called `out`, or after its place."""
        from onnx import helper

        name = out or f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def keep(self, name: str, values: NDArray[Any] | Sequence[int] | int, dtype: type[np.generic]) -> str:
        """A constant of the graph."""
        from onnx import numpy_helper

        array = np.array(values, dtype=dtype, order="C")
        if not np.isfinite(array).all():
            raise InputError(f"{name} holds values that are not finite; a diverged model has no export")
        self.constants[name] = numpy_helper.from_array(array, name)
        return name

    def linear(self, name: str, layer: LinearLayer, rows: str) -> str:
        """``rows weight^T + bias`` in float64: long sums are where float32 would lose most."""
        weight = self.keep(f"{name}_weight", layer.weight.T, np.float64)
        return self.add("Gemm", rows, weight, self.keep(f"{name}_bias", layer.bias, np.float64))


def add_step(nodes: Nodes, step: DenseStep, networks: tuple[Stack, ...], window: str, inputs: str, out: str) -> None:
    """From a window (B, H, n) and the inputs of the present (B, m) to the next state (B, n)."""
    frame = step.frame
    past = [nodes.add("Gather", window, nodes.keep(f"place_{k}", k, np.int64), axis=1) for k in range(frame.history)]
    if frame.logarithm is not None:
        floor = nodes.keep("log_floor", frame.logarithm.floor, np.float64)
        past = [nodes.add("Log", nodes.add("Max", state, floor)) for state in past]
    features = _features(nodes, frame, frame.units, past, inputs)
    change = nodes.keep("offset", frame.offset, np.float64)
    if frame.matrix.any():
        linear = nodes.add("MatMul", features, nodes.keep("matrix", frame.matrix.T, np.float64))
        change = nodes.add("Add", linear, change)
    if step.polynomial is not None:
        change = nodes.add("Add", change, _polynomial(nodes, step.polynomial, features, "polynomial"))
    if step.flow is not None:
        change = nodes.add("Add", change, _flow(nodes, step.flow, frame, features))
    if networks:
        outputs = [_network(nodes, stack, features, f"net{index}") for index, stack in enumerate(networks)]
        total = outputs[0]
        for more in outputs[1:]:
            total = nodes.add("Add", total, more)
        worth = nodes.add("Mul", total, nodes.keep("gain", frame.gain / len(outputs), np.float64))
        change = nodes.add("Add", change, worth)
    after = nodes.add("Add", past[-1], nodes.add("Mul", change, nodes.keep("scale", frame.units[1], np.float64)))
    if frame.logarithm is not None:
        after = nodes.add("Exp", after)
    if frame.low is not None:
        after = nodes.add("Max", after, nodes.keep("low", frame.low, np.float64))
    if frame.high is not None:
        after = nodes.add("Min", after, nodes.keep("high", frame.high, np.float64))
    nodes.add("Identity", after, out=out)


def _polynomial(nodes: Nodes, part: PolynomialPart, features: str, name: str) -> str:
    """Weighted monomials (..., n) of features (..., F); those of one degree are one product of two gathers."""
    values: list[str] = []
    for degree in range(1, part.degrees + 1):
        factor = nodes.keep(f"{name}_factor_{degree}", part.get_buffer(f"factor_{degree}").numpy(force=True), np.int64)
        product = nodes.add("Gather", features, factor, axis=-1)
        if degree > 1:
            parent = part.get_buffer(f"parent_{degree}").numpy(force=True)
            before = nodes.keep(f"{name}_parent_{degree}", parent, np.int64)
            product = nodes.add("Mul", nodes.add("Gather", values[-1], before, axis=-1), product)
        values.append(product)
    every = values[0] if len(values) == 1 else nodes.add("Concat", *values, axis=-1)
    return nodes.add("MatMul", every, nodes.keep(f"{name}_weights", part.weights.numpy(force=True).T, np.float64))


def _flow(nodes: Nodes, flow: FlowPart, frame: Frame, features: str) -> str:
    """The increment (B, n) of the vector field over one step, by the classical Runge-Kutta method."""

    def columns(name: str, first: int, last: int) -> str:
        return nodes.add("Gather", features, nodes.keep(f"flow_{name}", np.arange(first, last), np.int64), axis=-1)

    def times(value: str, name: str, factor: float) -> str:
        return nodes.add("Mul", value, nodes.keep(f"flow_{name}", np.array(factor), np.float64))

    start = now = columns("states", 0, frame.size)
    states = frame.size * frame.history
    inputs = columns("inputs", states, states + frame.inputs) if frame.inputs else ""
    h = 1.0 / flow.substeps
    for _ in range(flow.substeps):
        slopes: list[str] = []
        for name, factor in (("none", 0.0), ("half", h / 2), ("half", h / 2), ("whole", h)):
            at = nodes.add("Add", now, times(slopes[-1], name, factor)) if slopes else now
            seen = nodes.add("Concat", at, inputs, axis=-1) if inputs else at
            if flow.functions is not None:
                seen = nodes.add("Concat", seen, _functions(nodes, flow.functions, seen), axis=-1)
            slope = _polynomial(nodes, flow.polynomial, seen, "flow")
            offset = nodes.keep("flow_offset", flow.offset.numpy(force=True), np.float64)
            slopes.append(nodes.add("Add", slope, offset))
        middle = times(nodes.add("Add", slopes[1], slopes[2]), "twice", 2.0)
        total = nodes.add("Add", nodes.add("Add", slopes[0], middle), slopes[3])
        now = nodes.add("Add", now, times(total, "sixth", h / 6))
    return nodes.add("Sub", now, start)


def _functions(nodes: Nodes, functions: FunctionsPart, variables: str) -> str:
    """Functions (B, L) of single variables (B, V)."""
    places = nodes.keep("function_variables", functions.variables.numpy(force=True), np.int64)
    slope = nodes.keep("function_slope", functions.slope.numpy(force=True), np.float64)
    shift = nodes.keep("function_shift", functions.shift.numpy(force=True), np.float64)
    argument = nodes.add("Add", nodes.add("Mul", nodes.add("Gather", variables, places, axis=-1), slope), shift)
    values = _function(nodes, functions.present[0], argument)
    for kind in functions.present[1:]:
        which = nodes.keep(f"function_kind_{kind}", functions.kinds.numpy(force=True) == kind, np.bool_)
        values = nodes.add("Where", which, _function(nodes, kind, argument), values)
    return values


def _function(nodes: Nodes, kind: int, argument: str) -> str:
    """One kind of function of every argument."""
    if kind == FunctionKind.GAUSSIAN:
        half = nodes.keep("function_half", np.array(-0.5), np.float64)
        return nodes.add("Exp", nodes.add("Mul", nodes.add("Mul", argument, argument), half))
    if kind == FunctionKind.SATURATION:
        low, high = (nodes.keep(f"function_end_{k}", np.array(end), np.float64) for k, end in enumerate((-1.0, 1.0)))
        return nodes.add("Clip", argument, low, high)
    return nodes.add(("", "Sin", "Abs", "Tanh", "Exp", "Reciprocal")[kind], argument)


def _standardised(nodes: Nodes, value: str, mean: Array, scale: Array, name: str) -> str:
    """``(value - mean) / scale``."""
    centred = nodes.add("Sub", value, nodes.keep(f"{name}mean", mean, np.float64))
    return nodes.add("Div", centred, nodes.keep(f"{name}scale", scale, np.float64))


def _features(
    nodes: Nodes, frame: Frame | FieldFrame, units: tuple[Array, Array], past: list[str], inputs: str, points: int = 0
) -> str:
    """Features (B, F); or (B, points, F), where the inputs are the same at all `points`."""
    z = [_standardised(nodes, state, *units, "") for state in past]
    parts = [z[-1]]
    for j in range(1, frame.history):
        unit = nodes.keep(f"difference_scale_{j}", frame.difference_scale[j - 1], np.float64)
        parts.append(nodes.add("Div", nodes.add("Sub", z[-j], z[-j - 1]), unit))
    if frame.inputs:
        known = _standardised(nodes, inputs, frame.input_mean, frame.input_scale, "input_")
        if points:
            everywhere = nodes.keep("everywhere", np.ones((1, points, 1)), np.float64)
            known = nodes.add("Unsqueeze", known, nodes.keep("axis_points", [1], np.int64))
            known = nodes.add("Mul", known, everywhere)
        parts.append(known)
    return parts[0] if len(parts) == 1 else nodes.add("Concat", *parts, axis=-1)


def _network(nodes: Nodes, stack: Stack, features: str, name: str) -> str:
    """From features to the network's output, both float64."""
    if isinstance(stack, LensStack):
        return _lens(nodes, stack, features, name)
    return _dense(nodes, stack, features, name)


def _lens(nodes: Nodes, stack: LensStack, features: str, name: str) -> str:
    y = nodes.linear(f"{name}_position", stack.position, features)
    theta = None
    if stack.angle is not None:
        theta = nodes.add("Tanh", nodes.linear(f"{name}_angle", stack.angle, features))
    return nodes.linear(f"{name}_readout", stack.readout, _transport(nodes, stack.optics, y, theta, name))


def _transport(nodes: Nodes, optics: LensArrays, y: str, theta: str | None, name: str) -> str:
    """Positions (..., h) behind all lenses, from positions and angles; None are angles of zero.

    Rays are float64, and how much each lens turns them is of the precision of the network: the many exponentials are
    there, the sums here. Every constant that float32 would round acts on float64, because such an error is the same in
    every step and adds up. The last lens is left out, because the readout does not see the angles behind it.
    """
    kind = np.float64 if optics.double else np.float32
    length = nodes.keep(f"{name}_length", np.array(optics.length), np.float64)
    narrow = nodes.keep(f"{name}_narrow", np.array(1.0 / optics.sigma), np.float64)
    points = nodes.keep(f"{name}_control_points", np.array(optics.centers) / optics.sigma, np.float64)
    scale = nodes.keep(f"{name}_scale", np.array(optics.scale), np.float64) if optics.scale != 1.0 else ""
    last = nodes.keep("axis_last", [-1], np.int64)
    for layer, coefficients in enumerate(optics.coefficients):
        y = y if theta is None else nodes.add("Add", y, nodes.add("Mul", theta, length))
        if layer == len(optics.coefficients) - 1:
            break
        place = nodes.add("Unsqueeze", nodes.add("Mul", y, narrow), last)
        away = nodes.add("Sub", place, points)
        away = away if optics.double else nodes.add("Cast", away, to=FLOAT)
        bells = nodes.add("Exp", nodes.add("Neg", nodes.add("Mul", away, away)))
        lens = nodes.keep(f"{name}_lens_{layer}", coefficients, kind)
        bent = nodes.add("ReduceSum", nodes.add("Mul", bells, lens), last, keepdims=0)
        bent = bent if optics.double else nodes.add("Cast", bent, to=DOUBLE)
        bent = nodes.add("Mul", bent, scale) if scale else bent
        theta = bent if theta is None else nodes.add("Add", theta, bent)
    return y


def _dense(nodes: Nodes, stack: DenseStack, features: str, name: str) -> str:
    z = nodes.add("Relu", nodes.linear(f"{name}_embedding", stack.embedding, features))
    for index, layer in enumerate(stack.layers):
        more = nodes.linear(f"{name}_layer_{index}", layer, z)
        if stack.norms is not None:
            more = nodes.add("Mul", more, nodes.keep(f"{name}_factor_{index}", stack.norms[index, 0], np.float64))
            more = nodes.add("Add", more, nodes.keep(f"{name}_shift_{index}", stack.norms[index, 1], np.float64))
        more = nodes.add("Relu", more)
        if (stack.gains[index] != 1.0).any():
            more = nodes.add("Mul", more, nodes.keep(f"{name}_gain_{index}", stack.gains[index], np.float64))
        z = nodes.add("Add", z, more) if stack.kept else more
    return nodes.linear(f"{name}_readout", stack.readout, z)


def add_field_step(
    nodes: Nodes, frame: FieldFrame, networks: tuple[FieldStack, ...], window: str, inputs: str, out: str
) -> None:
    """From a window (B, H, n) and the inputs of the present (B, m) to the next state (B, n)."""
    points = math.prod(frame.space)
    apart = nodes.keep("shape_channels", [-1, frame.history, frame.channels, points], np.int64)
    fields = nodes.add("Transpose", nodes.add("Reshape", window, apart), perm=[0, 1, 3, 2])
    past = [nodes.add("Gather", fields, nodes.keep(f"place_{k}", k, np.int64), axis=1) for k in range(frame.history)]
    features = _features(nodes, frame, (frame.channel_mean, frame.channel_scale), past, inputs, points)
    change = nodes.keep("offset", frame.offset, np.float64)
    if frame.matrix.any():
        change = _convolution(nodes, frame, frame.kernel, "linear", LinearLayer(frame.matrix, frame.offset), features)
    if frame.polynomial is not None:
        local = _polynomial(nodes, PolynomialPart(frame.polynomial), features, "polynomial")
        change = nodes.add("Add", change, local)
    if networks:
        seen = _seen(nodes, frame, features)
        total = ""
        for index, stack in enumerate(networks):
            output = _field_network(nodes, frame, stack, seen, f"net{index}")
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


def _seen(nodes: Nodes, frame: FieldFrame, features: str) -> str:
    """Inputs of the networks: the features and the fixed fields."""
    if frame.static is None:
        return features
    fixed = nodes.keep("static", frame.static.reshape(1, math.prod(frame.space), -1), np.float64)
    first = nodes.add("Gather", features, nodes.keep("first_channel", [0], np.int64), axis=-1)
    # Zero times the field carries the batch, which the constant does not have.
    return nodes.add("Concat", features, nodes.add("Add", nodes.add("Sub", first, first), fixed), axis=-1)


def _field_network(nodes: Nodes, frame: FieldFrame, stack: FieldStack, seen: str, name: str) -> str:
    field = seen
    for index, block in enumerate(stack.blocks):
        here, single = f"{name}_block{index}", not block.optics.double
        y = _convolution(nodes, frame, stack.kernel, f"{here}_position", block.position, field, single=single)
        theta = None
        if block.angle is not None:
            angle = _convolution(nodes, frame, stack.kernel, f"{here}_angle", block.angle, field, single=single)
            theta = nodes.add("Tanh", angle)
        y = _transport(nodes, block.optics, y, theta, here)
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
    name, (main, mirror, weight) = f"pad_{axis}_{size}", _beyond(frame.space[axis], size, frame.boundary[axis])
    near = nodes.add("Gather", grid, nodes.keep(f"{name}_main", main, np.int64), axis=1 + axis)
    if not weight.any():
        return near
    shape = [-1 if k == axis else 1 for k in range(len(frame.space))] + [1]
    less = nodes.keep(f"{name}_weight", weight.reshape(shape), np.float64)
    far = nodes.add("Gather", grid, nodes.keep(f"{name}_mirror", mirror, np.int64), axis=1 + axis)
    return nodes.add("Add", near, nodes.add("Mul", nodes.add("Sub", near, far), less))


def _beyond(points: int, size: int, sides: tuple[str, str]) -> tuple[Index, Index, NDArray[np.float64]]:
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


OPSET = 17
IR = 8
MISSING = "ONNX export needs the packages onnx and onnxruntime; install them with `pip install 'lln[export]'`"


def export_onnx(
    surrogate: AnyStep,
    path: str | os.PathLike[str],
    *,
    rollout: bool = False,
    window: Array | None = None,
    names: Sequence[str] = (),
    input_names: Sequence[str] = (),
) -> Difference:
    """Write the graph, run it with onnxruntime and compare it with the float64 rollout.

    Inputs and outputs, all float64 with any batch B: `window` (B, H, n), oldest state first, and, where the model has
    inputs, `inputs`. A step takes inputs (B, m) and gives `next` (B, n). A rollout takes also `steps`, an int64 scalar,
    and inputs (B, steps, m), and gives `states` (B, steps, n). If the model looks at earlier inputs, these are columns
    too: all inputs at the present, then all one step before, and so on.

    Args:
        surrogate: what to write.
        path: the file.
        rollout: whether to write a whole rollout in place of one step.
        window: a start to compare from, (H, n); near the training mean if left out.
        names: of the coordinates, stored in the file's metadata.
        input_names: of the columns of `inputs`, likewise.
    """
    try:
        import onnx
    except ModuleNotFoundError as error:
        raise InputError(MISSING) from error
    ask_for_memory()
    graph = rollout_graph(surrogate) if rollout else step_graph(surrogate)
    content = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", OPSET)], producer_name="lln", producer_version=__version__
    )
    content.ir_version = IR
    said = {"lln": __version__, "coordinates": ", ".join(names), "inputs": ", ".join(input_names)}
    onnx.helper.set_model_props(content, said)
    onnx.checker.check_model(content, full_check=True)
    target = Path(path)
    output_folder(target.parent)
    with whole_file(target) as partial:
        partial.write_bytes(content.SerializeToString())
    probe = Probe.of(surrogate, window)
    return probe.compare(target.name, surrogate, run(target, probe, rollout=rollout))


def onnxruntime() -> Any:
    """The package `onnxruntime`, imported with its telemetry off; InputError if it is not installed.

    It sends usage data unless this is switched off before its first import, so every module imports it through here.
    """
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    try:
        import onnxruntime as package
    except ModuleNotFoundError as error:
        raise InputError(MISSING) from error
    package.disable_telemetry_events()
    return package


def session(path: str | os.PathLike[str]) -> Any:
    """The file in onnxruntime, on one thread of the CPU."""
    runtime = onnxruntime()
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3  # errors only
    return runtime.InferenceSession(os.fspath(path), options, providers=["CPUExecutionProvider"])


def run(path: str | os.PathLike[str], probe: Probe, *, rollout: bool) -> Array:
    """The states (B, steps, n) that onnxruntime computes from the starts of `probe`, step by step or in one call."""
    runtime = session(path)
    if rollout:
        feed = {"window": probe.window, "steps": np.array(probe.steps, dtype=np.int64)}
        states: Array = runtime.run(None, feed if probe.inputs is None else {**feed, "inputs": probe.inputs})[0]
        return states
    return probe.rolled(lambda feed: runtime.run(None, feed)[0])


def step_graph(surrogate: AnyStep) -> Any:
    """The graph of one step."""
    from onnx.helper import make_graph
    from onnx.helper import make_tensor_value_info as tensor

    frame, nodes = surrogate.frame, Nodes()
    _step(nodes, surrogate, "window", "inputs", "next")
    feeds = [tensor("window", DOUBLE, ["batch", frame.history, frame.size])]
    if frame.inputs:
        feeds.append(tensor("inputs", DOUBLE, ["batch", frame.inputs]))
    result = tensor("next", DOUBLE, ["batch", frame.size])
    return make_graph(nodes.nodes, "step", feeds, [result], list(nodes.constants.values()))


def rollout_graph(surrogate: AnyStep) -> Any:
    """The graph of a rollout: a Loop around the step, that carries the window and gathers the states."""
    from onnx.helper import make_graph, make_node
    from onnx.helper import make_tensor_value_info as tensor

    frame, outer, inner = surrogate.frame, Nodes(), Nodes()
    now = inner.add("Gather", "inputs", "index", out="inputs_now", axis=1) if frame.inputs else ""
    _step(inner, surrogate, "past", now, "next")
    later = inner.add("Unsqueeze", "next", inner.keep("axis_time", [1], np.int64))
    if frame.history > 1:
        ends = [inner.keep(f"slice_{key}", [value], np.int64) for key, value in (("from", 1), ("to", frame.history))]
        kept = inner.add("Slice", "past", *ends, "axis_time")
        later = inner.add("Concat", kept, later, axis=1)
    inner.add("Identity", later, out="past_later")
    inner.add("Identity", "go_on", out="go_on_later")
    shape: list[str | int | None] = ["batch", frame.history, frame.size]
    given = [tensor("index", INT64, []), tensor("go_on", BOOL, []), tensor("past", DOUBLE, shape)]
    given_back = [tensor("go_on_later", BOOL, []), tensor("past_later", DOUBLE, shape)]
    body = make_graph(inner.nodes, "step", given, [*given_back, tensor("next", DOUBLE, ["batch", frame.size])])
    outer.nodes.append(make_node("Loop", ["steps", "", "window"], ["last_window", "by_step"], body=body))
    outer.add("Transpose", "by_step", out="states", perm=[1, 0, 2])
    feeds = [tensor("window", DOUBLE, shape), tensor("steps", INT64, [])]
    if frame.inputs:
        feeds.append(tensor("inputs", DOUBLE, ["batch", "steps", frame.inputs]))
    result = tensor("states", DOUBLE, ["batch", "steps", frame.size])
    return make_graph(outer.nodes, "rollout", feeds, [result], list(inner.constants.values()))


def _step(nodes: Nodes, surrogate: AnyStep, window: str, inputs: str, out: str) -> None:
    step: Any = surrogate
    if step.kind == "field":
        add_field_step(nodes, step.frame, field_stacks(step), window, inputs, out)
    else:
        add_step(nodes, step, stacks(step), window, inputs, out)
