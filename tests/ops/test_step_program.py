"""Rollouts of whole steps, against the formula written as plain loops."""

import os
from dataclasses import replace

import numpy as np
import pytest

from lln import InputError
from lln.ops import Flow, LensBlock, Polynomial, StepProgram, checked_threads, marked, roll, track
from lln.ops.cpu import backend as cpu_backend
from lln.ops.cpu.simd import levels


def polynomial(rng, n, features, degree=3, weight=0.05):
    """All monomials up to `degree` of the first three features."""
    table, last = [], []
    for power in range(1, degree + 1):
        parents = [-1] if power == 1 else last
        last = []
        for parent in parents:
            for feature in range(min(features, 3)):
                last.append(len(table))
                table.append((parent, feature))
    table = np.array(table)
    return Polynomial(table, weight * rng.standard_normal((n, len(table))), 0.01 * rng.standard_normal(n))


def lens(rng, n, features, precision, width=20, depth=4, basis=12, angles=True):
    centers = tuple(np.linspace(-3.0, 3.0, basis))
    return LensBlock(
        position_weight=0.5 * rng.standard_normal((width, features)),
        position_bias=0.1 * rng.standard_normal(width),
        angle_weight=0.5 * rng.standard_normal((width, features)) if angles else None,
        angle_bias=0.1 * rng.standard_normal(width) if angles else None,
        coefficients=0.3 * rng.standard_normal((depth, width, basis)),
        centers=centers,
        sigma=6.0 / (basis - 1),
        length=1.0 / depth,
        strength=0.7,
        readout=0.3 * rng.standard_normal((n, width)),
        bias=0.1 * rng.standard_normal(n),
        gain=0.1 * rng.uniform(0.5, 1.5, n),
        precision=precision,
    )


def program(n=3, history=1, inputs=0, parts=("linear",), seed=0, bounded=False, **lens_options):
    rng = np.random.default_rng(seed)
    features = n * history + inputs
    return StepProgram(
        mean=rng.standard_normal(n),
        scale=rng.uniform(0.5, 2.0, n),
        matrix=0.05 * rng.standard_normal((n, features)) if "linear" in parts else None,
        offset=0.01 * rng.standard_normal(n) if "linear" in parts else None,
        history=history,
        difference_scale=rng.uniform(0.3, 1.0, (history - 1, n)) if history > 1 else None,
        input_mean=rng.standard_normal(inputs) if inputs else None,
        input_scale=rng.uniform(0.5, 2.0, inputs) if inputs else None,
        low=np.full(n, -0.8) if bounded else None,
        high=np.full(n, 0.9) if bounded else None,
        polynomial=polynomial(rng, n, features) if "polynomial" in parts else None,
        lenses=tuple(
            lens(rng, n, features, part, angles=not k, **lens_options)
            for k, part in enumerate(part for part in parts if part.startswith("float"))
        ),
        flow=flow(rng, n, features, 16 if "functions" in parts else 0) if "flow" in parts else None,
    )


FUNCTIONS = (
    lambda a: np.exp(-a * a / 2),
    np.sin,
    np.abs,
    np.tanh,
    np.exp,
    lambda a: 1 / a,
    lambda a: min(1.0, max(-1.0, a)),
)


def flow(rng, n, features, count):
    """A vector field of degree two; with `count` functions, each alone and times the first feature."""
    plain = polynomial(rng, n, features, 2, 0.2)
    if not count:
        return Flow(plain, 0.1, 2)
    alone = [(-1, features + k) for k in range(count)]
    table = np.concatenate([plain.monomials, alone, [(0, features + k) for k in range(count)]])
    weights = np.concatenate([plain.weights, 0.2 * rng.standard_normal((n, 2 * count))], axis=1)
    kinds = rng.permutation(np.arange(count) % len(FUNCTIONS))
    functions = np.stack([rng.integers(0, features, count), kinds], axis=1)
    slopes = np.where(kinds > 3, 0.1, 1.0) * rng.uniform(-2.0, 2.0, count)
    shifts = np.where(kinds == 1, rng.uniform(-300.0, 300.0, count), np.array([0, 0, 0.3, 0.3, -1, 3, 0.9])[kinds])
    arguments = np.stack([slopes, shifts], axis=1)
    return Flow(Polynomial(table, weights, plain.offset), 0.1, 2, functions, arguments)


def monomials(part, f):
    values = []
    for parent, feature in part.monomials:
        values.append(f[feature] * (1.0 if parent < 0 else values[parent]))
    return part.weights @ np.array(values) + (0.0 if part.offset is None else part.offset)


def lens_increment(block, f):
    y, theta = block.position_weight @ f + block.position_bias, np.zeros(len(block.position_bias))
    if block.angle_weight is not None:
        theta = np.tanh(block.angle_weight @ f + block.angle_bias)
    for layer in block.coefficients:
        y = y + block.length * theta
        basis = np.exp(-(((y[:, None] - np.array(block.centers)) / block.sigma) ** 2))
        theta = theta + block.strength * (layer * basis).sum(1)
    return block.gain * (block.readout @ y + block.bias)


def flow_increment(flow, f, n):
    def slope(z):
        seen = [*z, *f[n:]]
        for k in range(flow.function_count):
            (place, kind), (factor, shift) = flow.functions[k], flow.arguments[k]
            a = factor * seen[place] + shift
            seen.append(FUNCTIONS[kind](a))
        return monomials(flow.field, np.array(seen))

    z, h = f[:n], flow.dt / flow.substeps
    for _ in range(flow.substeps):
        k1 = slope(z)
        k2 = slope(z + h / 2 * k1)
        k3 = slope(z + h / 2 * k2)
        k4 = slope(z + h * k3)
        z = z + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return z - f[:n]


def by_hand(step, window, steps, inputs=None):
    """The states after one window (H, n), in float64 throughout."""
    past, out = list(window), []
    for k in range(steps):
        z = [(x - step.mean) / step.scale for x in past]
        f = [z[-1], *((z[-j] - z[-j - 1]) / step.difference_scale[j - 1] for j in range(1, step.history))]
        if step.inputs:
            f.append((inputs[k] - step.input_mean) / step.input_scale)
        f = np.concatenate(f)
        change = np.zeros(step.size) if step.matrix is None else step.matrix @ f + step.offset
        if step.polynomial is not None:
            change = change + monomials(step.polynomial, f)
        for block in step.lenses:
            change = change + lens_increment(block, f)
        if step.flow is not None:
            change = change + flow_increment(step.flow, f, step.size)
        after = past[-1] + step.scale * change
        past = [*past[1:], after if step.low is None else np.clip(after, step.low, step.high)]
        out.append(past[-1])
    return np.array(out)


CASES = {
    "linear": {"parts": ("linear",)},
    "lags and inputs": {"history": 3, "inputs": 2, "parts": ("linear",)},
    "polynomial": {"parts": ("polynomial",), "inputs": 1},
    "bounded polynomial": {"parts": ("linear", "polynomial"), "bounded": True},
    "flow": {"parts": ("flow",)},
    "flow with inputs": {"parts": ("linear", "flow"), "inputs": 2, "history": 2, "bounded": True},
    "functions": {"parts": ("flow", "functions")},
    "functions, wide": {"parts": ("linear", "flow", "functions"), "n": 9, "bounded": True},
    "functions with inputs": {"parts": ("polynomial", "flow", "functions"), "inputs": 2, "history": 2},
    "float64 lens": {"parts": ("float64",)},
    "float32 lens": {"parts": ("linear", "float32")},
    "two lenses, wide": {"parts": ("linear", "float32", "float64"), "n": 9, "history": 2, "width": 70},
    "everything": {"parts": ("linear", "polynomial", "float64", "float32", "flow"), "history": 2, "inputs": 1},
}


@pytest.mark.parametrize("starts", [1, 3, 4, 8, 11])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("level", levels())
def test_rollout_is_the_formula(case, starts, level):
    step, rng = program(**CASES[case]), np.random.default_rng(1)
    window = step.mean + 0.3 * step.scale * rng.standard_normal((starts, step.history, step.size))
    inputs = rng.standard_normal((starts, 6, step.inputs)) if step.inputs else None
    with cpu_backend.forced(level):
        states, diverged = roll(step, window, 6, inputs)
    want = np.stack([by_hand(step, w, 6, None if inputs is None else inputs[b]) for b, w in enumerate(window)])
    # Rounding of float64 in six steps that at most double a difference, or that of float32 through the gain of 0.15.
    single = any(block.precision == "float32" for block in step.lenses)
    np.testing.assert_allclose(states, want, rtol=0, atol=np.abs(want).max() * (2e-6 if single else 1e-13))
    assert (diverged == -1).all()


def test_divergence_is_found_in_each_start():
    step = StepProgram(
        mean=np.zeros(1), scale=np.ones(1), polynomial=Polynomial(np.array([[-1, 0], [0, 0]]), np.array([[0.0, 1.0]]))
    )
    window = np.array([[[1e-9]], [[1e100]], [[1.0]], [[np.nan]], [[-0.5]]])
    states, diverged = roll(step, window, 12)
    x = np.array([1e-9, 1e100, 1.0, np.nan, -0.5])
    with np.errstate(over="ignore", invalid="ignore"):
        want = []
        for _ in range(12):
            x = x + x * x
            want.append(x)
    want = np.stack(want, 1)
    first = [int(np.argmax(~np.isfinite(row))) if not np.isfinite(row).all() else -1 for row in want]
    assert diverged.tolist() == first == [-1, 1, 10, 0, -1]
    for row, plain, lost in zip(states[..., 0], want, first, strict=True):
        last = 12 if lost < 0 else lost
        np.testing.assert_allclose(row[:last], plain[:last], rtol=1e-14)
        assert np.isnan(row[last:]).all()


def test_nothing_to_do():
    step = program()
    states, diverged = roll(step, np.zeros((0, 1, 3)), 4)
    assert states.shape == (0, 4, 3)
    assert diverged.shape == (0,)
    states, diverged = roll(step, np.zeros((2, 1, 3)), 0)
    assert states.shape == (2, 0, 3)
    assert diverged.tolist() == [-1, -1]


def field_of(functions, arguments):
    return Flow(Polynomial(np.array([[-1, 3]]), np.zeros((3, 1))), 1.0, 1, np.array(functions), arguments)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"matrix": np.zeros((3, 4))}, r"matrix of StepProgram must have shape \(3, 3\), got \(3, 4\)"),
        ({"history": 2}, r"difference_scale of StepProgram must have shape \(1, 3\), got None"),
        ({"low": np.zeros(2)}, r"low of StepProgram must have shape \(3,\), got \(2,\)"),
        ({"polynomial": Polynomial(np.array([[-1, 3]]), np.zeros((3, 1)))}, "one of 3 features"),
        ({"flow": field_of([[3, 0]], np.ones((1, 2)))}, "functions must name one of 3 features and one of 7 kinds"),
        ({"flow": field_of([[0, 7]], np.ones((1, 2)))}, "functions must name one of 3 features and one of 7 kinds"),
        ({"flow": field_of([[0, 0]], None)}, r"arguments of Flow must have shape \(1, 2\), got None"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(change, message):
    with pytest.raises(InputError, match=message):
        StepProgram(**{"mean": np.zeros(3), "scale": np.ones(3), **change})


def test_inputs_need_their_scale():
    with pytest.raises(InputError, match=r"input_scale of StepProgram must have shape \(2,\), got None"):
        StepProgram(mean=np.zeros(3), scale=np.ones(3), input_mean=np.zeros(2))


def test_windows_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match=r"window must have shape \(B, 1, 3\), got \(2, 3\)"):
        roll(program(), np.zeros((2, 3)), 1)
    with pytest.raises(InputError, match=r"inputs must have shape \(1, 2, 1\), got None"):
        roll(program(inputs=1), np.zeros((1, 1, 3)), 2)
    with pytest.raises(InputError, match="an earlier monomial"):
        Polynomial(np.array([[0, 0]]), np.zeros((3, 1)))


def test_bits_do_not_depend_on_threads_or_neighbours():
    step, rng = program(parts=("linear", "polynomial", "float32"), width=70, depth=10), np.random.default_rng(2)
    window = step.mean + 0.3 * step.scale * rng.standard_normal((37, 1, 3))
    one, two = (roll(step, window, 40, threads=threads)[0] for threads in (1, 3))
    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(one[8:24], roll(step, window[8:24], 40)[0])


def test_more_threads_than_a_machine_can_start_are_refused():
    with pytest.raises(InputError, match=r"threads must be at most \d+ on this machine of \d+ cores, got 100,000"):
        roll(program(), np.zeros((1, 1, 3)), 2, threads=100_000)
    with pytest.raises(InputError, match="threads must be an integer of at least 1, got 0"):
        checked_threads(0)
    most = max(64, 4 * (os.cpu_count() or 1))
    assert checked_threads(most) == most


def test_a_start_that_diverges_at_once_leaves_no_number():
    states, diverged = roll(program(parts=("polynomial",)), np.full((1, 1, 3), 1e200), 4)
    assert diverged.tolist() == [0]
    assert np.isnan(states).all()


def test_an_angle_needs_its_weights():
    step = program(parts=("float64",))
    bare = replace(step.lenses[0], angle_weight=None, angle_bias=None)
    window = np.random.default_rng(0).standard_normal((2, 1, 3))
    want, _ = roll(replace(step, lenses=(bare,)), window, 5)
    got, _ = roll(replace(step, lenses=(replace(bare, angle_bias=step.lenses[0].angle_bias),)), window, 5)
    np.testing.assert_array_equal(got, want)


def first_true(rows):
    return [int(np.argmax(row)) if row.any() else -1 for row in rows]


@pytest.mark.parametrize("starts", [1, 4, 8, 11])
@pytest.mark.parametrize("case", ["linear", "flow", "two lenses, wide"])
def test_states_outside_the_watched_box_are_marked(case, starts):
    step, rng = program(**CASES[case]), np.random.default_rng(2)
    window = step.mean + 0.3 * step.scale * rng.standard_normal((starts, step.history, step.size))
    states = track(step, window, 6).states
    np.testing.assert_array_equal(states[:, 0], window[:, -1])
    low, high = np.quantile(states, [0.05, 0.95], axis=(0, 1))
    watched = replace(step, watch_low=low, watch_high=high)
    found = track(watched, window, 6)
    np.testing.assert_array_equal(found.states, states)
    assert found.marks[0].tolist() == [-1] * starts
    assert found.marks[1].tolist() == first_true(((states < low) | (states > high)).any(axis=-1))
    assert marked(states.copy(), low, high).marks.tolist() == found.marks.tolist()
    wide = replace(step, watch_low=states.min(axis=(0, 1)), watch_high=states.max(axis=(0, 1)))
    assert track(wide, window, 6).marks is None


def squared(rows, steps):
    """The states of x + x^2 after rows (B, 1, 1), with the start in front: (B, steps + 1, 1)."""
    states = [rows[:, 0]]
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(steps):
            states.append(states[-1] + states[-1] ** 2)
    return np.stack(states, axis=1)


@pytest.mark.parametrize("fused", [True, False])
def test_marks_count_from_the_start_and_end_with_divergence(fused):
    square = Polynomial(np.array([[-1, 0], [0, 0]]), np.array([[0.0, 1.0]]))
    step = StepProgram(
        np.zeros(1), np.ones(1), polynomial=square, watch_low=np.array([-1.0]), watch_high=np.array([9.0])
    )
    window = np.array([1e-9, 1e100, 1.0, -0.5, 50.0, 1e200]).reshape(-1, 1, 1)
    for rows in (window, *window[:, None]):  # in one tile, and each alone
        found = track(step, rows, 12) if fused else marked(squared(rows, 12), step.watch_low, step.watch_high)
        want = {1e-9: [-1, -1], 1e100: [2, 0], 1.0: [11, 3], -0.5: [-1, -1], 50.0: [8, 0], 1e200: [1, 0]}
        marks = [[-1] * len(rows)] * 2 if found.marks is None else found.marks.tolist()
        assert np.transpose(marks).tolist() == [want[x] for x in rows.ravel()]
        for states, lost in zip(found.states, marks[0], strict=True):
            assert np.isfinite(states[: lost if lost >= 0 else None]).all()
            assert lost < 0 or np.isnan(states[lost:]).all()


def test_read_only_windows_serve():
    step, window = program(), np.zeros((2, 1, 3))
    want, _ = roll(step, window, 3)
    window.setflags(write=False)
    np.testing.assert_array_equal(roll(step, window, 3)[0], want)


def test_a_program_that_the_kernel_does_not_know_is_refused():
    step = program(parts=("float64",))
    uneven = replace(step.lenses[0], centers=(*step.lenses[0].centers[:-1], 9.0))
    with pytest.raises(InputError, match="does not serve this program"):
        roll(replace(step, lenses=(uneven,)), np.zeros((1, 1, 3)), 2)
