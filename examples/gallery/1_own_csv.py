"""Your own CSV.

A table of measurements with dates becomes a model and a forecast with dates in three lines: fit, rollout, plot.
"""

import numpy as np
import pandas as pd

import lln

days = pd.date_range("2023-01-01", periods=400)
swing = 0.25 * np.arange(400)
noise = 0.05 * np.random.default_rng(0).normal(size=(400, 2))
table = pd.DataFrame({"date": days, "level": 2 + np.sin(swing) + noise[:, 0], "flow": np.cos(swing) + noise[:, 1]})
table.to_csv("river.csv", index=False)

model = lln.LensForecaster().fit("river.csv")
future = model.rollout(steps=60, level=0.9)
print(future.to_pandas().tail(2))
figure = future.plot(title="river.csv: the next 60 days, with 90 % intervals")
