"""References that look at lags: seasonal naive and linear autoregression."""

from __future__ import annotations

from typing import Self

import numpy as np

from lln.core.errors import check_int
from lln.data.series import Dataset
from lln.fit.choice.histories import linear_histories, seasons
from lln.forecaster.references.simple import LinearReference, Reference
from lln.step.frame import Array


class SeasonalNaive(Reference):
    """The last season, repeated. Data without a season gives persistence."""

    def fit(self, dataset: Dataset) -> Self:
        """Find the season from the autocorrelation of the changes."""
        self.history = self.longest(dataset)
        self.note = f"season {self.history}" if self.history > 1 else "no season found"
        return self

    @classmethod
    def longest(cls, dataset: Dataset) -> int:
        """The season in steps, 1 without one."""
        rows = max((last - first for _, first, last in dataset.stretches(1)), default=1)
        return next((season for season in seasons(dataset, 1) if season <= rows // 2), 1)

    def rollout(self, window: Array, steps: int, inputs: Array | None = None) -> Array:  # noqa: ARG002
        """Repeat the last season of the window."""
        season = np.asarray(window, dtype=np.float64)[..., -self.history :, :]
        return np.take(season, np.arange(check_int("steps", steps, 1)) % self.history, axis=-2)


class AutoRegression(LinearReference):
    """A linear map of as many past states as the data bears, seasons included; lags and ridge chosen on held-out rows.

    Args:
        most: longest history; None for any.
    """

    def __init__(self, most: int | None = None) -> None:
        super().__init__()
        self.most = most

    def fit(self, dataset: Dataset) -> Self:
        """Choose lags and ridge on held-out rollouts, then solve for all of the data."""
        every = linear_histories(dataset)
        self.histories = tuple(one for one in every if self.most is None or one <= self.most) or (1,)
        return super().fit(dataset)

    @classmethod
    def longest(cls, dataset: Dataset) -> int:
        """The largest number of lags that is tried."""
        return max(linear_histories(dataset))
