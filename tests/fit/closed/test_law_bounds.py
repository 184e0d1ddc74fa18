import numpy as np
from scipy.integrate import solve_ivp

from lln import LensForecaster


def lorenz(start: list[float], rows: int) -> np.ndarray:
    def law(_, s):
        return [10 * (s[1] - s[0]), s[0] * (28 - s[2]) - s[1], s[0] * s[1] - 8 / 3 * s[2]]

    times = 0.05 * np.arange(rows)
    return solve_ivp(law, (0, times[-1]), start, t_eval=times, rtol=1e-11, atol=1e-11).y.T


def test_a_vector_field_that_is_the_law_is_not_kept_near_the_rows():
    rows = lorenz([1.0, 1.0, 25.0], 400)[50:]
    model = LensForecaster(parts=("flow",)).fit(rows, dt=0.05)
    outside = lorenz([5.0, 5.0, 80.0], 8)
    assert outside[1, 2] > rows[:, 2].max() + 0.4 * np.ptp(rows[:, 2])
    np.testing.assert_allclose(model.rollout(outside[0], steps=7).predicted, outside[1:], atol=0.1)
