"""Training: one loop with its options, ensembles, losses over several steps, and two closed-form predictors."""

from lln.train.closed_form import LinearMap, TrainingMean
from lln.train.config import TrainConfig
from lln.train.fit import Epoch, History, Progress, fit

__all__ = ["Epoch", "History", "LinearMap", "Progress", "TrainConfig", "TrainingMean", "fit"]
