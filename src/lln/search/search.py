"""Which sizes and which training fit these data best: a search by Optuna over the recipe's open choices.

Trials live in a database (SQLite by default, any Optuna storage URL), so a search that was killed goes on where it
was, and workers of a Dask cluster share it. Needs the extra `search`.
"""

from __future__ import annotations

import math
import os
import re
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np

from lln.core.checks import positive, whole
from lln.core.errors import InputError, choice
from lln.core.seeding import subseed
from lln.core.table import Table
from lln.core.workers import Crew, DaskCrew, LocalCrew, Task
from lln.data.dataset import Dataset, as_dataset
from lln.fit.learn import learn
from lln.fit.options import Fit, Recipe
from lln.fit.sizes import updates_for
from lln.fit.trial import BATCH
from lln.search import storage as shelf

OBJECTIVES = ("rollout", "parameters", "latency")
STORAGE = "lln-search.db"
NAME = "lln"
# What is tried for a choice that the caller leaves open: a list to choose from, or a range on a logarithmic scale.
SPACE: Mapping[str, tuple[Any, ...]] = {
    "width": (16, 32, 64, 96, 128, 192, 256),
    "basis": (6, 8, 12, 16, 24),
    "batch_size": (64, 128, 256, 512),
}
RANGES: Mapping[str, tuple[float, float]] = {
    "depth": (2, 40),
    "horizon": (0.25, 4.0),
    "learning_rate": (1e-3, 1e-2),
}
# A trial is first trained for a part of its epochs with one member; what falls behind there is given up.
RUNGS = (0.1, 0.3)
_TRIALS_AT_MOST = 1000
_SHOWN = 10
_BEAT_SECONDS = 15.0
_LATENCY_STEPS, _LATENCY_TIMES = 50, 7
_UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0}

Listener = Callable[["Progress"], None]


@dataclass(frozen=True)
class Progress:
    """Where a search stands, for whoever shows it.

    Attributes:
        phase: "search".
        done: trials that came to an end.
        total: trials that the budget allows; None if it is a time.
        message: the best error so far.
    """

    phase: str
    done: int
    total: int | None
    message: str


@dataclass(frozen=True)
class Trial:
    """One set of choices and what came of it.

    Attributes:
        number: in the study.
        state: "complete", "pruned" or "failed".
        options: the recipe's choices.
        values: by objective; empty unless complete.
    """

    number: int
    state: str
    options: Mapping[str, Any]
    values: Mapping[str, float]


@dataclass(frozen=True)
class Found:
    """What a search found.

    Attributes:
        name: of the study.
        storage: its URL.
        objectives: what was minimised.
        fixed: the recipe's choices that the caller made.
        trials: all that came to an end, in order.
        front: those that no other beats in every objective, the lowest rollout error first.
    """

    name: str
    storage: str
    objectives: tuple[str, ...]
    fixed: Mapping[str, Any]
    trials: tuple[Trial, ...]
    front: tuple[Trial, ...]

    @property
    def best(self) -> Trial:
        """The trial of the lowest held-out rollout error."""
        return self.front[0]

    @property
    def options(self) -> dict[str, Any]:
        """The best trial's choices and the fixed ones: keyword arguments of `Recipe` or `LensForecaster`."""
        return {**self.fixed, **self.best.options}

    @property
    def table(self) -> Table:
        """The ten best trials, the lowest rollout error first; those of the front in bold."""
        done = sorted((t for t in self.trials if t.values), key=lambda t: t.values["rollout"])[:_SHOWN]
        keys = sorted({key for trial in done for key in trial.options})
        rows = [
            [str(t.number), *(t.values[o] for o in self.objectives), *(t.options.get(k, "-") for k in keys)]
            for t in done
        ]
        bold = [(i, 1) for i, trial in enumerate(done) if trial in self.front]
        heads = {"rollout": "held-out nmse", "latency": "seconds a step"}
        columns = ["trial", *(heads.get(o, o) for o in self.objectives), *(key.replace("_", " ") for key in keys)]
        return Table(columns, rows, f"Search {self.name!r}: {_counts(self.trials)}", bold)

    def record(self) -> dict[str, Any]:
        """Plain values for JSON; an error that is not finite becomes None."""

        def plain(trial: Trial) -> dict[str, Any]:
            values = {key: value if math.isfinite(value) else None for key, value in trial.values.items()}
            return {"number": trial.number, "state": trial.state, "options": dict(trial.options), "values": values}

        return {
            "name": self.name,
            "storage": self.storage,
            "objectives": list(self.objectives),
            "options": self.options,
            "best": plain(self.best),
            "front": [plain(trial) for trial in self.front],
            "trials": [plain(trial) for trial in self.trials],
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
    seed: int = 0,
    resume: bool = False,
    fixed: Mapping[str, Any] | None = None,
    progress: Listener | None = None,
    **data: Any,
) -> Found:
    """Try recipes on `trajectories` until the budget is spent, and say which did best on held-out rollouts.

    With one objective, trials that fall behind the median of the others after a part of their epochs are given up.

    Args:
        trajectories: whatever `LensForecaster.fit` takes. Workers on other machines read paths themselves.
        budget: number of trials in the study, or a time as in "90s", "20min" or "2h".
        storage: a SQLite file or any Optuna storage URL; `lln-search.db` in the working folder if left out.
        study_name: of this search in the storage.
        objectives: "rollout", the held-out rollout error, alone or with "parameters" or "latency" (seconds a step).
        jobs: worker processes of this machine.
        scheduler: address of a Dask scheduler whose workers share the trials, as in "tcp://10.0.0.5:8786".
        seed: of the proposals and of every trial's training.
        resume: go on with a search of that name; trials that were cut off are tried again.
        fixed: choices of the recipe that are not searched, as in {"history": 2, "epochs": 30}.
        progress: called after every trial.
        **data: dt, inputs and the other words of `LensForecaster.fit` about the data.
    """
    aims = _objectives(objectives)
    trials, seconds = _budget(budget)
    seed, jobs = whole("seed", seed, 0), whole("jobs", jobs, 1)
    fixed = dict(fixed or {})
    dataset = as_dataset(trajectories, **data)
    _recipe({key: value for key, value in fixed.items() if key != "field"}, seed)
    url = shelf.storage_url(STORAGE if storage is None else storage)
    shelf.refuse_damaged(url)
    with shelf.opened(url) as kept:
        study = shelf.begin(kept, study_name, aims, dataset.digest(), resume)
        begun = len(shelf.finished(study)) + shelf.retry_lost(study)
        left = trials - _ended(study)
        # Workers of other machines share no clock but the calendar's, which somebody may set.
        clock = time.monotonic if scheduler is None else time.time
        deadline = None if seconds is None else clock() + seconds
        where = _travelling(trajectories, data, dataset, jobs, scheduler)
        tasks = [
            Task(str(k), _Job(url, study_name, aims, where, fixed, seed, k, clock, deadline))
            for k in range(begun, begun + left)
        ]
        for refusal in _run(tasks, jobs, scheduler, kept):
            if refusal:
                raise InputError(refusal[0], topic=refusal[1])
            if progress is not None:
                progress(_progress(study, None if seconds is not None else trials))
        return _found(study, url, aims, fixed)


@dataclass(frozen=True)
class _Job:
    """One trial to run, wherever."""

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
        """Whether its time has passed."""
        return self.deadline is not None and self.clock() >= self.deadline


def _run(tasks: Sequence[Task], jobs: int, scheduler: str | None, storage: Any) -> Iterator[tuple[str, ...]]:
    """Run the trials here, on processes or on a cluster; yields after each, with what makes going on pointless."""
    if scheduler is None and jobs == 1:
        for task in tasks:
            if task.payload.late:
                return
            yield _attempt(task.payload, storage)
        return
    crew: Crew = LocalCrew(jobs) if scheduler is None else DaskCrew(scheduler)
    with closing(crew):
        for finished in crew.run(_elsewhere, tasks):
            if finished.error is not None:
                raise RuntimeError(f"a trial could not be run: {finished.error}")
            if finished.value is not None:
                yield finished.value


def _elsewhere(job: _Job) -> tuple[str, ...] | None:
    """One trial in a process that has to open the storage itself; None if its time has passed."""
    if job.late:
        return None
    with shelf.opened(job.url) as storage:
        return _attempt(job, storage)


def _attempt(job: _Job, storage: Any) -> tuple[str, ...]:
    """One trial: why the input is refused, and its topic, or nothing."""
    library = shelf.optuna()
    states = library.trial.TrialState
    study = shelf.load(storage, job.name, subseed(job.seed, "proposal", job.index))
    trial = study.ask()
    shelf.own(trial)
    try:
        values = _measure(trial, job)
    except library.TrialPruned:
        shelf.seal(trial, {})
        study.tell(trial, state=states.PRUNED)
    except InputError as error:
        study.tell(trial, state=states.FAIL)
        return str(error), error.topic
    except (ArithmeticError, RuntimeError, MemoryError) as error:
        # This set of choices does not work here; others may.
        trial.set_user_attr("error", f"{type(error).__name__}: {error}")
        study.tell(trial, state=states.FAIL)
    except BaseException:
        trial.set_user_attr(shelf.INTERRUPTED, True)
        study.tell(trial, state=states.FAIL)
        raise
    else:
        asked = {name: values[name] for name in job.objectives}
        shelf.seal(trial, asked)
        study.tell(trial, list(asked.values()))
    return ()


def _measure(trial: Any, job: _Job) -> dict[str, float]:
    """Train a trial's recipe, in part and then in full, and measure it."""
    dataset = job.data if isinstance(job.data, Dataset) else as_dataset(job.data[0], **job.data[1])
    proposed = propose(trial, job.fixed)
    whole_recipe = {**job.fixed, **proposed}
    field = whole_recipe.pop("field", "auto")
    beat = _beating(trial)
    if len(job.objectives) == 1:
        for rung, share in enumerate(RUNGS):
            part = {**whole_recipe, "members": 1, "epochs": _epochs(whole_recipe, share, dataset)}
            fit = learn(dataset, _recipe(part, job.seed), field=field, progress=beat)
            trial.report(_error(fit), rung)
            if trial.should_prune():
                raise shelf.optuna().TrialPruned
            # What the first rung chose about the past, the linear part and the grid need not be chosen again.
            whole_recipe = {**whole_recipe, "history": fit.recipe.history, "ridge": fit.recipe.ridge}
            field = fit.surrogate.kind == "field" if field == "auto" else field
    fit = learn(dataset, _recipe(whole_recipe, job.seed), field=field, progress=beat)
    values = {"rollout": _error(fit), "parameters": float(fit.report.parameters)}
    if "latency" in job.objectives:
        values["latency"] = latency(fit)
    return values


def propose(trial: Any, fixed: Mapping[str, Any]) -> dict[str, Any]:
    """The choices of one trial: everything in the space that is not fixed."""
    options = {key: trial.suggest_categorical(key, list(values)) for key, values in SPACE.items() if key not in fixed}
    for key, (low, high) in RANGES.items():
        if key not in fixed:
            suggest = trial.suggest_int if isinstance(low, int) else trial.suggest_float
            options[key] = suggest(key, low, high, log=True)
    return _tidy(options)


def _tidy(options: Mapping[str, Any]) -> dict[str, Any]:
    """Three digits of each number: nobody can tell more apart, and a person can type them."""
    return {key: float(f"{value:.3g}") if isinstance(value, float) else value for key, value in options.items()}


def latency(fit: Fit) -> float:
    """Seconds that one step of one rollout takes on this machine: the median of several runs."""
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
    return Recipe.from_record({"seed": seed, "refit": False, **options})


def _epochs(options: Mapping[str, Any], share: float, dataset: Dataset) -> int:
    """A share of the epochs that a recipe would train for."""
    epochs = options.get("epochs", "auto")
    if epochs == "auto":
        pairs, batch = dataset.transitions(), options.get("batch_size") or BATCH
        epochs = updates_for(pairs, batch, None) * batch / pairs
    return max(1, round(share * float(epochs)))


def _error(fit: Fit) -> float:
    error = float(fit.report.held_out_nmse)
    return error if math.isfinite(error) else math.inf


def _beating(trial: Any) -> Callable[[Any], None]:
    """A listener that now and then writes down that the trial still runs."""
    last = time.monotonic()

    def beat(_: Any) -> None:
        nonlocal last
        if time.monotonic() - last >= _BEAT_SECONDS:
            last = time.monotonic()
            trial.set_user_attr(shelf.BEAT, time.time())

    return beat


def _objectives(names: Sequence[str]) -> tuple[str, ...]:
    given = (names,) if isinstance(names, str) else tuple(names)
    for name in given:
        choice("objective", name, OBJECTIVES)
    if not given or given[0] != "rollout" or len(set(given)) != len(given):
        raise InputError(f"objectives must be 'rollout' first, then others once each, got {list(given)}")
    return given


def _budget(budget: int | str) -> tuple[int, float | None]:
    """How many trials, and how many seconds if that is the limit."""
    text = str(budget).strip().lower()
    timed = re.fullmatch(r"([0-9.]+)\s*(s|min|h)", text)
    if timed:
        try:
            return _TRIALS_AT_MOST, positive("budget", float(timed[1])) * _UNITS[timed[2]]
        except ValueError:
            pass
    try:
        return whole("budget", int(text) if isinstance(budget, str) else budget, 1), None
    except ValueError:
        raise InputError(
            f"budget must be a number of trials, or a time as in 90s, 20min or 2h, got {budget!r}"
        ) from None


def _travelling(trajectories: Any, data: Mapping[str, Any], dataset: Dataset, jobs: int, scheduler: str | None) -> Any:
    """How the data reaches the workers: paths are read there, anything else goes along with every trial."""
    if jobs == 1 and scheduler is None:
        return dataset
    paths = [trajectories] if isinstance(trajectories, (str, os.PathLike)) else trajectories
    if isinstance(paths, (list, tuple)) and all(isinstance(path, (str, os.PathLike)) for path in paths):
        places = [os.path.abspath(path) for path in paths]  # noqa: PTH100 - a URL must stay one
        return (places[0] if len(places) == 1 else places, dict(data))
    if dataset.lazy:
        raise InputError("data that stays on the disk reaches workers by its path; give the path, not the open file")
    return dataset


def _ended(study: Any) -> int:
    states = shelf.optuna().trial.TrialState
    return sum(trial.state in (states.COMPLETE, states.PRUNED) for trial in study.get_trials(deepcopy=False))


def _progress(study: Any, total: int | None) -> Progress:
    states = shelf.optuna().trial.TrialState
    done = [trial.values[0] for trial in study.get_trials(deepcopy=False) if trial.state == states.COMPLETE]
    return Progress("search", _ended(study), total, f"best held-out nmse {min(done):.3g}" if done else "")


def _found(study: Any, url: str, aims: tuple[str, ...], fixed: Mapping[str, Any]) -> Found:
    states = shelf.optuna().trial.TrialState
    names = {states.COMPLETE: "complete", states.PRUNED: "pruned", states.FAIL: "failed"}
    kept = [trial for trial in study.get_trials(deepcopy=False) if trial.state in names]
    trials = tuple(
        Trial(
            trial.number,
            names[trial.state],
            _tidy(trial.params),
            dict(zip(aims, trial.values, strict=True)) if trial.state == states.COMPLETE else {},
        )
        for trial in kept
    )
    done = [trial for trial in trials if trial.values]
    if not done:
        errors = [trial.user_attrs["error"] for trial in kept if "error" in trial.user_attrs]
        raise RuntimeError(f"no trial came to its end{': ' + errors[-1] if errors else '; give a larger budget'}")
    front = [one for one in done if not any(_beats(other, one) for other in done)]
    return Found(study.study_name, url, aims, fixed, trials, tuple(sorted(front, key=lambda t: t.values["rollout"])))


def _beats(one: Trial, other: Trial) -> bool:
    pairs = [(one.values[key], other.values[key]) for key in one.values]
    return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)


def _counts(trials: Sequence[Trial]) -> str:
    by_state = {state: sum(trial.state == state for trial in trials) for state in ("complete", "pruned", "failed")}
    return ", ".join(f"{count} {state}" for state, count in by_state.items() if count)
