"""The former name of `lln.step.dense.DenseStep`."""

from lln.step.base import ROLLOUT_COPIES as ROLLOUT_COPIES
from lln.step.dense import DenseStep as Surrogate

__all__ = ["ROLLOUT_COPIES", "Surrogate"]
