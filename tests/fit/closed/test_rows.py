import numpy as np
import pytest

from lln.data import stream
from lln.data.series import Dataset, Series
from lln.data.stream import pairs
from lln.fit.prepare import FrameChoice, feature_blocks, prepare


def data(weights=True, dtype="float64"):
    rng = np.random.default_rng(0)
    states = rng.standard_normal((300, 2)).cumsum(axis=0).astype(dtype)
    states[120] = np.nan
    return Dataset((
        Series(states, rng.standard_normal((300, 1)), np.linspace(0.5, 2.0, 300) if weights else None),
        Series(rng.standard_normal((80, 2)).astype(dtype), rng.standard_normal((80, 1))),
    ))  # fmt: skip


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(stream, "BLOCK_BYTES", 4096)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("history", [1, 2, 5])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_blocks_hold_the_features_of_the_windows_bit_for_bit(history, dtype):
    given = data(dtype=dtype)
    units, held = prepare(given, history).units, pairs(given, history)
    blocks = list(feature_blocks(given, units))
    assert len(blocks) > 2
    features, increments, weights = map(np.concatenate, zip(*blocks, strict=True))
    np.testing.assert_array_equal(features, units.frame().feature_rows(held.window, held.inputs))
    np.testing.assert_array_equal(increments, held.increments)
    np.testing.assert_array_equal(weights, held.weights)


@pytest.mark.usefixtures("small_blocks")
def test_evenly_spread_rows_are_those_of_all_rows():
    given = data(weights=False)
    ready, held = prepare(given, 3), pairs(given, 3)
    units = ready.units
    rows = np.linspace(0, len(held) - 1, 50).round().astype(int)
    features, increments, weights = ready.some(units, 50)
    np.testing.assert_array_equal(features, units.frame().feature_rows(held.window[rows], held.inputs[rows]))
    np.testing.assert_array_equal(increments, held.increments[rows])
    assert weights is None
    assert len(ready.some(units, 10**6)[0]) == len(held)


@pytest.mark.parametrize("weights", [False, True])
def test_a_map_solved_in_blocks_is_the_one_solved_at_once(monkeypatch, weights):
    given = data(weights)
    whole = prepare(given, 3)
    monkeypatch.setattr(stream, "BLOCK_BYTES", 4096)
    parts = prepare(given, 3)
    assert parts.in_memory
    for ridge in (0.0, 1e-12, 1e-3):
        one, two = (ready.linear(FrameChoice(3, None, ridge)) for ready in (whole, parts))
        np.testing.assert_allclose(two.matrix, one.matrix, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(two.offset, one.offset, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(parts.with_gain(two).gain, whole.with_gain(one).gain, rtol=1e-9)


@pytest.mark.usefixtures("small_blocks")
def test_small_ridges_are_exact_in_blocks_too():
    # The last coordinate is the first but for one part in a billion: sums of products cannot tell them apart.
    rng = np.random.default_rng(1)
    first, small = rng.standard_normal((2, 400))
    states = np.column_stack([first, first + 1e-9 * small])
    states = np.column_stack([np.r_[0.0, small[:-1]], states])
    ready = prepare(Dataset((Series(states),)), 1)
    frame = ready.linear(FrameChoice(1, None, 0.0))
    rest = ready.with_gain(frame).gain
    assert rest[0] < 1e-5
