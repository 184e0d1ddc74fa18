"""Several models fitted to the same data by the same fitter, and scored on the same rollouts that none has seen."""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from lln import __version__
from lln.core.errors import InputError, check_int, choice, did_you_mean, finite, positive
from lln.core.safe_files import whole_file
from lln.core.workers import one_thread
from lln.data.read.formats import as_dataset
from lln.data.series import HORIZON, Dataset
from lln.data.stream import with_input_lags
from lln.evaluate.metrics import VALID_RMSE, mse_by_step, valid_prediction_steps
from lln.fit.choice.gaps import has_gaps, with_gaps_filled
from lln.fit.choice.holdout import MOST_HISTORY, Fold, Part, load, rows_before
from lln.fit.choice.noise_and_seasons import longest_history
from lln.fit.choice.representation import LAGS
from lln.fit.closed.linear import units_of
from lln.fit.learn import learn
from lln.fit.options import Recipe
from lln.forecaster.comparison.competitors import (
    POLYNOMIAL,
    Fitted,
    Request,
    fit_reference,
    fit_request,
    given_model,
    too_large,
)
from lln.forecaster.comparison.result import Comparison, Score
from lln.forecaster.forecaster import LensForecaster
from lln.forecaster.layout import TrainingFingerprint
from lln.forecaster.references import REFERENCES
from lln.forecaster.scoring.scored_rows import ORIGINS, rolling_origins, true_runs, unmarked
from lln.models import MODELS
from lln.models.factory import state_networks
from lln.step.frame import Array

Options = LensForecaster | Mapping[str, Any]
SIMPLE = (*REFERENCES, POLYNOMIAL)
ALL = (*MODELS, *SIMPLE)
TEST_FRACTION = 0.2
MOST_TEST_FRACTION = 0.5
_TEST_DATA = "test data"
_PLAIN = ("history", "parameters", "seconds", "note", "noisy", "parts")


@one_thread
def compare(
    train: Any,
    test: Any = None,
    *,
    models: Sequence[str] | Mapping[str, Options] = ALL,
    others: Mapping[str, Any] | None = None,
    recipe: Recipe | Options | None = None,
    seeds: Sequence[int] = (0,),
    depths: Sequence[int] | None = None,
    steps: int | None = None,
    windows: int | None = ORIGINS,
    starts: Sequence[int] | None = None,
    threshold: float = VALID_RMSE,
    exponent: float | None = None,
    dt: float | None = None,
    progress: Callable[[Any], None] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> Comparison:
    """Fit every model to the same data with the same options, and score all of them on the same unseen rollouts.

    Short gaps are filled in for all models where `LensForecaster` would fill them in, and nothing is scored on them.
    Models are ranked as the fitter ranks candidates: by the mean over lead times of the log error, up to the lead time
    at which the best model loses the truth, from rolling origins, with differences paired by rollout.

    Args:
        train: trajectories, in any form that `as_dataset` takes. On a grid the fitter decides between a dense map and
            field networks, as `LensForecaster` does.
        test: other trajectories to score on, without rows that are also in `train`; or the last fraction of each
            trajectory to keep unseen. None keeps a fifth (more if that is shorter than `steps`).
        models: names of networks ("lens", "mlp", ...) and references ("persistence", "mean", "seasonal", "linear",
            "polynomial", "analog", "kernel", "esn"); or estimators or keyword arguments of `LensForecaster` by a name
            of your own.
        others: your own models, by name: a step (..., n) -> (..., n), or an object with `rollout(window, steps,
            inputs)` as a `Step` has it. They are scored as they are.
        recipe: options of all networks: keyword arguments of `LensForecaster`, or an estimator; `model` and
            `random_state` are set here. None takes the defaults.
        seeds: one fit of every network for each.
        depths: depths to choose from for each network, on held-out rollouts of up to three of the seeds; None leaves
            the depth to the recipe.
        steps: length of a rollout, shorter if the test data is; None takes 500, or six tenths of the test data.
        windows: the largest number of rollouts, evenly spread, which may overlap; None takes all.
        starts: rows of every test trajectory from which rollouts start, in place of an even choice.
        threshold: error that ends a valid prediction, in standard deviations of the training data.
        exponent: the true system's largest Lyapunov exponent, per unit of time, to show valid times in Lyapunov times.
        dt: time step, if the data does not contain it.
        progress: callback that receives the events of the fits, each with the model's name as its group.
        checkpoint: file that stores each model's score; the same comparison continues from it.

    Returns:
        Scores, tables and a figure.
    """
    models = (models,) if isinstance(models, str) else models
    named = models if isinstance(models, Mapping) else {}
    known = [*state_networks(), *SIMPLE, *named]
    every = [*(choice("model", name, known) for name in models), *(others or {})]
    if not every or not seeds or len(set(every)) < len(every) or len(set(seeds)) < len(seeds):
        raise InputError(f"compare needs at least one model and one seed, each of them once, got {every} and {seeds}")
    unit = positive("threshold", threshold)
    steps = None if steps is None else check_int("steps", steps, 1)
    windows = None if windows is None else check_int("windows", windows, 1)
    exponent = None if exponent is None else finite("exponent", exponent)
    base = _request(recipe)
    requests = {
        name: _request(named[name]) if name in named else base.named(name) for name in models if name not in REFERENCES
    }
    given = {name: given_model(name, model) for name, model in (others or {}).items()}
    data = as_dataset(train, dt=dt)
    split = _split_data(data, test if test is None or isinstance(test, int | float) else as_dataset(test, dt=dt), steps)
    digests = {"data": split.fitting.digest(), "test": split.data.digest()}
    split = split.with_gaps_filled(next(iter(requests.values()), base))
    left_out = {name: why for name in every if models is ALL and (why := too_large(name, split.fitting))}
    every = [name for name in every if name not in left_out]
    requests = {name: one for name, one in requests.items() if name not in left_out}
    least = max([MOST_HISTORY, *(one.history for one in given.values())])
    longest = [longest_history(split.fitting, one.recipe.history) for one in requests.values()]
    longest += [REFERENCES[name].longest(split.fitting) for name in every if name in REFERENCES]
    longest += [LAGS[-1] + 1] if split.fitting.inputs else []
    fold, room = split.origins(least, max([least, *longest]), steps, windows, starts)
    asked = {
        "lln": __version__,
        **digests,
        "windows": hashlib.sha256(repr((fold.windows, fold.steps)).encode()).hexdigest(),
        "seeds": seeds,
        "depths": depths,
        "threshold": unit,
        "models": {name: one.record() for name, one in requests.items() if name in named},
        "recipe": base.record(),
    }
    scale = units_of(split.fitting).scale
    stored = StoredScores(None if checkpoint is None else Path(checkpoint), asked)
    scores = []
    for name in every:
        score = None if name in given else stored.scores.get(name)
        if score is None:
            if name in given:
                fits = [given[name]]
            elif name in requests:
                fits = fit_request(requests[name], split.fitting, seeds, depths, _grouped(name, progress))
            else:
                fits = [fit_reference(name, split.fitting, room)]
            score = _score(name, fits, split.data, fold, scale, unit)
            stored.put(score)
        scores.append(score)
    return Comparison(
        scores=tuple(scores),
        references=tuple(name for name in models if name in SIMPLE),
        steps=fold.steps,
        windows=len(fold.windows),
        seeds=tuple(int(seed) for seed in seeds),
        dt=split.fitting.dt,
        threshold=unit,
        exponent=exponent,
        scored=split.scored,
        rows=sum(last - first for _, first, last in fold.held_out),
        time_unit=data.units.get("time", "").partition(" since ")[0],
        left_out=left_out,
        filled="" if split.fitting.filling is None else split.fitting.notes[-1],
    ).ranked()


def _request(options: Recipe | Options | None) -> Request:
    """From a recipe, an estimator or keyword arguments of one."""
    if isinstance(options, Recipe):
        return Request(options)
    given = keyword_options(options)
    field, seed = given.pop("field", "auto"), given.pop("random_state", 0) or 0
    given.pop("verbose", None)
    return Request(Recipe.from_record({"seed": seed, **given}), field)


def _grouped(name: str, progress: Callable[[Any], None] | None) -> Callable[[Any], None] | None:
    """A callback that adds the model's name to each event."""
    if progress is None:
        return None
    return lambda event: progress(replace(event, group=name))


@dataclass(frozen=True, eq=False)
class _Split:
    """Training data, and the rows that are predicted."""

    fitting: Dataset
    data: Dataset  # what is scored on; rows of it may have trained
    parts: tuple[Part, ...]  # rows of it that may be predicted
    scored: str  # its name in titles
    whole: bool  # whether it is test data without a row that trained

    def with_gaps_filled(self, request: Request) -> _Split:
        """The same with short gaps filled in for every model, if a fit by `request` fills them; none is predicted."""
        if not has_gaps(self.fitting):
            return self
        fit = learn(self.fitting, request.recipe, field=request.field)
        fitting = with_gaps_filled(self.fitting, fit.report, request.recipe)
        if fitting.filling is None:
            return self
        data = fitting.filling.of_dataset(self.data)
        parts = tuple(
            (index, int(begin + first), int(begin + last))
            for index, begin, end in self.parts
            for first, last in true_runs(~data.series[index].filled[begin:end])
        )
        return replace(self, fitting=fitting, data=data, parts=parts)

    def origins(
        self, least: int, longest: int, steps: int | None, count: int | None, starts: Sequence[int] | None
    ) -> tuple[Fold, int]:
        """The rollouts, and the number of states given before each: as many as a model may look at, if there are."""
        if starts is not None:
            return self._from(starts, least, HORIZON if steps is None else steps)
        for history in dict.fromkeys((longest, least)):
            fold = rolling_origins(self.data, self.parts, history, steps, count)
            if fold.windows:
                return fold, history
        raise InputError(
            f"nothing to score on: no {least + 1} neighbouring rows without a gap are left beside the training data; "
            "give longer trajectories or test data"
        )

    def _from(self, starts: Sequence[int], least: int, steps: int) -> tuple[Fold, int]:
        """The rollouts from the rows that the caller named."""
        if self.scored != _TEST_DATA:
            raise InputError("starts are rows of the test data; give test, or leave starts out")
        if not self.whole:
            raise InputError("some rows of the test data are in the training data; leave them out, or leave starts out")
        rows = [check_int("start", row, 0) for row in starts]
        places = [(index, row) for index in range(len(self.data.series)) for row in rows]
        room = []
        for index, row in places:
            first = row - least + 1
            inside = [a for i, a, b in self.data.stretches(1) if i == index and a <= first and row + 1 + steps <= b]
            if not inside or self.data.series[index].filled[row : row + 1 + steps].any():
                raise InputError(
                    f"a rollout of {steps} steps from row {row} of trajectory {index} needs rows {first} to "
                    f"{row + steps} without a gap, but the trajectory has {self.data.lengths[index]} rows"
                )
            room.append(row - inside[0] + 1)
        return Fold((), self.parts, tuple(places), steps), min(room)


def _split_data(data: Dataset, test: Dataset | float | None, steps: int | None) -> _Split:
    """Split the data, or check the test data against it."""
    if not isinstance(test, Dataset):
        share = positive("test", test) if test is not None else None
        share = share or min(max(TEST_FRACTION, (steps or 0) / max(data.lengths)), MOST_TEST_FRACTION)
        fitting = data.split(share)[0]
        parts = tuple((i, length - max(1, round(share * length)), length) for i, length in enumerate(data.lengths))
        return _Split(fitting, data, parts, "the last part of the data", whole=False)
    if test.size != data.size or test.inputs != data.inputs:
        raise InputError(
            f"the test data has {test.size} columns and {test.inputs} inputs but the training data {data.size} and "
            f"{data.inputs}; compare needs the same ones"
        )
    if abs(test.dt - data.dt) > 1e-6 * data.dt:
        raise InputError(f"the test data has time step {test.dt:g} but the training data {data.dt:g}; resample one")
    known = TrainingFingerprint.of(data, [(i, 0, length) for i, length in enumerate(data.lengths)])
    seen = [known.seen(one) for one in test.series]
    if all(rows.all() for rows in seen):
        raise InputError(
            "every row of the test data is in the training data; leave test out to hold its last part back"
        )
    return _Split(data, test, unmarked(seen), _TEST_DATA, whole=not any(rows.any() for rows in seen))


def _score(name: str, fits: Sequence[Fitted], data: Dataset, fold: Fold, scale: Array, threshold: float) -> Score:
    """The score of one model with a fit for each seed; `scale` (n,) is the standard deviation of the training data."""
    errors, valid, room = [], [], rows_before(data, fold)
    for fit in fits:
        if fit.history > room:
            raise InputError(
                f"{name} looks at {fit.history} states at a time, but only {room} rows lie before each "
                f"rollout; give longer test data or later starts, or fit with history={room} or less"
            )
        windows = load(with_input_lags(data, fit.input_lags, hold=True), fold, fit.history, scale)
        with np.errstate(all="ignore"):
            predicted = fit.rollout(windows.start, fold.steps, windows.inputs)
        # From the first state that is not finite on, a rollout is lost, whatever follows.
        lost = np.maximum.accumulate(~np.isfinite(predicted).all(axis=-1), axis=-1)
        predicted = np.where(lost[..., None], np.nan, predicted)
        errors.append(mse_by_step(predicted, windows.truth, scale))
        valid.append(valid_prediction_steps(predicted, windows.truth, scale, threshold))
    return Score(
        name,
        np.stack(errors),
        np.stack(valid),
        history=max(fit.history for fit in fits),
        parameters=max((fit.parameters for fit in fits if fit.parameters is not None), default=None),
        seconds=float(np.mean([fit.seconds for fit in fits])),
        note=", ".join(sorted({fit.note for fit in fits if fit.note})),
        noisy=any(fit.noisy for fit in fits),
        parts=tuple(fit.part for fit in fits if fit.part),
    )


class StoredScores:
    """The file of one comparison, identified by a digest of all but the model that its scores depend on (`asked`)."""

    def __init__(self, path: Path | None, asked: Mapping[str, Any]) -> None:
        self.path = path
        self.digest = hashlib.sha256(json.dumps(asked, sort_keys=True, default=str).encode()).hexdigest()[:32]
        self.scores = {} if path is None or not path.is_file() else self._read(path)

    def put(self, score: Score) -> None:
        """Store one more score."""
        self.scores[score.name] = score
        if self.path is None:
            return
        arrays: dict[str, Any] = {}
        for k, one in enumerate(self.scores.values()):
            arrays |= {f"errors{k}": one.errors, f"valid{k}": one.valid}
        plain = {name: {key: getattr(one, key) for key in _PLAIN} for name, one in self.scores.items()}
        said = json.dumps({"format": 1, "digest": self.digest, "models": plain})
        with whole_file(self.path) as partial, partial.open("wb") as file:
            np.savez(file, allow_pickle=False, said=np.array(said), **arrays)

    def _read(self, path: Path) -> dict[str, Score]:
        """The scores of an earlier run of the same comparison; none if the file is of another one, or damaged."""
        try:
            with np.load(path, allow_pickle=False) as arrays:
                said = json.loads(str(arrays["said"]))
                if said["digest"] != self.digest:
                    return {}
                return {
                    name: Score(name, arrays[f"errors{k}"], arrays[f"valid{k}"],
                                **{**plain, "parts": tuple(plain["parts"])})
                    for k, (name, plain) in enumerate(said["models"].items())
                }  # fmt: skip
        except OSError as error:
            raise InputError(
                f"{path}: the checkpoint cannot be read ({error.strerror}); change its permissions or give another"
            ) from error
        except (ValueError, KeyError, TypeError, zipfile.BadZipFile):
            return {}


_OTHER_NAMES = {"seed": "random_state", "horizon": "optical_length"}


def keyword_options(given: LensForecaster | Mapping[str, Any] | None) -> dict[str, Any]:
    """The keyword arguments of `LensForecaster` that differ from its defaults.

    Args:
        given: an estimator, a mapping of keyword arguments, or None for the defaults. `seed` and `horizon` are
            other names for `random_state` and `optical_length`.
    """
    defaults = LensForecaster._parameters()
    if given is None:
        return {}
    if isinstance(given, LensForecaster):
        given = {name: value for name, value in given.get_params(deep=False).items() if value != defaults[name]}
    if not isinstance(given, Mapping):
        raise InputError(f"options are keyword arguments of LensForecaster or an estimator, got {type(given).__name__}")
    options = {_OTHER_NAMES.get(name, name): value for name, value in given.items()}
    for old, name in _OTHER_NAMES.items():
        if old in given and name in given:
            raise InputError(f"{old} is another name of {name}; give one of the two")
    for name in options:
        if name not in defaults:
            raise InputError(
                f"LensForecaster has no option {name!r}{did_you_mean(str(name), defaults)}", topic="unknown-name"
            )
    return options
