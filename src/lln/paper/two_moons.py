"""Two interleaved half circles with noise: the smallest task on which rays can be watched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lln.core.checks import check_int, finite

NOISE = 0.2
TRAINING = 800
HELD_OUT = 400


@dataclass(frozen=True, eq=False)
class TwoMoons:
    """Points of the plane and the moon each belongs to.

    Attributes:
        points: training points in float32, (training, 2).
        labels: 0 or 1, (training,).
        held_out_points: (held_out, 2).
        held_out_labels: (held_out,).
    """

    points: NDArray[np.float32]
    labels: NDArray[np.int64]
    held_out_points: NDArray[np.float32]
    held_out_labels: NDArray[np.int64]


def two_moons(seed: int, *, noise: float = NOISE, training: int = TRAINING, held_out: int = HELD_OUT) -> TwoMoons:
    """One draw of scikit-learn's moons: the first `training` points train, the others are held out.

    Args:
        seed: of the draw, 0 or more.
        noise: standard deviation of the scatter around the half circles, 0 or more.
        training: number of training points.
        held_out: number of points kept apart.
    """
    from sklearn.datasets import make_moons  # its import costs a second, which other commands need not pay

    first = check_int("training", training, 1)
    count = first + check_int("held_out", held_out, 1)
    drawn: tuple[Any, Any] = make_moons(
        n_samples=count, noise=finite("noise", noise), random_state=check_int("seed", seed, 0)
    )
    points, labels = drawn[0].astype(np.float32), drawn[1].astype(np.int64)
    return TwoMoons(points[:first], labels[:first], points[first:], labels[first:])
