"""A time limit bounds the whole fit, whichever stage takes the time."""

import time

import numpy as np
import pytest
from forecasters import lorenz

from lln.fit.options import TimeLimit
from lln.forecaster.forecaster import LensForecaster


def coupled(rows=12_000, size=6):
    """Chaotic maps with some noise: closed forms take long and networks are tried."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0.1, 0.9, size)
    states = []
    for _ in range(rows):
        x = 0.8 * 3.9 * x * (1 - x) + 0.2 * np.roll(x, 1)
        states.append(x)
    return np.array(states) + 1e-3 * rng.normal(size=(rows, size))


def test_no_limit_never_passes():
    assert not TimeLimit().passed(0.0)
    assert TimeLimit().end is None


def test_shares_of_a_limit_pass_one_after_the_other():
    limit = TimeLimit(10.0, time.monotonic() - 6.0)
    assert limit.passed(0.5)
    assert not limit.passed(0.7)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("states", "options"),
    [
        (coupled, {"parts": ("linear", "polynomial", "lens")}),
        (coupled, {"parts": ("linear", "lens")}),
        (lambda: lorenz(3000), {"parts": ("linear", "network"), "epochs": 10_000}),
    ],
    ids=["closed forms", "lenses", "networks"],
)
def test_the_limit_is_kept_within_a_tenth(states, options):
    data = states()
    LensForecaster(time_limit=1.0, epochs=1).fit(data[:300], dt=0.1)  # kernels compile
    began, limit = time.monotonic(), 12.0
    fitted = LensForecaster(time_limit=limit, **options).fit(data, dt=0.1)
    seconds = time.monotonic() - began
    assert seconds < 1.1 * limit
    assert fitted.report_.seconds == pytest.approx(seconds, abs=0.5)
