"""`python -m benchmarks.accuracy.problems`: chaotic problems with and without noise, beside tuned baselines.

Noise of 0, 1 and 5 % of the standard deviation is added to the rows that train and to those that start forecasts;
errors are against the noise-free states, as mean squares over about one Lyapunov time divided by the variance. They are
averaged over ten starts, geometrically without noise and arithmetically with it. The last rows are the largest relative
errors of the energy over 10,000 steps of two conservative systems. Rows are stored as they come; what is stored is not
run again.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.accuracy.baselines import roll, tuned
from benchmarks.accuracy.equations import CONSERVED, PROBLEMS, Conserved, Problem, integrated
from lln import LensForecaster
from lln.core.provenance import provenance
from lln.core.safe_files import whole_file

Array = NDArray[np.float64]
RESULTS = Path(__file__).parent.parent / "results" / "accuracy-problems.json"
BASELINES = ("AR", "NVAR", "kernel", "analog")
STARTS, APART, BEFORE, LONG = 10, 40, 60, 10_000


def row(problem: Problem, noise: float, seed: int) -> dict[str, Any]:
    """The errors of ours and of every baseline on one trajectory."""
    rng = np.random.default_rng(seed)
    first = problem.rows + BEFORE
    clean = problem.make(first + STARTS * APART + problem.steps, rng)
    scale = clean[: problem.rows].std(axis=0)
    seen = clean + noise * scale * rng.normal(size=clean.shape)
    train = seen[: problem.rows]
    starts = first + APART * np.arange(STARTS)
    truth = np.stack([clean[i : i + problem.steps] for i in starts])

    def error(predicted: Array) -> float:
        square = np.mean(((predicted - truth) / scale) ** 2, axis=(1, 2))
        square = np.clip(np.where(np.isfinite(square), square, 1e3), 1e-24, 1e3)
        return float(np.exp(np.mean(np.log(square))) if noise == 0 else np.mean(square))

    began = time.process_time()
    model = LensForecaster().fit(train, dt=1.0)
    seconds = time.process_time() - began
    windows = np.stack([seen[i - model.history_ : i] for i in starts])
    ours = model.rollout(windows if model.history_ > 1 else windows[:, 0], steps=problem.steps)
    found: dict[str, Any] = {
        "lln": error(ours.array[:, 1:]), "part": model.report_.part, "history": model.history_,
        "noisy": model.report_.noisy, "cpu_seconds": seconds,
        "persistence": error(np.repeat(seen[starts - 1][:, None], problem.steps, axis=1)),
    }  # fmt: skip
    mean, unit = train.mean(axis=0), train.std(axis=0)
    z = (train - mean) / unit
    for name, (history, advance) in tuned(z, problem.steps, BASELINES, noisy=noise > 0).items():
        pasts = (np.stack([seen[i - history : i] for i in starts]) - mean) / unit
        found[name] = error(roll(advance, pasts, problem.steps) * unit + mean)
    return found


def energy_row(system: Conserved) -> dict[str, Any]:
    """The largest relative error of the energy of a rollout from the end of the training rows."""
    states = integrated(system.right, np.asarray(system.start), system.dt, system.rows, 0.0)
    began = time.process_time()
    model = LensForecaster().fit(states, dt=system.dt)
    seconds = time.process_time() - began
    energy = system.energy(model.rollout(steps=LONG).predicted)
    truth = float(system.energy(states[:1])[0])
    worst = np.abs(energy / truth - 1).max() if np.isfinite(energy).all() else np.inf
    return {"lln": float(worst), "part": model.report_.part, "history": model.history_, "cpu_seconds": seconds}


def main() -> None:
    """Run what no stored row tells, and print every row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", default="", help="problems whose names contain this")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    made: dict[str, Any] = {"made": provenance("torch", "numpy", "scipy"), "rows": {}, "energy": {}}
    stored = json.loads(options.out.read_text()) if options.out.exists() else made

    def store() -> None:
        with whole_file(options.out) as path:
            Path(path).write_text(json.dumps(stored, indent=1))

    for seed in range(options.seeds):
        for noise in (0.0, 0.01, 0.05):
            for name, problem in PROBLEMS.items():
                key = f"{name}, {noise:.0%} noise, seed {seed}"
                if options.only not in name or key in stored["rows"]:
                    continue
                stored["rows"][key] = row(problem, noise, seed)
                store()
                print(key, described(stored["rows"][key]), flush=True)
    for name, system in CONSERVED.items():
        if options.only in name and name not in stored["energy"]:
            stored["energy"][name] = energy_row(system)
            store()
            print(f"{name}: energy error {stored['energy'][name]['lln']:.1e}", flush=True)
    summarise(stored["rows"])


def described(one: dict[str, Any]) -> str:
    """One row in words."""
    best = min((name for name in ("persistence", *BASELINES) if name in one), key=one.__getitem__)
    return (
        f"lln {one['lln']:.2e} ({one['part']}, history {one['history']}, {one['cpu_seconds']:.1f} s), "
        f"best baseline {one[best]:.2e} ({best})"
    )


def summarise(rows: dict[str, Any]) -> None:
    """Print, for each problem and level of noise, the mean error of ours against that of the best baseline."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for key, one in rows.items():
        groups.setdefault(key.rpartition(", ")[0], []).append(one)
    for key, some in groups.items():
        means = {name: float(np.exp(np.mean([np.log(one[name]) for one in some]))) for name in ("lln", *BASELINES)}
        best = min(BASELINES, key=means.__getitem__)
        print(f"{key:45s} lln {means['lln']:.2e}  {best} {means[best]:.2e}  ratio {means['lln'] / means[best]:.2f}")


if __name__ == "__main__":
    main()
