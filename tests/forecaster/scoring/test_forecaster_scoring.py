import json

import numpy as np
import pandas as pd
import pytest
import torch
from forecasters import QUICK, fitted, forced, lorenz

from lln import InputError, LensForecaster
from lln.data.read.formats import as_dataset
from lln.data.series import Dataset, Series
from lln.evaluate import normalized_mse, valid_prediction_steps
from lln.forecaster.layout import TrainingFingerprint
from lln.forecaster.scoring.scored_rows import Window, windows_of


def data(*lengths, gaps=(), n=2, seed=0):
    rng = np.random.default_rng(seed)
    series = [Series(rng.normal(size=(rows, n))) for rows in lengths]
    for index, row in gaps:
        series[index].states[row] = np.nan
    return Dataset(tuple(series))


def trained(dataset, *parts):
    return TrainingFingerprint.of(dataset, parts)


OTHER = trained(data(9, seed=1), (0, 0, 9))


def test_windows_follow_the_training_rows_and_start_from_them():
    dataset = data(100)
    found, kind = windows_of(dataset, trained(dataset, (0, 0, 60)), 2, 20, None)
    assert kind == "unseen rows"
    # Row 60 is the first unseen one; rows 58 and 59 are given.
    assert found == [Window(0, 60, 20), Window(0, 80, 20)]


def test_new_data_starts_from_its_own_first_rows():
    found, kind = windows_of(data(50, 30), OTHER, 3, None, None)
    assert kind == "new data"
    assert found == [Window(0, 3, 47), Window(1, 3, 27)]


def test_all_of_it_trained():
    dataset = data(50)
    found, kind = windows_of(dataset, trained(dataset, (0, 0, 50)), 1, None, None)
    assert kind == "training data"
    assert found == [Window(0, 1, 49)]


def test_gaps_end_windows_and_leftovers_are_dropped():
    dataset = data(100, gaps=[(0, 40), (0, 50)])
    found, _ = windows_of(dataset, OTHER, 1, None, None)
    assert found == [Window(0, 1, 39), Window(0, 52, 48)]
    found, _ = windows_of(dataset, OTHER, 1, 15, None)
    assert found == [Window(0, 1, 15), Window(0, 16, 15), Window(0, 52, 15), Window(0, 67, 15), Window(0, 82, 15)]
    assert len(windows_of(dataset, OTHER, 1, 3, 4)[0]) == 4


def test_rows_before_and_between_training_parts():
    dataset = data(300)
    found, kind = windows_of(dataset, trained(dataset, (0, 100, 200), (0, 240, 300)), 1, 30, None)
    assert kind == "unseen rows"
    assert found == [Window(0, 1, 30), Window(0, 31, 30), Window(0, 61, 30), Window(0, 200, 30)]


def test_nothing_to_score_on():
    with pytest.raises(InputError, match="array: no 9 neighbouring rows without a gap to score"):
        windows_of(data(6), OTHER, 1, 8, None)


def test_the_score_is_that_of_a_rollout_over_the_held_out_rows():
    forecaster, states = fitted(), lorenz()
    (part,) = forecaster.training_.rows
    first = part[2]
    assert first < len(states)
    result = forecaster.evaluate(states)
    assert result.scored == "unseen rows"
    assert result.windows == (Window(0, first, len(states) - first),)
    run = forecaster.rollout(states[first - 1], len(states) - first)
    scale = forecaster.surrogate_.frame.scale
    assert result.nmse == normalized_mse(run.predicted, states[first:], scale)
    assert result.valid_prediction_steps == valid_prediction_steps(run.predicted, states[first:], scale)
    assert result.valid_prediction_time == pytest.approx(0.01 * result.valid_prediction_steps)
    assert result.rmse == pytest.approx(result.nmse**0.5)
    assert result.nmse_by_step.mean() == pytest.approx(result.nmse)
    assert result.steps == len(states) - first
    assert forecaster.score(states) == 1 - result.nmse
    assert "scored on unseen rows: one window" in str(result)


def test_part_of_a_longer_file_is_recognised():
    part = LensForecaster(**QUICK).fit(lorenz()[50:450], dt=0.01)
    assert part.evaluate(lorenz()).scored == "unseen rows"
    seen = part.training_.seen(Series(lorenz()))
    assert all(not seen[window.first : window.first + window.steps].any() for window in part.evaluate(lorenz()).windows)


def test_training_data_is_called_so():
    result = fitted().evaluate(lorenz()[:200])
    assert result.scored == "training data"
    assert "These states trained the model" in str(result)
    assert fitted().evaluate(lorenz() + 1e-9).scored == "new data"


def test_after_a_refit_everything_is_training_data():
    forecaster = fitted(held_out=0.0)
    assert forecaster.evaluate(lorenz()).scored == "training data"
    longer = lorenz(1000)
    np.testing.assert_array_equal(longer[: len(lorenz())], lorenz())
    result = forecaster.evaluate(longer)
    assert result.scored == "unseen rows"
    assert result.windows == (Window(0, len(lorenz()), 100),)


def test_several_windows_and_their_means():
    result = fitted().evaluate([lorenz()[:150] + 1e-6, lorenz()[200:320] + 1e-6], steps=40)
    assert [tuple(window) for window in result.windows] == [
        (0, 1, 40),
        (0, 41, 40),
        (0, 81, 40),
        (1, 1, 40),
        (1, 41, 40),
    ]
    assert result.nmse == pytest.approx(result.nmse_by_window.mean())
    assert result.geometric_nmse == pytest.approx(np.exp(np.log(result.nmse_by_window).mean()))
    assert result.geometric_nmse <= result.nmse
    assert len(result.outcomes) == 5
    assert len(fitted().evaluate([lorenz()[:150] + 1e-6], steps=40, windows=2).windows) == 2


def test_known_inputs_are_used():
    forecaster, states, inputs = forced()
    result = forecaster.evaluate(states, inputs=inputs)
    first = result.windows[0].first
    run = forecaster.rollout(states[first - 1], result.steps, inputs[first - 1 : first - 1 + result.steps])
    assert result.nmse == pytest.approx(
        normalized_mse(run.predicted, states[first:], forecaster.surrogate_.frame.scale)
    )
    with pytest.raises(InputError, match=r"it has 0 known inputs, but this model was fitted with 2 \(u, v\)"):
        forecaster.evaluate(states)


def test_its_record_is_json_even_when_a_rollout_diverged():
    result = fitted().evaluate(lorenz())
    record = json.loads(json.dumps(result.record(), allow_nan=False))
    assert {"nmse", "nmse_by_step", "valid_prediction_steps", "parameters"} <= set(record)
    assert len(record["nmse_by_step"]) == result.steps
    assert record["parameters"] == fitted().parameters_


def test_data_of_another_system():
    with pytest.raises(InputError, match=r"X has 2 features, but LensForecaster is expecting 3 features .*\(x, y, z\)"):
        fitted().evaluate(lorenz()[:, :2])
    with pytest.raises(
        InputError, match=r"step is 0\.02, but .* steps by 0\.01; resample it with --resample --dt 0\.01 \("
    ):
        fitted().evaluate(lorenz(), dt=0.02)


def table(rows=60, **columns):
    return pd.DataFrame({"time": 0.01 * np.arange(rows), **dict(zip("xyz", lorenz()[:rows].T, strict=True)), **columns})


def test_columns_are_found_by_their_names_in_any_order(tmp_path):
    known = fitted().evaluate(table()).nmse
    turned = table()[["z", "time", "x", "y"]]
    turned.to_csv(tmp_path / "turned.csv", index=False)
    for same in (turned, tmp_path / "turned.csv", table(wind=0.0, note="calm"), as_dataset(table())):
        assert fitted().evaluate(same).nmse == pytest.approx(known, rel=1e-9)
    for names in (["z", "x", "y"], turned.columns[[0, 2, 3]]):
        assert fitted().evaluate(turned, states=names).nmse == pytest.approx(known, rel=1e-9)
    with pytest.raises(
        InputError, match=r"its states are z, x, y, but this model was fitted to x, y, z, in that order"
    ):
        fitted().evaluate(as_dataset(turned))


def test_columns_of_other_names_are_named_by_the_user():
    other = table().rename(columns=dict(zip("xyz", "pqr", strict=True)))
    with pytest.raises(InputError, match=r"states are p, q, r, .* name them in that order with --states \(in Python"):
        fitted().evaluate(other)
    assert fitted().evaluate(other, states=list("pqr")).nmse == fitted().evaluate(table()).nmse
    made_up = table().rename(columns={name: f"x{i}" for i, name in enumerate("xyz")})
    assert fitted().evaluate(made_up).nmse == fitted().evaluate(table()).nmse


def test_tables_and_tensors_without_times_have_the_models_step():
    known = fitted().evaluate(lorenz()[:60]).nmse
    assert fitted().evaluate(table().drop(columns="time")).nmse == known
    assert fitted().evaluate(torch.tensor(lorenz()[:60])).nmse == known
    with pytest.raises(InputError, match=r"its time step is 0\.02"):
        fitted().evaluate(table().iloc[::2])
