"""`python -m benchmarks.accuracy.kinds`: many kinds of small data through `LensForecaster()`, beside tuned baselines.

Maps, transients, stochastic series, counts, seasons, and single coordinates of chaotic systems, three draws of each.
The last quarter of the rows is unseen; errors are mean squares over rolling origins there, divided by the variance of
the rows that train. Rows are stored as they come; what is stored is not run again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.accuracy.baselines import roll, tuned
from benchmarks.accuracy.equations import Array, integrated, lorenz
from benchmarks.accuracy.rows import Row, Rows, Task, parser_of
from lln import LensForecaster

Generator = np.random.Generator
ORIGINS, LONGEST, FIRST_SEED = 30, 60, 7000
BASELINES = ("AR", "NVAR", "kernel", "analog")
OUT = Path(__file__).parents[1] / "results" / "accuracy-kinds.json"


class Kind(NamedTuple):
    """How data is made, (rows, n) or (rows,), how many steps ahead it is forecast, and whether it has noise."""

    make: Callable[[Generator], Array]
    steps: int
    noisy: bool = True


def iterated(after: Callable[[Array], Array], start: Array, rows: int, skipped: int = 100) -> Array:
    """States of a map, less the first ones."""
    states = [start]
    for _ in range(rows + skipped):
        states.append(np.asarray(after(states[-1]), dtype=float))
    return np.array(states[-rows:])


def autoregression(rng: Generator, weights: tuple[float, ...], rows: int) -> Array:
    """x_k = sum of weights times the last states, plus normal noise."""
    lags = np.array(weights)
    return iterated(lambda x: np.append(x[1:], lags[::-1] @ x + rng.normal()), np.zeros(len(lags)), rows)[:, -1]


def five_coordinates(rng: Generator) -> Array:
    """A stable linear map of five coordinates, driven by noise."""
    matrix = rng.normal(size=(5, 5))
    matrix *= 0.95 / np.abs(np.linalg.eigvals(matrix)).max()
    return iterated(lambda x: matrix @ x + rng.normal(size=5), np.zeros(5), 1000)


def wet_days(rng: Generator, rows: int = 1000) -> Array:
    """Days that are wet (1) or dry (0), wet ones in runs."""
    return iterated(lambda x: (rng.uniform(size=1) < np.where(x > 0, 0.6, 0.2)) * 1.0, np.zeros(1), rows)[:, 0]


def threshold_map(rng: Generator) -> Array:
    """An autoregression whose law depends on the sign of the state."""
    return iterated(
        lambda x: np.where(x < 0, 0.9 * x + 1.5, -0.8 * x + 0.2) + 0.3 * rng.normal(size=1), np.zeros(1), 1000
    )


def cycle(right: Callable[[Array], Array], start: tuple[float, ...], dt: float, before: float, rows: int) -> Array:
    """States of an autonomous equation, (rows, n)."""
    return integrated(lambda _, s: right(s), np.array(start), dt, rows, before)


def predators(rng: Generator) -> Array:
    """Lotka and Volterra, with 3 % noise in proportion."""
    states = cycle(lambda s: np.array([s[0] * (1 - s[1]), 0.7 * s[1] * (s[0] - 1)]), (2.5, 1.0), 0.1, 20.0, 1000)
    return states * (1 + 0.03 * rng.normal(size=states.shape))


def neuron(rng: Generator) -> Array:
    """FitzHugh and Nagumo, the voltage alone, with noise."""

    def right(s: Array) -> Array:
        return np.array([s[0] - s[0] ** 3 / 3 - s[1] + 0.5, 0.08 * (s[0] + 0.7 - 0.8 * s[1])])

    return cycle(right, (0.0, 0.0), 0.5, 100.0, 1200)[:, 0] + 0.03 * rng.normal(size=1200)


def epidemic(rng: Generator) -> Array:
    """Susceptible and infected parts of a population, with 2 % noise in proportion."""
    infection = 0.4
    states = cycle(
        lambda s: np.array([-infection * s[0] * s[1], infection * s[0] * s[1] - 0.1 * s[1]]),
        (0.99, 0.01),
        0.5,
        0.0,
        200,
    )
    return states * (1 + 0.02 * rng.normal(size=states.shape))


def chua(rng: Generator) -> Array:
    """Chua's circuit, the first coordinate alone."""

    def right(s: Array) -> Array:
        x, y, z = s
        bend = -0.714 * x - 0.2145 * (abs(x + 1) - abs(x - 1))
        return np.array([15.6 * (y - x - bend), x - y + z, -28 * y])

    return cycle(right, (0.7 + 0.01 * rng.normal(), 0.0, 0.0), 0.03, 30.0, 2000)[:, 0]


def lorenz_rows(rng: Generator, dt: float, rows: int) -> Array:
    """Lorenz's system."""
    return integrated(lorenz, np.array([1.0, 1.0, 20.0]) + rng.normal(size=3), dt, rows, 20.0)


def curve(shape: Callable[[Array], Array], noise: float, rows: int = 200) -> Callable[[Generator], Array]:
    """A function of time with noise."""
    return lambda rng: shape(np.arange(float(rows))) + noise * rng.normal(size=rows)


def wave(period: float, time: Array) -> Array:
    """A sine."""
    return np.sin(2 * np.pi * time / period)


KINDS = {
    "logistic map": Kind(lambda rng: iterated(lambda x: 3.9 * x * (1 - x), rng.uniform(0.2, 0.8, 1), 800), 6, False),
    "logistic map, 1 % noise": Kind(
        lambda rng: (
            iterated(lambda x: 3.8 * x * (1 - x), rng.uniform(0.2, 0.8, 1), 800) + 0.003 * rng.normal(size=(800, 1))
        ),
        4,
    ),
    "Lorenz on a large offset": Kind(lambda rng: 1e5 + 1e-3 * lorenz_rows(rng, 0.02, 1500), 60, False),
    "Lorenz, one coordinate": Kind(lambda rng: lorenz_rows(rng, 0.05, 2000)[:, 0], 20, False),
    "Lorenz, two decimals": Kind(lambda rng: np.round(lorenz_rows(rng, 0.02, 1500), 2), 60, False),
    "Chua, one coordinate": Kind(chua, 60, False),
    "predator and prey, 3 % noise": Kind(predators, 60),
    "voltage of a neuron, noise": Kind(neuron, 60),
    "epidemic, 2 % noise": Kind(epidemic, 15),
    "logistic growth": Kind(curve(lambda t: 100 / (1 + np.exp((80 - t) / 15)), 0.5), 20),
    "Gompertz growth": Kind(curve(lambda t: 50 * np.exp(-5 * np.exp(-t / 30)), 0.2), 20),
    "heating": Kind(curve(lambda t: 80 - 60 * np.exp(-t / 40), 0.3), 20),
    "damped oscillation": Kind(curve(lambda t: np.exp(-t / 80) * np.cos(t / 6), 0.02), 20),
    "square wave, noise": Kind(curve(lambda t: np.sign(wave(25.0, t + 0.5)), 0.1, 800), 50),
    "two sines, noise": Kind(curve(lambda t: np.sin(t / 7) + 0.5 * np.sin(t / 2.3), 0.2, 1000), 40),
    "white noise": Kind(lambda rng: rng.normal(size=500), 10),
    "random walk": Kind(lambda rng: np.cumsum(rng.normal(size=600)), 20),
    "random walk with drift": Kind(lambda rng: np.cumsum(0.3 + rng.normal(size=600)), 20),
    "autoregression, one lag": Kind(lambda rng: autoregression(rng, (0.95,), 500), 20),
    "autoregression, a cycle": Kind(lambda rng: autoregression(rng, (1.8, -0.9), 1000), 20),
    "vector autoregression": Kind(five_coordinates, 10),
    "threshold autoregression": Kind(threshold_map, 8),
    "rare events": Kind(lambda rng: (rng.uniform(size=600) < 0.15) * rng.gamma(2.0, 2.0, size=600), 10),
    "rain": Kind(lambda rng: wet_days(rng) * rng.gamma(0.8, 5.0, size=1000), 7),
    "on and off": Kind(wet_days, 7),
    "counts with a weekly season": Kind(lambda rng: 1.0 * rng.poisson(20 + 10 * wave(7, np.arange(700))), 14),
    "weekdays alone": Kind(lambda rng: np.where(np.arange(700) % 7 < 5, rng.poisson(8, size=700), 0.0), 14),
    "monthly, growing season": Kind(
        lambda rng: (50 + 0.8 * np.arange(180)) * (1 + 0.2 * wave(12, np.arange(180))) * rng.lognormal(0, 0.02, 180), 12
    ),
    "weekly, three years": Kind(
        curve(lambda t: 200 + 20 * wave(52, t) + 60 * (t % 52 == 51), 5.0, 156), 13
    ),
    "hourly, days and weeks": Kind(curve(lambda t: 100 + 20 * wave(24, t) + 10 * (t // 24 % 7 < 5), 2.0, 2000), 48),
}  # fmt: skip


class Split(NamedTuple):
    """Rows that train, where forecasts of the others start, and what is true there."""

    states: Array
    cut: int
    starts: Array
    truth: Array

    @classmethod
    def of(cls, states: Array, steps: int) -> Split:
        """The last quarter is unseen."""
        cut = round(0.75 * len(states))
        starts = np.unique(np.linspace(cut, len(states) - steps, ORIGINS).astype(int))
        return cls(states, cut, starts, np.stack([states[i : i + steps] for i in starts]))

    def error(self, predicted: Array) -> float:
        """Mean square error against the variance of the rows that train."""
        return float(np.mean((predicted - self.truth) ** 2) / self.states[: self.cut].var(axis=0).mean())

    def before(self, history: int) -> Array:
        """The last `history` rows before each start."""
        return np.stack([self.states[i - history : i] for i in self.starts])


def ours(states: Array, kind: str) -> Row:
    """The forecaster on one draw."""
    split, began = Split.of(states, KINDS[kind].steps), time.process_time()
    model = LensForecaster().fit(states[: split.cut], dt=1.0)
    seconds, history = time.process_time() - began, model.history_
    past = split.before(history)
    found = model.rollout(past if history > 1 else past[:, 0], steps=KINDS[kind].steps, level=0.9)
    predicted, lower, upper = (np.asarray(one)[:, 1:] for one in (found.array, found.lower, found.upper))
    inside = (split.truth >= lower) & (split.truth <= upper)
    return {
        "lln": split.error(predicted), "part": model.report_.part, "history": history,
        "coverage_90": float(inside.mean()), "cpu_seconds": seconds,
    }  # fmt: skip


def others(states: Array, kind: str) -> Row:
    """Every baseline on one draw."""
    split, steps = Split.of(states, KINDS[kind].steps), KINDS[kind].steps
    train = states[: split.cut]
    mean, scale = train.mean(axis=0), train.std(axis=0)
    found = {
        "persistence": split.error(np.repeat(split.before(1), steps, axis=1)),
        "mean": split.error(np.broadcast_to(mean, split.truth.shape)),
    }
    for name, (history, advance) in tuned((train - mean) / scale, steps, BASELINES, noisy=KINDS[kind].noisy).items():
        found[name] = split.error(roll(advance, (split.before(history) - mean) / scale, steps) * scale + mean)
    return found


def tasks(draws: int) -> Iterator[Task]:
    """Every kind, drawn several times."""
    for name, kind in KINDS.items():
        for draw in range(draws):
            states = np.asarray(kind.make(np.random.default_rng(FIRST_SEED + draw)), dtype=float)
            states = states.reshape(len(states), -1)
            yield Task(f"{name}, draw {draw}", states, partial(ours, states, name), partial(others, states, name))


def main() -> None:
    """Run what no stored row tells, and print it."""
    parser = parser_of(__doc__)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1, help="processes that share the rows")
    options = parser.parse_args()
    table = Rows(options.out or OUT, again=options.again)
    for key in table.run(tasks(options.draws), BASELINES, options.jobs):
        row = table.rows[key]
        best = min((name for name in ("persistence", "mean", *BASELINES) if name in row), key=row.__getitem__)
        print(f"{key:40s} {row['part']:14s} {row['lln']:.3g}, best baseline {row[best]:.3g} ({best})", flush=True)


if __name__ == "__main__":
    main()
