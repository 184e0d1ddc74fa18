import copy
import pickle

import numpy as np
import pytest
import torch
from forecasters import QUICK, field, fitted, forced, lorenz, wave
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from lln import InputError, LensForecaster
from lln.evaluate import Ending
from lln.evaluate.rollout import judge


def test_a_rollout_is_the_step_again_and_again():
    forecaster, x0 = fitted(), lorenz()[0]
    run = forecaster.rollout(x0, 20)
    assert run.states.shape == (21, 3)
    np.testing.assert_array_equal(run.states[0], x0)
    state = x0
    for k in range(20):
        state = forecaster.predict(state)
        np.testing.assert_array_equal(run.states[k + 1], state)
    np.testing.assert_allclose(run.times, 0.01 * np.arange(21), atol=1e-15)


def test_fitted_attributes():
    forecaster = fitted()
    assert forecaster.dt_ == 0.01
    assert forecaster.names_ == ("x", "y", "z")
    assert forecaster.n_features_in_ == 3
    assert forecaster.space_ == ()
    assert forecaster.history_ == 1
    assert forecaster.recipe_.width == 8
    np.testing.assert_array_equal(forecaster.last_window_, lorenz()[-1:])
    assert forecaster.last_time_ == pytest.approx(0.01 * (len(lorenz()) - 1))


@pytest.mark.parametrize("history", [1, 2])
def test_many_starts_are_as_one_by_one(history):
    forecaster, states = fitted(history), lorenz()
    windows = np.stack([states[k : k + history] for k in (0, 50, 90)])
    together = forecaster.rollout(windows, 15)
    assert together.states.shape == (3, 16, 3)
    assert len(together.outcomes) == 3
    for window, rows in zip(windows, together.states, strict=True):
        alone = forecaster.rollout(window[0] if history == 1 else window, 15)
        # The kernels may add in another order for other batch sizes; float32 networks, a few steps of chaos.
        np.testing.assert_allclose(alone.states, rows, rtol=0, atol=1e-4)


def test_shapes_of_starts():
    one, two, states = fitted(), fitted(2), lorenz()
    assert one.rollout(states[:4], 5).states.shape == (4, 6, 3)
    assert one.rollout(states[:4, None], 5).states.shape == (4, 6, 3)
    assert one.rollout(states[:12].reshape(3, 4, 3), 5).states.shape == (3, 4, 6, 3)
    assert one.rollout(torch.from_numpy(states[0]), 5).states.shape == (6, 3)
    assert one.rollout(list(states[0]), 5).predicted.shape == (5, 3)
    assert two.rollout(states[:2], 5).states.shape == (6, 3)
    assert two.predict(states[:2]).shape == (3,)
    assert two.predict(states[:8].reshape(4, 2, 3)).shape == (4, 3)


def test_without_a_start_it_goes_on_where_the_data_ended():
    for history in (1, 2):
        run = fitted(history).rollout(steps=3)
        np.testing.assert_array_equal(run.states[0], lorenz()[-1])
        np.testing.assert_array_equal(
            run.predicted, fitted(history).rollout(lorenz()[-history:], 3).states[..., 1:, :].reshape(3, 3)
        )
        assert run.times[0] == pytest.approx(7.99 + 0.01)


@pytest.mark.parametrize(
    ("history", "x0", "message"),
    [
        (2, lorenz()[0], r"x0 has shape \(3,\), but this model looks at 2 states at a time: give the last 2 states"),
        (2, lorenz()[:3], r"as \(2, 3\) for one start or \(B, 2, 3\) for many"),
        (1, lorenz()[:2].T, r"X has 2 features, .* expecting 3 .* \(x, y, z\): .* looks transposed, give its \.T"),
        (1, np.ones(5), "X has 5 features, but LensForecaster is expecting 3 features"),
        (1, 1.0, r"x0 is a single number \(1\), but a start is an array of shape \(3,\)"),
        (1, np.array([1.0, np.nan, 0.0]), "x0 is nan in coordinate 'y'; a rollout must start at finite states"),
        (1, ["a", "b", "c"], "x0 must be an array of numbers, got <U1"),
        (1, [[1.0], [1.0, 2.0]], "x0 must be an array of numbers, got rows of unequal length"),
    ],
)
def test_a_wrong_start_gets_a_sentence(history, x0, message):
    with pytest.raises(InputError, match=message):
        fitted(history).rollout(x0, 3)


def test_wrong_steps():
    with pytest.raises(InputError, match="steps must be an integer of at least 1, got 0"):
        fitted().rollout(lorenz()[0], 0)


def test_fields_keep_their_shape():
    forecaster, flat = field(), wave()
    grid = flat[0].reshape(2, 2, 3)
    run = forecaster.rollout(grid, 4)
    assert run.states.shape == (5, 2, 2, 3)
    np.testing.assert_array_equal(run.states.reshape(5, 12), forecaster.rollout(flat[0], 4).states)
    np.testing.assert_array_equal(run.array, run.states.reshape(5, 12))
    assert forecaster.predict(np.stack([grid, grid])).shape == (2, 2, 2, 3)
    single = field(1)
    assert single.rollout(wave(channels=1)[0].reshape(2, 3), 4).states.shape == (5, 2, 3)
    with pytest.raises(
        InputError, match=r"u, v on a grid of 2 x 3\): give states of shape .* or fields \(\.\.\., 2, 2, 3\)"
    ):
        forecaster.rollout(np.ones((2, 3)), 4)


def test_known_inputs_constant_varying_or_named():
    forecaster, states, inputs = forced()
    steps = 30
    varying = forecaster.rollout(states[50], steps, inputs[50 : 50 + steps])
    # The linear part knows all but the product; what it leaves is small beside the states.
    assert np.abs(varying.predicted - states[51 : 51 + steps]).max() < 0.5 * states.std()
    named = forecaster.rollout(states[50], steps, {"v": inputs[50 : 50 + steps, 1], "u": inputs[50 : 50 + steps, 0]})
    np.testing.assert_array_equal(named.states, varying.states)
    constant = forecaster.rollout(states[50], steps, [0.1, -0.2])
    np.testing.assert_array_equal(
        constant.states, forecaster.rollout(states[50], steps, np.tile([0.1, -0.2], (steps, 1))).states
    )
    half_constant = forecaster.rollout(states[50], steps, {"u": 0.1, "v": np.full(steps, -0.2)})
    np.testing.assert_array_equal(constant.states, half_constant.states)
    each = forecaster.rollout(states[:2], steps, np.stack([inputs[:steps], inputs[1 : steps + 1]]))
    assert each.states.shape == (2, steps + 1, 2)
    assert not np.array_equal(each.states[0], each.states[1])


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (None, r"fitted with known inputs \(u, v\); give inputs= as \(2,\) if they stay constant, or as \(4, 2\)"),
        (np.zeros((3, 2)), r"inputs must have shape \(2,\) or \(4, 2\) \(u, v\), got \(3, 2\)"),
        ({"u": 1.0, "w": 2.0}, "inputs has no 'v'"),
        ([np.nan, 1.0], "inputs must be finite"),
    ],
)
def test_wrong_inputs_get_a_sentence(inputs, message):
    with pytest.raises(InputError, match=message):
        forced()[0].rollout(np.zeros(2), 4, inputs)
    with pytest.raises(InputError, match="this model was fitted without known inputs"):
        fitted().rollout(lorenz()[0], 4, [1.0])


def test_members_alone_and_their_number():
    forecaster, states = fitted(), lorenz()
    run = forecaster.sample(states[:4], 6)
    members = len(run.states)
    assert run.states.shape == (members, 4, 7, 3)
    assert len(run.outcomes) == members * 4
    assert run.to_xarray().sizes == {"member": members, "start": 4, "time": 7}
    assert forecaster.sample(states[0], 6, n=1).states.shape == (1, 7, 3)
    with pytest.raises(InputError, match=r"n = 9 members were asked for, but this model has \d; fit with members=9"):
        forecaster.sample(states[0], 6, n=9)


def test_leaving_the_region_of_training_is_said():
    forecaster = fitted()
    far = forecaster.region_.high + 1.0
    assert forecaster.rollout(far, 2).outcomes[0].left == 0
    run = forecaster.rollout(lorenz()[:20], 3)
    assert all(outcome.ending is Ending.FINISHED for outcome in run.outcomes)
    seen = lorenz()[slice(*forecaster.training_.rows[0][1:])]
    np.testing.assert_allclose(forecaster.region_.low, seen.min(axis=0) - 0.1 * np.ptp(seen, axis=0))
    np.testing.assert_allclose(forecaster.region_.high, seen.max(axis=0) + 0.1 * np.ptp(seen, axis=0))


def test_outcomes_are_those_of_the_states_after_every_change_of_the_model():
    forecaster = LensForecaster(**QUICK).fit(lorenz(), dt=0.01)
    for change in (lambda one: one, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one)), _fitted_to_half):
        forecaster = change(forecaster)
        low, high = forecaster.region_.low, forecaster.region_.high
        starts = low + (high - low) * np.random.default_rng(0).uniform(-0.2, 1.2, (40, 3))
        run = forecaster.rollout(starts, 30)
        assert {outcome.ending for outcome in run.outcomes} >= {Ending.FINISHED, Ending.LEFT}
        assert run.outcomes == judge(run.array, region=forecaster.region_).outcomes
        np.testing.assert_array_equal(run.array[:, 1:], forecaster.surrogate_.rollout(starts[:, None], 30))
        for start, outcome in zip(starts[:5], run.outcomes, strict=False):
            assert forecaster.rollout(start, 30).outcomes == (outcome,)


def _fitted_to_half(forecaster):
    return forecaster.fit(0.5 * lorenz(), dt=0.01)


def test_predict_passes_gaps_on():
    states = lorenz()[:5].copy()
    states[2, 1] = np.nan
    after = fitted().predict(states)
    assert np.isnan(after[2]).all()
    np.testing.assert_allclose(np.delete(after, 2, 0), fitted().predict(np.delete(states, 2, 0)), atol=1e-5)


def test_parameters_can_be_read_set_and_cloned():
    forecaster = LensForecaster(width=5, history=2)
    assert forecaster.get_params()["width"] == 5
    assert forecaster.set_params(width=7).width == 7
    twin = clone(fitted())
    assert twin.get_params() == fitted().get_params()
    assert not hasattr(twin, "surrogate_")
    with pytest.raises(ValueError, match="has no parameter 'breadth'"):
        forecaster.set_params(breadth=1)


def test_before_fit():
    for use in ("rollout", "predict", "sample", "invert", "coverage", "evaluate", "score"):
        with pytest.raises(NotFittedError, match="call fit first"):
            getattr(LensForecaster(), use)(np.ones(3))
    with pytest.raises(NotFittedError, match="call fit first"):
        LensForecaster().summary()


def test_the_same_random_state_gives_the_same_model():
    first, second = (LensForecaster(**QUICK).fit(lorenz()[:300]) for _ in range(2))
    np.testing.assert_array_equal(first.rollout(lorenz()[0], 30).states, second.rollout(lorenz()[0], 30).states)
    drawn = LensForecaster(**QUICK, random_state=None).fit(lorenz()[:300])
    again = LensForecaster(**QUICK, random_state=drawn.recipe_.seed).fit(lorenz()[:300])
    np.testing.assert_array_equal(drawn.rollout(lorenz()[0], 30).states, again.rollout(lorenz()[0], 30).states)


def test_a_list_of_unequal_trajectories_and_gaps():
    states = lorenz()
    broken = states[300:600].copy()
    broken[100:110] = np.nan
    forecaster = LensForecaster(**QUICK).fit([states[:250], broken, states[600:]], dt=0.01)
    assert forecaster.rollout(states[0], 5).states.shape == (6, 3)
    assert {part[0] for part in (*forecaster.training_.rows, *forecaster.training_.held_out)} == {0, 1, 2}
    assert forecaster.report_.left_out > 0


def test_sparse_and_complex_are_refused():
    from scipy.sparse import csr_array

    with pytest.raises(InputError, match="sparse input is not supported"):
        LensForecaster().fit(csr_array(lorenz()))
    with pytest.raises(InputError, match="Complex data not supported"):
        LensForecaster().fit(lorenz() + 1j)


def test_a_series_of_one_coordinate_may_be_one_dimensional_as_a_start_too():
    x = np.sin(np.arange(80) / 3)
    model = LensForecaster(parts="linear", history=2).fit(x)
    np.testing.assert_array_equal(model.rollout(x[-2:], 3).array, model.rollout(x[-2:, None], 3).array)
    with pytest.raises(InputError, match=r"x0 has shape \(80, 1\), but this model looks at 2 states at a time"):
        model.rollout(x, 3)
    with pytest.raises(InputError, match=r"x0 is a single number \(12\), .* give a number of steps by name"):
        model.rollout(12)


def test_metrics_may_have_names_of_the_callers_own():
    x = np.sin(np.arange(80) / 3)
    model = LensForecaster(parts="linear", history=2).fit(x)

    def worst(predicted, truth, *_):
        return np.abs(predicted - truth).max()

    found = [model.evaluate(x, metrics=given, baselines=()).metrics for given in ({"largest": worst}, worst)]
    assert found[0]["largest"] == found[1]["worst"]
