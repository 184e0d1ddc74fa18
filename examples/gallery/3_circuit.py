"""A circuit with a diode.

Chua's circuit, sampled about 30 times in a Lyapunov time. Its diode has two kinks, which no polynomial can fit. A fit
also tries functions of single variables: kinks, saturations, steps, exponentials and reciprocals. Here it finds the
law with one saturation: ten numbers. The page of such a model shows its equations.
"""

import numpy as np
from scipy.integrate import solve_ivp

import lln


def slope(_: float, state: np.ndarray) -> list[float]:
    """Time derivatives of both voltages and of the current."""
    first, second, current = state
    diode = -5 / 7 * first - 3 / 14 * (abs(first + 1) - abs(first - 1))
    return [15.6 * (second - first - diode), first - second + current, -28 * second]


times = 0.08 * np.arange(900)
states = solve_ivp(slope, (0.0, times[-1]), [0.7, 0.1, -0.3], t_eval=times, rtol=1e-10, atol=1e-10, max_step=0.01).y.T
model = lln.LensForecaster().fit(states[100:600], dt=0.08, names=["first", "second", "current"])
figure = model.rollout(steps=200).plot(truth=states[600:], title="Chua's circuit: an unseen stretch")
