"""Small steps of every kind, whose rollouts stay bounded."""

from dataclasses import replace

import numpy as np
import torch
from exported_fields import field_of

from lln.models import LensNetwork, build
from lln.step.frame import Flow, Frame, Functions, Logarithm, Polynomial, monomial_table
from lln.step.step import DenseStep

N = 3


def frame_of_parts(
    history=1, inputs=0, *, linear=True, polynomial=False, flow=False, functions=(), bounds=False, gain=0.1
):
    """A frame that pulls towards its mean, with the named parts; `functions` are kinds of those of the flow."""
    source = np.random.default_rng(7)
    features = N * history + inputs
    matrix = 0.02 * source.standard_normal((N, features))
    matrix[:, :N] -= 0.3 * np.eye(N)
    matrix[:, N * (history - 1) : N * history] += 0.2 * np.eye(N)  # so that the oldest state can be found again
    parts = {}
    if polynomial:
        table = monomial_table(range(features), 2)[:-1]
        parts["polynomial"] = Polynomial(table, 0.01 * source.standard_normal((N, len(table))))
    if flow:
        table = monomial_table(range(N + inputs), 3)
        weights = 0.01 * source.standard_normal((N, len(table)))
        weights[:, :N] -= 0.3 * np.eye(N)
        parts["flow"] = Flow(Polynomial(table, weights), 0.01 * source.standard_normal(N), 2)
        parts["flow"] = with_functions(parts["flow"], N + inputs, functions) if functions else parts["flow"]
    mean, scale = source.standard_normal(N), source.uniform(0.5, 2.0, N)
    if bounds:
        parts |= {"low": mean - 0.3 * scale, "high": mean + 0.2 * scale}
    return Frame(
        mean, scale, history, source.uniform(0.5, 1.0, (history - 1, N)), source.standard_normal(inputs),
        source.uniform(0.5, 2.0, inputs), matrix * linear, 0.05 * source.standard_normal(N), np.full(N, gain), **parts,
    )  # fmt: skip


def with_functions(flow, variables, kinds):
    """The flow with a function of these kinds of each variable, and with its product with the first variable."""
    source, count = np.random.default_rng(8), variables * len(kinds)
    table = np.stack([np.arange(count) % variables, np.repeat(kinds, variables)], axis=1)
    arguments = np.stack([source.uniform(0.5, 2.0, count), source.uniform(-1.0, 1.0, count)], axis=1)
    arguments[table[:, 1] == 5] = 0.1, 3.0  # reciprocals far from their poles
    behind = variables + np.arange(count)
    rows = [flow.polynomial.table, [(-1, k) for k in behind], [(0, k) for k in behind]]
    weights = 0.1 * source.standard_normal((len(flow.offset), 2 * count)) / count
    more = Polynomial(np.concatenate(rows), np.concatenate([flow.polynomial.weights, weights], axis=1))
    return replace(flow, polynomial=more, functions=Functions(table, arguments))


def solved(frame, width=60, seed=0):
    """A float64 lens network whose readout is solved, so that its large weights cancel."""
    source = np.random.default_rng(seed)
    sizes = {"width": width, "depth": 2, "basis": 8, "generator": torch.Generator().manual_seed(seed)}
    network = LensNetwork(frame.features, N, **sizes).double()
    rows = torch.from_numpy(source.standard_normal((4 * width, frame.features)))
    with torch.no_grad():
        network.coefficients.mul_(50.0)
        y = network.states(rows)[-1].y
        design = torch.cat([y, torch.ones(len(y), 1, dtype=torch.float64)], dim=1)
        target = torch.sin(rows[:, :N] + rows.mean(dim=1, keepdim=True))
        gram = design.T @ design + 1e-12 * len(y) * torch.eye(width + 1, dtype=torch.float64)
        solution = torch.linalg.solve(gram, design.T @ target)
        network.readout.weight.copy_(solution[:-1].T)
        network.readout.bias.copy_(solution[-1])
    return network


def networks(frame, count=2, model="lens", **options):
    """Networks in float32, as drawn."""
    sizes = {"width": 6, "depth": 2, **options}
    return [
        build(model, frame.features, N, generator=torch.Generator().manual_seed(k), **sizes).eval()
        for k in range(count)
    ]


def _dense(members=None, **options):
    frame = frame_of_parts(**options)
    return DenseStep(frame, () if members is None else members(frame))


BOTH = {"history": 3, "inputs": 2}


def in_logarithms(step):
    """The same step of the logarithms of states, which stay within a factor of two or so."""
    frame = step.frame
    narrow, mean = 0.3 * frame.scale, np.exp(frame.mean)
    bounds = {
        name: np.exp(0.3 * getattr(frame, name) + 0.7 * frame.mean) for name in ("low", "high") if frame.low is not None
    }
    units = Logarithm(frame.mean, narrow, 0.1 * mean)
    return step.replace(replace(frame, mean=mean, scale=mean * narrow, logarithm=units, **bounds))


STEPS = {
    "linear": _dense,
    "linear, history and inputs": lambda: _dense(**BOTH),
    "polynomial": lambda: _dense(polynomial=True),
    "polynomial, history and inputs": lambda: _dense(polynomial=True, **BOTH),
    "flow": lambda: _dense(flow=True, linear=False),
    "flow, history and inputs": lambda: _dense(flow=True, **BOTH),
    "flow with sines": lambda: _dense(flow=True, functions=[1], linear=False),
    "flow with Gaussians": lambda: _dense(flow=True, functions=[0], linear=False),
    "flow with kinks, steps and exponentials": lambda: _dense(flow=True, functions=[2, 3, 4], linear=False),
    "flow with reciprocals and saturations": lambda: _dense(flow=True, functions=[5, 6], linear=False),
    "flow with every function, history and inputs": lambda: _dense(flow=True, functions=range(7), **BOTH),
    "bounds": lambda: _dense(bounds=True),
    "float64 lens": lambda: _dense(lambda frame: [solved(frame)]),
    "float64 lens, history and inputs": lambda: _dense(lambda frame: [solved(frame, seed=k) for k in range(2)], **BOTH),
    "float32 lens": lambda: _dense(networks),
    "comparator": lambda: _dense(lambda frame: networks(frame, model="mlp"), history=2),
    "everything": lambda: _dense(
        lambda frame: [solved(frame)], polynomial=True, flow=True, bounds=True, linear=True, **BOTH
    ),
    "logarithms": lambda: in_logarithms(_dense()),
    "everything, in logarithms": lambda: in_logarithms(STEPS["everything"]()),
    "field": field_of,
    "field, history and inputs": lambda: field_of(channels=2, history=2, inputs=1),
    "field without networks": lambda: field_of(members=0, conserve="mean"),
    "field, float64 lenses": lambda: field_of(members=2, blocks=1, conserve="mean").to_dtype(torch.float64),
    "field with bounds": lambda: field_of(members=0, channels=2, bounds=0.3),
    "field with a polynomial": lambda: field_of(channels=2, history=2, inputs=1, polynomial=3),
}


def start_of(step, count=3, steps=20, seed=1):
    """Windows (count, H, n) near the mean, and inputs (count, steps, m) or None."""
    frame, source = step.frame, np.random.default_rng(seed)
    window = frame.mean + 0.5 * frame.scale * source.standard_normal((count, frame.history, frame.size))
    inputs = frame.input_mean + frame.input_scale * source.standard_normal((count, steps, frame.inputs))
    return window, inputs if frame.inputs else None
