"""The shape of the networks of an ensemble, from the data: sizes and, on a grid, what each ray sees."""

from __future__ import annotations

from typing import Any

import numpy as np

from lln.fit import sizes
from lln.fit.linear import Mask, allowed_features
from lln.models.factory import options_of
from lln.train.ensemble import Shape
from lln.train.locality import LocalityMask


def shape_of(
    model: str,
    given: dict[str, Any],
    n_in: int,
    n_out: int,
    pairs: int,
    near: Mask | None,
    history: int,
) -> Shape:
    """The networks for this many features, coordinates and pairs.

    Args:
        model: name of the network.
        given: sizes that the user has chosen.
        n_in: number of features F.
        n_out: number of coordinates n.
        pairs: number of pairs that train.
        near: which coordinates are neighbours, (n, n); None without a grid.
        history: number of states H in a window.
    """
    if model != "lens":
        plain = {"width": sizes.COMPARATOR_WIDTH, "depth": sizes.COMPARATOR_DEPTH}
        wanted = {**plain, **{key: given[key] for key in plain if key in given}}
        known = options_of(model)
        return Shape(model, {key: value for key, value in wanted.items() if key in known}, n_in, n_out)
    options: dict[str, Any] = {"depth": sizes.DEPTH, "basis": sizes.BASIS, "horizon": sizes.HORIZON, **given}
    depth, basis = options["depth"], options["basis"]
    if near is None:
        options.setdefault("width", sizes.dense_width(n_in, n_out, pairs, depth, basis))
        return Shape(model, options, n_in, n_out)
    seen = allowed_features(near, history, n_in - n_out * history)
    most = int(seen.sum(axis=1).max())
    each = sizes.rays_per_point(most, n_out, n_in, pairs, depth, basis)
    if "width" in given:
        each = max(1, round(given["width"] / n_out))
    options["width"] = each * n_out
    own = np.repeat(np.eye(n_out, dtype=bool), each, axis=1)
    return Shape(model, options, n_in, n_out, LocalityMask(np.repeat(seen, each, axis=0), own))
