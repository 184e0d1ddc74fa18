import numpy as np
import pytest

from lln.data.read.formats import FORMATS, as_dataset, read
from lln.systems import perturbed_start, preset, simulate


def test_the_default_file_holds_the_papers_split(lln, tmp_path):
    done = lln("simulate", "burgers-32", "-o", tmp_path / "b.nc")
    assert done.code == 0, done.err
    assert "3,501 states, 32 coordinates, dt = 0.001" in done.out
    dataset = read(tmp_path / "b.nc")
    system = preset("burgers-32")
    states = simulate(system, 4000)
    found = np.asarray(dataset.series[0].states)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, states[500:])
    assert dataset.dt == pytest.approx(system.dt, rel=1e-9)
    assert dataset.names == system.coordinates
    assert dataset.space == (32,)
    np.testing.assert_allclose(next(iter(dataset.coords.values())), system.grid)


@pytest.mark.parametrize(
    ("suffix", "names"),
    [
        *((suffix, ("--random-state",) * 2) for suffix in FORMATS),
        (".nc", ("--seed",) * 2),
    ],
)
def test_seeds_give_one_trajectory_each_in_every_format(lln, tmp_path, suffix, names):
    out = tmp_path / f"l{suffix}"
    done = lln("simulate", "Lorenz-28", "--steps", 20, "--burn-in", 5, names[0], 3, names[1], 4, "-o", out)
    assert done.code == 0, done.err
    assert "2 trajectories of 21 states" in done.out
    dataset = read(out)
    system = preset("lorenz-28")
    assert len(dataset.series) == 2
    for seed, series in zip((3, 4), dataset.series, strict=True):
        right = simulate(system, 25, starts=perturbed_start(system, seed))[5:]
        np.testing.assert_array_equal(np.asarray(series.states, dtype=np.float32), right)


def test_float64(lln, tmp_path):
    assert lln("simulate", "lorenz-24", "--steps", 3, "--dtype", "float64", "-o", tmp_path / "l.npz").code == 0
    assert np.asarray(read(tmp_path / "l.npz").series[0].states).dtype == np.float64


def test_bad_input(refused, tmp_path):
    out = tmp_path / "b.nc"
    refused(["simulate", "burger-48", "-o", out], "unknown system 'burger-48'", "did you mean 'burgers-48'")
    refused(["simulate", "burgers-48", "-o", tmp_path / "b.mat"], "b.mat", "'.mat' is not known", ".nc")
    refused(["simulate", "burgers-48", "-o", tmp_path / "b"], "no suffix names its format", ".nc")
    again = ("--random-state", 3, "--random-state", 3)
    refused(["simulate", "lorenz-28", *again, "-o", out], "--random-state 3 is given twice")
    both = ("--random-state", 3, "--seed", 4)
    refused(["simulate", "lorenz-28", *both, "-o", out], "--seed is the old name of --random-state; give one of")
    refused(["simulate", "lorenz-28", "--dtype", "float16", "-o", out], "unknown dtype 'float16'")
    (tmp_path / "file").write_text("")
    refused(["simulate", "lorenz-28", "-o", tmp_path / "file" / "b.nc"], "be created (a file has this name)")
    assert not out.exists()


def test_a_usage_error_is_2(lln):
    done = lln("simulate", "lorenz-28")
    assert done.code == 2
    assert "--out" in done.err


@pytest.mark.parametrize(("name", "places"), [("ks-64", ["x"]), ("gray-scott-64x64", ["x", "y"])])
def test_fields_have_their_coordinates_and_a_smooth_start_for_each_seed(lln, tmp_path, name, places):
    done = lln(
        "simulate",
        name,
        "--steps",
        3,
        "--burn-in",
        0,
        "--random-state",
        2,
        "--dtype",
        "float64",
        "-o",
        tmp_path / "f.nc",
    )
    assert done.code == 0, done.err
    system, dataset = preset(name), read(tmp_path / "f.nc")
    assert (dataset.space, dataset.channels, dataset.names) == (system.space, system.channels, system.coordinates)
    assert list(dataset.coords) == places
    for place in places:
        np.testing.assert_allclose(dataset.coords[place], system.coords[place])
    np.testing.assert_array_equal(np.asarray(dataset.series[0].states)[0], system.random_start(2))


@pytest.mark.parametrize("suffix", [".nc", ".h5", ".npz", ".zarr"])
def test_the_file_says_which_system_it_is_of(lln, tmp_path, suffix):
    paths = [tmp_path / f"{name}{suffix}" for name in ("a", "b")]
    for path, name in zip(paths, ("lorenz-28", "lorenz-24"), strict=True):
        assert lln("simulate", name, "--steps", 20, "--burn-in", 0, "-o", path).code == 0
    assert as_dataset(paths[0]).system == "lorenz-28"
    assert as_dataset([paths[0], paths[0]]).system == "lorenz-28"
    assert as_dataset(paths).system == ""
