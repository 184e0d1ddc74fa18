"""Training: the recipe, the loop, and two predictors in closed form to measure it by."""

from lln.train.closed_form import LinearMap, TrainingMean
from lln.train.config import TrainConfig
from lln.train.fit import Epoch, History, Progress, fit

__all__ = ["Epoch", "History", "LinearMap", "Progress", "TrainConfig", "TrainingMean", "fit"]
