"""A metric: the largest error of a rollout in standard deviations of the training data."""

import numpy as np


def largest_error(predicted: np.ndarray, truth: np.ndarray, scale: np.ndarray, dt: float) -> float:  # noqa: ARG001
    """Mean over windows of the largest error of any coordinate at any step."""
    return float(np.abs((predicted - truth) / scale).max(axis=(1, 2)).mean())
