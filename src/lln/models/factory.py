"""Networks by name, for fits, studies, files and the command line; several of one shape as one module.

A network from another package is registered in a running program or by an entry point in the group "lln.models":

    NETWORKS.register("ridgelet", RidgeletNetwork)

The class must

- subclass `lln.models.StateNetwork`, which names its attributes and methods;
- be built as ``kind(n_in, n_out, *, generator=None, **options)`` and draw all initial values from `generator`;
- map (..., n_in) to (..., n_out), each row on its own in evaluation mode;
- end in a linear layer called `readout`;
- return from `config()` the plain values that rebuild it, `n_in` and `n_out` included.

tests/contracts/test_networks.py holds every registered network to this. An ensemble of any such network is trained in
one pass: the lens network and the comparators have forms of their own; `GenericEnsemble` serves every other network.
Comparators keep their weights transposed, (S, in, out), the order in which a batched product reads them fastest.
"""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lln.core.errors import InputError, check_int, check_memory, choice, did_you_mean
from lln.core.registry import Registry
from lln.models.base import NetworkEnsemble, StateNetwork
from lln.models.comparators import LayerScaleMLP, PlainMLP, ResidualBatchNormMLP, ResidualMLP, ScaledResidualMLP
from lln.models.field import FieldLensNetwork
from lln.models.lens import LensNetwork
from lln.ops import Networks, Scaling, rollout

COMPARATORS: dict[str, type[StateNetwork]] = {
    "mlp": PlainMLP,
    "residual": ResidualMLP,
    "scaled-residual": ScaledResidualMLP,
    "residual-batchnorm": ResidualBatchNormMLP,
    "layerscale": LayerScaleMLP,
}
MODELS: dict[str, type[StateNetwork]] = {"lens": LensNetwork, **COMPARATORS}
FIELD_MODELS: dict[str, type[StateNetwork]] = {"field": FieldLensNetwork}
NETWORKS: Registry[type[StateNetwork]] = Registry("network", "lln.models", {**MODELS, **FIELD_MODELS})


def build(name: str, n_in: int, n_out: int, **options: Any) -> StateNetwork:
    """The network called `name`, with its own options.

    >>> build("mlp", 3, 3, width=8, depth=2).depth
    2
    """
    known = options_of(name)
    for option in options:
        if option not in known:
            raise InputError(
                f"model {name!r} has no option {option!r}{did_you_mean(option, known)}", topic="unknown-name"
            )
    if "optical_length" in known and "horizon" in options:  # the name in files and studies up to format 1
        options["optical_length"] = options.pop("horizon")
    _check_size(name, options)
    return NETWORKS.get(name)(n_in, n_out, **options)


def _check_size(name: str, options: Mapping[str, Any]) -> None:
    """Refuse sizes whose weights, gradients and two moments of Adam do not fit into memory."""
    width, depth = options.get("width"), options.get("depth", 1)
    if isinstance(width, int) and isinstance(depth, int):
        inner = options.get("basis", 1) if name not in COMPARATORS else width
        what = f"a network {name!r} of width {width:,} and depth {depth:,}"
        check_memory(what, (width, depth, inner), size=4, copies=4, remedy="choose smaller sizes")


def options_of(name: str) -> list[str]:
    """The options that the constructor of a network takes beside its sizes n_in and n_out."""
    parameters = inspect.signature(NETWORKS.get(choice("model", name, NETWORKS.names()))).parameters.values()
    return [one.name for one in parameters if one.kind is one.KEYWORD_ONLY]


def state_networks() -> list[str]:
    """Names of the networks that map one state to another, those of other packages included; fields have their own."""
    return [name for name in NETWORKS.names() if name not in FIELD_MODELS]


def name_of(model: StateNetwork) -> str:
    """The name under which `build` knows the class of the model."""
    for name in NETWORKS.names():
        if type(model) is NETWORKS.get(name):
            return name
    raise InputError(
        f"{type(model).__name__} is not a registered network; known are {', '.join(NETWORKS.names())}. Register it "
        "with lln.models.NETWORKS.register"
    )


Module = TypeVar("Module", bound=nn.Module)

_FIELDS = (
    *("position_weight", "position_bias", "angle_weight", "angle_bias"),
    *("coefficients", "readout_weight", "readout_bias"),
)


class LensEnsemble(NetworkEnsemble):
    """S lens networks, which go through in one call."""

    def __init__(self, members: Sequence[LensNetwork]) -> None:
        super().__init__(members)
        self.backend = members[0].backend
        networks = [member.stacked() for member in members]
        self._optics = (networks[0].centers, networks[0].sigma, networks[0].length, networks[0].scale)

        for field in _FIELDS:
            parts = [getattr(network, field) for network in networks]
            stacked = None if parts[0] is None else nn.Parameter(torch.cat(parts).detach().clone())
            self.register_parameter(field, stacked)

    def stacked(self) -> Networks:
        """The parameters, for the operators."""
        fields: dict[str, Any] = {field: getattr(self, field) for field in _FIELDS}
        centers, sigma, length, scale = self._optics
        return Networks(centers=centers, sigma=sigma, length=length, scale=scale, backend=self.backend, **fields)

    def forward(self, x: Tensor) -> Tensor:
        """(S, ..., n_in) -> (S, ..., n_out): member s sees x[s]."""
        self._check(x)
        rows = self.stacked()(x.reshape(self.size, -1, self.n_in))
        return rows.reshape(*x.shape[:-1], self.n_out)

    def last_states(self, x: Tensor) -> Tensor:
        """The input of every member's readout: (S, B, n_in) -> (S, B, h)."""
        return self.stacked().positions(x)

    def rollout(self, x0: Tensor, steps: int, *, increments: bool = False, scaling: Scaling | None = None) -> Tensor:
        """Every member's states after its own starts: (S, ..., n) -> (S, ..., steps, n). See `LensNetwork.rollout`."""
        self._check(x0)
        starts = x0.reshape(self.size, -1, self.n_in)
        states = rollout(self.stacked(), starts, check_int("steps", steps, 0), increments=increments, scaling=scaling)
        return states.movedim(1, -2).reshape(*x0.shape[:-1], steps, self.n_in)

    def member(self, index: int) -> LensNetwork:
        """A copy of one member as a network of its own."""
        self._check_index(index)
        parts = self.stacked()
        network = LensNetwork(**self._config).to(parts.coefficients)
        network.backend = self.backend
        with torch.no_grad():
            target = network.stacked()
            for field in _FIELDS:
                if (source := getattr(parts, field)) is not None:
                    getattr(target, field).copy_(source[index : index + 1])
        return network


class ComparatorEnsemble(NetworkEnsemble):
    """S comparators, of which every layer is one batched product."""

    def __init__(self, members: Sequence[PlainMLP]) -> None:
        super().__init__(members)
        self.depth = members[0].depth
        self.embedding = _StackedLinear([member.embedding for member in members])
        self.hidden = nn.ModuleList(_StackedLinear(layers) for layers in _columns(members, "hidden"))
        self.readout = _StackedLinear([member.readout for member in members])
        self.gamma: nn.ParameterList | None = None
        self.norms: nn.ModuleList | None = None
        if issubclass(self.kind, LayerScaleMLP):
            scales = [torch.stack(list(layer)).detach().unsqueeze(1) for layer in _columns(members, "gamma")]
            self.gamma = nn.ParameterList(nn.Parameter(scale) for scale in scales)
        if issubclass(self.kind, ResidualBatchNormMLP):
            self.norms = nn.ModuleList(_StackedBatchNorm(norms) for norms in _columns(members, "norms"))

    def forward(self, x: Tensor) -> Tensor:
        """(S, ..., n_in) -> (S, ..., n_out): member s sees x[s]."""
        self._check(x)
        out: Tensor = self.readout(self.last_states(x.reshape(self.size, -1, self.n_in)))
        return out.reshape(*x.shape[:-1], self.n_out)

    def last_states(self, x: Tensor) -> Tensor:
        """The input of every member's readout: (S, B, n_in) -> (S, B, h)."""
        z = torch.relu(self.embedding(x))
        for index in range(self.depth):
            z = self._layer(index, z)
        return z

    def _layer(self, index: int, z: Tensor) -> Tensor:
        inner = self.hidden[index](z)
        if self.norms is not None:
            inner = self.norms[index](inner)
        branch = torch.relu(inner)
        if self.gamma is not None:
            return torch.addcmul(z, self.gamma[index], branch)
        if self.kind is ScaledResidualMLP:
            return torch.add(z, branch, alpha=1.0 / math.sqrt(self.depth))
        return z + branch if issubclass(self.kind, ResidualMLP) else branch

    def member(self, index: int) -> PlainMLP:
        """A copy of one member as a network of its own."""
        self._check_index(index)
        network: Any = self.kind(**self._config).to(self.readout.weight)
        with torch.no_grad():
            self.embedding.write(network.embedding, index)
            self.readout.write(network.readout, index)
            layers: Any = self.hidden
            for layer, target in zip(layers, network.hidden, strict=True):
                layer.write(target, index)
            if self.gamma is not None:
                network.gamma.copy_(torch.stack([gamma[index, 0] for gamma in self.gamma]))
            norms: Any = self.norms or ()
            for norm, target in zip(norms, getattr(network, "norms", ()), strict=True):
                norm.write(target, index)
        return cast("PlainMLP", network)


class _StackedLinear(nn.Module):
    """S linear layers: weight (S, in, out), bias (S, 1, out)."""

    def __init__(self, layers: Sequence[nn.Linear]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.stack([layer.weight.detach().T for layer in layers]).contiguous())
        self.bias = nn.Parameter(torch.stack([layer.bias.detach() for layer in layers]).unsqueeze(1))

    def forward(self, z: Tensor) -> Tensor:
        """(S, B, in) -> (S, B, out)."""
        return torch.baddbmm(self.bias, z, self.weight)

    def write(self, layer: nn.Linear, index: int) -> None:
        """Copy member `index` into `layer`."""
        layer.weight.copy_(self.weight[index].T)
        layer.bias.copy_(self.bias[index, 0])


class _StackedBatchNorm(nn.Module):
    """S batch normalisations of h coordinates, as one of S h coordinates."""

    NAMES = ("weight", "bias", "running_mean", "running_var")

    def __init__(self, norms: Sequence[nn.BatchNorm1d]) -> None:
        super().__init__()
        self.momentum, self.eps = float(norms[0].momentum or 0.0), norms[0].eps
        for name in self.NAMES[:2]:
            self.register_parameter(name, nn.Parameter(torch.stack([getattr(norm, name).detach() for norm in norms])))
        for name in self.NAMES[2:]:
            self.register_buffer(name, torch.stack([getattr(norm, name) for norm in norms]))

    def forward(self, z: Tensor) -> Tensor:
        """(S, B, h) -> (S, B, h), each member and coordinate over its own B."""
        members, rows, width = z.shape
        flat = z.transpose(0, 1).reshape(rows, members * width)
        weight, bias, mean, variance = (getattr(self, name).view(-1) for name in self.NAMES)
        flat = F.batch_norm(flat, mean, variance, weight, bias, self.training, self.momentum, self.eps)
        return flat.view(rows, members, width).transpose(0, 1)

    def write(self, norm: nn.BatchNorm1d, index: int) -> None:
        """Copy member `index` into `norm`."""
        for name in self.NAMES:
            getattr(norm, name).copy_(getattr(self, name)[index])


def _columns(members: Sequence[Any], name: str) -> Iterator[Any]:
    """For each layer, the part called `name` of every member."""
    return zip(*(getattr(member, name) for member in members), strict=True)


def with_values(module: Module, values: Mapping[str, Tensor], *, requires_grad: bool = True) -> Module:
    """A copy of `module` whose parameters and buffers are `values`, which may be of another shape."""
    whole = copy.deepcopy(module)
    for path, part in whole.named_modules():
        prefix = f"{path}." if path else ""
        for held in (part._parameters, part._buffers):
            for name, tensor in held.items():
                value = values.get(prefix + name)
                if value is not None:
                    is_parameter = isinstance(tensor, nn.Parameter)
                    held[name] = nn.Parameter(value, requires_grad=requires_grad) if is_parameter else value
    return whole


class GenericEnsemble(NetworkEnsemble):
    """S networks of any registered class, called through `torch.func.vmap`."""

    def __init__(self, members: Sequence[StateNetwork]) -> None:
        super().__init__(members)
        states = [member.state_dict() for member in members]
        values = {name: torch.stack([state[name].detach() for state in states]) for name in states[0]}
        self.stacked: Any = with_values(members[0], values)
        # The module whose code runs; its own values are never used, so that it is kept out of the parameters.
        self._code = [copy.deepcopy(members[0]).to("meta")]

    def forward(self, x: Tensor) -> Tensor:
        """(S, ..., n_in) -> (S, ..., n_out): member s sees x[s]."""
        self._check(x)
        return self._each(x, read=False)

    def last_states(self, x: Tensor) -> Tensor:
        """The input of every member's readout: (S, ..., n_in) -> (S, ..., h)."""
        return self._each(x, read=True)

    def _each(self, x: Tensor, *, read: bool) -> Tensor:
        code = self._code[0].train(self.training)

        def call(state: dict[str, Tensor], rows: Tensor) -> Tensor:
            seen: list[Tensor] = []
            hook = code.readout.register_forward_pre_hook(lambda _, given: seen.append(given[0])) if read else None
            try:
                out: Tensor = torch.func.functional_call(code, state, (rows,))
            finally:
                if hook is not None:
                    hook.remove()
            return seen[0] if read else out

        state = {**dict(self.stacked.named_parameters()), **dict(self.stacked.named_buffers())}
        found: Tensor = torch.func.vmap(call, randomness="different")(state, x)
        return found

    @property
    def readout(self) -> nn.Linear:
        """The stacked readout: weight (S, n, h), bias (S, n)."""
        layer: nn.Linear = self.stacked.readout
        return layer

    def member(self, index: int) -> StateNetwork:
        """A copy of one member as a network of its own."""
        self._check_index(index)
        weight = self.readout.weight
        network = self.kind(**self._config, generator=torch.Generator()).to(weight.device, weight.dtype)
        network.load_state_dict({name: tensor[index] for name, tensor in self.stacked.state_dict().items()})
        return network


Ensemble = LensEnsemble | ComparatorEnsemble | GenericEnsemble


def stack(members: Sequence[StateNetwork]) -> Ensemble:
    """The ensemble of `members`, which must be of one class and one configuration."""
    kind = type(members[0]) if members else None
    if kind is LensNetwork:
        return LensEnsemble(cast("Sequence[LensNetwork]", members))
    if kind in _STACKED:
        return ComparatorEnsemble(cast("Sequence[PlainMLP]", members))
    return GenericEnsemble(members)


_STACKED = (PlainMLP, ResidualMLP, ScaledResidualMLP, ResidualBatchNormMLP, LayerScaleMLP)
