"""Trajectories: what the columns of tables and files mean, gaps, scaling, and cuts into training and test parts."""

from lln.data.read.formats import as_dataset
from lln.data.series import Dataset, Series
from lln.data.stream import Moments, Pairs, Standardizer, moments, pair_batches, pairs
from lln.data.trajectory import Trajectory, simulate, simulated

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
