"""A seasonal series.

One column with a season. A model that looks at several past values (a history) finds the season by itself.
"""

import numpy as np

import lln

months = np.arange(240)
series = 10 + 0.01 * months + 2 * np.sin(2 * np.pi * months / 12) + 0.6 * np.cos(4 * np.pi * months / 12)
model = lln.LensForecaster(members=1, epochs=3, history=6).fit(series[:200, None], dt=1.0, names=["sales"])
future = model.rollout(steps=40)
figure = future.plot(truth=series[200:, None], title="a seasonal series: forecast of 40 unseen months")
