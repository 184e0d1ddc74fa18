"""`python -m benchmarks.accuracy.presets`: the ten systems of the paper through `LensForecaster()`.

The multi-trajectory protocol: four trajectories train, eight windows of 500 steps on four unseen ones are rolled
out. Errors are mean squares divided by the variance of the training rows, as geometric means over the windows. The row
also says how much of the truth the 90 % intervals cover; four trajectories show that poorly, so there are several draws
of them. What is stored is not run again.
"""

from __future__ import annotations

import time
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.accuracy.rows import Rows, parser_of
from benchmarks.forecast.data import trajectories
from lln import LensForecaster
from lln.data.series import HORIZON
from lln.systems.presets import PRESETS

RESULTS = Path(__file__).parent.parent / "results" / "accuracy-presets.json"


def row(name: str, draw: int) -> dict[str, Any]:
    """One fit and its rollouts."""
    problem = trajectories(name, draw)
    began = time.process_time()
    model = LensForecaster().fit(problem.dataset)
    seconds, history = time.process_time() - began, model.history_
    windows = np.stack([states[at - history + 1 : at + 1] for states, at in problem.tests])
    truth = np.stack([states[at + 1 : at + 1 + HORIZON] for states, at in problem.tests])
    forecast = model.rollout(windows if history > 1 else windows[:, 0], steps=HORIZON, level=0.9)
    predicted, lower, upper = (
        np.asarray(one)[:, 1:].reshape(truth.shape) for one in (forecast.array, forecast.lower, forecast.upper)
    )
    error = np.square((predicted - truth) / problem.scale).mean(axis=(1, 2))
    covered = (truth >= lower) & (truth <= upper)
    return {
        "lln": float(np.exp(np.mean(np.log(np.maximum(error, 1e-30))))), "part": model.report_.part,
        "history": history, "coverage_90": float(covered.mean()), "cpu_seconds": seconds,
    }  # fmt: skip


def main() -> None:
    """Run every preset and draw that is not stored, and print the rows."""
    parser = parser_of(__doc__)
    parser.add_argument("--draws", type=int, default=5)
    options = parser.parse_args()
    table = Rows(options.out or RESULTS, again=options.again)
    for draw, name in product(range(options.draws), PRESETS):
        key = f"{name}, draw {draw}"
        if table.lacks(key, np.stack([states for states, _ in trajectories(name, draw).tests])):
            table.rows[key] |= row(name, draw)
            table.write()
        found = table.rows[key]
        print(
            f"{key:24s} {found['lln']:.2e} ({found['part']}, history {found['history']}, "
            f"{found['cpu_seconds']:.1f} s), 90 % intervals cover {found['coverage_90']:.0%}",
            flush=True,
        )


if __name__ == "__main__":
    main()
