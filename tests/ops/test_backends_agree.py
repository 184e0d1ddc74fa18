import dataclasses
import math

import numpy as np
import pytest
import torch

import lln
from lln.ops import backends, drift, explain
from lln.ops.cpu import backend as cpu_backend
from lln.ops.cpu.simd import levels
from tests.contracts.operator_cases import (
    FAR,
    NAMES,
    SIZES,
    assert_far_tails,
    assert_twice_naive,
    far_case,
    make_case,
    naive,
    poison,
    run,
)

HERE = [
    pytest.param("cpu", marks=pytest.mark.skipif(cpu_backend.unavailable() is not None, reason="no CPU kernels here")),
    "eager",
]


@pytest.mark.parametrize("backward", ["recompute", "inverse"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("backend", HERE)
def test_errs_at_most_twice_as_much_as_naive_float32(backend, size, backward):
    case = make_case(*size)
    poison(case.y.shape, case.coefficients.shape)
    assert_twice_naive(case, run(case, backend=backend, backward=backward))


@pytest.mark.parametrize("backend", HERE)
def test_paper_sized_stack(backend):
    case = make_case(64, 128, 40, 12, spread=1.0, strength=0.02)
    assert_twice_naive(case, run(case, backend=backend))


# One ray, one control point, very wide, and so deep that a stored path would not fit: coefficients shrink with the
# depth, as a horizon that is cut into more layers asks for.
EXTREMES = {
    "one of everything": {"rows": 1, "width": 1, "depth": 1, "basis": 1},
    "one ray, one point, deep": {"rows": 3, "width": 1, "depth": 50, "basis": 1, "strength": 0.01},
    "4096 rays": {"rows": 2, "width": 4096, "depth": 2, "basis": 12},
    "10,000 layers": {"rows": 2, "width": 3, "depth": 10_000, "basis": 4, "strength": 1e-4},
    "64 points": {"rows": 5, "width": 16, "depth": 2, "basis": 64},
    "denormal rays": {"rows": 5, "width": 17, "depth": 3, "basis": 12, "spread": 1e-40},
    "denormal lenses": {"rows": 5, "width": 17, "depth": 3, "basis": 12, "strength": 1e-40},
}


@pytest.mark.parametrize("size", EXTREMES)
@pytest.mark.parametrize("backend", HERE)
def test_extremes_are_held_to_the_same_bound(backend, size):
    case = make_case(**EXTREMES[size])
    results = run(case, backend=backend)
    assert all(torch.isfinite(result).all() for result in results)
    assert_twice_naive(case, results)


@pytest.mark.parametrize("backend", [*HERE, "reference"])
def test_nothing_goes_through_a_deep_stack_at_once(backend):
    case = make_case(rows=0, width=2, depth=100, basis=4)
    y, theta, *_, lenses = run(case, backend=backend)
    assert y.shape == theta.shape == (0, 2)
    assert lenses.shape == (100, 2, 4)
    assert not lenses.any()


def test_very_many_control_points_are_not_compiled():
    many = backends.MOST_BASIS + 1
    case = make_case(rows=2, width=3, depth=1, basis=many)
    said = explain(case.y, case.theta, case.coefficients, case.centers, case.sigma)
    assert said.serves == "eager"
    assert said.reasons["cpu"] == f"it is compiled for up to {many - 1} control points, not {many}"
    assert_twice_naive(case, run(case))


@pytest.mark.parametrize(("position", "ratio"), FAR)
@pytest.mark.parametrize("backend", HERE)
def test_far_tails(backend, position, ratio):
    case = far_case(position, ratio)
    assert_far_tails(case, run(case, backend=backend))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("backend", HERE)
def test_non_finite_rays_stay_where_they_are(backend, value):
    case = make_case(rows=9, width=20)
    case.y[3, 7] = value
    result, plain = run(case, backend=backend)[:2], naive(case)[:2]
    for ours, theirs in zip(result, plain, strict=True):
        assert torch.equal(torch.isnan(ours), torch.isnan(theirs))
        assert torch.equal(torch.isinf(ours), torch.isinf(theirs))


@pytest.mark.parametrize("backend", [*HERE, "reference"])
def test_ensemble_is_its_members_one_by_one(backend):
    case = make_case(rows=5, width=19, members=3)
    whole = run(case, backend=backend)
    for s in range(3):
        fields = ("y", "theta", "coefficients", "grad_y", "grad_theta")
        alone = type(case)(**{**vars(case), **{name: getattr(case, name)[s] for name in fields}})
        for together, single in zip(whole, run(alone, backend=backend), strict=True):
            assert torch.equal(together[s], single)


@pytest.mark.parametrize("backend", [*HERE, "reference"])
@pytest.mark.parametrize("lead", [(), (4,), (2, 3), (0,), (2, 0, 3), (1, 1, 5)])
def test_any_leading_shape(backend, lead):
    case = make_case(rows=1, width=11)
    y = torch.randn(*lead, 11, requires_grad=True)
    ends = lln.lens_transport(y, torch.tanh(y), case.coefficients, *case.optics(), backend=backend)
    ends[1].sum().backward()
    assert ends[0].shape == ends[1].shape == y.grad.shape == y.shape


@pytest.mark.parametrize("backend", HERE)
def test_operands_need_not_be_contiguous(backend):
    case = make_case(rows=6, width=24)
    strided = type(case)(
        **{
            **vars(case),
            "y": case.y.t().contiguous().t(),
            "coefficients": case.coefficients.transpose(1, 2).contiguous().transpose(1, 2),
            "grad_theta": case.grad_theta[:1].expand(6, 24),
        }
    )
    plain = type(case)(**{**vars(strided), "grad_theta": strided.grad_theta.contiguous()})
    for ours, theirs in zip(run(strided, backend=backend), run(plain, backend=backend), strict=True):
        assert torch.equal(ours, theirs)


def test_inputs_are_left_alone():
    case = make_case()
    before = [t.clone() for t in (case.y, case.theta, case.coefficients)]
    run(case)
    assert all(torch.equal(a, b) for a, b in zip(before, (case.y, case.theta, case.coefficients), strict=True))


@pytest.mark.parametrize("backend", [*HERE, "reference"])
def test_the_same_bits_whatever_the_thread_count(backend):
    case = make_case(rows=300, width=200, depth=6)
    before = torch.get_num_threads()
    try:
        results = []
        for threads in (1, 2, 3, 4):
            torch.set_num_threads(threads)
            results.append(run(case, backend=backend))
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


def test_half_precision_is_computed_in_float32():
    case = make_case()
    y, theta = lln.lens_transport(
        case.y.bfloat16(), case.theta.bfloat16(), case.coefficients.bfloat16(), *case.optics()
    )
    wide = [t.bfloat16().float() for t in (case.y, case.theta, case.coefficients)]
    exact, _ = lln.lens_transport(*wide, *case.optics())
    assert y.dtype == theta.dtype == torch.bfloat16
    assert torch.equal(y, exact.bfloat16())


LONG = np.longdouble


def exact(case):
    """Outputs and gradients in extended precision, by plain loops."""
    tensors = (case.y, case.theta, case.coefficients, case.grad_y, case.grad_theta)
    y, theta, lenses, grad_y, grad_theta = (t.double().numpy().astype(LONG) for t in tensors)
    centers, sigma, length, scale = np.array(case.centers, LONG), LONG(case.sigma), LONG(case.length), LONG(case.scale)
    path, grads = [], np.zeros_like(lenses)
    for lens in lenses:
        y = y + length * theta
        path.append(y)
        theta = theta + scale * (lens * np.exp(-(((y[..., None] - centers) / sigma) ** 2))).sum(-1)
    for k in reversed(range(len(lenses))):
        offset = (path[k][..., None] - centers) / sigma
        basis = np.exp(-(offset**2))
        grads[k] = scale * (grad_theta[..., None] * basis).sum(0)
        grad_y = grad_y + scale * (lenses[k] * (-2 / sigma) * offset * basis).sum(-1) * grad_theta
        grad_theta = grad_theta + length * grad_y
    return y, theta, grad_y, grad_theta, grads


@pytest.mark.skipif(np.finfo(LONG).eps > 1e-18, reason="no extended precision here")
@pytest.mark.skipif(cpu_backend.unavailable() is not None, reason="no CPU kernels here")
@pytest.mark.parametrize("level", levels())  # of the processor that runs the tests
@pytest.mark.parametrize("size", SIZES)
def test_float64_errs_near_its_rounding(size, level):
    case = make_case(*size)
    with cpu_backend.forced(level):
        results = run(case, torch.float64, backend="cpu")
    # Twice the error of the naive form. The factored form takes the centres as equally spaced, which the rounding of
    # the centres themselves is not: their error of eps |c| shifts a Gaussian by that over sigma.
    rounding = np.finfo(np.float64).eps * (1.0 + max(map(abs, case.centers)) / case.sigma)
    for name, ours, plain, truth in zip(NAMES, results, naive(case, torch.float64), exact(case), strict=True):
        error, allowed = (float(np.linalg.norm((t.numpy() - truth).astype(float))) for t in (ours, plain))
        assert error <= 2.0 * allowed + rounding * float(np.linalg.norm(truth.astype(float))), name


def test_uneven_centres_go_to_the_reference():
    case = make_case()
    uneven = (*case.centers[:-1], case.centers[-1] + 0.1)
    said = explain(case.y, case.theta, case.coefficients, uneven, case.sigma)
    assert said.serves == "reference"
    assert said.reasons["eager"] == "the centres are not equally spaced"
    with pytest.raises(lln.InputError, match=r"backend 'eager' cannot serve this call: the centres are not equally sp"):
        lln.lens_transport(case.y, case.theta, case.coefficients, uneven, case.sigma, 0.1, backend="eager")
    ends = lln.lens_transport(case.y, case.theta, case.coefficients, uneven, case.sigma, 0.1)
    want = lln.ops.reference.lens_transport(case.y, case.theta, case.coefficients, uneven, case.sigma, 0.1)
    torch.testing.assert_close(ends, want)


def test_explain_names_every_backend():
    case = make_case()
    said = explain(case.y, case.theta, case.coefficients, case.centers, case.sigma)
    assert set(said.reasons) == set(backends.registry)
    assert said.reasons[said.serves] == "serves"
    assert "the operands are on cpu" in said.reasons["triton"]
    wide = explain(case.y.double(), case.theta.double(), case.coefficients.double(), case.centers, case.sigma)
    assert wide.serves == said.serves
    call = backends.Call.of(case.y[None], case.coefficients[None], case.centers, case.sigma)
    half = dataclasses.replace(call, dtype=torch.float16)
    assert backends.refusal("cpu", half) == "it computes in float32 or float64, not torch.float16"


def test_drift_grows_with_the_path_and_not_with_depth():
    def of(horizon: float, depth: int) -> float:
        case = make_case(rows=16, width=32, depth=depth, strength=0.5 / depth, horizon=horizon)
        return drift(case.y, case.theta, case.coefficients, *case.optics())

    assert of(2.0, 20) < 2e-6
    assert of(2.0, 400) < 2e-5
    assert of(200.0, 20) > 10 * of(2.0, 20)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": torch.zeros(7, 36)}, r"y must have shape \(\.\.\., 37\) to fit coefficients, got \(7, 36\)"),
        ({"theta": torch.zeros(7, 1)}, r"theta must have the shape of y, \(7, 37\), got \(7, 1\)"),
        ({"y": torch.zeros(7, 37, dtype=torch.int64)}, r"y must be floating point, got torch.int64; convert it with"),
        ({"coefficients": torch.zeros(3, 37, 0), "centers": ()}, "at least one basis function"),
        ({"coefficients": torch.zeros(37, 12)}, r"coefficients must have shape \(D, h, K\)"),
        ({"centers": (0.0, 1.0)}, r"centers must have shape \(12,\)"),
        ({"theta": torch.zeros(7, 37, device="meta")}, "theta is on meta but y is on cpu; move all operands to one"),
        ({"centers": ("a",) * 12}, r"centers must be numbers, got \('a', 'a'"),
        ({"centers": "abcdefghijkl"}, "centers must be a tensor or a sequence of numbers, got str"),
        ({"y": torch.zeros(7, 37).to_sparse()}, "y must be an ordinary dense tensor, got layout torch.sparse_coo"),
        ({"sigma": 0.0}, "sigma must be above zero, got 0.0"),
        ({"sigma": math.nan}, "sigma must be a finite number, got nan"),
        ({"length": math.inf}, "length must be a finite number, got inf"),
        ({"backend": "cuda"}, "unknown backend 'cuda'; did you mean 'cpu'"),
        ({"backward": "magic"}, "unknown backward 'magic'; expected one of 'recompute', 'inverse'"),
    ],
)
def test_bad_operands_get_one_sentence(change, message):
    case = make_case()
    keys = ("y", "theta", "coefficients", "centers", "sigma", "length", "scale")
    arguments = {**{key: getattr(case, key) for key in keys}, **change}
    with pytest.raises(lln.InputError, match=message):
        lln.lens_transport(**arguments)
