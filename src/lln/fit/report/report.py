"""The report of a finished fit: choices, coverage, errors by lead time on rows that did not train."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch

from lln.core.errors import InputError
from lln.core.table import counted
from lln.data.series import Dataset
from lln.fit.choice.holdout import Fold, RolloutErrors, Windows, load, rolling
from lln.fit.choice.noise_and_seasons import Noise, seasons
from lln.fit.closed.bases import ClosedChoice
from lln.fit.closed.linear import spectral_radius
from lln.fit.options import Fit, FitReport, Recipe, filled_in
from lln.fit.prepare import FrameChoice, PreparedData
from lln.fit.report.intervals import (
    Intervals,
    as_at_the_end,
    as_elsewhere,
    change_along,
    may_differ,
    measured_coverage,
    spread_along,
)
from lln.models import FieldLensNetwork, LensNetwork
from lln.models.base import StateNetwork
from lln.step.frame import Array, Flow, PolynomialPart
from lln.step.step import DenseStep, Step
from lln.train.ensemble import Shape

_ROWS = 4096
_NUMBERS = 4_000_000


@dataclass(frozen=True, eq=False)
class Coverage:
    """Where hidden positions lie among the control points: outside of them lenses are flat.

    Attributes:
        outside: fraction of all hidden positions beyond the first or the last control point.
        by_layer: the same for each layer, (D,); of a field network for each layer of each block.
        low: the smallest hidden position met.
        high: the largest.
    """

    outside: float
    by_layer: Array
    low: float
    high: float

    def __str__(self) -> str:
        return f"{100 - 100 * self.outside:.1f} % of hidden positions between the control points"


def coverage(networks: Sequence[StateNetwork], features: Array, static: Array | None = None) -> Coverage:
    """Coverage of lens networks on rows of features.

    Args:
        networks: lens networks of one shape, or field networks.
        features: (rows, F), or (rows, *space, F) for field networks; rows that are not finite are left out, and of very
            many an even selection is taken.
        static: the fixed field that field networks also see, (*space, s).
    """
    kinds = (LensNetwork, FieldLensNetwork)
    lenses = [network for network in networks if isinstance(network, kinds)]
    if not lenses or len(lenses) < len(networks):
        raise InputError("coverage is defined for lens networks only; this model has none")
    rows = features[np.isfinite(features).all(axis=tuple(range(1, features.ndim)))]
    if not len(rows):
        raise InputError("coverage needs at least one finite state")
    points = math.prod(rows.shape[1:-1])
    rows = rows[np.linspace(0, len(rows) - 1, min(len(rows), max(8, _ROWS // points))).round().astype(int)]
    chunk = max(1, _NUMBERS // (points * lenses[0].width * (lenses[0].depth + 1)))
    counts, extent = [], [np.inf, -np.inf]
    for lens in lenses:
        low, high = lens.config()["control_range"]
        for first in range(0, len(rows), chunk):
            y = _positions(lens, rows[first : first + chunk], static)
            # Not inside, rather than beyond: a position that overflowed is between no two points.
            counts.append((~((y >= low) & (y <= high))).sum(axis=(1, 2)))
            extent = [min(extent[0], float(y.min())), max(extent[1], float(y.max()))]
    share = np.sum(counts, axis=0) / (len(rows) * points * sum(lens.width for lens in lenses))
    return Coverage(float(share.mean()), share, extent[0], extent[1])


def _positions(lens: LensNetwork | FieldLensNetwork, rows: Array, static: Array | None) -> Array:
    """The positions at which each layer's lens was asked, (layers, rows, h); a field's points are rows too."""
    weight = lens.readout.weight
    with torch.no_grad():
        given = torch.from_numpy(rows).to(weight.device, weight.dtype)
        if isinstance(lens, LensNetwork):
            rays = lens.states(given)[1:]
        else:
            fixed = None if static is None else torch.from_numpy(static).to(weight.device, weight.dtype)
            rays = [ray for block in lens.states(given, static=fixed) for ray in block[1:]]
        return np.asarray(torch.stack([ray.y.reshape(-1, lens.width) for ray in rays]).double().cpu().numpy())


MODEL, LINEAR = "model", "linear"
_WINDOWS = 100
_LONGEST = 200  # steps
_LARGE = 2_000_000  # numbers in the rollouts of one model
_FEW_WINDOWS, _FEW_STEPS = 8, 10
_FEW_ROLLOUTS = 3
_BETTER, _AS_GOOD = 0.1, 0.02  # differences of log errors


@dataclass(frozen=True, eq=False)
class Skill:
    """Held-out rollouts of a model and of simple references."""

    errors: dict[str, RolloutErrors]  #: by name; the model's own under "model".
    intervals: Intervals  #: from the model's errors.
    #: fraction of held-out states within 90 % intervals that other held-out states gave; None for too few.
    covered: float | None

    def into(self, report: FitReport, *, noisy: bool = False) -> FitReport:
        """The report with these results, and with a sentence where the model has no skill or is beaten."""
        table = {name: one.by_lead(noisy=noisy).tolist() for name, one in self.errors.items()}
        own = self.errors[MODEL]
        valid = own.valid_steps(noisy=noisy)
        return replace(
            report,
            lead_times=own.leads,
            skill=table,
            valid_steps=valid,
            intervals=self.intervals.record(),
            coverage_90=self.covered,
            notes=(*report.notes, *self._notes(report.part, valid, noisy)),
        )

    def _notes(self, part: str, valid: int, noisy: bool) -> list[str]:
        own, notes = self.errors[MODEL], []
        if valid < own.leads[-1]:
            notes.append(
                f"Nothing that was tried forecasts beyond {counted(valid, 'step')} on held-out rows."
                if valid
                else "Nothing that was tried forecasts even one step on held-out rows to less than half of the spread."
            )
        if len(own.values) < _FEW_ROLLOUTS:
            notes.append(
                f"Only {counted(len(own.values), 'rollout')} could be held out: errors on so few rows may be small or "
                "large by chance."
            )
        score = own.score(noisy=noisy)
        others = {
            name: one.score(noisy=noisy) - score for name, one in self.errors.items() if name not in (MODEL, LINEAR)
        }
        better = [name for name, apart in others.items() if apart < -_BETTER]
        as_good = [name for name, apart in others.items() if apart < _AS_GOOD and part not in _NAIVE]
        if better:
            notes.append(f"On held-out rows {better[0]!r} has a smaller error; use it where that is enough.")
        elif as_good:
            notes.append(f"On held-out rows {as_good[0]!r}, which is simpler, does as well as this model.")
        return notes


def measure_skill(
    dataset: Dataset,
    fold: Fold,
    scale: Array,
    model: Step[Any, Any],
    linear: Step[Any, Any] | None = None,
    others: Sequence[tuple[Fold, Step[Any, Any]]] = (),
    seconds: float = math.inf,
    final: Step[Any, Any] | None = None,
) -> Skill:
    """Roll out a model that did not see the held-out rows, from many starts among them.

    Args:
        dataset: all of it.
        fold: what trained and what was held out.
        scale: standard deviations, (n,).
        model: trained without the held-out rows.
        linear: the best linear map, as a reference.
        others: other folds, with the model trained without their held-out rows; their errors inform the intervals.
        seconds: that the rollouts of the model may take; fewer windows are rolled out, down to a few, and then over
            fewer steps.
        final: the model that learned from all rows, whose intervals these are; None if it is `model`.
    """
    longest = max(model.frame.history, 1 if linear is None else linear.frame.history)
    season = next(iter(seasons(dataset, 1)), 0)
    steps = min(fold.steps, _LONGEST)
    count = max(_FEW_WINDOWS, min(_WINDOWS, _LARGE // max(1, steps * dataset.size)))
    if math.isfinite(seconds):
        count, steps = _affordable(dataset, fold, scale, model, (count, steps), seconds)
    many = rolling(dataset, fold, longest, steps, count)
    windows = load(dataset, many, longest, scale)
    predicted = _rolled(model, windows)
    errors = {MODEL: windows.errors(predicted)}
    if linear is not None:
        errors[LINEAR] = windows.errors(_rolled(linear, windows))
    errors["persistence"] = windows.errors(np.broadcast_to(windows.start[:, -1:], windows.truth.shape))
    errors["mean"] = windows.errors(np.broadcast_to(model.frame.mean, windows.truth.shape))
    if 1 < season <= longest:
        repeated = windows.start[:, -season:][:, np.arange(windows.truth.shape[1]) % season]
        errors["seasonal"] = windows.errors(repeated)
    held = [_Rolled(model, windows, many, predicted)]
    for other, step in others:
        more = rolling(dataset, other, longest, steps, count)
        if more.steps == steps:
            held.insert(0, _Rolled.of(step, load(dataset, more, longest, scale), more))
    intervals, covered = _intervals(dataset, held, final)
    return Skill(errors, intervals, covered)


@dataclass(frozen=True, eq=False)
class _Rolled:
    """Rollouts of a model over the windows of a fold."""

    step: Step[Any, Any]
    windows: Windows
    fold: Fold
    states: Array

    @classmethod
    def of(cls, step: Step[Any, Any], windows: Windows, fold: Fold) -> _Rolled:
        return cls(step, windows, fold, _rolled(step, windows))

    @property
    def truth(self) -> Array:
        """What was measured; where nothing was, the error is that of the step before."""
        return with_errors_held(self.states, self.windows.truth)

    @property
    def start(self) -> Array:
        return self.windows.start[:, -self.step.frame.history :]

    def spread(self, step_error: Array) -> Array:
        return spread_along(self.step, self.start, self.states.shape[1], self.windows.inputs, step_error)

    def change(self) -> Array:
        return change_along(self.windows.start, self.states, self.windows.scale)


def with_errors_held(states: Array, truth: Array) -> Array:
    """The truth (W, steps, n); NaN is filled so that the error of `states` stays that of the last known step."""
    known = np.isfinite(truth)
    if known.all():
        return truth
    steps = np.arange(truth.shape[1])[None, :, None]
    last = np.maximum.accumulate(np.where(known, steps, 0), axis=1)
    held = np.nan_to_num(np.take_along_axis(states - truth, last, axis=1))
    return np.where(known, truth, states - held)


def _intervals(
    dataset: Dataset, held: Sequence[_Rolled], final: Step[Any, Any] | None
) -> tuple[Intervals, float | None]:
    """Intervals, and how much of the held-out rows others cover.

    Args:
        dataset: all of it.
        held: rollouts over held-out rows, each by a model that did not learn from them.
        final: the model that learned from all rows; None if there is none.
    """
    last = held[-1]
    windows, fold, scale, history = last.windows, last.fold, last.windows.scale, last.step.frame.history
    truth = last.truth
    first = np.where(np.isfinite(last.states), last.states, truth + scale)[:, 0] - truth[:, 0]
    step_error = np.maximum(np.sqrt(np.mean(first**2, axis=0)), np.finfo(np.float64).eps * scale)
    pairs, rows = [(one.states, one.truth) for one in held], _rows([one.fold for one in held])
    # Noise is in the starts too, which a spread from the errors of steps does not know.
    spread, change = None, None if fold.noisy else np.concatenate([one.change() for one in held])
    if not fold.noisy and may_differ(last.step, windows.start[:, -history:], windows.inputs, step_error):
        spread = np.concatenate([one.spread(step_error) for one in held])
    covered = measured_coverage(*_joined(pairs), scale, rows=rows, spread=spread, change=change)
    logarithms = getattr(last.step.frame, "logarithm", None) is not None
    intervals = Intervals.of(*_joined(pairs), scale, rows, spread, step_error, change, logarithms=logarithms)
    longest, count = windows.start.shape[1], sum(len(truth) for _, truth in pairs)
    apart = {part for one in held for part in one.fold.held_out}
    always = tuple(part for part in fold.train if part not in apart)
    trained = rolling(dataset, replace(fold, held_out=always, windows=()), longest, fold.steps, count)
    # Without noise errors depend on where the state is. Where nothing along them says how, the latest rows do.
    if final is None or not trained.windows or not (fold.noisy or intervals.follow):
        return intervals, covered
    seen = _Rolled.of(final, load(dataset, trained, longest, scale), trained)
    both = [(one.states, _rolled(final, one.windows), one.truth) for one in held]
    sizes = [intervals.spread(one.step, one.start, one.states, one.windows.inputs) for one in held]
    units = [scale if one is None else one for one in sizes]  # else the largest errors would decide
    pairs.append((as_elsewhere(seen.states, seen.truth, both, units), seen.truth))
    spread = None if spread is None else np.concatenate([spread, seen.spread(step_error)])
    rows = _rows([one.fold for one in (*held, seen)])
    change = None if change is None else np.concatenate([change, seen.change()])
    predicted, truth = _joined(pairs)
    if fold.noisy and len(dataset.series) == 1:
        starts = np.asarray([row for one in (*held, seen) for _, row in one.fold.windows])
        age = 1.0 - (starts + 1.0) / dataset.rows
        predicted = as_at_the_end(predicted, truth, age, logarithms=logarithms)
    return Intervals.of(predicted, truth, scale, rows, spread, step_error, change, logarithms=logarithms), covered


def _affordable(
    dataset: Dataset, fold: Fold, scale: Array, model: Step[Any, Any], wanted: tuple[int, int], seconds: float
) -> tuple[int, int]:
    """Numbers of windows and of steps, at most those wanted, whose rollouts take about so many seconds."""
    count, steps = wanted
    few = load(dataset, rolling(dataset, fold, model.frame.history, 1, _FEW_WINDOWS), model.frame.history, scale)
    began = time.monotonic()
    _rolled(model, few)
    each = max(time.monotonic() - began, 1e-9) / len(few.start)
    count = min(count, max(_FEW_WINDOWS, int(seconds / (each * steps))))
    return count, min(steps, max(_FEW_STEPS, int(seconds / (each * count))))


def _rows(folds: Sequence[Fold]) -> int:
    """How many rows are held out in at least one fold."""
    total, reached = 0, dict[int, int]()
    for index, first, last in sorted(part for fold in folds for part in fold.held_out):
        total += max(0, last - max(first, reached.get(index, first)))
        reached[index] = max(last, reached.get(index, last))
    return total


def _joined(pairs: Sequence[tuple[Array, Array]]) -> tuple[Array, Array]:
    predicted, truth = (np.concatenate(parts) for parts in zip(*pairs, strict=True))
    return predicted, truth


def _rolled(model: Step[Any, Any], windows: Windows) -> Array:
    start = windows.start[:, -model.frame.history :]
    with np.errstate(all="ignore"):
        return np.asarray(model.rollout(start, windows.truth.shape[1], windows.inputs))


def report_of(
    *,
    surrogate: DenseStep,
    recipe: Recipe,
    dataset: Dataset,
    ready: PreparedData,
    fold: Fold | None,
    noise: Noise,
    candidate: FrameChoice,
    correction_weight: float,
    shape: Shape | None,
    updates: int,
    tried: Sequence[dict[str, Any]],
    held_out: float,
    linear: float,
    seconds: float,
    unroll: int = 0,
    closed: ClosedChoice | None = None,
) -> Fit:
    """The surrogate with its recipe filled in and its report."""
    frame = surrogate.frame
    everything = tuple((index, 0, len(one)) for index, one in enumerate(dataset.series))
    trained = everything if ready.dataset is dataset or fold is None else fold.train
    each = shape.parameters(surrogate.members[0]) if shape is not None else 0
    entries, degree = _linear_parameters(ready, candidate), None
    if closed is not None:
        degree = closed.degree or None
        entries = frame.matrix.size + frame.size
        if frame.polynomial is not None:
            entries += int(np.count_nonzero(frame.polynomial.weights))
        if frame.part is not None:
            entries = sum(values.size for values in frame.part.arrays().values())
        if frame.flow is not None:
            weights = np.concatenate([frame.flow.polynomial.weights, frame.flow.offset[:, None]], axis=1)
            shared = closed.flow is not None and closed.flow.radius
            beside = entries if closed.kind == "lens" else 0
            entries = beside + int(np.count_nonzero(weights[:1] if shared else weights))
            degree = PolynomialPart(frame.flow.polynomial).degrees  # terms of high degree may have been left out
    low, high = ((side - frame.mean) / frame.scale for side in (ready.low, ready.high))
    options = shape.options if shape is not None else {}
    if closed is not None and closed.kind == "lens":
        first = surrogate.members[0]
        config = first.config()
        options = {name: config[name] for name in ("width", "depth", "basis", "optical_length")}
        each, correction_weight = first.readout.weight.numel(), 1.0
    part = closed.kind if closed is not None else "network" if correction_weight else "linear"
    if part == "linear" and candidate.naive != "curve" and (candidate.is_naive or not frame.matrix.any()):
        part = _naive_part(candidate, drifts=bool(frame.offset.any()))
        if part in ("persistence", "drift"):  # a matrix of zeros is no choice of the data
            entries = frame.size if part == "drift" else 0
    averaged = part == "linear" and bool(candidate.members)
    report = FitReport(
        n=dataset.size,
        trajectories=len(dataset.series),
        pairs=ready.pairs,
        left_out=ready.left_out,
        noise=noise.relative,
        noise_of_increments=noise.of_increments,
        noisy=noise.matters,
        candidates=list(tried),
        history=candidate.history,
        ridge=candidate.record()["ridge"] if closed is None else closed.ridge,
        radius=candidate.radius,
        correction_weight=correction_weight,
        part=part,
        degree=degree,
        structure={} if shape is not None else candidate.structure() if closed is None else asdict(closed),
        model=shape.model if shape is not None else "lens" if options else "",
        width=options.get("width"),
        depth=options.get("depth"),
        basis=options.get("basis"),
        optical_length=options.get("optical_length"),
        members=len(surrogate.members),
        updates=updates,
        unroll=unroll,
        parameters=entries + each * len(surrogate.members),
        parameters_per_member=each,
        linear_parameters=entries,
        seconds=seconds,
        held_out_nmse=held_out,
        linear_nmse=linear,
        held_out_steps=0 if fold is None else fold.steps,
        spectral_radius=spectral_radius(frame),
        coverage=_coverage(surrogate, ready),
        region=(low.tolist(), high.tolist()),
        training_rows=trained,
        held_out_rows=() if trained == everything or fold is None else fold.held_out,
        dataset=dataset.digest(),
        source=dataset.source,
        input_lags=dataset.input_lags,
        notes=(
            *_notes(dataset, noise, ready, "mean of maps" if averaged else part, frame.flow),
            *_constant_inputs(dataset),
        ),
    )
    return Fit(surrogate, filled_in(recipe, report), report)


_NAIVE = ("persistence", "drift", "last change", "mean", "smoothing", "seasonal naive")
_NAIVE_PARTS = {"mean": "mean", "level": "smoothing", "trend": "smoothing", "season": "seasonal naive"}


def _naive_part(candidate: FrameChoice, *, drifts: bool) -> str:
    if candidate.naive in _NAIVE_PARTS:
        return _NAIVE_PARTS[candidate.naive]
    if candidate.naive == "last":
        return "drift" if drifts else "persistence"
    return "last change" if candidate.season == 1 else "seasonal naive"


def _linear_parameters(ready: PreparedData, candidate: FrameChoice) -> int:
    n, near = ready.dataset.size, ready.near(candidate.radius)
    if candidate.is_naive:
        return 0 if candidate.ridge is None else n
    if candidate.inputs_alone:
        return n * ready.dataset.inputs + n
    if candidate.differences:
        return n * n * candidate.differences + n * candidate.drift
    matrix = n * n * candidate.history if near is None else int(near.sum()) * candidate.history
    return matrix + n * ready.dataset.inputs + n


def _coverage(surrogate: DenseStep, ready: PreparedData) -> float | None:
    merged = surrogate.merged() if surrogate.frame.gain.any() else None
    if merged is None:
        return None
    frame = surrogate.frame
    if ready.in_memory:
        return coverage([merged], ready.some(ready.units, _ROWS)[0]).outside
    windows = ready.dataset.windows(frame.history, _ROWS)
    if frame.inputs:
        return None
    return coverage([merged], frame.feature_rows(windows)).outside


_USES = {
    "persistence": "Nothing that was tried beat the last state itself on held-out rollouts: this model has learned no "
    "dynamics; give it more data or longer trajectories.",
    "drift": "Nothing that was tried beat adding the mean change of one step on held-out rollouts: this model has "
    "learned no dynamics; give it more data or longer trajectories.",
    "last change": "Nothing that was tried beat repeating the last change on held-out rollouts, so it is used.",
    "mean": "Nothing that was tried beat the mean on held-out rollouts, so that is the forecast.",
    "smoothing": "Nothing that was tried beat exponential smoothing on held-out rollouts, so it is used.",
    "seasonal naive": "Nothing that was tried beat a seasonal naive forecast on held-out rollouts, so it is used.",
    "mean of maps": "A weighted mean of linear maps did best on held-out rollouts; no network is used (more: lln "
    "explain no-network).",
    "linear": "A linear map did best on held-out rollouts; no network is used (more: lln explain no-network).",
    "polynomial": "A polynomial did best on held-out rollouts; no network is used (more: lln explain no-network).",
    "flow": "A {field} did best on held-out rollouts; no network is used (more: lln explain no-network).",
}


def _constant_inputs(dataset: Dataset) -> list[str]:
    """A sentence for each known input that is the same in all rows of all trajectories."""
    inputs = [one.inputs for one in dataset.series if isinstance(one.inputs, np.ndarray)]
    if len(inputs) < len(dataset.series) or dataset.input_lags:
        return []
    rows = np.concatenate(inputs)
    still = np.flatnonzero((rows == rows[0]).all(axis=0))
    return [f"The known input {dataset.input_names[i]!r} does not vary, so what it does is not learned." for i in still]


def _notes(dataset: Dataset, noise: Noise, ready: PreparedData, part: str, flow: Flow | None) -> tuple[str, ...]:
    notes, lags = list(dataset.notes), dataset.input_lags
    if lags:
        steps = "one step before" if lags == 1 else f"up to {lags} steps before"
        notes.append(f"The known inputs of {steps} help on held-out rollouts: this model looks at them too.")
    if ready.left_out:
        early = f" or one of the first {lags} rows, whose earlier inputs are not known," if lags else ""
        notes.append(
            f"{counted(ready.left_out, 'pair')} of states touch{'es' * (ready.left_out == 1)} a gap{early} and "
            f"{'was' if ready.left_out == 1 else 'were'} left out."
        )
    if noise.only_drives:
        notes.append(
            "Chance drives this smooth series: no model predicts its next row much better than a curve through the "
            "last rows. The choice is made as for noisy data."
        )
    elif noise.matters:
        spread, change = 100 * min(noise.relative, 1.0), 100 * noise.of_increments
        notes.append(f"The data looks noisy: about {spread:.1f} % of its spread, {change:.0f} % of one step's change.")
    if part in _USES:
        notes.append(_USES[part].format(field="" if flow is None else flow.description()))
    return tuple(notes)
