"""What the page's script reads: the model, the data and notes about them, as plain values.

A page carries some rows of the data, and what the model did with them.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lln.core.errors import InputError
from lln.data.interpret.calendar import dates_of, first_date
from lln.data.series import Dataset, Series
from lln.export.parts import DenseStack, LensArrays, LensStack, LinearLayer, field_stacks, stacks
from lln.forecaster.layout import Layout, TrainingFingerprint
from lln.forecaster.scoring.scored_rows import true_runs
from lln.step.step import AnyStep
from lln.systems import System
from lln.view.page.equations import polynomial_field

# Numbers of data that a page carries at most: without rounding, in 16 bits, and in 8 bits (6 MB).
EXACT, FINE, COARSE = 64_000, 2_000_000, 6_000_000
# Rows that are not pictures are small: a quarter of a million numbers is thousands of them, and pages stay below 3 MB.
ROWS = 240_000

UNSEEN, CHOSE, TRAINED = "unseen", "chose", "trained"
Mark = tuple[int, int, str]


@dataclass(frozen=True, eq=False)
class Run:
    """A trajectory without gaps on the page; rows are counted from its first one."""

    series: Series
    first_row: int = 0  # number of its first row in the file
    marks: tuple[Mark, ...] = ()  # (first, last + 1, "unseen" | "chose" | "trained"); () if unknown
    begin: int = 0  # row from which the first rollout starts

    @classmethod
    def of(cls, given: Run | Series, history: int) -> Run:
        """A run as it is, or a series that starts at its first window."""
        return given if isinstance(given, Run) else cls(given, begin=history - 1)


def runs_of(data: Dataset, training: TrainingFingerprint | None, history: int) -> tuple[list[Run], str, list[str]]:
    """The runs that a page contains, how the model used their rows, and notes on what was left out.

    The run with the longest stretch of unseen rows comes first and starts there. If the data is too large for a page,
    rows that trained are left out first, then the ends of the longest runs. All rows are new where `training` is None;
    a start needs `history` rows.
    """
    parts = data.stretches(history + 1)
    if not parts:
        raise InputError(
            f"{data.source}: no stretch of {data.input_lags + history + 1} rows without a gap, which one step needs; "
            "give other data"
        )
    kinds = _kinds(data, training)
    known = any((kind != 0).any() for kind in kinds)
    what = "new to the model" if not known else "trained and unseen ones, as marked"
    if known and not any((kinds[i][first + history : last] == 0).any() for i, first, last in parts):
        what = "those it was trained on"
    notes: list[str] = []
    rows = sum(last - first for _, first, last in parts)
    if rows * data.size > most_numbers(data) and known and what != "those it was trained on":
        what = "those that did not train"
        parts = [piece for part in parts for piece in _unseen_pieces(kinds[part[0]], part, history)]
        left_out = rows - sum(last - first for _, first, last in parts)
        notes.append(f"{left_out:,} rows that trained the model are not on this page, to keep it small.")
    pieces = Counter(index for index, _, _ in parts)
    runs = [_run(data, part, kinds[part[0]], history, pieces[part[0]] == 1) for part in parts]
    runs.sort(key=lambda run: -_longest_unseen(run, history)[1])
    runs = _cut(runs, data, history, notes)
    filled = sum(int(run.series.filled.sum()) for run in runs)
    if filled:
        notes.append(f"Missing values in {filled:,} rows were filled in for the model; the truth has gaps there.")
    names = Counter(run.series.name for run in runs)
    for k, run in enumerate(runs):
        if names[run.series.name] > 1:
            runs[k] = replace(run, series=replace(run.series, name=f"{run.series.name} {k + 1}"))
    return runs, what, notes


def most_numbers(data: Dataset) -> int:
    """How many numbers of this data a page may carry."""
    return COARSE if len(data.space) > 1 else ROWS


def _kinds(data: Dataset, training: TrainingFingerprint | None) -> list[NDArray[np.int8]]:
    """For each row 0 if the model has not seen it, 1 if it helped to choose, 2 if it trained."""
    if training is None:
        return [np.zeros(len(one), dtype=np.int8) for one in data.series]
    kinds = [2 * training.seen(one).astype(np.int8) for one in data.series]
    # Rows that chose are known by their numbers, which count if the rows that trained stand where they stood.
    here = [(i, a, b) for i, a, b in training.rows if i < len(kinds) and b <= len(kinds[i])]
    if here and len(here) == len(training.rows) and all((kinds[i][a:b] == 2).all() for i, a, b in here):
        for i, a, b in training.held_out:
            if i < len(kinds):
                part = kinds[i][a:b]
                part[part == 0] = 1
    return kinds


def _unseen_pieces(kinds: NDArray[np.int8], part: tuple[int, int, int], history: int) -> list[tuple[int, int, int]]:
    """Stretches of unseen rows inside `part`, each with the rows before it that a start needs."""
    index, first, last = part
    edges = true_runs(kinds[first:last] == 0) + first
    return [(index, max(first, int(a) - history), int(b)) for a, b in edges if b - max(first, a - history) > history]


def _run(data: Dataset, part: tuple[int, int, int], kinds: NDArray[np.int8], history: int, alone: bool) -> Run:
    index, first, last = part
    one, label = data.series[index], data.labels[index]
    name = label if alone else f"{label}, rows {first} to {last - 1}".lstrip(", ")
    series = replace(one.cut(first, last), name=name, start=one.start + first * data.dt)
    here = kinds[first:last]
    edges = np.r_[0, np.flatnonzero(np.diff(here)) + 1, len(here)]
    names = (UNSEEN, CHOSE, TRAINED)
    marks = tuple((int(a), int(b), names[here[a]]) for a, b in pairwise(edges))
    run = Run(series, first, marks)
    return replace(run, begin=_longest_unseen(run, history)[0])


def _longest_unseen(run: Run, history: int) -> tuple[int, int]:
    """The start before the longest stretch of unseen rows, and the length of that stretch."""
    if not run.marks:
        return history - 1, len(run.series) - history
    found = [(b - max(a, history), max(a, history) - 1) for a, b, kind in run.marks if kind == UNSEEN]
    length, begin = max(found, default=(0, history - 1))
    return (begin, length) if length > 0 else (history - 1, 0)


def _cut(runs: Sequence[Run], data: Dataset, history: int, notes: list[str]) -> list[Run]:
    """As many runs as fit; one that is too long is cut to the rows from its first start on."""
    kept: list[Run] = []
    room = most_numbers(data) // data.size
    for run in runs:
        if room <= history and kept:
            break
        rows = min(len(run.series), max(history + 1, room))
        if rows < len(run.series):
            first = min(max(run.begin - history + 1, 0), len(run.series) - rows)
            run = _shortened(run, first, first + rows, data.dt)
        kept.append(run)
        room -= rows
    total, shown = sum(len(run.series) for run in runs), sum(len(run.series) for run in kept)
    if shown < total:
        notes.append(f"{shown:,} of {total:,} rows are on this page; the others were left out to keep it small.")
    return kept


def _shortened(run: Run, first: int, last: int, dt: float) -> Run:
    """Rows `first` to `last - 1` of a run."""
    series = replace(run.series.cut(first, last), start=run.series.start + first * dt)
    marks = tuple((max(a, first) - first, min(b, last) - first, kind) for a, b, kind in run.marks)
    marks = tuple(mark for mark in marks if mark[1] > mark[0])
    return Run(series, run.first_row + first, marks, run.begin - first)


MOST_DATES = 20_000


def packed(values: NDArray[Any]) -> dict[str, Any]:
    """An array as base64, in float32 wherever that loses nothing."""
    wide = np.ascontiguousarray(values, dtype="<f8")
    with np.errstate(over="ignore"):
        narrow = wide.astype("<f4")
    kept = narrow if np.array_equal(narrow.astype("<f8"), wide, equal_nan=True) else wide
    name = "float32" if kept is narrow else "float64"
    return {"dtype": name, "shape": list(kept.shape), "data": base64.b64encode(kept.tobytes()).decode("ascii")}


def quantised(values: NDArray[Any], groups: int, numbers: int) -> dict[str, Any]:
    """States (rows, n) as base64: exact if all the page's `numbers` are few, otherwise in 16 or 8 bits.

    `groups` is the number of equal groups of columns with a range each: channels of a field, or coordinates.
    """
    if numbers <= EXACT:
        return packed(values)
    wide = np.asarray(values, dtype=np.float64)
    kind = "uint16" if numbers <= FINE else "uint8"
    levels = np.iinfo(kind).max
    parts = wide.reshape(len(wide), groups, -1)
    low, high = parts.min(axis=(0, 2)), parts.max(axis=(0, 2))
    step = np.where(high > low, (high - low) / levels, 1.0)
    codes = np.rint((parts - low[:, None]) / step[:, None]).astype(np.dtype(kind).newbyteorder("<"))
    data = base64.b64encode(codes.tobytes()).decode("ascii")
    return {"dtype": kind, "shape": list(wide.shape), "data": data, "low": low.tolist(), "step": step.tolist()}


def rounding_note(numbers: int) -> list[str]:
    """What quantisation does to the data on a page with this many `numbers`."""
    if numbers <= EXACT:
        return []
    bits, levels = (16, 65535) if numbers <= FINE else (8, 255)
    return [
        f"The data on this page is rounded to {bits} bits (at most {0.5 / levels:.1g} of its range), to keep it small; "
        "errors below that are rounding."
    ]


def model_part(surrogate: AnyStep) -> dict[str, Any]:
    """The frame, and the parts whose sum is the step's increment."""
    frame = surrogate.frame
    if getattr(frame, "part", None) is not None:
        raise InputError("closed-form parts of other packages do not run in a page; fit with parts= of lln's own")
    known = {"size": frame.size, "history": frame.history, "inputs": frame.inputs}
    arrays = {name: packed(values) for name, values in frame.arrays().items()}
    if surrogate.kind == "field":
        space = {**surrogate.frame.record(), "channels": surrogate.frame.channels}
        network = _field_network(surrogate)
        return {"frame": {"kind": "field", **space, **known, "arrays": arrays}, "parts": [network] if network else []}
    if frame.logarithm is not None:  # the page standardises the logarithms
        arrays |= {name: arrays[f"log_{name}"] for name in ("mean", "scale")}
    units = {name: arrays[name] for name in _UNITS if name in arrays}
    return {"frame": {"kind": "plain", **known, "arrays": units}, "parts": _parts(surrogate, arrays)}


_UNITS = ("mean", "scale", "difference_scale", "input_mean", "input_scale", "low", "high", "log_floor")


def _parts(surrogate: AnyStep, arrays: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The parts of a step of plain states; the page sums them."""
    frame = surrogate.frame
    parts: list[dict[str, Any]] = []
    if frame.matrix.any() or frame.offset.any():
        parts.append({"kind": "linear", "arrays": {name: arrays[name] for name in ("matrix", "offset")}})
    if frame.polynomial is not None:
        names = {"table": "polynomial_table", "weights": "polynomial_weights"}
        parts.append({"kind": "polynomial", "arrays": {short: arrays[name] for short, name in names.items()}})
    if frame.flow is not None:
        flow = frame.flow
        part = flow_part(flow.polynomial.table, flow.polynomial.weights, flow.offset, flow.substeps)
        if flow.functions is not None:
            part["arrays"] |= {name: arrays[f"flow_{name}"] for name in ("function_table", "function_arguments")}
        parts.append(part)
    network = _network(surrogate, arrays["gain"])
    return [*parts, network] if network else parts


def flow_part(table: NDArray[Any], weights: NDArray[Any], offset: NDArray[Any], substeps: int = 1) -> dict[str, Any]:
    """A polynomial vector field whose unit of time is one step of the data."""
    arrays = {"table": packed(table), "weights": packed(weights), "offset": packed(offset)}
    return {"kind": "flow", "substeps": substeps, "arrays": arrays}


def data_part(layout: Layout, runs: Sequence[Run], history: int, steps: int) -> dict[str, Any]:
    """Names, units, grid, and the trajectories that a rollout can start from."""
    for one in (run.series for run in runs):
        if one.size != layout.size or len(one) < history:
            raise InputError(
                f"{one.name}: a start needs {history} rows of {layout.size} coordinates, got {len(one)} of {one.size}"
            )
    names = layout.variables
    unit_of = [layout.units.get(name, "") for name in names]
    places = layout.size // max(1, len(names))
    unit, factor = time_unit(layout)
    origin = first_date(layout.units.get(layout.time_name, ""))
    numbers = sum(len(run.series) * run.series.size for run in runs)
    return {
        "dt": layout.dt / factor,
        "timeName": layout.time_name,
        "timeUnit": unit,
        "origin": None if origin is None or layout.frequency else f"{np.datetime_as_string(origin, unit='ms')}Z",
        "calendar": None if layout.frequency is None else _calendar(layout, runs, steps),
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
        "series": [_series(run, factor, len(names), numbers, history) for run in runs],
    }


def _calendar(layout: Layout, runs: Sequence[Run], steps: int) -> dict[str, Any] | None:
    """The date of every step of the calendar that the page can show; None if there are too many."""
    first = int(min(run.series.start for run in runs))
    last = int(max(run.series.start + len(run.series) for run in runs)) + steps
    if last - first > MOST_DATES:
        return None
    dates = dates_of(np.arange(first, last + 1.0), layout.units.get(layout.time_name, ""), layout.frequency)
    return None if dates is None else {"first": first, "dates": np.datetime_as_string(dates, unit="D").tolist()}


def time_unit(layout: Layout) -> tuple[str, float]:
    """The unit in which the page shows time and its length in the data's unit; seconds become hours or days."""
    unit = layout.time_unit
    if unit not in ("s", "sec", "second", "seconds"):
        return unit, 1.0
    for name, length in (("years", 31557600.0), ("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if layout.dt >= 0.04 * length:
            return name, length
    return unit, 1.0


def system_part(system: System, dt: float) -> dict[str, Any] | None:
    """The true equations over one step of data; None if the page cannot integrate them."""
    found = polynomial_field(system)
    if found is None:
        return None
    table, weights, offset = found
    flow = flow_part(table, weights * dt, offset * dt, max(1, round(dt / system.dt)))
    return {"name": system.name, "flow": flow}


def _network(surrogate: AnyStep, gain: dict[str, Any]) -> dict[str, Any] | None:
    networks = stacks(surrogate)
    if not networks:
        return None
    first = networks[0]
    if isinstance(first, LensStack):
        arrays = {**_lens_arrays(first), "gain": gain, **_linear("readout", first.readout)}
        return {"kind": "lens", "members": len(surrogate.members), **_optics(first.optics), "arrays": arrays}
    dense = [network for network in networks if isinstance(network, DenseStack)]
    return {
        "kind": "perceptron",
        "width": first.gains.shape[1],
        "depth": first.gains.shape[0],
        "keep": int(first.kept),
        "gain": gain,
        "members": [_dense(network) for network in dense],
    }


def _optics(optics: LensArrays) -> dict[str, Any]:
    depth, width, basis = optics.coefficients.shape
    others = {name: getattr(optics, name) for name in ("length", "scale", "double", "sigma")}
    return {"width": width, "depth": depth, "basis": basis, **others, "centers": list(optics.centers)}


def _lens_arrays(stack: LensStack) -> dict[str, Any]:
    """The arrays of a lens stack but for its readout."""
    arrays = {**_linear("position", stack.position), "coefficients": packed(stack.optics.coefficients)}
    return arrays if stack.angle is None else {**arrays, **_linear("angle", stack.angle)}


def _linear(name: str, layer: LinearLayer) -> dict[str, Any]:
    return {f"{name}_weight": packed(layer.weight), f"{name}_bias": packed(layer.bias)}


def _dense(stack: DenseStack) -> dict[str, Any]:
    weight = np.stack([layer.weight for layer in stack.layers])
    bias = np.stack([layer.bias for layer in stack.layers])
    if stack.norms is not None:  # in float64 a factor and a shift behind a layer are as good inside it
        factor, shift = stack.norms[:, 0], stack.norms[:, 1]
        weight, bias = factor[..., None] * weight, factor * bias + shift
    hidden = {"hidden_weight": packed(weight), "hidden_bias": packed(bias), "gain": packed(stack.gains)}
    return {**_linear("embed", stack.embedding), **hidden, **_linear("readout", stack.readout)}


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
        "members": [
            {"blocks": [{**_lens_arrays(block), **_linear("read", block.readout)} for block in network.blocks]}
            for network in networks
        ],
    }


def _series(run: Run, factor: float, groups: int, numbers: int, history: int) -> dict[str, Any]:
    one = run.series
    inputs, states = one.input_rows(0, len(one)), one.rows(0, len(one))
    first = max(run.begin - history + 1, 0)
    return {
        "name": one.name,
        "start": one.start / factor,
        "firstRow": run.first_row,
        "states": quantised(states, groups, numbers),
        "exact": packed(states[first : run.begin + 1]) if numbers > EXACT else None,
        "inputs": None if inputs is None else packed(inputs),
        "filled": [] if one.measured is None else np.flatnonzero(np.isnan(one.measured)).tolist(),
        "marks": [list(mark) for mark in run.marks],
        "begin": run.begin,
    }
