"""Training: one loop with its options, ensembles, losses over several steps."""

from lln.train.config import TrainConfig
from lln.train.fit import Epoch, History, Progress, fit

__all__ = ["Epoch", "History", "Progress", "TrainConfig", "fit"]
