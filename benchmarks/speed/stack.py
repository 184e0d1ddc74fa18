"""The stack alone: forward, and forward with the gradients of every input."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from benchmarks.speed.bars import SIZES_B, SIZES_H
from benchmarks.speed.contenders import BASIS, DEPTH, batch, compiled, mlp, no_compiler
from benchmarks.speed.rows import Row, timed
from benchmarks.speed.setting import Setting
from benchmarks.speed.timing import Contender, race
from lln.ops import lens_transport, reference
from lln.ops.cpu import backend as cpu_backend
from tests.contracts.operator_cases import Case, make_case

GPU_SIZES = ((1024, 128), (8192, 128), (8192, 512))
MLP_STATE = 32  # the MLP beside a GPU's stack is a whole network of this many coordinates
Ends = tuple[Tensor, Tensor]
Call = Callable[[Tensor, Tensor, Tensor], Ends]


def stack(setting: Setting) -> list[Row]:
    """Naive, naive compiled, and our backends; on a GPU the plain MLP too."""
    rows: list[Row] = []
    for rows_, width in _sizes(setting):
        for quantity in ("stack forward", "stack gradients"):
            setting.say(f"{quantity}, B={rows_} h={width}")
            rows += _race(setting, quantity, rows_, width)
    return rows


def _sizes(setting: Setting) -> list[tuple[int, int]]:
    if setting.device == "cuda":
        return [GPU_SIZES[0]] if setting.quick else list(GPU_SIZES)
    if setting.quick:
        return [(1, 128), (64, 128)]
    return [(1, 128), *((b, h) for h in SIZES_H for b in SIZES_B)]


def _race(setting: Setting, quantity: str, rows: int, width: int) -> list[Row]:
    case = make_case(rows, width, DEPTH, BASIS, spread=1.0, strength=0.02, device=setting.device)
    gradients = quantity == "stack gradients"
    contenders = {name: _contender(case, call, gradients) for name, call in _calls(setting, case).items()}
    if setting.fused == "cpu" and cpu_backend.level() == "avx512" and width == 128 and rows > 1:
        contenders["cpu avx2"] = _narrow(contenders["cpu"])
    if setting.device == "cuda":
        contenders["mlp"] = _mlp(rows, width, gradients)
        contenders[f"{setting.fused} graph"] = _captured(contenders[setting.fused])
    times = race(contenders, seconds=setting.seconds, device=setting.device, least=setting.least)
    return timed(quantity, {"B": rows, "h": width, "D": DEPTH, "K": BASIS}, times)


def _calls(setting: Setting, case: Case) -> dict[str, Call]:
    points = torch.tensor(case.centers, device=setting.device)  # as a tensor, or the naive form converts it every layer
    optics = case.optics()

    def naive(y: Tensor, theta: Tensor, lenses: Tensor) -> Ends:
        return reference.lens_transport(y, theta, lenses, points, *optics[1:])

    def fused(backend: str) -> Call:
        return lambda y, theta, lenses: lens_transport(y, theta, lenses, *optics, backend=backend)

    calls: dict[str, Call] = {"naive": naive}
    calls[setting.fused] = fused(setting.fused)
    rows, width = case.y.shape
    if width == 128 and rows <= 1024:  # as slow as the naive form, so not at every size
        calls["eager"] = fused("eager")
    # Compiling takes a minute or more, so each device has it at one size.
    wanted = (rows, width) == ((256, 128) if setting.device == "cpu" else GPU_SIZES[-1])
    if wanted and not setting.quick:
        reason = no_compiler(setting.device)
        if reason is None:
            calls["naive compiled"] = compiled(naive)
        else:
            setting.skip("naive compiled", reason)
    return calls


def _contender(case: Case, call: Call, gradients: bool) -> Contender:
    leaves = [t.clone().requires_grad_(gradients) for t in (case.y, case.theta, case.coefficients)]
    y, theta, lenses = leaves

    def forward() -> object:
        with torch.no_grad():
            return call(y, theta, lenses)

    def both() -> object:
        return torch.autograd.grad(call(y, theta, lenses), leaves, (case.grad_y, case.grad_theta))

    return both if gradients else forward


def _narrow(call: Contender) -> Contender:
    def run() -> object:
        with cpu_backend.forced("avx2"):
            return call()

    return run


def _captured(call: Contender) -> Contender:
    """The same as one CUDA graph, as training runs it."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def _mlp(rows: int, width: int, gradients: bool) -> Contender:
    network, x = mlp(MLP_STATE, width, device="cuda"), batch(rows, MLP_STATE, device="cuda")
    parameters = list(network.parameters())

    def forward() -> object:
        with torch.no_grad():
            return network(x)

    def both() -> object:
        return torch.autograd.grad(network(x).square().mean(), parameters)

    return both if gradients else forward
