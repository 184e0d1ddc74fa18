import dataclasses
import json

import numpy as np
import pytest
import torch

from lln.core.errors import InputError
from lln.fit.fields.closed import PatchRegression
from lln.models import FieldLensNetwork
from lln.models.convolution import convolve, sides
from lln.ops.cpu.fields import FieldRun
from lln.step import field
from lln.step.field import FieldStep
from lln.step.field_frame import FieldFrame, free, held


def frame(space=(12,), channels=1, *, boundary="periodic", kernel=3, history=1, inputs=0, **more):
    d, rng = len(space), np.random.default_rng(0)
    kernels = (kernel,) * d
    size = kernel**d * (channels * history + inputs)
    given = {
        "matrix": 0.05 * rng.normal(size=(channels, size)),
        "offset": 0.01 * rng.normal(size=channels),
        "gain": np.full(channels, 0.05),
        **more,
    }
    return FieldFrame(
        space=space,
        boundary=sides(boundary, d),
        kernel=kernels,
        history=history,
        channel_mean=rng.normal(size=channels),
        channel_scale=1 + rng.random(channels),
        difference_scale=1 + rng.random((history - 1, channels)),
        input_mean=np.zeros(inputs),
        input_scale=np.ones(inputs),
        **given,
    )


def networks(frame, count=2, **options):
    small = {"width": 4, "depth": 2, "basis": 4, "kernel": 3, "hidden": 3, "blocks": 2, **options}
    make = lambda seed: FieldLensNetwork(  # noqa: E731
        frame.features,
        frame.outputs,
        dimensions=len(frame.space),
        boundary=frame.boundary,
        generator=torch.Generator().manual_seed(seed),
        **small,
    )
    return tuple(make(seed) for seed in range(count))


def surrogate(*args, **more):
    built = frame(*args, **more)
    return FieldStep(built, networks(built))


def start(built, *lead, seed=1, space=None):
    size = built.size if space is None else built.channels * int(np.prod(space))
    return np.random.default_rng(seed).normal(size=(*lead, built.history, size))


def test_flat_states_are_channels_then_space():
    built = frame((3, 4), 2)
    flat = np.arange(24.0)
    fields = built.fields(flat)
    assert fields.shape == (3, 4, 2)
    assert fields[1, 2].tolist() == [6.0, 18.0]
    assert np.array_equal(FieldStep(built).flat(fields), flat)
    assert np.array_equal(built.mean, np.repeat(built.channel_mean, 12))


def test_one_step_is_what_the_frame_says():
    model = surrogate((7,), 2, history=2, inputs=1).to_dtype(torch.float64)
    built, window, inputs = model.frame, start(model.frame), np.array([[0.4]])
    z = [(built.fields(window[k]).numpy() - built.channel_mean) / built.channel_scale for k in range(2)]
    features = np.concatenate([z[1], (z[1] - z[0]) / built.difference_scale[0], np.full((7, 1), 0.4)], axis=1)
    assert np.allclose(built.feature_rows(window, inputs[0]), features)
    wide = np.concatenate([features[-1:], features, features[:1]])
    rows = np.stack([wide[i : i + 3].ravel() for i in range(7)])
    rays = torch.from_numpy(features)
    with torch.no_grad():
        outs = np.mean([member(rays).double().numpy() for member in model.members], axis=0)
    change = built.channel_scale * (rows @ built.matrix.T + built.offset + built.gain * outs)
    expected = window[1].reshape(2, 7) + change.T
    assert np.allclose(model.rollout(window, 1, inputs)[0], expected.ravel(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("space", [(12,), (13,), (6, 5)])
def test_a_shifted_start_gives_the_shifted_rollout(space):
    model = surrogate(space, 2)
    window = start(model.frame)
    shift, axes = tuple(range(1, len(space) + 1)), tuple(range(-len(space), 0))

    def moved(states):
        grid = states.reshape(*states.shape[:-1], 2, *space)
        return np.roll(grid, shift, axes).reshape(states.shape)

    straight, shifted = model.rollout(window, 20), model.rollout(moved(window), 20)
    # networks round in float32 and count a twentieth; twenty steps add their errors up
    assert np.allclose(shifted, moved(straight), rtol=0, atol=20 * 0.05 * 1e-5)
    linear = FieldStep(model.frame)
    assert np.allclose(linear.rollout(moved(window), 20), moved(linear.rollout(window, 20)), rtol=0, atol=1e-12)


def test_dirichlet_values_hold_exactly_and_the_rest_moves():
    model = surrogate((6, 7), 1, boundary=["dirichlet", ("neumann", "dirichlet")])
    window = start(model.frame)
    states = model.rollout(window, 50).reshape(50, 6, 7)
    first = window.reshape(6, 7)
    for part in (np.s_[..., 0, :], np.s_[..., 5, :], np.s_[..., 6]):
        assert (states[part] == first[part]).all()
    assert not np.allclose(states[-1, 2, 0], first[2, 0])
    assert free((6, 7), model.frame.boundary).sum() == 4 * 6


@pytest.mark.parametrize("steps", [300, pytest.param(10_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("conserve", ["mean", "flux"])
@pytest.mark.parametrize("boundary", ["periodic", "replicate"])
def test_conserved_means_stay(conserve, boundary, steps):
    # enough damping that ten thousand steps stay finite, and a network that pushes all the time
    built = frame((8,), 1, boundary=boundary, conserve=conserve, gain=np.full(1, 0.02))
    built = dataclasses.replace(built, matrix=np.array([[0.1, -0.2, 0.1]]), offset=np.full(1, 0.3))
    model = FieldStep(built, networks(built, 1, blocks=1))
    window = start(built) + 5.0
    states = model.rollout(window, steps)
    means = states.mean(axis=1)
    assert np.abs(means - window.mean()).max() < 1e-6
    assert np.abs(states[-1] - window[0]).max() > 1e-3


def test_flux_is_local_and_nothing_leaves_through_walls():
    built = frame((6,), 1, boundary="neumann", conserve="flux", offset=np.zeros(1))
    from lln.step.field_frame import divergence

    flux = torch.zeros(6, 1, dtype=torch.float64)
    flux[2] = 1.0
    assert divergence(flux, built)[:, 0].tolist() == [0, 0, -1, 1, 0, 0]
    flux[5] = 7.0
    assert divergence(flux, built)[:, 0].tolist() == [0, 0, -1, 1, 0, 0]
    around = frame((6,), 1, conserve="flux")
    assert divergence(flux, around)[:, 0].tolist() == [7, 0, -1, 1, 0, -7]
    with pytest.raises(InputError, match="finer by whole factors"):
        divergence(flux, around, ratio=(1.5,))


@pytest.mark.parametrize("boundary", ["periodic", "replicate"])
def test_a_finer_grid_takes_every_second_point_where_the_coarse_one_would(boundary):
    model = surrogate((8,), 2, boundary=boundary)
    points = 16 if boundary == "periodic" else 15
    window = start(model.frame, space=(points,))
    fine = model.rollout(window, 5, space=(points,)).reshape(5, 2, points)
    if boundary == "periodic":
        coarse = model.rollout(window.reshape(1, 2, points)[..., ::2].reshape(1, -1), 5).reshape(5, 2, 8)
        assert np.allclose(fine[..., ::2], coarse, atol=1e-5)
    else:
        assert model.frame.ratio((15,)) == (2.0,)
        assert np.isfinite(fine).all()
    with pytest.raises(InputError, match="needs 16 numbers per state, got 32"):
        model.rollout(window if points == 16 else start(model.frame, space=(16,)), 5)


def test_an_odd_ratio_agrees_for_smooth_fields():
    model = surrogate((32,), 1)
    wave = lambda points: np.sin(2 * np.pi * np.arange(points) / points)[None]  # noqa: E731
    coarse = model.rollout(wave(32), 10)[-1]
    fine = model.rollout(wave(48), 10, space=(48,))[-1]
    assert np.abs(fine[::3] - coarse[::2]).max() < 1e-4


@pytest.mark.parametrize(
    ("space", "boundary", "zero_sum"),
    [((16,), "periodic", False), ((7, 8), ["periodic", ("dirichlet", "neumann")], False), ((16,), "periodic", True)],
)
def test_least_squares_finds_the_convolution_that_made_the_data(space, boundary, zero_sum):
    rng, d = np.random.default_rng(0), len(space)
    kernel, faces = (3,) * d, sides(boundary, d)
    weight = rng.normal(size=(2, 3**d * 2))
    offset = np.zeros(2) if zero_sum else rng.normal(size=2)
    if zero_sum:
        points = weight.reshape(2, -1, 2)
        points[:, 1] -= points.sum(axis=1)
    features = torch.from_numpy(rng.normal(size=(9, *space, 2)))
    targets = held(convolve(features, *map(torch.from_numpy, (weight, offset)), kernel, faces), faces)
    batches = [(features[:4], targets[:4], None), (features[4:], targets[4:], None)]
    held_features = np.ones(2, dtype=bool) if zero_sum else None
    fit = PatchRegression.of(batches, kernel, faces, free(space, faces), zero_sum=held_features)
    found, shift, _ = fit.solve(0.0)
    assert np.allclose(found, weight, rtol=0, atol=1e-10)
    assert np.allclose(shift, offset, rtol=0, atol=1e-10)
    assert fit.left_over(found, shift).max() < 1e-10
    smaller, *_ = fit.solve(10.0)
    assert np.abs(smaller).sum() < 0.5 * np.abs(found).sum()
    assert fit.left_over(smaller, offset).min() > 1e-2


def test_weights_count_as_repetitions():
    rng = np.random.default_rng(0)
    faces = sides("periodic", 1)
    features, targets = (torch.from_numpy(rng.normal(size=(3, 8, 1))) for _ in range(2))
    weighted = PatchRegression.of([(features, targets, torch.tensor([2.0, 1.0, 0.0]))], (3,), faces, free((8,), faces))
    again = torch.tensor([0, 0, 1])
    repeated = PatchRegression.of([(features[again], targets[again], None)], (3,), faces, free((8,), faces))
    assert np.allclose(weighted.solve(0.0)[0], repeated.solve(0.0)[0])


def test_the_frame_as_plain_values():
    built = frame((6, 5), 2, boundary=["periodic", "dirichlet"], history=2, conserve="none")
    record, arrays = json.loads(json.dumps(built.record())), built.arrays()
    record |= {"space": tuple(record["space"]), "boundary": sides(record["boundary"], 2), "kernel": (3, 3)}
    again = FieldFrame(**record, **arrays)
    window = start(built)
    assert np.array_equal(FieldStep(again).rollout(window, 3), FieldStep(built).rollout(window, 3))


def test_what_does_not_fit_is_named():
    model = surrogate((8,), 1, inputs=1)
    with pytest.raises(InputError, match="needs 1 inputs, but none were given"):
        model.rollout(start(model.frame), 2)
    with pytest.raises(InputError, match="looks at 1 states at a time, got 2"):
        model.rollout(np.zeros((2, 8)), 2)
    with pytest.raises(InputError, match="space must have 1 lengths"):
        model.frame.ratio((8, 8))
    assert model.extent((0.5,)) == (1.0,)
    assert model.merged() is None


def test_static_fields_reach_the_networks():
    rng = np.random.default_rng(0)
    built = dataclasses.replace(frame((8,), 1), static=rng.normal(size=(8, 1)))
    members = networks(built, 1, static=1)
    with_field = FieldStep(built, members)
    window = start(built)
    other = FieldStep(dataclasses.replace(built, static=-built.static), members)
    assert not np.allclose(with_field.rollout(window, 1), other.rollout(window, 1))
    with pytest.raises(InputError, match="static fields rolls out on the grid of training alone"):
        with_field.rollout(start(built, space=(16,)), 1, space=(16,))


def by_calls(step, window, steps, inputs=None):
    """A rollout by `advance`, one state after the other."""
    past = torch.from_numpy(window)
    states = []
    with torch.no_grad():
        for k in range(steps):
            after = step.advance(past, None if inputs is None else torch.from_numpy(inputs[..., k, :]))
            past = torch.cat((past[..., 1:, :], after.unsqueeze(-2)), dim=-2)
            states.append(after)
    return torch.stack(states, dim=-2).numpy()


@pytest.fixture
def runs(monkeypatch):
    """Every use of the kernel of field networks in a rollout."""
    made = []
    monkeypatch.setattr(field, "FieldRun", lambda *given: made.append(FieldRun(*given)) or made[-1])
    return made


ROLLOUTS = {
    "ring": {},
    "channels, past and inputs": {"channels": 2, "history": 3, "inputs": 2},
    "plane": {"space": (5, 7), "boundary": ["periodic", ("dirichlet", "neumann")], "channels": 2},
    "bounds": {"low": np.full(1, -0.5), "high": np.full(1, 0.5)},
    "flux": {"space": (6, 5), "boundary": "neumann", "conserve": "flux"},
    "static": {"static": np.random.default_rng(3).normal(size=(12, 2))},
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ROLLOUTS)
def test_a_rollout_runs_the_kernel_and_gives_what_single_steps_give(name, dtype, runs):
    built = frame(**{"gain": np.full(ROLLOUTS[name].get("channels", 1), 0.5), **ROLLOUTS[name]})
    static = 0 if built.static is None else built.static.shape[-1]
    step = FieldStep(built, [network.to(dtype) for network in networks(built, static=static)])
    inputs = np.random.default_rng(2).normal(size=(3, 5, built.inputs)) if built.inputs else None
    window = start(built, 3)
    found, wanted = step.rollout(window, 5, inputs), by_calls(step, window, 5, inputs)
    assert len(runs) == 1
    # Sums of at most 40 terms of size 1, and five steps that let errors grow to less than 2^5 times their size.
    assert np.abs(found - wanted).max() < 5 * 40 * 2**5 * torch.finfo(dtype).eps
    one = None if inputs is None else inputs[0]
    assert np.abs(step.rollout(window[0], 5, one) - wanted[0]).max() < 5 * 40 * 2**5 * torch.finfo(dtype).eps


def test_starts_diverge_at_the_step_where_single_steps_diverge(runs):
    built = frame(matrix=np.array([[0.0, 1e30, 0.0]]), gain=np.ones(1))
    step = FieldStep(built, networks(built))
    window = start(built, 3) * np.array([1.0, 1e-60, 1e100])[:, None, None]
    found, wanted = step.rollout(window, 20), by_calls(step, window, 20)
    assert runs
    assert np.array_equal(np.isfinite(found).all(axis=-1), np.isfinite(wanted).all(axis=-1))
    assert np.unique(np.isfinite(found).all(axis=-1).sum(axis=-1)).size == 2


@pytest.mark.parametrize("backend", ["eager", "reference"])
def test_another_backend_does_without_the_kernel(backend, runs):
    built = frame()
    step = FieldStep(built, networks(built))
    window = start(built, 2)
    wanted = step.rollout(window, 3)
    for member in step.members:
        member.backend = backend
    assert np.allclose(step.rollout(window, 3), wanted, rtol=0, atol=1e-5)
    assert len(runs) == 1


def test_a_grid_between_whole_ratios_does_without_the_kernel(runs):
    step = surrogate()
    assert np.isfinite(step.rollout(start(step.frame, 2, space=(18,)), 3, space=(18,))).all()
    assert not runs


def test_many_starts_go_in_groups(runs, monkeypatch):
    step = surrogate()
    window = start(step.frame, 7)
    whole = step.rollout(window, 3)
    monkeypatch.setattr(field, "_GROUP", 3 * 12)
    assert np.array_equal(step.rollout(window, 3), whole)
    assert [run.batch for run in runs] == [7, 3, 3, 1]
