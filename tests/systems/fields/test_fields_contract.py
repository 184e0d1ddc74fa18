"""What every spectral field declares, each held to it."""

import dataclasses
import subprocess
import sys

import numpy as np
import pytest

from lln.core.errors import InputError
from lln.data.read.formats import read, write
from lln.data.series import Dataset, Series
from lln.systems import (
    EVERY_PRESET,
    FIELD_PRESETS,
    PRESETS,
    Burgers1D,
    DecayingTurbulence,
    GrayScott,
    KuramotoSivashinsky,
    Lorenz,
    SpectralField,
    Wave,
    perturbed_start,
    preset,
    seeded_start,
    simulate,
    stepper,
)

# The same equations on grids that take no time; even, odd and unequal sides.
SMALL = [
    dataclasses.replace(system, points=24 if system.dimensions == 1 else (18, 15)) for system in FIELD_PRESETS.values()
]
small = pytest.mark.parametrize("system", SMALL, ids=list(FIELD_PRESETS))


def test_names_are_told_apart():
    assert not set(PRESETS) & set(FIELD_PRESETS)
    assert list(EVERY_PRESET) == [*PRESETS, *FIELD_PRESETS]
    assert all(preset(name) is system and system.name == name for name, system in FIELD_PRESETS.items())
    with pytest.raises(InputError, match="unknown system 'gray-scot-64x64'; did you mean 'gray-scott-64x64'"):
        preset("gray-scot-64x64")


@pytest.mark.parametrize("system", [*FIELD_PRESETS.values(), *SMALL], ids=lambda system: system.name)
def test_every_field_declares_itself_consistently(system):
    start = system.start()
    assert start.shape == (system.size,) == (len(system.channels) * int(np.prod(system.space)),)
    assert start.dtype == np.float64
    assert len(set(system.coordinates)) == system.size
    assert tuple(len(x) for x in system.coords.values()) == system.space
    assert list(system.coords) == ["x", "y"][: system.dimensions]
    for x, points, length in zip(system.coords.values(), system.space, system.lengths, strict=True):
        np.testing.assert_allclose(np.diff(x), length / points)
    assert (system.grid is not None) == (system.size == system.space[0])
    assert all(isinstance(value, int | float) for value in system.symbols.values())


@small
def test_a_step_is_the_flow_of_the_right_hand_side(system):
    start = system.random_start(3)
    h = 1e-3 * system.dt / system.substeps
    forth, back = (simulate(system, 1, starts=start, dtype="float64", dt=h)[-1] for h in (h, 2 * h))
    slope = (4 * forth - back - 3 * start) / (2 * h)
    # One-sided differences err by h^2 u''' / 3; what is left is the rounding of states, 1e-16 / h.
    size = np.abs(slope).max()
    np.testing.assert_allclose(slope, system.rhs(start), atol=1e-4 * size + 1e-14 / h)


@small
def test_batches_and_dtypes(system):
    starts = np.stack([system.random_start(seed) for seed in range(6)]).reshape(2, 3, -1)
    together = simulate(system, 5, starts=starts, dtype="float64")
    assert together.shape == (2, 3, 6, system.size)
    np.testing.assert_array_equal(together[:, :, 0], starts)
    for index in np.ndindex(2, 3):
        # Transforms of many fields may round otherwise than of one.
        np.testing.assert_allclose(
            simulate(system, 5, starts=starts[index], dtype="float64"), together[index], atol=1e-12
        )
    single = simulate(system, 5, starts=starts)
    assert single.dtype == np.float32
    np.testing.assert_array_equal(single, together.astype(np.float32))
    slopes = system.rhs(starts.astype(np.float32))
    assert slopes.dtype == np.float32
    assert stepper(system)(starts.astype(np.float32)).dtype == np.float32


@small
def test_linear_fields_and_only_they_obey_superposition(system):
    a, b = system.random_start(1), system.random_start(2)
    step = stepper(system)
    for f in (system.rhs, step):
        # Parted from zero, since a map may have a constant part.
        zero = f(np.zeros(system.size))
        defect = np.abs(f(2 * a - 3 * b) - (2 * f(a) - 3 * f(b)) - 2 * zero).max() / np.abs(f(a)).max()
        assert (defect < 1e-10) == system.linear


@small
def test_what_is_conserved_stays(system):
    states = simulate(system, 20, starts=system.random_start(3) + 0.1, dtype="float64")
    for invariant in system.invariants().values():
        values = invariant(states)
        # KdV's square and energy are kept by the equation and lost by ETDRK4; all else to rounding.
        np.testing.assert_allclose(values, values[0], atol=1e-4 if system.family == "kdv" else 1e-12)


@small
def test_a_shifted_start_gives_the_shifted_trajectory(system):
    axes = tuple(range(-system.dimensions, 0))
    shifts = (5, 7)[: system.dimensions]

    def shifted(states):
        return np.roll(system.split(states), shifts, axes).reshape(states.shape)

    start = system.random_start(6)
    got = simulate(system, 3, starts=shifted(start), dtype="float64")
    np.testing.assert_allclose(got, shifted(simulate(system, 3, starts=start, dtype="float64")), atol=1e-11)


@pytest.mark.parametrize("system", FIELD_PRESETS.values(), ids=list(FIELD_PRESETS))
def test_random_starts_are_smooth_seeded_and_the_same_on_every_grid(system):
    start = system.random_start(7)
    np.testing.assert_array_equal(start, seeded_start(system, 7))
    assert np.abs(start - system.random_start(8)).max() > 0.01
    double = dataclasses.replace(system, points=2 * system.space[0])
    every_other = (..., *(slice(None, None, 2),) * system.dimensions)
    np.testing.assert_allclose(double.split(double.random_start(7))[every_other], system.split(start), atol=1e-12)
    # Smooth: little is left in the modes that the 2/3 rule cuts off.
    for field in (start, system.start()):
        hat = system.spectrum(system.split(field))
        assert np.abs(hat * (1 - system.kept)).max() < 2e-3 * np.abs(hat).max()


@pytest.mark.parametrize("system", FIELD_PRESETS.values(), ids=list(FIELD_PRESETS))
def test_presets_run_and_are_resolved(system):
    states = simulate(system, 25, starts=system.random_start(11), dtype="float64")
    hat = system.spectrum(system.split(states[-1]))
    cut = np.abs(hat * system.kept)
    edge = [np.max(cut, where=np.abs(k) >= 0.9 * np.abs(k * system.kept).max(), initial=0) for k in system.wavenumbers]
    # The last tenth of the modes kept must be faint: turbulence is just drawing out its thinnest filaments.
    assert max(edge) < (0.03 if system.family == "turbulence" else 0.005) * cut.max()


def test_systems_without_a_random_field_are_perturbed():
    np.testing.assert_array_equal(seeded_start(Lorenz(), 4), perturbed_start(Lorenz(), 4))
    with pytest.raises(InputError, match="seed must be an integer of at least 0, got -1"):
        seeded_start(KuramotoSivashinsky(), -1)


@pytest.mark.parametrize("name", PRESETS)
def test_the_stepper_of_the_papers_systems_is_runge_kutta(name):
    system = preset(name)
    states = simulate(system, 3)
    np.testing.assert_array_equal(stepper(system)(states[2]), states[3])
    assert np.abs(stepper(system, 2 * system.dt)(states[0]) - states[2]).max() > 0


@pytest.mark.parametrize("system", [Wave(points=16), GrayScott(points=(12, 10))], ids=["1-D", "2-D"])
def test_a_field_goes_to_a_file_and_back_with_its_coordinates(system, tmp_path):
    states = simulate(system, 4, starts=system.random_start(0))
    data = Dataset(
        (Series(states),),
        system.dt,
        system.coordinates,
        space=system.space,
        channels=system.channels,
        coords=system.coords,
        source=system.name,
    )
    write(tmp_path / "field.nc", data)
    found = read(tmp_path / "field.nc")
    assert (found.space, found.channels, found.names) == (system.space, system.channels, system.coordinates)
    assert list(found.coords) == list(system.coords)
    for name, x in system.coords.items():
        np.testing.assert_allclose(found.coords[name], x)
    np.testing.assert_array_equal(np.asarray(found.series[0].states), states)


def test_channels_come_first_and_space_runs_in_c_order():
    system = GrayScott(points=(9, 8), length=(3.0, 4.0))
    x, y = system.mesh
    state = system.joined(x, y)
    assert state[system.coordinates.index("u1")] == 0.0
    assert state[system.coordinates.index("v1")] == 0.5
    assert state[system.coordinates.index("u8")] == pytest.approx(1 / 3)
    np.testing.assert_array_equal(system.split(state), [x, y])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Burgers1D(points=7), "points must be an integer of at least 8, got 7"),
        (lambda: Burgers1D(points=8.5), "points must be an integer of at least 8, got 8.5"),
        (lambda: Burgers1D(points=(8, 8)), r"points must be one number or 1, one for each side, got \(8, 8\)"),
        (lambda: GrayScott(points=(8, 8, 8)), "points must be one number or 2, one for each side"),
        (lambda: GrayScott(length=(8.0, 0.0)), "length must be above zero, got 0.0"),
        (lambda: GrayScott(feed=float("nan")), "F must be a finite number, got nan"),
        (lambda: KuramotoSivashinsky(dt=0), "dt must be above zero, got 0.0"),
        (lambda: KuramotoSivashinsky(substeps=0), "substeps must be an integer of at least 1, got 0"),
        (lambda: simulate(Burgers1D(), 0), "steps must be an integer of at least 1, got 0"),
        (lambda: simulate(Burgers1D(), 1, dtype="float16"), "unknown dtype 'float16'"),
        (lambda: simulate(Burgers1D(), 1, dt=-1.0), "dt must be above zero, got -1.0"),
        (lambda: stepper(Burgers1D(), 0.0), "dt must be above zero, got 0.0"),
        (
            lambda: simulate(Burgers1D(), 1, starts=np.zeros(4)),
            r"starts of burgers-1d-128 must have shape \(\.\.\., 128\), got \(4,\)",
        ),
        (lambda: simulate(Burgers1D(), 1, starts=np.full(128, np.nan)), "starts of burgers-1d-128 must be finite"),
        (
            lambda: simulate(DecayingTurbulence(points=32, dt=2.0, nu=0.0), 100),
            "turbulence-32x32 overflowed at step .* with dt = 2; take a smaller dt, or more substeps than 2",
        ),
    ],
)
def test_bad_input_gets_a_sentence(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_fields_do_not_load_torch():
    code = (
        "import sys\nfrom lln.systems import KuramotoSivashinsky, simulate\n"
        "simulate(KuramotoSivashinsky(), 2)\nassert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_class_of_fields_has_a_preset():
    def below(kind):
        return {kind, *(leaf for child in kind.__subclasses__() for leaf in below(child))}

    classes = {kind for kind in below(SpectralField) - {SpectralField} if kind.__module__.startswith("lln.")}
    assert classes == {type(system) for system in FIELD_PRESETS.values()}
