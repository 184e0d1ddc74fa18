"""Surrogates to export: every option of the forecaster, on data of the presets, trained without an iteration."""

from dataclasses import replace
from functools import lru_cache

import numpy as np
import torch

from lln.data.trajectory import simulated
from lln.export.parts import Probe
from lln.models import COMPARATORS, LensNetwork, build
from lln.step.frame import Flow, Frame, Polynomial, monomial_table
from lln.step.step import DenseStep
from lln.systems.presets import preset

STARTS = (2500, 2600, 2700, 2800)


@lru_cache
def states_of(system):
    return simulated(preset(system), 3500, dtype="float64").states[500:]


def frame_of(states, history=1, inputs=None, linear=True, ridge=1e-9):
    mean, scale = states.mean(0), states.std(0) + 1e-12
    z = (states - mean) / scale
    change = np.diff(z, axis=0)
    n, m = states.shape[1], 0 if inputs is None else inputs.shape[1]
    difference = np.stack([change.std(0) + 1e-12] * (history - 1)) if history > 1 else np.zeros((0, n))
    blank = Frame(
        mean, scale, history, difference,
        np.zeros(0) if inputs is None else inputs.mean(0), np.zeros(0) if inputs is None else inputs.std(0),
        np.zeros((n, n * history + m)), np.zeros(n), np.ones(n),
    )  # fmt: skip
    windows = np.lib.stride_tricks.sliding_window_view(states, history, axis=0).swapaxes(1, 2)[:-1]
    now = None if inputs is None else inputs[history - 1 : -1]
    features, target = blank.feature_rows(windows, now), change[history - 1 :]
    matrix, offset = np.zeros((n, features.shape[1])), np.zeros(n)
    if linear:
        design = np.concatenate([features, np.ones((len(features), 1))], axis=1)
        gram = design.T @ design + ridge * len(design) * np.eye(design.shape[1])
        solution = np.linalg.solve(gram, design.T @ target).T
        matrix, offset = solution[:, :-1], solution[:, -1]
    left = target - features @ matrix.T - offset
    gain = left.std(0) + 1e-12
    frame = Frame(mean, scale, history, difference, blank.input_mean, blank.input_scale, matrix, offset, gain)
    return frame, features, left / gain


def trained(network, features, target, share=1.0):
    """Lenses as drawn, but stronger, and the readout by least squares: a network that bends rays and fits the data."""
    with torch.no_grad():
        if isinstance(network, LensNetwork):
            network.coefficients.mul_(8.0)
        network.eval()
        rows = torch.from_numpy(features).to(network.readout.weight.dtype)
        last = network.states(rows)[-1]
        hidden = (last.y if isinstance(network, LensNetwork) else last).double()
        design = torch.cat([hidden, torch.ones(len(hidden), 1)], dim=1)
        ridge = 1e-3 if rows.dtype == torch.float32 else 1e-9  # float64 affords weights that cancel
        gram = design.T @ design + ridge * len(design) * torch.eye(design.shape[1])
        solution = torch.linalg.solve(gram, design.T @ torch.from_numpy(target)) * share
        network.readout.weight.copy_(solution[:-1].T)
        network.readout.bias.copy_(solution[-1])
    return network


def with_polynomial(frame, features, target, flow):
    """The frame with the squares and products of up to three coordinates, fitted, and what they leave over."""
    table = monomial_table(range(min(frame.size, 3)), 2)
    values = Polynomial(table, np.zeros((frame.size, len(table)))).monomials(features)
    gram = values.T @ values + 1e-6 * len(values) * np.eye(len(table))
    solution = np.linalg.solve(gram, values.T @ (target * frame.gain)).T
    left = target * frame.gain - values @ solution.T
    gain = left.std(0) + 1e-12
    part = Polynomial(table, solution)
    parts = {"flow": Flow(part, np.zeros(frame.size), 2)} if flow else {"polynomial": part}
    return replace(frame, gain=gain, **parts), left / gain


TAMED = {  # steps that would grow without bound: next states of 64 coordinates through fewer rays; free polynomials
    ("springchain-32", "paper"): {"width": 96},
    ("lorenz-28", "polynomial, history"): {"bounds": True},
    ("lorenz-28", "flow, inputs"): {"bounds": True},
}


def surrogate_of(
    system="burgers-32",
    *,
    history=1,
    inputs=False,
    linear=True,
    network=True,
    paper=False,
    members=1,
    model="lens",
    share=1.0,
    double=False,
    polynomial=False,
    flow=False,
    bounds=False,
    **options,
):
    states = states_of(system)
    given = None
    if inputs:
        turns = np.arange(len(states))[:, None] / np.array([90.0, 37.0])
        given = np.sin(turns) + np.array([0.5, -1.0])
    frame, features, target = frame_of(states, history, given, linear and not paper)
    if paper:
        n = frame.size
        matrix = np.zeros_like(frame.matrix)
        matrix[:, :n] = -np.eye(n)
        target = features[:, :n] + target * frame.gain
        frame = Frame(frame.mean, frame.scale, history, frame.difference_scale, frame.input_mean, frame.input_scale,
                      matrix, np.zeros(n), np.ones(n))  # fmt: skip
    frame.gain[:] *= share
    if polynomial or flow:
        frame, target = with_polynomial(frame, features, target, flow)
    if bounds:
        frame = replace(frame, low=frame.mean - 1.5 * frame.scale, high=frame.mean + 1.2 * frame.scale)
    if not network:
        return DenseStep(frame)
    sizes = {"width": 24, "depth": 6, **({"basis": 8} if model == "lens" else {}), **options}
    nets = tuple(
        trained(
            build(model, frame.features, frame.size, generator=torch.Generator().manual_seed(seed), **sizes).to(
                torch.float64 if double else torch.float32
            ),
            features,
            target,
        )
        for seed in range(members)
    )
    return DenseStep(frame, nets)


def probe_of(system, surrogate, steps):
    """Starts on the trajectory of the system, and inputs like those of training."""
    states, history = states_of(system), surrogate.frame.history
    window = np.stack([states[first - history + 1 : first + 1] for first in STARTS])
    known = None
    if surrogate.frame.inputs:
        turns = (np.array(STARTS)[:, None, None] + np.arange(steps)[:, None]) / np.array([90.0, 37.0])
        known = np.sin(turns) + np.array([0.5, -1.0])
    return Probe(window, known, steps)


def bar(difference, surrogate):
    """Twice PyTorch's float32, or what float64 sums in another order may differ by where there is no float32 at all.

    States lie within five standard deviations, so a feature rounds by five eps. Without a network that is all:
    then a difference of two states rounds as they do, over its scale, and later steps carry each rounding on.
    """
    frame = surrogate.frame
    rounds, carried = np.full(frame.features, 5.0), difference.steps
    if not difference.torch:
        rounds[frame.size : frame.size * frame.history] += 10.0 / frame.difference_scale.ravel()
        carried = carry(frame, difference.steps)
    rounding = np.finfo(float).eps * (1.0 + (np.abs(frame.matrix) @ rounds).max())
    return 2.0 * difference.torch + rounding * carried


def carry(frame, steps):
    """How much one unit of rounding in every step of a linear frame can add up to, in units of one step's."""
    n, past = frame.size, frame.history
    one = np.eye(n * past, k=-n)
    one[:n, :n] += np.eye(n) + frame.matrix[:, :n]
    for j in range(1, past):
        part = frame.matrix[:, j * n : (j + 1) * n] / frame.difference_scale[j - 1]
        one[:n, (j - 1) * n : j * n] += part
        one[:n, j * n : (j + 1) * n] -= part
    total, now = 0.0, np.eye(n * past)[:, :n]
    for _ in range(steps):
        total += np.abs(now[:n]).sum(axis=1).max()
        now = one @ now
    return total


SYSTEMS = {
    "burgers-32": 500,
    "advecdiff-32": 500,
    "reactiondiff-32": 500,
    "springchain-32": 500,
    "lorenz-28": 100,
}

OPTIONS = {
    "history": {"history": 3},
    "inputs": {"inputs": True},
    "inputs and history": {"inputs": True, "history": 2},
    "no linear part": {"linear": False},
    "no network": {"network": False},
    "paper": {"paper": True},
    "half a share": {"share": 0.5},
    "three members": {"members": 3},
    "zero angle": {"initial_angle": "zero"},
    "one layer": {"depth": 1},
    "lenses off": {"lens_scale": 0.0},
    "weak lenses": {"lens_scale": 0.075, "horizon": 2.0},
    "one control point": {"basis": 1},
    "many control points": {"basis": 40, "sigma": 0.1},
    "hair-thin lenses": {"sigma": 1e-9},
    "float64": {"double": True, "width": 60, "depth": 2},
    "float64, inputs and history": {"double": True, "width": 60, "depth": 2, "inputs": True, "history": 3},
    "polynomial, history": {"polynomial": True, "history": 2},
    "flow, inputs": {"flow": True, "inputs": True},
    "bounds": {"bounds": True},
    "odd sizes": {"width": 7, "depth": 3, "basis": 5, "members": 2},
    **{model: {"model": model, "members": 2} for model in COMPARATORS},
}
