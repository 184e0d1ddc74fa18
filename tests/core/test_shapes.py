import math

import numpy as np
import pytest

from lln.core.errors import InputError, check_int, finite, interval, positive


def test_good_values_pass():
    assert check_int("n", np.int64(3), 1) == 3
    assert finite("x", "2.5") == 2.5
    assert finite("x", np.float32(0.5)) == 0.5
    assert positive("x", 1) == 1.0
    assert interval("range", (-1, 2)) == (-1.0, 2.0)
    assert interval("range", [0.0, 1e308]) == (0.0, 1e308)


@pytest.mark.parametrize("value", [True, 2.0, "2", None, 0, -1])
def test_whole_refuses(value):
    with pytest.raises(InputError, match="n must be an integer of at least 1, got"):
        check_int("n", value, 1)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, "many", None])
def test_finite_refuses(value):
    with pytest.raises(InputError, match="x must be a finite number, got"):
        finite("x", value)


@pytest.mark.parametrize("value", [0, -0.0, -1e-300])
def test_positive_refuses(value):
    with pytest.raises(InputError, match="x must be above zero, got"):
        positive("x", value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (3, r"range must be a pair \(low, high\), got 3"),
        ((1, 2, 3), r"range must be a pair \(low, high\), got \(1, 2, 3\)"),
        ((1, 1), r"range must be \(low, high\) with low < high, got \(1.0, 1.0\)"),
        ((math.nan, 1), r"range\[0\] must be a finite number, got nan"),
    ],
)
def test_interval_refuses(value, message):
    with pytest.raises(InputError, match=message):
        interval("range", value)
