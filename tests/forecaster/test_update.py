"""A fit continued on new data: the structure stays, its weights are fitted again."""

import numpy as np
import pytest
from forecasters import field

import lln
from lln import LensForecaster


def logistic(rows, rate=3.7, start=0.3):
    states = [start]
    for _ in range(rows - 1):
        states.append(rate * states[-1] * (1 - states[-1]))
    return np.array(states)[:, None]


def test_a_closed_form_is_solved_again_with_the_same_structure(tmp_path):
    rng = np.random.default_rng(0)
    first = logistic(150) + 1e-3 * rng.standard_normal((150, 1))
    model = LensForecaster(parts=["polynomial"], history=1).fit(first, dt=1.0)
    assert model.report_.part == "polynomial"
    before = (model.report_.structure, model.report_.held_out_nmse, model.history_)
    old = model.predict(np.array([[0.4]]))
    more = logistic(1500, start=0.31) + 1e-3 * rng.standard_normal((1500, 1))
    assert model.update([first, more]) is model
    assert (model.report_.structure, model.report_.held_out_nmse, model.history_) == before
    assert model.report_.pairs == 149 + 1499
    assert model.predict(np.array([[0.4]])) != old
    assert abs(float(model.predict(np.array([[0.4]]))[0, 0]) - 3.7 * 0.4 * 0.6) < 2e-3
    assert sum("Solved again on 1,648 pairs" in note for note in model.report_.notes) == 1
    model.update([first, more])
    assert sum("Solved again" in note for note in model.report_.notes) == 1
    assert model.training_.seen(lln.as_dataset(more).series[0]).all()
    np.testing.assert_array_equal(model.last_window_[-1], more[-1])
    model.save(tmp_path / "m.lln")
    again = lln.load(tmp_path / "m.lln").update([first, more])
    np.testing.assert_array_equal(again.rollout(steps=5).array, model.rollout(steps=5).array)


def test_the_same_rows_give_the_same_model():
    angle = 0.1 * np.arange(300)
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    model = LensForecaster().fit(circle, dt=0.1)
    assert model.report_.structure
    before = model.rollout(steps=30).array
    np.testing.assert_allclose(model.update(circle).rollout(steps=30).array, before, rtol=1e-12, atol=1e-12)


def test_a_network_is_trained_again_in_its_frame():
    angle = 0.1 * np.arange(400)
    states = np.stack([np.cos(angle), np.sin(angle) ** 3], axis=1)
    quick = {"members": 1, "epochs": 2, "width": 8, "depth": 2, "history": 1, "ridge": None, "parts": ["network"]}
    model = LensForecaster(**quick).fit(states[:200], dt=0.1)
    assert model.report_.structure == {}
    width = model.recipe_.width
    model.update(states)
    assert (model.recipe_.width, model.history_) == (width, 1)
    assert model.training_.total == 400


def test_an_unfitted_model_and_other_data_are_refused():
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        LensForecaster().update(logistic(50))
    with pytest.raises(lln.InputError, match="X has 2 features"):
        LensForecaster(parts=["linear"]).fit(logistic(60), dt=1.0).update(np.ones((60, 2)))


def test_an_array_without_a_grid_is_read_on_the_grid_of_the_model():
    model = field()
    read = model.layout_.read(np.zeros((4, model.n_features_in_)))
    assert (read.space, read.channels, read.names) == (model.space_, model.layout_.channels, model.layout_.names)
    assert set(read.coords) == {"lat", "lon"}
