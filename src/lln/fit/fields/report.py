"""What a fit of fields did, as plain values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from lln.data.series import Dataset
from lln.fit.choice.traits import Noise
from lln.fit.fields.data import Grid, channel_range, spectral_radius
from lln.fit.options import FitReport
from lln.step.field import FieldStep
from lln.step.field_frame import FieldFrame

# Below this, what is left is the rounding of single precision: nothing is gained, and the simplest that does it wins.
ENOUGH = math.log(1e-12)


@dataclass(frozen=True)
class Linear:
    """Closed-form parts that were tried.

    Attributes:
        history: states that a step looks at.
        kernel: of the linear part; None for no closed-form part.
        ridge: of all closed-form parts.
        error: log of the held-out error.
        degree: of the polynomial; 1 for the linear part alone.
    """

    history: int
    kernel: tuple[int, ...] | None
    ridge: float | None
    error: float
    degree: int = 1


def report_of(
    dataset: Dataset,
    training: Dataset,
    grid: Grid,
    surrogate: FieldStep,
    *,
    correction_weight: float,
    errors: tuple[float, float],
    linear: Linear,
    noise: Noise,
) -> FitReport:
    """What can be read off the result; the rest is the recipe's own to fill in.

    Args:
        dataset: all of it.
        training: the part that trained.
        grid: where the fields live.
        surrogate: the result.
        correction_weight: of the networks.
        errors: log of the held-out error of the result, and of its linear part.
        linear: which linear part.
        noise: what is known of it.
    """
    frame = surrogate.frame
    member = surrogate.members[0] if correction_weight else None
    each = 0 if member is None else sum(parameter.numel() for parameter in member.parameters())
    taps = 0 if linear.kernel is None else frame.matrix.size + frame.channels
    taps += 0 if frame.polynomial is None else int(np.count_nonzero(frame.polynomial.weights))
    pairs = training.transitions(frame.history)
    return FitReport(
        n=frame.size,
        trajectories=len(dataset.series),
        pairs=pairs,
        left_out=sum(max(0, length - frame.history) for length in training.lengths) - pairs,
        noise=noise.relative,
        noise_of_increments=noise.of_increments,
        noisy=noise.matters,
        history=frame.history,
        ridge=linear.ridge,
        radius=None if linear.kernel is None else max(linear.kernel) // 2,
        degree=linear.degree if linear.degree > 1 else None,
        correction_weight=correction_weight,
        model="" if member is None else "field",
        width=None if member is None else member.width,
        depth=None if member is None else member.depth,
        basis=None if member is None else member.basis,
        optical_length=None if member is None else float(member.config()["optical_length"]),
        members=len(surrogate.members),
        parameters=len(surrogate.members) * each + taps,
        parameters_per_member=each,
        linear_parameters=taps,
        held_out_nmse=math.exp(errors[0]),
        linear_nmse=math.exp(errors[1]),
        spectral_radius=spectral_radius(frame),
        region=_region(training, frame),
        dataset=dataset.digest(),
        source=dataset.source,
        notes=(*dataset.notes, *_notes(dataset, grid, surrogate, linear)),
    )


def _notes(dataset: Dataset, grid: Grid, surrogate: FieldStep, linear: Linear) -> list[str]:
    extent = " x ".join(f"{value:.4g}" for value in surrogate.extent(grid.spacing))
    notes = [f"points are spaced {grid.spaced(dataset.coords)}; kernels are {extent} wide"]
    if surrogate.members:
        return notes
    if linear.kernel is None:
        return [*notes, "nothing that was tried beat adding nothing on held-out rollouts: this model has learned no "
                "dynamics; give it more data, more epochs or a linear part"]  # fmt: skip
    part = "linear part" if linear.degree == 1 else f"linear part and a polynomial of degree {linear.degree}"
    if linear.error < ENOUGH:
        return [*notes, f"the {part} leaves nothing but rounding on held-out rollouts; no network was trained"]
    return [*notes, f"the {part} alone did best on held-out rollouts; no network is used (more: lln explain "
            "no-network)"]  # fmt: skip


def candidate(one: Linear) -> dict[str, Any]:
    """A linear part that was tried, as the report lists it."""
    kernel = None if one.kernel is None else list(one.kernel)
    row = {
        "history": one.history,
        "kernel": kernel,
        "ridge": one.ridge,
        "correction_weight": 0.0,
        "nmse": math.exp(one.error),
    }
    return row if one.degree == 1 else {**row, "degree": one.degree}


def _region(dataset: Dataset, frame: FieldFrame) -> tuple[list[float], list[float]]:
    """Smallest and largest standardised values: of a channel, since what one point visits any other may."""
    low, high = channel_range(dataset, frame.channels)
    both = [(corner - frame.channel_mean) / frame.channel_scale for corner in (low, high)]
    if frame.channels > 1:
        both = [np.repeat(corner, math.prod(frame.space)) for corner in both]
    return [float(v) for v in both[0]], [float(v) for v in both[1]]
