import json

import numpy as np
import pytest
from scipy.special import ndtri, stdtrit

import lln
from lln.core.errors import InputError
from lln.data.series import Dataset, Series
from lln.fit.fitter import DenseFitting
from lln.fit.report.intervals import Intervals, as_at_the_end, as_elsewhere, measured_coverage
from lln.forecaster.results import check_level

RNG = np.random.default_rng(3)


def rollouts(windows, steps=20, n=2):
    truth = RNG.standard_normal((windows, steps, n))
    return truth + RNG.standard_normal(truth.shape) * np.sqrt(np.arange(1, steps + 1))[:, None] * [1.0, 10.0], truth


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_new_rollouts_are_covered_as_often_as_the_level_says(level):
    intervals = Intervals.of(*rollouts(400), np.ones(2))
    assert intervals.covered(*rollouts(400), level) == pytest.approx(level, abs=0.04)


def test_each_lead_time_has_the_quantiles_of_its_own_errors() -> None:
    rng = np.random.default_rng(4)
    truth = np.zeros((2000, 2, 1))
    rare = np.stack([rng.standard_normal(2000) ** 5, 5.0 * rng.choice([-1.0, 1.0], 2000)], axis=1)[..., None]
    intervals = Intervals.of(rare, truth, np.ones(1))
    inside = np.abs(rare) <= intervals.at(0.8, 2)
    assert inside[:, 0].mean() == pytest.approx(0.8, abs=0.01)
    assert intervals.at(0.8, 2)[1] == pytest.approx([5.0 * stdtrit(2000, 0.9) / ndtri(0.9)])


def test_intervals_grow_ahead_and_differ_by_coordinate():
    widths = Intervals.of(*rollouts(300), np.ones(2)).at(0.8, 20)
    assert widths.shape == (20, 2)
    assert (np.diff(widths, axis=0) >= 0).all()
    assert widths[:, 1].mean() == pytest.approx(10 * widths[:, 0].mean(), rel=0.2)


@pytest.mark.parametrize(
    ("level", "words"),
    [
        (0.3, "level must be between 0.5 and 0.95, the range in which held-out rows give intervals, got 0.3$"),
        (0.99, "between 0.5 and 0.95.*, got 0.99$"),
        (90, "between 0.5 and 0.95.*, got 90; write 90 % as 0.9$"),
        (1.5, "between 0.5 and 0.95.*, got 1.5$"),
        ("most", "level must be a finite number"),
    ],
)
def test_levels_that_held_out_rows_do_not_give_are_refused(level, words):
    record = {"leads": [1], "levels": [0.5, 0.95], "widths": [[[1.0]], [[2.0]]], "scale": [1.0]}
    with pytest.raises(InputError, match=words):
        check_level(record, level)
    assert check_level(record, 0.95).levels == (0.5, 0.95)


def test_a_level_between_two_lies_between_them():
    intervals = Intervals.of(*rollouts(300), np.ones(2))
    low, mid, high = (intervals.at(level, 5) for level in (0.8, 0.85, 0.9))
    assert (low < mid).all()
    assert (mid < high).all()


def test_many_coordinates_share_one_width_in_standard_deviations():
    truth = RNG.standard_normal((50, 4, 100))
    scale = np.linspace(1, 5, 100)
    intervals = Intervals.of(truth + RNG.standard_normal(truth.shape) * scale, truth, scale)
    assert intervals.widths.shape[2] == 1
    assert intervals.at(0.9, 6).shape == (6, 100)
    assert intervals.at(0.9, 6)[3, 99] == pytest.approx(5 * intervals.at(0.9, 6)[3, 0])


def test_intervals_survive_being_written_down_and_refuse_nonsense():
    intervals = Intervals.of(*rollouts(30), np.ones(2))
    again = Intervals.from_record(intervals.record())
    np.testing.assert_array_equal(again.at(0.9, 30), intervals.at(0.9, 30))
    with pytest.raises(ValueError, match="intervals of shape"):
        Intervals.from_record({**intervals.record(), "leads": [1]})


def test_coverage_is_measured_on_windows_that_did_not_calibrate():
    assert measured_coverage(*rollouts(200), np.ones(2)) == pytest.approx(0.9, abs=0.05)
    assert measured_coverage(*rollouts(4), np.ones(2)) is None


def growing(windows: int, first: float, last: float) -> tuple[np.ndarray, np.ndarray]:
    """Truths of growing level around which forecasts err by a tenth of it; a second column errs by one."""
    rng = np.random.default_rng(5)
    level = np.geomspace(first, last, windows)[:, None, None] * np.ones((1, 12, 2))
    return np.stack([level[..., 0] * np.exp(rng.normal(0, 0.1, (windows, 12))), level[..., 1]], axis=-1), level + (
        np.stack([np.zeros((windows, 12)), rng.normal(size=(windows, 12))], axis=-1)
    )


def test_errors_that_grow_with_the_level_give_intervals_that_do() -> None:
    intervals = Intervals.of(*growing(200, 10.0, 100.0), np.ones(2))
    again = Intervals.from_record(json.loads(json.dumps(intervals.record())))
    predicted, truth = growing(300, 300.0, 600.0)  # beyond every level that was seen
    lower, upper = again.bounds(predicted, 0.9)
    inside = np.mean((truth >= lower) & (truth <= upper), axis=(0, 1))
    assert 0.85 < inside[0] < 0.96
    assert (lower[..., 0] > 0).all()
    assert again.at(0.9, 12).shape == (12, 4)
    assert (again.at(0.9, 12)[:, 3] == 0).all()  # of the second column no ratios
    assert upper[..., 1] - lower[..., 1] == pytest.approx(2 * again.at(0.9, 12)[:, 1] + np.zeros((300, 12)))


def test_the_intervals_of_a_model_of_logarithms_are_factors() -> None:
    predicted, truth = growing(200, 10.0, 14.0)  # too little growth to show it
    assert Intervals.of(predicted, truth, np.ones(2)).widths.shape[2] == 2
    intervals = Intervals.of(predicted[..., :1], truth[..., :1], np.ones(1), logarithms=True)
    low = np.full((1, 12, 1), 0.1)  # plain widths would be wider there
    assert (intervals.bounds(low, 0.9)[1] < 0.2).all()
    predicted, truth = growing(300, 30.0, 60.0)
    assert intervals.covered(predicted[..., :1], truth[..., :1], 0.9) == pytest.approx(0.9, abs=0.03)


def test_a_fit_of_logarithms_gives_factors() -> None:
    place, rng = np.arange(160), np.random.default_rng(0)
    grown = np.exp(3 + 0.004 * place + 0.05 * np.sin(np.pi * place / 2) + 0.01 * rng.standard_normal(160))
    model = lln.LensForecaster(parts=["linear"]).fit(grown[:, None], dt=1.0)
    assert model.report_.logarithms
    found = model.rollout(np.full((model.history_, 1), 2 * grown[-1]), steps=1, level=0.9)
    near = model.rollout(np.full((model.history_, 1), grown[-1]), steps=1, level=0.9)
    assert found.upper[1, 0] - found.lower[1, 0] == pytest.approx(2 * (near.upper[1, 0] - near.lower[1, 0]), rel=0.1)


def test_errors_of_one_size_give_no_factors_though_the_level_grows() -> None:
    rng = np.random.default_rng(2)
    truth = np.geomspace(10.0, 40.0, 30)[:, None, None] * np.ones((1, 5, 1))
    intervals = Intervals.of(truth + rng.normal(size=truth.shape), truth, np.ones(1))
    assert intervals.widths.shape[2] == 1


def test_records_of_both_kinds_of_width_take_the_wider() -> None:
    both = {"leads": [1], "levels": [0.9], "widths": [[[2.0, 0.1]]], "scale": [1.0]}
    intervals = Intervals.from_record(both)
    for level, width in ((5.0, 2.0), (50.0, 50.0 * np.expm1(0.1))):
        _, upper = intervals.bounds(np.full((1, 1), level), 0.9)
        assert upper[:, 0] == pytest.approx(level + width)


def test_few_rows_widen_the_intervals_of_long_lead_times() -> None:
    predicted, truth = rollouts(200)
    few, many = (Intervals.of(predicted, truth, np.ones(2), rows).at(0.9, 20) for rows in (60, 6000))
    ratio = few / many
    assert ratio[0] == pytest.approx([1.0, 1.0], abs=0.03)
    assert ratio[-1] == pytest.approx([stdtrit(3.0, 0.95) / ndtri(0.95)] * 2, rel=0.03)


def errors_of(size: float, windows: int = 300) -> np.ndarray:
    return size * np.random.default_rng(7).standard_normal((windows, 6, 2))


def test_errors_on_training_rows_count_as_much_as_they_would_elsewhere() -> None:
    zero = np.zeros((300, 6, 2))
    held = (errors_of(3.0), errors_of(1.5), zero)  # learning from these rows halved the errors on them
    assert as_elsewhere(errors_of(1.0), zero, [held], [np.ones(2)]).std() == pytest.approx(2.0, rel=0.05)
    held[0][0, 3] = np.inf  # a lost rollout counts, but does not spoil the rest
    assert np.isfinite(as_elsewhere(errors_of(1.0), zero, [held], [np.ones(2)])).all()


def test_errors_that_grew_along_the_rows_count_as_large_as_at_the_end() -> None:
    age, zero = np.linspace(1.0, 0.0, 300), np.zeros((300, 6, 2))
    error = errors_of(1.0)
    error[..., 0] *= np.exp(1.0 - 1.5 * age)[:, None]  # the second column errs by as much everywhere
    now = as_at_the_end(error, zero, age)
    assert now[..., 0].std() == pytest.approx(np.e, rel=0.2)
    assert now[:150, :, 0].std() == pytest.approx(now[150:, :, 0].std(), rel=0.2)
    np.testing.assert_array_equal(now[..., 1], error[..., 1])


def test_errors_that_follow_the_level_shrink_or_grow_by_chance_are_left() -> None:
    age = np.linspace(1.0, 0.0, 200)
    predicted, truth = growing(200, 10.0, 100.0)
    np.testing.assert_array_equal(as_at_the_end(predicted, truth, age), predicted)
    rare = np.random.default_rng(1).standard_t(3, (200, 5, 1))
    np.testing.assert_array_equal(as_at_the_end(rare, np.zeros_like(rare), age), rare)
    shrinking = rare * np.exp(2 * age)[:, None, None]
    np.testing.assert_array_equal(as_at_the_end(shrinking, np.zeros_like(rare), age), shrinking)
    few = errors_of(1.0, 30) * np.linspace(0.1, 1.0, 30)[:, None, None]
    np.testing.assert_array_equal(as_at_the_end(few, np.zeros_like(few), age[:30]), few)


def test_intervals_of_a_series_whose_noise_grows_are_as_wide_as_its_latest_noise() -> None:
    size = np.geomspace(0.3, 3.0, 400)
    noise = np.random.default_rng(2).standard_normal(400) * size
    model = lln.LensForecaster(parts=["linear"]).fit(noise[:, None], dt=1.0)
    found = model.rollout(steps=3, level=0.9)
    assert found.upper[1, 0] - found.array[1, 0] > 1.3 * size[-1]  # all rows alike: less than its 1.1-fold


def test_a_coordinate_of_zeros_beside_a_growing_one_is_no_matter() -> None:
    predicted, truth = growing(40, 10.0, 100.0)
    truth[..., 1] = 0.0
    intervals = Intervals.of(predicted, truth, np.ones(2))  # any warning would fail the test
    assert (intervals.widths[..., 2] > 0).all()
    assert (intervals.widths[..., 3] == 0).all()


def test_intervals_of_noisy_data_know_what_happened_before_the_held_out_rows() -> None:
    noise = np.random.default_rng(1).standard_normal(300) * np.where(np.arange(300) < 120, 1.0, 0.1)
    model = lln.LensForecaster(parts=["linear"]).fit(noise[:, None], dt=1.0)
    assert model.report_.noisy
    found = model.rollout(steps=3, level=0.9)
    assert (found.upper[1:] - found.array[1:] > 0.5).all()  # held-out errors alone would say 0.2


def swing(start: float) -> np.ndarray:
    """A pendulum that is let go."""
    found = [np.array([start, 0.0])]
    for _ in range(600):
        angle, speed = found[-1]
        speed -= 0.1 * np.sin(angle)
        found.append(np.array([angle + 0.1 * speed, speed]))
    return np.stack(found)


def test_every_trajectory_counts_and_not_just_the_last() -> None:
    data = Dataset(tuple(Series(swing(start)) for start in (1.2, 1.3, 1.4, 0.1)), dt=0.1)
    model = lln.LensForecaster(parts=["linear"], history=1).fit(data)
    assert not model.report_.noisy
    truth = swing(1.25)
    found = model.rollout(truth[:500:20], steps=50, level=0.9)
    ahead = np.stack([truth[row : row + 51] for row in range(0, 500, 20)])
    assert np.mean((ahead >= found.lower) & (ahead <= found.upper)) > 0.85  # the small swing alone would say 0.5


def test_a_fold_that_leaves_far_fewer_rows_to_train_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    trained, learned = [], DenseFitting._learned

    def counting(fitting, train, *rest):
        trained.append(sum(last - first for _, first, last in train))
        return learned(fitting, train, *rest)

    monkeypatch.setattr(DenseFitting, "_learned", counting)
    trajectories = [swing(1.0), *(swing(start)[:60] for start in (1.1, 1.2, 1.3))]  # without the first, 180 rows train
    lln.LensForecaster(parts=["linear"], history=1).fit(Dataset(tuple(map(Series, trajectories)), dt=0.1))
    assert sorted(trained) == [721, 721, 721]
