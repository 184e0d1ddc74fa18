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


def ring(rows=500, size=32):
    """A chaotic field on a ring: convolutions, lenses in closed form and networks are all worth trying."""
    x = 8.0 + 0.01 * np.sin(1.3 * np.arange(size))
    states = []
    for _ in range(100 + rows):
        for _ in range(5):
            x = x + 0.01 * ((np.roll(x, -1) - np.roll(x, 2)) * np.roll(x, 1) - x + 8.0)
        states.append(x)
    return np.array(states[100:])


@pytest.mark.slow
@pytest.mark.parametrize("field", ["auto", True], ids=["dense against field", "field"])
def test_the_limit_of_a_field_is_kept_within_a_tenth_of_processor_time(field, monkeypatch):
    # Other work on the machine slows a fit down, but not its processor time.
    monkeypatch.setattr(time, "monotonic", time.process_time)
    data, limit = ring(), 4.0
    LensForecaster(time_limit=0.5, field=field).fit(data[:60], grid=32, dt=0.05)  # kernels compile
    began = time.process_time()
    fitted = LensForecaster(time_limit=limit, field=field).fit(data, grid=32, dt=0.05)
    assert time.process_time() - began < 1.1 * limit
    assert any("time limit left out" in note for note in fitted.report_.notes)
    assert np.isfinite(fitted.report_.held_out_nmse)


@pytest.mark.slow
def test_the_limit_of_vector_fields_is_kept_within_a_tenth_of_processor_time(monkeypatch):
    monkeypatch.setattr(time, "monotonic", time.process_time)
    states, limit = ring(3000, 40), 12.0
    states = states + 0.1 * np.random.default_rng(0).normal(size=states.shape)
    LensForecaster(time_limit=0.5).fit(states[:100], dt=0.05)  # kernels compile
    began = time.process_time()
    fitted = LensForecaster(time_limit=limit).fit(states, dt=0.05)
    assert time.process_time() - began < 1.1 * limit
    assert any("vector fields" in note for note in fitted.report_.notes)


def test_a_phase_that_does_not_fit_is_noted_once():
    limit = TimeLimit(10.0)
    assert limit.allows(5.0, "short")
    assert not limit.first(0.1).allows(5.0, "long")
    assert not limit.part(0.2).allows(5.0, "long")
    assert limit.notes() == ["The time limit left out: long."]
    assert TimeLimit().part(0.5).allows(1e9, "anything")
    assert TimeLimit().left() == np.inf
