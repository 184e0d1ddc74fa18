"""`python -m benchmarks.accuracy.systems`: chaotic systems through `LensForecaster()`, beside tuned baselines.

Valid time is counted in Lyapunov times (30 steps) until the root mean square error exceeds 0.4 standard deviations, at
most ten; sMAPE is over the first Lyapunov time. Rows are stored as they come; what is stored is not run again.
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.accuracy.baselines import roll, tuned
from benchmarks.accuracy.rows import Row, Rows, Task, parser_of
from lln import LensForecaster

Array = NDArray[np.float64]
TRAIN, PER_LYAPUNOV_TIME, VALID = 512, 30, 0.4
HERE = Path(__file__).parent
BASELINES = ("analog", "NVAR", "kernel")


def judged(predicted: Array, truth: Array, scale: Array) -> dict[str, float]:
    """Valid time in Lyapunov times, and sMAPE over the first."""
    error = np.sqrt(np.mean(((predicted - truth) / scale) ** 2, axis=1))
    lost = np.flatnonzero(~(error <= VALID))
    one, two = predicted[:PER_LYAPUNOV_TIME], truth[:PER_LYAPUNOV_TIME]
    smape = 200 * np.mean(np.abs(one - two) / (np.abs(one) + np.abs(two) + 1e-300))
    return {"valid": float(lost[0] if len(lost) else len(error)) / PER_LYAPUNOV_TIME, "smape": float(smape)}


def ours(states: Array) -> Row:
    """The forecaster on one trajectory."""
    train, truth = states[:TRAIN], states[TRAIN:]
    began, spent = time.perf_counter(), time.process_time()
    model = LensForecaster().fit(train, dt=1.0)
    seconds, cpu = time.perf_counter() - began, time.process_time() - spent
    report = model.report_
    found = judged(model.rollout(steps=len(truth)).predicted, truth, train.std(axis=0))
    cost = {"seconds": seconds, "cpu_seconds": cpu}
    return {"lln": {**found, "part": report.part, "history": report.history, **cost}}


def others(states: Array) -> Row:
    """Every baseline on one trajectory."""
    train, truth = states[:TRAIN], states[TRAIN:]
    mean, scale = train.mean(axis=0), train.std(axis=0)
    found = {"persistence": judged(np.repeat(train[-1:], len(truth), axis=0), truth, scale)}
    z = (train - mean) / scale
    for name, (history, advance) in tuned(z, PER_LYAPUNOV_TIME, BASELINES).items():
        found[name] = judged(roll(advance, z[-history:], len(truth)) * scale + mean, truth, scale)
    return found


def main() -> None:
    """Run what no stored row tells, and print the means."""
    parser = parser_of(__doc__)
    parser.add_argument("--letters", default="I-Z")
    parser.add_argument("--starts", type=int, default=5)
    parser.add_argument("--alone", action="store_true", help="without the tuned baselines, which take longest")
    parser.add_argument("--jobs", type=int, default=1, help="processes that share the rows")
    options = parser.parse_args()
    data = np.load(HERE / "data" / f"dysts-{options.letters}.npz")
    table = Rows(options.out or HERE.parent / "results" / f"accuracy-dysts-{options.letters}.json", again=options.again)
    names = () if options.alone else BASELINES
    tasks = (
        Task(f"{name} {start}", states, partial(ours, states), partial(others, states))
        for start in range(options.starts)
        for name in data.files
        for states in data[name][start : start + 1]
    )
    for key in table.run(tasks, names, options.jobs):
        print(key, {k: round(v["valid"], 2) for k, v in table.rows[key].items() if k != "data"}, flush=True)
    summarise(table.rows)


def summarise(rows: dict[str, Any]) -> None:
    """Print means over all rows, and how often ours is far behind."""
    for name in ("lln", "persistence", *BASELINES):
        some = [one[name] for one in rows.values() if name in one]
        if some:
            valid, smape = (np.mean([one[key] for one in some]) for key in ("valid", "smape"))
            print(f"{name:12s} valid {valid:.2f} Lyapunov times, sMAPE {smape:.1f} over {len(some)} fits")
    compared = {key: one for key, one in rows.items() if any(name in one for name in BASELINES)}
    behind = [
        key for key, one in compared.items()
        if one["lln"]["valid"] < 0.5 * max(one[name]["valid"] for name in one if name not in ("lln", "data"))
    ]  # fmt: skip
    cpu = np.median([one["lln"]["cpu_seconds"] for one in rows.values()])
    print(f"median fit {cpu:.1f} CPU s")
    if compared:
        print(f"less than half the best baseline's valid time: {len(behind)} of {len(compared)}")


if __name__ == "__main__":
    main()
