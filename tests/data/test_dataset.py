import pickle

import numpy as np
import pandas as pd
import pytest
import torch
import xarray as xr

from lln.core.errors import InputError
from lln.data import Dataset, Series, Trajectory, as_dataset, moments, pair_batches, pairs, simulated
from lln.systems import preset


def walk(rows=40, n=3, seed=0):
    return np.random.default_rng(seed).standard_normal((rows, n)).cumsum(axis=0)


def test_one_array():
    data = as_dataset(walk(), dt=0.1, names=("a", "b", "c"))
    assert (data.size, data.rows, data.dt, data.names, data.inputs, data.lazy) == (
        3,
        40,
        0.1,
        ("a", "b", "c"),
        0,
        False,
    )
    assert as_dataset(data) is data
    assert as_dataset(walk()).dt == 1.0


def test_kinds_of_one_array():
    for same in (
        walk().tolist(),
        torch.from_numpy(walk()),
        np.ma.array(walk()),
        pd.DataFrame(walk(), columns=list("abc")),
    ):
        np.testing.assert_array_equal(as_dataset(same).series[0].states, walk())
    assert as_dataset(walk().astype(np.float32)).series[0].states.dtype == np.float32
    assert as_dataset(np.arange(12).reshape(4, 3) ** 2).series[0].states.dtype == np.float64
    masked = np.ma.array(walk(), mask=np.zeros((40, 3), dtype=bool))
    masked[5, 1] = np.ma.masked
    assert as_dataset(masked).transitions() == 37


@pytest.mark.parametrize(
    "tensor",
    [
        torch.from_numpy(walk()).to_sparse(),
        torch.from_numpy(walk()).bfloat16(),
        torch.complex(torch.from_numpy(walk()), torch.from_numpy(-walk())).conj().imag,
        torch.from_numpy(walk()).requires_grad_(),
    ],
    ids=["sparse", "bfloat16", "negated view", "requires grad"],
)
def test_tensors_of_other_kinds_are_converted(tensor):
    np.testing.assert_allclose(as_dataset(tensor).series[0].states, walk(), atol=0.06)


def test_one_dimension_is_one_series():
    data = as_dataset(walk()[:, 0], dt=0.5)
    assert (data.lengths, data.size, data.dt) == ((40,), 1, 0.5)
    assert as_dataset(walk()[:, 0].tolist()).lengths == (40,)
    assert as_dataset([walk()[:, 0], walk(9)[:, 0]]).lengths == (40, 9)


def test_several_trajectories():
    assert as_dataset([walk(10), walk(20, seed=1)]).lengths == (10, 20)
    assert as_dataset(np.stack([walk(), walk(seed=1)])).lengths == (40, 40)
    assert as_dataset([Trajectory(walk(), 0.5), Trajectory(walk(9), 0.5)]).dt == 0.5
    assert as_dataset([pd.DataFrame(walk(9), columns=list("abc"))] * 2).names == ("a", "b", "c")


def test_a_trajectory_on_a_grid_keeps_it():
    data = as_dataset(simulated(preset("burgers-32"), 10))
    assert (data.space, data.channels, data.names[:2], data.dt) == ((32,), ("u",), ("u0", "u1"), 0.001)
    np.testing.assert_array_equal(data.coords["x"], preset("burgers-32").grid)


@pytest.mark.parametrize(
    ("shape", "grid", "space", "channels", "lengths"),
    [
        ((9, 12), (3, 4), (3, 4), 1, (9,)),
        ((9, 24), (3, 4), (3, 4), 2, (9,)),
        ((9, 3, 4), (3, 4), (3, 4), 1, (9,)),
        ((2, 9, 3, 4), (3, 4), (3, 4), 1, (9, 9)),
        ((2, 9, 5, 3, 4), (3, 4), (3, 4), 5, (9, 9)),
        ((9, 12), 12, (12,), 1, (9,)),
        ((9, 12), {"r": np.linspace(0, 1, 12)}, (12,), 1, (9,)),
        ((9, 12), np.linspace(0, 1, 12), (12,), 1, (9,)),
    ],
)
def test_fields_in_arrays(shape, grid, space, channels, lengths):
    values = np.random.default_rng(0).standard_normal(shape)
    data = as_dataset(values, grid=grid)
    assert (data.space, len(data.channels), data.lengths) == (space, channels, lengths)
    np.testing.assert_array_equal(data.series[-1].states.reshape(-1), values.reshape(len(lengths), -1)[-1])


def test_a_few_fields_over_many_times_are_no_trajectories():
    values = np.random.default_rng(0).standard_normal((40, 2, 16))
    data = as_dataset(values, grid=16)
    assert (data.lengths, data.space, len(data.channels)) == ((40,), (16,), 2)
    np.testing.assert_array_equal(data.shaped(data.series[0].states), values)
    assert "(40, 2, 16) is read as 40 states of 2 fields; time=1 says that the second axis is time" in data.notes[0]
    told = as_dataset(values, grid=16, time=1)
    assert (told.lengths, len(told.channels), told.notes) == ((2,) * 40, 1, ())
    many = as_dataset(values.swapaxes(0, 1), grid=16, time=0)
    assert (many.lengths, len(many.channels)) == ((2,), 40)
    assert as_dataset(values.swapaxes(0, 1), grid=16).lengths == (40, 40)
    assert as_dataset([values], grid=16, time=0).lengths == (40,)
    assert as_dataset(values[:, 0].T, grid=16, time=1).lengths == (40,)


def test_fields_behind_the_grid_are_refused_with_the_remedy():
    values = np.random.default_rng(0).standard_normal((40, 8, 6, 2))
    with pytest.raises(InputError, match=r"fields behind the grid \(8, 6\).*np.moveaxis\(x, -1, -3\)"):
        as_dataset(values, grid=(8, 6))
    assert len(as_dataset(np.moveaxis(values, -1, -3), grid=(8, 6)).channels) == 2


def test_a_list_of_fields_with_channels():
    data = as_dataset([np.ones((9, 2, 3, 4)), np.ones((7, 2, 3, 4))], grid=(3, 4))
    assert (data.lengths, len(data.channels), data.size) == ((9, 7), 2, 24)


def test_xarray_fields_keep_shape_coordinates_and_units():
    array = xr.DataArray(
        np.random.default_rng(0).standard_normal((6, 2, 8, 3)),
        dims=("lat", "run", "time", "lon"),
        coords={"time": np.arange(8) * 0.2, "lat": np.linspace(-1, 1, 6), "lon": [0.0, 1.0, 2.0]},
        name="wind",
    )
    array.coords["time"].attrs["units"] = "days"
    data = as_dataset(array)
    assert (data.lengths, data.space, data.channels, data.dt) == ((8, 8), (6, 3), ("wind",), 0.2)
    assert data.units == {"time": "days"}
    expected = array.transpose("run", "time", "lat", "lon").to_numpy()
    np.testing.assert_array_equal(data.shaped(data.series[1].states), expected[1])
    both = as_dataset(xr.Dataset({"wind": array, "heat": 2 * array}))
    assert (both.channels, both.size) == (("wind", "heat"), 36)
    np.testing.assert_array_equal(both.shaped(both.series[0].states)[:, 1], 2 * expected[0])


def test_xarray_of_plain_columns_and_dates():
    times = pd.date_range("2000-01-01", periods=5, freq="6h")
    data = as_dataset(xr.Dataset({"a": ("time", np.arange(5.0)), "b": ("time", np.ones(5))}, {"time": times}))
    assert (data.names, data.dt, data.space) == (("a", "b"), 21600.0, ())
    labelled = xr.DataArray(walk(5), dims=("time", "state"), coords={"state": ["p", "q", "r"]})
    assert as_dataset(labelled).names == ("p", "q", "r")


def test_dimensions_with_text_labels_name_columns_and_are_no_space():
    values = np.random.default_rng(0).standard_normal((9, 2, 3, 4))
    labels = {"station": ["a", "b"], "quantity": ["T", "p", "q"], "x": np.arange(4.0)}
    whole = xr.DataArray(values, dims=("time", "station", "quantity", "x"), coords=labels)
    flat = as_dataset(whole.isel(x=0, drop=True))
    assert (flat.names, flat.space) == (("a_T", "a_p", "a_q", "b_T", "b_p", "b_q"), ())
    np.testing.assert_array_equal(flat.series[0].states, values[..., 0].reshape(9, 6))
    assert as_dataset(whole.isel(x=0, drop=True).drop_vars("quantity")).names[:2] == ("a_0", "a_1")
    assert as_dataset(whole.isel(x=0, drop=True).rename(station="channel")).names == flat.names
    field = as_dataset(whole.transpose("x", "time", "station", "quantity"))
    assert (field.space, field.channels, list(field.coords)) == ((4,), flat.names, ["x"])
    np.testing.assert_array_equal(field.series[0].states, values.reshape(9, 24))
    several = as_dataset(whole.isel(quantity=0, x=0, drop=True).to_dataset(name="u").assign(v=lambda d: 2 * d["u"]))
    assert (several.names, several.space) == (("u_a", "u_b", "v_a", "v_b"), ())


def test_inputs_of_every_kind():
    varying = as_dataset(walk(), inputs=np.arange(80.0).reshape(40, 2))
    assert varying.series[0].inputs.shape == (40, 2)
    assert as_dataset(walk(), inputs=np.arange(40.0)).series[0].inputs.shape == (40, 1)
    assert as_dataset(walk(), inputs=[1.0, 2.0]).series[0].inputs[17].tolist() == [1.0, 2.0]
    named = as_dataset(walk(), inputs={"force": np.arange(40.0), "mass": 3.0})
    assert named.input_names == ("force", "mass")
    assert named.series[0].inputs[5].tolist() == [5.0, 3.0]
    several = as_dataset([walk(9), walk(8)], inputs=[np.arange(9.0), np.arange(8.0)])
    assert several.series[1].inputs.shape == (8, 1)
    constants = as_dataset([walk(9), walk(8)], inputs={"mass": [1.0, 2.0]})
    assert constants.series[1].inputs[:, 0].tolist() == [2.0] * 8
    stacked = as_dataset(np.stack([walk(), walk()]), inputs=np.ones((2, 40, 2)))
    assert stacked.inputs == 2


def test_times_gaps_and_resampling():
    times = np.arange(40) * 0.1 + 3
    keep = np.delete(np.arange(40), [7, 8, 20])
    data = as_dataset(walk()[keep], time=times[keep])
    assert (data.dt, data.rows, data.series[0].start) == (0.1, 40, 3.0)
    assert np.isnan(data.series[0].states[[7, 8, 20]]).all()
    assert "3 missing times filled in as gaps" in data.notes[0]
    assert data.transitions() == 39 - 5
    far = np.array([0.0, 1, 2, 1e12, 1e12 + 1])
    assert as_dataset(walk(5), time=far).lengths == (3, 2)
    printed = np.round(np.arange(40) / 3, 3)  # as a file with three digits has it
    assert as_dataset(walk(), time=printed).dt == pytest.approx(1 / 3, rel=1e-3)
    assert as_dataset(walk(), time=times.astype(np.float32)).dt == 0.1


def test_uneven_times_are_refused_or_resampled():
    rng = np.random.default_rng(0)
    times = np.sort(rng.uniform(0, 10, 400))
    states = np.stack([np.sin(times), np.cos(times)], axis=1)
    with pytest.raises(InputError, match=r"unevenly sampled, steps in time from .* --resample .*resample=True"):
        as_dataset(states, time=times)
    data = as_dataset(states, time=times, resample=True, dt=0.05)
    assert data.dt == 0.05
    # A cubic spline errs by at most (5/384) max step^4 of a function whose fourth derivative is at most 1.
    bound = 5 / 384 * np.diff(times).max() ** 4
    inner = slice(5, -5)  # its ends, where the slope is unknown, err more
    np.testing.assert_allclose(data.series[0].states[inner, 0], np.sin(data.times()[inner]), atol=10 * bound, rtol=0)
    states[200] = np.nan
    gap = as_dataset(states, time=times, resample=True, dt=0.05)
    assert 0 < np.isnan(gap.series[0].states[:, 0]).sum() < 5


def test_resampling_changes_an_even_step_too():
    data = as_dataset(walk(), time=np.arange(40) * 0.1, dt=0.2, resample=True)
    np.testing.assert_allclose(data.series[0].states, walk()[::2], atol=1e-12)
    with pytest.raises(InputError, match=r"dt = 0\.2 was given but the times are 0\.1 apart"):
        as_dataset(walk(), time=np.arange(40) * 0.1, dt=0.2)


LORENZ = simulated(preset("lorenz-28"), 400).states


@pytest.mark.parametrize(
    ("x", "options", "message"),
    [
        (
            LORENZ.T,
            {},
            r"shape \(3, 401\) looks transposed, .* pass the transpose, or say --time 1, or .*time=1",
        ),
        (np.float64(3.0), {}, "a single number is not a trajectory"),
        (None, {}, r"no data was given \(None\); give an array"),
        (b"abc", {}, "bytes is not an array"),
        ({1.0, 2.0}, {}, "set is not an array"),
        ((row for row in walk()), {}, "generator is not an array"),
        (torch.zeros(4, 2, device="meta"), {}, "this tensor cannot be converted to an array"),
        (np.ones((0, 3)), {}, r"0 sample\(s\)"),
        (np.ones((3, 0)), {}, r"0 feature\(s\)"),
        (np.ones((2, 3, 4, 5)), {}, r"or \(trajectories, time, n\), got \(2, 3, 4, 5\); for fields give grid="),
        (np.full((5, 2), 1j), {}, "are complex; give real and imaginary parts as columns"),
        (np.array([["a", "b"]]), {}, "must be numbers, got an array of <U1"),
        ([walk(), walk(n=2)], {}, "trajectory 1 has 2 columns but trajectory 0 has 3"),
        ([walk(), walk()[:, 0]], {}, "trajectory 1 has 1 columns but trajectory 0 has 3"),
        (np.where(np.arange(3) == 1, np.nan, walk()), {}, "column 'x1' holds no number at all"),
        (
            np.where(walk() == walk()[7], np.inf, walk()),
            {},
            "inf at row 7, column 0; cut those rows, or set them to NaN",
        ),
        (walk(), {"names": ("a",)}, "3 columns but 1 name; give one name for each"),
        (walk(), {"names": ("a", "b", "a")}, "names= has 'a' more than once; give each column a name of its own"),
        (walk(), {"dt": 0.0}, "dt must be above zero"),
        (walk(), {"grid": (2, 2)}, r"shape \(40, 3\) does not end in the grid \(2, 2\)"),
        (walk(), {"inputs": np.ones((7, 2))}, "inputs have 7 rows but states have 40"),
        (walk(), {"inputs": "force"}, "inputs= names variables of files"),
        (walk(), {"weights": np.ones(7)}, r"weights must have shape \(40,\)"),
        (walk(), {"weights": -np.ones(40)}, "weights must be finite and not negative"),
        (walk(), {"states": "x"}, "name variables of files, frames and xarray objects; an array has none"),
        (walk(), {"time": np.arange(5)}, "5 times but 40 rows"),
        (walk(), {"time": "clock"}, r"for an array, time is an axis \(0 or 1\) or the times"),
        ({"a": walk()}, {}, "a mapping is not read as trajectories"),
        ([walk(), walk()], {"inputs": [1.0, 2.0, 3.0]}, "inputs: 3 entries for 2 trajectories"),
    ],
)
def test_bad_arrays_get_a_sentence(x, options, message):
    with pytest.raises(InputError, match=message) as caught:
        as_dataset(x, **options)
    assert "\n" not in str(caught.value)


def test_a_wide_array_is_taken_where_it_may_be_right():
    np.testing.assert_array_equal(as_dataset(LORENZ.T, time=1).series[0].states, LORENZ)
    assert as_dataset(LORENZ.T, time=0).size == 401
    assert as_dataset(simulated(preset("burgers-48"), 20).states).size == 48  # smooth in time and in space
    assert as_dataset(np.random.default_rng(0).standard_normal((20, 50))).size == 50


def test_a_wide_array_of_text_is_refused_before_its_axes_are_compared():
    with pytest.raises(InputError, match="states must be numbers, got an array of <U1"):
        as_dataset(np.full((20, 50), "a"))


def test_constant_columns_are_noted():
    data = as_dataset(np.where(np.arange(3) == 1, 7.0, walk()))
    assert data.notes == ("array: 1 column does not vary ('x1')",)


@pytest.mark.parametrize(("constant", "shown"), [(3, "('x0', 'x1', 'x2')"), (4, "('x0', 'x1', 'x2', ...)")])
def test_the_first_three_constant_columns_are_named(constant, shown):
    data = as_dataset(np.where(np.arange(5) < constant, 7.0, walk(n=5)))
    assert data.notes == (f"array: {constant} columns do not vary {shown}",)


def gapped():
    states = walk(20)
    states[8, 1] = np.nan
    return states


@pytest.mark.parametrize("history", [1, 2, 4])
def test_pairs_against_a_slow_loop(history):
    inputs = np.arange(20.0)[:, None]
    inputs[15] = np.nan
    weights = np.linspace(1, 2, 20)
    weights[3] = 0
    data = as_dataset([gapped(), walk(5, seed=2)], inputs=[inputs, np.ones(5)], weights=[weights, np.ones(5)])
    expected = []
    for i, one in enumerate(data.series):
        for k in range(history - 1, len(one) - 1):
            rows = slice(k - history + 1, k + 2)
            good = np.isfinite(one.states[rows]).all() and np.isfinite(one.inputs[rows]).all()
            if good and one.weights[rows].min() > 0:
                expected.append(
                    (i, k, one.states[rows][:-1], one.states[k + 1], one.inputs[k], one.weights[rows].min())
                )
    found = pairs(data, history)
    assert [tuple(row) for row in found.index.tolist()] == [(i, k) for i, k, *_ in expected]
    for at, (_, _, window, target, known, weight) in enumerate(expected):
        np.testing.assert_array_equal(found.window[at], window)
        np.testing.assert_array_equal(found.target[at], target)
        np.testing.assert_array_equal(found.inputs[at], known)
        assert found.weights[at] == weight
    possible = sum(length - history for length in data.lengths)
    assert found.left_out == possible - len(expected)
    assert data.transitions(history) == len(found)


@pytest.mark.parametrize("rows", [1, 3, 7, 100])
def test_batches_are_the_same_pairs(rows):
    data = as_dataset([gapped(), walk(9, seed=1), walk(30, seed=2)])
    whole = pairs(data, 2)
    parts = list(pair_batches(data, 2, rows=rows))
    np.testing.assert_array_equal(np.concatenate([part.window for part in parts]), whole.window)
    np.testing.assert_array_equal(np.concatenate([part.target for part in parts]), whole.target)
    assert sum(part.left_out for part in parts) == whole.left_out
    assert all(len(part) == rows for part in parts[:-1])
    mixed = list(pair_batches(data, 2, rows=rows, shuffle=5))
    index = np.concatenate([part.index for part in mixed])
    assert sorted(index.tolist()) == sorted(whole.index.tolist())
    assert index.tolist() != whole.index.tolist()
    again = np.concatenate([part.index for part in pair_batches(data, 2, rows=rows, shuffle=5)])
    np.testing.assert_array_equal(index, again)


def test_moments_in_blocks_equal_numpy_s():
    data = as_dataset([gapped() + 1e6, walk(30, seed=2) + 1e6], inputs=[np.arange(20.0), np.arange(30.0)])
    found, whole = moments(data, 2, rows=7), pairs(data, 2)
    v = np.concatenate(
        [whole.window[:, 1], whole.window[:, 1] - whole.window[:, 0], whole.inputs, whole.increments], axis=1
    )
    # Around 1e6 the naive sum of squares would keep four digits; rounding of the data itself is 1e-10.
    np.testing.assert_allclose(found.mean, v.mean(axis=0), rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(found.scatter / len(v), np.cov(v.T, bias=True), rtol=1e-9, atol=1e-8)
    np.testing.assert_allclose(found.std, v.std(axis=0), rtol=1e-9)
    assert (found.pairs, found.left_out, found.features) == (len(whole), whole.left_out, 7)
    np.testing.assert_array_equal(found.most, whole.window[:, 1].max(axis=0))


def test_weighted_moments_count_rows_as_often_as_they_weigh():
    states, weights = walk(30), np.ones(30)
    weights[10:20] = 2
    heavy = moments(as_dataset(states, weights=weights))
    whole = pairs(as_dataset(states, weights=weights))
    times = whole.weights.astype(int)
    v = np.repeat(np.concatenate([whole.window[:, 0], whole.increments], axis=1), times, axis=0)
    np.testing.assert_allclose(heavy.mean, v.mean(axis=0))
    np.testing.assert_allclose(heavy.scatter, np.cov(v.T, bias=True) * len(v))


@pytest.mark.parametrize(
    ("x", "history", "message"),
    [
        (walk(1), 1, r"one time step \(one sample\) has no transition to learn from; give at least two rows"),
        (walk(3), 3, "a history of 3 needs at least 4 rows, the longest trajectory has 3"),
        (np.where(np.arange(6)[:, None] % 2, np.nan, walk(6)), 1, "every pair of states touches a gap"),
    ],
)
def test_nothing_to_learn_from(x, history, message):
    for use in (pairs, moments, lambda data, h: list(pair_batches(data, h))):
        with pytest.raises(InputError, match=message):
            use(as_dataset(x), history)


def test_cuts_splits_and_windows():
    data = as_dataset([walk(10), walk(20, seed=1)], dt=0.5)
    part = data.cut(2, 6)
    assert (part.lengths, part.series[0].start) == ((4, 4), 1.0)
    np.testing.assert_array_equal(part.series[1].states, walk(20, seed=1)[2:6])
    assert data.cut(-3).lengths == (3, 3)
    early, late = data.split(0.2, overlap=1)
    assert (early.lengths, late.lengths) == ((8, 16), (3, 5))
    np.testing.assert_array_equal(early.series[0].states[-1], late.series[0].states[0])
    assert as_dataset(gapped()).stretches(3) == [(0, 0, 8), (0, 9, 20)]
    windows = as_dataset(gapped()).windows(4)
    assert windows.shape == (4, 4, 3)
    assert np.isfinite(windows).all()
    assert as_dataset(walk(40)).windows(4, count=3).shape == (3, 4, 3)


def test_the_digest_is_of_the_content():
    one = as_dataset(walk(), dt=0.1)
    assert one.digest() == Dataset((Series(walk()),), 0.1).digest()
    others = [as_dataset(walk(), dt=0.2), as_dataset(walk(seed=1), dt=0.1), as_dataset(walk()[1:], dt=0.1)]
    others.append(as_dataset(walk(), dt=0.1, weights=np.full(40, 2.0)))
    others.append(as_dataset(walk(), dt=0.1, names="abc"))
    assert len({one.digest(), *(other.digest() for other in others)}) == 6
    assert pickle.loads(pickle.dumps(one)).digest() == one.digest()


def test_a_dataset_is_shown_in_one_line():
    assert repr(as_dataset([walk(), walk(30)], dt=0.1)) == "Dataset(2 trajectories of x0, x1, x2; 70 states, dt = 0.1)"
    field = as_dataset(np.zeros((5, 4, 6)) + np.arange(5.0)[:, None, None], grid={"y": range(4), "x": range(6)}, dt=1.0)
    assert repr(field).startswith("Dataset(one trajectory of ")
    assert "on a grid of 4 x 6; 5 states" in repr(field)


def test_lists_of_lists_of_different_lengths_are_trajectories():
    assert as_dataset([[1.0, 2.0, 4.0], [3, 5]]).lengths == (3, 2)
