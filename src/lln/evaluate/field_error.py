"""Where in the spectrum a rollout's error sits: at the large scales that carry the field, or at the small ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lln.core.errors import InputError

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FieldError:
    """Power by wavenumber, mean over rollouts and channels.

    Attributes:
        wavenumber: 0, 1, 2, ...: full waves along the longest axis; in several dimensions, shells of the wave vector.
        truth: power of the true field in each step and shell, (steps, K); a step's shells add up to its mean square.
        error: power of predicted minus true, (steps, K).
        predicted: power of the predicted field, (steps, K): a fit that smooths has less than the truth at high ones.
    """

    wavenumber: NDArray[np.int64]
    truth: Array
    error: Array
    predicted: Array

    @property
    def relative(self) -> Array:
        """Root of error over truth in each step and shell; infinite where the truth has nothing."""
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.sqrt(self.error / self.truth)
        return np.asarray(np.where(self.error == 0, 0.0, ratio))

    @property
    def share(self) -> Array:
        """What part of a step's whole error each shell has, (steps, K); rows add up to 1 where there is an error."""
        total = self.error.sum(axis=1, keepdims=True)
        return np.asarray(np.divide(self.error, total, out=np.zeros_like(self.error), where=total > 0))

    def resolved(self, level: float = 0.5) -> NDArray[np.int64]:
        """For each step, the first wavenumber whose relative error exceeds `level`; one past the last if none does."""
        beyond = self.relative > level
        found = np.where(beyond.any(axis=1), beyond.argmax(axis=1), len(self.wavenumber))
        return np.asarray(found, dtype=np.int64)


def field_error(
    predicted: NDArray[Any], truth: NDArray[Any], space: Sequence[int], periodic: bool | Sequence[bool] = True
) -> FieldError:
    """Compare rollouts of fields by scale.

    Args:
        predicted: (..., steps, n), flat states: channels, then space in C order.
        truth: the same shape.
        space: points of the grid.
        periodic: whether each axis goes round; others are continued by mirroring (cosine modes).
    """
    if predicted.shape != truth.shape or truth.ndim < 2:
        raise InputError(f"predicted and true states must have one shape (..., steps, n), got {predicted.shape} and "
                         f"{truth.shape}")  # fmt: skip
    points = math.prod(space)
    if not space or truth.shape[-1] % points:
        raise InputError(f"states of {truth.shape[-1]} numbers do not fill a grid of {tuple(space)}")
    around = [periodic] * len(space) if isinstance(periodic, bool) else list(periodic)
    if len(around) != len(space):
        raise InputError(f"periodic must have {len(space)} entries, one for each axis, got {len(around)}")
    steps = truth.shape[-2]

    def grid(states: NDArray[Any]) -> Array:
        fields = np.asarray(states, dtype=np.float64).reshape(-1, steps, truth.shape[-1] // points, *space)
        return np.moveaxis(fields, 1, 0).reshape(steps, -1, *space)

    shells = _shells(space, around)
    parts = (grid(truth), grid(predicted) - grid(truth), grid(predicted))
    found = [_power(part, shells, around) for part in parts]
    return FieldError(np.arange(found[0].shape[1]), *found)


def _shells(space: Sequence[int], around: Sequence[bool]) -> NDArray[np.int64]:
    """The shell of every mode, (*space): the length of its wave vector in waves along the longest axis, rounded."""
    longest = max(space)
    waves = []
    for axis, (points, ring) in enumerate(zip(space, around, strict=True)):
        # A cosine mode j has j / 2 waves over the axis.
        count = np.abs(np.fft.fftfreq(points, 1 / points)) if ring else np.arange(points) / 2
        waves.append((count * longest / points).reshape([-1 if a == axis else 1 for a in range(len(space))]))
    length = np.sqrt(sum(wave**2 for wave in waves))
    return np.asarray(np.floor(length + 0.5), dtype=np.int64)


def _power(fields: Array, shells: NDArray[np.int64], around: Sequence[bool]) -> Array:
    """Mean power by step and shell, (steps, K), of fields (steps, rows, *space), by orthonormal transforms."""
    from scipy import fft

    modes: NDArray[Any] = fields
    for place, ring in enumerate(around):
        axis = 2 + place
        modes = fft.fft(modes, axis=axis, norm="ortho") if ring else _cosine(modes, axis)
    mean = (np.abs(modes) ** 2).mean(axis=1) / shells.size
    flat = shells.ravel()
    return np.stack([np.bincount(flat, row.ravel(), minlength=int(flat.max()) + 1) for row in mean])


def _cosine(modes: NDArray[Any], axis: int) -> NDArray[Any]:
    from scipy import fft

    if np.iscomplexobj(modes):
        both = [fft.dct(part, axis=axis, norm="ortho") for part in (modes.real, modes.imag)]
        return np.asarray(both[0] + 1j * both[1])
    return np.asarray(fft.dct(modes, axis=axis, norm="ortho"))
