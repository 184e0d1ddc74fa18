"""What a fit says about itself when it is done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from lln.data.series import Dataset
from lln.fit.choice.holdout import Fold
from lln.fit.choice.noise import Noise
from lln.fit.closed.choices import ClosedChoice
from lln.fit.closed.linear import spectral_radius
from lln.fit.options import Fit, FitReport, Recipe, filled_in
from lln.fit.prepare import FrameChoice, PreparedData
from lln.fit.report.coverage import coverage
from lln.step.dense import DenseStep
from lln.train.ensemble import Shape

_ROWS = 4096


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
    entries = _linear_parameters(ready, candidate)
    if closed is not None:
        entries = frame.matrix.size + frame.size
        if frame.polynomial is not None:
            entries += int(np.count_nonzero(frame.polynomial.weights))
        if frame.part is not None:
            entries = sum(values.size for values in frame.part.arrays().values())
        if frame.flow is not None:
            weights = np.concatenate([frame.flow.polynomial.weights, frame.flow.offset[:, None]], axis=1)
            shared = closed.flow is not None and closed.flow.radius
            entries = int(np.count_nonzero(weights[:1] if shared else weights))
    low, high = ((side - frame.mean) / frame.scale for side in (ready.low, ready.high))
    options = shape.options if shape is not None else {}
    if closed is not None and closed.kind == "lens":
        first = surrogate.members[0]
        config = first.config()
        options = {
            "optical_length": config["optical_length"],
            **{name: config[name] for name in ("width", "depth", "basis")},
        }
        each, correction_weight = first.readout.weight.numel(), 1.0
    part = closed.kind if closed is not None else "network" if correction_weight else "linear"
    if part == "linear" and (candidate.is_naive or not frame.matrix.any()):
        part = _naive_part(candidate, drifts=bool(frame.offset.any()))
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
        degree=closed.degree or None if closed is not None else None,
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
        notes=_notes(dataset, noise, ready, part),
    )
    return Fit(surrogate, filled_in(recipe, report), report)


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
    "mean": "Nothing that was tried beat the training mean on held-out rollouts, so that is the forecast.",
    "smoothing": "Nothing that was tried beat exponential smoothing on held-out rollouts, so it is used.",
    "seasonal naive": "Nothing that was tried beat a seasonal naive forecast on held-out rollouts, so it is used.",
    "linear": "A linear map did best on held-out rollouts; no network is used (more: lln explain no-network).",
    "polynomial": "A polynomial did best on held-out rollouts; no network is used (more: lln explain no-network).",
    "flow": "A polynomial vector field did best on held-out rollouts; no network is used (more: lln explain "
    "no-network).",
}


def _notes(dataset: Dataset, noise: Noise, ready: PreparedData, part: str) -> tuple[str, ...]:
    notes, lags = list(dataset.notes), dataset.input_lags
    if lags:
        steps = "one step before" if lags == 1 else f"up to {lags} steps before"
        notes.append(f"The known inputs of {steps} help on held-out rollouts: this model looks at them too.")
    if ready.left_out:
        early = f" or one of the first {lags} rows, whose earlier inputs are not known," if lags else ""
        notes.append(f"{ready.left_out} pairs of states touch a gap{early} and were left out.")
    if noise.matters:
        notes.append(
            f"The data looks noisy: about {noise.relative:.1%} of its spread, {noise.of_increments:.0%} of one step's "
            "change."
        )
    if part in _USES:
        notes.append(_USES[part])
    return tuple(notes)
