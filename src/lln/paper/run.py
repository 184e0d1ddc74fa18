"""One run from its specification: simulate, train all seeds in one pass, roll out, score; plain data in and out.

`execute` is what workers call. It uses one thread, so that its numbers do not depend on how many cores a worker has.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from lln.core.canonical import canonical
from lln.core.errors import InputError, choice
from lln.data import Standardizer
from lln.evaluate import mse_by_step, rollout
from lln.evaluate.rollout import Rollout
from lln.models import LensNetwork, build
from lln.models.base import StateNetwork
from lln.models.factory import stack
from lln.models.lens import COEFFICIENT_STD
from lln.paper.simulators import perturbed, simulator
from lln.paper.theory.gradients import gradient_transport
from lln.paper.training import TrainingRecipe, train_members
from lln.systems import simulate
from lln.train.loop import one_thread

Array = NDArray[np.floating[Any]]
DIGITS = 9  # of a stored curve; more than float32 has


@dataclass(frozen=True, eq=False)
class Problem:
    """Standardised data of one run."""

    inputs: Array  #: (pairs, n).
    targets: Array  #: (pairs, n).
    starts: Array  #: of the test rollouts, (W, n).
    truths: Array  #: their truth, (W, steps, n).
    test_inputs: Array  #: of the one-step test pairs, (pairs, n); empty over several trajectories.
    test_targets: Array  #: likewise.


def execute(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The result of the run that `spec` describes."""
    kinds = {"rollout": _rollouts, "multi-trajectory": _rollouts, "gradients": _gradients, "case-study": _case_study}
    with one_thread():
        return kinds[choice("kind of run", spec["kind"], kinds)](spec)


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
    members, generators = networks_of(spec, problem.inputs.shape[1], dtype)
    parameters = sum(parameter.numel() for parameter in members[0].parameters())
    ensemble = stack(members)
    inputs, targets, starts = (_tensor(x, dtype) for x in (problem.inputs, problem.targets, problem.starts))
    loss = train_members(ensemble, inputs, targets, TrainingRecipe(**spec["recipe"]), generators)
    # A trained network can hold NaN; its rollout is then lost at the first step, which is a result.
    rolled = rollout(ensemble, starts.expand(len(members), *starts.shape).contiguous(), spec["data"]["steps"])
    more = {"loss": loss.tolist(), "parameters": parameters}
    if len(problem.test_inputs):
        x = _tensor(problem.test_inputs, dtype).expand(len(members), -1, -1)
        with torch.no_grad():
            predicted = ensemble(x.contiguous()).double().numpy()
        more["one_step"] = np.square(predicted - problem.test_targets).mean(axis=(1, 2)).tolist()
    return rolled, more


def _reference(name: str, problem: Problem, steps: int) -> tuple[Rollout, dict[str, Any]]:
    """The two predictors in closed form, the training mean or a linear map, as an ensemble of one, in float64."""
    n = problem.inputs.shape[1]
    linear = name == "linear"
    matrix, offset = linear_map(problem.inputs, problem.targets)
    mean = problem.inputs.mean(axis=0)

    def model(state: Array) -> Array:
        return state + state @ matrix.T + offset if linear else np.broadcast_to(mean, np.shape(state)).copy()

    more: dict[str, Any] = {"parameters": n * (n + 1) if linear else n}
    if len(problem.test_inputs):
        predicted = rollout(model, problem.test_inputs[None], 1).predicted[0, :, 0]
        more["one_step"] = [float(np.square(predicted - problem.test_targets).mean())]
    return rollout(model, problem.starts[None], steps), more


def linear_map(inputs: Array, targets: Array) -> tuple[Array, Array]:
    """A (n, n) and b (n,) of ``x <- x + A x + b`` by least squares; of several solutions the smallest A."""
    centre, change = inputs.mean(axis=0), (targets - inputs).mean(axis=0)
    matrix = np.linalg.lstsq(inputs - centre, targets - inputs - change, rcond=None)[0].T
    return matrix, change - matrix @ centre


def _gradients(spec: Mapping[str, Any]) -> dict[str, Any]:
    """log10(g_l / g_D) of every seed and layer."""
    problem = problem_of({**spec, "data": {**spec["data"], "steps": 1}})
    dtype = getattr(torch, spec["dtype"])
    inputs, targets = _tensor(problem.inputs, dtype), _tensor(problem.targets, dtype)
    members, _ = networks_of(spec, problem.inputs.shape[1], dtype)
    found = [gradient_transport(m, inputs, targets, batch=spec["batch"], batches=spec["batches"]) for m in members]
    parameters = sum(parameter.numel() for parameter in members[0].parameters())
    return {"log_ratios": [one.tolist() for one in found], "parameters": parameters}


def _case_study(spec: Mapping[str, Any]) -> dict[str, Any]:
    from lln.paper import case_study

    return case_study.run(spec)


def networks_of(
    spec: Mapping[str, Any], size: int, dtype: torch.dtype
) -> tuple[list[StateNetwork], list[torch.Generator]]:
    """The untrained network of each seed, and the generator that drew it, which then draws the batches."""
    generators = [torch.Generator().manual_seed(seed) for seed in spec["seeds"]]
    return [_network(spec["model"], size, spec["options"], one).to(dtype) for one in generators], generators


def _network(model: str, size: int, options: Mapping[str, Any], generator: torch.Generator) -> StateNetwork:
    if model != "lens":
        return build(model, size, size, generator=generator, **options)
    return lens_network(size, size, options, generator)


def lens_network(n_in: int, n_out: int, options: Mapping[str, Any], generator: torch.Generator) -> LensNetwork:
    """The lens network of the paper: control points linspace(-R, R, K), sigma = factor R / K, its own deviation."""
    shape = dict(options)
    reach, factor, deviation = (shape.pop(key) for key in ("range", "sigma_factor", "deviation"))
    shape |= {"control_range": (-reach, reach), "sigma": factor * reach / shape["basis"]}
    shape["optical_length"] = shape.pop("horizon", 1.0)  # the paper's name, which the studies keep
    network = LensNetwork(n_in, n_out, generator=generator, **shape)
    with torch.no_grad():
        network.coefficients.mul_(deviation / COEFFICIENT_STD)
    return network


def problem_of(spec: Mapping[str, Any]) -> Problem:
    """The data of a run, standardised by its training inputs."""
    cut = _many_trajectories if spec["kind"] == "multi-trajectory" else _one_trajectory
    return cut(spec["system"], canonical(spec["data"]))


@lru_cache(maxsize=16)
def _one_trajectory(system: str, content: str) -> Problem:
    data = json.loads(content)
    steps, test_pairs, first = data["steps"], data.get("test_pairs", 1), data["burn_in"] + data["pairs"]
    states = simulate(simulator(system), first + max(steps, test_pairs), dtype=data["dtype"])
    return _standardised(
        *_pairs(states[data["burn_in"] : first + 1]),
        states[first][None],
        states[first + 1 : first + 1 + steps][None],
        *_pairs(states[first : first + test_pairs + 1]),
    )


@lru_cache(maxsize=10)
def _many_trajectories(name: str, content: str) -> Problem:
    data, system = json.loads(content), simulator(name)
    burn_in, windows, steps = data["train_burn_in"], data["windows"], data["steps"]

    def trajectories(seeds: Sequence[int], length: int) -> Array:
        starts = np.stack([perturbed(system.start(), seed, data["perturbation"]) for seed in seeds])
        return simulate(system, length, starts=starts, dtype=data["dtype"])

    couples = [_pairs(states[burn_in:]) for states in trajectories(data["train"], burn_in + data["pairs"])]
    tests = trajectories(data["test"], max(windows) + steps)
    none = np.empty((0, system.size))
    return _standardised(
        np.concatenate([x for x, _ in couples]),
        np.concatenate([y for _, y in couples]),
        np.stack([one[first] for one in tests for first in windows]),
        np.stack([one[first + 1 : first + 1 + steps] for one in tests for first in windows]),
        none,
        none,
    )


def _pairs(states: Array) -> tuple[Array, Array]:
    """Each state and its successor."""
    return states[:-1], states[1:]


def _standardised(inputs: Array, *others: Array) -> Problem:
    scaling = Standardizer.fit(inputs)
    return Problem(*(scaling.transform(values) if len(values) else values for values in (inputs, *others)))


def _tensor(values: Array, dtype: torch.dtype) -> torch.Tensor:
    if not np.isfinite(values).all():
        raise InputError("a run needs finite data, got NaN or infinity")
    return torch.from_numpy(values).to(dtype)
