"""Rollouts of fitted models, as `LensForecaster` runs them: dense states from one start and many, and a field."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from benchmarks.speed.export import in_c
from benchmarks.speed.rows import Row, timed
from benchmarks.speed.setting import Setting
from benchmarks.speed.timing import Contender, race
from lln.export.c.export import FAST, compiler
from lln.models import FieldLensNetwork, LensNetwork
from lln.models.convolution import sides
from lln.step.field import FieldStep
from lln.step.field_frame import FieldFrame
from lln.step.frame import Frame
from lln.step.step import DenseStep, roll

if TYPE_CHECKING:
    from lln import LensForecaster

STATE, MEMBERS, BASIS, STATES = 3, 3, 12, 2000
SIZES = ((64, 10), (64, 40), (128, 40))  # width and depth of a member
ONE, MANY = (1, 500), (256, 20)  # starts and steps
POINTS, FIELD_STARTS, FIELD_STEPS = 160, 30, 200


def product(setting: Setting) -> list[Row]:
    """One start and 256: "forecaster" is `LensForecaster.rollout`, "fused" that of its step, "loop" step by step."""
    if setting.device != "cpu":
        setting.skip("rollouts of dense models", "they are measured on the CPU")
        return _field(setting)
    rows: list[Row] = []
    for name, parts in () if setting.quick else (("default model", "auto"), ("lens model", ("linear", "lens"))):
        setting.say(f"fitting a {name} of Lorenz-28")
        forecaster = fitted(parts)
        for starts, steps in (ONE, MANY):
            rows += _race(setting, forecaster.surrogate_, starts, steps, {}, f"Lorenz-28, {name}", forecaster)
    for width, depth in SIZES[:1] if setting.quick else SIZES:
        step = model(width, depth)
        for starts, steps in (ONE, MANY):
            setting.say(f"rollout of a model, h={MEMBERS}x{width} D={depth}, {starts} starts")
            rows += _race(setting, step, starts, steps, {"h": MEMBERS * width, "D": depth})
    return rows if setting.quick else rows + _field(setting)


def fitted(parts: str | tuple[str, ...]) -> LensForecaster:
    """A forecaster that was fitted to Lorenz-28 with default options."""
    from lln import LensForecaster, preset, simulate

    states = simulate(preset("lorenz-28"), STATES, dtype="float64").states
    return LensForecaster(parts=parts).fit(states, dt=0.01)


def model(width: int, depth: int) -> DenseStep:
    """A slow rotation with a small correction: a rollout that neither dies nor diverges."""
    n = STATE
    turn = 0.05 * np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, -0.5]])
    empty = (np.zeros((0, n)), np.zeros(0), np.ones(0))
    frame = Frame(np.zeros(n), np.ones(n), 1, *empty, turn, np.zeros(n), np.full(n, 0.01))
    seeds = [torch.Generator().manual_seed(seed) for seed in range(MEMBERS)]
    return DenseStep(frame, [LensNetwork(n, n, width=width, depth=depth, basis=BASIS, generator=s) for s in seeds])


def _race(
    setting: Setting,
    step: DenseStep,
    starts: int,
    steps: int,
    sizes: dict[str, int],
    name: str = "model rollout",
    forecaster: LensForecaster | None = None,
) -> list[Row]:
    frame = step.frame
    spread = np.random.default_rng(0).standard_normal((starts, 1, STATE)).repeat(frame.history, axis=1)
    window = frame.mean + 0.5 * frame.scale * spread
    merged = step.merged_step()
    if step.program() is None:
        setting.skip("rollouts of a model", "no fused kernel serves here")
        return []
    notes = {}
    with ExitStack() as stack:
        contenders: dict[str, Contender] = {
            "loop": lambda: roll(merged, torch.from_numpy(window), steps).numpy(),
            "fused": lambda: step.rollout(window, steps),
        }
        if forecaster is not None:
            given = window if frame.history > 1 else window[:, 0]
            contenders["forecaster"] = lambda: forecaster.rollout(given[0] if starts == 1 else given, steps)
        if starts == 1 and compiler() is not None:
            place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            precision = "double" if name != "model rollout" else "float"
            contenders[f"c {precision}"] = in_c(step, window, place, precision, steps)
            notes[f"c {precision}"] = f"cc {' '.join(FAST)}"
        times = race(contenders, seconds=setting.seconds, least=setting.least)
    lenses = {"K": BASIS} if sizes else {}
    return timed(name, {"B": starts, "n": STATE, **sizes, **lenses, "steps": steps}, times, notes)


def _field(setting: Setting) -> list[Row]:
    """A field on a ring of points with two members, from many starts."""
    setting.say("rollout of a field")
    frame = field_frame()
    options = {"width": 48, "depth": 6, "kernel": 7, "blocks": 2, "hidden": 24}  # of a fit with default options
    seeds = [torch.Generator().manual_seed(seed) for seed in range(2)]
    networks = [FieldLensNetwork(1, 1, dimensions=1, generator=seed, **options) for seed in seeds]
    step = FieldStep(frame, [network.to(setting.device) for network in networks])
    window = np.random.default_rng(0).standard_normal((FIELD_STARTS, 1, POINTS))
    contenders: dict[str, Contender] = {"fused": lambda: step.rollout(window, FIELD_STEPS)}
    times = race(contenders, seconds=setting.seconds, device=setting.device, least=3)
    shape = {"B": FIELD_STARTS, "points": POINTS, "n": 1, "h": 48, "D": 6, "steps": FIELD_STEPS}
    return timed("field rollout", shape, times)


def field_frame() -> FieldFrame:
    """Slow diffusion on a ring, which networks correct a little."""
    return FieldFrame(
        (POINTS,), sides("periodic", 1), (3,), 1, np.zeros(1), np.ones(1), np.zeros((0, 1)), np.zeros(0), np.ones(0),
        np.array([[0.2, -0.4, 0.2]]), np.zeros(1), np.full(1, 0.01),
    )  # fmt: skip
