"""One state's rays on their way through a surrogate's lenses, as arrays for a drawing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from lln.core.errors import InputError
from lln.models import LensNetwork, Rays
from lln.models.field import FieldBlock, FieldLensNetwork
from lln.ops.reference import lens_field
from lln.step.frame import Array
from lln.step.step import AnyStep
from lln.view.drawing import Bench

SAMPLES = 241


def bench_of(surrogate: AnyStep, window: Array, member: int = 0) -> Bench:
    """The optical bench that the states of `window` (H, n), oldest first, meet; inputs are at their training mean.

    Of a field model the first block is taken, at the middle of the grid.
    """
    frame = surrogate.frame
    features = torch.from_numpy(frame.feature_rows(np.asarray(window, dtype=np.float64), frame.input_mean))
    double = surrogate.to_dtype(torch.float64)
    network = double.members[member] if double.members else None
    with torch.no_grad():
        if isinstance(network, FieldLensNetwork):
            block = network.blocks[0]
            assert isinstance(block, FieldBlock)
            static = None if double.frame.static is None else torch.from_numpy(double.frame.static)
            middle = tuple(points // 2 for points in double.frame.space)
            rays = [Rays(ray.y[middle], ray.theta[middle]) for ray in network.states(features, static=static)[0]]
            outputs = len(network.between[0].bias) if len(network.between) else network.n_out  # type: ignore[arg-type]
            return _bench(rays, block, block.embed_position.in_features, outputs)
        if isinstance(network, LensNetwork):
            return _bench(network.states(features), network, network.n_in, network.n_out)
    raise InputError("this model has no lens network to draw; its step is another kind of model")


def _bench(rays: Sequence[Rays], optics: LensNetwork | FieldBlock, n_in: int, n_out: int) -> Bench:
    """Rays and lenses as arrays; lenses are sampled a spacing beyond their control points."""
    centers, (_, width, basis) = optics.centers, optics.coefficients.shape
    beyond = (centers[-1] - centers[0]) / max(basis - 1, 1) or 3.0
    at = torch.linspace(centers[0] - beyond, centers[-1] + beyond, SAMPLES, dtype=torch.float64)
    sampled = at.unsqueeze(1).expand(-1, width)
    fields = [lens_field(sampled, layer, centers, optics.sigma).T for layer in optics.coefficients]
    profiles: Array = optics.lens_scale * torch.stack(fields).numpy()
    return Bench(
        positions=torch.stack([ray.y for ray in rays]).numpy(),
        angles=torch.stack([ray.theta for ray in rays]).numpy(),
        strength=np.sqrt((profiles**2).mean(axis=(1, 2))),
        profile_at=at.numpy(),
        profiles=profiles,
        length=optics.length,
        basis=basis,
        n_in=n_in,
        n_out=n_out,
    )
