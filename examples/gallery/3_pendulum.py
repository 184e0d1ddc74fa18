"""Angles and a periodic drive.

A driven pendulum that turns over, given by its angle, its speed and the phase of the drive. Sines and cosines of
angles are among the terms of the vector fields that a fit tries, so it finds the law: seven numbers. The page of such
a model shows its equations.
"""

import numpy as np
from scipy.integrate import solve_ivp

import lln


def slope(_: float, state: np.ndarray) -> list[float]:
    """Time derivatives of the angle, the speed and the phase of the drive."""
    angle, speed, phase = state
    return [speed, -np.sin(angle) - 0.1 * speed + 1.2 * np.cos(phase), 0.7]


times = 0.2 * np.arange(1100)
states = solve_ivp(slope, (0.0, times[-1]), [0.1, 0.0, 0.0], t_eval=times, rtol=1e-10, atol=1e-10).y.T
model = lln.LensForecaster().fit(states[:800], dt=0.2, names=["angle", "speed", "phase"])
figure = model.rollout(steps=300).plot(truth=states[800:], title="A driven pendulum: an unseen stretch")
