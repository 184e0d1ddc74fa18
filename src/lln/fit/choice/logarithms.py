"""Series whose season grows with their level: the fit learns their logarithms, in which the season stays the same."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from lln.core.errors import InputError
from lln.data.series import Dataset
from lln.fit.choice.histories import longest_stretch, seasons
from lln.fit.choice.noise import estimate_noise
from lln.fit.options import Fit, FitReport
from lln.fit.prepare import Preparer
from lln.fit.report.report import LINEAR, MODEL, Skill
from lln.step.base import AnyStep
from lln.step.frame import Array, Logarithm

_SHORTEST, _FEWEST = 4, 6  # steps of a season, and seasons
_SLOPES = (0.5, 1.5)  # of the logarithm of the swing against that of the level
_SURE = 3.0  # standard errors by which the slope is above zero
_LEVELS = 1.5  # greatest level by least
_SWING = (
    0.6  # of logarithms: what swings by more oscillates by itself, and exp of a mean logarithm is far below the mean
)
NOTE = "The swing of a season grows with its level: this model learns logarithms of the states."


def grow_with_level(dataset: Dataset) -> bool:
    """Whether the swing within a season is proportional to its mean, in every coordinate of noisy, positive data."""
    if dataset.lazy or dataset.space or not estimate_noise(dataset).matters:
        return False
    if any(np.nanmin(one.rows(0, len(one)), initial=np.inf) <= 0 for one in dataset.series):
        return False
    season = next(iter(seasons(dataset, 1)), 0)
    return season >= _SHORTEST and all(_proportional(column, season) for column in longest_stretch(dataset))


def _proportional(values: Array, season: int) -> bool:
    """Whether the spread within seasons, their trends removed, is about proportional to their means."""
    count = len(values) // season
    if count < _FEWEST:
        return False
    parts = values[len(values) - count * season :].reshape(count, season)
    level, place = parts.mean(axis=1), np.arange(season) - (season - 1) / 2
    swing = (parts - level[:, None] - np.outer(parts @ place / (place @ place), place)).std(axis=1)
    if level.max() < _LEVELS * level.min() or not swing.all() or np.median(np.log(parts).std(axis=1)) > _SWING:
        return False
    x, y = (np.log(each) - np.log(each).mean() for each in (level, swing))
    slope = float(x @ y / (x @ x))
    error = math.sqrt(float(((y - slope * x) ** 2).sum() / (count - 2) / (x @ x)))
    return _SLOPES[0] < slope < _SLOPES[1] and slope > _SURE * error


class States:
    """What a fit learns from: the states themselves.

    Args:
        given: trajectories.

    Attributes:
        given: the same.
        dataset: what is learned from.
    """

    def __init__(self, given: Dataset) -> None:
        self.given = self.dataset = given

    def scale(self, learned: Array) -> Array:
        """Standard deviations of the states, (n,), from those of what is learned from."""
        return learned

    def step(self, learned: AnyStep) -> AnyStep:
        """A step of states."""
        return learned

    def fit(self, learned: Fit) -> Fit:
        """A fit whose step, region and digest are those of states."""
        return learned

    def errors(self, report: FitReport, skill: Skill, steps: int) -> FitReport:  # noqa: ARG002
        """The report with held-out errors of states."""
        return report


class Logarithms(States):
    """A fit that learns logarithms of positive states."""

    def __init__(self, given: Dataset) -> None:
        rows = [np.asarray(one.rows(0, len(one)), dtype=np.float64) for one in given.series]
        self.least = np.nanmin([np.nanmin(one, axis=0) for one in rows], axis=0)
        if not (self.least > 0).all():
            raise InputError("a model that learns logarithms needs states above zero; fit the data anew")
        logs = [replace(one, states=np.log(states)) for one, states in zip(given.series, rows, strict=True)]
        self.given, self.dataset = given, replace(given, series=tuple(logs))
        self.units = Preparer(given).prepare(None, 1).units

    def scale(self, learned: Array) -> Array:  # noqa: ARG002
        """Standard deviations of the states, (n,)."""
        return self.units.scale

    def step(self, learned: AnyStep) -> AnyStep:
        """A step of states, from one of logarithms."""
        frame, units = learned.frame, self.units
        low, high = (None if bound is None else np.exp(bound) for bound in (frame.low, frame.high))
        logarithm = Logarithm(frame.mean, frame.scale, self.least / 2)
        return learned.replace(
            replace(frame, mean=units.mean, scale=units.scale, low=low, high=high, logarithm=logarithm)
        )

    def fit(self, learned: Fit) -> Fit:
        """The fit with step, region and digest of states."""
        frame, report = learned.surrogate.frame, learned.report
        ends = [np.exp(frame.mean + frame.scale * np.asarray(side)) for side in report.region]
        low, high = (((end - self.units.mean) / self.units.scale).tolist() for end in ends)
        notes = report.notes if NOTE in report.notes else (*report.notes, NOTE)
        report = replace(report, region=(low, high), dataset=self.given.digest(), logarithms=True, notes=notes)
        return replace(learned, surrogate=self.step(learned.surrogate), report=report)

    def errors(self, report: FitReport, skill: Skill, steps: int) -> FitReport:
        """The report with held-out errors of states in place of those of their logarithms."""
        own, linear = (math.exp(skill.errors[name].until(steps).score(noisy=report.noisy)) for name in (MODEL, LINEAR))
        return replace(report, held_out_nmse=own, linear_nmse=linear)


def seen_by_fit(dataset: Dataset) -> States:
    """The states, or where a season grows with its level their logarithms."""
    return Logarithms(dataset) if grow_with_level(dataset) else States(dataset)
