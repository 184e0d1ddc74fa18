"""A step as an ONNX graph: one step, or a whole rollout whose number of steps is known only when it runs.

The graph is what a `Step` computes: features and closed-form parts in float64, networks in their own precision. Lenses
are the plain sum of Gaussians, because a runtime pays for every node, and three wide nodes beat two dozen narrow ones.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lln import __version__
from lln.core.errors import InputError, ask_for_memory
from lln.core.safe_files import output_folder, whole_file
from lln.export.onnx_nodes import BOOL, DOUBLE, INT64, Nodes, add_field_step, add_step
from lln.export.parts import Difference, Probe, field_stacks, stacks
from lln.step.base import AnyStep
from lln.step.frame import Array

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
