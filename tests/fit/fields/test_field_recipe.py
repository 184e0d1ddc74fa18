import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from lln.core.errors import InputError
from lln.data.read.formats import as_dataset
from lln.fit.fields.closed import Linear
from lln.fit.fields.data import conserves, grid_of
from lln.fit.fields.judge import Stay
from lln.fit.fields.lenses import LensChoice
from lln.fit.fields.recipe import FieldOptions, Scored, _far_behind, fit_field_surrogate
from lln.fit.options import Recipe

SMALL = FieldOptions(kernel=5, blocks=1, linear_kernel=5)


def starts(count, points, seed=0, modes=3):
    rng, x = np.random.default_rng(seed), np.arange(points) / points
    waves = [
        np.sin(2 * np.pi * k * x + rng.uniform(0, 2 * np.pi, (count, 1))) * rng.normal(size=(count, 1))
        for k in range(1, modes + 1)
    ]
    return sum(waves)


def advection(count, points, steps, seed=0, *, speed=0.02, diffusion=2e-4):
    """Advection and diffusion on a ring, exact in Fourier space."""
    k = 2 * np.pi * np.fft.rfftfreq(points, 1 / points)
    step = np.exp(-1j * k * speed - k**2 * diffusion)
    states = [np.fft.rfft(starts(count, points, seed))]
    for _ in range(steps):
        states.append(states[-1] * step)
    return np.fft.irfft(np.stack(states, axis=1), points, axis=-1)


def burgers(count, points, steps, seed=0):
    """u_t = -u u_x + nu u_xx on a ring, pseudo-spectral with small Runge-Kutta steps."""
    k = 2 * np.pi * np.fft.rfftfreq(points, 1 / points)

    def rate(u):
        spectrum = np.fft.rfft(u)
        square = np.fft.rfft(u * u)
        square[..., points // 3 :] = 0
        return np.fft.irfft(-0.5j * k * square - 2e-3 * k**2 * spectrum, points)

    states = [0.5 * starts(count, points, seed)]
    for _ in range(steps):
        u, h = states[-1], 0.02 / 8
        for _ in range(8):
            a = rate(u)
            b = rate(u + h / 2 * a)
            c = rate(u + h / 2 * b)
            d = rate(u + h * c)
            u = u + h / 6 * (a + 2 * b + 2 * c + d)
        states.append(u)
    return np.stack(states, axis=1)


def recipe(**more):
    return Recipe(**{"members": 1, "epochs": 1, "width": 8, "depth": 2, "basis": 6, **more})


def nmse(predicted, truth):
    return ((predicted - truth) ** 2).mean() / truth.var()


def test_a_linear_field_is_learned_exactly_by_the_convolution():
    data = as_dataset(list(advection(8, 24, 40)), grid=(24,), dt=0.1)
    events = []
    fit = fit_field_surrogate(data, recipe(), options=FieldOptions(kernel=5, blocks=1), progress=events.append)
    report, frame = fit.report, fit.surrogate.frame
    assert report.held_out_nmse < 1e-12
    assert report.radius in (2, 4)
    assert frame.boundary == (("periodic", "periodic"),)
    assert frame.conserve == "mean"
    assert any("periodic" in note for note in report.notes)
    assert any("conserves the mean" in note for note in report.notes)
    assert any("points are spaced 1 along x; kernels are" in note for note in report.notes)
    truth = advection(2, 24, 100, seed=9)
    assert nmse(fit.surrogate.rollout(truth[:, :1], 100), truth[:, 1:]) < 1e-9
    # what is left is rounding, so no network is trained, and the convolution is solved for on everything
    assert {event.phase for event in events} == {"linear part"}
    assert (fit.surrogate.members, report.model, report.correction_weight) == ((), "", 0.0)
    assert any("nothing but rounding" in note for note in report.notes)
    assert (report.trajectories, report.pairs, report.held_out_rows) == (8, 8 * 40, ())
    assert report.training_rows == tuple((index, 0, 41) for index in range(8))
    assert fit.recipe.history == 1
    # what one point visits any other may: one region for the channel
    assert len(report.region[0]) == 1


@pytest.fixture(scope="module")
def shock():
    fine = burgers(10, 128, 30)
    data = as_dataset(list(fine[..., ::2]), grid=(64,), dt=0.02)
    options = FieldOptions(kernel=7, blocks=1, linear_kernel=3)
    return fit_field_surrogate(
        data, recipe(epochs=80, width=24, depth=4, history=1, learning_rate=1e-2), options=options
    )


def test_networks_do_what_no_convolution_can(shock):
    assert shock.report.correction_weight > 0
    assert shock.report.held_out_nmse < 0.1 * shock.report.linear_nmse
    assert 0 <= shock.report.coverage < 0.2
    assert shock.report.parameters == shock.report.parameters_per_member + shock.report.linear_parameters
    # networks are not trained again on what was held out, but all trajectories are counted
    assert shock.report.trajectories == 10
    assert len(shock.report.held_out_rows) == 2
    assert shock.report.pairs == 8 * 30


def test_trained_at_64_points_it_rolls_out_at_128(shock):
    truth = burgers(4, 128, 30, seed=5)
    coarse = nmse(shock.surrogate.rollout(truth[:, :1, ::2], 30), truth[:, 1:, ::2])
    fine = nmse(shock.surrogate.rollout(truth[:, :1], 30, space=(128,)), truth[:, 1:])
    assert coarse < 0.05
    # the same kernels at the same distances: as good between the points of training as on them
    assert fine == pytest.approx(coarse, rel=0.1)
    odd = burgers(4, 96, 30, seed=5)
    assert nmse(shock.surrogate.rollout(odd[:, :1], 30, space=(96,)), odd[:, 1:]) < 1.5 * coarse


def test_a_killed_fit_goes_on_to_the_same_result(tmp_path, monkeypatch):
    from lln.train import loop as kept

    monkeypatch.setattr(kept, "EVERY", 0.0)
    data = as_dataset(list(burgers(6, 24, 12)), grid=(24,), dt=0.02)
    wishes, path = recipe(epochs=10, batch_size=6, members=2, history=1, unroll=2), tmp_path / "fit.safetensors"
    whole = fit_field_surrogate(data, wishes, options=SMALL)
    calls = []

    def stop(event):
        calls.append(event)
        if event.message.startswith("training over 2 steps") and event.done >= 25:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit_field_surrogate(data, wishes, options=SMALL, progress=stop, checkpoint=path)
    assert path.exists()
    seen = []
    again = fit_field_surrogate(data, wishes, options=SMALL, progress=seen.append, checkpoint=path)
    assert not path.exists()
    assert not any(event.message.startswith("training, loss") for event in seen)
    for one, other in zip(whole.surrogate.members, again.surrogate.members, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))
    assert np.array_equal(whole.surrogate.frame.gain, again.surrogate.frame.gain)
    other = as_dataset(list(burgers(6, 24, 12, seed=3)), grid=(24,), dt=0.02)
    path.write_bytes(b"")
    with pytest.raises(InputError, match="not a whole checkpoint"):
        fit_field_surrogate(other, wishes, options=SMALL, checkpoint=path)


def test_a_wave_needs_two_states():
    trajectories = []
    for seed in range(6):
        before = starts(1, 24, seed, modes=8)[0]
        now = before + 0.05 * starts(1, 24, seed + 50, modes=8)[0]
        rows = [before, now]
        for _ in range(60):
            bend = np.roll(now, 1) + np.roll(now, -1) - 2 * now
            before, now = now, 2 * now - before + 0.1 * bend
            rows.append(now)
        trajectories.append(np.stack(rows))
    fit = fit_field_surrogate(as_dataset(trajectories, grid=(24,), dt=0.01), recipe(), options=SMALL)
    assert fit.surrogate.frame.history == 2
    assert fit.report.held_out_nmse < 1e-8
    assert fit.report.linear_nmse < 1e-6 * min(c["nmse"] for c in fit.report.candidates if c.get("history") == 1)


def test_two_channels_in_two_dimensions_between_walls_with_an_input():
    rng = np.random.default_rng(0)
    trajectories, inputs = [], []
    for _ in range(5):
        state, rows, forcing = rng.normal(size=(2, 7, 8)), [], rng.normal(size=(25, 1))
        state[:, 0] = 1.0
        for k in range(25):
            rows.append(state.reshape(-1).copy())
            wide = np.pad(state, ((0, 0), (0, 0), (1, 1)), mode="wrap")
            change = 0.1 * (wide[..., 2:] - state) + 0.1 * state[::-1] * np.array([1, -1])[:, None, None]
            change = change + 0.05 * forcing[k] - 0.05 * state
            change[:, 0] = 0.0
            state = state + change
        trajectories.append(np.stack(rows))
        inputs.append(forcing)
    data = as_dataset(trajectories, inputs=inputs, grid=(7, 8), dt=1.0)
    options = FieldOptions(boundary=[("dirichlet", "replicate"), "periodic"], kernel=3, blocks=1, linear_kernel=3)
    fit = fit_field_surrogate(data, recipe(history=1), options=options)
    assert fit.report.held_out_nmse < 1e-10
    assert fit.surrogate.frame.channels == 2
    window, forcing = trajectories[0][None, :1], inputs[0][None]
    states = fit.surrogate.rollout(window, 20, forcing[:, :20])
    assert np.allclose(states[0], trajectories[0][1:21], atol=1e-6)
    assert (states.reshape(20, 2, 7, 8)[:, :, 0] == 1.0).all()


def test_unrolled_noisy_training_and_flux_form_run(tmp_path):
    data = as_dataset(list(burgers(4, 20, 12)), grid=(20,), dt=0.02)
    options = FieldOptions(kernel=3, blocks=1, linear_kernel=3, noise=0.01, conserve="flux")
    wishes, phases = recipe(history=1, unroll=3, epochs=2), []
    fit = fit_field_surrogate(
        data, wishes, options=options, checkpoint=tmp_path / "c", progress=lambda event: phases.append(event.message)
    )
    phases = {message.rpartition(", loss")[0] for message in phases}
    assert {"training", "training over 3 steps"} <= set(phases)
    assert fit.surrogate.frame.outputs == 1
    start = burgers(1, 20, 0, seed=7)[0]
    states = fit.surrogate.rollout(start, 50)
    assert np.abs(states.mean(axis=1) - start.mean()).max() < 1e-12


def test_no_linear_part_and_a_time_limit():
    data = as_dataset(list(burgers(4, 20, 12)), grid=(20,), dt=0.02)
    wishes, done = recipe(history=1, ridge=None, epochs=200, time_limit=1.0), []
    fit = fit_field_surrogate(
        data, wishes, options=FieldOptions(kernel=3, blocks=1), progress=lambda event: done.append(event.done)
    )
    assert not fit.surrogate.frame.matrix.any()
    assert fit.report.linear_parameters == 0
    # however slow the machine, the limit holds: some updates are made, not all of them
    assert 10 <= max(done) < 200 * 5


def test_a_static_field_tells_places_apart():
    # growth that differs from place to place: no convolution can know where it is
    rate = 0.05 * np.sin(2 * np.pi * np.arange(20) / 20)
    states = starts(8, 20)[:, None] * (1 + rate) ** np.arange(16)[:, None]
    data = as_dataset(list(states), grid=(20,), dt=1.0)
    wishes = recipe(history=1, epochs=60, batch_size=16, learning_rate=1e-2, width=16)
    options = {"kernel": 3, "blocks": 1, "linear_kernel": 3}
    blind = fit_field_surrogate(data, wishes, options=FieldOptions(**options))
    told = fit_field_surrogate(data, wishes, options=FieldOptions(**options, static=40 * rate + 7))
    assert told.report.held_out_nmse < 0.1 * blind.report.held_out_nmse
    assert told.surrogate.frame.static.std() == pytest.approx(1.0)
    with pytest.raises(InputError, match=r"static fields must be finite and have shape \(20, s\), got \(19,\)"):
        fit_field_surrogate(data, wishes, options=FieldOptions(static=rate[1:]))


def boundary_of(states):
    return grid_of(as_dataset(states, grid=(states.shape[1],), dt=1.0)).boundary[0]


def test_boundaries_are_read_off_the_data():
    x, t = np.linspace(0, 1, 21), np.arange(50)[:, None]
    assert boundary_of(advection(1, 21, 50)[0]) == ("periodic", "periodic")
    held = np.sin(np.pi * x) * np.exp(-0.02 * t) + 3 * x
    assert boundary_of(held) == ("dirichlet", "dirichlet")
    mirrored = np.cos(np.pi * x) * np.exp(-0.02 * t) + 0.5 * np.cos(2 * np.pi * x) * np.exp(-0.08 * t) - 0.01 * t
    assert boundary_of(mirrored) == ("neumann", "neumann")
    open_ = np.exp(-((4 * x - 0.05 * t) ** 2)) + 2 * x - 0.01 * t
    assert boundary_of(open_)[1] == "replicate"


def test_spacing_comes_from_coordinates_and_uneven_grids_are_said():
    states = advection(1, 16, 20)[0]
    even = grid_of(as_dataset(states, grid=np.linspace(0, 3, 16), dt=1.0))
    assert even.spacing == pytest.approx((0.2,))
    uneven = grid_of(as_dataset(states, grid=np.linspace(0, 1, 16) ** 2, dt=1.0))
    assert any("uneven along 'x'" in note for note in uneven.notes)


def test_conservation_is_seen():
    kept = as_dataset(advection(1, 16, 20)[0] + 5, grid=(16,), dt=1.0)
    lost = as_dataset(advection(1, 16, 20)[0] + 5 * np.exp(-0.01 * np.arange(21))[:, None], grid=(16,), dt=1.0)
    assert conserves(kept)
    assert not conserves(lost)


def test_what_cannot_be_is_said_in_one_sentence():
    flat = as_dataset(np.random.default_rng(0).normal(size=(40, 3)), dt=1.0)
    with pytest.raises(InputError, match="its states have no grid"):
        fit_field_surrogate(flat, recipe())
    data = as_dataset(list(advection(4, 16, 20)), grid=(16,), dt=1.0)
    with pytest.raises(InputError, match="dirichlet boundaries do not conserve the mean"):
        fit_field_surrogate(data, recipe(), options=FieldOptions(boundary="dirichlet", conserve="mean"))
    with pytest.raises(InputError, match="unknown conserve 'men'; did you mean 'mean'"):
        FieldOptions(conserve="men")


@pytest.mark.parametrize(("error", "left", "skipped"), [(1e-6, 0, True), (1e-6, 1, False), (1e-4, 0, False)])
def test_networks_far_behind_lenses_after_a_short_training_are_not_trained_in_full(error, left, skipped):
    part, stay = Linear(1, None, None, 0.0), Stay(4, left, 80)
    lenses = LensChoice((9,), (9,), 8, 0.2, 1e-3)
    closed = Scored(None, part, 1.0, math.log(error), stay, lenses)
    screened = Scored(None, part, 1.0, math.log(1e-3), Stay(4, 0, 80))
    assert _far_behind(screened, closed) is skipped
    assert not _far_behind(screened, replace(closed, lenses=None))
