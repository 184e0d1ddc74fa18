"""A system that answers to an input of some steps ago."""

import numpy as np


def delayed(rows, lag, *, noise=0.02, seed=1):
    """States (rows, 1) and inputs (rows, 1) with y_{k+1} = 0.8 y_k + 0.5 u_{k - lag} + noise."""
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=(rows, 1))
    states = np.zeros((rows, 1))
    for k in range(rows - 1):
        push = inputs[k - lag, 0] if k >= lag else rng.normal()
        states[k + 1, 0] = 0.8 * states[k, 0] + 0.5 * push + noise * rng.normal()
    return states, inputs
