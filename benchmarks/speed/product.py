"""Rollouts of a whole model, as `LensForecaster` runs them: features, linear part, merged lens members, units."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import torch

from benchmarks.speed.export import in_c
from benchmarks.speed.rows import Row, timed
from benchmarks.speed.setting import Setting
from benchmarks.speed.timing import Contender, race
from lln.export.c.export import FAST, compiler
from lln.models import LensNetwork
from lln.ops import step_torch
from lln.step.dense import DenseStep
from lln.step.frame import Frame

STATE, MEMBERS, BASIS = 3, 3, 12
SIZES = ((64, 10), (64, 40), (128, 40))  # width and depth of a member
ONE, MANY = (1, 500), (256, 20)  # starts and steps


def product(setting: Setting) -> list[Row]:
    """One start and 256: "fused" is the rollout of a model, "loop" one step of the same at a time from Python."""
    if setting.device != "cpu":
        setting.skip("rollouts of a model", "they are measured on the CPU")
        return []
    rows: list[Row] = []
    for width, depth in SIZES[:1] if setting.quick else SIZES:
        step = model(width, depth)
        for starts, steps in (ONE, MANY):
            setting.say(f"rollout of a model, h={MEMBERS}x{width} D={depth}, {starts} starts")
            rows += _race(setting, step, starts, steps, {"h": MEMBERS * width, "D": depth})
    return rows


def model(width: int, depth: int) -> DenseStep:
    """A slow rotation with a small correction: a rollout that neither dies nor diverges."""
    n = STATE
    turn = 0.05 * np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, -0.5]])
    empty = (np.zeros((0, n)), np.zeros(0), np.ones(0))
    frame = Frame(np.zeros(n), np.ones(n), 1, *empty, turn, np.zeros(n), np.full(n, 0.01))
    seeds = [torch.Generator().manual_seed(seed) for seed in range(MEMBERS)]
    return DenseStep(frame, [LensNetwork(n, n, width=width, depth=depth, basis=BASIS, generator=s) for s in seeds])


def _race(setting: Setting, step: DenseStep, starts: int, steps: int, sizes: dict[str, int]) -> list[Row]:
    window = np.random.default_rng(0).standard_normal((starts, 1, STATE))
    program = step.program()
    if program is None:
        setting.skip("rollouts of a model", "no fused kernel serves here")
        return []
    notes = {}
    with ExitStack() as stack:
        contenders: dict[str, Contender] = {
            "loop": lambda: step_torch.roll(program, window, steps),
            "fused": lambda: step.rollout(window, steps),
        }
        if starts == 1 and compiler() is not None:
            place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            contenders["c float"] = in_c(step, window, place, "float", steps)
            notes["c float"] = f"cc {' '.join(FAST)}"
        times = race(contenders, seconds=setting.seconds, least=setting.least)
    return timed("model rollout", {"B": starts, "n": STATE, **sizes, "K": BASIS, "steps": steps}, times, notes)
