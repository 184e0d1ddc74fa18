"""Trajectories, their scaling, and how they are cut into training and test parts."""

from lln.data.dataset import Dataset, Series, Trajectory, as_dataset, simulate, simulated
from lln.data.stream import Moments, Pairs, Standardizer, moments, pair_batches, pairs

__all__ = [
    "Dataset",
    "Moments",
    "Pairs",
    "Series",
    "Standardizer",
    "Trajectory",
    "as_dataset",
    "moments",
    "pair_batches",
    "pairs",
    "simulate",
    "simulated",
]
