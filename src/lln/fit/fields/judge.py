"""Scores of field steps: the error of held-out rollouts, and whether long rollouts stay where the data was."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from lln.data.series import Dataset
from lln.fit.choice.holdout import Fold, Windows, load
from lln.fit.options import TimeLimit
from lln.step.field import FieldStep
from lln.step.field_frame import FieldFrame
from lln.step.frame import Array

BEYOND = 4  # times the longest trajectory of training
MOST_STEPS = 1000
_STARTS = {"cpu": 12, "cuda": 30}  # what a device rolls out in seconds
# Points of all fields that are looked at together: a large field holds as many neighbourhoods as several small ones.
_POINTS, _FEWEST = 1 << 13, 4
_ROUGH = 4  # of held-out rollouts of large fields, every so many are enough to drop what is far behind
_NUMBERS = 1 << 25  # values of one long rollout
SLACK = 1.3  # estimates of time are multiplied by it: a busy machine may slow down
_PROBE = 3  # steps that are timed
_STAY_TIME = 0.1  # of a time limit, for long rollouts of one step
_FAR = 2.0  # times the largest distance from the mean in the data


@dataclass(frozen=True, eq=False)
class Stay:
    """The result of long rollouts from held-out starts."""

    starts: int  #: number of starts.
    left: int  #: number of starts that left the region of the data or turned infinite.
    steps: int  #: length of the rollouts.

    @property
    def bounded(self) -> bool:
        """Whether every rollout stayed near the data."""
        return self.left == 0

    def notes(self) -> list[str]:
        """A sentence for the report, if some left."""
        if self.bounded:
            return []
        return [
            f"{self.left} of {self.starts} rollouts over {self.steps} steps from held-out starts leave the region of "
            "the data; give more data or more updates (epochs=), or forecast fewer steps"
        ]


@dataclass(eq=False)
class FieldJudge:
    """Scores steps on what a fold holds out."""

    dataset: Dataset  #: all trajectories.
    fold: Fold  #: what trains and what is held out.
    limit: TimeLimit = field(default_factory=TimeLimit)  #: of the fit; long rollouts are shortened to a fraction of it.
    _windows: dict[int, Windows] = field(default_factory=dict)

    def windows(self, frame: FieldFrame) -> Windows:
        """The held-out rollouts for this frame's history."""
        if frame.history not in self._windows:
            self._windows[frame.history] = load(self.dataset, self.fold, frame.history, frame.scale)
        return self._windows[frame.history]

    def error(self, step: FieldStep, rough: float | None = None) -> float:
        """Mean log error of held-out rollouts; `rough` is the one of a few of them, if it is known."""
        windows = self.windows(step.frame)
        if rough is not None and self._every(windows, step.frame) == 1:
            return rough
        return float(windows.log_error(step.rollout(windows.start, self.fold.steps, windows.inputs)))

    def rough(self, step: FieldStep) -> float:
        """The same of a few of the rollouts, where fields are large."""
        windows = self.windows(step.frame)
        few = slice(None, None, min(_ROUGH, self._every(windows, step.frame)))
        known = None if windows.inputs is None else windows.inputs[few]
        some = replace(windows, start=windows.start[few], truth=windows.truth[few], inputs=known)
        return float(some.log_error(step.rollout(some.start, self.fold.steps, known)))

    @staticmethod
    def _every(windows: Windows, frame: FieldFrame) -> int:
        """One of how many windows is enough for a first look."""
        return -(-len(windows.start) * math.prod(frame.space) // _POINTS)

    def stay(self, step: FieldStep, most: int | None = None, noise: float = 0.0) -> Stay:
        """Roll out well beyond the longest trajectory of training from held-out starts.

        Args:
            step: what to roll out.
            most: starts, at most; None takes what the device rolls out in seconds. Large fields need fewer.
            noise: on the starts, in units of the spread; a step that amplifies it leaves the data.
        """
        frame = step.frame
        if frame.inputs:  # their future is not known
            return Stay(0, 0, 0)
        starts = self._starts(frame.history, self._count(step, most))
        if noise:
            starts = starts + noise * frame.scale * np.random.default_rng(0).standard_normal(starts.shape)
        steps = self.stay_steps(starts[..., -1, :].size)
        if self.limit.seconds is not None:
            affordable = _STAY_TIME * self.limit.seconds / (self.seconds_per_step(step) * len(starts))
            steps = max(1, min(steps, int(affordable)))
        free = step.replace(frame=replace(frame, low=None, high=None))  # bounds would hide what leaves
        states = free.rollout(starts, steps)
        with np.errstate(over="ignore"):
            far = np.abs((states - frame.mean) / frame.scale).max(axis=(1, 2))
        inside = np.isfinite(far) & (far <= _FAR * self._reach(frame))
        return Stay(len(starts), int((~inside).sum()), steps)

    @torch.no_grad()
    def coverage(self, step: FieldStep) -> float | None:
        """Fraction of hidden positions beyond the control points, on the first held-out states."""
        if not step.members:
            return None
        frame, member = step.frame, step.members[0]
        windows = self.windows(frame)
        few = slice(None, None, self._every(windows, frame))
        known = None if windows.inputs is None else windows.inputs[few, 0]
        weight = member.readout.weight
        features = torch.from_numpy(frame.feature_rows(windows.start[few], known)).to(weight.device, weight.dtype)
        static = None if frame.static is None else torch.from_numpy(frame.static)
        low, high = (float(value) for value in member.config()["control_range"])
        shares = [
            ((rays.y < low) | (rays.y > high)).double().mean().item()
            for block in member.states(features, static=static)
            for rays in block[1:]
        ]
        return float(np.mean(shares))

    def seconds_per_step(self, step: FieldStep) -> float:
        """Measure the seconds that one step from one start takes."""
        windows = self.windows(step.frame)
        known = None if windows.inputs is None else windows.inputs[:, :_PROBE]
        step.rollout(windows.start, 1, None if known is None else known[:, :1])  # kernels compile
        began, steps = time.monotonic(), min(_PROBE, self.fold.steps)
        step.rollout(windows.start, steps, known)
        return max(time.monotonic() - began, 1e-9) / (steps * len(windows.start))

    def seconds(self, step: FieldStep, rollouts: int = 1) -> float:
        """Estimate how long it takes to judge a step: held-out rollouts, `rollouts` times, and long rollouts once."""
        each, starts = self.seconds_per_step(step), self._count(step)
        stay = each * starts * self.stay_steps(starts * step.frame.size)
        if self.limit.seconds is not None:
            stay = min(stay, _STAY_TIME * self.limit.seconds)
        held_out = each * len(self.fold.windows) * self.fold.steps
        return SLACK * (rollouts * held_out + (0.0 if step.frame.inputs else stay))

    def stay_steps(self, numbers: int) -> int:
        """Length of long rollouts of states with this many values."""
        longest = max(last - first for _, first, last in self.fold.train)
        return int(min(MOST_STEPS, BEYOND * longest, max(BEYOND, _NUMBERS // numbers)))

    @staticmethod
    def _count(step: FieldStep, most: int | None = None) -> int:
        """How many starts are rolled out far."""
        usual = _STARTS[step.device.type]
        share = _POINTS / (usual * math.prod(step.frame.space)) if step.device.type == "cpu" else 1.0
        return max(_FEWEST, round(min(1.0, share) * (most or usual)))

    def _starts(self, history: int, most: int) -> Array:
        """At most so many held-out starts, spread over trajectories and over each of them, (W, H, n)."""
        spans = [
            (index, max(first, a), min(last, b))
            for index, a, b in self.fold.held_out
            for where, first, last in self.dataset.stretches(history)
            if where == index and min(last, b) - max(first, a) >= history
        ]
        each = max(1, most // max(1, len(spans)))
        rows = [
            self.dataset.series[index].rows(int(k), int(k) + history)
            for index, first, last in spans[:: -(-len(spans) // most)]
            for k in np.unique(np.linspace(first, last - history, min(each, last - first - history + 1)).astype(int))
        ]
        return np.stack(rows).astype(np.float64)

    def _reach(self, frame: FieldFrame) -> float:
        """The largest distance of the data from its mean, in units of its spread."""
        most = 0.0
        for one in self.dataset.series:
            for _, block in one.blocks():
                with np.errstate(invalid="ignore"):
                    most = max(most, float(np.nanmax(np.abs((block - frame.mean) / frame.scale), initial=0.0)))
        return most
