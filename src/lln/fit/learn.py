"""A fit of any dataset, the one place that chooses between dense and field models; a fit continued on new data.

On a grid, held-out rollouts decide between weights of its own for every point and weights that all points share. First
the linear parts compete, a dense map and a convolution, which take seconds. Each picks history and ridge on the last
fold, and then both are judged on every fold, in the same units. If neither forecasts the field, as with chaotic fields,
linear parts do not decide; and on small grids a vector field may be far better than both. Then whole models of both
kinds are fitted and compared.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from lln.core.errors import InputError, did_you_mean
from lln.core.workers import DaskMap, Item, Mapper, Shared, Value, one_thread, serial
from lln.data.series import Dataset
from lln.data.stream import with_input_lags
from lln.fit.choice.gaps import with_gaps_filled
from lln.fit.choice.holdout import MOST_HISTORY, Fold, folds, load, roll_linear
from lln.fit.choice.models import choose_linear, ridges_of
from lln.fit.choice.representation import Logarithms, States
from lln.fit.closed.bases import ClosedChoice
from lln.fit.closed.flow_search import FlowChoice
from lln.fit.closed.forms import DRAWS, ClosedForms
from lln.fit.defaults import VALIDATION
from lln.fit.fields.recipe import FieldFitting, FieldOptions, field_identity, fit_field_surrogate
from lln.fit.fitter import DenseFitting, fit_surrogate
from lln.fit.options import Event, Fit, FitReport, Phase, Recipe, TimeLimit
from lln.fit.prepare import FrameChoice, Preparer
from lln.step.field import FieldStep
from lln.step.frame import Array
from lln.step.step import AnyStep, DenseStep
from lln.train.loop import Checkpoint, identity_of

_HISTORIES = (1, 2)
_FEW = 256  # coordinates; with more, a dense map for every fold would take minutes
_PERFECT = 1e-12  # below this both are as good as the rounding of single precision
_TIMED_STEPS = 3
_LOST = 0.1  # of the variance: a rollout that errs by more is no forecast, and of two such
_CLEARLY = 3.0  # one must be this much better to mean anything
_ENOUGH = 1e-8  # a dense model that errs by less leaves too little for training convolutions
_SMALL, _FAR = 64, 10.0  # coordinates up to which whole models compete, unless a dense map is better by this factor


@dataclass(frozen=True)
class Contest:
    """How each family did on the same held-out rollouts: normalised mean square errors, means over windows."""

    dense: float  #: of the best dense map, over all folds.
    shared: float  #: of the best convolution, over all folds.
    steps: int  #: length of the longest rollouts.
    grid: str  #: spacing and boundaries as they were found, in words.
    #: of a whole dense model, nonlinear parts included, over the last fold; None where linear parts decide.
    dense_network: float | None = None
    #: the same of convolutions; None also where the dense model left nothing to gain.
    shared_network: float | None = None
    folds: int = 1  #: ways to hold data out over which `dense` and `shared` are means; the last of them where it is 1.
    small: bool = False  #: whether the grid is small enough for vector fields of its points to be found.

    @property
    def points_share(self) -> bool | None:
        """Whether convolutions are taken, also where both are perfect, since they need far fewer numbers.

        None if whole models must be compared.
        """
        if self.dense_network is not None:
            return self.shared_network is not None and self.shared_network <= self.dense_network
        better, worse = sorted((self.dense, self.shared))
        if worse < _CLEARLY * better and better > _LOST:
            return None
        if self.small and worse > _PERFECT and self.shared < _FAR * self.dense:
            return None
        return self.shared <= max(self.dense, _PERFECT)

    def is_enough(self, dense_network: float) -> bool:
        """Whether a whole dense model with this error leaves nothing to gain for convolutions."""
        return dense_network < min(_ENOUGH, self.shared)

    def note(self) -> str:
        """The choice in a sentence, which says over which rollouts: a fit's own error is over the last fold alone."""
        chosen, other = "each point of the grid follows a rule of its own, seeing all points (a dense map)", "--field"
        if self.points_share:
            chosen, other = "all points of the grid follow one rule (a convolution)", "--no-field"
        whole = ""
        if self.dense_network is not None and self.shared_network is not None:
            errors = f"one rule {self.shared_network:.3g}, own rules {self.dense_network:.3g}"
            whole = f"; of whole models over the last fold {errors}"
        elif self.dense_network is not None:
            whole = f"; of a whole model with own rules over the last fold {self.dense_network:.3g}"
        over = "the last fold" if self.folds == 1 else f"all {self.folds} folds (the model's own error: the last alone)"
        return (
            f"{chosen}: held-out rollouts decided. Error over up to {self.steps} steps of {over}: one rule "
            f"{self.shared:.3g}, own rules {self.dense:.3g}{whole} ({self.grid}). To take the other kind, fit with "
            f"{other} (in Python: field={not self.points_share})"
        )

    def candidates(self) -> list[dict[str, Any]]:
        """Both, as a report lists what was tried."""
        linear = (("dense", self.dense), ("field", self.shared))
        trained = (("dense", self.dense_network), ("field", self.shared_network))
        rows = [{"family": name, "correction_weight": 0.0, "nmse": error} for name, error in linear]
        return rows + [{"family": name, "nmse": error} for name, error in trained if error is not None]

    def record(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


def contest(dataset: Dataset, recipe: Recipe, fitting: FieldFitting, limit: TimeLimit | None = None) -> Contest | None:
    """Let both linear parts roll out over everything that is held out; None where there is no time for dense maps.

    Args:
        dataset: on a grid.
        recipe: history and ridge, if given, hold for both.
        fitting: of the convolution, by the same recipe.
        limit: time limit of the contest; with little time the last fold alone decides.
    """
    limit = limit or TimeLimit()
    linear, ridges = fitting.linear_part()[0], ridges_of(recipe.ridge)
    preparer = Preparer(dataset)
    histories = _HISTORIES if recipe.history == "auto" else (int(recipe.history),)
    ways = _folds(dataset, recipe)
    ways = ways if dataset.size <= _FEW else ways[-1:]
    scale = _scale(preparer, recipe)
    if limit.seconds is not None:
        expected = len(ridges) * _dense_seconds(dataset, ways[-1], histories[0], scale)
        if not limit.allows(expected, "dense maps of all points"):
            return None
    began = time.monotonic()
    best = choose_linear(preparer, ways[-1:], histories, (None,), ridges, scale, late=limit.passed).best
    if not limit.allows((time.monotonic() - began) / len(ridges) * len(ways), "a contest over all folds"):
        ways = ways[-1:]
    errors = []
    for fold in ways:
        dense = preparer.prepare(fold.train, best.history).linear(best)
        windows = load(dataset, fold, best.history, scale)
        shared = FieldStep(fitting.solved(fold.train, linear))
        errors.append(
            (float(windows.log_error(roll_linear([dense], windows))[0]), _error(dataset, fold, shared, scale))
        )
    means = np.exp(np.mean(errors, axis=0))
    grid = fitting.grid.in_words(dataset.coords)
    longest = max(fold.steps for fold in ways)
    small = dataset.size <= _SMALL and "flow" in recipe.tried_parts
    return Contest(float(means[0]), float(means[1]), longest, grid, folds=len(ways), small=small)


def _dense_seconds(dataset: Dataset, fold: Fold, history: int, scale: Array) -> float:
    """Estimate how long one dense map of this history takes: its rollouts, from a few steps, and its solution."""
    windows, n = load(dataset, fold, history, scale), dataset.size
    matrix, state = np.zeros((n, n * history + dataset.inputs)), windows.start.reshape(len(windows.start), -1)
    state = np.concatenate([state, np.zeros((len(state), dataset.inputs))], axis=1)
    began = time.monotonic()
    for _ in range(_TIMED_STEPS):
        state @ matrix.T
    product = (time.monotonic() - began) / _TIMED_STEPS
    rows = dataset.rows / len(state) / 4  # the rows are summed up once for all ridges
    return product * (fold.steps + rows)


def held_out_error(dataset: Dataset, recipe: Recipe, surrogate: AnyStep) -> float:
    """The error of a whole model over the last fold, in the same units for both kinds."""
    return float(np.exp(_error(dataset, _folds(dataset, recipe)[-1], surrogate, _scale(Preparer(dataset), recipe))))


def _folds(dataset: Dataset, recipe: Recipe) -> list[Fold]:
    most = MOST_HISTORY if recipe.history == "auto" else max(int(recipe.history), MOST_HISTORY)
    return folds(dataset, recipe.validation or VALIDATION, most)


def _scale(preparer: Preparer, recipe: Recipe) -> Array:
    return preparer.prepare(None, 1 if recipe.history == "auto" else int(recipe.history)).units.scale


def _error(dataset: Dataset, fold: Fold, surrogate: AnyStep, scale: Array) -> float:
    windows = load(dataset, fold, surrogate.frame.history, scale)
    return float(windows.log_error(surrogate.rollout(windows.start, fold.steps, windows.inputs)))


# Beyond so many coordinates a matrix over the grid is not even tried.
DENSE_COORDINATES = 512
# Along a shorter side there is no neighbourhood that is not the whole side.
LEAST_POINTS = 4
# Shares of a time limit: the contest of linear parts ends by then; of what is left, for choosing a dense model and then
# one of convolutions, where whole models have to be compared.
_CONTEST_BY, _DENSE, _FIELD = 0.35, 0.45, 0.5

Field = str | bool | Mapping[str, Any]
Progress = Callable[[Any], None]
_one_piece = threading.Lock()  # torch's number of threads belongs to the process


class Strategy(Protocol):
    """One way through the pipeline: split, candidates, scores and choice, then refit and report.

    The strategy for dense states is `DenseFitting`, the one for fields `FieldFitting`.

    Attributes:
        limit: time limit of what is still to be done.
    """

    limit: TimeLimit

    def held_out_step(self) -> AnyStep:
        """Choose a model, and return it as it is before the held-out rows train it too."""
        ...

    def finish(self) -> list[Fit]:
        """Choose a model if that is not done, solve or train it on everything, and report: a fit for each seed."""
        ...


@one_thread
def learn(
    dataset: Dataset,
    recipe: Recipe,
    *,
    field: Field = "auto",
    static: Any = None,
    progress: Progress | None = None,
    checkpoint: Path | None = None,
    scheduler: str | None = None,
) -> Fit:
    """Fit a dense surrogate, or on a grid one of convolutions.

    Args:
        dataset: what to learn from.
        recipe: how.
        field: "auto" takes on a grid what does better on held-out rollouts, and convolutions where there are too many
            points for a dense map; True takes convolutions, False a dense map; a mapping means True and gives their
            options (see `FieldOptions`).
        static: fixed fields (*space, s) that field networks also see.
        progress: callback that receives an Event.
        checkpoint: a file from which a killed fit continues.
        scheduler: address of a Dask scheduler whose workers compute the independent pieces of the fit; None for none.
    """
    given = dict(field) if isinstance(field, Mapping) else {}
    known = [one.name for one in fields(FieldOptions)]
    for name in given:
        if name not in known:
            raise InputError(f"field has no option {name!r}{did_you_mean(str(name), known)}", topic="unknown-name")
    shared = points_share(dataset, recipe, field, static=static is not None)
    if shared is False and static is not None:
        raise InputError("static fields are seen by field networks alone; fit with field=True")
    with pieces_of(scheduler) as mapper:
        if shared is None:
            return _better(dataset, recipe, progress, checkpoint, mapper)
        if not shared:
            return fit_surrogate(dataset, recipe, progress=progress, checkpoint=checkpoint, mapper=mapper)
        if static is not None:
            given["static"] = static
        options = FieldOptions(**given)
        return fit_field_surrogate(
            dataset, recipe, options=options, progress=progress, checkpoint=checkpoint, mapper=mapper
        )


def learn_with_gaps(
    dataset: Dataset, recipe: Recipe, *, checkpoint: Path | None = None, **options: Any
) -> tuple[Fit, Dataset]:
    """Fit, and fit again with short gaps filled if the data is noisy; also return the data that was learned from.

    The second fit has what is left of the time limit. It has no checkpoint: the first one would refuse it, and
    networks, which take long, are rarely tried in noisy data.
    """
    limit = TimeLimit(recipe.time_limit)
    fit = learn(dataset, recipe, checkpoint=checkpoint, **options)
    filled, seconds = with_gaps_filled(dataset, fit.report, recipe), fit.report.seconds
    if filled is dataset:
        return fit, dataset
    if not limit.allows(seconds, "filling in gaps"):
        notes = (*fit.report.notes, *limit.notes())
        return replace(fit, report=replace(fit.report, notes=notes)), dataset
    rest = recipe if limit.seconds is None else replace(recipe, time_limit=limit.left())
    again = learn(filled, rest, **options)
    report = replace(again.report, dataset=dataset.digest(), seconds=seconds + again.report.seconds)
    return replace(again, recipe=replace(again.recipe, time_limit=recipe.time_limit), report=report), filled


def points_share(dataset: Dataset, recipe: Recipe, field: Field, *, static: bool = False) -> bool | None:
    """Whether points of a grid share their weights; None where held-out rollouts decide.

    Args:
        dataset: what to learn from.
        recipe: how; the paper's recipe and comparators are dense.
        field: the option of that name.
        static: whether there are fixed fields, which only field networks see.
    """
    if field is False:
        return False
    if field == "auto":
        ours = recipe.recipe == "lens" and recipe.model == "lens"
        if not (ours and 1 <= len(dataset.space) <= 3):
            return False
        if static or dataset.size > DENSE_COORDINATES:
            return True
        return None if min(dataset.space) >= LEAST_POINTS else False
    if field is not True and not isinstance(field, Mapping):
        raise InputError(f'field must be "auto", True, False or a mapping of options, got {field!r}')
    if not dataset.space:
        raise InputError("field networks need states on a grid: give grid=, or an xarray object with space dimensions")
    return True


def _better(
    dataset: Dataset, recipe: Recipe, progress: Progress | None, checkpoint: Path | None, mapper: Mapper
) -> Fit:
    """Fit what does better on held-out rollouts, and report why."""
    limit, say, options = TimeLimit(recipe.time_limit), progress or (lambda _: None), FieldOptions()
    kept = Checkpoint(checkpoint, identity_of({**field_identity(dataset, recipe, options), "field": "auto"}))

    def strategy(shared: bool, limit: TimeLimit) -> Strategy:
        if shared:
            return FieldFitting(dataset, recipe, options, say, kept, mapper, limit)
        return DenseFitting(dataset, recipe, (recipe.seed,), say, kept, None, mapper, limit)

    found, chosen = _contest(dataset, recipe, say, kept, limit.first(_CONTEST_BY)), None
    if found is not None and found.points_share is None:
        both, errors = {}, {}
        for shared, part in ((False, _DENSE), (True, _FIELD)):
            both[shared] = strategy(shared, limit.part(part))
            errors[shared] = held_out_error(dataset, recipe, both[shared].held_out_step())
            if not shared and found.is_enough(errors[shared]):
                break
        found = replace(found, dense_network=errors[False], shared_network=errors.get(True))
        kept.put("contest", found.record())
        chosen = both[bool(found.points_share)]
        chosen.limit = limit
    if found is not None:
        say(Event(Phase.GRID, 1, 1, found.note()))
    chosen = chosen or strategy(found is None or bool(found.points_share), limit.part(1.0))
    better = chosen.finish()[0]
    kept.remove()
    report = replace(better.report, seconds=time.monotonic() - limit.began)
    if found is not None:
        tried, notes = [*found.candidates(), *report.candidates], (*report.notes, found.note())
        report = replace(report, candidates=tried, notes=notes)
    return replace(better, report=report)


def _contest(dataset: Dataset, recipe: Recipe, say: Progress, kept: Checkpoint, limit: TimeLimit) -> Contest | None:
    known = kept.get("contest")
    if known is not None:
        return Contest(**known[0])
    say(Event(Phase.GRID, 0, 1, "a dense map against a convolution"))
    # A recipe without a linear part still learns from the linear parts which family fits the data.
    asked = recipe.ridge is not None
    wishes = recipe if asked else replace(recipe, ridge="auto")
    fitting = FieldFitting(dataset, wishes, FieldOptions(), say, kept if asked else None, limit=limit)
    found = contest(dataset, wishes, fitting, limit)
    if found is not None:
        kept.put("contest", found.record())
    return found


@contextmanager
def pieces_of(scheduler: str | None) -> Iterator[Mapper]:
    """What calls the pieces of a fit.

    Args:
        scheduler: address of a Dask scheduler; None for this process.
    """
    if scheduler is None:
        yield serial
        return
    with DaskMap(scheduler) as cluster:

        def mapper(function: Callable[[Shared, Item], Value], shared: Shared, items: Iterable[Item]) -> Iterator[Value]:
            threads = torch.get_num_threads()
            values: Iterator[Value] = cluster(_piece, shared, ((function, threads, item) for item in items))
            return values

        yield mapper


def _piece(shared: Any, piece: tuple[Callable[[Any, Any], Any], int, Any]) -> Any:
    """One call in a worker, with as many threads as the process that asked for it: sums round by their number."""
    function, threads, item = piece
    with _one_piece, one_thread:
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            return function(shared, item)
        finally:
            torch.set_num_threads(before)


@one_thread
def continue_fit(
    dataset: Dataset,
    recipe: Recipe,
    report: FitReport,
    *,
    field: Field = "auto",
    progress: Callable[[Any], None] | None = None,
) -> Fit:
    """Fit the structure of an earlier fit to other data.

    A closed form is solved again, with the lags, degree and ridge that were chosen; scores and intervals stay those of
    the earlier fit. A trained network is trained again in the frame and with the sizes that were chosen.

    Args:
        dataset: all rows to learn from, the earlier ones included if they still count.
        recipe: of the earlier fit, filled in.
        report: of the earlier fit.
        field: how grids are treated.
        progress: callback that receives an Event.
    """
    if not report.structure:
        return learn(dataset, recipe, field=field, progress=progress)
    given, dataset = dataset, with_input_lags(dataset, report.input_lags)
    seen = Logarithms(dataset) if report.logarithms else States(dataset)
    dataset = seen.dataset
    began, preparer = time.perf_counter(), Preparer(dataset)
    ready = preparer.prepare(None, report.history)
    if "kind" in report.structure:
        choice = ClosedChoice(**{**report.structure, "factors": tuple(report.structure.get("factors", ()))})
        if report.structure.get("flow"):
            found = tuple(map(tuple, report.structure["flow"].get("functions", ())))  # lists in a model that was loaded
            choice = replace(choice, flow=FlowChoice(**{**report.structure["flow"], "functions": found}))
        fold = folds(dataset, recipe.validation or VALIDATION, report.history)[-1]
        forms = ClosedForms(preparer, fold, ready.units.scale, recipe.seed, noisy=report.noisy)
        step = forms.step(choice, None, draws=DRAWS)
    else:
        step = DenseStep(preparer.linear(None, FrameChoice.from_structure(report.structure)))
    low, high = ((side - step.frame.mean) / step.frame.scale for side in (ready.low, ready.high))
    note = f"Solved again on {ready.pairs:,} pairs; scores and intervals are those of the earlier fit."
    notes = [one for one in report.notes if not one.startswith("Solved again")]
    report = replace(
        report,
        trajectories=len(dataset.series),
        pairs=ready.pairs,
        left_out=ready.left_out,
        region=(low.tolist(), high.tolist()),
        training_rows=tuple((index, 0, len(one)) for index, one in enumerate(dataset.series)),
        held_out_rows=(),
        source=dataset.source,
        notes=(*notes, note),
    )
    fit = seen.fit(Fit(step, recipe, report))
    return replace(fit, report=replace(fit.report, dataset=given.digest(), seconds=time.perf_counter() - began))
