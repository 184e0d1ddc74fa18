import numpy as np
import pytest

from lln.data.series import Dataset, Series
from lln.forecaster.layout import TrainingFingerprint


def series(rows=400, n=3, seed=0, **options):
    return Series(np.random.default_rng(seed).normal(size=(rows, n)), **options)


def remembered(*parts, rows=400):
    return TrainingFingerprint.of(Dataset((series(rows),)), parts)


def test_exactly_the_rows_that_trained_are_known():
    training = remembered((0, 20, 320))
    seen = training.seen(series())
    assert seen[20:320].all()
    assert seen.sum() == 300


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x[100:350],
        lambda x: np.concatenate([x[200:], x[:200]]),
        lambda x: np.concatenate([np.zeros((7, 3)), x]),
    ],
    ids=["cut", "turned round", "behind other rows"],
)
def test_they_are_known_again_in_any_cut_and_order(change):
    whole = series()
    training = TrainingFingerprint.of(Dataset((whole,)), [(0, 0, 320)])
    marks = np.zeros(400)
    marks[:320] = 1
    table = np.c_[whole.states, marks]
    expected = change(np.c_[table[:, :3]]), change(np.repeat(table[:, 3:], 3, axis=1))[:, 0] == 1
    seen = training.seen(Series(expected[0]))
    # A cut through the middle of a run of eight rows hides at most seven on each side of the seam.
    assert (seen != expected[1]).sum() <= 7
    assert not (seen & ~expected[1]).any()


def test_precision_does_not_matter_but_numbers_do():
    single = Series(series().states.astype(np.float32))
    training = TrainingFingerprint.of(Dataset((single,)), [(0, 0, 400)])
    assert training.seen(Series(single.states.astype(np.float64))).all()
    assert not training.seen(Series(single.states.astype(np.float64) + 1e-12)).any()


def test_two_trajectories_and_a_gap():
    gap = series(seed=1)
    gap.states[50:60] = np.nan
    training = TrainingFingerprint.of(Dataset((series(), gap)), [(1, 0, 400)])
    assert not training.seen(series()).any()
    assert training.seen(gap).all()


def test_many_rows_are_remembered_in_little_room():
    rows = 100_000
    training = remembered((0, 0, 80_000), rows=rows)
    assert len(training.marks) <= 16384
    seen = training.seen(series(rows))
    assert seen[:80_000].all()
    # Unseen rows before the first mark that is not known count as seen: a few strides at most.
    assert seen[80_000:].sum() < 40 * training.stride


def test_very_short_trajectories_are_remembered_too():
    parts = tuple(series(3, seed=k) for k in range(5))
    training = TrainingFingerprint.of(Dataset(parts), [(k, 0, 3) for k in range(5)])
    assert all(training.seen(part).all() for part in parts)
    assert not training.seen(series(3, seed=9)).any()


def test_it_comes_back_from_its_record():
    training = remembered((0, 0, 100))
    back = TrainingFingerprint.from_record(training.record(), training.marks)
    assert back.record() == training.record()
    np.testing.assert_array_equal(back.seen(series()), training.seen(series()))
