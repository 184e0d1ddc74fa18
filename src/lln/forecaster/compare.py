"""Several models on the same data, under the same recipe, judged on the same rollouts that none of them has seen."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from lln import __version__
from lln.core.checks import finite, positive, whole
from lln.core.errors import InputError, choice
from lln.data.dataset import Dataset, as_dataset
from lln.data.stream import moments
from lln.evaluate.metrics import VALID_RMSE, mse_by_step, valid_prediction_steps
from lln.evaluate.rollout import rollout
from lln.fit.baselines import Analog, Linear, Persistence, Reference, TrainingMean
from lln.fit.fitter import Recipe, fit_many
from lln.fit.holdout import MOST_HISTORY
from lln.fit.linear import units_of_moments
from lln.forecaster.comparison import Comparison, Score, steady_mean
from lln.forecaster.evaluation import Window, read_windows
from lln.forecaster.fingerprint import Training
from lln.forecaster.forecaster import LensForecaster
from lln.forecaster.keywords import keyword_options
from lln.forecaster.stored_scores import KeptScores
from lln.models import MODELS
from lln.models.factory import state_networks
from lln.step.frame import Array

REFERENCES: dict[str, type[Reference]] = {
    "linear": Linear,
    "analog": Analog,
    "persistence": Persistence,
    "mean": TrainingMean,
}
ALL = (*MODELS, *REFERENCES)
Options = LensForecaster | Mapping[str, Any]
TEST_FRACTION = 0.2
MOST_TEST_FRACTION = 0.5
WINDOWS = 64
CHOOSING_SEEDS = 3


@dataclass(frozen=True, eq=False)
class _Fitted:
    """A model that is ready to roll out, and what it cost."""

    rollout: Callable[[Array, int, Array | None], Array]
    history: int = 1
    parameters: int | None = None
    seconds: float = 0.0
    note: str = ""


def compare(
    train: Any,
    test: Any = None,
    *,
    models: Sequence[str] | Mapping[str, Options] = ALL,
    others: Mapping[str, Any] | None = None,
    recipe: Recipe | Options | None = None,
    seeds: Sequence[int] = (0,),
    depths: Sequence[int] | None = None,
    steps: int = 500,
    windows: int | None = WINDOWS,
    starts: Sequence[int] | None = None,
    threshold: float = VALID_RMSE,
    exponent: float | None = None,
    dt: float | None = None,
    progress: Callable[[Any], None] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> Comparison:
    """Fit every model to the same data under the same recipe, and judge all on the same unseen rollouts.

    Args:
        train: trajectories, in any form that `as_dataset` takes.
        test: other trajectories to score on, without rows that are also in `train`; or the last fraction of each
            trajectory to keep unseen. None keeps a fifth (more if that is shorter than `steps`).
        models: names of networks ("lens", "mlp", ...) and references ("linear", "analog", "persistence", "mean"); or
            estimators or keyword arguments of `LensForecaster` by a name of your own.
        others: your own, by name: a step (..., n) -> (..., n), or an object with `rollout(window, steps, inputs)` as a
            `Step` has it. They are judged as they are.
        recipe: options of all networks: keyword arguments of `LensForecaster`, or an estimator; `model` and
            `random_state` are set here. None takes the defaults.
        seeds: one fit of every network for each.
        depths: depths to choose from for each network, on held-out rollouts of up to three of the seeds; None leaves
            the depth to the recipe.
        steps: length of a rollout; shorter if the test data is.
        windows: at most so many rollouts, evenly chosen; None takes all that fit without overlap.
        starts: rows of every test trajectory from which rollouts start, in place of an even choice.
        threshold: error that ends a valid prediction, in standard deviations of the training data.
        exponent: the true system's largest Lyapunov exponent, per unit of time, to show valid times in its units.
        dt: time step, where the data does not tell.
        progress: callback that receives the events of the fits, each with the model's name as its group.
        checkpoint: a file that keeps each model's score as it comes; the same comparison goes on from it.

    Returns:
        Scores, a table and a figure.
    """
    named = models if isinstance(models, Mapping) else {}
    known = [*state_networks(), *REFERENCES, *named]
    every = [*(choice("model", name, known) for name in models), *(others or {})]
    if len(set(every)) < len(every) or not every or not seeds:
        raise InputError(f"compare needs at least one model and one seed, each model once, got {every} and {seeds}")
    steps, unit = whole("steps", steps, 1), positive("threshold", threshold)
    exponent = None if exponent is None else finite("exponent", exponent)
    data = as_dataset(train, dt=dt)
    fraction = positive("test", test) if isinstance(test, int | float) else None
    unknown = None if test is None or fraction is not None else as_dataset(test, dt=dt)
    fitting, judging = _parts(data, unknown, steps, fraction)
    base = recipe if isinstance(recipe, Recipe) else _recipe(recipe)
    own = {name: _recipe(options) for name, options in named.items()}
    given = {name: [_given(name, model)] for name, model in (others or {}).items()}
    # As many states are given as any model may ask for, so that the rollouts do not depend on who is compared.
    fixed = base.history if isinstance(base.history, int) else 1
    history = max(MOST_HISTORY, Analog.MOST_HISTORY, fixed, *(fit.history for (fit,) in given.values()))
    unseen = judging(history)
    if starts is None:
        places, steps = _even(unseen, history, steps, windows)
    else:
        unseen, places = _asked_for(unknown, unseen, history, steps, starts)
    rows, inputs = read_windows(unseen, [Window(i, k + history, steps) for i, k in places], history)
    scale = units_of_moments(moments(fitting)).scale
    asked: dict[str, Any] = {
        "lln": __version__,
        "data": fitting.digest(),
        "seeds": seeds,
        "depths": depths,
        "steps": steps,
        "threshold": unit,
    }
    asked |= {"own": {name: one.record() for name, one in own.items()}} if own else {}
    asked |= {"rows": hashlib.sha256(rows.tobytes()).hexdigest(), "recipe": base.record()}
    kept = KeptScores(None if checkpoint is None else Path(checkpoint), asked)
    scores = []
    for name in every:
        score = None if name in given else kept.get(name)
        if score is None:
            fits = given.get(name) or _fits(name, fitting, own.get(name, base), seeds, depths, _named(name, progress))
            score = _score(name, fits, rows, inputs, history, scale, unit)
            kept.put(score)
        scores.append(score)
    return Comparison(
        scores=tuple(sorted(scores, key=lambda score: score.nmse)),
        references=tuple(name for name in models if name in REFERENCES),
        steps=steps,
        windows=len(rows),
        seeds=tuple(int(seed) for seed in seeds),
        dt=fitting.dt,
        threshold=unit,
        exponent=exponent,
        scored="the last part of the data" if unknown is None else "test data",
    )


def _recipe(options: Options | None) -> Recipe:
    """The recipe of keyword arguments or of an estimator."""
    given = keyword_options(options)
    seed = given.pop("random_state", 0)
    left_out = ("field", "verbose")
    return Recipe.from_record({"seed": seed or 0, **{k: v for k, v in given.items() if k not in left_out}})


def _named(name: str, progress: Callable[[Any], None] | None) -> Callable[[Any], None] | None:
    """The listener, told which model it is that is being fitted."""
    if progress is None:
        return None
    return lambda event: progress(replace(event, group=name))


def _parts(
    data: Dataset, test: Dataset | None, steps: int, fraction: float | None
) -> tuple[Dataset, Callable[[int], Dataset]]:
    """What trains, and a function of the history that gives what is judged: given rows, then unseen ones."""
    if test is None:
        share = fraction or min(max(TEST_FRACTION, steps / max(data.lengths)), MOST_TEST_FRACTION)
        return data.split(share)[0], lambda history: data.split(share, overlap=history)[1]
    if test.size != data.size or test.inputs != data.inputs:
        raise InputError(
            f"the test data has {test.size} columns and {test.inputs} inputs but the training data {data.size} and "
            f"{data.inputs}; compare needs the same ones"
        )
    if abs(test.dt - data.dt) > 1e-6 * data.dt:
        raise InputError(f"the test data has time step {test.dt:g} but the training data {data.dt:g}; resample one")
    known = Training.of(data, [(i, 0, length) for i, length in enumerate(data.lengths)])
    seen = [known.seen(one) for one in test.series]
    if all(rows.all() for rows in seen):
        raise InputError(
            "every row of the test data is in the training data; leave test out to hold its last part back"
        )

    def judging(history: int) -> Dataset:
        parts = []
        for index, rows in enumerate(seen):
            edges = np.flatnonzero(np.diff(np.r_[True, rows, True].astype(np.int8))).reshape(-1, 2)
            parts += [(index, max(0, int(first) - history), int(last)) for first, last in edges]
        return test.select(parts)

    return data, judging


def _even(unseen: Dataset, history: int, steps: int, most: int | None) -> tuple[list[tuple[int, int]], int]:
    """Rollouts without a gap and without overlap of their truths: trajectory and first given row, and their length."""
    longest = max((last - first for _, first, last in unseen.stretches(1)), default=0) - history
    if longest < 1:
        raise InputError(
            f"nothing to judge on: no {history + 1} neighbouring rows without a gap are left beside the training data; "
            "give longer trajectories or test data"
        )
    steps = min(steps, longest)
    places = [(i, k) for i, a, b in unseen.stretches(history + steps) for k in range(a, b - history - steps + 1, steps)]
    if most is not None and len(places) > whole("windows", most, 1):
        places = [places[int(k)] for k in np.linspace(0, len(places) - 1, most).round()]
    return places, steps


def _asked_for(
    test: Dataset | None, unseen: Dataset, history: int, steps: int, starts: Sequence[int]
) -> tuple[Dataset, list[tuple[int, int]]]:
    """The rollouts from the rows that the caller named."""
    if test is None:
        raise InputError("starts are rows of the test data; give test, or leave starts out")
    if unseen.rows < test.rows:
        raise InputError("some rows of the test data are in the training data; leave them out, or leave starts out")
    places = [(i, whole("start", row, 0) - history + 1) for i in range(len(test.series)) for row in starts]
    for index, first in places:
        if not any(i == index and a <= first and first + history + steps <= b for i, a, b in test.stretches(1)):
            raise InputError(
                f"a rollout of {steps} steps from row {first + history - 1} of trajectory {index} needs rows {first} "
                f"to {first + history + steps - 1} without a gap, but the trajectory has {test.lengths[index]} rows"
            )
    return test, places


def _fits(
    name: str,
    data: Dataset,
    recipe: Recipe,
    seeds: Sequence[int],
    depths: Sequence[int] | None,
    progress: Callable[[Any], None] | None,
) -> list[_Fitted]:
    """One fit for each seed; one in all where no seed plays a part."""
    if name in REFERENCES:
        begin = time.perf_counter()
        model = REFERENCES[name]().fit(data)
        return [_Fitted(model.rollout, model.history, model.parameters, time.perf_counter() - begin, model.note)]
    own = recipe
    if name in state_networks():
        lens = name == "lens"
        basis, horizon = (recipe.basis, recipe.horizon) if lens else (None, None)
        own = replace(recipe, model=name, basis=basis, horizon=horizon)
    if depths is not None:
        own = _best_depth(data, own, seeds[:CHOOSING_SEEDS], depths, progress)
    found = []
    for fit in fit_many(data, own, seeds, progress=progress):
        note = f"share {fit.report.share:g}, history {fit.report.history}" + (f", depth {own.depth}" if depths else "")
        parts = (fit.surrogate.frame.history, fit.report.parameters, fit.report.seconds / len(seeds), note)
        found.append(_Fitted(fit.surrogate.rollout, *parts))
    return found


def _best_depth(
    data: Dataset,
    recipe: Recipe,
    seeds: Sequence[int],
    depths: Sequence[int],
    progress: Callable[[Any], None] | None,
) -> Recipe:
    """The recipe with the depth whose held-out rollouts are best, in the geometric mean over seeds."""

    def error(depth: int) -> float:
        fits = fit_many(data, replace(recipe, depth=depth), seeds, progress=progress)
        return steady_mean(np.array([float(fit.report.held_out_nmse) for fit in fits]))

    return replace(recipe, depth=min((whole("depth", depth, 1) for depth in depths), key=error))


def _given(name: str, model: Any) -> _Fitted:
    """A user's own model: an object that rolls out windows, or a step."""
    own = getattr(model, "rollout", None)
    if callable(own):
        frame = getattr(model, "frame", model)
        count = getattr(model, "parameters", None)
        if callable(count):  # a torch module
            count = sum(parameter.numel() for parameter in count())
        return _Fitted(own, int(getattr(frame, "history", 1)), count)
    if not callable(model):
        raise InputError(f"{name} must be a step (a function of states) or have a method rollout, got {type(model)}")
    return _Fitted(lambda window, steps, _: rollout(model, window[..., -1, :], steps).predicted.astype(np.float64))


def _score(
    name: str, fits: Sequence[_Fitted], rows: Array, inputs: Array | None, given: int, scale: Array, threshold: float
) -> Score:
    truth = rows[:, given:]
    errors, valid = [], []
    for fit in fits:
        predicted = fit.rollout(rows[:, given - fit.history : given], truth.shape[1], inputs)
        # From the first state that is not finite on, a rollout is lost, whatever it says later.
        lost = np.maximum.accumulate(~np.isfinite(predicted).all(axis=-1), axis=-1)
        predicted = np.where(lost[..., None], np.nan, predicted)
        errors.append(mse_by_step(predicted, truth, scale))
        valid.append(valid_prediction_steps(predicted, truth, scale, threshold))
    kept = [fit.parameters for fit in fits if fit.parameters is not None]
    notes = sorted({fit.note for fit in fits if fit.note})
    seconds = float(np.mean([fit.seconds for fit in fits]))
    return Score(
        name, np.stack(errors), np.stack(valid), fits[0].history, max(kept, default=None), seconds, ", ".join(notes)
    )
