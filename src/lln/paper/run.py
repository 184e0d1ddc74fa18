"""One run from its specification: simulate, train all seeds in one pass, roll out, score; plain data in and out.

`execute` is what workers call. It uses one thread, so that its numbers do not depend on how many cores a worker has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from lln.core.errors import InputError, choice
from lln.data import Split, Standardizer, one_step_pairs, simulated, split
from lln.data.cache import simulated_states
from lln.evaluate import mse_by_step, rollout
from lln.evaluate.rollout import Rollout
from lln.models import build
from lln.models.base import StateNetwork
from lln.models.stacked import stack
from lln.paper.theory.gradients import gradient_transport
from lln.systems import perturbed_start, preset
from lln.train import LinearMap, TrainConfig, TrainingMean
from lln.train.ensemble import fit_ensemble

Array = NDArray[np.floating[Any]]
DIGITS = 9  # of a stored curve; more than float32 has


@dataclass(frozen=True, eq=False)
class Problem:
    """Standardised data of one run.

    Attributes:
        inputs: (pairs, n).
        targets: (pairs, n).
        starts: of the test rollouts, (W, n).
        truths: what they should visit, (W, steps, n).
    """

    inputs: Array
    targets: Array
    starts: Array
    truths: Array


def execute(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The result of the run that `spec` describes."""
    kinds = {
        "rollout": _rollouts,
        "multi-trajectory": _rollouts,
        "gradients": _gradients,
        "case-study": _case_study,
    }
    with _one_thread():
        return kinds[choice("kind of run", spec["kind"], kinds)](spec)


@contextmanager
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _rollouts(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Scores of every seed, and of every window if there are several trajectories."""
    problem = problem_of(spec)
    if spec["model"] in ("training-mean", "linear"):
        rolled, more = _reference(spec["model"], problem, spec["data"]["steps"])
    else:
        rolled, more = _trained(spec, problem)
    errors = mse_by_step(rolled.predicted, problem.truths)  # (S, W, steps)
    steps = np.array([outcome.step or 0 for outcome in rolled.outcomes]).reshape(errors.shape[:2])
    result: dict[str, Any] = {
        "mse": errors.mean(axis=-1).tolist(),
        "diverged_at": [[int(k) or None for k in row] for row in steps],
        **more,
    }
    if spec["kind"] == "rollout":  # one window: a number a seed
        result |= {key: [row[0] for row in result[key]] for key in ("mse", "diverged_at")}
    if spec.get("curve"):
        result["curve"] = [[float(f"{value:.{DIGITS}g}") for value in row] for row in errors[:, 0].tolist()]
    return result


def _trained(spec: Mapping[str, Any], problem: Problem) -> tuple[Rollout, dict[str, Any]]:
    dtype = getattr(torch, spec["dtype"])
    members = networks_of(spec, problem.inputs.shape[1], dtype)
    parameters = sum(parameter.numel() for parameter in members[0].parameters())
    ensemble = stack(members)
    inputs, targets, starts = (_tensor(x, dtype) for x in (problem.inputs, problem.targets, problem.starts))
    history = fit_ensemble(ensemble, inputs, targets, TrainConfig(**spec["recipe"]), spec["seeds"])
    ensemble.eval()
    # A trained network can hold NaN; its rollout is then lost at the first step, which is a result.
    rolled = rollout(ensemble, starts.expand(len(members), *starts.shape).contiguous(), spec["data"]["steps"])
    return rolled, {"loss": history.losses[-1].tolist(), "parameters": parameters}


def _reference(name: str, problem: Problem, steps: int) -> tuple[Rollout, dict[str, Any]]:
    """The two predictors in closed form, as an ensemble of one, in float64."""
    starts = problem.starts[None]
    if name == "training-mean":
        return rollout(TrainingMean.fit(problem.inputs), starts, steps), {"parameters": problem.inputs.shape[1]}
    linear = LinearMap.fit(problem.inputs, problem.targets)
    return rollout(linear, starts, steps), {"parameters": linear.parameters}


def _gradients(spec: Mapping[str, Any]) -> dict[str, Any]:
    """log10(g_l / g_D) of every seed and layer."""
    problem = problem_of({**spec, "data": {**spec["data"], "steps": 1}})
    dtype = getattr(torch, spec["dtype"])
    inputs, targets = _tensor(problem.inputs, dtype), _tensor(problem.targets, dtype)
    members = networks_of(spec, problem.inputs.shape[1], dtype)
    found = [gradient_transport(m, inputs, targets, batch=spec["batch"], batches=spec["batches"]) for m in members]
    parameters = sum(parameter.numel() for parameter in members[0].parameters())
    return {"log_ratios": [one.log_ratios.tolist() for one in found], "parameters": parameters}


def _case_study(spec: Mapping[str, Any]) -> dict[str, Any]:
    from lln.paper import case_study

    return case_study.run(spec)


def networks_of(spec: Mapping[str, Any], size: int, dtype: torch.dtype) -> list[StateNetwork]:
    """The untrained network of each seed."""
    return [
        build(
            spec["model"],
            size,
            size,
            generator=torch.Generator().manual_seed(seed),  # as the printed gradient table shows
            **spec["options"],
        ).to(dtype)
        for seed in spec["seeds"]
    ]


def problem_of(spec: Mapping[str, Any]) -> Problem:
    """The data of a run, standardised by its training inputs."""
    data = spec["data"]
    if spec["kind"] == "multi-trajectory":
        return _many_trajectories(
            spec["system"],
            data["burn_in"],
            data["pairs"],
            data["steps"],
            data["dtype"],
            tuple(data["train"]),
            tuple(data["test"]),
            tuple(data["windows"]),
            data["perturbation"],
        )
    return _one_trajectory(spec["system"], data["burn_in"], data["pairs"], data["steps"], data["dtype"])


@lru_cache(maxsize=16)
def _one_trajectory(system: str, burn_in: int, pairs: int, steps: int, dtype: str) -> Problem:
    trajectory = simulated(preset(system), burn_in + pairs + steps, dtype=dtype)
    cut: Split = split(trajectory, burn_in=burn_in, pairs=pairs, horizon=steps)
    return _standardised(cut.inputs, cut.targets, cut.start[None], cut.truth[None])


@lru_cache(maxsize=10)
def _many_trajectories(
    name: str,
    burn_in: int,
    pairs: int,
    steps: int,
    dtype: str,
    train: Sequence[int],
    test: Sequence[int],
    windows: Sequence[int],
    perturbation: float,
) -> Problem:
    system = preset(name)

    def trajectories(seeds: Sequence[int], length: int) -> Array:
        starts = np.stack([perturbed_start(system, seed, perturbation) for seed in seeds])
        return simulated_states(system, length, starts=starts, dtype=dtype)

    couples = [one_step_pairs(states[burn_in:]) for states in trajectories(train, burn_in + pairs)]
    tests = trajectories(test, max(windows) + steps)
    return _standardised(
        np.concatenate([x for x, _ in couples]),
        np.concatenate([y for _, y in couples]),
        np.stack([one[first] for one in tests for first in windows]),
        np.stack([one[first + 1 : first + 1 + steps] for one in tests for first in windows]),
    )


def _standardised(inputs: Array, targets: Array, starts: Array, truths: Array) -> Problem:
    scaling = Standardizer.fit(inputs)
    return Problem(*(scaling.transform(values) for values in (inputs, targets, starts, truths)))


def _tensor(values: Array, dtype: torch.dtype) -> torch.Tensor:
    if not np.isfinite(values).all():
        raise InputError("a run needs finite data, got NaN or infinity")
    return torch.from_numpy(values).to(dtype)
