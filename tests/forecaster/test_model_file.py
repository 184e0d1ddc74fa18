import json
import os
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from forecasters import convolved, field, fitted, forced, lorenz, wave

import lln
from lln import InputError
from lln.forecaster.file import describe, load, save
from lln.step.frame import Flow, Polynomial, monomial_table

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.fixture
def path(tmp_path):
    save(fitted(), tmp_path / "model.lln")
    return tmp_path / "model.lln"


def same(first, second, x0, steps=40, inputs=None):
    one, two = first.rollout(x0, steps, inputs), second.rollout(x0, steps, inputs)
    np.testing.assert_array_equal(one.states, two.states)
    assert one.outcomes == two.outcomes


def test_everything_comes_back(path):
    before, after = fitted(), load(path)
    same(before, after, lorenz()[3])
    same(before, after, None)
    assert after.get_params() == before.get_params()
    assert after.recipe_ == before.recipe_
    assert after.report_.record() == before.report_.record()
    assert after.summary() == before.summary()
    assert after.names_ == before.names_
    assert after.dt_ == before.dt_
    assert after.last_time_ == before.last_time_
    assert after.evaluate(lorenz()).record() == before.evaluate(lorenz()).record()
    assert [entry.name for entry in path.parent.iterdir()] == ["model.lln"]


@pytest.mark.parametrize("history", [2])
def test_history_inputs_and_fields_come_back(history, tmp_path):
    save(fitted(history), tmp_path / "a")
    same(fitted(history), load(tmp_path / "a"), lorenz()[:history])
    forecaster, states, inputs = forced()
    forecaster.save(tmp_path / "b")
    same(forecaster, load(tmp_path / "b"), states[0], 20, inputs[:20])
    field().save(tmp_path / "c")
    back = load(tmp_path / "c")
    same(field(), back, wave()[0].reshape(2, 2, 3))
    assert back.rollout(wave()[0], 2).to_xarray().equals(field().rollout(wave()[0], 2).to_xarray())
    assert back.layout_.record() == field().layout_.record()


def test_every_part_of_a_step_comes_back(tmp_path):
    made, source = fitted(), np.random.default_rng(0)
    frame = made.surrogate_.frame
    table = monomial_table(range(3), 2)
    parts = replace(
        frame, polynomial=Polynomial(table, 1e-3 * source.standard_normal((3, len(table)))),
        flow=Flow(Polynomial(table, 1e-3 * source.standard_normal((3, len(table)))), np.zeros(3), 3),
        low=frame.mean - 2 * frame.scale, high=frame.mean + frame.scale,
    )  # fmt: skip
    step = made.surrogate_.to_dtype(torch.float64).replace(frame=parts)
    given = (made.recipe_, made.report_, made.layout_, made.training_, made.last_window_, made.last_time_)
    made = lln.LensForecaster().assemble(step, *given)
    save(made, tmp_path / "a")
    back = load(tmp_path / "a")
    assert back.surrogate_.members[0].readout.weight.dtype == torch.float64
    assert (back.rollout(lorenz()[3], 40).states <= parts.high).all()
    same(made, back, lorenz()[3])


@pytest.mark.parametrize("options", [{"model": "residual-batchnorm"}, {"linear": False}, {"members": 1}])
def test_other_recipes_come_back(options, tmp_path):
    save(fitted(**options), tmp_path / "a")
    same(fitted(**options), load(tmp_path / "a"), lorenz()[3])


def test_numbers_of_numpy_and_options_of_fields_are_kept(tmp_path):
    made = fitted(random_state=np.int64(3)).set_params(field={"boundary": "periodic"})
    save(made, tmp_path / "a")
    assert load(tmp_path / "a").get_params() == made.get_params()
    with pytest.raises(InputError, match="a parameter of type complex cannot be written"):
        save(fitted(width=1j), tmp_path / "b")
    assert not (tmp_path / "b").exists()


def test_a_field_s_own_surrogate_comes_back(tmp_path):
    made = convolved()
    save(made, tmp_path / "a")
    back = load(tmp_path / "a")
    assert type(back.surrogate_) is type(made.surrogate_)
    assert back.surrogate_.frame.record() == made.surrogate_.frame.record()
    same(made, back, wave()[0].reshape(2, 2, 3), 10)
    assert back.sample(wave()[0], 3).states.shape == (2, 4, 12)
    assert back.coverage(wave()[0], 3).outside == made.coverage(wave()[0], 3).outside
    assert 0 <= back.coverage(wave()[0], 3).outside <= 1


def test_a_new_process_predicts_the_same_bits(path):
    np.save(path.parent / "x0.npy", lorenz()[:5])
    code = (
        "import sys, numpy as np, lln\n"
        "run = lln.load(sys.argv[1]).rollout(np.load(sys.argv[2]), 60)\n"
        "np.save(sys.argv[3], run.states)\n"
    )
    files = [str(path), str(path.parent / "x0.npy"), str(path.parent / "out.npy")]
    subprocess.run([sys.executable, "-c", code, *files], check=True)
    np.testing.assert_array_equal(np.load(files[2]), fitted().rollout(lorenz()[:5], 60).states)


def test_the_front_door_has_both():
    assert lln.load is load
    assert lln.save is save


def test_opening_a_file_leaves_random_numbers_alone(path):
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    load(path)
    assert torch.equal(torch.rand(3), expected)


def test_no_pickle_inside(path):
    with pytest.raises(pickle.UnpicklingError):
        pickle.loads(path.read_bytes())


def test_the_header_can_be_read_alone(path):
    header = describe(path)
    assert header["format"] == 2
    assert header["kind"] == "forecaster"
    assert header["data"]["names"] == ["x", "y", "z"]
    assert header["data"]["dt"] == 0.01
    assert header["lln"] == lln.__version__
    json.dumps(header, allow_nan=False)


def test_an_interrupted_save_leaves_the_old_file(path, monkeypatch):
    before = path.read_bytes()

    def full_disk(_):
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="no space left"):
        save(fitted(2), path)
    assert path.read_bytes() == before
    assert [entry.name for entry in path.parent.iterdir()] == ["model.lln"]


def test_saving_nothing_or_nowhere(tmp_path):
    with pytest.raises(ValueError, match="call fit first"):
        save(lln.LensForecaster(), tmp_path / "a")
    with pytest.raises(InputError, match="no folder"):
        save(fitted(), tmp_path / "missing" / "a")


@pytest.mark.parametrize("number", [1, 2])
def test_files_of_every_format_so_far_still_load(number):
    forecaster = load(GOLDEN / f"forecaster-format-{number}.lln")
    truth = np.load(GOLDEN / f"forecaster-format-{number}.npy")
    run = forecaster.rollout(truth[0], len(truth) - 1)
    # Twenty steps of float32 networks whose sums another processor may order differently.
    np.testing.assert_allclose(run.states, truth, rtol=0, atol=1e-4 * truth.std())
    assert forecaster.names_ == ("x", "y", "z")
    assert "dt = 0.01" in forecaster.summary()
