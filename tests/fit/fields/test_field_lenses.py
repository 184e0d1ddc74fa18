"""Lens networks on grids in closed form."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from exported_fields import field_of

import lln
from lln.data.read.formats import as_dataset
from lln.fit.fields.lenses import LensChoice, LensRegression, solve_lenses
from lln.fit.fields.recipe import FieldOptions, fit_field_surrogate
from lln.fit.options import Recipe


def burgers(count, points, steps, seed=0):
    """u_t = -u u_x + nu u_xx on a ring, steps over which crests move by about two points."""
    rng, x = np.random.default_rng(seed), np.arange(points) / points
    k = 2 * np.pi * np.fft.rfftfreq(points, 1 / points)
    u = sum(np.sin(2 * np.pi * m * x + rng.uniform(0, 7, (count, 1))) * rng.normal(size=(count, 1)) for m in (1, 2))
    states, h = [0.6 * u], 0.04 / 20
    for _ in range(steps):
        u = states[-1]
        for _ in range(20):
            square = np.fft.rfft(u * u)
            square[..., points // 3 :] = 0
            u = np.fft.irfft((np.fft.rfft(u) - 0.5j * h * k * square) * np.exp(-8e-3 * h * k**2), points)
        states.append(u)
    return np.stack(states, axis=1)


CASES = {
    "line": {},
    "mean kept": {"conserve": "mean"},
    "walls, history, inputs": {"boundary": [("dirichlet", "neumann")], "history": 2, "inputs": 1, "channels": 2},
    "plane with a fixed field": {"space": (6, 7), "static": 1, "boundary": ["periodic", "replicate"]},
}


@pytest.mark.parametrize("case", CASES)
def test_the_readout_of_another_draw_of_lenses_is_found_again(case):
    """Data of a step with drawn lenses and a known readout: the regression gives this step again."""
    rng, frame = np.random.default_rng(0), field_of(members=0, **CASES[case]).frame
    choice = LensChoice((3,) * len(frame.space), (3,) * len(frame.space), 4, 0.5, 0.0)
    windows = [
        frame.mean + frame.scale * rng.standard_normal((frame.history + 1, frame.size)) for _ in range(40)
    ]  # one pair each
    inputs = [rng.standard_normal((frame.history + 1, frame.inputs)) for _ in windows] if frame.inputs else None
    data = as_dataset(windows, inputs=inputs, grid=frame.space, dt=1.0)
    truth = LensRegression(data, frame, choice, 0, 10**6).solve(1e-3)
    for k, window in enumerate(windows):
        known = None if inputs is None else inputs[k][None, -2:-1]
        window[-1] = truth.rollout(window[None, :-1], 1, known)[0, -1]
    data = as_dataset(windows, inputs=inputs, grid=frame.space, dt=1.0)
    again = LensRegression(data, frame, choice, 0, 10**6).solve(1e-15)
    start = np.stack(windows)[:, :-1]
    known = None if inputs is None else np.stack(inputs)[:, -2:-1]
    gap = (again.rollout(start, 1, known) - np.stack(windows)[:, -1:]) / frame.scale
    assert np.abs(gap).max() < 1e-6
    moved = (np.stack(windows)[:, -1:] - start[:, -1:]) / frame.scale
    assert np.abs(moved).max() > 0.1


def test_noise_on_states_damps_what_the_data_does_not_contain():
    data = as_dataset(list(burgers(6, 32, 16)), grid=(32,), dt=0.04)
    frame = replace(field_of(space=(32,), members=0, conserve="mean").frame, channel_mean=np.zeros(1))
    choice = LensChoice((9,), (5,), 20, 0.2, 0.0, 1e-13)
    rough = 0.01 * np.random.default_rng(1).standard_normal((5, 1, 32))
    grown = []
    for noise in (0.0, 1e-2):
        step = solve_lenses(data, frame, replace(choice, noise=noise), 0, 10**4)
        grown.append(np.abs(step.rollout(rough, 1)).max())
    assert grown[1] < 0.5 * grown[0]
    assert grown[1] < np.abs(rough).max()


@pytest.fixture(scope="module")
def shock():
    data = as_dataset(list(burgers(8, 32, 20)), grid=(32,), dt=0.04)
    recipe = Recipe(parts=("linear", "lens"), history=1)
    return fit_field_surrogate(data, recipe, options=FieldOptions(boundary="periodic"))


def test_a_fit_takes_lenses_where_no_convolution_helps(shock):
    report = shock.report
    assert report.part == "lens"
    assert report.updates == 0
    assert report.held_out_nmse < 1e-2 * report.linear_nmse
    assert report.held_out_rows == ()  # solved again on everything
    assert len(shock.surrogate.members) > 1  # the mean of several draws
    truth = burgers(4, 32, 80, seed=9)
    states = shock.surrogate.rollout(truth[:, :1], 80)
    error = np.linalg.norm(states - truth[:, 1:], axis=-1) / np.linalg.norm(truth[:, 1:], axis=-1)
    assert error[:, :20].mean() < 0.03
    assert error.max() < 0.3
    assert np.abs(states.mean(axis=-1) - truth[:, :1].mean(axis=-1)).max() < 1e-12


def test_it_rolls_out_on_a_finer_grid_and_from_a_file(shock, tmp_path):
    start = burgers(4, 64, 0, seed=9)
    fine, coarse = shock.surrogate.rollout(start, 10, space=(64,)), shock.surrogate.rollout(start[..., ::2], 10)
    assert np.abs(fine[..., ::2] - coarse).max() < 0.01 * np.abs(coarse).max()  # kernels keep their physical extent
    trained = list(burgers(5, 20, 14))
    model = lln.LensForecaster(parts=("linear", "lens"), history=1, field=True).fit(trained, grid=(20,), dt=0.04)
    assert model.report_.part == "lens"
    model.save(tmp_path / "m.lln")
    again = lln.load(tmp_path / "m.lln")
    assert np.array_equal(again.rollout(steps=5).array, model.rollout(steps=5).array)
    assert again.surrogate_.dtype == torch.float64
