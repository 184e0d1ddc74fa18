import numpy as np
import pytest
import torch

from lln.core.errors import InputError
from lln.data.series import Dataset, Series
from lln.evaluate import LyapunovSpectrum, lyapunov_spectrum
from lln.forecaster.references.simple import LinearReference
from lln.forecaster.scoring.lyapunov import learned_lyapunov, lyapunov_table, spectra_beside
from lln.models import build
from lln.step.frame import Frame
from lln.step.step import DenseStep
from lln.systems import preset, simulate

RNG = np.random.default_rng(0)


def surrogate(model="lens", history=2, inputs=1, members=2, dtype=torch.float32, n=3):
    features = n * history + inputs
    frame = Frame(
        mean=RNG.standard_normal(n),
        scale=np.resize([1.0, 10.0, 0.1], n),
        history=history,
        difference_scale=np.full((history - 1, n), 0.2),
        input_mean=np.ones(inputs),
        input_scale=np.full(inputs, 2.0),
        matrix=0.05 * RNG.standard_normal((n, features)),
        offset=0.1 * RNG.standard_normal(n),
        gain=np.resize([0.1, 0.2, 0.3], n),
    )
    options = {"width": 8, "depth": 3}
    networks = [
        build(model, features, n, **options, generator=torch.Generator().manual_seed(k)).to(dtype)
        for k in range(members)
    ]
    return DenseStep(frame, tuple(networks))


def test_differences_serve_where_there_is_no_jacobian():
    class Opaque:
        def __init__(self, inner):
            self.frame, self.rollout = inner.frame, inner.rollout

    learned = surrogate(inputs=0)
    windows = learned.frame.mean + RNG.standard_normal((4, 2, 3)) * learned.frame.scale
    exact, opaque = (learned_lyapunov(one, windows, 60, dt=0.1) for one in (learned, Opaque(learned)))
    assert len(exact.exponents) == 3
    np.testing.assert_allclose(opaque.exponents, exact.exponents, atol=0.05)


def test_a_linear_map_and_its_delayed_form_have_the_same_exponents():
    matrix = np.array([[0.97, -0.2], [0.2, 0.97]])
    states = [np.array([1.0, 0.0])]
    for _ in range(300):
        states.append(matrix @ states[-1])
    dataset = Dataset((Series(np.array(states)),), dt=0.5)
    expected = np.log(np.hypot(0.97, 0.2)) / 0.5
    for history in (1, 2):
        linear = LinearReference(history, 1e-12 if history == 2 else 0.0).fit(dataset)
        found = learned_lyapunov(DenseStep(linear.frame), np.array(states[:history]), 300, dt=0.5, transient=300)
        np.testing.assert_allclose(found.exponents, expected, atol=1e-3)


def test_it_agrees_with_the_map_itself():
    learned = surrogate(history=1, inputs=0, members=1)
    starts = learned.frame.mean + RNG.standard_normal((4, 1, 3)) * learned.frame.scale
    plain = lyapunov_spectrum(lambda x: learned.rollout(x[:, None], 1)[:, 0], starts[:, 0], 40,
                              scale=0.05 * learned.frame.scale / 6e-6)  # fmt: skip
    np.testing.assert_allclose(learned_lyapunov(learned, starts, 40).exponents, plain.exponents, atol=0.01)


def test_windows_of_the_wrong_shape():
    with pytest.raises(InputError, match=r"windows must be \(\.\.\., 2, 3\), oldest state first, got \(1, 3\)"):
        learned_lyapunov(surrogate(), np.ones((1, 3)), 20)


def test_spectra_stand_side_by_side():
    true = LyapunovSpectrum(np.array([0.906, 0.0, -14.57]), np.full(3, 0.002), 1e4)
    lost = LyapunovSpectrum(np.full(3, np.nan), np.full(3, np.nan), 0.0, 12)
    text = lyapunov_table({"true": true, "learned": lost}).to_markdown()
    assert "0.906 ± 0.002" in text
    assert "2.06" in text
    assert [cell.strip() for cell in text.splitlines()[-1].split("|")[1:-1]] == ["learned", "-", "-", "-", "-"]


def test_a_few_directions_of_a_large_state_go_by_differences():
    learned = surrogate(history=1, inputs=0, members=1, n=5)
    learned.frame.matrix[:] -= np.diag([0.1, 0.3, 0.5, 0.6, 0.7])  # orbits that stay, and exponents that lie apart
    learned = learned.replace()
    windows = learned.frame.mean + RNG.standard_normal((4, 1, 5)) * learned.frame.scale
    one = learned_lyapunov(learned, windows, 400, count=1)
    assert one.largest == pytest.approx(learned_lyapunov(learned, windows, 400).largest, abs=0.01)


def test_the_true_system_stands_beside_the_learned_step():
    system = preset("lorenz-28")
    truth = simulate(system, 2000, dtype="float64")[500:]

    class Known:
        frame = LinearReference(1, 0.0).fit(Dataset((Series(truth),), dt=system.dt)).frame

        @staticmethod
        def rollout(window, steps, _inputs=None):
            return simulate(system, steps, starts=window[:, -1], dtype="float64")[:, 1:]

    found = spectra_beside(Known(), truth[:, None], system.dt, system, count=1)
    # A learned step that is the system itself has its exponent; the errors are the estimates' own.
    gap = abs(found["learned"].largest - found["true"].largest)
    assert gap < 4 * np.hypot(found["learned"].error[0], found["true"].error[0])
    assert found["true"].largest == pytest.approx(0.906, rel=0.03)
    assert set(spectra_beside(Known(), truth[:20, None], system.dt)) == {"learned"}
