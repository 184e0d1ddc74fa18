import math

import numpy as np
import pytest

from lln.core.errors import InputError
from lln.core.statistics import (
    Summary,
    cluster_ratio,
    geometric_band,
    geometric_mean,
    summarize,
)


def test_mean_deviation_and_standard_error():
    found = summarize([1.0, 2.0, 6.0])
    assert (found.mean, found.count) == (3.0, 3)
    # Squares of -2, -1, 3 sum to 14; one degree of freedom is gone.
    assert found.deviation == pytest.approx(math.sqrt(7.0))
    assert found.error == pytest.approx(math.sqrt(7.0 / 3.0))


@pytest.mark.parametrize("bad", [math.inf, math.nan])
def test_one_diverged_run_makes_the_mean_infinite(bad):
    assert summarize([1.0, bad]) == Summary(math.inf, math.inf, 2)
    assert geometric_mean([1.0, bad]) == math.inf


def test_one_run_has_no_deviation():
    assert math.isnan(summarize([2.0]).deviation)


@pytest.mark.parametrize("values", [[], [[1.0, 2.0]]])
def test_a_sample_is_one_value_a_run(values):
    with pytest.raises(InputError, match="one value for each run"):
        summarize(values)


def test_geometric_mean():
    assert geometric_mean([[1.0, 100.0], [10.0, 10.0]]) == pytest.approx(10.0)
    assert geometric_mean([0.0, 3.0]) == 0.0
    with pytest.raises(InputError, match="at least zero"):
        geometric_mean([1.0, -1.0])


def test_cluster_ratio_resamples_seeds_and_not_windows():
    # Every seed has the same ratio in every window: whatever is resampled, the ratio is one half.
    other = np.array([[1.0, 5.0], [2.0, 0.1], [3.0, 7.0]])
    sure = cluster_ratio(other / 2, other)
    assert (sure.estimate, sure.low, sure.high) == pytest.approx((0.5, 0.5, 0.5))
    # Windows differ wildly but cancel within each seed, so that seeds agree: the interval must be a point.
    within = cluster_ratio([[100.0, 0.01], [1000.0, 0.001]], [[1.0, 1.0], [1.0, 1.0]])
    assert (within.estimate, within.low, within.high) == pytest.approx((1.0, 1.0, 1.0))


def test_cluster_interval_of_two_seeds_is_known():
    # Four equally likely draws of the mean log ratio: 0, 1, 1, 2; the middle 95 % reach both ends.
    found = cluster_ratio([[1.0], [math.e**2]], [[1.0], [1.0]])
    assert (found.low, found.estimate, found.high) == pytest.approx((1.0, math.e, math.e**2))


def test_cluster_ratio_with_divergence():
    lost = cluster_ratio([[1.0], [math.inf], [1.0]], [[1.0], [1.0], [1.0]])
    assert lost.estimate == lost.high == math.inf
    assert lost.low == pytest.approx(1.0)
    assert math.isnan(cluster_ratio([[math.inf]], [[math.inf]]).estimate)
    with pytest.raises(InputError, match=r"must be \(seeds, windows\)"):
        cluster_ratio([1.0], [1.0])


def test_geometric_band():
    mean, low, high = geometric_band([[1.0, 2.0], [4.0, 2.0], [2.0, 2.0]])
    assert mean == pytest.approx([2.0, 2.0])
    assert low[0] < 2.0 < high[0]
    assert (low[1], high[1]) == pytest.approx((2.0, 2.0))
    assert np.isinf(geometric_band([[1.0], [math.inf]])[0]).all()
