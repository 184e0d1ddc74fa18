"""How well the lenses cover what goes through them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from lln.core.errors import InputError
from lln.models import FieldLensNetwork, LensNetwork
from lln.models.base import StateNetwork
from lln.step.frame import Array

_ROWS = 4096
_NUMBERS = 4_000_000


@dataclass(frozen=True, eq=False)
class Coverage:
    """Where hidden positions lie among the control points: outside of them a ray feels no lens.

    Attributes:
        outside: fraction of all hidden positions beyond the first or the last control point.
        by_layer: the same for each layer, (D,); of a field network for each layer of each block.
        low: the smallest hidden position met.
        high: the largest.
    """

    outside: float
    by_layer: Array
    low: float
    high: float

    def __str__(self) -> str:
        return f"{1 - self.outside:.1%} of hidden positions between the control points"


def coverage(networks: Sequence[StateNetwork], features: Array, static: Array | None = None) -> Coverage:
    """Coverage of lens networks on rows of features.

    Args:
        networks: lens networks of one shape, or field networks.
        features: (rows, F), or (rows, *space, F) for field networks; rows that are not finite are left out, and of very
            many an even selection is taken.
        static: the fixed field that field networks also see, (*space, s).
    """
    kinds = (LensNetwork, FieldLensNetwork)
    lenses = [network for network in networks if isinstance(network, kinds)]
    if not lenses or len(lenses) < len(networks):
        raise InputError("coverage is defined for lens networks only; this model has none")
    rows = features[np.isfinite(features).all(axis=tuple(range(1, features.ndim)))]
    if not len(rows):
        raise InputError("coverage needs at least one finite state")
    points = math.prod(rows.shape[1:-1])
    rows = rows[np.linspace(0, len(rows) - 1, min(len(rows), max(8, _ROWS // points))).round().astype(int)]
    chunk = max(1, _NUMBERS // (points * lenses[0].width * (lenses[0].depth + 1)))
    counts, extent = [], [np.inf, -np.inf]
    for lens in lenses:
        low, high = lens.config()["control_range"]
        for first in range(0, len(rows), chunk):
            y = _positions(lens, rows[first : first + chunk], static)
            # Not inside, rather than beyond: a position that overflowed is between no two points.
            counts.append((~((y >= low) & (y <= high))).sum(axis=(1, 2)))
            extent = [min(extent[0], float(y.min())), max(extent[1], float(y.max()))]
    share = np.sum(counts, axis=0) / (len(rows) * points * sum(lens.width for lens in lenses))
    return Coverage(float(share.mean()), share, extent[0], extent[1])


def _positions(lens: LensNetwork | FieldLensNetwork, rows: Array, static: Array | None) -> Array:
    """The positions at which each layer's lens was asked, (layers, rows, h); a field's points are rows too."""
    weight = lens.readout.weight
    with torch.no_grad():
        given = torch.from_numpy(rows).to(weight.device, weight.dtype)
        if isinstance(lens, LensNetwork):
            rays = lens.states(given)[1:]
        else:
            fixed = None if static is None else torch.from_numpy(static).to(weight.device, weight.dtype)
            rays = [ray for block in lens.states(given, static=fixed) for ray in block[1:]]
        return np.asarray(torch.stack([ray.y.reshape(-1, lens.width) for ray in rays]).double().cpu().numpy())
