"""Other starts of the same system, for trajectories that training has not seen."""

from __future__ import annotations

import numpy as np

from lln.core.checks import check_int, finite
from lln.systems.base import Array, System


def perturbed_start(system: System, seed: int, relative: float = 0.02) -> Array:
    """The system's start with noise: ``x0 + relative * RMS(x0) * N(0, 1)``, (n,), from a generator of its own.

    Args:
        system: whose start is perturbed.
        seed: one for each trajectory; the same seed gives the same start on every machine.
        relative: size of the noise against the root mean square of the start.
    """
    start = system.start()
    noise = np.random.default_rng(check_int("seed", seed, 0)).standard_normal(system.size)
    perturbed: Array = start + finite("relative", relative) * np.sqrt(np.mean(start**2)) * noise
    return perturbed
