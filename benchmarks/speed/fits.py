"""Fits of a forecaster with default options: seconds and peak memory, each in a fresh process."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.speed.probe import ask, memory_is_readable
from benchmarks.speed.rows import Row, single
from benchmarks.speed.setting import Setting

Array = NDArray[np.float64]

# Name, rows and coordinates.
CASES = (
    ("clean chaos", 512, 3),
    ("README example", 3501, 3),
    ("hourly series", 7000, 1),
    ("ten coordinates", 90_000, 10),
    ("one long series", 900_000, 1),
)


def fits(setting: Setting) -> list[Row]:
    """`LensForecaster().fit` on one thread, from the call to the fitted model; imports are paid before."""
    if setting.device != "cpu":
        setting.skip("fits", "they are measured on the CPU")
        return []
    rows: list[Row] = []
    for name, count, size in CASES[:1] if setting.quick else CASES:
        setting.say(f"fit, {name}")
        answer = ask("fit", {"OMP_NUM_THREADS": "1"}, name=name, rows=count, size=size)
        shape, note = {"rows": count, "n": size}, f"{name}: {answer['part']}, held-out error {answer['error']:.2g}"
        rows.append(single("fit", "seconds", shape, "s", [answer["seconds"]], note))
        if memory_is_readable("cpu"):
            rows.append(single("fit", "memory beyond the data", shape, "MiB", [answer["mib"]], note))
    return rows


def fit_data(name: str, rows: int, size: int) -> Any:
    """What a case fits: trajectories (rows, size) and the time step."""
    from lln import preset, simulate

    rng = np.random.default_rng(0)
    time = np.arange(rows)
    if size == 3:
        return simulate(preset("lorenz-28"), rows - 1, dtype="float64").states, 0.01
    if name == "hourly series":
        day, week = np.sin(2 * np.pi * time / 24), np.sin(2 * np.pi * time / 168)
        return (10 + 3 * day + week + 0.1 * day * week + 0.3 * rng.normal(size=rows))[:, None], 1.0
    if size == 10:
        phases = 2 * np.pi * np.outer(time, np.linspace(0.001, 0.01, size))
        return np.sin(phases) + 0.3 * np.sin(phases * np.sqrt(2.0)) + 0.01 * rng.normal(size=(rows, size)), 1.0
    return (np.sin(2 * np.pi * time / 50) * np.sin(2 * np.pi * time / 777) + 0.05 * rng.normal(size=rows))[:, None], 1.0
