"""Training: one loop with its options, ensembles, losses over several steps."""

from lln.train.fit import Epoch, History, Progress, TrainConfig, fit

__all__ = ["Epoch", "History", "Progress", "TrainConfig", "fit"]
