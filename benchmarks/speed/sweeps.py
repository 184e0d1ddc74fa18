"""Time against every size, with fitted slopes, and the operator's error against float64."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from benchmarks.speed.contenders import BASIS, DEPTH
from benchmarks.speed.rows import Row, single, timed
from benchmarks.speed.setting import Setting
from benchmarks.speed.timing import Contender, race
from lln.ops import lens_transport
from tests.contracts.operator_cases import make_case, relative_errors, run

# Each size in turn, the others as in `_BASE`; large enough that the cost of a call has vanished.
_BASE = {"cpu": {"B": 256, "h": 128, "D": DEPTH, "K": BASIS}, "cuda": {"B": 8192, "h": 256, "D": DEPTH, "K": BASIS}}
_SWEEPS = {
    "D": (10, 40, 160, 640),
    "B": (64, 256, 1024, 4096),
    "h": (32, 128, 512, 2048),
    "K": (4, 8, 12, 16),
}


def sweeps(setting: Setting) -> list[Row]:
    """Forward and gradients of the fused stack against D, B, h and K."""
    rows: list[Row] = []
    for letter, values in list(_SWEEPS.items())[: 1 if setting.quick else None]:
        setting.say(f"time against {letter}")
        factor = _BASE[setting.device][letter] // _BASE["cpu"][letter]
        sizes = [value * factor for value in (values[:2] if setting.quick else values)]
        shapes = {size: {**_BASE[setting.device], letter: size} for size in sizes}
        contenders = {str(size): _both(setting, shape) for size, shape in shapes.items()}
        times = race(contenders, seconds=setting.seconds, device=setting.device, least=setting.least)
        for size, shape in shapes.items():
            rows += timed(f"time against {letter}", shape, {setting.fused: times[str(size)]})
        fitted = slope({size: times[str(size)].minimum for size in sizes})
        others = {key: value for key, value in _BASE[setting.device].items() if key != letter}
        note = f"log-log fit over {letter} = {', '.join(map(str, sizes))}"
        rows.append(single(f"slope against {letter}", setting.fused, others, "slope", [fitted], note))
    return rows


def errors(setting: Setting) -> list[Row]:
    """The largest relative error of an output or gradient against float64; r = 1."""
    setting.say("relative error")
    rows: list[Row] = []
    for size in (1, 64, 256):
        case = make_case(size, 128, DEPTH, BASIS, spread=1.0, strength=0.02, device=setting.device)
        shape = {"B": size, "h": 128, "D": DEPTH, "K": BASIS}
        for contender, backend in (("naive", "reference"), (setting.fused, setting.fused), ("eager", "eager")):
            found = relative_errors(case, run(case, backend=backend))
            worst = max(found, key=lambda name: found[name])
            rows.append(single("relative error", contender, shape, "relative error", [found[worst]], f"of {worst}"))
    return rows


def slope(values: Mapping[int, float]) -> float:
    """The least-squares slope of log value against log size."""
    x = [math.log(size) for size in values]
    y = [math.log(value) for value in values.values()]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    over = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    return over / sum((a - mean_x) ** 2 for a in x)


def _both(setting: Setting, shape: Mapping[str, int]) -> Contender:
    # Strength falls with depth, so that the rays of a deep stack stay among its lenses.
    rows, width, depth, basis = (shape[key] for key in ("B", "h", "D", "K"))
    case = make_case(rows, width, depth, basis, spread=1.0, strength=0.8 / depth, device=setting.device)
    leaves = [t.requires_grad_() for t in (case.y, case.theta, case.coefficients)]

    def call() -> object:
        ends = lens_transport(leaves[0], leaves[1], leaves[2], *case.optics(), backend=setting.fused)
        return torch.autograd.grad(ends, leaves, (case.grad_y, case.grad_theta))

    return call
