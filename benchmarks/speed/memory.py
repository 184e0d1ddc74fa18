"""Memory against depth, training at D = 10,000, and what the first call costs: each in a fresh process."""

from __future__ import annotations

import tempfile
from typing import Any

from benchmarks.speed.contenders import BASIS, DEPTH
from benchmarks.speed.probe import ask, memory_is_readable
from benchmarks.speed.rows import Row, single
from benchmarks.speed.setting import Setting
from benchmarks.speed.sweeps import slope

ROWS, WIDTH = 64, 64
DEPTHS = (10, 100, 1000, 4000, 10_000)
NAIVE_DEPTHS = DEPTHS[:4]  # the naive form at D = 10,000 needs 8 GiB
DEEP_STEPS = 5


def memory(setting: Setting) -> list[Row]:
    """Peak memory of one training step beyond parameters, gradients and optimiser state."""
    if not memory_is_readable(setting.device):
        setting.skip("memory", "this system does not tell a process its peak memory")
        return []
    rows: list[Row] = []
    for contender, depths in (("lens", DEPTHS), ("naive", NAIVE_DEPTHS)):
        found: dict[int, float] = {}
        for depth in depths[:1] if setting.quick else depths:
            setting.say(f"memory of {contender}, D={depth}")
            found[depth] = _probe(setting, depth, contender == "naive", 1)["mib"]
            rows.append(single("extra memory", contender, _shape(depth), "MiB", [found[depth]]))
        if not setting.quick:
            deep = {depth: mib for depth, mib in found.items() if depth >= 1000}
            note = "fitted over D >= 1000"
            rows.append(single("memory against D", contender, {"B": ROWS, "h": WIDTH}, "slope", [slope(deep)], note))
    return rows if setting.quick else rows + _deep(setting)


def first_call(setting: Setting) -> list[Row]:
    """The first forward and backward in a process, with nothing and with everything in the cache of kernels."""
    shape = {"B": 64, "h": 128, "D": DEPTH, "K": BASIS}
    with tempfile.TemporaryDirectory() as folder:
        cache = {"XDG_CACHE_HOME": folder, "TRITON_CACHE_DIR": folder}
        setting.say("first call, cold cache")
        cold = [ask("first-call", cache, device=setting.device)["seconds"]]
        setting.say("first call, warm cache")
        again = 1 if setting.quick else 3
        warm = [ask("first-call", cache, device=setting.device)["seconds"] for _ in range(again)]
    return [
        single("first call", "cold cache", shape, "s", cold),
        single("first call", "warm cache", shape, "s", warm),
    ]


def _deep(setting: Setting) -> list[Row]:
    depth, threads = DEPTHS[-1], 2
    setting.say(f"training at D={depth}")
    answer = _probe(setting, depth, False, DEEP_STEPS, threads)
    losses = answer["losses"]
    note = f"{DEEP_STEPS} Adam steps, {threads} threads, loss {losses[0]:.3g} to {losses[-1]:.3g}"
    return [
        single("deep training", "lens", _shape(depth), "MiB", [answer["mib"]], note),
        single("deep training loss", "lens", _shape(depth), "ratio", [losses[-1] / losses[0]], note),
    ]


def _probe(setting: Setting, depth: int, naive: bool, steps: int, threads: int = 1) -> dict[str, Any]:
    options: dict[str, Any] = {
        "depth": depth,
        "width": WIDTH,
        "rows": ROWS,
        "naive": naive,
        "steps": steps,
        "threads": threads,
    }
    return ask("training-memory", device=setting.device, **options)


def _shape(depth: int) -> dict[str, int]:
    return {"B": ROWS, "h": WIDTH, "D": depth, "K": BASIS}
