"""Who runs: the naive network, training steps, compiled forms, the MLP in ONNX Runtime."""

from __future__ import annotations

import logging
import os
import shutil
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lln.models import LensEnsemble, LensNetwork, PlainMLP
from lln.ops import reference

DEPTH, BASIS = 40, 12

Array = NDArray[np.float32]


class NaiveNetwork(nn.Module):
    """A lens network written down layer by layer, with its control points as a tensor: no checks, no tricks."""

    centers: Tensor

    def __init__(self, network: LensNetwork) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("centers", torch.tensor(network.centers))

    def forward(self, x: Tensor) -> Tensor:
        """(..., n_in) -> (..., n_out)."""
        net = self.network
        angle = net.embed_angle
        assert angle is not None  # every network here learns its angles
        rays = (net.embed_position(x), torch.tanh(angle(x)))
        y, _ = reference.lens_transport(*rays, net.coefficients, self.centers, net.sigma, net.length, net.lens_scale)
        out: Tensor = net.readout(y)
        return out


def lens(n: int, width: int, depth: int = DEPTH, *, seed: int = 0, device: str = "cpu", **more: Any) -> LensNetwork:
    """A lens network from n to n."""
    generator = torch.Generator().manual_seed(seed)
    network = LensNetwork(n, n, width=width, depth=depth, basis=BASIS, generator=generator, **more)
    return network.to(device)


def mlp(n: int, width: int, *, device: str = "cpu") -> PlainMLP:
    """The plain network of the same width and depth."""
    return PlainMLP(n, n, width=width, depth=DEPTH, generator=torch.Generator().manual_seed(0)).to(device)


def batch(*shape: int, device: str = "cpu") -> Tensor:
    """Random states, always the same."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1)).to(device)


class Trainer:
    """Training steps: forward, mean square error, backward, Adam.

    All contenders get torch's fused Adam, its fastest. The errors of an ensemble's members are added, so that every
    gradient is the member's own.

    Args:
        network: whose parameters are trained.
        call: what maps a batch to predictions: the network, or another form of it.
        x: the batch; the network learns to halve it.
        rate: of Adam; small, so that thousands of timed steps leave the rays where they are.
    """

    def __init__(self, network: nn.Module, call: Callable[[Tensor], Tensor], x: Tensor, rate: float = 1e-5) -> None:
        self.network, self.call, self.x, self.target = network, call, x, 0.5 * x
        self.members = len(network) if isinstance(network, LensEnsemble) else 1
        self.optimiser = torch.optim.Adam(network.parameters(), lr=rate, fused=True)

    def __call__(self) -> Tensor:
        """One step; the loss before it."""
        self.optimiser.zero_grad()
        loss = (self.call(self.x) - self.target).square().mean() * self.members
        loss.backward()
        self.optimiser.step()
        return loss.detach()

    def prepare(self) -> None:
        """Let the optimiser allocate its state, without a forward and without changing a parameter."""
        for parameter in self.network.parameters():
            parameter.grad = torch.zeros_like(parameter)
        self.optimiser.step()
        self.optimiser.zero_grad()


def no_compiler(device: str) -> str | None:
    """Why torch.compile cannot run here, or None."""
    if device == "cuda" or os.environ.get("CXX") or any(map(shutil.which, ("g++", "clang++", "c++"))):
        return None
    return "torch.compile needs a C++ compiler, and none is installed"


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """torch.compile for the very shapes that it meets; every call starts from an empty list of compiled forms."""
    torch._dynamo.reset()
    out: Callable[..., Any] = torch.compile(function, dynamic=False)
    return out


def no_onnx() -> str | None:
    """Why ONNX Runtime cannot run here, or None."""
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # must be set before the first import
    try:
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        return f"{error.name} is not installed (pip install 'lln[bench]')"
    return None


def in_onnx_runtime(network: nn.Module, x: Tensor) -> Callable[[Array], Array]:
    """`network` for inputs of the shape of x, exported and run by ONNX Runtime on one thread."""
    from lln.export.onnx import onnxruntime

    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with redirect_stdout(StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(network.eval(), (x,), dynamo=True, verbose=False)
    assert program is not None
    options = onnxruntime().SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    content = program.model_proto.SerializeToString()
    session = onnxruntime().InferenceSession(content, options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name

    def call(values: Array) -> Array:
        out: Array = session.run(None, {name: values})[0]
        return out

    return call
