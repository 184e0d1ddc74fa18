"""Whole networks: forward, training step, rollout, and ten seeds at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.speed.contenders import (
    BASIS,
    DEPTH,
    NaiveNetwork,
    Trainer,
    batch,
    compiled,
    in_onnx_runtime,
    lens,
    mlp,
    no_compiler,
    no_onnx,
)
from benchmarks.speed.rows import Row, timed
from benchmarks.speed.setting import Setting
from benchmarks.speed.timing import Contender, Times, race
from lln.models import LensEnsemble

STATE, WIDTH = 32, 128
STEPS, SHORT = 500, 25
SEEDS = 10


def forward(setting: Setting) -> list[Row]:
    """One prediction or a batch of them, without gradients."""
    rows: list[Row] = []
    for size in _batches(setting, 1, 256):
        setting.say(f"forward of whole networks, B={size}")
        x = batch(size, STATE, device=setting.device)
        plain = mlp(STATE, WIDTH, device=setting.device)
        network = lens(STATE, WIDTH, device=setting.device)
        naive = NaiveNetwork(network).to(setting.device)
        calls: dict[str, Callable[[Tensor], Tensor]] = {"naive": naive, "lens": network, "mlp": plain}
        if _compiles(setting):
            calls["mlp compiled"] = compiled(plain)
        contenders = {name: _no_grad(call, x) for name, call in calls.items()}
        if _exports(setting):
            contenders["mlp onnx"] = _on_array(in_onnx_runtime(plain, x), x)
        rows += timed("network forward", _shape(B=size), _race(setting, contenders))
    return rows


def training(setting: Setting) -> list[Row]:
    """Forward, mean square error, backward and an Adam step."""
    rows: list[Row] = []
    for size in _batches(setting, 64, 256, 1024):
        setting.say(f"training step, B={size}")
        x = batch(size, STATE, device=setting.device)
        network, twin, plain = (
            lens(STATE, WIDTH, device=setting.device),
            lens(STATE, WIDTH, device=setting.device),
            mlp(STATE, WIDTH, device=setting.device),
        )
        contenders: dict[str, Contender] = {
            "naive": Trainer(twin, NaiveNetwork(twin).to(setting.device), x),
            "lens": Trainer(network, network, x),
            "mlp": Trainer(plain, plain, x),
        }
        if _compiles(setting):
            other = mlp(STATE, WIDTH, device=setting.device)
            contenders["mlp compiled"] = Trainer(other, compiled(other), x)
        rows += timed("training step", _shape(B=size), _race(setting, contenders))
    return rows


def rollouts(setting: Setting) -> list[Row]:
    """500 steps from one start, every output the next input."""
    rows: list[Row] = []
    for width, size in ((64, 3),) if setting.quick else ((64, 3), (WIDTH, STATE), (512, STATE)):
        setting.say(f"rollout, h={width} n={size}")
        network, plain = lens(size, width, device=setting.device), mlp(size, width, device=setting.device)
        x = batch(1, size, device=setting.device)
        contenders: dict[str, Contender] = {
            "lens": lambda network=network, x=x: network.rollout(x, STEPS),  # type: ignore[misc]
            "naive": _loop(NaiveNetwork(network).to(setting.device), x),
            "mlp": _loop(plain, x),
        }
        if _exports(setting):
            contenders["mlp onnx"] = _array_loop(in_onnx_runtime(plain, x), x)
        scaled = {name: f"{SHORT} steps measured, times {STEPS // SHORT}" for name in contenders if name != "lens"}
        times = _race(setting, contenders)
        for name in scaled:
            times[name] = Times(tuple(t * (STEPS / SHORT) for t in times[name].seconds))
        shape = {"h": width, "n": size, "D": DEPTH, "K": BASIS, "steps": STEPS}
        rows += timed("rollout", shape, times, scaled)
    return rows


def ensembles(setting: Setting) -> list[Row]:
    """Training steps of ten seeds as one ensemble, and one after another."""
    rows: list[Row] = []
    for size in _batches(setting, 16, 64):
        setting.say(f"ten seeds at once, B={size}")
        x = batch(SEEDS, size, STATE, device=setting.device)
        members = [lens(STATE, WIDTH, seed=seed, device=setting.device) for seed in range(SEEDS)]
        ensemble = LensEnsemble(members)
        steps = [Trainer(member, member, x[s]) for s, member in enumerate(members)]
        contenders: dict[str, Contender] = {
            "together": Trainer(ensemble, ensemble, x),
            "in sequence": _all(steps),
        }
        rows += timed("ten seeds", {"S": SEEDS} | _shape(B=size), _race(setting, contenders))
    return rows


def _batches(setting: Setting, *sizes: int) -> tuple[int, ...]:
    if setting.quick:
        return sizes[:1]
    return sizes if setting.device == "cpu" else tuple(size * 8 for size in sizes)


def _shape(B: int) -> dict[str, int]:
    return {"B": B, "h": WIDTH, "n": STATE, "D": DEPTH, "K": BASIS}


def _race(setting: Setting, contenders: dict[str, Contender]) -> dict[str, Times]:
    return race(contenders, seconds=setting.seconds, device=setting.device, least=setting.least)


def _compiles(setting: Setting) -> bool:
    reason = "left out by --quick" if setting.quick else no_compiler(setting.device)
    if setting.device == "cuda":
        reason = "it is measured on the CPU"
    if reason is not None:
        setting.skip("mlp compiled", reason)
    return reason is None


def _exports(setting: Setting) -> bool:
    reason = "left out by --quick" if setting.quick else no_onnx()
    if setting.device == "cuda":
        reason = "it is measured on the CPU"
    if reason is not None:
        setting.skip("mlp onnx", reason)
    return reason is None


def _no_grad(call: Callable[[Tensor], Tensor], x: Tensor) -> Contender:
    def run() -> object:
        with torch.no_grad():
            return call(x)

    return run


def _loop(network: nn.Module, start: Tensor) -> Contender:
    def run() -> object:
        x = start
        with torch.no_grad():
            for _ in range(SHORT):
                x = network(x)
        return x

    return run


def _on_array(call: Callable[[Any], Any], x: Tensor) -> Contender:
    values = x.numpy()
    return lambda: call(values)


def _array_loop(call: Callable[[Any], Any], start: Tensor) -> Contender:
    def run() -> object:
        x = start.numpy()
        for _ in range(SHORT):
            x = call(x)
        return x

    return run


def _all(steps: list[Trainer]) -> Contender:
    def run() -> object:
        for step in steps:
            step()
        return None

    return run
