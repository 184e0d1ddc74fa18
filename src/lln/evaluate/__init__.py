"""Judging models: rollouts, errors, chaos, long-run statistics. Nothing here knows how a model was made."""

from lln.evaluate.chaos import LyapunovSpectrum, lyapunov_spectrum, system_lyapunov
from lln.evaluate.metrics import (
    Drift,
    SpreadSkill,
    distribution_distance,
    invariant_drift,
    mse_by_step,
    normalized_mse,
    normalized_rmse,
    rmse_by_step,
    sliced_distance,
    spread_skill,
    valid_prediction_steps,
)
from lln.evaluate.registry import METRICS
from lln.evaluate.rollout import Ending, Outcome, Rollout, Stepper, rollout
from lln.evaluate.spectra import PowerSpectrum, power_spectrum, spectrum_distance

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
