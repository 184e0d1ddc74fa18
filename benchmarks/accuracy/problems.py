"""`python -m benchmarks.accuracy.problems`: chaotic problems with and without noise, beside tuned baselines.

Noise of 0, 1 and 5 % of the standard deviation is added to the rows that train and to those that start forecasts;
errors are against the noise-free states, as mean squares over about one Lyapunov time divided by the variance. They are
averaged over ten starts, geometrically without noise and arithmetically with it. The last rows are the largest relative
errors of the energy over 10,000 steps of two conservative systems, and the valid time of Lorenz-96 with 36 sites. Rows
are stored as they come; what is stored is not run again.
"""

from __future__ import annotations

import time
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.accuracy.baselines import roll, tuned
from benchmarks.accuracy.equations import (
    CONSERVED,
    PROBLEMS,
    RING,
    RING_DT,
    RING_EXPONENT,
    Conserved,
    Problem,
    integrated,
)
from benchmarks.accuracy.rows import Row, Rows, Task, parser_of
from lln import LensForecaster

Array = NDArray[np.float64]
RESULTS = Path(__file__).parent.parent / "results" / "accuracy-problems.json"
BASELINES = ("AR", "NVAR", "kernel", "analog")
STARTS, APART, BEFORE, LONG = 10, 40, 60, 10_000


class Trial:
    """One trajectory of a problem, its noise and its starts."""

    def __init__(self, problem: Problem, noise: float, seed: int) -> None:
        rng = np.random.default_rng(seed)
        first = problem.rows + BEFORE
        clean = problem.make(first + STARTS * APART + problem.steps, rng)
        self.noise, self.steps, self.scale = noise, problem.steps, clean[: problem.rows].std(axis=0)
        self.seen = clean + noise * self.scale * rng.normal(size=clean.shape)
        self.train = self.seen[: problem.rows]
        self.starts = first + APART * np.arange(STARTS)
        self.truth = np.stack([clean[i : i + problem.steps] for i in self.starts])

    def error(self, predicted: Array) -> float:
        """The mean error over all starts."""
        square = np.mean(((predicted - self.truth) / self.scale) ** 2, axis=(1, 2))
        square = np.clip(np.where(np.isfinite(square), square, 1e3), 1e-24, 1e3)
        return float(np.exp(np.mean(np.log(square))) if self.noise == 0 else np.mean(square))

    def windows(self, history: int) -> Array:
        """The states before every start."""
        return np.stack([self.seen[i - history : i] for i in self.starts])

    def ours(self) -> Row:
        """The forecaster."""
        began = time.process_time()
        model = LensForecaster().fit(self.train, dt=1.0)
        seconds, windows = time.process_time() - began, self.windows(model.history_)
        ours = model.rollout(windows if model.history_ > 1 else windows[:, 0], steps=self.steps)
        return {
            "lln": self.error(ours.array[:, 1:]), "part": model.report_.part, "history": model.history_,
            "noisy": model.report_.noisy, "cpu_seconds": seconds,
        }  # fmt: skip

    def others(self) -> Row:
        """Every baseline."""
        found = {"persistence": self.error(np.repeat(self.windows(1), self.steps, axis=1))}
        mean, unit = self.train.mean(axis=0), self.train.std(axis=0)
        best = tuned((self.train - mean) / unit, self.steps, BASELINES, noisy=self.noise > 0)
        for name, (history, advance) in best.items():
            found[name] = self.error(roll(advance, (self.windows(history) - mean) / unit, self.steps) * unit + mean)
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


def ring_row() -> dict[str, Any]:
    """How many Lyapunov times the error stays below 0.4 standard deviations, the mean over ten starts."""
    trial = Trial(RING, 0.0, 0)
    began = time.process_time()
    model = LensForecaster().fit(trial.train, dt=RING_DT)
    seconds, windows = time.process_time() - began, trial.windows(model.history_)
    found = model.rollout(windows if model.history_ > 1 else windows[:, 0], steps=trial.steps).array[:, 1:]
    lost = ~(np.sqrt(np.mean(((found - trial.truth) / trial.scale) ** 2, axis=2)) <= 0.4)
    valid = np.where(lost.any(axis=1), lost.argmax(axis=1), trial.steps) * RING_DT * RING_EXPONENT
    return {
        "valid": float(valid.mean()),
        "least": float(valid.min()),
        "part": model.report_.part,
        "cpu_seconds": seconds,
    }


def main() -> None:
    """Run what no stored row tells, and print every row."""
    parser = parser_of(__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", default="", help="problems whose names contain this")
    parser.add_argument("--jobs", type=int, default=1, help="processes that share the rows")
    options = parser.parse_args()
    table = Rows(options.out or RESULTS, again=options.again)
    energy = table.stored.setdefault("energy", {})
    if options.again:
        energy.clear()
    trials = (
        (f"{name}, {noise:.0%} noise, seed {seed}", Trial(problem, noise, seed))
        for seed, noise, (name, problem) in product(range(options.seeds), (0.0, 0.01, 0.05), PROBLEMS.items())
        if options.only in name
    )
    tasks = (Task(key, trial.seen, trial.ours, trial.others) for key, trial in trials)
    for key in table.run(tasks, BASELINES, options.jobs):
        print(key, described(table.rows[key]), flush=True)
    for name, system in CONSERVED.items():
        if options.only in name and name not in energy:
            energy[name] = energy_row(system)
            table.write()
            print(f"{name}: energy error {energy[name]['lln']:.1e}", flush=True)
    if options.only in "Lorenz-96, 36 sites" and (options.again or "ring" not in table.stored):
        table.stored["ring"] = ring_row()
        table.write()
    print(f"Lorenz-96, 36 sites: {table.stored.get('ring')}")
    summarise(table.rows)


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
