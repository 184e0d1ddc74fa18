"""The networks of an ensemble before training: their sizes, their seeds and, on a grid, where each ray looks."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lln.core.seeding import subseed
from lln.fit import sizes
from lln.fit.linear import Mask, allowed_features
from lln.fit.readout import Ensemble
from lln.models import LensNetwork, build
from lln.models.base import StateNetwork
from lln.models.ensemble import LensEnsemble
from lln.models.stacked import stack


@dataclass(frozen=True, eq=False)
class Sight:
    """What the rays of a lens network on a grid may see and reach: rays never mix, so a local ray stays local.

    Attributes:
        embedding: which features each ray sees, (h, F).
        readout: which rays each output uses, (n, h).
    """

    embedding: Mask
    readout: Mask

    @property
    def entries(self) -> int:
        """Weights that are not zero for good, of both embeddings and the readout."""
        return int(2 * self.embedding.sum() + self.readout.sum())


@dataclass(frozen=True, eq=False)
class Shape:
    """The networks of one candidate.

    Attributes:
        model: its name.
        options: of its constructor.
        n_in: number of features F.
        n_out: number of coordinates n.
        sight: where its rays look; None for everywhere.
    """

    model: str
    options: dict[str, Any]
    n_in: int
    n_out: int
    sight: Sight | None = None

    def parameters(self, network: StateNetwork) -> int:
        """Numbers that training may choose in one member."""
        count = sum(parameter.numel() for parameter in network.parameters())
        if self.sight is None:
            return count
        return count - 2 * self.sight.embedding.size - self.sight.readout.size + self.sight.entries


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
        n_in: F.
        n_out: n.
        pairs: that train.
        near: which coordinates are neighbours, (n, n); None without a grid.
        history: H.
    """
    if model != "lens":
        plain = {"width": sizes.COMPARATOR_WIDTH, "depth": sizes.COMPARATOR_DEPTH}
        return Shape(model, {**plain, **{key: given[key] for key in plain if key in given}}, n_in, n_out)
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
    return Shape(model, options, n_in, n_out, Sight(np.repeat(seen, each, axis=0), own))


def make_ensemble(shape: Shape, seeds: Sequence[int], device: str) -> Ensemble:
    """The untrained members, one for each seed, stacked."""
    networks = []
    for seed in seeds:
        generator = torch.Generator().manual_seed(subseed(seed, "network"))
        network = build(shape.model, shape.n_in, shape.n_out, generator=generator, **shape.options)
        if shape.sight is not None and isinstance(network, LensNetwork):
            _look(network, shape.sight)
        networks.append(network)
    return stack(networks).to(device)


def side_by_side(model: Ensemble, states: Sequence[dict[str, Tensor]]) -> Ensemble:
    """One ensemble out of several states of another: the members of the first state, then those of the next."""
    whole = copy.deepcopy(model)
    for path, module in whole.named_modules():
        prefix = f"{path}." if path else ""
        for kept in (module._parameters, module._buffers):
            for name, tensor in kept.items():
                if tensor is not None:
                    joined = torch.cat([state[prefix + name] for state in states])
                    is_parameter = isinstance(tensor, nn.Parameter)
                    kept[name] = nn.Parameter(joined, requires_grad=False) if is_parameter else joined
    whole.size = model.size * len(states)
    return whole.eval()


def _look(network: LensNetwork, sight: Sight) -> None:
    """Blind each ray to what it may not see, and scale what is left to the spread it would have had."""
    seen, used = torch.from_numpy(sight.embedding), torch.from_numpy(sight.readout)
    louder = (seen.shape[1] / seen.sum(dim=1, keepdim=True)).sqrt().float()
    stronger = (used.shape[1] / used.sum(dim=1, keepdim=True)).sqrt().float()
    with torch.no_grad():
        for layer in (network.embed_position, network.embed_angle):
            if layer is not None:
                layer.weight.mul_(seen * louder)
                layer.bias.mul_(louder[:, 0])
        network.readout.weight.mul_(used * stronger)


class Blinkers:
    """Keeps local rays local: gradients of what they may not see are zeroed, and Adam leaves zeros alone.

    Args:
        model: the ensemble.
        sight: None does nothing.
    """

    def __init__(self, model: Ensemble, sight: Sight | None) -> None:
        self._pairs: list[tuple[Tensor, Tensor]] = []
        self.readout: Tensor | None = None
        if sight is None or not isinstance(model, LensEnsemble):
            return
        parts = model.stacked()
        device = parts.position_weight.device
        seen = torch.from_numpy(sight.embedding).to(device, torch.float32)
        self.readout = torch.from_numpy(sight.readout).to(device)
        self._pairs = [(parts.position_weight, seen), (parts.readout_weight, self.readout.float())]
        if parts.angle_weight is not None:
            self._pairs.append((parts.angle_weight, seen))

    def __call__(self) -> None:
        """After every backward pass."""
        for parameter, mask in self._pairs:
            if parameter.grad is not None:
                parameter.grad.mul_(mask)
