"""Search for the options of `LensForecaster` that give the lowest error on held-out rollouts.

Optuna proposes the trials and keeps them in a database (SQLite by default, any Optuna storage URL). A search that was
killed resumes from it, and workers of a Dask cluster share it. Needs the extra `search`.
"""

from __future__ import annotations

import math
import os
import re
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from html import escape
from typing import Any

import numpy as np

from lln.core.errors import InputError, check_int, choice, positive
from lln.core.table import Table, number, plain
from lln.core.workers import DaskPool, LocalPool, Pool, Task
from lln.data.read.formats import as_dataset, check_options
from lln.data.series import Dataset
from lln.fit.learn import learn_with_gaps
from lln.fit.options import Fit, Recipe
from lln.fit.trials import BATCH, updates_for
from lln.forecaster.comparison.compare import keyword_options
from lln.forecaster.forecaster import LensForecaster
from lln.train.batches import subseed
from lln.tuning import storage as store

OBJECTIVES = ("rollout", "parameters", "latency")
STORAGE = "lln-search.db"
NAME = "lln"
# Values that are tried for an option that the caller leaves open: a list, or a range on a logarithmic scale.
SPACE: Mapping[str, tuple[Any, ...]] = {
    "width": (16, 32, 64, 96, 128, 192, 256),
    "basis": (6, 8, 12, 16, 24),
    "batch_size": (64, 128, 256, 512),
}
RANGES: Mapping[str, tuple[float, float]] = {
    "depth": (2, 40),
    "optical_length": (0.25, 4.0),
    "learning_rate": (1e-3, 1e-2),
}
# Options that say what is held out, what kind of step is fitted and where: the defaults share them with the trials.
SHARED = ("validation", "field", "time_limit", "device")
# Fractions of the epochs after which a trial with one member is compared with the others and may be stopped.
RUNGS = (0.1, 0.3)
_TRIALS_AT_MOST = 1000
_SHOWN = 10  # trials in the table
_BEAT_SECONDS = 15.0
_LATENCY_STEPS, _LATENCY_TIMES = 50, 7
_UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0}

Listener = Callable[["Progress"], None]


@dataclass(frozen=True)
class Progress:
    """State of a search."""

    phase: str  #: "search"
    done: int  #: number of trials that ended
    total: int | None  #: number of trials in the budget; None if the budget is a time
    message: str  #: the lowest error so far, in words


@dataclass(frozen=True)
class Trial:
    """One set of options and its scores."""

    number: int  #: index in the study
    state: str  #: "complete", "pruned" or "failed"
    options: Mapping[str, Any]  #: keyword arguments of `LensForecaster` that were tried
    values: Mapping[str, float]  #: score by objective; empty unless the trial is complete


@dataclass(frozen=True, repr=False)
class SearchResult:
    """Trials of a search."""

    name: str  #: name of the study
    storage: str  #: its database, without a password
    objectives: tuple[str, ...]  #: what was minimised
    fixed: Mapping[str, Any]  #: options that the caller set
    trials: tuple[Trial, ...]  #: all trials that ended, in order
    front: tuple[Trial, ...]  #: trials that no other beats in every objective, the lowest rollout error first
    #: score by objective of `LensForecaster` without options, on the same held-out rows; None if it could not be fitted
    defaults: Mapping[str, float] | None = None

    def __repr__(self) -> str:
        return f"{self.table}\n{self._verdict}"

    def _repr_html_(self) -> str:
        return f"{self.table._repr_html_()}<p>{escape(self._verdict)}</p>"

    @property
    def _verdict(self) -> str:
        """What to use, in one line."""
        options = ", ".join(f"{name}={value!r}" for name, value in self.options.items())
        why = "no trial has a lower error than the defaults" if self.defaults_win else f"trial {self.best.number}"
        return f"best: LensForecaster({options}), {why}"

    @property
    def best(self) -> Trial:
        """The trial with the lowest held-out rollout error."""
        return self.front[0]

    @property
    def defaults_win(self) -> bool:
        """Whether no trial has a lower held-out rollout error than the defaults."""
        return self.defaults is not None and self.defaults["rollout"] <= self.best.values["rollout"]

    @property
    def options(self) -> dict[str, Any]:
        """What has the lowest held-out rollout error, as keyword arguments of `LensForecaster`.

        These are the fixed options and those of the best trial. If no trial beats the defaults, they are those of the
        fixed options that the defaults share with the trials.
        """
        if self.defaults_win:
            return {name: value for name, value in self.fixed.items() if name in SHARED}
        return {**self.fixed, **self.best.options}

    @property
    def table(self) -> Table:
        """The ten best trials and the defaults, the lowest rollout error first; trials of the front are bold."""
        done = sorted((t for t in self.trials if t.values), key=lambda t: t.values["rollout"])[:_SHOWN]
        keys = sorted({key for trial in done for key in trial.options})
        shown = [(str(t.number), t.values, t.options, t in self.front) for t in done]
        if self.defaults is not None:
            shown.append(("defaults", self.defaults, {}, False))
            shown.sort(key=lambda row: row[1]["rollout"])
        rows = [
            [name, *(values[o] for o in self.objectives), *(options.get(k, "-") for k in keys)]
            for name, values, options, _ in shown
        ]
        bold = [(index, 1) for index, row in enumerate(shown) if row[3]]
        heads = {"rollout": "held-out NMSE", "latency": "seconds a step"}
        states = Counter(trial.state for trial in self.trials)
        counts = ", ".join(f"{states[state]} {state}" for state in ("complete", "pruned", "failed") if states[state])
        columns = ["trial", *(heads.get(o, o) for o in self.objectives), *(key.replace("_", " ") for key in keys)]
        return Table(columns, rows, f"Search {self.name!r}: {counts}", bold)

    def record(self) -> dict[str, Any]:
        """Plain values for JSON; a score that is not finite becomes None."""
        return {
            "name": self.name,
            "storage": self.storage,
            "objectives": list(self.objectives),
            "options": self.options,
            "best": plain(vars(self.best)),
            "defaults": plain(self.defaults),
            "front": [plain(vars(trial)) for trial in self.front],
            "trials": [plain(vars(trial)) for trial in self.trials],
        }


def search(
    trajectories: Any,
    budget: int | str = 20,
    *,
    storage: str | os.PathLike[str] | None = None,
    study_name: str = NAME,
    objectives: Sequence[str] = ("rollout",),
    jobs: int = 1,
    scheduler: str | None = None,
    random_state: int = 0,
    resume: bool = False,
    fixed: LensForecaster | Mapping[str, Any] | None = None,
    progress: Listener | None = None,
    **data: Any,
) -> SearchResult:
    """Fit forecasters with different options until the budget is spent, and rank them on held-out rollouts.

    With one objective, trials that are behind the median of the others after a part of their epochs are stopped. After
    the trials `LensForecaster` without options is scored in the same way, once in a study, for comparison.

    Args:
        trajectories: data in any form that `LensForecaster.fit` takes. Workers on other machines read paths themselves.
        budget: number of trials in the study, or a time as in "90s", "20min" or "2h".
        storage: a SQLite file or any Optuna storage URL; None takes `lln-search.db` in the working folder.
        study_name: name of this search in the storage.
        objectives: "rollout", the held-out rollout error, alone or with "parameters" or "latency" (seconds a step).
        jobs: number of worker processes on this machine.
        scheduler: address of a Dask scheduler whose workers share the trials, as in ``"tcp://10.0.0.5:8786"``.
        random_state: seed of the proposals and of every training.
        resume: continue the search of that name; interrupted trials are run again.
        fixed: options that are not searched: keyword arguments of `LensForecaster`, as in ``{"epochs": 30}``, or an
            estimator whose options differ from the defaults.
        progress: callback that receives a `Progress` after every trial, and before the defaults are scored.
        **data: dt, inputs and the other keyword arguments of `LensForecaster.fit` that describe the data.

    Returns:
        All trials, the best one, and what the defaults reach.
    """
    aims = _objectives(objectives)
    trials, seconds = _budget(budget)
    options = keyword_options(fixed)
    seed, jobs = check_int("random_state", options.pop("random_state", random_state), 0), check_int("jobs", jobs, 1)
    check_options(data, search)
    dataset = as_dataset(trajectories, **data)
    _recipe({key: value for key, value in options.items() if key != "field"}, seed)
    url = store.storage_url(STORAGE if storage is None else storage)
    store.refuse_damaged(url)
    with store.open_storage(url) as opened:
        study = store.begin(opened, study_name, aims, dataset.digest(), resume)
        begun = len(store.finished(study)) + store.retry_lost(study, url)
        left = trials - _ended(study)
        # Workers on other machines share only the wall clock, which can be set; here a monotonic clock is safer.
        clock = time.monotonic if scheduler is None else time.time
        deadline = None if seconds is None else clock() + seconds
        where = _sendable(trajectories, data, dataset, jobs, scheduler)
        tasks = [
            Task(str(k), _Job(url, study_name, aims, where, options, seed, k, clock, deadline))
            for k in range(begun, begun + left)
        ]
        total = None if seconds is not None else trials
        say = progress or (lambda _: None)
        for refusal in _run(tasks, jobs, scheduler, opened):
            if refusal:
                raise InputError(refusal[0], topic=refusal[1])
            best = min((trial.values[0] for trial in _trials(study, "COMPLETE")), default=None)
            say(Progress("search", _ended(study), total, "" if best is None else f"best held-out error {number(best)}"))
        found, defaults = _result(study, url, aims, options), store.defaults(study)
        if defaults is None:
            say(Progress("search", _ended(study), total, "scoring the defaults"))
            defaults = _defaults(study, dataset, aims, options, seed)
        return replace(found, defaults=defaults)


@dataclass(frozen=True)
class _Job:
    """One trial to run, on any machine."""

    url: str
    name: str
    objectives: tuple[str, ...]
    data: Any
    fixed: Mapping[str, Any]
    seed: int
    index: int
    clock: Callable[[], float]
    deadline: float | None

    @property
    def late(self) -> bool:
        """Whether the deadline has passed."""
        return self.deadline is not None and self.clock() >= self.deadline


def _run(tasks: Sequence[Task], jobs: int, scheduler: str | None, storage: Any) -> Iterator[tuple[str, ...]]:
    """Run the trials here, in processes or on a cluster; yields after each, with the error if the input is refused."""
    if scheduler is None and jobs == 1:
        for task in tasks:
            if task.payload.late:
                return
            yield _attempt(task.payload, storage)
        return
    pool: Pool = LocalPool(jobs) if scheduler is None else DaskPool(scheduler)
    with closing(pool):
        for finished in pool.run(_elsewhere, tasks):
            if finished.error is not None:
                raise RuntimeError(f"a trial could not be run: {finished.error}")
            if finished.value is not None:
                yield finished.value


def _elsewhere(job: _Job) -> tuple[str, ...] | None:
    """Run one trial in a process that opens the storage itself; None if the deadline has passed."""
    if job.late:
        return None
    with store.open_storage(job.url) as storage:
        return _attempt(job, storage)


def _attempt(job: _Job, storage: Any) -> tuple[str, ...]:
    """Run one trial; returns the message and topic if the input is refused, else an empty tuple."""
    study = store.load(storage, job.name, subseed(job.seed, "proposal", job.index))
    trial = study.ask()
    try:
        store.own(trial, job.url)
        return _run_and_report(study, trial, job)
    except store.optuna().exceptions.UpdateFinishedTrialError:
        # Another process found the trial before it had an owner, took it for abandoned, and queued it again.
        return ()


def _run_and_report(study: Any, trial: Any, job: _Job) -> tuple[str, ...]:
    """Run a trial and report its result to the study."""
    library = store.optuna()
    states = library.trial.TrialState
    try:
        values = _measure(trial, job)
    except library.TrialPruned:
        store.seal(trial, {})
        study.tell(trial, state=states.PRUNED)
    except InputError as error:
        study.tell(trial, state=states.FAIL)
        return str(error), error.topic
    except (ArithmeticError, RuntimeError, MemoryError) as error:
        # These options do not work here; others may.
        trial.set_user_attr("error", f"{type(error).__name__}: {error}")
        study.tell(trial, state=states.FAIL)
    except BaseException:
        with suppress(library.exceptions.UpdateFinishedTrialError):
            trial.set_user_attr(store.INTERRUPTED, True)
            study.tell(trial, state=states.FAIL)
        raise
    else:
        store.seal(trial, values)
        study.tell(trial, list(values.values()))
    return ()


def _measure(trial: Any, job: _Job) -> dict[str, float]:
    """Train with the options of a trial, in part and then in full, and score the result."""
    dataset = job.data if isinstance(job.data, Dataset) else as_dataset(job.data[0], **job.data[1])
    proposed = propose(trial, job.fixed)
    whole_recipe = {**job.fixed, **proposed}
    field = whole_recipe.pop("field", "auto")
    beat = _beating(trial)
    if len(job.objectives) == 1:
        for rung, share in enumerate(RUNGS):
            part = {**whole_recipe, "members": 1, "epochs": _epochs(whole_recipe, share, dataset)}
            fit, dataset = learn_with_gaps(dataset, _recipe(part, job.seed), field=field, progress=beat)
            trial.report(_error(fit), rung)
            if trial.should_prune():
                raise store.optuna().TrialPruned
            field = fit.surrogate.kind == "field" if field == "auto" else field
    fit, _ = learn_with_gaps(dataset, _recipe(whole_recipe, job.seed), field=field, progress=beat)
    return _scores(fit, job.objectives)


def _defaults(
    study: Any, dataset: Dataset, objectives: tuple[str, ...], fixed: Mapping[str, Any], seed: int
) -> dict[str, float] | None:
    """Score `LensForecaster` without options on the rows that trials hold out; None if it cannot be fitted."""
    options = {key: fixed[key] for key in SHARED if key in fixed}
    field = options.pop("field", "auto")
    try:
        scores = _scores(learn_with_gaps(dataset, _recipe(options, seed), field=field)[0], objectives)
    except (InputError, ArithmeticError, RuntimeError, MemoryError):
        return None
    store.keep_defaults(study, scores)
    return scores


def _scores(fit: Fit, objectives: tuple[str, ...]) -> dict[str, float]:
    """What was asked for, by objective."""
    measures = {"rollout": _error, "parameters": lambda fit: float(fit.report.parameters), "latency": latency}
    return {name: measures[name](fit) for name in objectives}


def propose(trial: Any, fixed: Mapping[str, Any]) -> dict[str, Any]:
    """The options of one trial: everything in the space that is not fixed."""
    options = {key: trial.suggest_categorical(key, list(values)) for key, values in SPACE.items() if key not in fixed}
    for key, (low, high) in RANGES.items():
        if key not in fixed:
            suggest = trial.suggest_int if isinstance(low, int) else trial.suggest_float
            options[key] = suggest(key, low, high, log=True)
    return _tidy(options)


def _tidy(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options as a user would type them: floats rounded to three digits, names of this version."""
    named = {("optical_length" if key == "horizon" else key): value for key, value in options.items()}
    return {key: float(f"{value:.3g}") if isinstance(value, float) else value for key, value in named.items()}


def latency(fit: Fit) -> float:
    """Seconds of one step of one rollout on this machine: the median of several runs."""
    frame = fit.surrogate.frame
    window = np.broadcast_to(frame.mean, (frame.history, frame.size))
    inputs = np.broadcast_to(frame.input_mean, (_LATENCY_STEPS, frame.inputs)) if frame.inputs else None
    taken = []
    for _ in range(_LATENCY_TIMES):
        began = time.perf_counter()
        fit.surrogate.rollout(window, _LATENCY_STEPS, inputs)
        taken.append((time.perf_counter() - began) / _LATENCY_STEPS)
    return statistics.median(taken)


def _recipe(options: Mapping[str, Any], seed: int) -> Recipe:
    given = {key: value for key, value in options.items() if key != "verbose"}
    return Recipe.from_record({"seed": seed, "refit": False, **given})


def _epochs(options: Mapping[str, Any], share: float, dataset: Dataset) -> int:
    """A fraction of the epochs of the full training."""
    epochs = options.get("epochs", "auto")
    if epochs == "auto":
        pairs, batch = dataset.transitions(), options.get("batch_size") or BATCH
        epochs = updates_for(pairs, batch, None) * batch / pairs
    return max(1, round(share * float(epochs)))


def _error(fit: Fit) -> float:
    error = float(fit.report.held_out_nmse)
    return error if math.isfinite(error) else math.inf


def _beating(trial: Any) -> Callable[[Any], None]:
    """A callback that stores a heartbeat of the trial every few seconds."""
    last = time.monotonic()

    def beat(_: Any) -> None:
        nonlocal last
        if time.monotonic() - last >= _BEAT_SECONDS:
            last = time.monotonic()
            trial.set_user_attr(store.BEAT, time.time())

    return beat


def _objectives(names: Sequence[str]) -> tuple[str, ...]:
    given = (names,) if isinstance(names, str) else tuple(names)
    for name in given:
        choice("objective", name, OBJECTIVES)
    if not given or given[0] != "rollout" or len(set(given)) != len(given):
        raise InputError(f"objectives must be 'rollout' first, then others once each, got {list(given)}")
    return given


def _budget(budget: int | str) -> tuple[int, float | None]:
    """The largest number of trials, and the seconds if the budget is a time."""
    text = str(budget).strip().lower()
    timed = re.fullmatch(r"([0-9.]+)\s*(s|min|h)", text)
    if timed:
        try:
            return _TRIALS_AT_MOST, positive("budget", float(timed[1])) * _UNITS[timed[2]]
        except ValueError:
            pass
    try:
        return check_int("budget", int(text) if isinstance(budget, str) else budget, 1), None
    except ValueError:
        raise InputError(
            f"budget must be a number of trials, or a time as in 90s, 20min or 2h, got {budget!r}"
        ) from None


def _sendable(trajectories: Any, data: Mapping[str, Any], dataset: Dataset, jobs: int, scheduler: str | None) -> Any:
    """What is sent to the workers: paths, or else the data itself."""
    if jobs == 1 and scheduler is None:
        return dataset
    paths = [trajectories] if isinstance(trajectories, (str, os.PathLike)) else trajectories
    if isinstance(paths, (list, tuple)) and all(isinstance(path, (str, os.PathLike)) for path in paths):
        places = [os.path.abspath(path) for path in paths]  # noqa: PTH100 - a URL must stay one
        return (places[0] if len(places) == 1 else places, dict(data))
    if dataset.lazy:
        raise InputError("data that stays on the disk reaches workers by its path; give the path, not the open file")
    return dataset


def _trials(study: Any, *states: str) -> list[Any]:
    """The trials of a study that are in one of these states, as Optuna names them."""
    return [trial for trial in study.get_trials(deepcopy=False) if trial.state.name in states]


def _ended(study: Any) -> int:
    return len(_trials(study, "COMPLETE", "PRUNED"))


def _result(study: Any, url: str, aims: tuple[str, ...], fixed: Mapping[str, Any]) -> SearchResult:
    names = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed"}
    ended = _trials(study, *names)
    scores = [dict(zip(aims, one.values, strict=True)) if one.state.name == "COMPLETE" else {} for one in ended]
    trials = tuple(
        Trial(one.number, names[one.state.name], _tidy(one.params), values)
        for one, values in zip(ended, scores, strict=True)
    )
    if not any(trial.values for trial in trials):
        errors = [trial.user_attrs["error"] for trial in ended if "error" in trial.user_attrs]
        raise RuntimeError(f"no trial was completed{': ' + errors[-1] if errors else '; give a larger budget'}")
    best = {trial.number for trial in study.best_trials}
    front = sorted((trial for trial in trials if trial.number in best), key=lambda trial: trial.values["rollout"])
    return SearchResult(study.study_name, store.without_password(url), aims, fixed, trials, tuple(front))
