"""Search for the paper's simulators by what its dead networks and untrained gradients reveal of the data.

A plain network of depth 40 predicts a constant, so its printed score is that of the training mean: a function of the
data alone, and cheap. ``python -m lln.paper.identify burgers --tries 20000`` draws settings (constants, start, grid)
from lists of usual values, simulates them side by side at both sizes, and ranks them by that fingerprint. The best are
then given the gradient rows of the residual networks, which depend on data and known seeds alone. With ``--check`` it
measures the simulators that the studies use instead. Trials are appended to a file, one line of JSON each.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from lln.paper.printed_values import FIELDS, all_depths, gradient_transport
from lln.systems import rk4_step
from lln.systems.base import Array

BURN_IN, PAIRS, STEPS = 500, 3000, 500
SIZES = (32, 48)
LENGTHS = (1.0, 2.0, 2.0 * math.pi, 10.0)
RATIOS = (0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 1.0)
STEP_SIZES = (5e-4, 1e-3, 2e-3, 2.5e-3, 4e-3, 5e-3, 1e-2, 2e-2, 5e-2)
VISCOSITIES = (1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1)
SPEEDS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0, 1.5)
BATCH = 500


@dataclass(frozen=True)
class Setting:
    """One trial: the equation's constants and its start."""

    family: str  #: of the system.
    dt: float  #: time step.
    length: float  #: of the domain; without meaning for a chain.
    viscosity: float  #: of a field; on-site stiffness of a chain, relative to its springs.
    speed: float  #: of advection; without meaning elsewhere.
    conservative: bool  #: whether Burgers' flux is differenced, in place of u times a difference.
    closed: bool  #: whether the start's grid includes the end point; for a chain, whether its ends are free.
    amplitude: float  #: of the start.
    waves: tuple[tuple[float, bool, int], ...]  #: (ratio, is it a cosine, wave number) of each term.


def draw(family: str, rng: np.random.Generator) -> Setting:
    """A random setting of usual values."""
    first = (1.0, bool(rng.integers(2)), 1)
    more = [(float(rng.choice(RATIOS)), bool(rng.integers(2)), int(rng.integers(2, 6))) for _ in range(rng.integers(3))]
    return Setting(
        family,
        float(rng.choice(STEP_SIZES)),
        float(rng.choice(LENGTHS)),
        float(rng.choice(VISCOSITIES if family != "springchain" else (0.0, 0.1, 0.2, 0.5, 1.0))),
        float(rng.choice(SPEEDS)),
        bool(rng.integers(2)),
        bool(rng.integers(2)),
        float(rng.choice(RATIOS)),
        (first, *more),
    )


def start_of(setting: Setting, n: int) -> Array:
    """The state at time zero."""
    chain = setting.family == "springchain"
    u = np.arange(1, n + 1) / (n + 1) if chain else np.arange(n) / (n - 1 if setting.closed else n)
    turn = math.pi if chain else 2.0 * math.pi
    field = sum(ratio * (np.cos if cosine else np.sin)(turn * m * u) for ratio, cosine, m in setting.waves)
    wave: Array = setting.amplitude * np.asarray(field)
    return np.concatenate([wave, np.zeros(n)]) if chain else wave


def mean_scores(settings: Sequence[Setting], n: int) -> Array:
    """Score of the training mean of every setting, (B,); NaN where the simulation blows up."""
    state = np.stack([start_of(setting, n) for setting in settings]).astype(np.float32)
    rhs = _rhs(settings, n)
    reference = state
    sums = np.zeros((4, *state.shape))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        for step in range(BURN_IN + PAIRS + STEPS + 1):
            if step == BURN_IN:
                reference = state
            offset = 0 if BURN_IN <= step < BURN_IN + PAIRS else (2 if step > BURN_IN + PAIRS else None)
            if offset is not None:
                moved = state.astype(np.float64) - reference
                sums[offset] += moved
                sums[offset + 1] += moved**2
            state = rk4_step(rhs, state, 1.0)
        mean = sums[0] / PAIRS
        variance = sums[1] / PAIRS - mean**2
        error = (sums[3] / STEPS - 2 * mean * sums[2] / STEPS + mean**2) / variance
    scores: Array = error.mean(axis=1)
    return scores


def _rhs(settings: Sequence[Setting], n: int) -> Callable[[Array], Array]:
    """The right-hand side times dt, for all settings at once; all are of one family."""
    family = settings[0].family

    def column(values: Iterator[float]) -> Array:
        return np.array(list(values), dtype=np.float32)[:, None]

    dt = column(s.dt for s in settings)
    flow = column(s.dt * n / s.length for s in settings)
    spread = column(s.viscosity * s.dt * (n / s.length) ** 2 for s in settings)
    speed = column(s.speed for s in settings)
    conservative = np.array([s.conservative for s in settings])[:, None]
    free = np.array([s.closed for s in settings])[:, None]
    site = column(s.viscosity for s in settings)

    def chain(state: Array) -> Array:
        q, p = state[:, :n], state[:, n:]
        left = np.concatenate([np.where(free, q[:, :1], 0.0), q[:, :-1]], axis=1)
        right = np.concatenate([q[:, 1:], np.where(free, q[:, -1:], 0.0)], axis=1)
        slope = dt * np.concatenate([p, right - 2 * q + left - site * q], axis=1)
        return np.asarray(slope, dtype=np.float32)

    def field(state: Array) -> Array:
        left, right = np.roll(state, 1, axis=1), np.roll(state, -1, axis=1)
        slope = spread * (right - 2 * state + left)
        if family == "advecdiff":
            slope = slope - 0.5 * speed * flow * (right - left)
        elif family == "burgers":
            flux = np.where(conservative, 0.25 * (right**2 - left**2), 0.5 * state * (right - left))
            slope = slope - flow * flux
        else:
            slope = slope + dt * (state - state**3)
        return np.asarray(slope, dtype=np.float32)

    return chain if family == "springchain" else field


def printed_means(family: str) -> dict[int, float]:
    """The printed score of a network that predicts a constant, by size: the plain MLP's mean at D = 20 and 40."""
    scores = {(row.system, row.depth): float(row.scores()["mlp"].mean) for row in all_depths()}
    return {n: (scores[f"{family}-{n}", 20] + scores[f"{family}-{n}", 40]) / 2 for n in SIZES}


def search(family: str, tries: int, seed: int) -> list[tuple[float, Setting, list[float]]]:
    """The drawn settings by rising misfit: the relative error of the mean predictor, summed over both sizes."""
    rng, printed = np.random.default_rng(seed), printed_means(family)
    found: list[tuple[float, Setting, list[float]]] = []
    for first in range(0, tries, BATCH):
        settings = [draw(family, rng) for _ in range(min(BATCH, tries - first))]
        scores = np.stack([mean_scores(settings, n) for n in SIZES], axis=1)
        misfit = np.abs(scores / np.array([printed[n] for n in SIZES]) - 1.0).sum(axis=1)
        found += [
            (float(miss), setting, [round(float(value), 4) for value in row])
            for miss, setting, row in zip(misfit, settings, scores, strict=True)
            if math.isfinite(miss)
        ]
    return sorted(found, key=lambda trial: trial[0])


def check(name: str) -> Iterator[tuple[str, str]]:
    """The fingerprints of the simulator that the studies use for `name`: what it is, and "here [printed]"."""
    import torch

    from lln.paper.run import Problem, networks_of, problem_of
    from lln.paper.theory.gradients import gradient_transport as measure

    data = {"burn_in": BURN_IN, "pairs": PAIRS, "steps": STEPS, "test_pairs": STEPS, "dtype": "float32"}
    problem: Problem = problem_of({"kind": "rollout", "system": name, "data": data})
    mlp = {row.depth: row.scores()["mlp"] for row in all_depths() if row.system == name}
    truth = problem.truths
    score = np.square(truth).mean()
    yield "mean of the training data", f"{score:.4f} [MLP {mlp[40].mean} at D = 40, {mlp[20].mean} at D = 20]"
    paper = next(row for row in gradient_transport() if row.system == name).scores()
    x, y = (torch.from_numpy(values).float() for values in (problem.inputs, problem.targets))
    for model in ("mlp", "residual", "scaled-residual"):
        spec = {"model": model, "seeds": list(range(10)), "options": {"depth": 40, "width": 128}}
        networks, _ = networks_of(spec, x.shape[1], torch.float32)
        ratios = np.array([measure(one, x, y, batch=512, batches=4)[0] for one in networks])
        printed = paper[model]
        yield model, f"{ratios.mean():.3f} ± {ratios.std(ddof=1):.3f} [{printed.mean} ± {printed.deviation}]"


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m lln.paper.identify", description=__doc__)
    parser.add_argument("family", choices=FIELDS)
    parser.add_argument("--tries", type=int, default=2000, help="settings to draw")
    parser.add_argument("--seed", type=int, default=0, help="of the draws")
    parser.add_argument("--top", type=int, default=10, help="trials to show and store")
    parser.add_argument("--out", type=Path, help="file to which the best trials are appended, a line of JSON each")
    parser.add_argument("--check", action="store_true", help="measure the simulators of the studies instead")
    options = parser.parse_args(arguments)
    if options.check:
        for system in (f"{options.family}-{n}" for n in SIZES):
            for name, text in check(system):
                print(f"{system:<16} {name:<16} {text}", flush=True)
        return
    best = search(options.family, options.tries, options.seed)[: options.top]
    print(f"printed: {printed_means(options.family)}")
    lines = [json.dumps({"misfit": round(miss, 5), "scores": scores, **asdict(s)}) for miss, s, scores in best]
    print("\n".join(lines))
    if options.out is not None:
        with options.out.open("a", encoding="utf-8") as file:
            file.writelines(line + "\n" for line in lines)


if __name__ == "__main__":
    main()
