"""Evaluation of rollouts of any model: errors, Lyapunov exponents, long-run statistics."""

from lln.evaluate.chaos import LyapunovSpectrum, lyapunov_spectrum, system_lyapunov
from lln.evaluate.metrics import (
    METRICS,
    Drift,
    PowerSpectrum,
    SpreadSkill,
    distribution_distance,
    invariant_drift,
    mse_by_step,
    normalized_mse,
    normalized_rmse,
    power_spectrum,
    rmse_by_step,
    sliced_distance,
    spectrum_distance,
    spread_skill,
    valid_prediction_steps,
)
from lln.evaluate.rollout import Ending, Outcome, Rollout, Stepper, rollout

__all__ = [
    "METRICS",
    "Drift",
    "Ending",
    "LyapunovSpectrum",
    "Outcome",
    "PowerSpectrum",
    "Rollout",
    "SpreadSkill",
    "Stepper",
    "distribution_distance",
    "invariant_drift",
    "lyapunov_spectrum",
    "mse_by_step",
    "normalized_mse",
    "normalized_rmse",
    "power_spectrum",
    "rmse_by_step",
    "rollout",
    "sliced_distance",
    "spectrum_distance",
    "spread_skill",
    "system_lyapunov",
    "valid_prediction_steps",
]
