"""Exported models: a rollout from C and from ONNX, beside eager PyTorch."""

from __future__ import annotations

import ctypes
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.speed.contenders import BASIS, DEPTH, NaiveNetwork, lens, no_onnx
from benchmarks.speed.rows import Row, timed
from benchmarks.speed.setting import Setting
from benchmarks.speed.timing import Contender, Times, race
from lln.export.c.export import FAST, compile_c, compiler, export_c
from lln.step.frame import Frame
from lln.step.step import DenseStep

STATE, WIDTH, STEPS, SHORT = 32, 128, 500, 25
WHOLE = ("c float", "c double", "onnx rollout", "lens")

Array = NDArray[np.float64]


def exports(setting: Setting) -> list[Row]:
    """500 steps of one trajectory: linear part and network, as every export computes them.

    "eager" is the network written down layer by layer in torch, "surrogate" the model as it is used in Python, "onnx
    step" the exported step called in a Python loop, "onnx rollout" the exported loop, "lens" the network alone as one
    kernel.
    """
    if setting.device != "cpu":
        setting.skip("exports", "they are measured on the CPU")
        return []
    setting.say("exported rollouts")
    surrogate = contracting()
    network = surrogate.members[0]
    start = np.random.default_rng(0).standard_normal((1, 1, STATE))
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        contenders: dict[str, Contender] = {
            "eager": _steps(_eager(surrogate), start),
            "surrogate": lambda: surrogate.rollout(start, SHORT),
            "lens": lambda: network.rollout(torch.from_numpy(start[0]).float(), STEPS),  # type: ignore[operator]
        }
        contenders |= _compiled(setting, surrogate, start, place) | _graphs(setting, surrogate, start, place)
        times = race(contenders, seconds=setting.seconds, least=setting.least)
    scaled = {name: f"{SHORT} steps measured, times {STEPS // SHORT}" for name in times if name not in WHOLE}
    for name in scaled:
        times[name] = Times(tuple(t * (STEPS / SHORT) for t in times[name].seconds))
    notes = {**scaled, **{name: f"cc {' '.join(FAST)}" for name in times if name.startswith("c ")}}
    shape = {"B": 1, "h": WIDTH, "n": STATE, "D": DEPTH, "K": BASIS, "steps": STEPS}
    return timed("exported rollout", shape, times, notes)


def contracting() -> DenseStep:
    """A model of the paper's depth and width whose rollout neither dies nor diverges."""
    n = STATE
    turn = np.roll(np.eye(n), 1, axis=1) - np.eye(n)
    frame = Frame(
        np.zeros(n), np.ones(n), 1, np.zeros((0, n)), np.zeros(0), np.ones(0), 0.1 * turn, np.zeros(n), np.full(n, 0.05)
    )
    return DenseStep(frame, (lens(n, WIDTH),))


def _compiled(setting: Setting, surrogate: DenseStep, start: Array, place: Path) -> dict[str, Contender]:
    if compiler() is None:
        setting.skip("c float", "no C compiler is installed")
        return {}
    return {
        f"c {precision}": in_c(surrogate, start, place / precision, precision, STEPS)
        for precision in ("float", "double")
    }


def in_c(step: DenseStep, start: Array, place: Path, precision: str, steps: int) -> Contender:
    """A rollout of one start (1, 1, n) by the exported and compiled C."""
    export_c(step, place, precision, check=False)
    library = ctypes.CDLL(str(compile_c(place, "model", place / "model.so", shared=True)))
    states = np.empty((steps, start.shape[-1]))
    window = np.ascontiguousarray(start[0])
    model = (ctypes.c_double * (1 << 16))()  # more than the struct of this size needs
    begin, end = (array.ctypes.data_as(ctypes.c_void_p) for array in (window, states))

    def run() -> object:
        library.model_init(model, begin)
        library.model_rollout(model, ctypes.c_size_t(steps), None, end)
        return states

    return run


def _graphs(setting: Setting, surrogate: DenseStep, start: Array, place: Path) -> dict[str, Contender]:
    reason = no_onnx()
    if reason is not None:
        setting.skip("onnx step", reason)
        return {}
    from lln.export.onnx import export_onnx, session

    export_onnx(surrogate, place / "step.onnx")
    export_onnx(surrogate, place / "rollout.onnx", rollout=True)
    step, rollout = session(place / "step.onnx"), session(place / "rollout.onnx")
    feed = {"window": start, "steps": np.array(STEPS)}
    return {
        "onnx step": _steps(lambda state: step.run(None, {"window": state[:, None]})[0], start),
        "onnx rollout": lambda: rollout.run(None, feed),
    }


def _eager(surrogate: DenseStep) -> Callable[[Any], Any]:
    naive = NaiveNetwork(surrogate.members[0])  # type: ignore[arg-type]

    def step(state: Array) -> Array:
        with torch.no_grad():
            features = surrogate.features(torch.from_numpy(state[:, None]))
            change = surrogate.gain * naive(features.float()).double()
            after: Array = state + (surrogate.closed_form(features) + surrogate.scale * change).numpy()
        return after

    return step


def _steps(step: Callable[[Any], Any], start: Array) -> Contender:
    def run() -> object:
        state = start[:, -1]
        for _ in range(SHORT):
            state = step(state)
        return state

    return run
