import numpy as np
import pytest

from lln import LensForecaster
from lln.core.errors import InputError
from lln.data.read.formats import as_dataset
from lln.data.series import Dataset, Series
from lln.fit.choice.holdout import folds, load, roll_linear
from lln.fit.choice.noise_and_seasons import estimate_noise, typical
from lln.fit.fitter import Recipe, fit_surrogate
from lln.fit.prepare import FrameChoice, prepare
from lln.fit.trials import parameter_budget, shape_of, updates_for
from lln.models.counting import comparator_cost, lens_cost
from lln.step.step import DenseStep
from lln.systems import preset, simulate


def waves(rows=600, n=3, seed=0):
    t = 0.05 * np.arange(rows)
    rng = np.random.default_rng(seed)
    return np.stack([np.sin(t * rng.uniform(0.5, 2) + k) for k in range(n)], axis=1)


def test_one_trajectory_is_held_out_at_its_end_by_more_and_more():
    found = folds(Dataset((Series(waves(1000)),)), 0.2)
    assert [fold.train[0][2] for fold in found] == [950, 900, 850, 800]
    for fold in found:
        cut = fold.train[0][2]
        assert min(row for _, row in fold.windows) == cut - 1  # a rollout starts from the last state that trained
        assert max(row for _, row in fold.windows) + fold.steps <= 999


def test_of_several_trajectories_whole_ones_are_held_out_each_once():
    found = folds(Dataset(tuple(Series(waves(700, seed=k)) for k in range(4))), 0.2)
    assert len(found) == 4
    for fold in found:
        assert not {part[0] for part in fold.train} & {part[0] for part in fold.held_out}
        assert {index for index, _ in fold.windows} == {part[0] for part in fold.held_out}
        assert fold.steps == round(0.6 * 697)
    assert sorted(part[0] for fold in found for part in fold.held_out) == [0, 1, 2, 3]


def test_no_rollout_crosses_a_gap():
    states = waves(1000)
    states[870:873] = np.nan
    data = Dataset((Series(states),))
    for fold in folds(data, 0.2):
        windows = load(data, fold, 3, np.ones(3))
        assert np.isfinite(windows.start).all()
        assert np.isfinite(windows.truth).all()


def test_too_little_data_is_refused_in_one_sentence():
    with pytest.raises(InputError, match="give longer trajectories"):
        folds(Dataset((Series(waves(6)),)), 0.2)


def test_windows_of_linear_maps_agree_with_the_surrogate():
    data = Dataset((Series(waves()),))
    fold = folds(data, 0.2)[-1]
    ready = prepare(data.select(fold.train), 2)
    frames = [ready.linear(FrameChoice(2, None, ridge)) for ridge in (1e-12, 1e-3)]
    windows = load(data, fold, 2, np.ones(3))
    rolled = roll_linear(frames, windows)
    for frame, states in zip(frames, rolled, strict=True):
        np.testing.assert_allclose(states, DenseStep(frame).rollout(windows.start, fold.steps), rtol=1e-9, atol=1e-12)


def test_log_error_counts_divergence_and_never_hides_it():
    data = Dataset((Series(waves()),))
    windows = load(data, folds(data, 0.2)[-1], 1, np.ones(3))
    right = windows.truth[None].copy()
    wrong = right.copy()
    wrong[0, 0, -1, 0] = np.inf  # one state of one window, which counts at the last lead time alone
    assert windows.log_error(right)[0] < -50
    leads = len(windows.errors(right[0]).leads)
    assert windows.log_error(wrong)[0] > windows.log_error(right)[0] + 50 / len(windows.truth) / leads


@pytest.mark.parametrize("noise", [0.0, 0.01, 0.1])
def test_noise_is_found_and_measured_within_a_fifth(noise):
    states = simulate(preset("lorenz-28"), 3000).astype(float)[500:]
    scale = states.std(axis=0)
    drawn = np.random.default_rng(0).standard_normal(states.shape)
    found = estimate_noise(Dataset((Series(states + noise * scale * drawn),)))
    if noise:
        assert found.matters
        # 2500 rows of three columns: the estimate's own spread is about two percent, overlap of differences doubles it.
        assert found.relative == pytest.approx(noise, rel=0.2)
    else:
        assert not found.matters
        assert found.relative < 1e-4


def test_what_a_model_foresees_is_no_noise():
    found = estimate_noise(Dataset((Series(np.random.default_rng(0).standard_normal((500, 2))),)))
    assert found.matters
    assert found.at_most(1e-3).of_increments == pytest.approx(1e-3 / np.sqrt(2))
    assert not found.at_most(1e-3).matters
    assert found.at_most(100.0) == found


def test_typical_errors_are_those_of_most_rows():
    errors = np.random.default_rng(0).standard_normal((2000, 2)) * [1.0, 3.0]
    errors[:100] = 1e3
    assert typical(errors) == pytest.approx([1.0, 3.0], rel=0.15)


def test_a_coordinate_with_large_steps_does_not_hide_the_noise_of_the_others():
    time = np.arange(400)
    states = np.stack([100.0 * (-1.0) ** time, np.sin(0.07 * time), np.cos(0.07 * time)], axis=1)
    states[:, 1:] += 0.05 * np.random.default_rng(0).standard_normal((400, 2))
    report = fit_surrogate(as_dataset(states, dt=1.0), Recipe(history=1, parts=("linear", "polynomial"))).report
    assert report.noisy
    assert report.noise == pytest.approx(0.05 / np.sqrt(0.5), rel=0.25)


@pytest.mark.parametrize("n", [2, 3, 32, 96, 512])
def test_a_member_has_at_most_a_fifth_of_the_smallest_comparators_parameters(n):
    shape = shape_of("lens", {}, n, n, 3000, None, 1)
    cost = lens_cost(n, n, width=shape.options["width"], depth=shape.options["depth"], basis=shape.options["basis"])
    plain = comparator_cost("mlp", n, n, width=128, depth=2)
    assert cost.parameters <= plain.parameters / 5
    assert parameter_budget(n, n, 3000) == int(plain.parameters / 5)
    assert shape.options["width"] >= 16


def test_updates_have_bounds_for_any_amount_of_data():
    counts = [updates_for(pairs, 256, None) for pairs in (10, 300, 3000, 10**6, 10**9)]
    assert counts == sorted(counts)
    assert counts[0] >= 500
    assert counts[-1] <= 6000
    assert updates_for(1000, 256, 3) == 12


@pytest.mark.parametrize(("ridge", "said"), [(None, "learned no dynamics"), (1e-6, "A linear map did best")])
def test_a_fit_without_a_network_says_what_is_left(ridge, said):
    walk = np.random.default_rng(0).standard_normal((120, 2)).cumsum(axis=0)  # its steps know nothing of where it is
    recipe = Recipe(ridge=ridge, history=1, width=2, depth=1, epochs=1, members=1)
    report = fit_surrogate(as_dataset(walk, dt=1.0), recipe).report
    assert report.correction_weight == 0
    assert any(said in note for note in report.notes)
    # Persistence adds no drift, so no note may speak of one.
    assert not any("mean change of one step" in note for note in report.notes)


@pytest.mark.parametrize("rows", [6, 8, 11, 14, 17, 20])
def test_few_rows_of_one_column_are_enough(rows):
    walk = np.random.default_rng(0).normal(size=rows).cumsum()
    assert np.isfinite(LensForecaster().fit(walk, dt=1.0).rollout(steps=3, level=0.9).predicted).all()


def test_gaps_in_the_rows_that_are_held_out():
    walk = np.random.default_rng(0).normal(size=300).cumsum()
    walk[244::10] = np.nan
    assert np.isfinite(LensForecaster().fit(walk, dt=1.0).rollout(steps=3).predicted).all()


def test_many_short_trajectories_and_stretches_are_held_out_whole():
    rng = np.random.default_rng(1)
    short = [rng.normal(size=(4, 1)).cumsum(axis=0) for _ in range(20)]
    assert np.isfinite(LensForecaster().fit(short, dt=1.0).rollout(short[0][-1:], steps=3).predicted).all()
    walk = rng.normal(size=300).cumsum()
    walk[::6] = np.nan
    assert np.isfinite(LensForecaster().fit(walk, dt=1.0).rollout(walk[-1:], steps=3).predicted).all()
    with pytest.raises(InputError, match=r"no trajectory has 6 states in a row .* or at least three"):
        LensForecaster().fit(short[:2], dt=1.0)
