"""Field models to export: every boundary, dimension and option, contracting, so that rollouts of any length stay."""

import math
from dataclasses import replace

import numpy as np
import torch

from lln.export.parts import Probe
from lln.models.convolution import sides
from lln.models.field import FieldLensNetwork
from lln.step.field import FieldStep
from lln.step.field_frame import FieldFrame
from lln.step.frame import Polynomial, monomial_table

STEPS = 100

FIELDS = {
    "periodic line": {},
    "walls": {"boundary": [("dirichlet", "neumann")]},
    "replicated ends": {"boundary": "replicate", "kernel": 4},
    "two channels and history": {"channels": 2, "history": 3},
    "inputs": {"inputs": 2},
    "fixed field": {"static": 2},
    "mean kept": {"conserve": "mean"},
    "flux": {"conserve": "flux", "channels": 2},
    "flux between walls": {"conserve": "flux", "boundary": "neumann"},
    "plane": {"space": (6, 7), "boundary": ["periodic", ("dirichlet", "replicate")], "kernel": (3, 5)},
    "plane, flux": {"space": (6, 5), "conserve": "flux", "boundary": ["periodic", "neumann"], "kernel": 3},
    "walls all around": {"space": (6, 7), "boundary": "dirichlet", "kernel": 3, "channels": 2},
    "room": {"space": (4, 5, 4), "kernel": 3},
    "one block": {"blocks": 1, "initial_angle": "zero"},
    "three blocks, two members": {"blocks": 3, "members": 2},
    "no linear part": {"linear": False},
    "no network": {"members": 0},
    "neither": {"members": 0, "linear": False, "inputs": 1, "history": 2},
    "one layer": {"depth": 1},
    "polynomial": {"polynomial": 3, "members": 0, "channels": 2},
    "polynomial, history, inputs, mean kept": {"polynomial": 2, "history": 2, "inputs": 1, "conserve": "mean"},
    "polynomial on a plane": {"polynomial": 5, "space": (6, 7), "boundary": "dirichlet", "members": 0},
    "bounds": {"bounds": 0.4, "channels": 2},
    "narrow lenses": {"sigma": 0.1, "basis": 30},
}


def field_of(
    space=(16,), channels=1, history=1, inputs=0, static=0, boundary="periodic", kernel=5, conserve="none", members=1,
    linear=True, polynomial=0, bounds=0.0, **options,
):  # fmt: skip
    source = np.random.default_rng(3)
    pairs, points = sides(boundary, len(space)), 3 ** len(space)
    seen = channels * history + inputs
    matrix = np.zeros((channels, points, seen))
    for c in range(channels):  # a little diffusion, and a leak
        matrix[c, :, c], matrix[c, points // 2, c] = 0.3 / points, -0.4
    matrix[:, :, channels:] = 0.01 * source.standard_normal((channels, points, seen - channels))
    frame = FieldFrame(
        space=tuple(space), boundary=pairs, kernel=(3,) * len(space), history=history,
        channel_mean=source.normal(size=channels), channel_scale=1.0 + source.random(channels),
        difference_scale=1.0 + source.random((history - 1, channels)), input_mean=source.normal(size=inputs),
        input_scale=1.0 + source.random(inputs), matrix=matrix.reshape(channels, -1) * linear,
        offset=0.01 * source.normal(size=channels), gain=np.full(channels, 0.05), conserve=conserve,
        static=source.normal(size=(*space, static)) if static else None,
    )  # fmt: skip
    if polynomial:
        table = monomial_table(range(seen), polynomial)
        weights = 0.02 ** (polynomial / 2) * source.normal(size=(channels, len(table)))
        frame = replace(frame, polynomial=Polynomial(table, weights))
    if bounds:
        low, high = (frame.channel_mean + sign * bounds * frame.channel_scale for sign in (-1.0, 0.7))
        frame = replace(frame, low=low, high=high)
    sizes = {"width": 6, "depth": 3, "basis": 6, "hidden": 4, **options}
    networks = []
    for seed in range(members):
        generator = torch.Generator().manual_seed(seed)
        networks.append(
            FieldLensNetwork(
                frame.features,
                frame.outputs,
                dimensions=len(space),
                kernel=kernel,
                boundary=pairs,
                static=static,
                generator=generator,
                **sizes,
            )
        )
        with torch.no_grad():
            for block in networks[-1].blocks:
                block.coefficients.mul_(8.0)
    return FieldStep(frame, tuple(networks))


def field_probe(surrogate, steps=STEPS):
    frame, source = surrogate.frame, np.random.default_rng(4)
    window = frame.mean + frame.scale * source.standard_normal((3, frame.history, frame.size))
    inputs = frame.input_mean + source.standard_normal((3, steps, frame.inputs)) if frame.inputs else None
    return Probe(window, inputs, steps)


def field_bar(difference, surrogate):
    """Twice PyTorch's float32, and float64's own rounding of sums as long as a patch."""
    terms = surrogate.frame.matrix.shape[1] + math.prod(surrogate.frame.space)
    return 2.0 * difference.torch + difference.steps * np.finfo(float).eps * terms
