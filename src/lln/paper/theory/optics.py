"""The effect of lenses on rays: turns in degrees, and the plane in which paths are drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lln.core.errors import InputError

Array = NDArray[np.floating[Any]]


def turn_angles(angles: ArrayLike) -> Array:
    """By how many degrees each layer turns each ray: theta_0 .. theta_D, (D + 1, ..., h) -> (..., D).

    A sample's h angles make one ray that points along (1, theta) in R^(h+1); the turn of layer l is the angle between
    (1, theta_l) and (1, theta_{l+1}).
    """
    theta = np.asarray(angles, dtype=np.float64)
    if theta.ndim < 2 or len(theta) < 2:
        raise InputError(f"angles must be (D + 1, ..., h) with at least one layer, got {theta.shape}")
    rays = np.concatenate([np.ones((*theta.shape[:-1], 1)), theta], axis=-1)
    rays /= np.linalg.norm(rays, axis=-1, keepdims=True)
    # The arc cosine of a number near one loses half its digits; this form keeps them for the smallest turns.
    apart, along = (np.linalg.norm(rays[1:] + sign * rays[:-1], axis=-1) for sign in (-1, 1))
    return np.moveaxis(np.degrees(2 * np.arctan2(apart, along)), 0, -1)


@dataclass(frozen=True, eq=False)
class Plane:
    """The two directions in which a cloud of states spreads most.

    Attributes:
        centre: mean of the states it was fitted to, (h,).
        axes: two orthonormal directions, (2, h); the largest entry of each is positive, so that the sign is fixed.
        explained: share of the variance along each, (2,).
    """

    centre: Array
    axes: Array
    explained: Array

    def project(self, states: ArrayLike) -> Array:
        """Coordinates in the plane: (..., h) -> (..., 2)."""
        return np.asarray((np.asarray(states, dtype=np.float64) - self.centre) @ self.axes.T)


def principal_plane(states: ArrayLike) -> Plane:
    """Principal component analysis with two components of `states`, (..., h), every leading index a sample."""
    cloud = np.asarray(states, dtype=np.float64)
    if cloud.ndim < 2 or cloud.shape[-1] < 2:
        raise InputError(f"states must be (..., h) with h at least 2, got {cloud.shape}")
    flat = cloud.reshape(-1, cloud.shape[-1])
    centre = flat.mean(axis=0)
    _, sizes, axes = np.linalg.svd(flat - centre, full_matrices=False)
    variance = np.square(sizes)
    if not variance.sum() > 0:
        raise InputError("states must spread in some direction, but all of them are the same or not finite")
    leading = axes[:2]
    largest = leading[np.arange(2), np.abs(leading).argmax(axis=1)]
    return Plane(centre, leading * np.sign(largest)[:, None], variance[:2] / variance.sum())
