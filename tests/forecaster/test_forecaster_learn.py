from dataclasses import replace

import numpy as np
import pytest
from forecasters import QUICK, lorenz, wave
from threadpoolctl import threadpool_info, threadpool_limits

from lln import InputError, LensForecaster, preset
from lln.core.workers import one_thread
from lln.data.read.formats import as_dataset
from lln.data.series import Dataset, Series
from lln.fit.learn import DENSE_COORDINATES, Contest, learn, points_share
from lln.fit.options import Recipe
from lln.step.field import FieldStep
from lln.step.step import DenseStep
from lln.systems import perturbed_start, simulate


def grid(*space):
    return Dataset((Series(np.zeros((3, int(np.prod(space))))),), space=space)


def test_which_grids_are_decided_by_held_out_rollouts():
    assert points_share(grid(DENSE_COORDINATES), Recipe(), "auto") is None
    assert points_share(grid(12, 12), Recipe(), "auto") is None
    assert points_share(grid(DENSE_COORDINATES + 1), Recipe(), "auto") is True
    assert points_share(grid(12), Recipe(), "auto", static=True) is True
    assert points_share(grid(2, 30), Recipe(), "auto") is False  # no neighbourhood along the first side
    assert points_share(grid(12, 12), Recipe(recipe="paper"), "auto") is False
    assert points_share(grid(12, 12), Recipe(model="mlp"), "auto") is False
    assert points_share(grid(12, 12), Recipe(), False) is False
    assert points_share(grid(4), Recipe(), True) is True
    assert points_share(grid(4), Recipe(), {"noise": 0.1}) is True
    assert points_share(Dataset((Series(np.zeros((3, 500))),)), Recipe(), "auto") is False


def test_what_linear_parts_tell():
    def chosen(*errors):
        return Contest(errors[0], errors[1], 10, "x: periodic, spacing 1", *errors[2:]).points_share

    assert chosen(1e-3, 1e-4) is True
    assert chosen(1e-4, 1e-3) is False
    assert chosen(1e-15, 1e-13) is True  # both perfect: far fewer numbers
    assert chosen(0.5, 0.9) is None  # both lose the field: networks must tell
    assert chosen(0.9, 0.5) is None
    assert chosen(0.9, 0.2) is True
    assert chosen(0.2, 0.9) is False
    assert chosen(0.5, 0.9, 0.3, 0.2) is True
    assert chosen(0.5, 0.9, 0.2, 0.3) is False


def test_the_note_says_over_which_folds():
    one = Contest(1e-3, 1e-4, 10, "x: periodic, spacing 1")
    assert "of the last fold: one rule 0.0001, own rules 0.001" in one.note()
    assert "of all 4 folds (the model's own error: the last alone): one rule 0" in replace(one, folds=4).note()


def rings(count=3, points=32, rows=14, seed=0):
    """The same mixing everywhere on a ring; fewer pairs than points, so that a dense map knows little."""
    states = [np.random.default_rng(seed).normal(size=(count, points))]
    for _ in range(rows - 1):
        states.append(0.7 * states[-1] + 0.25 * np.roll(states[-1], 1, axis=1) + 0.04 * np.roll(states[-1], -1, axis=1))
    return list(np.stack(states, axis=1))


def places(count=6, points=12, rows=40, seed=0):
    """Growth that differs from place to place, which no convolution can know."""
    rng, rate = np.random.default_rng(seed), 1 - 0.02 * np.arange(1, points + 1)
    return list(rng.normal(size=(count, 1, points)) * rate ** np.arange(rows)[:, None])


def chaos(count=3, points=12, rows=120, seed=0):
    """The ring of Lorenz (1996), driven harder from place to place."""
    force = np.linspace(6, 10, points)

    def rate(x):
        return (np.roll(x, -1, axis=1) - np.roll(x, 2, axis=1)) * np.roll(x, 1, axis=1) - x + force

    states = [np.random.default_rng(seed).normal(size=(count, points)) + force]
    for _ in range(rows + 99):
        x, h = states[-1], 0.05
        a = rate(x)
        b = rate(x + h / 2 * a)
        c = rate(x + h / 2 * b)
        states.append(x + h / 6 * (a + 2 * b + 2 * c + rate(x + h * c)))
    return list(np.stack(states[100:], axis=1))


QUICKEST = {name: value for name, value in QUICK.items() if name != "refit"}


def test_the_same_physics_everywhere_is_shared():
    fit = learn(as_dataset(rings(), grid=np.linspace(0, 6.2, 32), dt=0.1), Recipe(**QUICKEST))
    assert isinstance(fit.surrogate, FieldStep)
    (note,) = [note for note in fit.report.notes if "all points of the grid follow one rule" in note]
    assert "x: periodic, spacing 0.2" in note
    assert "To take the other kind, fit with --no-field (in Python: field=False)" in note
    dense, shared = fit.report.candidates[:2]
    assert (dense["family"], shared["family"]) == ("dense", "field")
    assert shared["nmse"] < dense["nmse"]
    assert f"one rule {shared['nmse']:.3g}, own rules {dense['nmse']:.3g}" in note
    assert "of all 3 folds (the model's own error: the last alone)" in note


def test_places_that_differ_keep_weights_of_their_own():
    fit = learn(as_dataset(places(), grid=12, dt=0.1), Recipe(**QUICKEST))
    assert isinstance(fit.surrogate, DenseStep)
    assert any("each point of the grid follows a rule of its own" in note for note in fit.report.notes)
    dense, shared = fit.report.candidates[:2]
    assert dense["nmse"] < 1e-3 * shared["nmse"]
    assert fit.report.held_out_rows == ()


def test_where_linear_parts_lose_the_field_networks_tell_and_a_killed_fit_goes_on(tmp_path, monkeypatch):
    from lln.train import loop as kept

    monkeypatch.setattr(kept, "EVERY", 0.0)
    data, wishes, path = as_dataset(chaos(), grid=12, dt=0.05), Recipe(**QUICKEST), tmp_path / "fit"
    whole = learn(data, wishes)
    trained = [row for row in whole.report.candidates if "family" in row and "correction_weight" not in row]
    assert [row["family"] for row in trained] == ["dense", "field"]
    better = min(trained, key=lambda row: row["nmse"])["family"]
    assert isinstance(whole.surrogate, FieldStep if better == "field" else DenseStep)
    assert any("of whole models over the last fold " in note for note in whole.report.notes)
    phases = []

    def stop(event):
        phases.append(event.phase)
        if event.message.startswith("training, loss"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learn(data, wishes, progress=stop, checkpoint=path)
    assert {"screening", "choosing"} <= set(phases)
    again = []
    resumed = learn(data, wishes, progress=lambda event: again.append(event.phase), checkpoint=path)
    assert not path.exists()
    assert not {"screening", "choosing"} & set(again)
    start = np.asarray(data.series[0].rows(0, 1))
    np.testing.assert_array_equal(resumed.surrogate.rollout(start, 20), whole.surrogate.rollout(start, 20))
    assert resumed.report.candidates == whole.report.candidates


def test_on_small_grids_whole_models_compete_unless_a_dense_map_is_far_better():
    near = Contest(dense=3e-6, shared=1e-6, steps=50, grid="x")
    assert near.points_share is True
    small = replace(near, small=True)
    assert small.points_share is None
    assert replace(small, dense=3e-5).points_share is None
    assert replace(small, dense=3e-8).points_share is False
    assert replace(small, dense=1e-14, shared=3e-15).points_share is True
    alone = replace(small, dense_network=1e-12)
    assert alone.points_share is False
    assert "of a whole model with own rules over the last fold 1e-12" in alone.note()
    assert replace(alone, shared_network=1e-13).points_share is True
    assert small.is_enough(1e-9)
    assert not small.is_enough(1e-7)
    assert not replace(small, shared=1e-10).is_enough(1e-9)


def test_a_vector_field_of_a_small_grid_beats_the_better_convolution():
    system = preset("burgers-32")
    starts = np.stack([perturbed_start(system, seed) for seed in range(4)])
    states = simulate(system, 900, starts=starts)[:, 300:]
    fit = learn(as_dataset(list(states), grid=32, dt=system.dt), Recipe(parts=("linear", "flow")))
    dense, shared, whole = fit.report.candidates[:3]
    assert shared["nmse"] < dense["nmse"]
    assert whole["family"] == "dense"
    assert whole["nmse"] < 1e-3 * shared["nmse"]
    assert fit.report.part == "flow"


def test_the_choice_is_made_within_the_time_and_kept_with_the_model(tmp_path):
    forecaster = LensForecaster(**QUICK, time_limit=60.0).fit(rings(), grid=32, dt=0.1)
    assert forecaster.recipe_.time_limit == 60.0
    forecaster.save(tmp_path / "a")
    from lln import load

    again = load(tmp_path / "a")
    assert "all points of the grid follow one rule" in " ".join(again.summary().split())
    np.testing.assert_array_equal(again.rollout(rings()[0][0], 5).states, forecaster.rollout(rings()[0][0], 5).states)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"field": True}, "field networks need states on a grid: give grid="),
        ({"field": "yes"}, "field must be \"auto\", True, False or a mapping of options, got 'yes'"),
        ({"model": "lenz"}, "unknown model 'lenz'; did you mean 'lens'"),
        ({"width": 0}, "width must be an integer of at least 1, got 0"),
        ({"history": "some"}, 'history must be a whole number of at least 1 or "auto"'),
    ],
)
def test_a_wrong_parameter_is_said_at_fit(options, message):
    with pytest.raises(InputError, match=message):
        LensForecaster(**options).fit(lorenz())


def test_wrong_options_of_fields():
    with pytest.raises(InputError, match="field has no option 'boundery'; did you mean 'boundary'"):
        LensForecaster(field={"boundery": "periodic"}).fit(wave(), grid=(2, 3))
    with pytest.raises(InputError, match="static fields are seen by field networks alone"):
        LensForecaster().fit(lorenz(), static=np.ones((3, 1)))


def test_a_field_is_fitted_saved_and_rolled_out(tmp_path):
    states = wave(points=16, channels=1, rows=150)
    forecaster = LensForecaster(**QUICK, field={"boundary": "periodic", "blocks": 1, "kernel": 3}).fit(states, grid=16)
    assert isinstance(forecaster.surrogate_, FieldStep)
    run = forecaster.rollout(states[-1], 5)
    assert run.states.shape == (6, 16)
    np.testing.assert_allclose(
        forecaster.rollout(np.roll(states[-1], 3), 5).states, np.roll(run.states, 3, axis=1), atol=1e-5
    )
    assert "on a grid of 16" in forecaster.summary()
    forecaster.save(tmp_path / "a")
    from lln import load

    np.testing.assert_array_equal(load(tmp_path / "a").rollout(states[-1], 5).states, run.states)
    assert load(tmp_path / "a").evaluate(states).scored == "choice rows"


def blas_threads():
    return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}


def test_linear_algebra_of_a_fit_takes_one_thread_and_gives_the_others_back():
    seen, rows = [], np.random.default_rng(0).normal(size=(60, 1))
    with threadpool_limits(2, user_api="blas"):
        LensForecaster(verbose=False).fit(rows, progress=lambda _: seen.append(blas_threads()))
        assert seen
        assert set().union(*seen) == {1}
        assert blas_threads() == {2}


def test_one_thread_lasts_until_the_last_that_asked_for_it_has_ended():
    with threadpool_limits(2, user_api="blas"):
        one_thread.__enter__()
        one_thread.__enter__()
        one_thread.__exit__()
        assert blas_threads() == {1}
        one_thread.__exit__()
        assert blas_threads() == {2}


def test_a_network_that_stands_alone_is_bounded_by_a_quarter_of_the_range_around_the_data():
    starts = np.asarray(lorenz(), dtype=float)[:-1]
    frame = LensForecaster(ridge=None, **QUICK).fit(lorenz()).surrogate_.frame
    assert not frame.matrix.any()
    least, most = starts.min(axis=0), starts.max(axis=0)
    np.testing.assert_allclose(frame.high, most + 0.25 * (most - least), rtol=1e-5)
    np.testing.assert_allclose(frame.low, least - 0.25 * (most - least), rtol=1e-5)
    linear = LensForecaster(**QUICK).fit(lorenz())
    assert linear.surrogate_.frame.high is None
