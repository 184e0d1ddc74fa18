"""Sizes that need no tuning: how wide, how deep, how long to train, from the shape of the data."""

from __future__ import annotations

from typing import Any

import numpy as np

from lln.fit.closed.linear import Mask, allowed_features
from lln.models.factory import options_of
from lln.train.ensemble import LocalityMask, Shape

DEPTH = 3
BASIS = 12
OPTICAL_LENGTH = 1.0
# The paper's comparators at their shallowest: 128 wide, two layers. A lens network is given a fifth of their
# parameters.
COMPARATOR_WIDTH = 128
COMPARATOR_DEPTH = 2
SHARE = 5
MOST_RAYS_PER_POINT = 4

UPDATES = 3000
SCREENING = 0.2
_LEAST_UPDATES = 600
_MANY_PAIRS = 20_000


def parameter_budget(features: int, outputs: int, pairs: int) -> int:
    """How many parameters one member may have; more where there is far more data."""
    h = COMPARATOR_WIDTH
    comparator = h * (features + 1) + COMPARATOR_DEPTH * h * (h + 1) + outputs * (h + 1)
    more = min(8.0, max(1.0, (pairs / _MANY_PAIRS) ** 0.5))
    return int(comparator / SHARE * more)


def dense_width(features: int, outputs: int, pairs: int, depth: int, basis: int) -> int:
    """Rays of a member that sees every feature."""
    budget = parameter_budget(features, outputs, pairs) - outputs
    return max(16, min(1024, budget // (2 * (features + 1) + outputs + depth * basis)))


def rays_per_point(near: int, outputs: int, features: int, pairs: int, depth: int, basis: int) -> int:
    """Rays at each point of a grid for a member whose rays see `near` features and reach one output."""
    budget = parameter_budget(features, outputs, pairs) - outputs
    return max(1, min(MOST_RAYS_PER_POINT, budget // (outputs * (2 * (near + 1) + 1 + depth * basis))))


def updates_for(pairs: int, batch: int, epochs: int | None) -> int:
    """Optimizer steps of a whole training: what `epochs` says, or enough for the data and no more than a minute's."""
    each = -(-pairs // batch)
    if epochs is not None:
        return max(1, epochs * each)
    # Few pairs are learned by heart soon; very many deserve a few passes, within bounds.
    return int(min(2 * UPDATES, max(_LEAST_UPDATES, min(UPDATES, 300 * each), each)))


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
        plain = {"width": COMPARATOR_WIDTH, "depth": COMPARATOR_DEPTH}
        wanted = {**plain, **{key: given[key] for key in plain if key in given}}
        known = options_of(model)
        return Shape(model, {key: value for key, value in wanted.items() if key in known}, n_in, n_out)
    options: dict[str, Any] = {"depth": DEPTH, "basis": BASIS, "optical_length": OPTICAL_LENGTH, **given}
    depth, basis = options["depth"], options["basis"]
    if near is None:
        options.setdefault("width", dense_width(n_in, n_out, pairs, depth, basis))
        return Shape(model, options, n_in, n_out)
    seen = allowed_features(near, history, n_in - n_out * history)
    most = int(seen.sum(axis=1).max())
    each = rays_per_point(most, n_out, n_in, pairs, depth, basis)
    if "width" in given:
        each = max(1, round(given["width"] / n_out))
    options["width"] = each * n_out
    own = np.repeat(np.eye(n_out, dtype=bool), each, axis=1)
    return Shape(model, options, n_in, n_out, LocalityMask(np.repeat(seen, each, axis=0), own))
