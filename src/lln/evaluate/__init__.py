"""Judging models: rollouts, errors, gradient transport, geometry. Nothing here knows how a model was made."""

from lln.evaluate.geometry import Geometry, Optics, geometry_at
from lln.evaluate.gradients import GradientTransport, gradient_transport
from lln.evaluate.metrics import mse_by_step, normalized_mse, valid_prediction_steps
from lln.evaluate.rollout import Ending, Outcome, Rollout, Stepper, rollout

__all__ = [
    "Ending",
    "Geometry",
    "GradientTransport",
    "Optics",
    "Outcome",
    "Rollout",
    "Stepper",
    "geometry_at",
    "gradient_transport",
    "mse_by_step",
    "normalized_mse",
    "rollout",
    "valid_prediction_steps",
]
