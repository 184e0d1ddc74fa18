"""Trajectories, their scaling, and how they are cut into training and test parts."""

from lln.data.scaling import Standardizer
from lln.data.trajectory import Trajectory, simulated
from lln.data.windows import Split, increments, one_step_pairs, split

__all__ = ["Split", "Standardizer", "Trajectory", "increments", "one_step_pairs", "simulated", "split"]
