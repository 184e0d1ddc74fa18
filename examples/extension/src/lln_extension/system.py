"""A system: the Van der Pol oscillator, x' = v, v' = mu (1 - x^2) v - x."""

import numpy as np

from lln.systems import UserSystem

MU = 1.5


def rhs(state: np.ndarray) -> np.ndarray:
    """The right-hand side, (..., 2) -> (..., 2)."""
    x, v = state[..., 0:1], state[..., 1:2]
    return np.concatenate([v, MU * (1 - x * x) * v - x], axis=-1)


VAN_DER_POL = UserSystem(rhs, [2.0, 0.0], 0.05, name="van-der-pol", coordinates=("x", "v"), symbols={"mu": MU})
